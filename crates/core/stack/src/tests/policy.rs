//! Policy routing: users in groups, routes that only some users may use, and rules. In each named
//! case a user who is not admitted has no route, and no frame leaves, not even an ARP request or
//! neighbour solicitation. docs/decisions/0080.

mod forwarded;

use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU8;
use std::sync::Arc;

use base::{Cidr, DropReason, Duration, IpVersion, Owner, SeqNumber};
use inet::route::Action;
use inet::{Access, Route, Rule};
use wire::tcp::Flags;

use super::craft::{Bench, Tcp, frame_between};
use super::icmp::{BOTH, NOW, bench, in_flight};
use crate::pair::{self, PairConfig};
use crate::{ConnectError, ListenConfig, PortId, UdpError};

const PORT: PortId = PortId(0);
const STAFF: u32 = 7;
const GUESTS: u32 = 9;

fn user(group: u32) -> Owner {
    Owner { uid: 1000 + group, groups: Arc::from([100, group]) }
}

fn include() -> Option<Arc<Access>> {
    Some(Arc::new(Access::Include(Arc::from([STAFF]))))
}

fn exclude() -> Option<Arc<Access>> {
    Some(Arc::new(Access::Exclude(Arc::from([GUESTS]))))
}

fn far(bench: &Bench, last: u8) -> IpAddr {
    match bench.ours {
        IpAddr::V4(_) => IpAddr::from([198, 51, 100, last]),
        IpAddr::V6(_) => IpAddr::from([0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, u16::from(last)]),
    }
}

fn net(bench: &Bench, is_default: bool) -> Cidr {
    let text = match (bench.ours, is_default) {
        (IpAddr::V4(_), true) => "0.0.0.0/0",
        (IpAddr::V4(_), false) => "198.51.100.0/24",
        (IpAddr::V6(_), true) => "::/0",
        (IpAddr::V6(_), false) => "2001:db8:ffff::/48",
    };
    text.parse().expect("a network")
}

/// Another host in the port's network.
fn gateway(bench: &Bench, number: u8) -> IpAddr {
    match bench.theirs {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            IpAddr::from([a, b, c, number])
        }
        IpAddr::V6(ip) => {
            let mut bytes = ip.octets();
            bytes[15] = number;
            IpAddr::from(bytes)
        }
    }
}

/// What a user does to send.
#[derive(Clone, Copy, Debug)]
enum Case {
    Connect,
    Unconnected,
    Connected,
    Echo,
    Listener,
}

const CASES: [Case; 5] =
    [Case::Connect, Case::Unconnected, Case::Connected, Case::Echo, Case::Listener];

fn syn(bench: &Bench) -> Vec<u8> {
    let syn = Tcp {
        ports: (5000, 80),
        seq: SeqNumber(1),
        ack: SeqNumber(0),
        flags: Flags::SYN,
        window: 1000,
        urgent: 0,
        options: Vec::new(),
        payload: Vec::new(),
    };
    let far = far(bench, 7);
    frame_between(far, bench.ours, wire::protocol::TCP, &syn.bytes(far, bench.ours))
}

/// The reason why nothing was sent; `None` if something was.
fn act(bench: &mut Bench, case: Case, owner: Owner) -> Option<DropReason> {
    let to = SocketAddr::new(far(bench, 7), 80);
    let any = SocketAddr::new(if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, 0);
    let of_udp = |sent| match sent {
        Ok(()) => None,
        Err(UdpError::Unsendable(why)) => Some(why),
        Err(other) => panic!("{other:?}"),
    };
    let stack = &mut bench.stack;
    match case {
        Case::Connect => match stack.tcp_connect(to, None, &tcp::Config::default(), owner, NOW) {
            Ok(_) => None,
            Err(ConnectError::Unreachable(why)) => Some(why),
            Err(other) => panic!("{other:?}"),
        },
        Case::Unconnected => {
            let socket = stack.udp_bind(any, owner).expect("free");
            of_udp(stack.udp_send(socket, to, b"x", NOW))
        }
        Case::Connected => {
            let socket = stack.udp_bind_connected(any, to, owner).expect("free");
            of_udp(stack.udp_send(socket, to, b"x", NOW))
        }
        Case::Echo => {
            let socket = stack.ping_open(owner).expect("room");
            of_udp(stack.ping_send(socket, to.ip(), 1, b"12345678", NOW).map(|_| ()))
        }
        Case::Listener => {
            let listen = ListenConfig { owner, ..ListenConfig::default() };
            let at = SocketAddr::new(bench.ours, 80);
            stack.tcp_listen(at, listen).expect("free");
            let frame = syn(bench);
            assert!(bench.inject(&frame));
            let before = bench.stack.drops().of(DropReason::IpNoRoute);
            bench.stack.poll(NOW);
            let is_dropped = bench.stack.drops().of(DropReason::IpNoRoute) > before;
            is_dropped.then_some(DropReason::IpNoRoute)
        }
    }
}

