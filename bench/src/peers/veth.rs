//! The kernel's TCP over a veth pair between two network namespaces, GSO and TSO on.
//! Called by `core.rs` and by `wirespeed-bench peer kernel veth-gso`.
//! The veth pair goes with its namespaces (`namespace.rs`).

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use rustix::thread::gettid;

use super::kernel::{Path, Settings, transfer};
use crate::measure::{Cores, Measurement};
use crate::namespace::{enter, enter_new_namespace, ip};

/// The reader's address.
const READER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

/// Two namespaces joined by a veth pair of MTU 1500. Dropping it removes all of it.
pub struct Veth {
    writer: File,
    reader: File,
}

impl Veth {
    /// Makes the namespaces and the pair.
    pub fn new() -> Result<Veth> {
        thread::scope(|scope| {
            let (ready, told) = mpsc::channel::<i32>();
            let (release, released) = mpsc::channel::<()>();
            // The reader's thread waits in its namespace while the writer's, whose `ip` needs
            // a process or thread to name it by, pushes one end of the pair into it.
            let reader = scope.spawn(move || -> Result<File> {
                let namespace = enter_new_namespace()?;
                ready.send(gettid().as_raw_nonzero().get()).context("the other end is gone")?;
                released.recv().context("the other end failed")?;
                ip("addr add 10.99.0.2/24 dev bench1")?;
                ip("link set bench1 up")?;
                Ok(namespace)
            });
            let writer = scope.spawn(move || -> Result<File> {
                let namespace = enter_new_namespace()?;
                let id = told.recv().map_err(|_| anyhow!("the other namespace was not made"))?;
                ip(&format!("link add bench0 type veth peer name bench1 netns {id}"))?;
                ip("addr add 10.99.0.1/24 dev bench0")?;
                ip("link set bench0 up")?;
                release.send(()).context("the other end is gone")?;
                Ok(namespace)
            });
            let writer = writer.join().map_err(|_| anyhow!("making a namespace panicked"))?;
            let reader = reader.join().map_err(|_| anyhow!("making a namespace panicked"))?;
            Ok(Veth { writer: writer?, reader: reader? })
        })
    }

    /// Bytes one way for `seconds`.
    pub fn bulk(&self, cores: Cores, settings: Settings, seconds: f64) -> Result<Measurement> {
        let path = Path { listen: IpAddr::V4(READER), name: "veth MTU 1500 with GSO and TSO" };
        transfer(cores, settings, seconds, &path, || enter(&self.writer), || enter(&self.reader))
    }
}
