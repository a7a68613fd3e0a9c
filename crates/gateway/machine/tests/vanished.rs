//! A machine that vanishes: its gateway stays, and sleeps. The only test of its program: the
//! threads that it looks at have one name.

mod guest;

use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use guest::{Echo, Guest};
use wirespeed_machine::{Config, Dns, Gateway, Net6, Vm, VmKind};

/// How long a gateway is looked at.
const WHILE: Duration = Duration::from_secs(2);

/// Processor time of the gateways' threads, in ticks of a hundredth of a second.
fn ticks() -> u64 {
    let all = fs::read_dir("/proc/self/task").expect("proc(5)").flatten();
    let stats = all.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let of_gateways = stats.filter(|stat| stat.contains("(gateway)"));
    // The fields behind the name begin with the third one; the times are the 14th and the 15th.
    let of = |stat: String| -> u64 {
        let fields = stat.rsplit_once(") ").expect("a name").1.split(' ');
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    };
    of_gateways.map(of).sum()
}

fn sleeps(kind: VmKind, link: OwnedFd, machine: impl FnOnce() -> Guest) {
    let echo = Echo::new();
    let gateway = Gateway::start(Config {
        policy: format!("[[rule]]\nallow = ['host']\nports = ['{}/tcp']\n", echo.port),
        vms: vec![Vm { kind, fd: link }],
        net6: Net6::Off,
        dns: Dns::Off,
        ..Config::default()
    });
    let gateway = gateway.expect("it starts");
    let mut guest = machine();
    guest.set_address(Ipv4Addr::new(10, 0, 2, 100));
    let to = (Ipv4Addr::new(10, 0, 2, 2), echo.port).into();
    assert_eq!(guest.echo(to, b"x").expect("allowed"), b"x");
    drop(guest);
    thread::sleep(WHILE / 4);
    let before = ticks();
    thread::sleep(WHILE);
    let used = ticks() - before;
    assert!(!gateway.has_ended());
    gateway.stop().expect("it ran");
    // One that spins uses 200 on an idle machine, and 50 on a busy one.
    assert!(used < 20, "{kind:?}: {used} hundredths of a second in {WHILE:?}");
}

#[test]
fn its_gateway_sleeps() {
    let (link, machine) = UnixStream::pair().expect("sockets");
    sleeps(VmKind::Stream, link.into(), || Guest::on_stream(machine));
    let (link, machine) = UnixDatagram::pair().expect("sockets");
    sleeps(VmKind::Datagram, link.into(), || Guest::on_datagrams(machine));
    let path = std::env::temp_dir().join(format!("machine-vanished-{}", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a path");
    sleeps(VmKind::Stream, listener.into(), || {
        Guest::on_stream(UnixStream::connect(&path).expect("it listens"))
    });
    fs::remove_file(&path).expect("it is ours");
}
