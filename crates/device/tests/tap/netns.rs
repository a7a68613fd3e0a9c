//! A network namespace for a case: made by `ip netns`, entered by the thread that runs the case,
//! removed when it ends, however it ends.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Run `ip` in this thread's namespace; true if it was content.
pub(crate) fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

/// A namespace, gone with this.
struct Namespace(String);

impl Namespace {
    fn new() -> Option<Namespace> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wsdev-{}-{number}", std::process::id());
        ip(&format!("netns add {name}")).then_some(Namespace(name))
    }

    fn enter(&self) {
        let file = File::open(format!("/run/netns/{}", self.0)).expect("the namespace was made");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may enter");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !ip(&format!("netns del {}", self.0)) {
            eprintln!("namespace {} stays; remove it: ip netns del {}", self.0, self.0);
        }
    }
}

/// What these tests need and do not find.
pub(crate) fn missing() -> Option<&'static str> {
    if File::options().read(true).write(true).open("/dev/net/tun").is_err() {
        return Some("needs /dev/net/tun, and to be allowed to open it");
    }
    if Command::new("ip").arg("-V").output().is_err() {
        return Some("needs iproute2 (Debian: apt install iproute2)");
    }
    Namespace::new().is_none().then_some("needs root: `ip netns add` was refused")
}

/// What one case needs beyond that, by its name.
pub(crate) fn lacks(case: &str) -> Option<&'static str> {
    let there = !case.contains("tshark") || Command::new("tshark").arg("-v").output().is_ok();
    if !there {
        return Some("needs tshark (Debian: apt install tshark)");
    }
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let there = !case.contains("io_uring") || disabled.is_ok_and(|how| how.trim() == "0");
    (!there).then_some("needs io_uring: Linux 6.6 or later, sysctl kernel.io_uring_disabled=0")
}

/// Run a case in a namespace, on a thread of its own; false if it panicked.
pub(crate) fn run(case: fn()) -> bool {
    let Some(namespace) = Namespace::new() else { return false };
    let outcome = thread::scope(|scope| {
        let inside = || {
            namespace.enter();
            case();
        };
        scope.spawn(inside).join()
    });
    outcome.is_ok()
}
