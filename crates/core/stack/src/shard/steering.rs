//! Steering: the shard that a frame belongs to, by a keyed hash of its flow that is the same in
//! both directions.
//!
//! Called by: `device.rs` for each frame, `open.rs` for the port of a connection, `frag.rs` for a
//! reassembled datagram; senders that have a ring for each shard. An ICMP error goes to the shard
//! of the flow that it quotes. Fragments go by their addresses alone, so that those of one datagram
//! meet. Frames for the host rather than for a flow go to the first shard. RFC 792, RFC 4443.

use core::net::{IpAddr, SocketAddr};

use base::LinkKind;
use wire::{ether, ipv6, protocol, vlan};

/// The shard or shards to which a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// To this shard.
    Shard(usize),
    /// To all shards, each of which gets a copy: the answers of neighbours.
    All,
}

/// The first shard, which has the state of the host.
const FIRST: Home = Home::Shard(0);

const ICMP_REDIRECT: u8 = 5;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// DHCP and DHCPv6, servers and clients: RFC 2131 section 4.1, RFC 8415 section 7.2.
const DHCP: u16 = 67;
const DHCPV6: u16 = 546;
/// A frame with more extension headers than hosts process is steered by its addresses.
const EXTENSIONS_MAX: usize = 8;

/// The key of the hash, and the number of shards.
#[derive(Clone, Copy, Debug)]
pub struct Steering {
    key: [u64; 2],
    count: u32,
}

/// One end of a flow, folded to a number that no remote host can predict.
type Endpoint = u64;

impl Steering {
    pub(super) fn new(key: [u64; 2], count: usize) -> Steering {
        Steering { key, count: count as u32 }
    }

    /// The steering of a stack that is no shard: all flows belong to it.
    pub fn alone() -> Steering {
        Steering::new([0; 2], 1)
    }

    /// The number of shards.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The shard of a TCP or UDP flow, in whichever order its ends are named.
    pub fn of_flow(&self, one: SocketAddr, other: SocketAddr) -> usize {
        self.between(self.endpoint(one.ip(), one.port()), self.endpoint(other.ip(), other.port()))
    }

    /// The shard to which a frame goes.
    #[inline(always)]
    pub fn home(&self, link: LinkKind, frame: &[u8]) -> Home {
        if link == LinkKind::Ip {
            return self.packet(frame);
        }
        let Some(header) = frame.first_chunk::<{ ether::HEADER_LEN }>() else { return FIRST };
        let packet = frame.get(ether::HEADER_LEN..).unwrap_or_default();
        if header[0] & 1 != 0 {
            return self.group(u16::from_be_bytes([header[12], header[13]]), packet);
        }
        match u16::from_be_bytes([header[12], header[13]]) {
            ether::IPV4 => self.v4(packet),
            ether::IPV6 => self.v6(packet),
            ether::ARP => Home::All,
            other => self.priority_tagged(false, other, packet),
        }
    }

    /// A frame with priority tags goes to the shard of the same frame without them.
    #[cold]
    fn priority_tagged(&self, to_group: bool, ethertype: u16, behind: &[u8]) -> Home {
        let (mut ethertype, mut packet) = (ethertype, behind);
        for _ in 0..2 {
            if let ether::VLAN | ether::SERVICE_VLAN = ethertype
                && let Ok(tag @ vlan::Header { id: 0, .. }) = vlan::Header::parse(packet)
            {
                (ethertype, packet) =
                    (tag.ethertype, packet.get(vlan::HEADER_LEN..).unwrap_or_default());
            }
        }
        match ethertype {
            ether::ARP => Home::All,
            ether::IPV4 | ether::IPV6 if to_group => self.group(ethertype, packet),
            ether::IPV4 => self.v4(packet),
            ether::IPV6 => self.v6(packet),
            _ => FIRST,
        }
    }

    /// The shard to which an IP packet goes.
    #[inline(always)]
    pub(super) fn packet(&self, packet: &[u8]) -> Home {
        match packet.first() {
            Some(first) if first >> 4 == 6 => self.v6(packet),
            _ => self.v4(packet),
        }
    }

    /// The shard to which a frame with a broadcast or multicast MAC address goes.
    #[cold]
    fn group(&self, ethertype: u16, packet: &[u8]) -> Home {
        match ethertype {
            ether::ARP => Home::All,
            ether::IPV6 if self.v6(packet) == Home::All => Home::All,
            ether::VLAN | ether::SERVICE_VLAN => self.priority_tagged(true, ethertype, packet),
            _ => FIRST,
        }
    }

