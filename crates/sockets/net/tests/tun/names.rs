//! Names looked up at dnsmasq over a TUN: both address families, aliases, answers that need TCP,
//! names that do not exist, the search list.

use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

use testbed::{Case, Need, Running};
use wirespeed_net::dns::{Config, Hosts, limits};
use wirespeed_net::{Net, TcpSocket, blocking};

use crate::ends::{KERNEL, SOON, kernel_listener, stack};

pub(crate) const CASES: &[Case] = &[
    ("names_from_dnsmasq", &[Need::DNSMASQ], names),
    ("a_connection_by_name_from_dnsmasq", &[Need::DNSMASQ], connection),
];

/// Number of addresses of many.test. They do not fit into a UDP answer of 1,232 bytes.
const MANY: u8 = 200;

/// Starts dnsmasq on the kernel's address. It knows names below `test`, and asks no other server.
fn dnsmasq() -> Running {
    let mut command = Command::new("dnsmasq");
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    command.args(["--pid-file=", "--user=root", "--log-facility=-", "--bind-interfaces"]);
    command.arg(format!("--listen-address={KERNEL}"));
    // dnsmasq answers that names without a dot do not exist, and that it cannot resolve other
    // names.
    command.args(["--local=/test/", "--local-ttl=60", "--domain-needed"]);
    command.arg("--host-record=www.test,192.0.2.80,2001:db8::80");
    command.arg(format!("--host-record=kernel.test,{KERNEL}"));
    command.args(["--cname=alias.test,www.test", "--cname=two.test,alias.test"]);
    for last in 1..=MANY {
        command.arg(format!("--host-record=many.test,198.51.100.{last}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().expect("looked for before"))
}

/// Starts our stack, which asks dnsmasq, and returns once dnsmasq answers.
fn asking() -> (Net, Running) {
    let (stack, _) = stack();
    let dnsmasq = dnsmasq();
    let (net, _driver) = Net::spawn_thread(stack).expect("the thread starts");
    let servers = vec![SocketAddr::new(KERNEL, 53)];
    let config = Config { servers, search: vec!["test".to_owned()], ..Config::default() };
    net.set_resolver(config, Hosts::default()).expect("it runs");
    let answers = || blocking::lookup_host(&net, "kernel.test").is_ok();
    assert!(testbed::until(SOON, answers), "dnsmasq answers");
    (net, dnsmasq)
}

fn names() {
    let (net, _dnsmasq) = asking();
    let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let both = [address("2001:db8::80"), address("192.0.2.80")];
    for name in ["www.test", "WWW.Test.", "www", "alias.test", "two.test"] {
        assert_eq!(blocking::lookup_host(&net, name).expect(name), both, "{name}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let before = net.with_resolver(|r| *r.counts()).expect("it runs");
    assert_eq!((before.truncated, before.tcp_queries), (0, 0));
    let many = runtime.block_on(net.lookup_host("many.test")).expect("by TCP");
    assert_eq!(many.len(), limits::ADDRESSES_MAX);
    let after = net.with_resolver(|r| *r.counts()).expect("it runs");
    assert_eq!((after.truncated, after.tcp_queries), (1, 1), "{after:?}");
    for (name, text) in [
        ("no.test", "there is no host"),
        ("no-such", "there is no host"),
        ("www.example", "no name server can answer"),
    ] {
        let error = blocking::lookup_host(&net, name).expect_err("it is not found");
        assert!(error.to_string().contains(text), "{name}: {error}");
    }
    let families = wirespeed_net::dns::Families::V6;
    let error = runtime.block_on(net.lookup_host_of("kernel.test", families));
    let error = error.expect_err("IPv4 alone").to_string();
    assert!(error.contains("no address of the IP version"), "{error}");
    let drops = net.with_resolver(|r| r.drops().total()).expect("it runs");
    assert_eq!(drops, 0);
}

fn connection() {
    let (net, _dnsmasq) = asking();
    let (listener, at) = kernel_listener();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let socket = TcpSocket::new(&net);
    let stream = runtime
        .expect("a runtime")
        .block_on(socket.connect_host("kernel", at.port()))
        .expect("it listens");
    assert_eq!(stream.peer_addr().ok(), Some(at));
    listener.accept().expect("it has connected");
}
