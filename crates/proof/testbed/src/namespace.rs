//! Network namespaces: `ip netns` makes them, threads enter them, and they are removed when the
//! value is dropped, also after a panic. Names contain the process id, so that concurrent runs do
//! not collide.
//!
//! Called by: `cases.rs`, and tests that need a second host.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Run `ip` in this thread's namespace; `arguments` is split at spaces. True if `ip` succeeded.
pub fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

/// A network namespace, removed on drop.
pub struct Namespace(String);

impl Namespace {
    /// A new namespace with only a loopback interface, which is down; `None` if `ip netns add` is
    /// refused, for instance because it needs root.
    pub fn new() -> Option<Namespace> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wstest-{}-{number}", std::process::id());
        ip(&format!("netns add {name}")).then_some(Namespace(name))
    }

    /// The name of the namespace for `ip netns`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Run `ip` in the namespace. True if `ip` succeeded.
    pub fn ip(&self, arguments: &str) -> bool {
        ip(&format!("-n {} {arguments}", self.0))
    }

    /// Move this thread into the namespace for the rest of the thread's life.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn enter(&self) {
        let file = File::open(format!("/run/netns/{}", self.0)).expect("the namespace was made");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may enter");
    }

    /// Run `f` in the namespace, on a new thread, and wait for its end.
    ///
    /// # Errors
    /// The payload of `f`'s panic.
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> thread::Result<T> {
        thread::scope(|scope| {
            let entered = || {
                self.enter();
                f()
            };
            scope.spawn(entered).join()
        })
    }

    /// A command that runs `program` in the namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !ip(&format!("netns del {}", self.0)) {
            eprintln!("namespace {0} stays; remove it: ip netns del {0}", self.0);
        }
    }
}
