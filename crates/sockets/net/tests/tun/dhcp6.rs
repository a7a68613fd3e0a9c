//! A port configured by DHCPv6, with dnsmasq at the other end of a TAP as server and router: an
//! address that is checked for duplicates, name servers, a renewal, the release; options alone; an
//! address that the kernel has. RFC 8415.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use base::{Duration, Instant, KeyedHash, Owner};
use device::tap::{Config, Setup, Tap};
use stack::{AutoConfig, Origin, PortConfig, PortId, Stack, StackConfig};
use testbed::{Case, Need, Running};
use wirespeed_net::dhcp6::{self, Change, Dhcp6Port, Lease, Mode, State};

use crate::ends::{SOON, ip};

pub(crate) const CASES: &[Case] = &[
    ("dnsmasq_gives_extends_and_takes_back_an_ipv6_address", &[Need::DNSMASQ], dnsmasq_serves),
    ("dnsmasq_gives_options_alone_over_ipv6", &[Need::DNSMASQ], dnsmasq_informs),
    ("a_duplicate_of_dhcpv6_is_declined", &[Need::DNSMASQ], declined),
];

const SERVER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 6, 0, 0, 0, 0, 1);

/// A stack on a TAP, with a link-local address, and the DHCPv6 client of its port.
struct Host {
    stack: Stack,
    port: PortId,
    client: Dhcp6Port,
    began: StdInstant,
    /// This time is added to the clock, so that the test reaches a deadline at once.
    ahead: Duration,
}

impl Host {
    fn new(mode: Mode) -> Host {
        let config = Config { name: Some("ws0".to_owned()), ..Config::default() };
        let mut tap = Tap::open(&config).expect("root opens a TAP");
        ip("link set ws0 addrgenmode none");
        tap.configure(&Setup { up: true, ..Setup::default() }).expect("root sets it up");
        ip("addr add fe80::1/64 dev ws0 nodad");
        ip(&format!("addr add {SERVER}/64 dev ws0 nodad"));
        let mac = tap.our_mac().expect("a TAP has one");
        let mut stack = Stack::new(StackConfig::new([3, 14]));
        let port = stack.add_port(Box::new(tap), PortConfig { mac, ..PortConfig::default() });
        let began = StdInstant::now();
        let now = Instant::ZERO + Duration::from_secs(1);
        stack.set_now(now);
        let auto = AutoConfig { temporary: false, ..AutoConfig::default() };
        stack.autoconfigure(port, auto).expect("Ethernet");
        let config = dhcp6::Config::new(mode, mac, KeyedHash::new(1, 2));
        let client = Dhcp6Port::new(&mut stack, port, config, now).expect("port 546");
        Host { stack, port, client, began, ahead: Duration::ZERO }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_secs(1) + self.began.elapsed().into() + self.ahead
    }

    fn turn(&mut self) -> Option<Change> {
        let now = self.now();
        self.stack.poll(now);
        let change = self.client.poll(&mut self.stack, now);
        self.stack.flush();
        change
    }

    /// Poll until `done` or the client reports a change.
    fn until(&mut self, done: impl Fn(&Host) -> bool) -> Option<Change> {
        let until = StdInstant::now() + SOON;
        while StdInstant::now() < until {
            match self.turn() {
                None if done(self) => return None,
                None => thread::sleep(StdDuration::from_millis(1)),
                change => return change,
            }
        }
        let drops: Vec<_> = self.stack.drops().nonzero().collect();
        panic!("no change in time; drops: {drops:?}, {:?}", self.client.client().state());
    }

    fn configured(&mut self) -> Lease {
        match self.until(|_| false) {
            Some(Change::Configured(lease)) => *lease,
            other => panic!("{other:?}"),
        }
    }
}

/// The process dnsmasq, and its log file, which is removed with it.
struct Server {
    _running: Running,
    log: PathBuf,
}

