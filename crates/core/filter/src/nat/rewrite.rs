//! Rewriting: a packet gets the addresses and ports of another tuple, in place.
//!
//! Called by: the stack, for packets that are not plain (`plain.rs` has the fast form), and
//! `quote.rs` for the packets inside of ICMP errors. Checksums are updated by the difference, never
//! computed anew, so that a wrong one stays wrong: RFC 1624, RFC 3022 section 4.2. RFC 791, RFC
//! 8200, RFC 768, RFC 9293, RFC 792, RFC 4443; the place of the checksums of UDP-Lite (RFC 3828)
//! and DCCP (RFC 4340), whose ports stay.

use core::net::IpAddr;

use base::{DropReason, KeyedHash};
use wire::checksum::{Sum, sum_short};
use wire::{ipv6, protocol};

use crate::Tuple;

/// DCCP, RFC 4340: the sum is two bytes behind that of UDP's place, as for UDP-Lite.
const DCCP: u8 = 33;
/// UDP-Lite, RFC 3828.
const UDP_LITE: u8 = 136;

/// What the transport checksum of a packet covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// The pseudo-header, the header and the data, as RFC 9293 section 3.1 says.
    #[default]
    Whole,
    /// The pseudo-header alone, and not complemented: the device computes the rest (Linux's
    /// `CHECKSUM_PARTIAL`). Only addresses change it, because ports are in the rest.
    PseudoHeader,
}

/// What else is known of a packet to rewrite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What its transport checksum covers.
    pub checksum: Checksum,
    /// The IPv4 identification to write; `None` keeps it. Fragments of a datagram need the same
    /// one: [`identification`].
    pub identification: Option<u16>,
    /// Does the slice have the beginning of the packet alone, with all headers, while other buffers
    /// have the rest?
    pub is_chain: bool,
}

/// Give the IP packet at the start of `packet` the addresses, ports or echo identifier of `to`.
///
/// Bytes behind the packet's own length, such as link padding, stay. TCP and UDP have their ports
/// replaced, ICMP queries their identifier by `to.src_port` and answers theirs by `to.dst_port`;
/// all other protocols keep what is behind the IP header, but for a checksum that covers the
/// addresses. A fragment that is not the first has no ports: only its addresses change. An ICMP
/// error needs [`super::rewrite_error`]. A UDP checksum of zero, which means none, stays zero.
///
/// # Errors
/// [`DropReason::FilterMalformed`] if the packet is no IP packet of the version of `to`, if a
/// length contradicts another one, if the fields to change are not all there, or if an IPv6 routing
/// header has segments left. Nothing was written then.
pub fn rewrite(packet: &mut [u8], to: &Tuple, options: Options) -> Result<(), DropReason> {
    let extent = if options.is_chain { Extent::Beginning } else { Extent::Whole };
    let layout = Layout::of(packet, extent).ok_or(DropReason::FilterMalformed)?;
    if !layout.fits(to) || !layout.is_complete(packet) {
        return Err(DropReason::FilterMalformed);
    }
    let data = packet.get_mut(..layout.end).ok_or(DropReason::FilterMalformed)?;
    let mut edit = Edit::new(data);
    edit.packet(&layout, to, options);
    Ok(())
}

/// The identification of a translated IPv4 datagram: a keyed hash of the addresses that it had and
/// of the identification that it had, so that all fragments get the same one, in any order, and no
/// table is needed.
///
/// Hosts behind one address number their datagrams independently, and a receiver would join
/// fragments of two of them (RFC 6864 section 5.3.1). Two datagrams in flight collide as often as
/// random numbers do. RFC 7857 10-a.
pub fn identification(key: &KeyedHash, original: &Tuple, identification: u16) -> u16 {
    let word = |addr: IpAddr| match addr {
        IpAddr::V4(addr) => u64::from(addr.to_bits()),
        IpAddr::V6(addr) => addr.to_bits() as u64,
    };
    let numbers = u64::from(identification) << 8 | u64::from(original.protocol);
    key.hash([word(original.src) << 32 | word(original.dst), numbers]) as u16
}

/// How much of a packet there must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// As much as its header says.
    Whole,
    /// The beginning with all headers: the caller knows that the rest is elsewhere.
    Beginning,
    /// The beginning, as an ICMP error quotes it. Its own length is not believed.
    Quoted,
}

/// Where the fields of a packet are.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) is_v6: bool,
    /// The protocol behind the IP header and its extensions.
    pub(super) protocol: u8,
    /// Where that protocol's header begins; `None` in a fragment that is not the first.
    pub(super) transport: Option<usize>,
    /// Where the packet ends.
    pub(super) end: usize,
}

