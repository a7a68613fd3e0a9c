//! A gateway that is started and stopped again and again leaves nothing behind. The only test of
//! its program: the descriptors, threads and bytes that are counted are all of the process.

mod guest;

use std::alloc::System;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use guest::{Echo, Guest};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use wirespeed_machine::{Config, Gateway, Vm, VmKind};

const TIMES: usize = 100;
/// What a cycle may leave in memory, on average: less than any structure of a gateway has. Caches
/// of the standard library grow a little.
const BYTES_MAX: usize = 64;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated now.
fn bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Open descriptors by what they are, and threads by their names.
fn used() -> Vec<String> {
    let all = |folder: &str| fs::read_dir(folder).expect("proc(5)").flatten().map(|e| e.path());
    // A descriptor or a thread may be gone by now.
    let descriptors = all("/proc/self/fd").filter_map(|path| fs::read_link(path).ok());
    let descriptors = descriptors.map(|target| target.display().to_string());
    let threads =
        all("/proc/self/task").filter_map(|path| fs::read_to_string(path.join("comm")).ok());
    descriptors.chain(threads).collect()
}

/// A gateway that carries a connection, and stops.
fn runs(echo: &Echo) {
    let (link, machine) = UnixStream::pair().expect("sockets");
    let gateway = Gateway::start(Config {
        policy: format!("[[rule]]\nallow = ['host']\nports = ['{}/tcp']\n", echo.port),
        vms: vec![Vm { kind: VmKind::Stream, fd: link.into() }],
        ..Config::default()
    });
    let gateway = gateway.expect("it starts");
    let mut guest = Guest::on_stream(machine);
    guest.set_address(Ipv4Addr::new(10, 0, 2, 100));
    let to = (Ipv4Addr::new(10, 0, 2, 2), echo.port).into();
    assert_eq!(guest.echo(to, b"again").expect("allowed"), b"again");
    gateway.stop().expect("it ran");
}

/// A gateway that does not begin: its thread finds that the socket is no TAP.
fn fails() {
    let (link, _machine) = UnixStream::pair().expect("sockets");
    let vms = vec![Vm { kind: VmKind::Tap, fd: link.into() }];
    Gateway::start(Config { vms, ..Config::default() }).expect_err("no TAP");
}

fn leaves_nothing(what: &str, cycle: impl Fn() + Sync) {
    // A thread that waits in a call of crate `net` has a descriptor for that until its end.
    let once = || thread::scope(|scope| scope.spawn(&cycle).join()).expect("a cycle");
    once();
    let (before, bytes_before) = (used(), bytes());
    for _ in 0..TIMES {
        once();
    }
    // The kernel lists a thread for a moment after others have waited for its end.
    let since = Instant::now();
    while used().len() != before.len() && since.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    let after = used();
    assert_eq!(after.len(), before.len(), "{what}: {after:?}, and before {before:?}");
    let left = bytes().saturating_sub(bytes_before);
    assert!(left <= TIMES * BYTES_MAX, "{what}: {left} bytes are left of {TIMES}");
}

#[test]
fn a_hundred_gateways_leave_no_descriptor_no_thread_and_no_memory() {
    let echo = Echo::new();
    leaves_nothing("gateways that ran", || runs(&echo));
    leaves_nothing("gateways that did not begin", fails);
}