impl Server {
    /// Starts dnsmasq, which gives addresses of `range`.
    fn new(name: &str, range: &str) -> Server {
        let log = std::env::temp_dir().join(format!("wstest-{name}-{}", std::process::id()));
        let server = Server { _running: dnsmasq(&log, range), log };
        assert!(testbed::until(SOON, || server.says("DHCPv6")), "{}", server.text());
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
    let mut command = Command::new("dnsmasq");
    command.args(["--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface=ws0"]);
    command.args(["--bind-interfaces", "--leasefile-ro", "--log-dhcp", "--user=root"]);
    command.args(["--enable-ra", "--dhcp-authoritative", &format!("--dhcp-range={range}")]);
    command.arg("--dhcp-option=option6:dns-server,[2001:db8:6::53]");
    command.arg("--dhcp-option=option6:domain-search,mill.example");
    let log = fs::File::create(log).expect("a log");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Running(command.spawn().expect("dnsmasq starts"))
}

fn dnsmasq_serves() {
    let mut host = Host::new(Mode::Stateful);
    let server = Server::new("dhcp6", "2001:db8:6::100,2001:db8:6::1ff,64,10m");
    let lease = host.configured();
    assert_eq!(lease.address.segments()[..7], SERVER.segments()[..7], "{}", lease.address);
    assert!((0x100..0x200).contains(&lease.address.segments()[7]), "{}", lease.address);
    assert_eq!(lease.valid, Some(Duration::from_secs(600)));
    assert_eq!(lease.information.dns_servers, ["2001:db8:6::53".parse::<Ipv6Addr>().expect("one")]);
    assert_eq!(lease.information.search, ["mill.example"]);
    let ours = IpAddr::V6(lease.address);
    assert!(host.stack.has_address(ours));
    talks(&mut host, lease.address);

    let deadline = host.client.deadline();
    assert!(deadline.since(host.now()) > Duration::from_secs(200), "T1");
    host.ahead = deadline.since(host.now());
    let renewed = host.configured();
    assert_eq!((renewed.address, renewed.valid), (lease.address, lease.valid));

    let now = host.now();
    host.client.release(now);
    let lost = host.until(|_| false);
    assert_eq!(lost, Some(Change::Lost(lease.address, dhcp6::LossReason::Released)));
    assert!(!host.stack.has_address(ours), "the released address is still on the port");
    host.until(|host| host.client.client().state() == State::Stopped);
    let text = server.text();
    for word in ["DHCPSOLICIT", "DHCPREPLY", "DHCPRENEW", "DHCPRELEASE"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    host.client.close(&mut host.stack);
}

fn dnsmasq_informs() {
    let mut host = Host::new(Mode::Stateless);
    let _server = Server::new("inform", "2001:db8:6::,ra-stateless");
    let told = host.until(|_| false);
    let Some(Change::Informed(information)) = told else { panic!("{told:?}") };
    assert_eq!(information.dns_servers, ["2001:db8:6::53".parse::<Ipv6Addr>().expect("one")]);
    assert_eq!(information.search, ["mill.example"]);
    let leased = host.stack.addresses(host.port).iter().any(|a| a.origin == Origin::Dhcp);
    assert!(!leased, "the server gave an address although only options were asked for");
}

fn declined() {
    let mut host = Host::new(Mode::Stateful);
    // The kernel has the only address that the server can give.
    ip("addr add 2001:db8:6::77/128 dev ws0 nodad");
    let server = Server::new("decline", "2001:db8:6::77,2001:db8:6::77,64,10m");
    host.until(|_| server.says("DHCPDECLINE"));
    assert!(!host.stack.has_address("2001:db8:6::77".parse().expect("an address")));
    assert_eq!(host.client.client().lease(), None);
}

/// The kernel sends a datagram to the leased address, and the stack answers it.
fn talks(host: &mut Host, ours: Ipv6Addr) {
    let local = SocketAddr::new(IpAddr::V6(ours), 9);
    let socket = host.stack.udp_bind(local, Owner::program()).expect("free");
    let kernel = std::net::UdpSocket::bind((SERVER, 0)).expect("the kernel's address");
    kernel.set_read_timeout(Some(SOON)).expect("not zero");
    kernel.send_to(b"there", local).expect("sent");
    let until = StdInstant::now() + SOON;
    let datagram = loop {
        assert!(StdInstant::now() < until, "no datagram");
        host.turn();
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
