//! The peers: each module moves bytes in the fastest way that its peer has, and returns a
//! measurement. Called by `core.rs` for the rows and by `wirespeed-bench peer NAME CASE` for
//! debugging. The modules depend neither on our stack nor on the rows.

pub mod gvisor;
pub mod kernel;
pub mod latency;
pub mod smoltcp;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use kernel::{Path, Settings, transfer};
use rustix::thread::gettid;

use crate::measure::{Cores, Measurement};
use crate::namespace::{enter, enter_new_namespace, ip};

// The kernel's TCP over a veth pair between two network namespaces, with GSO and TSO unless the
// kind is without offloads. The veth pair disappears with its namespaces (`namespace.rs`).

/// The reader's address.
const READER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

/// Two namespaces joined by a veth pair. They are removed on drop.
pub struct Veth {
    writer: File,
    reader: File,
    name: &'static str,
}

/// The pair's MTU and offloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MTU 1500, super-segments and checksum offload.
    Offload,
    /// Packets with 64 bytes of payload and with timestamps. There are no offloads, as on a cable.
    SmallSegments,
}

/// The MTU for headers of IPv4 and TCP with timestamps, and 64 bytes of payload.
pub const SMALL_MTU: usize = 20 + 32 + 64;

impl Veth {
    /// Makes the namespaces and the pair.
    pub fn new(kind: Kind) -> Result<Veth> {
        let prepare = move |name: &str| -> Result<()> {
            if kind == Kind::SmallSegments {
                ip(&format!("link set {name} mtu {SMALL_MTU}"))?;
                without_offload(name)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let (ready, told) = mpsc::channel::<i32>();
            let (release, released) = mpsc::channel::<()>();
            // The reader's thread waits in its namespace while the writer's thread moves one end of
            // the pair into that namespace. `ip` needs the id of a process or thread to name the
            // namespace.
            let reader = scope.spawn(move || -> Result<File> {
                let namespace = enter_new_namespace()?;
                ready
                    .send(gettid().as_raw_nonzero().get())
                    .context("the thread of the other end has ended")?;
                released.recv().context("the other end failed")?;
                prepare("bench1")?;
                ip("addr add 10.99.0.2/24 dev bench1")?;
                ip("link set bench1 up")?;
                Ok(namespace)
            });
            let writer = scope.spawn(move || -> Result<File> {
                let namespace = enter_new_namespace()?;
                let id = told.recv().map_err(|_| anyhow!("the other namespace was not made"))?;
                ip(&format!("link add bench0 type veth peer name bench1 netns {id}"))?;
                prepare("bench0")?;
                ip("addr add 10.99.0.1/24 dev bench0")?;
                ip("link set bench0 up")?;
                release.send(()).context("the thread of the other end has ended")?;
                Ok(namespace)
            });
            let writer = writer.join().map_err(|_| anyhow!("making a namespace panicked"))?;
            let reader = reader.join().map_err(|_| anyhow!("making a namespace panicked"))?;
            let name = match kind {
                Kind::Offload => "veth MTU 1500 with GSO and TSO",
                Kind::SmallSegments => "veth of 64-byte segments without offload",
            };
            Ok(Veth { writer: writer?, reader: reader?, name })
        })
    }

    /// A bulk transfer for `seconds`.
    pub fn bulk(&self, cores: Cores, settings: Settings, seconds: f64) -> Result<Measurement> {
        let path = Path { listen: IpAddr::V4(READER), name: self.name };
        transfer(cores, settings, seconds, &path, || enter(&self.writer), || enter(&self.reader))
    }
}

/// Turns offloads off: checksums are computed, and super-segments are cut, before packets go to the
/// device.
fn without_offload(name: &str) -> Result<()> {
    let off = ["rx", "off", "tx", "off", "sg", "off", "tso", "off", "gso", "off", "gro", "off"];
    let output = Command::new("ethtool").arg("-K").arg(name).args(off).output();
    let output = output.context("starting `ethtool` (install the package ethtool)")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ethtool -K {name}` failed: {}", errors.trim());
    Ok(())
}