    #[inline(always)]
    fn v4(&self, packet: &[u8]) -> Home {
        // 20 bytes of header and the ports, which follow it.
        let Some(b) = packet.first_chunk::<24>() else { return self.other_v4(packet) };
        let is_whole = (b[6] & 0x3f) | b[7] == 0;
        let is_plain = b[0] == 0x45 && is_whole && b[16] >> 4 != 0xe;
        if is_plain && (b[9] == protocol::TCP || (b[9] == protocol::UDP && !is_dhcp(&b[20..24]))) {
            return Home::Shard(self.between(self.v4_end(b, 12, 20), self.v4_end(b, 16, 22)));
        }
        self.other_v4(packet)
    }

    #[inline(always)]
    fn v4_end(&self, b: &[u8; 24], addr: usize, port: usize) -> Endpoint {
        let word = |at: usize| u32::from_ne_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        u64::from(word(addr)) << 16 | u64::from(u16::from_ne_bytes([b[port], b[port + 1]]))
    }

    /// The shard to which a packet goes that is not plain TCP or UDP.
    #[cold]
    #[inline(never)]
    fn other_v4(&self, packet: &[u8]) -> Home {
        let Some(b) = packet.first_chunk::<20>() else { return FIRST };
        let header_len = usize::from(b[0] & 15) * 4;
        if b[16] >> 4 == 0xe {
            return FIRST;
        }
        let by_addresses = Home::Shard(self.v4_flow(b, &[0; 4]));
        if (b[6] & 0x3f) | b[7] != 0 {
            return by_addresses;
        }
        let data = packet.get(header_len.max(20)..).unwrap_or_default();
        match (b[9], data) {
            (protocol::UDP, _) if is_dhcp(data) => FIRST,
            (protocol::TCP | protocol::UDP, _) => Home::Shard(self.v4_flow(b, data)),
            (protocol::ICMP, [ICMP_REDIRECT, ..]) | (protocol::IGMP, _) => FIRST,
            (protocol::ICMP, [3 | 4 | 11 | 12, _, _, _, _, _, _, _, quoted @ ..]) => {
                Home::Shard(self.quoted_v4(quoted))
            }
            _ => by_addresses,
        }
    }

    /// The shard of a packet that an error quotes: that of the flow, because the quoted packet is a
    /// first fragment or whole, and names the ports.
    fn quoted_v4(&self, quoted: &[u8]) -> usize {
        let Some(b) = quoted.first_chunk::<20>() else { return 0 };
        let has_ports = (b[6] & 0x1f) | b[7] == 0 && matches!(b[9], protocol::TCP | protocol::UDP);
        let data = quoted.get(usize::from(b[0] & 15).max(5) * 4..).unwrap_or_default();
        self.v4_flow(b, if has_ports { data } else { &[] })
    }

    /// The shard of two addresses and the ports at the beginning of `data`, if it contains ports.
    fn v4_flow(&self, header: &[u8; 20], data: &[u8]) -> usize {
        let mut b = [0; 24];
        b[..20].copy_from_slice(header);
        b[20..].copy_from_slice(&data.first_chunk::<4>().copied().unwrap_or_default());
        self.between(self.v4_end(&b, 12, 20), self.v4_end(&b, 16, 22))
    }

    #[inline(always)]
    fn v6(&self, packet: &[u8]) -> Home {
        let Some(b) = packet.first_chunk::<44>() else { return self.other_v6(packet) };
        let is_plain = b[0] >> 4 == 6 && b[24] != 0xff;
        if is_plain && (b[6] == protocol::TCP || (b[6] == protocol::UDP && !is_dhcp(&b[40..44]))) {
            return Home::Shard(self.between(self.v6_end(b, 8, 40), self.v6_end(b, 24, 42)));
        }
        self.other_v6(packet)
    }

    #[inline(always)]
    fn v6_end(&self, b: &[u8; 44], addr: usize, port: usize) -> Endpoint {
        let addr = b[addr..].first_chunk::<16>().copied().unwrap_or_default();
        self.fold_v6(addr, [b[port], b[port + 1]])
    }

    #[inline(always)]
    fn fold_v6(&self, addr: [u8; 16], port: [u8; 2]) -> Endpoint {
        let addr = u128::from_ne_bytes(addr);
        let (low, high) = (addr as u64, (addr >> 64) as u64);
        fold(low ^ self.key[1], high ^ self.key[0]) ^ u64::from(u16::from_ne_bytes(port))
    }

