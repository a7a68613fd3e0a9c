//! Ports that configure their own addresses, in virtual time: the test plays the link, with its
//! routers and other hosts. RFC 4862, RFC 4861 sections 6.3 and 8, RFC 7217, RFC 8981, RFC 8106.

mod dad;
mod flood;
mod redirect;
mod router;
mod slaac;
mod temporary;

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use base::{Cidr, DropReason, Duration, Instant};
use inet::neighbour::group_mac;
use inet::{Address, AddressState, Origin, RouteOrigin};
use wire::nd::Header;

use super::craft::{Bench, frame_between, transport_sum};
use crate::pair::{self, PairConfig};
use crate::{AutoConfig, PortConfig, PortId, Stack};

const NOW: Instant = Instant::from_nanos(5_000_000_000);
const PORT: PortId = PortId(0);
const ALL_NODES: &str = "ff02::1";

/// A stack with a port without addresses, and the far end of the port's link.
struct Link {
    bench: Bench,
    now: Instant,
}

/// A message that the stack sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    at: Instant,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    bytes: Vec<u8>,
}

impl Message {
    fn kind(&self) -> u8 {
        self.bytes[0]
    }

    /// The target of a neighbour solicitation or advertisement.
    fn target(&self) -> Ipv6Addr {
        Header::parse(&self.bytes).expect("well formed").target
    }
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a network")
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Link {
    fn new() -> Link {
        Link::with_config(&PairConfig::new([21, 22]))
    }

    fn with_config(config: &PairConfig) -> Link {
        let (left, wire) = device::mem::pair(&config.wire);
        let mut stack = Stack::new(config.stack.clone());
        stack.set_now(NOW);
        stack.add_port(
            Box::new(left),
            PortConfig { mac: pair::mac(1), addresses: Vec::new(), ..PortConfig::default() },
        );
        let pool = mbuf::Pool::new(64 << 20);
        let (ours, theirs) = (v6("::").into(), v6("fe80::99").into());
        Link { bench: Bench { stack, wire, pool, ours, theirs }, now: NOW }
    }

    /// A link whose port has its link-local address and has solicited routers once.
    fn configured(config: AutoConfig) -> Link {
        let mut link = Link::new();
        link.bench.stack.autoconfigure(PORT, config).expect("Ethernet");
        link.pass(secs(3));
        assert!(link.link_local().is_some());
        link
    }

    fn stack(&mut self) -> &mut Stack {
        &mut self.bench.stack
    }

    /// Lets time pass, polling the stack at each deadline; returns what it sent.
    fn pass(&mut self, time: Duration) -> Vec<Message> {
        let (end, mut sent) = (self.now + time, Vec::new());
        loop {
            sent.extend(self.poll());
            if self.now == end {
                return sent;
            }
            let next = self.bench.stack.next_deadline().min(end);
            self.now = next.max(self.now + Duration::from_micros(1)).min(end);
        }
    }

    fn poll(&mut self) -> Vec<Message> {
        let at = self.now;
        let frames = self.bench.poll(at);
        frames.iter().filter_map(|frame| message(frame, at)).collect()
    }

    /// Gives the port an ICMPv6 message from `src` to `dst`, with its checksum and this hop limit.
    fn hear_from(&mut self, src: &str, dst: &str, hops: u8, bytes: &[u8]) -> Vec<Message> {
        let (src, dst) = (IpAddr::V6(v6(src)), IpAddr::V6(v6(dst)));
        let mut bytes = bytes.to_vec();
        bytes[2..4].fill(0);
        let sum = transport_sum(src, dst, 58, &bytes);
        bytes[2..4].copy_from_slice(&sum.field());
        let mut frame = frame_between(src, dst, 58, &bytes);
        frame[21] = hops;
        if let Some(mac) = group_mac(dst) {
            frame[..6].copy_from_slice(&mac.0);
        }
        let at = self.now;
        let sent = self.bench.exchange(&frame, at);
        sent.iter().filter_map(|frame| message(frame, at)).collect()
    }

    fn hear(&mut self, src: &str, bytes: &[u8]) -> Vec<Message> {
        self.hear_from(src, ALL_NODES, 255, bytes)
    }

    fn addresses(&self) -> Vec<Address> {
        self.bench.stack.addresses(PORT).to_vec()
    }

    /// The addresses, as text, of this origin and in this state.
    fn of(&self, origin: Origin, state: AddressState) -> Vec<Ipv6Addr> {
        let wanted = |a: &&Address| a.origin == origin && a.state == state;
        let v6 = |a: &Address| match a.ip() {
            IpAddr::V6(ip) => ip,
            IpAddr::V4(_) => panic!("IPv4"),
        };
        self.addresses().iter().filter(wanted).map(v6).collect()
    }

    fn link_local(&self) -> Option<Ipv6Addr> {
        self.of(Origin::LinkLocal, AddressState::Preferred).first().copied()
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.bench.stack.drops().of(reason)
    }

    /// The next hop to `dst` by routes from advertisements: `None` if there is no route, and `dst`
    /// itself if it is on the link.
    fn next_hop(&self, dst: &str) -> Option<Ipv6Addr> {
        let dst = IpAddr::V6(v6(dst));
        let hop = self.bench.stack.routes.lookup(dst, None, inet::Sender::Program).ok()?;
        match hop.neighbour {
            IpAddr::V6(ip) => Some(ip),
            IpAddr::V4(_) => panic!("IPv4"),
        }
    }

    fn routes_of(&self, origin: RouteOrigin) -> usize {
        self.bench.stack.routes.iter().filter(|r| r.origin == origin).count()
    }
}

fn message(frame: &[u8], at: Instant) -> Option<Message> {
    let ip = wire::ipv6::Header::parse(frame.get(14..)?).ok()?;
    let bytes = frame.get(54..)?.to_vec();
    if ip.next_header != 58 {
        return None;
    }
    wire::icmpv6::Header::parse(&bytes, ip.src, ip.dst).expect("a checksum");
    assert!(bytes[0] >= 128 && (bytes[0] < 133 || ip.hop_limit == 255));
    Some(Message { at, src: ip.src, dst: ip.dst, bytes })
}

/// A router advertisement with this lifetime and these options.
fn advertisement(lifetime_s: u16, options: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![134, 0, 0, 0, 64, 0];
    bytes.extend_from_slice(&lifetime_s.to_be_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend(options.concat());
    bytes
}

/// The option of a 64-bit prefix that is on the link and for addresses.
fn prefix(text: &str, valid_s: u32, preferred_s: u32) -> Vec<u8> {
    prefix_with(0xc0, text, valid_s, preferred_s)
}

fn prefix_with(flags: u8, text: &str, valid_s: u32, preferred_s: u32) -> Vec<u8> {
    let mut option = vec![3, 4, 64, flags];
    option.extend_from_slice(&valid_s.to_be_bytes());
    option.extend_from_slice(&preferred_s.to_be_bytes());
    option.extend_from_slice(&[0; 4]);
    option.extend_from_slice(&v6(text).octets());
    option
}

/// The source link-layer address option.
fn link_address(last: u8) -> Vec<u8> {
    vec![1, 1, 2, 0, 0, 0, 0, last]
}

/// A solicitation for `target`; with `::` as the source it is the probe of another host.
fn solicitation(target: Ipv6Addr) -> Vec<u8> {
    let mut bytes = vec![135, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&target.octets());
    bytes
}

/// An advertisement of `target`, with these flags of RFC 4861 section 4.4.
fn neighbour_advertisement(target: Ipv6Addr, flags: u8, last: u8) -> Vec<u8> {
    let mut bytes = vec![136, 0, 0, 0, flags, 0, 0, 0];
    bytes.extend_from_slice(&target.octets());
    bytes.extend_from_slice(&[2, 1, 2, 0, 0, 0, 0, last]);
    bytes
}

fn group_of(target: Ipv6Addr) -> String {
    inet::nd::solicited_node(target).to_string()
}

/// The configuration without temporary addresses, for tests that are not about them.
fn stable_only() -> AutoConfig {
    AutoConfig { temporary: false, ..AutoConfig::default() }
}

fn far(port: u16) -> SocketAddr {
    SocketAddr::new(v6("2001:db8:ffff::1").into(), port)
}