impl Layout {
    /// `None` if a length contradicts another one.
    pub(super) fn of(packet: &[u8], extent: Extent) -> Option<Layout> {
        match packet.first()? >> 4 {
            4 => Layout::v4(packet, extent),
            6 => Layout::v6(packet, extent),
            _ => None,
        }
    }

    fn v4(packet: &[u8], extent: Extent) -> Option<Layout> {
        let b = packet.first_chunk::<20>()?;
        // RFC 5508 REQ-3b: the transport header is behind the options.
        let header_len = usize::from(b[0] & 15) * 4;
        let end = match extent {
            Extent::Whole => usize::from(u16::from_be_bytes([b[2], b[3]])),
            Extent::Beginning | Extent::Quoted => packet.len(),
        };
        if header_len < 20 || end < header_len || end > packet.len() {
            return None;
        }
        let is_first = (b[6] & 0x1f) | b[7] == 0;
        let transport = is_first.then_some(header_len);
        Some(Layout { is_v6: false, protocol: b[9], transport, end })
    }

    fn v6(packet: &[u8], extent: Extent) -> Option<Layout> {
        let b = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
        let end = match extent {
            Extent::Whole => ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([b[4], b[5]])),
            Extent::Beginning | Extent::Quoted => packet.len(),
        };
        if extent != Extent::Quoted && routes_on(packet.get(..end)?, b[6]) {
            return None;
        }
        let (protocol, transport) = match ipv6::last_header(packet.get(..end)?) {
            Some((protocol::FRAGMENT, ..)) => (protocol::FRAGMENT, None),
            Some((protocol, at, _)) => (protocol, Some(at)),
            // The quote ends in the extension headers.
            None if extent == Extent::Quoted => (protocol::NO_NEXT, None),
            None => return None,
        };
        Some(Layout { is_v6: true, protocol, transport, end })
    }

    /// Is `to` a tuple of this version of IP?
    pub(super) fn fits(&self, to: &Tuple) -> bool {
        to.src.is_ipv6() == self.is_v6 && to.dst.is_ipv6() == self.is_v6
    }

    /// Are all fields there that a rewrite changes?
    fn is_complete(&self, packet: &[u8]) -> bool {
        let Some(at) = self.transport else { return true };
        let data = packet.get(at..self.end).unwrap_or_default();
        match Fields::of(self, data) {
            Some(fields) => data.len() >= fields.len,
            // An ICMP message without a type.
            None => !self.is_icmp(),
        }
    }

    /// Is it ICMP in IPv4, or ICMPv6 in IPv6?
    pub(super) fn is_icmp(&self) -> bool {
        self.protocol == if self.is_v6 { protocol::ICMPV6 } else { protocol::ICMP }
    }
}

/// Has an IPv6 packet a routing header with segments left? The last address of that header is the
/// destination of the pseudo-header then (RFC 8200 section 8.1), and the one that translation would
/// have to change.
fn routes_on(packet: &[u8], first: u8) -> bool {
    let (mut next, mut at) = (first, ipv6::HEADER_LEN);
    while let protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS = next {
        let Some([following, units, _, left]) = packet.get(at..).and_then(|b| b.first_chunk())
        else {
            return false;
        };
        if next == protocol::ROUTING && *left != 0 {
            return true;
        }
        (next, at) = (*following, at + usize::from(*units) * 8 + 8);
    }
    false
}

/// Where the fields of a transport header are that a rewrite changes, from its beginning.
#[derive(Clone, Copy)]
struct Fields {
    /// Source and destination port, or an identifier.
    ports: Ports,
    /// The checksum.
    checksum: usize,
    /// Does the checksum cover the addresses?
    has_pseudo_header: bool,
    /// Does a checksum of zero mean that there is none?
    may_be_zero: bool,
    /// Bytes that there must be.
    len: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ports {
    /// Of TCP and UDP, at the beginning.
    Both,
    /// Of ICMP queries, at offset 4: the source port of the tuple.
    Query,
    /// Of their answers: the destination port.
    Answer,
    /// None that are translated.
    Neither,
}

impl Fields {
    /// `None` for a protocol in which nothing changes. `data` is the transport header, as far as it
    /// is there.
    fn of(layout: &Layout, data: &[u8]) -> Option<Fields> {
        let like = |ports, checksum, len| Fields {
            ports,
            checksum,
            has_pseudo_header: true,
            may_be_zero: false,
            len,
        };
        Some(match layout.protocol {
            protocol::TCP => like(Ports::Both, 16, 20),
            protocol::UDP => Fields { may_be_zero: true, ..like(Ports::Both, 6, 8) },
            UDP_LITE | DCCP => like(Ports::Neither, 6, 8),
            _ if layout.is_icmp() => {
                let ports = identifier(layout.is_v6, *data.first()?);
                Fields { has_pseudo_header: layout.is_v6, ..like(ports, 2, 8) }
            }
            _ => return None,
        })
    }
}

/// Which port of its tuple is the identifier of an ICMP message of this type? RFC 792: echo,
/// timestamp, information; RFC 950: address mask; RFC 4443: echo.
pub(super) fn identifier(is_v6: bool, kind: u8) -> Ports {
    match (is_v6, kind) {
        (false, 8 | 13 | 15 | 17) | (true, 128) => Ports::Query,
        (false, 0 | 14 | 16 | 18) | (true, 129) => Ports::Answer,
        _ => Ports::Neither,
    }
}

/// The sum of bytes that were replaced, before and after.
#[derive(Clone, Copy, Default)]
pub(super) struct Change {
    old: Sum,
    new: Sum,
}

impl Change {
    pub(super) fn and(self, other: Change) -> Change {
        Change { old: self.old.plus(other.old), new: self.new.plus(other.new) }
    }

