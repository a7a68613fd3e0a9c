//! The network of the bench: a namespace that is the host of the gateways, one with the server, and
//! a veth pair between them. Nothing leaves the machine, and the machine's own network stays as it
//! is. Called by `mod.rs`. The namespaces have no names, so the kernel removes them when this
//! process ends, however it ends.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, anyhow, ensure};

use super::machine::Image;
use super::peers::Peers;
use super::policies;
use super::server::{self, Counted, SERVER, datagrams_received};
use crate::build::Scratch;
use crate::command_line::Programs;
use crate::measure::{Cores, pin};
use crate::namespace::{enter, enter_new_namespace, ip};

/// The ordinary user that runs the gateways: nobody.
pub(super) const USER: u32 = 65_534;

/// The programs and the network of a run.
pub struct World {
    host: File,
    server: File,
    counted: Arc<Counted>,
    /// Copies of the programs, for the ordinary user, who may not enter the workspace.
    pub(super) scratch: Scratch,
    pub(super) wirespeed: PathBuf,
    pub(super) bench: PathBuf,
    peers: Result<Peers, String>,
    /// What machines start from, which is made once.
    image: OnceLock<Result<Image, String>>,
    /// The cores of all: the threads of a row are pinned to one.
    cores: Vec<usize>,
}

impl World {
    /// Makes the network, and copies the programs.
    ///
    /// # Errors
    /// Without root or iproute2, or if a program is missing. Without peers the world is usable;
    /// the rows that need them say why there are none.
    pub(super) fn new(programs: &Programs, cores: Cores) -> Result<World> {
        let wirespeed = programs.wirespeed.as_deref().context("no program to measure is named")?;
        let scratch = Scratch::new()?;
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        open(&scratch.0, 0o755).context("opening a folder to all")?;
        let run = scratch.0.join("run");
        fs::create_dir(&run)?;
        std::os::unix::fs::chown(&run, Some(USER), Some(USER)).context("needs root")?;
        policies::write(&scratch.0)?;
        let wirespeed = copy(wirespeed, &scratch.0.join("wirespeed"))?;
        let own = std::env::current_exe().context("finding this program")?;
        let bench = copy(&own, &scratch.0.join("wirespeed-bench"))?;
        let peers = Peers::find(programs.peers.as_deref(), &scratch.0.join("peers"));
        let peers = peers.map_err(|why| format!("{why:#}"));
        let cores = cores.both();
        let (host, server, counted) = on_thread(&cores, network)?;
        let image = OnceLock::new();
        Ok(World { host, server, counted, scratch, wirespeed, bench, peers, image, cores })
    }

    /// pasta and slirp4netns.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn peers(&self) -> Result<&Peers> {
        self.peers.as_ref().map_err(|why| anyhow!("{why}"))
    }

    /// What a machine starts from.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn image(&self) -> Result<&Image> {
        let made = self.image.get_or_init(|| {
            Image::new(&self.bench, &self.scratch.0).map_err(|why| format!("{why:#}"))
        });
        made.as_ref().map_err(|why| anyhow!("{why}"))
    }

    /// Runs `work` in the namespace of the gateways.
    pub(super) fn at_host<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        within(&self.host, &self.cores, work)
    }

    /// What the server has received so far: bytes of streams, and datagrams.
    pub(super) fn received(&self) -> Result<(u64, u64)> {
        Ok((self.counted.bytes(), within(&self.server, &self.cores, datagrams_received)?))
    }
}

fn copy(from: &Path, to: &Path) -> Result<PathBuf> {
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    Ok(to.to_owned())
}

fn within<T: Send>(
    namespace: &File,
    cores: &[usize],
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    on_thread(cores, || {
        enter(namespace)?;
        work()
    })
}

/// Runs `work` on a thread, so that the namespaces and cores of the caller stay. What it starts has
/// these cores.
fn on_thread<T: Send>(cores: &[usize], work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pinned = || {
        pin(cores)?;
        work()
    };
    std::thread::scope(|scope| scope.spawn(pinned).join())
        .map_err(|_| anyhow!("a thread panicked"))?
}

/// Makes both namespaces. The host's addresses are of the block for benchmarks (RFC 2544 appendix
/// C.2.2), and the server is behind the default route.
fn network() -> Result<(File, File, Arc<Counted>)> {
    let server = enter_new_namespace()?;
    ip("link set lo up")?;
    ip(&format!("addr add {SERVER}/32 dev lo"))?;
    let counted = settings().and_then(|()| server::begin())?;
    let host = enter_new_namespace()?;
    ip("link set lo up")?;
    ip("link add wsbench0 type veth peer name wsbench1")?;
    // A thread enters the other namespace through a process that is there for a moment.
    let cores = Cores::allowed()?.both();
    let parked = Parked::new(&server, &cores)?;
    ip(&format!("link set wsbench1 netns {}", parked.id()))?;
    ip("addr add 198.18.0.1/24 dev wsbench0")?;
    ip("link set wsbench0 up")?;
    within(&server, &cores, || {
        ip("addr add 198.18.0.254/24 dev wsbench1")?;
        ip("link set wsbench1 up")
    })?;
    ip("route add default via 198.18.0.254")?;
    settings()?;
    Ok((host, server, counted))
}

/// Settings of a namespace, for all gateways alike: the ports that connections a second need, pings
/// for all, and a congestion control that does not pace. Some machines permit CUBIC to the first
/// namespace alone; Reno is permitted everywhere, and no segment is lost here.
fn settings() -> Result<()> {
    set("ip_local_port_range", "1024 65535")?;
    set("ping_group_range", "0 2147483647")?;
    set("tcp_congestion_control", "cubic").or_else(|_| set("tcp_congestion_control", "reno"))
}

fn set(name: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/net/ipv4/{name}");
    fs::write(&path, value).with_context(|| format!("writing {path}"))
}

/// A process that waits in a namespace, so that `ip` can name the namespace by the process.
struct Parked(std::process::Child);

impl Parked {
    fn new(namespace: &File, cores: &[usize]) -> Result<Parked> {
        let mut command = std::process::Command::new("cat");
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let child = within(namespace, cores, || command.spawn().context("starting cat"))?;
        ensure!(child.stdin.is_some(), "cat has no input");
        Ok(Parked(child))
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        // It ends with its input, too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
