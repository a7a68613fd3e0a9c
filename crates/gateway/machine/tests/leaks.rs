//! A gateway that is started and stopped again and again leaves nothing behind. The only test of
//! its program: the descriptors and threads that are counted are all of the process.

mod guest;

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use guest::{Echo, Guest};
use wirespeed_machine::{Config, Gateway, Vm, VmKind};

const TIMES: usize = 100;

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

#[test]
fn a_hundred_gateways_leave_no_descriptor_and_no_thread() {
    let echo = Echo::new();
    let cycle = || {
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
    };
    // A thread that waits in a call of crate `net` has a descriptor for that until its end.
    let once = || thread::scope(|scope| scope.spawn(cycle).join()).expect("a cycle");
    once();
    let before = used();
    for _ in 0..TIMES {
        once();
    }
    // The kernel lists a thread for a moment after others have waited for its end.
    let since = Instant::now();
    while used().len() != before.len() && since.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    let after = used();
    assert_eq!(after.len(), before.len(), "{after:?}, and before {before:?}");
}
