//! A port configured by DHCP, with dnsmasq at the other end of a TAP: an address, a route and DNS
//! servers, datagrams from and to that address, a renewal, and the release. RFC 2131.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use base::{Cidr, Counter, Duration, Instant, KeyedHash, Mtu, Owner};
use device::tap::{Config, Setup, Tap};
use stack::{
    Address, AddressState, MtuDiscovery, Origin, PortConfig, PortId, Route, Stack, StackConfig,
    UdpError, UdpOptions,
};
use testbed::{Case, Need, Running};
use wirespeed_net::dhcp::{self, Change, DhcpPort, Lease, LossReason, State};

use crate::ends::{SOON, ip};

pub(crate) const CASES: &[Case] = &[
    ("dnsmasq_gives_extends_and_takes_back_an_address", &[Need::DNSMASQ], dnsmasq_serves),
    ("dnsmasq_refuses_an_address_and_gives_another", &[Need::DNSMASQ], dnsmasq_refuses),
    ("an_address_that_another_host_takes_is_declined_to_dnsmasq", &[Need::DNSMASQ], conflict),
    ("an_address_that_another_host_has_is_declined_before_use", &[Need::DNSMASQ], in_use),
];

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 1);

/// A stack on a TAP, without an address, and the DHCP client of its port.
struct Host {
    stack: Stack,
    port: PortId,
    client: Option<DhcpPort>,
    began: StdInstant,
    /// This time is added to the clock, so that the test reaches a deadline at once.
    ahead: Duration,
}

impl Host {
    fn new(remembered: Option<Ipv4Addr>) -> Host {
        let config = Config { name: Some("ws0".to_owned()), ..Config::default() };
        let mut tap = Tap::open(&config).expect("root opens a TAP");
        tap.configure(&Setup { up: true, ..Setup::default() }).expect("root sets it up");
        let mac = tap.our_mac().expect("a TAP has one");
        let mut stack = Stack::new(StackConfig::new([3, 14]));
        let port = stack.add_port(Box::new(tap), PortConfig { mac, ..PortConfig::default() });
        let config = dhcp::Config {
            hostname: Some("mill".to_owned()),
            remembered,
            ..dhcp::Config::new(mac, KeyedHash::new(1, 2))
        };
        let began = StdInstant::now();
        let mut host = Host { stack, port, client: None, began, ahead: Duration::ZERO };
        let now = host.now();
        host.client = Some(DhcpPort::new(&mut host.stack, port, config, now).expect("port 68"));
        host
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_secs(1) + self.began.elapsed().into() + self.ahead
    }

    /// Poll until the client reports a change.
    fn change(&mut self) -> Change {
        let until = StdInstant::now() + SOON;
        while StdInstant::now() < until {
            let now = self.now();
            self.stack.poll(now);
            let client = self.client.as_mut().expect("it runs");
            if let Some(change) = client.poll(&mut self.stack, now) {
                return change;
            }
            self.stack.flush();
            thread::sleep(StdDuration::from_millis(1));
        }
        panic!("no change; drops: {:?}", self.stack.drops().nonzero().collect::<Vec<_>>());
    }

