//! Lets threads enter network namespaces that `ip netns` made, for a TAP or sockets there. Linux
//! only.
//!
//! Called by: programs and experiments with a host in a namespace. A thread that enters a namespace
//! stays there, so [`Namespace::inside`] uses a thread of its own.

use core::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where `ip netns` keeps namespaces.
const FOLDER: &str = "/run/netns";

/// Why a namespace could not be entered.
#[derive(Debug)]
pub enum NamespaceError {
    /// There is no namespace of that name.
    Missing(String),
    /// The system refused.
    Refused(String, Errno),
    /// No thread could be started.
    NoThread(io::Error),
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamespaceError::Missing(name) => write!(
                f,
                "there is no network namespace {name}: `ip netns` lists the namespaces, `sudo ip \
                 netns add {name}` makes one"
            ),
            NamespaceError::Refused(name, errno) => write!(
                f,
                "the network namespace {name} cannot be entered ({errno}): run this as root, or \
                 with CAP_SYS_ADMIN"
            ),
            NamespaceError::NoThread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl core::error::Error for NamespaceError {}

/// A reference to a network namespace. The namespace exists at least as long as this reference,
/// even if its name is removed.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Open the namespace of this name.
    ///
    /// # Errors
    /// [`NamespaceError::Missing`].
    pub fn named(name: &str) -> Result<Namespace, NamespaceError> {
        let missing = || NamespaceError::Missing(name.to_owned());
        if name.is_empty() || name.contains('/') {
            return Err(missing());
        }
        let file = File::open(Path::new(FOLDER).join(name)).map_err(|_| missing())?;
        Ok(Namespace { name: name.to_owned(), file })
    }

    /// Move this thread into the namespace; the thread stays there.
    ///
    /// # Errors
    /// [`NamespaceError::Refused`].
    pub fn enter(&self) -> Result<(), NamespaceError> {
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| NamespaceError::Refused(self.name.clone(), errno))
    }

    /// Run `what` in the namespace, on a thread that ends afterwards.
    ///
    /// # Errors
    /// [`NamespaceError`].
    ///
    /// # Panics
    /// If `what` panics.
    pub fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        std::thread::scope(|scope| {
            let entered = || self.enter().map(|()| what());
            let name = self.name.clone();
            let spawned = std::thread::Builder::new().name(name).spawn_scoped(scope, entered);
            match spawned.map_err(NamespaceError::NoThread)?.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_and_paths_are_no_names() {
        for name in ["", "no-such-namespace", "../self/ns/net", "/proc/self/ns/net"] {
            let error = Namespace::named(name).expect_err("there is none");
            assert!(matches!(error, NamespaceError::Missing(_)), "{name}: {error}");
        }
        let error = Namespace::named("none-of-that").expect_err("there is none");
        assert!(error.to_string().contains("`sudo ip netns add none-of-that`"), "{error}");
    }
}
