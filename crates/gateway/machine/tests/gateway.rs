//! A gateway in this process, with a small stack of ours in the place of a virtual machine, and
//! servers of this machine's loopback address behind the gateway.

mod guest;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::{Arc, Mutex};

use guest::{Echo, Guest};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wirespeed_machine::{Config, Error, Gateway, Net6, Vm, VmKind};

/// The address that stands for the host.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Error numbers of Linux.
const INVALID: i32 = 22;
const IN_USE: i32 = 98;

/// Rules that allow one port of the host.
fn only(port: u16) -> String {
    format!("[[rule]]\nallow = ['host']\nports = ['{port}/tcp']\n")
}

fn config(policy: String, kind: VmKind, fd: std::os::fd::OwnedFd) -> Config {
    Config { policy, vms: vec![Vm { kind, fd }], net6: Net6::Off, ..Config::default() }
}

fn at(port: u16) -> SocketAddr {
    (HOST, port).into()
}

#[test]
fn a_machine_gets_an_address_and_reaches_what_is_allowed_alone() {
    let (echo, other) = (Echo::new(), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let refused = other.local_addr().expect("an address").port();
    let (link, machine) = UnixStream::pair().expect("sockets");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = lines.clone();
    let gateway = Gateway::start(Config {
        log: Some(Box::new(move |line| log.lock().expect("lines").push(line.to_owned()))),
        ..config(only(echo.port), VmKind::Stream, link.into())
    });
    let gateway = gateway.expect("it starts");
    assert_eq!(gateway.networks()[0].gateway, IpAddr::V4(HOST));
    let mut guest = Guest::on_stream(machine);
    assert_eq!(guest.lease(), Ipv4Addr::new(10, 0, 2, 100));
    assert_eq!(
        guest.echo(at(echo.port), b"over the gateway").expect("allowed"),
        b"over the gateway"
    );
    let why = guest.echo(at(refused), b"x").expect_err("no rule allows it");
    assert_eq!(why.kind(), ErrorKind::ConnectionRefused, "{why}");
    gateway.stop().expect("it ran");
    let lines = lines.lock().expect("lines");
    let verdicts = ["allow", "deny"].map(|one| format!("\"verdict\":\"{one}\""));
    for verdict in verdicts {
        assert!(lines.iter().any(|line| line.contains(&verdict)), "{verdict}: {lines:?}");
    }
}

#[test]
fn several_gateways_run_in_one_process_and_know_nothing_of_each_other() {
    let echoes = [Echo::new(), Echo::new()];
    let made = echoes.iter().map(|echo| {
        let (link, machine) = UnixDatagram::pair().expect("sockets");
        let gateway = Gateway::start(config(only(echo.port), VmKind::Datagram, link.into()));
        (gateway.expect("it starts"), Guest::on_datagrams(machine))
    });
    let mut made: Vec<(Gateway, Guest)> = made.collect();
    for (own, (_, guest)) in made.iter_mut().enumerate() {
        guest.set_address(Ipv4Addr::new(10, 0, 2, 100));
        assert_eq!(guest.echo(at(echoes[own].port), b"own").expect("allowed"), b"own");
        guest.echo(at(echoes[1 - own].port), b"other").expect_err("the other gateway's rule");
    }
    let (first, _) = made.swap_remove(0);
    first.stop().expect("it ran");
    let (second, guest) = &mut made[0];
    assert_eq!(guest.echo(at(echoes[1].port), b"still").expect("it runs on"), b"still");
    assert!(!second.has_ended());
}

#[test]
fn a_mistake_is_an_error_that_says_what_to_do() {
    let start = |change: &dyn Fn(&mut Config)| {
        let (link, _machine) = UnixStream::pair().expect("sockets");
        let mut config = config(String::new(), VmKind::Stream, link.into());
        change(&mut config);
        Gateway::start(config).map(drop).expect_err("it does not start")
    };
    let no_machine = start(&|config| config.vms.clear());
    assert!(matches!(&no_machine, Error::Config(why) if why.contains("vms")), "{no_machine}");
    let policy = start(&|config| config.policy = "[[rule]]\nallow = ['???']\n".to_owned());
    assert!(matches!(&policy, Error::Config(why) if why.contains("policy:2")), "{policy}");
    for ask in ["[[rule]]\nask = ['any']\n", "default = 'ask'\n"] {
        let asks = start(&|config| config.policy = ask.to_owned());
        assert!(
            matches!(&asks, Error::Config(why) if why.contains("nobody can be asked")),
            "{asks}"
        );
    }
    let mtu = start(&|config| config.mtu = 100);
    assert!(matches!(&mtu, Error::Config(why) if why.contains("576")), "{mtu}");
    let network = start(&|config| config.net4 = "10.0.0.0/31".parse().expect("a network"));
    assert!(matches!(&network, Error::Config(why) if why.contains("/29")), "{network}");
    let kind = start(&|config| config.vms[0].kind = VmKind::Tap);
    assert!(matches!(kind, Error::Begin { errno: Some(INVALID), .. }), "{kind}");
    let kind = start(&|config| config.vms[0].kind = VmKind::Datagram);
    assert!(
        matches!(&kind, Error::Begin { why, .. } if why.contains("no datagram socket")),
        "{kind}"
    );
    let kind = start(&|config| config.vms[0].kind = VmKind::VhostUser);
    assert!(matches!(&kind, Error::Begin { why, .. } if why.contains("listen")), "{kind}");
    let kind = start(&|config| {
        let (datagrams, _) = UnixDatagram::pair().expect("sockets");
        config.vms[0].fd = datagrams.into();
    });
    assert!(
        matches!(&kind, Error::Begin { why, .. } if why.contains("no stream socket")),
        "{kind}"
    );
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let publish = format!("[[publish]]\nport = '127.0.0.1/{port}:80'\n");
    let taken = start(&|config| config.policy.clone_from(&publish));
    let says = |why: &str, errno| errno == Some(IN_USE) && why.contains("another one");
    assert!(matches!(&taken, Error::Begin { why, errno } if says(why, *errno)), "{taken:?}");
}

#[test]
fn nothing_of_the_process_changes() {
    let before = getrlimit(Resource::Nofile);
    let lower = Rlimit { current: Some(512), ..before };
    setrlimit(Resource::Nofile, lower).expect("it is less");
    let own_mask = SigSet::thread_get_mask().expect("a mask");
    let echo = Echo::new();
    let (link, machine) = UnixStream::pair().expect("sockets");
    let (send_mask, mask) = std::sync::mpsc::channel();
    let gateway = Gateway::start(Config {
        log: Some(Box::new(move |_| {
            let _ = send_mask.send(SigSet::thread_get_mask());
        })),
        ..config(only(echo.port), VmKind::Stream, link.into())
    });
    let gateway = gateway.expect("it starts");
    let mut guest = Guest::on_stream(machine);
    guest.set_address(Ipv4Addr::new(10, 0, 2, 100));
    assert_eq!(guest.echo(at(echo.port), b"x").expect("allowed"), b"x");
    gateway.stop().expect("it ran");
    let mask = mask.recv().expect("a line of the log").expect("a mask");
    for (signal, is_blocked) in [
        (Signal::SIGTERM, true),
        (Signal::SIGCHLD, true),
        (Signal::SIGPIPE, true),
        (Signal::SIGSEGV, false),
    ] {
        assert_eq!(mask.contains(signal), is_blocked, "{signal}");
    }
    assert_eq!(SigSet::thread_get_mask().expect("a mask"), own_mask);
    assert_eq!(getrlimit(Resource::Nofile).current, Some(512));
}

#[test]
fn a_callback_that_panics_is_an_error_of_the_gateway() {
    let echo = Echo::new();
    let (link, machine) = UnixStream::pair().expect("sockets");
    let gateway = Gateway::start(Config {
        log: Some(Box::new(|_| panic!("a mistake of the program"))),
        ..config(only(echo.port), VmKind::Stream, link.into())
    });
    let gateway = gateway.expect("it starts");
    let mut guest = Guest::on_stream(machine);
    guest.set_address(Ipv4Addr::new(10, 0, 2, 100));
    // The line about this one panics.
    let _ = guest.echo(at(1), b"x");
    let why = gateway.stop().expect_err("it panicked");
    assert!(matches!(&why, Error::Ended(text) if text.contains("callback")), "{why}");
}