    fn configured(&mut self) -> Lease {
        loop {
            match self.change() {
                Change::Configured(lease) => return *lease,
                // The client asks again.
                Change::Refused(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The process dnsmasq, and its log file, which is removed with it.
struct Server {
    _running: Running,
    log: PathBuf,
}

impl Server {
    fn new(name: &str) -> Server {
        Server::of_range(name, "10.81.0.50,10.81.0.59")
    }

    fn of_range(name: &str, range: &str) -> Server {
        let log = std::env::temp_dir().join(format!("wstest-{name}-{}", std::process::id()));
        ip("addr add 10.81.0.1/24 dev ws0");
        let server = Server { _running: dnsmasq(&log, range), log };
        assert!(testbed::until(SOON, || server.says("IP range")), "{}", server.text());
        server
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.log).expect("the log")
    }

    fn says(&self, word: &str) -> bool {
        self.text().contains(word)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.log);
    }
}

fn dnsmasq(log: &Path, range: &str) -> Running {
    let range = format!("--dhcp-range={range},255.255.255.0,10m");
    let arguments = [
        "--no-daemon",
        "--conf-file=/dev/null",
        "--port=0",
        "--interface=ws0",
        "--bind-interfaces",
        "--leasefile-ro",
        "--log-dhcp",
        "--user=root",
        "--no-ping",
        "--dhcp-authoritative",
        &range,
        "--dhcp-option=option:router,10.81.0.1",
        "--dhcp-option=option:dns-server,10.81.0.1,10.81.0.2",
        "--dhcp-option=option:domain-search,mill.example,example.org",
        "--dhcp-option=option:mtu,1400",
    ];
    let log = fs::File::create(log).expect("a log");
    let child: Child = Command::new("dnsmasq")
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("dnsmasq starts");
    Running(child)
}

fn dnsmasq_serves() {
    let mut host = Host::new(None);
    let server = Server::new("dhcp");
    let lease = host.configured();
    assert_eq!((lease.server, lease.prefix_len), (SERVER, 24));
    assert!((50..60).contains(&lease.address.octets()[3]), "{}", lease.address);
    assert_eq!(lease.dns_servers, [SERVER, Ipv4Addr::new(10, 81, 0, 2)]);
    assert_eq!(lease.search, ["mill.example", "example.org"]);
    assert_eq!((lease.mtu, lease.valid), (Some(1_400), Some(Duration::from_secs(600))));
    let ours = IpAddr::V4(lease.address);
    assert!(host.stack.has_address(ours));
    let elsewhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);
    assert_eq!(
        host.stack.source_for(elsewhere),
        Some(ours),
        "the default route does not lead to our address"
    );
    let mtus: Vec<_> = routes(&host).iter().map(|route| route.mtu).collect();
    assert_eq!(mtus, [Mtu::new(1_400); 2], "the network and the default route");
    assert_eq!(
        host.stack.counters().of(Counter::AddressProbes),
        3,
        "the number of probes sent before the address was used"
    );

    talks(&mut host, lease.address);
    packets_are_of_the_leases_mtu(&mut host, lease.address);

    // T1 is after five minutes; the stack's clock is set to that time at once.
    let deadline = host.client.as_ref().expect("it runs").deadline();
    host.ahead = deadline.since(host.now());
    let renewed = host.configured();
    assert_eq!((renewed.address, renewed.valid), (lease.address, lease.valid));
    let client = host.client.take().expect("it runs");
    assert_eq!(client.client().state(), State::Bound);

    let now = host.now();
    client.stop(&mut host.stack, now);
    host.stack.flush();
    assert!(!host.stack.has_address(ours));
    assert_eq!(host.stack.source_for(elsewhere), None);
    assert!(routes(&host).is_empty());
    let released = testbed::until(SOON, || server.says("DHCPRELEASE"));
    let text = server.text();
    assert!(released, "{text}");
    for word in
        ["DHCPDISCOVER", "DHCPOFFER", "DHCPREQUEST", "DHCPACK", "client provides name: mill"]
    {
        assert!(text.contains(word), "{word} in {text}");
    }
    assert_eq!(text.matches("DHCPDISCOVER").count(), 1, "{text}");
}

fn routes(host: &Host) -> Vec<Route> {
    host.stack.routes_page(0, 16).rows
}

fn dnsmasq_refuses() {
    // An address of another network, as if the host had moved to another network.
    let elsewhere = Ipv4Addr::new(10, 99, 0, 7);
    let mut host = Host::new(Some(elsewhere));
    let server = Server::new("nak");
    let users = Cidr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).expect("everywhere");
    let gateway = IpAddr::V4(Ipv4Addr::new(10, 81, 0, 3));
    host.stack.add_route(Route::new(users, Some(gateway), host.port.0));
    let lease = host.configured();
    assert!(lease.address.octets().starts_with(&[10, 81, 0]), "{}", lease.address);
    assert!(!host.stack.has_address(IpAddr::V4(elsewhere)));
    let text = server.text();
    assert!(text.contains("DHCPNAK(ws0) 10.99.0.7"), "{text}");
    talks(&mut host, lease.address);
    let (client, now) = (host.client.take().expect("it runs"), host.now());
    let gateways = |host: &Host| routes(host).iter().filter_map(|r| r.via).collect::<Vec<_>>();
    assert_eq!(gateways(&host), [gateway], "only the route that the user added is there");
    client.stop(&mut host.stack, now);
    assert_eq!(gateways(&host), [gateway], "the route that the user added was removed");
}

fn conflict() {
    let mut host = Host::new(None);
    let server = Server::new("decline");
    let lease = host.configured();
    // The state of the address in the stack becomes the one after another host has defended it (RFC
    // 5227 section 2.4).
    let ours = IpAddr::V4(lease.address);
    let all = host.stack.addresses(host.port).to_vec();
    let found = all.iter().find(|address| address.ip() == ours).expect("it has it");
    let duplicated = Address { state: AddressState::Duplicated, ..*found };
    host.stack.add_address(host.port, duplicated).expect("it is there");
    assert_eq!(host.change(), Change::Lost(lease.address, LossReason::Conflict));
    assert!(!host.stack.addresses(host.port).iter().any(|address| address.ip() == ours));
    assert!(routes(&host).is_empty());
    // The client asks again ten seconds later, so the clock is set ahead.
    host.ahead = Duration::from_secs(10);
    let next = host.configured();
    assert!(host.stack.has_address(IpAddr::V4(next.address)));
    let declined = format!("DHCPDECLINE(ws0) {}", lease.address);
    assert!(server.says(&declined), "{}", server.text());
}

fn in_use() {
    let mut host = Host::new(None);
    let (one, other) = (Ipv4Addr::new(10, 81, 0, 77), Ipv4Addr::new(10, 81, 0, 78));
    for address in [one, other] {
        ip(&format!("addr add {address}/32 dev ws0"));
    }
    let server = Server::of_range("in-use", "10.81.0.77,10.81.0.78");
    let Change::Declined(taken) = host.change() else { panic!("nobody objected") };
    assert!(!host.stack.addresses(host.port).iter().any(|a| a.origin == Origin::Dhcp));
    host.stack.flush();
    let declined = format!("DHCPDECLINE(ws0) {taken}");
    let is_told = |host: &mut Host| {
        let now = host.now();
        host.stack.poll(now);
        let change = host.client.as_mut().expect("it runs").poll(&mut host.stack, now);
        assert_eq!(change, None);
        host.stack.flush();
        server.says(&declined)
    };
    assert!(testbed::until(SOON, || is_told(&mut host)), "{}", server.text());
    // The other address is free now. The client asks again ten seconds later.
    let free = if taken == one { other } else { one };
    ip(&format!("addr del {free}/32 dev ws0"));
    host.ahead = Duration::from_secs(10);
    assert_eq!(host.configured().address, free, "{}", server.text());
    talks(&mut host, free);
}

/// Option 26 (the MTU) is 1400. Larger datagrams leave in fragments, and are refused if the
/// socket's options forbid fragments.
fn packets_are_of_the_leases_mtu(host: &mut Host, ours: Ipv4Addr) {
    let kernel = std::net::UdpSocket::bind((SERVER, 0)).expect("the kernel's address");
    kernel.set_read_timeout(Some(SOON)).expect("not zero");
    let to = kernel.local_addr().expect("bound");
    let local = SocketAddr::new(IpAddr::V4(ours), 9);
    let socket = host.stack.udp_bind(local, Owner::program()).expect("free");
    let mut into = [0; 2_000];
    // With the headers of IP and UDP, the first datagram has 1400 bytes.
    for (len, fragments) in [(1_372, 0), (1_373, 2)] {
        let before = host.stack.counters().of(Counter::FragmentsOut);
        let now = host.now();
        host.stack.udp_send(socket, to, &vec![1; len], now).expect("sent");
        host.stack.flush();
        assert_eq!(host.stack.counters().of(Counter::FragmentsOut) - before, fragments, "{len}");
        assert_eq!(kernel.recv(&mut into).expect("it arrives"), len);
    }
    let options = UdpOptions { mtu_discovery: MtuDiscovery::Do, ..UdpOptions::default() };
    host.stack.udp_set_options(socket, options).expect("open");
    let now = host.now();
    let refused = host.stack.udp_send(socket, to, &[1; 1_373], now);
    assert_eq!(refused, Err(UdpError::TooBig(Mtu::new(1_400).expect("one"))));
    host.stack.udp_close(socket);
}

/// The kernel sends a datagram to the leased address, and the stack answers it.
fn talks(host: &mut Host, ours: Ipv4Addr) {
    let local = SocketAddr::new(IpAddr::V4(ours), 9);
    let socket = host.stack.udp_bind(local, Owner::program()).expect("free");
    let kernel = std::net::UdpSocket::bind((SERVER, 0)).expect("the kernel's address");
    kernel.set_read_timeout(Some(SOON)).expect("not zero");
    kernel.send_to(b"there", local).expect("sent");
    let until = StdInstant::now() + SOON;
    let datagram = loop {
        assert!(StdInstant::now() < until, "no datagram");
        let now = host.now();
        host.stack.poll(now);
        host.stack.flush();
        if let Some(datagram) = host.stack.udp_receive(socket) {
            break datagram;
        }
        thread::sleep(StdDuration::from_millis(1));
    };
    assert_eq!(datagram.payload.as_slice(), b"there");
    let now = host.now();
    host.stack.udp_send(socket, datagram.from, b"back", now).expect("sent");
    host.stack.flush();
    host.stack.give_back(datagram.payload);
    let mut into = [0; 16];
    assert_eq!(kernel.recv(&mut into).expect("it arrives"), 4);
    host.stack.udp_close(socket);
}
