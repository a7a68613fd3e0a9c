//! Two routers with the same rules: what the second one does with flows that it has as copies.

mod pair;
mod tcp;

use core::net::IpAddr;
use std::sync::Arc;

use super::*;
use crate::firewall::{Arrival, Local, Route};
use crate::nat::Shards;
use crate::states::Timeouts;
use crate::{Published, text};
use base::Duration;
use wire::checksum::Ladder;
use wire::protocol::{ICMP, TCP, UDP};
use wire::tcp::Flags;

const LAN: u16 = 0;
const WAN: u16 = 1;
const PORTS: [(&str, u16); 2] = [("lan", LAN), ("wan", WAN)];
const OUTSIDE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(203, 0, 113, 1));
const REMOTE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(198, 51, 100, 7));

/// An address and a port or identifier.
type End = (IpAddr, u16);

fn inside(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

/// One of the two.
struct Router {
    firewall: Firewall,
    budget: Budget,
    now: Instant,
}

impl Router {
    fn new(rules: &str, nat: &str, secret: u64) -> Router {
        let source = text::Source { rules, nat, ..text::Source::default() };
        let rules = text::parse(&source, &PORTS, &|_| Err("no files".into())).expect("rules");
        let published = Published::compile(rules, Timeouts::default(), 1).expect("small");
        let (budget, now) = (Budget::default(), Instant::from_nanos(secret * 1_000_000_000));
        let secret = [secret, 2, 3, 4];
        let mut firewall =
            Firewall::new(Arc::clone(&published), Shards::ALONE, secret, &budget, now);
        firewall.copy(true, &budget);
        Router { firewall, budget, now }
    }

    /// The packet as it leaves by the other port; `None`: it is dropped.
    fn cross(&mut self, in_port: u16, mut packet: Vec<u8>) -> Option<Vec<u8>> {
        let port_of = |_| None;
        let address_of = |port, _| (port == WAN).then_some(OUTSIDE);
        let local = Local { port_of: &port_of, address_of: &address_of };
        let (budget, now) = (&mut self.budget, self.now);
        let arrived = self.firewall.arrive(&packet, in_port, &local, budget, now).ok()?;
        let change = match &arrived {
            Arrival::Known(known) => known.change,
            Arrival::Begins(new) => {
                let out_port = 1 - in_port;
                let route = Route {
                    out_port,
                    port_address: (out_port == WAN).then_some(OUTSIDE),
                    outside_address: None,
                    sockets: Sockets::NONE,
                    is_own_flow: false,
                };
                self.firewall.decide(new, &route, budget, now).ok()?.change
            }
            other => panic!("{other:?}"),
        };
        self.firewall.change(&change, &mut packet, false).expect("a whole packet");
        Some(packet)
    }

    fn wait(&mut self, span: Duration) {
        self.now += span;
        for _ in 0..64 {
            self.firewall.advance(&mut self.budget, self.now);
        }
    }

    fn changes(&mut self) -> Vec<Copy> {
        let mut all = Vec::new();
        while self.firewall.take_copies(7, self.now, |copy| all.push(copy)) {}
        all
    }

    fn all(&mut self, which: Which) -> Vec<Copy> {
        let (mut all, mut cursor) = (Vec::new(), Some(Cursor::default()));
        while let Some(at) = cursor {
            let each = |copied| all.push(Copy::State(copied));
            cursor = self.firewall.walk_copies(at, 5, which, self.now, each);
        }
        all
    }

    fn take(&mut self, copy: &Copy, version: u64) -> Result<Imported, NotImported> {
        match copy {
            Copy::State(copied) => {
                let (budget, now) = (&mut self.budget, self.now);
                self.firewall.import(copied, version, Sockets::NONE, budget, now)
            }
            Copy::Ended(tuple) => {
                self.firewall.end_copy(tuple, version, self.now);
                Ok(Imported::Updated)
            }
        }
    }

    fn len(&self) -> usize {
        self.firewall.states().len()
    }
}

/// Changes of one router at the other one; how many became states.
fn copy(from: &mut Router, to: &mut Router, version: u64) -> usize {
    let changes = from.changes();
    changes.iter().filter(|change| to.take(change, version) == Ok(Imported::New)).count()
}

fn packet(protocol: u8, from: End, to: End, transport: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (from.0, to.0) else { panic!("IPv4") };
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet.extend(transport);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    let sum = Ladder::best().sum(&packet[..20]).field();
    packet[10..12].copy_from_slice(&sum);
    packet
}

fn udp(from: End, to: End) -> Vec<u8> {
    let mut bytes = Vec::new();
    [from.1, to.1, 12, 0].iter().for_each(|word| bytes.extend(word.to_be_bytes()));
    bytes.extend([7; 4]);
    packet(UDP, from, to, &bytes)
}

/// A segment with the window 32,768.
fn tcp((from, to): (End, End), flags: Flags, [seq, ack]: [u32; 2], data: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    [from.1, to.1].iter().for_each(|port| bytes.extend(port.to_be_bytes()));
    [seq, ack].iter().for_each(|number| bytes.extend(number.to_be_bytes()));
    bytes.extend([0x50, flags.0, 0x80, 0, 0, 0, 0, 0]);
    bytes.extend(vec![1; data]);
    packet(TCP, from, to, &bytes)
}

fn echo(kind: u8, from: IpAddr, to: IpAddr, id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    packet(ICMP, (from, id), (to, id), &[kind, 0, 0, 0, high, low, 0, 1])
}

/// Source and destination; those of an echo have its identifier.
fn ends(packet: &[u8]) -> [End; 2] {
    let addr =
        |at: usize| IpAddr::from([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let ports = if packet[9] == ICMP { [word(24); 2] } else { [word(20), word(22)] };
    [(addr(12), ports[0]), (addr(16), ports[1])]
}

const RULES: &str = "pass in lan out wan\npass in wan to 10.0.0.0/24";
const POOL: &str = "source out wan from 10.0.0.0/24 to 203.0.113.0/30 filtering independent";

/// Two routers with a flow of UDP that has answers, which the second one has as a copy.
fn with_flow(nat: &str) -> (Router, Router, [End; 3]) {
    let (mut a, mut b) = (Router::new(RULES, nat, 5), Router::new(RULES, nat, 900));
    let (from, to) = ((inside(2), 4_000), (REMOTE, 443));
    let out = a.cross(LAN, udp(from, to)).expect("it passes");
    let outside = ends(&out)[0];
    a.cross(WAN, udp(to, outside)).expect("an answer");
    assert_eq!(copy(&mut a, &mut b, 1), 1);
    (a, b, [from, outside, to])
}

#[test]
fn only_a_flow_with_answers_or_a_stream_is_copied() {
    let (mut a, mut b) = (Router::new(RULES, POOL, 5), Router::new(RULES, POOL, 900));
    for port in 1_000..1_050 {
        a.cross(LAN, udp((inside(2), port), (REMOTE, 443))).expect("it passes");
    }
    assert_eq!((a.changes(), a.all(Which::AllBut(0))), (vec![], vec![]), "a flood costs nothing");
    for _ in 0..2 {
        a.cross(LAN, udp((inside(2), 1_007), (REMOTE, 443))).expect("it passes");
    }
    let stream = a.all(Which::Changed);
    assert_eq!(stream.len(), 1);
    assert_eq!(b.take(&stream[0], 1), Ok(Imported::New));
    assert_eq!(a.all(Which::Changed), [], "it has had no packet since");
}

#[test]
fn the_partner_goes_on_with_the_same_outside_endpoint_and_gives_it_to_nobody_else() {
    for nat in [POOL, "source out wan from 10.0.0.0/24 to port block 64", ""] {
        let (a, mut b, [from, outside, to]) = with_flow(nat);
        drop(a);
        let out = b.cross(LAN, udp(from, to)).expect("the flow goes on");
        assert_eq!(ends(&out), [outside, to], "{nat}");
        let back = b.cross(WAN, udp(to, outside)).expect("answers pass");
        assert_eq!(ends(&back), [to, from], "{nat}");
        if !nat.is_empty() {
            let other = b.cross(LAN, udp((inside(3), outside.1), to)).expect("it passes");
            assert_ne!(ends(&other)[0], outside, "{nat}");
        }
    }
}

#[test]
fn what_came_from_the_partner_is_not_sent_back_until_it_has_packets_here() {
    let (_, mut b, [from, outside, to]) = with_flow(POOL);
    assert_eq!(b.changes(), []);
    assert_eq!(b.all(Which::Changed), []);
    assert_eq!(b.all(Which::AllBut(1)), [], "of the present session");
    assert_eq!(b.all(Which::AllBut(2)).len(), 1, "a partner that began anew has lost it");
    b.cross(LAN, udp(from, to)).expect("the flow goes on");
    assert_eq!(b.all(Which::Changed).len(), 1);
    assert_eq!(b.all(Which::Changed).len(), 0);
    b.cross(WAN, udp(to, outside)).expect("answers pass");
    assert_eq!(b.all(Which::AllBut(1)).len(), 1);
}

#[test]
fn a_state_never_becomes_older_and_its_end_is_not_believed_if_it_goes_on_here() {
    let (mut a, mut b, [from, outside, to]) = with_flow(POOL);
    let old = a.all(Which::AllBut(0));
    a.wait(Duration::from_secs(3));
    b.wait(Duration::from_secs(3));
    b.cross(LAN, udp(from, to)).expect("the flow goes on");
    assert_eq!(b.take(&old[0], 2), Err(NotImported::Newer));
    a.cross(LAN, udp(from, to)).expect("it passes");
    let Some(Copy::State(late)) = a.all(Which::Changed).pop() else { panic!("a copy") };
    b.take(&Copy::Ended(late.original), 3).expect("heard");
    assert_eq!(b.len(), 1, "it has packets here");
    // The partner forwards again.
    b.wait(Duration::from_secs(5));
    assert_eq!(b.take(&Copy::State(late), 4), Ok(Imported::Updated));
    assert_eq!(b.take(&old[0], 3), Err(NotImported::Old), "it overtook a later one");
    b.take(&Copy::Ended(late.original), 3).expect("heard");
    assert_eq!(b.len(), 1, "that end is older than the copy");
    b.take(&Copy::Ended(late.original), 5).expect("heard");
    assert_eq!((b.len(), b.firewall.mappings().len()), (0, 1), "the port is held");
    assert_eq!(b.cross(WAN, udp(to, outside)), None);
}

#[test]
fn an_end_is_told_if_the_partner_cannot_know_it() {
    let (mut a, mut b, [_, _, to]) = with_flow(POOL);
    let original =
        Tuple { src: inside(2), dst: to.0, protocol: UDP, src_port: 4_000, dst_port: 443 };
    a.firewall.kill_states(Cursor::default(), 10, a.now, |_| true);
    assert_eq!(a.changes(), [Copy::Ended(original)]);
    // A copy that ends here is not ours to end there.
    b.firewall.kill_states(Cursor::default(), 10, b.now, |_| true);
    assert_eq!(b.changes(), []);
}

#[test]
fn states_that_the_partner_has_no_more_are_swept() {
    let (_, mut b, [from, _, to]) = with_flow(POOL);
    let sweep = |b: &mut Router, versions| {
        let mut cursor = Some(Cursor::default());
        while let Some(at) = cursor {
            cursor = b.firewall.sweep_copies(at, 1, &versions, b.now);
        }
        b.len()
    };
    assert_eq!(sweep(&mut b, 2..9), 1, "of an earlier session: the partner has lost it");
    let mut used = with_flow(POOL).1;
    used.cross(LAN, udp(from, to)).expect("the flow goes on");
    assert_eq!(sweep(&mut used, 1..9), 1, "it has packets here");
    assert_eq!(sweep(&mut b, 1..9), 0);
}

/// Each refusal by its name.
#[test]
fn a_copy_that_cannot_be_is_refused() {
    let (mut a, _, [from, outside, to]) = with_flow(POOL);
    let Some(Copy::State(good)) = a.all(Which::AllBut(0)).pop() else { panic!("a copy") };
    let refused = |rules: &str, nat: &str, copied: Copied, before: &dyn Fn(&mut Router)| {
        let mut b = Router::new(rules, nat, 900);
        before(&mut b);
        let (states, mappings) = (b.len(), b.firewall.mappings().len());
        let why = b.take(&Copy::State(copied), 1).expect_err("it is refused");
        assert_eq!((b.len(), b.firewall.mappings().len()), (states, mappings), "{why:?}");
        why
    };
    let none = |_: &mut Router| {};
    assert_eq!(refused("block", POOL, good, &none), NotImported::Rule);
    assert_eq!(refused("pass stateless", POOL, good, &none), NotImported::Rule);
    assert_eq!(refused(RULES, "", good, &none), NotImported::NatRule);
    let other = "source out wan from 10.0.0.0/24 to 203.0.113.64/30";
    assert_eq!(refused(RULES, other, good, &none), NotImported::NatRule);
    let broken = [
        Copied { reply: Tuple { protocol: TCP, ..good.reply }, ..good },
        Copied { phase: crate::states::Phase::TcpEstablished, ..good },
        Copied { tcp: Some(crate::states::CopiedTcp::default()), ..good },
        Copied { out_port: crate::ROUTER, ..good },
        Copied { original: Tuple { src: IpAddr::from([0; 16]), ..good.original }, ..good },
        Copied { reply: good.original, ..good },
    ];
    for copied in broken {
        assert_eq!(refused(RULES, POOL, copied, &none), NotImported::Malformed, "{copied:?}");
    }
    // Another inside host has the outside port.
    let takes = |b: &mut Router| {
        let mut ports = 4_000..60_000;
        while ends(&b.cross(LAN, udp((inside(9), 4_000), (REMOTE, 9))).expect("passes"))[0]
            != outside
        {
            let port = ports.next().expect("it gets the port");
            b.cross(LAN, udp((inside(9), port), (REMOTE, 9))).expect("passes");
        }
    };
    if a.firewall.mappings().len() == 1 && outside.1 == 4_000 {
        let one = POOL.replace("203.0.113.0/30", &format!("{}", outside.0));
        assert_eq!(refused(RULES, &one, good, &takes), NotImported::PortTaken);
    }
    // The same endpoint has begun here meanwhile, to another host.
    let begins = |b: &mut Router| {
        b.cross(LAN, udp((inside(8), from.1), (REMOTE, 9))).expect("passes");
        b.cross(LAN, udp(from, (REMOTE, 9))).expect("passes");
    };
    let one = POOL.replace("203.0.113.0/30", &format!("{}", outside.0));
    assert_eq!(refused(RULES, &one, good, &begins), NotImported::MappedElsewhere);
    let same = |b: &mut Router| {
        b.cross(LAN, udp((inside(8), from.1), (REMOTE, 9))).expect("passes");
        b.cross(LAN, udp(from, to)).expect("passes");
    };
    assert_eq!(refused(RULES, &one, good, &same), NotImported::InTheWay);
    let limit = |limit, most| move |b: &mut Router| b.budget.set(limit, most);
    assert_eq!(refused(RULES, POOL, good, &limit(Limit::FilterStates, 0)), NotImported::Full);
    let source = limit(Limit::FilterStatesPerSource, 0);
    assert_eq!(refused(RULES, POOL, good, &source), NotImported::SourceLimit);
    let mappings = limit(Limit::NatMappings, 0);
    assert_eq!(refused(RULES, POOL, good, &mappings), NotImported::NatLimit);
    let mut b = Router::new(RULES, POOL, 900);
    let bound = Sockets(&|_| true);
    let why = b.firewall.import(&good, 1, bound, &mut b.budget, b.now);
    assert_eq!((why, b.len()), (Err(NotImported::PortOfSocket), 0));
}

#[test]
fn too_many_changes_are_said_and_counted() {
    let mut a = Router::new(RULES, "", 5);
    a.firewall.copy(false, &a.budget);
    a.budget.set(Limit::FilterCopies, 3);
    a.firewall.copy(true, &a.budget);
    for port in 1..6 {
        let (from, to) = ((inside(2), port), (REMOTE, 443));
        a.cross(LAN, udp(from, to)).expect("it passes");
        a.cross(WAN, udp(to, from)).expect("an answer");
    }
    a.wait(Duration::from_millis(100));
    assert!(a.budget.hits(Limit::FilterCopies) > 0);
    assert!(a.firewall.take_incomplete() && !a.firewall.take_incomplete());
    assert_eq!((a.changes().len(), a.all(Which::Changed).len()), (3, 2), "the walk has the rest");
}

#[test]
fn an_address_that_goes_to_the_partner_keeps_its_flows() {
    let (_, mut b, [from, outside, to]) = with_flow(POOL);
    b.firewall.address_gone(outside.0, b.now);
    assert!(b.cross(LAN, udp(from, to)).is_some());
    b.firewall.copy(false, &b.budget);
    b.firewall.address_gone(outside.0, b.now);
    b.wait(Duration::from_millis(100));
    assert_eq!(b.len(), 0, "without a partner it is gone");
}
