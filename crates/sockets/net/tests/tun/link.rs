//! The neighbours of one link, of which the kernel is one. The stack follows the kernel's redirect,
//! does not take its addresses, and reaches its link-local address. RFC 1122 section 3.2.2.2, RFC
//! 5227, RFC 3927.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread;
use std::time::Instant;

use base::{Cidr, Counter, Limit, MacAddr};
use device::tap::{Config, Setup, Tap};
use stack::{Address, AddressState, Origin, PortConfig, PortId, Route, RouteOrigin};
use stack::{Stack, StackConfig};
use testbed::{Case, Namespace};
use wirespeed_net::{DriverThread, Net, blocking};

use crate::ends::{SOON, assert_reads, ip, pattern};

pub(crate) const CASES: &[Case] = &[
    ("a_redirect_of_the_kernel_is_followed_in_mid_transfer", &[], redirected),
    ("an_address_of_the_kernels_is_found_to_be_taken_and_a_free_one_is_ours", &[], claimed),
    ("a_link_local_address_reaches_the_kernels", &[], link_local),
];

const ROUTER: &str = "10.79.0.1";
const OURS: &str = "10.79.0.2";
const BETTER: &str = "10.79.0.3";
const FAR: &str = "198.51.100.7";
const PORT: PortId = PortId(0);

fn addr(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn cidr(text: &str, prefix_len: u8) -> Cidr {
    Cidr::new(addr(text), prefix_len).expect("a short prefix")
}

/// A TAP called ws0, up.
fn tap() -> Tap {
    let config = Config { name: Some("ws0".to_owned()), ..Config::default() };
    let mut tap = Tap::open(&config).expect("root opens a TAP");
    tap.configure(&Setup { up: true, ..Setup::default() }).expect("root sets it up");
    tap
}

/// A stack on the TAP, with these addresses.
fn stack(tap: Tap, addresses: Vec<Cidr>) -> Stack {
    let mut config = StackConfig::new([3, 14]);
    config.budget.set(Limit::MbufBytes, 64 << 20);
    let mut stack = Stack::new(config);
    // The port has a MAC address because the kernel's bridge drops frames with a source of zeros.
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    stack.add_port(Box::new(tap), PortConfig { mac, addresses, ..PortConfig::default() });
    stack
}

fn set(file: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/ipv4/{file}"), value).expect("root may");
}

/// Makes this namespace the router. Our TAP and the link of a better router are in one bridge. The
/// better router is a namespace of its own, which also has the far address.
fn bridged() -> (Tap, Namespace) {
    let (tap, better) = (tap(), Namespace::new().expect("root may"));
    ip("link add br0 type bridge");
    ip(&format!("link add ws1 type veth peer name ws2 netns {}", better.name()));
    for port in ["ws0", "ws1"] {
        ip(&format!("link set {port} master br0 up"));
    }
    ip(&format!("addr add {ROUTER}/24 dev br0"));
    ip("link set br0 up");
    for arguments in [
        format!("addr add {BETTER}/24 dev ws2"),
        format!("addr add {FAR}/32 dev ws2"),
        "link set ws2 up".to_owned(),
    ] {
        assert!(better.ip(&arguments), "{arguments}");
    }
    ip(&format!("route add 198.51.100.0/24 via {BETTER}"));
    set("ip_forward", "1");
    for link in ["all", "br0"] {
        set(&format!("conf/{link}/send_redirects"), "1");
    }
    (tap, better)
}

fn redirected() {
    let (tap, better) = bridged();
    let mut stack = stack(tap, vec![cidr(OURS, 24)]);
    let any = "0.0.0.0/0".parse().expect("a network");
    stack.add_route(Route::new(any, Some(addr(ROUTER)), PORT.0));
    let (net, driver) = Net::spawn_thread(stack).expect("the thread starts");
    let listening = better.inside(|| TcpListener::bind(SocketAddr::new(addr(FAR), 0)));
    let listener = listening.expect("no panic").expect("the far host's address");
    let at = listener.local_addr().expect("it listens");
    let data = pattern(3_000_000);
    let mut stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
    stream.set_write_timeout(Some(SOON)).expect("not zero");
    thread::scope(|scope| {
        scope.spawn(|| assert_reads(&mut listener.accept().expect("our stack connects").0, &data));
        stream.write_all(&data).expect("the host reads");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    });
    let (followed, route) = net
        .with_stack(|s| {
            let followed = s.counters().of(Counter::Redirects);
            let routes = s.routes_page(0, 100).rows;
            (followed, routes.into_iter().find(|r| r.origin == RouteOrigin::Redirect))
        })
        .expect("the driver runs");
    let route = route.expect("a route of its own");
    assert_eq!((route.dest, route.via), (cidr(FAR, 32), Some(addr(BETTER))));
    assert_eq!(followed, 1);
    driver.stop().expect("no panic");
}

/// Wait until an address is no longer tentative. Returns its state.
fn decided(net: &Net, ip: &str) -> AddressState {
    let begun = Instant::now();
    loop {
        let look =
            |s: &mut Stack| s.addresses(PORT).iter().find(|a| a.ip() == addr(ip)).map(|a| a.state);
        match net.with_stack(look).expect("the driver runs").expect("it stays") {
            AddressState::Tentative => thread::sleep(std::time::Duration::from_millis(20)),
            state => return state,
        }
        assert!(begun.elapsed() < SOON, "{ip} was still tentative after {SOON:?}");
    }
}

fn on_tap(addresses: Vec<Cidr>) -> (Net, DriverThread) {
    let tap = tap();
    ip(&format!("addr add {ROUTER}/24 dev ws0"));
    Net::spawn_thread(stack(tap, addresses)).expect("the thread starts")
}

fn claimed() {
    let (net, driver) = on_tap(Vec::new());
    for text in [ROUTER, OURS] {
        let address = Address {
            state: AddressState::Tentative,
            origin: Origin::Dhcp,
            ..Address::fixed(cidr(text, 24))
        };
        net.with_stack(|s| s.add_address(PORT, address)).expect("the driver runs").expect("room");
    }
    assert_eq!(decided(&net, ROUTER), AddressState::Duplicated);
    assert_eq!(decided(&net, OURS), AddressState::Preferred);
    // The stack can use the address that was free.
    let listener = TcpListener::bind((ROUTER, 0)).expect("the kernel's address");
    let at = listener.local_addr().expect("it listens");
    blocking::TcpStream::connect_timeout(&net, at, SOON).expect("by the address that was free");
    let probes =
        net.with_stack(|s| s.counters().of(Counter::AddressProbes)).expect("the driver runs");
    println!("{probes} probes");
    driver.stop().expect("no panic");
}

fn link_local() {
    let (net, driver) = on_tap(Vec::new());
    ip("addr add 169.254.77.1/16 dev ws0");
    net.with_stack(|s| s.add_link_local_v4(PORT)).expect("the driver runs").expect("room");
    let found = |s: &mut Stack| s.addresses(PORT).first().map(|a| a.ip().to_string());
    let ours = net.with_stack(found).expect("the driver runs").expect("a candidate");
    assert_eq!(decided(&net, &ours), AddressState::Preferred);
    let listener = TcpListener::bind(("169.254.77.1", 0)).expect("the kernel's address");
    let at = listener.local_addr().expect("it listens");
    let stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("on the link");
    let (_, peer) = listener.accept().expect("our stack connects");
    assert_eq!(peer.ip(), addr(&ours));
    drop(stream);
    driver.stop().expect("no panic");
}
