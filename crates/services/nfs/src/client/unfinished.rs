//! The temporary file that a copy to a server is writing: a program that stops the copy early can
//! name it and remove it.
//!
//! Called by: `tree.rs`, programs.

use std::sync::{Mutex, PoisonError};

use super::{Error, Nfs};
use crate::limits::REMOVAL;
use crate::proto::{Handle, Status};

/// The name of a temporary file, here or at a server. Other programs may remove such files that a
/// stopped copy left.
pub(super) fn temporary_name(random: u64) -> String {
    format!(".wirespeed-{random:016x}")
}

/// The unfinished file of a copy to a server.
#[derive(Debug)]
pub struct Unfinished {
    name: String,
    /// The directory of the file, while the file may be there.
    at: Mutex<Option<(Nfs, Handle)>>,
}

impl Unfinished {
    /// The state of one copy; `random` makes the name differ from those of others.
    pub fn new(random: u64) -> Unfinished {
        Unfinished { name: temporary_name(random), at: Mutex::new(None) }
    }

    /// The name of the temporary file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// May the file be there?
    pub fn is_there(&self) -> bool {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(super) fn begin(&self, nfs: &Nfs, dir: Handle) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some((nfs.clone(), dir));
    }

    pub(super) fn end(&self) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Remove the file, if it is there. This waits for the server.
    ///
    /// # Errors
    /// There are no results; the file may still be there.
    pub async fn remove(&self) -> Result<(), Error> {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((nfs, dir)) = at else { return Ok(()) };
        let nfs = nfs.with_patience(REMOVAL);
        let mut removed = nfs.remove(&dir, self.name.as_bytes()).await;
        if matches!(removed, Err(Error::Status(Status::NoEntry))) {
            // A CREATE that was under way has been carried out by now, or never arrived.
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
