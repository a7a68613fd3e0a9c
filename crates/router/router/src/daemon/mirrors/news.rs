//! Messages of rtnetlink(7) about interfaces and addresses, in the order of this machine's bytes.
//!
//! Called by: `programs.rs`, with the kernel's answers to dumps. Crate netlink-packet-core walks
//! the attributes. Crate netlink-packet-route is not used: an attribute that it cannot read refuses
//! the whole message. Attributes that are malformed or of no use are passed over; no length is
//! believed.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::NlasIterator;

/// Bytes of a netlink header: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// Types of messages.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
pub(super) const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
pub(super) const GET_ADDRESS: u16 = 22;
/// The flags of a request for all, NLM_F_REQUEST | NLM_F_DUMP, and the flag of an answer whose
/// table has changed meanwhile, NLM_F_DUMP_INTR.
const DUMP: u16 = 0x301;
const INTERRUPTED: u16 = 0x10;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) mac: Option<[u8; 6]>,
    /// The interface below it, if it is a macvlan.
    pub(super) above: Option<u32>,
    /// It is up, and has a carrier.
    pub(super) is_up: bool,
    /// It is up, and those above it know.
    pub(super) is_running: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) index: u32,
    pub(super) ip: IpAddr,
    pub(super) prefix_len: u8,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    Link(Link),
    Address(Held),
    /// The answer is complete.
    Done,
    /// The kernel has refused with this error number.
    Refused(i32),
}

/// A request for all interfaces ([`GET_LINK`]) or addresses ([`GET_ADDRESS`]).
pub(super) fn request(kind: u16, sequence: u32) -> Vec<u8> {
    // Room for the longer header of both, `struct ifinfomsg`: zeros mean all.
    let body = [0; 16];
    let len = (HEADER + body.len()) as u32;
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend([kind.to_ne_bytes(), DUMP.to_ne_bytes()].concat());
    bytes.extend([sequence.to_ne_bytes(), [0; 4]].concat());
    bytes.extend(body);
    bytes
}

/// What a datagram says in answer to the request of this number; the flag says that the table has
/// changed while it was read.
pub(super) fn read(mut bytes: &[u8], sequence: u32) -> (Vec<News>, bool) {
    let (mut all, mut interrupted) = (Vec::new(), false);
    while let Some((header, _)) = bytes.split_first_chunk::<HEADER>() {
        let word = |at: usize| u32::from_ne_bytes(core::array::from_fn(|i| header[at + i]));
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let len = word(0) as usize;
        let Some(body) = bytes.get(HEADER..len) else { break };
        if word(8) == sequence {
            interrupted |= half(6) & INTERRUPTED != 0;
            match half(4) {
                NEW_LINK => all.extend(link(body).map(News::Link)),
                NEW_ADDRESS => all.extend(address(body).map(News::Address)),
                DONE => all.push(News::Done),
                ERROR => {
                    let errno = body.first_chunk().map_or(0, |b| i32::from_ne_bytes(*b));
                    all.push(News::Refused(errno.saturating_neg()));
                }
                _ => {}
            }
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    (all, interrupted)
}

/// Kind and value of each attribute.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).filter_map(|attribute| {
        let value = attribute.into_inner();
        let end = usize::from(u16::from_ne_bytes([*value.first()?, *value.get(1)?]));
        Some((attribute.kind(), value.get(4..end)?))
    })
}

fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// Text with a zero at its end.
fn text(value: &[u8]) -> Option<&str> {
    core::str::from_utf8(value.strip_suffix(b"\0")?).ok()
}

/// A `struct ifinfomsg`, and attributes.
fn link(body: &[u8]) -> Option<Link> {
    const UP: u32 = libc::IFF_UP as u32;
    const LOWER_UP: u32 = libc::IFF_LOWER_UP as u32;
    const RUNNING: u32 = libc::IFF_RUNNING as u32;
    let (header, rest) = body.split_first_chunk::<16>()?;
    let index = number(&header[4..8])?;
    let flags = number(&header[8..12])?;
    let [is_up, is_running] = [LOWER_UP, RUNNING].map(|flag| flags & UP != 0 && flags & flag != 0);
    let mut link = Link { index, name: String::new(), mac: None, above: None, is_up, is_running };
    let (mut is_macvlan, mut is_elsewhere) = (false, false);
    for (kind, value) in attributes(rest) {
        match kind {
            libc::IFLA_ADDRESS => link.mac = value.try_into().ok(),
            libc::IFLA_IFNAME => link.name = text(value).unwrap_or_default().to_owned(),
            libc::IFLA_LINK => link.above = number(value),
            libc::IFLA_LINK_NETNSID => is_elsewhere = true,
            libc::IFLA_LINKINFO => {
                let mut of = attributes(value);
                is_macvlan = of.any(|(kind, value)| {
                    kind == libc::IFLA_INFO_KIND && text(value) == Some("macvlan")
                });
            }
            _ => {}
        }
    }
    link.above = link.above.filter(|_| is_macvlan && !is_elsewhere);
    Some(link)
}

/// A `struct ifaddrmsg`, and attributes. `None`: the address may not be used yet, or any more.
fn address(body: &[u8]) -> Option<Held> {
    let (header, rest) = body.split_first_chunk::<8>()?;
    let (prefix_len, mut flags, index) = (header[1], u32::from(header[2]), number(&header[4..8])?);
    let (mut ip, mut local) = (None, None);
    for (kind, value) in attributes(rest) {
        match kind {
            libc::IFA_ADDRESS => ip = address_of(value),
            // Of a link with two ends the other attribute has the other end's.
            libc::IFA_LOCAL => local = address_of(value),
            libc::IFA_FLAGS => flags = number(value).unwrap_or(flags),
            _ => {}
        }
    }
    let ip = local.or(ip)?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let is_usable = flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) == 0;
    (is_usable && (1..=most).contains(&prefix_len)).then_some(Held { index, ip, prefix_len })
}

/// An address of either version, by its length.
fn address_of(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).ok().map(|octets| Ipv4Addr::from(octets).into());
    v4.or_else(|| <[u8; 16]>::try_from(value).ok().map(|octets| Ipv6Addr::from(octets).into()))
}

#[cfg(test)]
mod tests;