/// The restricted routes to the far host: a default route, one of a prefix, or several.
fn routes(bench: &Bench, kind: usize, access: Option<Arc<Access>>) -> Vec<Route> {
    let via = |number, dest| {
        let route = Route::new(dest, Some(gateway(bench, number)), PORT.0);
        Route { access: access.clone(), ..route }
    };
    let weight = NonZeroU8::new(1).expect("one");
    match kind {
        0 => vec![via(20, net(bench, true))],
        1 => vec![via(20, net(bench, false))],
        _ => [20, 21].map(|n| via(n, net(bench, true)).shared(weight)).to_vec(),
    }
}

fn strangers(version: IpVersion) -> Bench {
    let mut bench = Bench::among_strangers(&PairConfig { version, ..PairConfig::new([8, 9]) });
    bench.poll(NOW);
    bench
}

/// Every combination of groups, routes, users and cases.
#[test]
fn who_is_left_out_has_no_route_and_nothing_leaves() {
    let users = [
        // The user; whether a list of included groups admits it; whether a list of excluded groups
        // does.
        (Owner::program(), true, true),
        (user(STAFF), true, true),
        (user(GUESTS), false, false),
        (user(8), false, true),
    ];
    for (owner, included, not_excluded) in users {
        for (access, admitted) in [(include(), included), (exclude(), not_excluded)] {
            for (kind, case) in (0..3).flat_map(|kind| CASES.map(|case| (kind, case))) {
                for version in BOTH {
                    let mut bench = strangers(version);
                    for route in routes(&bench, kind, access.clone()) {
                        assert!(bench.stack.add_route(route));
                    }
                    let seen = act(&mut bench, case, owner.clone());
                    let frames = bench.sent().len();
                    let what = format!("{owner:?} {access:?} routes {kind} {case:?} {version:?}");
                    if admitted {
                        assert_eq!((seen, frames > 0), (None, true), "{what}");
                    } else {
                        assert_eq!((seen, frames), (Some(DropReason::IpNoRoute), 0), "{what}");
                    }
                }
            }
        }
    }
}

/// For other users a restricted route does not exist: they use the next route of the prefix, or of
/// the next shorter prefix.
#[test]
fn who_is_left_out_goes_by_what_there_is_besides() {
    for version in BOTH {
        let mut bench = bench(version);
        for number in [20, 21, 22] {
            let ip = gateway(&bench, number);
            assert!(bench.stack.add_neighbour(PORT, ip, pair::mac(number)));
        }
        let (near, any) = (net(&bench, false), net(&bench, true));
        let via = |number, dest| Route::new(dest, Some(gateway(&bench, number)), PORT.0);
        let weight = NonZeroU8::new(1).expect("one");
        let shared = [
            Route { access: include(), ..via(20, near).shared(weight) },
            via(21, near).shared(weight),
        ];
        let others = [via(22, any)];
        for route in shared.into_iter().chain(others) {
            assert!(bench.stack.add_route(route));
        }
        let hops = |bench: &mut Bench, owner: Owner| {
            let any = if bench.ours.is_ipv4() { [0; 4].into() } else { IpAddr::from([0; 16]) };
            let socket = bench.stack.udp_bind(SocketAddr::new(any, 0), owner).expect("free");
            let mut macs: Vec<Vec<u8>> = Vec::new();
            for last in 1..64 {
                let to = SocketAddr::new(far(bench, last), 9);
                bench.stack.udp_send(socket, to, b"x", NOW).expect("sent");
                macs.extend(bench.sent().iter().map(|frame| frame[..6].to_vec()));
            }
            assert_eq!(macs.len(), 63);
            macs.sort_unstable();
            macs.dedup();
            macs
        };
        let macs = |numbers: &[u8]| -> Vec<Vec<u8>> {
            numbers.iter().map(|&n| pair::mac(n).0.to_vec()).collect()
        };
        assert_eq!(hops(&mut bench, user(STAFF)), macs(&[20, 21]));
        assert_eq!(hops(&mut bench, user(GUESTS)), macs(&[21]), "not the other of several routes");
        let gone = Some(gateway(&bench, 21));
        bench.stack.routes.remove(|route| route.via == gone);
        bench.stack.addresses_changed();
        assert_eq!(hops(&mut bench, user(GUESTS)), macs(&[22]), "not the default route");
        assert_eq!(hops(&mut bench, user(STAFF)), macs(&[20]));
    }
}

