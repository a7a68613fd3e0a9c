//! IPv6 autoconfiguration with the kernel at the other end of a TAP. radvd advertises a prefix, a
//! route and a name server; duplicate addresses are found by the stack and by the kernel; the stack
//! follows the kernel's redirects. RFC 4861, RFC 4862, RFC 8106.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use base::{Counter, Owner};
use device::tap::{Config, Setup, Tap};
use stack::{
    Address, AddressState, AutoConfig, Origin, PortConfig, PortId, Progress, Route, Stack,
    StackConfig,
};
use testbed::{Case, Need, Running, until};
use wirespeed_net::{DriverThread, Net, blocking};

use crate::ends::{SOON, assert_reads, ip, pattern};

pub(crate) const CASES: &[Case] = &[
    ("a_port_configures_itself_by_radvd", &[Need::RADVD], by_radvd),
    ("the_kernels_address_is_found_to_be_taken", &[], taken_by_the_kernel),
    ("the_kernel_finds_our_address_to_be_taken", &[], taken_by_us),
    ("a_redirect_of_the_kernel_is_followed", &[], redirected),
];

const PORT: PortId = PortId(0);
/// The kernel's link-local address.
const ROUTER: &str = "fe80::1";

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// A stack on a TAP with the addresses `ours`, run by a driver thread. The kernel's end has its
/// link-local address and the addresses `kernel`.
fn net(kernel: &[&str], ours: &[&str]) -> (Net, DriverThread) {
    let config = Config { name: Some("ws0".to_owned()), ..Config::default() };
    let mut tap = Tap::open(&config).expect("root opens a TAP");
    ip("link set ws0 addrgenmode none");
    tap.configure(&Setup { up: true, ..Setup::default() }).expect("root sets it up");
    for addr in [&["fe80::1/64"], kernel].concat() {
        ip(&format!("addr add {addr} dev ws0 nodad"));
    }
    let mut stack = Stack::new(StackConfig::new([3, 14]));
    let addresses = ours.iter().map(|a| a.parse().expect("a network")).collect();
    let mac = tap.our_mac().expect("Ethernet");
    let port =
        stack.add_port(Box::new(tap), PortConfig { mac, addresses, ..PortConfig::default() });
    assert_eq!(port, PORT);
    Net::spawn_thread(stack).expect("the thread starts")
}

fn with<T>(net: &Net, f: impl FnOnce(&mut Stack) -> T) -> T {
    net.with_stack(f).expect("the driver runs")
}

fn state_of(net: &Net, ip: IpAddr) -> Option<AddressState> {
    let find = |stack: &mut Stack| {
        let all = stack.addresses(PORT).iter();
        all.filter(|a| a.ip() == ip).map(|a| a.state).next()
    };
    with(net, find)
}

fn set(name: &str, value: &str) {
    let path = format!("/proc/sys/net/ipv6/conf/{name}");
    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Starts radvd on the kernel's end; it runs until the value is dropped.
fn radvd() -> Radvd {
    const CONFIG: &str = "interface ws0 {
        AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvDefaultLifetime 600;
        AdvLinkMTU 1400;
        prefix fd79:1::/64 { AdvOnLink on; AdvAutonomous on; AdvValidLifetime 7200;
            AdvPreferredLifetime 3600; };
        route fd79:2::/48 { AdvRoutePreference high; AdvRouteLifetime 600; };
        RDNSS fd79:1::53 { AdvRDNSSLifetime 600; };
        DNSSL lab.example { AdvDNSSLLifetime 600; };
    };";
    let name = |what: &str| {
        std::env::temp_dir().join(format!("wirespeed-radvd-{}.{what}", std::process::id()))
    };
    let files = [name("conf"), name("pid")];
    std::fs::write(&files[0], CONFIG).expect("room");
    let mut command = Command::new("radvd");
    command.args(["--nodaemon", "--logmethod", "stderr", "--config"]).arg(&files[0]);
    command.arg("--pidfile").arg(&files[1]);
    Radvd { _running: Running(command.spawn().expect("radvd starts")), files }
}

/// The process radvd, and its files.
struct Radvd {
    _running: Running,
    files: [PathBuf; 2],
}

