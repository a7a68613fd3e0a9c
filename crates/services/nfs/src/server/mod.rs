//! The server of one directory: [`Nfs`] and [`Mount`] are services for a server of crate `rpc`.
//!
//! Called by: programs, which pass the calls; a call may block on files. RFC 1813 sections 3.3 and
//! 5.2. No name or link leads out of the directory ([`tree`]). The server does everything as the
//! user who runs it, and ignores credentials. MKNOD is not supported.

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
    /// The key of the hashes in handles and cookies. It has to be the same in each run, because
    /// clients use handles and cookies after a restart.
    pub lasting: KeyedHash,
}

/// A directory that is served, and its state, which all services share.
#[derive(Debug)]
pub struct Export {
    tree: Tree,
    listings: Listings,
    changes: Changes,
    callers: Callers,
    is_read_only: bool,
    /// The verifier is new in each run and after each failure of the disk. Clients that see a new
    /// verifier write data again that may be lost. RFC 1813 3.3.7-a.
    verifier: AtomicU64,
}

/// `Ok` if a procedure has appended its results; otherwise its status.
type Reply = Result<(), Status>;

impl Export {
    /// Serve `dir`. `clock` measures how long files were not used.
    ///
    /// # Errors
    /// `dir` is not a directory that can be opened, or the kernel is older than Linux 5.6.
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

    /// Close files that no call has used for a while. Until then, files that other programs have
    /// removed keep their space. The program that runs the server calls this about every second, on
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