    /// The shard to which a packet goes that does not have TCP or UDP right after its header.
    #[cold]
    #[inline(never)]
    fn other_v6(&self, packet: &[u8]) -> Home {
        let Some(b) = packet.first_chunk::<40>() else { return FIRST };
        let (protocol, data) = match last_header(b[6], &packet[40..]) {
            Some((protocol::ICMPV6, [NEIGHBOUR_ADVERTISEMENT, ..])) => return Home::All,
            _ if b[24] == 0xff => return FIRST,
            Some(found) => found,
            None => return Home::Shard(self.v6_flow(b, &[])),
        };
        match (protocol, data) {
            (protocol::UDP, _) if is_dhcp(data) => FIRST,
            (protocol::TCP | protocol::UDP, _) => Home::Shard(self.v6_flow(b, data)),
            // MLD, and all messages of neighbour discovery but advertisements.
            (protocol::ICMPV6, [130..=137 | 143, ..]) => FIRST,
            (protocol::ICMPV6, [0..128, _, _, _, _, _, _, _, quoted @ ..]) => {
                Home::Shard(self.quoted_v6(quoted))
            }
            _ => Home::Shard(self.v6_flow(b, &[])),
        }
    }

    fn quoted_v6(&self, quoted: &[u8]) -> usize {
        let Some(b) = quoted.first_chunk::<40>() else { return 0 };
        match last_header(b[6], &quoted[40..]) {
            Some((protocol::TCP | protocol::UDP, data)) => self.v6_flow(b, data),
            _ => self.v6_flow(b, &[]),
        }
    }

    fn v6_flow(&self, header: &[u8; 40], data: &[u8]) -> usize {
        let mut b = [0; 44];
        b[..40].copy_from_slice(header);
        b[40..].copy_from_slice(&data.first_chunk::<4>().copied().unwrap_or_default());
        self.between(self.v6_end(&b, 8, 40), self.v6_end(&b, 24, 42))
    }

    fn endpoint(&self, ip: IpAddr, port: u16) -> Endpoint {
        let port = port.to_be_bytes();
        match ip {
            IpAddr::V4(ip) => {
                let addr = u64::from(u32::from_ne_bytes(ip.octets()));
                addr << 16 | u64::from(u16::from_ne_bytes(port))
            }
            IpAddr::V6(ip) => self.fold_v6(ip.octets(), port),
        }
    }

    /// This is not SipHash, which would cost every frame six rounds. An attacker who finds out the
    /// key can overload one shard, and no more.
    #[inline(always)]
    fn between(&self, one: Endpoint, other: Endpoint) -> usize {
        let [a, b] = self.key;
        let hash = fold(one.min(other) ^ a, one.max(other) ^ b);
        let spread = fold(hash ^ b, 0x9e37_79b9_7f4a_7c15);
        (((spread >> 32) * u64::from(self.count)) >> 32) as usize
    }
}

/// Fold a product's halves into one word, which depends on all bits of both factors.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Does one of the ports belong to a DHCP server or client?
#[inline(always)]
fn is_dhcp(ports: &[u8]) -> bool {
    let Some(&[a, b, c, d]) = ports.first_chunk::<4>() else { return false };
    [[a, b], [c, d]]
        .map(u16::from_be_bytes)
        .into_iter()
        .any(|port| port.wrapping_sub(DHCP) < 2 || port.wrapping_sub(DHCPV6) < 2)
}

/// The protocol after the extension headers of an IPv6 packet, and its data. `None` for one of
/// several fragments, or if the headers do not end.
fn last_header(mut next: u8, mut data: &[u8]) -> Option<(u8, &[u8])> {
    for _ in 0..EXTENSIONS_MAX {
        let len = match next {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                usize::from(*data.get(1)?) * 8 + 8
            }
            protocol::FRAGMENT => {
                let is_one = u16::from_be_bytes([*data.get(2)?, *data.get(3)?]) & !6 == 0;
                is_one.then_some(ipv6::Fragment::LEN)?
            }
            _ => return Some((next, data)),
        };
        next = *data.first()?;
        data = data.get(len..)?;
    }
    None
}

/// The state of a stack that it has because it is a shard.
pub(crate) struct Membership {
    pub(crate) index: usize,
    pub(crate) steering: Steering,
}

#[cfg(test)]
#[path = "steering_tests.rs"]
mod tests;