impl Drop for Radvd {
    fn drop(&mut self) {
        // radvd may have removed some of these files itself.
        self.files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}

/// A stack without any address is configured by radvd and then transfers data with a server of the
/// kernel.
fn by_radvd() {
    let (net, driver) = net(&["fd79:1::1/64", "fd79:2::1/128"], &[]);
    set("all/forwarding", "1");
    let _radvd = radvd();
    with(&net, |stack| stack.autoconfigure(PORT, AutoConfig::default())).expect("Ethernet");
    let has = |origin| {
        let found = |stack: &mut Stack| {
            let mut all = stack.addresses(PORT).iter();
            all.any(|a| a.origin == origin && a.state == AddressState::Preferred)
        };
        with(&net, found)
    };
    let all = [Origin::LinkLocal, Origin::Stable, Origin::Temporary];
    assert!(until(SOON, || all.into_iter().all(has)), "{:?}", addresses(&net));
    println!("{:?}", addresses(&net));
    let status = with(&net, |stack| stack.autoconf(PORT)).expect("autoconfigured");
    assert_eq!(status.progress, Progress::Routed);
    assert_eq!(status.routers.iter().map(|r| r.ip).collect::<Vec<_>>(), [v6(ROUTER)]);
    assert_eq!(status.mtu.map(base::Mtu::bytes), Some(1_400));
    assert_eq!(with(&net, |stack| stack.dns_servers(PORT)), [v6("fd79:1::53")]);
    assert_eq!(with(&net, |stack| stack.dns_search(PORT)), ["lab.example"]);
    // Transfer data to an address in the router's own network, and to one behind its route.
    for to in ["fd79:1::1", "fd79:2::1"] {
        transfer(&net, address(to));
    }
    driver.stop().expect("no panic");
}

fn addresses(net: &Net) -> Vec<String> {
    let text = |a: &Address| format!("{} {} {}", a.cidr, a.origin, a.state);
    with(net, |stack| stack.addresses(PORT).iter().map(text).collect())
}

/// Send three megabytes to a server of the kernel, and receive them back.
fn transfer(net: &Net, to: IpAddr) {
    let listener = std::net::TcpListener::bind((to, 0)).expect("the kernel's address");
    let at: SocketAddr = listener.local_addr().expect("it listens");
    let data = pattern(3_000_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut peer, _) = listener.accept().expect("our stack connects");
            assert_reads(&mut peer, &data);
            peer.write_all(&data).expect("our stack reads");
        });
        let mut stream = blocking::TcpStream::connect_timeout(net, at, SOON).expect("it listens");
        stream.set_read_timeout(Some(SOON)).expect("not zero");
        stream.write_all(&data).expect("the kernel reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        assert_reads(&mut stream, &data);
    });
}

/// The stack checks an address that the kernel has: the kernel answers with an advertisement.
fn taken_by_the_kernel() {
    let (net, driver) = net(&["fd79::1/64"], &[]);
    let tentative = |text: &str| {
        let fixed = Address::fixed(text.parse().expect("a network"));
        Address { state: AddressState::Tentative, ..fixed }
    };
    with(&net, |stack| stack.add_address(PORT, tentative("fd79::1/64"))).expect("added");
    with(&net, |stack| stack.add_address(PORT, tentative("fd79::2/64"))).expect("added");
    let is = |ip: &str, state| state_of(&net, address(ip)) == Some(state);
    assert!(until(SOON, || is("fd79::2", AddressState::Preferred)));
    assert!(until(SOON, || is("fd79::1", AddressState::Duplicated)), "{:?}", addresses(&net));
    assert_eq!(with(&net, |stack| stack.counters().of(Counter::DadDuplicates)), 1);
    driver.stop().expect("no panic");
}

/// The kernel checks an address that the stack has: the stack answers with an advertisement.
fn taken_by_us() {
    let (net, driver) = net(&[], &["fd79::2/64"]);
    ip("addr add fd79::2/64 dev ws0");
    let failed = || {
        let mut show = Command::new("ip");
        show.args(["-6", "addr", "show", "dev", "ws0", "dadfailed"]);
        let output = show.output().expect("ip runs");
        String::from_utf8_lossy(&output.stdout).contains("fd79::2")
    };
    assert!(until(SOON, failed), "the kernel found no duplicate");
    assert_eq!(state_of(&net, address("fd79::2")), Some(AddressState::Preferred), "ours stays");
    driver.stop().expect("no panic");
}

/// The kernel is the first hop of the stack's route, and redirects to a better first hop on the
/// same link.
fn redirected() {
    let (net, driver) = net(&["fd79::1/64"], &["fd79::2/64", "fe80::2/64"]);
    set("all/forwarding", "1");
    ip("neigh add fe80::99 lladdr 02:00:00:00:00:99 dev ws0");
    ip("route add fd80::/64 via fe80::99 dev ws0");
    let everywhere = "::/0".parse().expect("a network");
    with(&net, |stack| stack.add_route(Route::new(everywhere, Some(address(ROUTER)), PORT.0)));
    let local = SocketAddr::new(address("fd79::2"), 9);
    let far = SocketAddr::new(address("fd80::5"), 9);
    let socket = with(&net, |stack| stack.udp_bind(local, Owner::program())).expect("free");
    let redirects = || with(&net, |stack| stack.counters().of(Counter::Redirects));
    let followed = until(SOON, || {
        let sent = with(&net, |stack| stack.udp_send(socket, far, b"hello", stack.now()));
        sent.expect("routed");
        std::thread::sleep(Duration::from_millis(100));
        redirects() > 0
    });
    assert!(
        followed,
        "no redirect came: {:?}",
        with(&net, |stack| { stack.drops().nonzero().collect::<Vec<_>>() })
    );
    let better = with(&net, |stack| stack.neighbour_state(PORT, address("fe80::99")));
    assert!(better.is_some(), "the better hop's link address was not taken from the redirect");
    driver.stop().expect("no panic");
}