/// A connection and a datagram socket have already found their route when it becomes restricted.
#[test]
fn what_is_cached_is_not_used_any_longer() {
    for version in BOTH {
        let mut bench = bench(version);
        let (handle, _) = in_flight(&mut bench, 100);
        let to = SocketAddr::new(bench.theirs, 9);
        let local = SocketAddr::new(bench.ours, 7);
        let socket = bench.stack.udp_bind(local, user(GUESTS)).expect("free");
        bench.stack.udp_send(socket, to, b"x", NOW).expect("sent");
        assert_eq!(bench.sent().len(), 1);
        bench.stack.connections.get_mut(handle).expect("open").owner = user(GUESTS);
        let theirs = bench.theirs;
        let dest = bench.stack.routes.iter().find(|r| r.dest.contains(theirs)).expect("one").dest;
        let old = bench.stack.routes.at(dest, inet::route::MAIN_TABLE).next().expect("one");
        assert!(bench.stack.add_route(Route { access: exclude(), ..old.clone() }));
        assert_eq!(bench.stack.tcp_write(handle, b"more"), Ok(4));
        let sent = bench.stack.udp_send(socket, to, b"x", NOW);
        assert_eq!(sent, Err(UdpError::Unsendable(DropReason::IpNoRoute)));
        let later = NOW + Duration::from_secs(3);
        assert_eq!(bench.poll(later).len(), 0, "a retransmission left");
        // A RST is a packet of the user, too.
        bench.stack.tcp_abort(handle);
        assert_eq!(bench.poll(later).len(), 0);
        assert!(bench.stack.add_route(old));
        assert_eq!(bench.stack.udp_send(socket, to, b"x", later), Ok(()));
        assert_eq!(bench.sent().len(), 1);
    }
}

/// A user who may not use the route by a gateway must not use that gateway's redirect either.
#[test]
fn a_redirect_is_for_those_that_the_route_is_for() {
    let mut bench = bench(IpVersion::V4);
    let better = gateway(&bench, 20);
    bench.stack.add_neighbour(PORT, better, pair::mac(20));
    let route = Route::new(net(&bench, true), Some(bench.theirs), PORT.0);
    bench.stack.add_route(Route { access: include(), ..route });
    let local = SocketAddr::new(bench.ours, 7);
    let to = SocketAddr::new(far(&bench, 7), 9);
    let staff = bench.stack.udp_bind(local, user(STAFF)).expect("free");
    bench.stack.udp_send(staff, to, b"x", NOW).expect("sent");
    let packet = bench.sent().remove(0)[14..].to_vec();
    let IpAddr::V4(gateway) = better else { panic!("IPv4") };
    let mut message = vec![0; 8];
    message.extend_from_slice(&packet[..28]);
    wire::icmp::Header::Redirect { code: 1, gateway }.emit(&mut message);
    let frame = frame_between(bench.theirs, bench.ours, 1, &message);
    bench.exchange(&frame, NOW);
    bench.stack.udp_send(staff, to, b"x", NOW).expect("sent");
    assert_eq!(bench.sent().remove(0)[..6], pair::mac(20).0);
    let guest = bench.stack.udp_bind(SocketAddr::new(bench.ours, 8), user(GUESTS)).expect("free");
    let sent = bench.stack.udp_send(guest, to, b"x", NOW);
    assert_eq!(sent, Err(UdpError::Unsendable(DropReason::IpNoRoute)));
    assert_eq!(bench.sent().len(), 0);
}

/// Rules select tables by group and mark; if a table has no route, the next rule is applied.
#[test]
fn rules_select_tables() {
    let mut bench = strangers(IpVersion::V4);
    let route = Route::new(net(&bench, true), Some(gateway(&bench, 20)), PORT.0);
    bench.stack.add_route(Route { table: 5, ..route });
    assert_eq!(act(&mut bench, Case::Unconnected, user(STAFF)), Some(DropReason::IpNoRoute));
    let rule = Rule { group: Some(STAFF), ..Rule::new(100, Action::Table(5)) };
    bench.stack.add_rule(rule).expect("new");
    assert!(bench.stack.add_rule(rule).is_err(), "a rule was added twice");
    assert_eq!(act(&mut bench, Case::Unconnected, user(STAFF)), None);
    assert_eq!(act(&mut bench, Case::Unconnected, user(GUESTS)), Some(DropReason::IpNoRoute));
    let marked = Rule { mark: Some((0x10, 0xf0)), ..Rule::new(50, Action::Prohibit) };
    bench.stack.add_rule(marked).expect("new");
    let any = SocketAddr::new(IpAddr::from([0; 4]), 0);
    let to = SocketAddr::new(far(&bench, 7), 9);
    let socket = bench.stack.udp_bind(any, user(STAFF)).expect("free");
    assert_eq!(bench.stack.udp_send(socket, to, b"x", NOW), Ok(()));
    bench.stack.udp_ip_mut(socket).expect("open").mark = 0x1f;
    let sent = bench.stack.udp_send(socket, to, b"x", NOW);
    assert_eq!(sent, Err(UdpError::Unsendable(DropReason::IpProhibit)));
    // An empty table, and then the next rule.
    bench.stack.add_rule(Rule::new(10, Action::Table(77))).expect("new");
    assert!(bench.stack.remove_rule(&marked));
    assert_eq!(bench.stack.udp_send(socket, to, b"x", NOW), Ok(()));
}
