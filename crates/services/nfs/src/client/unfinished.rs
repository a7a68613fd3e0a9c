//! The temporary file into which a copy to a server writes. A program that stops the copy early can
//! get the file's name and remove the file.
//!
//! Called by: `tree.rs`, programs.

use std::sync::{Mutex, PoisonError};

use super::{Error, Nfs};
use crate::limits::REMOVAL;
use crate::proto::{Handle, Status};

/// The name of a temporary file, on this machine or at a server. Programs may recognise such names,
/// and remove files that a stopped copy has left.
pub(super) fn temporary_name(random: u64) -> String {
    format!(".wirespeed-{random:016x}")
}

/// The unfinished file of one copy to a server.
#[derive(Debug)]
pub struct Unfinished {
    name: String,
    /// The client and the directory of the file, while the file may exist.
    at: Mutex<Option<(Nfs, Handle)>>,
}

impl Unfinished {
    /// The state of one copy. `random` makes the name differ from the names of other copies.
    pub fn new(random: u64) -> Unfinished {
        Unfinished { name: temporary_name(random), at: Mutex::new(None) }
    }

    /// The name of the temporary file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// May the file exist?
    pub fn is_there(&self) -> bool {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(super) fn begin(&self, nfs: &Nfs, dir: Handle) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some((nfs.clone(), dir));
    }

    pub(super) fn end(&self) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Remove the file, if it exists. The call waits for the server.
    ///
    /// # Errors
    /// The call failed; the file may still exist.
    pub async fn remove(&self) -> Result<(), Error> {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((nfs, dir)) = at else { return Ok(()) };
        let nfs = nfs.with_patience(REMOVAL);
        let mut removed = nfs.remove(&dir, self.name.as_bytes()).await;
        if matches!(removed, Err(Error::Status(Status::NoEntry))) {
            // If a CREATE was in flight, it has been carried out by now, or it never arrived.
            removed = match nfs.remove(&dir, self.name.as_bytes()).await {
                Err(Error::Status(Status::NoEntry)) => Ok(()),
                removed => removed,
            };
        }
        if removed.is_ok() {
            self.end();
        }
        removed
    }
}
