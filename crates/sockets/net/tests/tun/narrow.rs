//! Path MTU discovery (RFC 1191, RFC 8201). The kernel routes between our TUN interface and a host
//! in another namespace, over a link whose MTU is smaller than the MTU at either end.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread;

use base::{Cidr, Counter, Limit, LinkKind};
use device::tap::{Config, Setup, Tap};
use stack::{PortConfig, Route, Stack, StackConfig};
use testbed::{Case, Namespace};
use wirespeed_net::{Net, blocking};

use crate::ends::{SOON, assert_reads, ip, pattern};

pub(crate) const CASES: &[Case] = &[
    ("a_path_with_a_narrow_link_is_found_and_carries_a_transfer_v4", &[], v4),
    ("a_path_with_a_narrow_link_is_found_and_carries_a_transfer_v6", &[], v6),
];

/// The smallest MTU that IPv6 allows (RFC 8200 section 5).
const NARROW_MTU: usize = 1280;

/// Our network and the host's network: the prefix length, and in each network the address of the
/// router and of the end.
struct Plan {
    prefix_len: u8,
    near: [&'static str; 2],
    far: [&'static str; 2],
}

fn v4() {
    transfers(&Plan {
        prefix_len: 24,
        near: ["10.77.0.1", "10.77.0.2"],
        far: ["10.78.0.1", "10.78.0.2"],
    });
}

fn v6() {
    transfers(&Plan { prefix_len: 64, near: ["fd77::1", "fd77::2"], far: ["fd78::1", "fd78::2"] });
}

/// The namespace of the host, to which this namespace routes. The MTU is smaller only at our side
/// of the link between them.
fn host(plan: &Plan) -> Namespace {
    let host = Namespace::new().expect("root may");
    let Plan { prefix_len, near: [router, _], far: [gateway, address] } = plan;
    ip(&format!("link add ws1 type veth peer name ws2 netns {}", host.name()));
    for (namespace, link, own) in
        [("", "ws1", gateway), (&format!("-n {} ", host.name()), "ws2", address)]
    {
        let nodad = if own.contains(':') { " nodad" } else { "" };
        ip(&format!("{namespace}addr add {own}/{prefix_len} dev {link}{nodad}"));
        ip(&format!("{namespace}link set {link} up"));
    }
    let version = if router.contains(':') { "-6 " } else { "" };
    assert!(host.ip(&format!("{version}route add default via {gateway}")));
    ip(&format!("link set ws1 mtu {NARROW_MTU}"));
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{file}"), "1").expect("root may route");
    }
    host
}

fn cidr(addr: IpAddr, prefix_len: u8) -> Cidr {
    Cidr::new(addr, prefix_len).expect("a short prefix")
}

/// A stack whose packets to the host pass the router.
fn stack(plan: &Plan) -> Stack {
    let [router, ours] = plan.near.map(|a| a.parse().expect("an address"));
    let config = Config { name: Some("ws0".to_owned()), link: LinkKind::Ip, ..Config::default() };
    let mut tap = Tap::open(&config).expect("root opens a TUN");
    let addresses = vec![cidr(router, plan.prefix_len)];
    tap.configure(&Setup { addresses, up: true, ..Setup::default() }).expect("root sets it up");
    let mut config = StackConfig::new([3, 14]);
    config.budget.set(Limit::MbufBytes, 64 << 20);
    let mut stack = Stack::new(config);
    let addresses = vec![cidr(ours, plan.prefix_len)];
    let port = stack.add_port(Box::new(tap), PortConfig { addresses, ..PortConfig::default() });
    let far = plan.far[0].parse().expect("an address");
    let dest = cidr(far, plan.prefix_len);
    stack.add_route(Route::new(dest, Some(router), port.0));
    stack
}

fn transfers(plan: &Plan) {
    let host = host(plan);
    let (net, driver) = Net::spawn_thread(stack(plan)).expect("the thread starts");
    let at: IpAddr = plan.far[1].parse().expect("an address");
    let listening = host.inside(|| TcpListener::bind(SocketAddr::new(at, 0)));
    let listener = listening.expect("no panic").expect("the host's address");
    let at = listener.local_addr().expect("it listens");
    let data = pattern(3_000_000);
    for round in 1..=2 {
        let mut stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
        stream.set_write_timeout(Some(SOON)).expect("not zero");
        let before = stream.tcp_info().expect("open").snd_mss;
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_reads(&mut listener.accept().expect("our stack connects").0, &data)
            });
            stream.write_all(&data).expect("the host reads");
            stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        });
        let after = stream.tcp_info().expect("held").snd_mss;
        let headers = if at.is_ipv4() { 40 } else { 60 };
        assert!(after <= NARROW_MTU - headers, "{before}, then {after}");
        let lowered =
            net.with_stack(|s| s.counters().of(Counter::PathMtuLowered)).expect("the driver runs");
        println!("{before} bytes a segment, then {after}; {lowered} messages in round {round}");
        assert!(lowered > 0);
    }
    driver.stop().expect("no panic");
}
