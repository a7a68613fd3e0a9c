//! The server of one directory: [`Nfs`] and [`Mount`] are services for a server of crate `rpc`.
//!
//! Called by: programs, which bring the calls; calls block on files. RFC 1813 sections 3.3 and 5.2.
//! No name or link leads out of the directory ([`tree`]). Everything is done as the user who runs
//! the server: credentials are ignored. MKNOD is not supported.

mod attributes;
mod dirs;
mod files;
mod handles;
mod kept;
mod listings;
mod names;
mod one_port;
mod search;
mod service;
mod tree;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::KeyedHash;
use kept::{Callers, Changes};
use listings::Listings;
pub use one_port::OnePort;
use rpc::blocking::Clock;
pub use service::{Mount, Nfs};
use tree::Tree;

use crate::proto::Status;

/// Secrets of the server.
#[derive(Clone, Copy, Debug)]
pub struct Secrets {
    /// A random number, a new one for each run.
    pub run: u64,
    /// The key of handles and cookies, the same in each run: both outlive the server.
    pub lasting: KeyedHash,
}

/// A directory that is served; all services share it.
#[derive(Debug)]
pub struct Export {
    tree: Tree,
    listings: Listings,
    changes: Changes,
    callers: Callers,
    is_read_only: bool,
    /// RFC 1813 3.3.7-a: a new one for each run, and after each failure of the disk: clients then
    /// write data again that may be lost.
    verifier: AtomicU64,
}

/// Whether a procedure has appended its results; otherwise its status.
type Reply = Result<(), Status>;

impl Export {
    /// Serve `dir`. `clock` measures how long a file was not used.
    ///
    /// # Errors
    /// `dir` is no directory that can be opened, or the kernel is older than Linux 5.6.
    pub fn open(
        dir: &Path,
        is_read_only: bool,
        secrets: Secrets,
        clock: Clock,
    ) -> io::Result<Arc<Export>> {
        let tree = Tree::open(dir, is_read_only, secrets.lasting, clock);
        let tree = tree.map_err(io::Error::from)?;
        let verifier = AtomicU64::new(secrets.run);
        let (listings, changes) = (Listings::new(secrets.lasting), Changes::default());
        let callers = Callers::default();
        Ok(Arc::new(Export { tree, listings, changes, callers, is_read_only, verifier }))
    }

    /// Close files that no call has used for a while: files that other programs have removed keep
    /// their space until then. The program that runs the server calls this about every second, from
    /// a thread that may wait, because freeing the space of a long file takes a while.
    pub fn close_unused(&self) {
        self.tree.close_unused();
        self.listings.forget_unused((self.tree.clock)());
    }

    fn verifier(&self) -> [u8; 8] {
        self.verifier.load(Ordering::SeqCst).to_be_bytes()
    }

    fn may_change(&self) -> Reply {
        if self.is_read_only { Err(Status::ReadOnly) } else { Ok(()) }
    }
}