    /// A complemented checksum after the change.
    fn field(self, field: [u8; 2]) -> [u8; 2] {
        Sum::updated(field, self.old, self.new)
    }
}

/// A packet whose fields are replaced, and the sum of all that was.
pub(super) struct Edit<'a> {
    bytes: &'a mut [u8],
    /// All replaced bytes so far, checksums included.
    all: Change,
}

impl<'a> Edit<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Edit<'a> {
        Edit { bytes, all: Change::default() }
    }

    /// Replace the bytes at the even offset `at`; nothing happens if they are not all there.
    pub(super) fn put(&mut self, at: usize, new: &[u8]) -> Change {
        let field = at.checked_add(new.len()).and_then(|end| self.bytes.get_mut(at..end));
        let Some(field) = field else { return Change::default() };
        let change = Change { old: sum_short(field), new: sum_short(new) };
        field.copy_from_slice(new);
        self.all = self.all.and(change);
        change
    }

    /// Apply `change` to the complemented checksum at `at`.
    pub(super) fn update(&mut self, at: usize, change: Change) {
        if let Some(field) = self.two(at) {
            self.put(at, &change.field(field));
        }
    }

    /// The sum of everything that was replaced so far.
    pub(super) fn all(&self) -> Change {
        self.all
    }

    fn two(&self, at: usize) -> Option<[u8; 2]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }

    /// Replace the addresses; IPv4 has a checksum of its own.
    pub(super) fn addresses(&mut self, src: IpAddr, dst: IpAddr) -> Change {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let change = self.put(12, &src.octets()).and(self.put(16, &dst.octets()));
                self.update(10, change);
                change
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                self.put(8, &src.octets()).and(self.put(24, &dst.octets()))
            }
            // `Layout::fits` was asked before.
            _ => Change::default(),
        }
    }

    /// Give the packet the tuple `to`, as far as its fields are there.
    pub(super) fn packet(&mut self, layout: &Layout, to: &Tuple, options: Options) {
        let addresses = self.addresses(to.src, to.dst);
        if let (Some(id), false) = (options.identification, layout.is_v6) {
            let change = self.put(4, &id.to_be_bytes());
            self.update(10, change);
        }
        let Some(at) = layout.transport else { return };
        let Some(fields) = Fields::of(layout, self.bytes.get(at..).unwrap_or_default()) else {
            return;
        };
        let ports = match fields.ports {
            Ports::Neither => Change::default(),
            Ports::Query => self.put(at + 4, &to.src_port.to_be_bytes()),
            Ports::Answer => self.put(at + 4, &to.dst_port.to_be_bytes()),
            Ports::Both => {
                let src = self.put(at, &to.src_port.to_be_bytes());
                src.and(self.put(at + 2, &to.dst_port.to_be_bytes()))
            }
        };
        let addresses = if fields.has_pseudo_header { addresses } else { Change::default() };
        self.checksum(at + fields.checksum, fields.may_be_zero, addresses, ports, options.checksum);
    }

    /// Update the transport checksum at `at`, if it is there.
    fn checksum(
        &mut self,
        at: usize,
        may_be_zero: bool,
        addresses: Change,
        ports: Change,
        covers: Checksum,
    ) {
        let Some(field) = self.two(at) else { return };
        let new = match covers {
            Checksum::PseudoHeader => {
                let sum = Sum(u16::from_ne_bytes(field));
                sum.minus(addresses.old).plus(addresses.new).0.to_ne_bytes()
            }
            // RFC 768: no checksum. RFC 6935 has the same for tunnels over IPv6.
            Checksum::Whole if may_be_zero && field == [0; 2] => return,
            Checksum::Whole => match addresses.and(ports).field(field) {
                // RFC 768: a computed zero is sent as all ones.
                [0, 0] if may_be_zero => [0xff; 2],
                new => new,
            },
        };
        self.put(at, &new);
    }
}

#[cfg(test)]
mod tests;
