//! Server and client, joined by streams in memory; and calls that our client never makes.

mod at_once;
mod away;
mod client;
mod datagrams;
mod files;
mod handles;
mod hostile;
mod listings;
mod messages;
mod owner;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use base::{Instant, KeyedHash};
use rpc::client::Config;
use rpc::server::Server;
use rpc::tasks::{Client, Limits, Servers, serve_stream};
use tokio::io::duplex;

use crate::client::{Nfs, mount};
use crate::limits::RECORD_BYTES;
use crate::proto::Handle;
use crate::server::{Export, Mount, Nfs as Service, OnePort, Secrets};

/// A directory that is removed when this is dropped. The server serves `tree/` in it, and not the
/// files beside `tree/`.
pub(crate) struct Rig {
    pub(crate) dir: PathBuf,
    pub(crate) servers: Arc<Servers>,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::with(false)
    }

    pub(crate) fn with(is_read_only: bool) -> Rig {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wsnfs-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(dir.join("tree")).expect("room");
        fs::write(dir.join("secret"), "not in the tree").expect("room");
        let servers = serving(&dir.join("tree"), is_read_only);
        Rig { dir, servers }
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    /// An RPC client of a program.
    pub(crate) fn client(&self, program: u32) -> Client {
        let servers = self.servers.clone();
        let connect = move || {
            let (near, far) = duplex(1 << 18);
            let from = "192.0.2.1:700".parse().expect("an address");
            let limits = Limits { record_max: RECORD_BYTES, ..Limits::default() };
            tokio::spawn(serve_stream(servers.clone(), far, from, limits));
            core::future::ready(Ok(near))
        };
        let config = Config { record_max: RECORD_BYTES, ..Config::new(program, 3) };
        Client::over_streams(config, 1, connect)
    }

    /// A client of NFS, and the handle of the root.
    pub(crate) async fn nfs(&self) -> (Nfs, Handle) {
        let root = mount(&self.client(crate::mount::PROGRAM), b"/").await.expect("an export");
        (Nfs::over_streams(self.client(crate::proto::PROGRAM)), root)
    }
}

/// RPC servers for a directory, like those of a program that has just started.
pub(crate) fn serving(dir: &Path, is_read_only: bool) -> Arc<Servers> {
    static RUN: AtomicU32 = AtomicU32::new(1);
    let run = RUN.fetch_add(1, Ordering::Relaxed).into();
    let secrets = Secrets { run, ..secrets() };
    let export = Export::open(dir, is_read_only, secrets, clock).expect("a directory");
    Servers::blocking(4, || {
        let mut server = Server::new(KeyedHash::new(1, 2));
        server.add(Service(export.clone()));
        server.add(Mount(export.clone()));
        server.add(OnePort { port: 2_049, has_udp: false });
        server
    })
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Secrets for a server. They are the same in each call, like those of servers in one run.
pub(crate) fn secrets() -> Secrets {
    Secrets { run: 0x1234_5678, lasting: KeyedHash::new(3, 4) }
}

fn clock() -> Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    Instant::from_nanos(START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64 + 1)
}

/// `bytes` bytes, each of which depends on its position.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n * 7 + n / 251 + n / 65_521) as u8).collect()
}
