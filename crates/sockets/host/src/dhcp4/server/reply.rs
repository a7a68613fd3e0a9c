//! Writes the answers of a DHCPv4 server.
//!
//! Called by: `server.rs`. RFC 2131 section 4.3.1 and table 3 (which fields and options an answer
//! has), RFC 2132 section 9.10 (the longest message of a client), RFC 3396 (long options), RFC
//! 3397, RFC 3442 (classless routes come before routers), RFC 6842 (the client identifier comes
//! back).

use core::net::{IpAddr, Ipv4Addr};

use base::Duration;

use super::config::{ServerConfig, ServerOptions};
use super::query::Query;
use crate::dhcp4::message::{
    COOKIE, ETHERNET, FILE_BYTES, FIXED_BYTES, REPLY, SENT_BYTES_MIN, SNAME_BYTES, code,
};
use crate::names;

/// The shortest and the longest IP packet of an answer: what every host accepts, and what a link
/// carries.
const PACKET_BYTES: core::ops::RangeInclusive<u16> = 576..=1_500;
/// The headers of IPv4 and UDP.
const HEADER_BYTES: u16 = 28;
const INFINITE: u32 = u32::MAX;

/// The type of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Answered {
    Offer = 2,
    Ack = 5,
    Nak = 6,
}

/// An answer with an address, or with options alone if `address` is `None`.
pub(super) fn settings(
    query: &Query<'_>,
    kind: Answered,
    address: Option<Ipv4Addr>,
    config: &ServerConfig,
) -> Vec<u8> {
    let mut writer = Writer::new(query, kind, address, config.server);
    // RFC 2131 4.3.5-a: an answer to DHCPINFORM has no lease.
    if address.is_some() {
        writer.times(config.lease);
    }
    let mask = u32::MAX.checked_shr(u32::from(config.prefix_len)).map_or(u32::MAX, |host| !host);
    writer.option(code::SUBNET_MASK, &mask.to_be_bytes());
    writer.options(&config.options);
    writer.finish()
}

/// A refusal, with a reason for people.
pub(super) fn refusal(query: &Query<'_>, server: Ipv4Addr, why: &str) -> Vec<u8> {
    let mut writer = Writer::new(query, Answered::Nak, None, server);
    writer.option(code::MESSAGE, why.as_bytes());
    writer.finish()
}

struct Writer {
    bytes: Vec<u8>,
    /// The most bytes, the end option included.
    most: usize,
    /// The options that the client asks for; `None`: it does not say.
    asked: Option<Vec<u8>>,
}

impl Writer {
    /// The fixed fields and the options of every answer.
    fn new(
        query: &Query<'_>,
        kind: Answered,
        address: Option<Ipv4Addr>,
        server: Ipv4Addr,
    ) -> Writer {
        let mut bytes = vec![REPLY, ETHERNET, 6, 0];
        bytes.extend(query.xid);
        bytes.extend([0; 2]);
        bytes.extend(query.flags);
        // RFC 2131 table 3: the client's own address comes back in an acknowledgment alone.
        let ciaddr = if kind == Answered::Ack { query.ciaddr } else { Ipv4Addr::UNSPECIFIED };
        bytes.extend(ciaddr.octets());
        bytes.extend(address.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
        bytes.extend([0; 4]);
        bytes.extend(query.giaddr.octets());
        bytes.extend(query.hardware.0);
        bytes.resize(FIXED_BYTES + SNAME_BYTES + FILE_BYTES, 0);
        bytes.extend(COOKIE);
        let packet = query.options.array(code::MAX_MESSAGE).map_or(0, u16::from_be_bytes);
        let packet = packet.clamp(*PACKET_BYTES.start(), *PACKET_BYTES.end());
        let asked = query.options.value(code::PARAMETERS);
        let mut writer = Writer { bytes, most: usize::from(packet - HEADER_BYTES), asked };
        writer.option(code::MESSAGE_TYPE, &[kind as u8]);
        // RFC 2131 4.3.1-b.
        writer.option(code::SERVER_ID, &server.octets());
        // RFC 6842 3-b.
        if let Some(id) = query.options.value(code::CLIENT_ID) {
            writer.option(code::CLIENT_ID, id.get(..255).unwrap_or(&id));
        }
        writer
    }

    /// The lease time, T1 and T2. RFC 2131 4.3.1-c.
    fn times(&mut self, lease: Option<Duration>) {
        let seconds = |span: Duration| u32::try_from(span.as_millis() / 1_000);
        let Some(lease) = lease else {
            return self.option(code::LEASE_TIME, &INFINITE.to_be_bytes());
        };
        let all = seconds(lease).unwrap_or(INFINITE - 1).min(INFINITE - 1);
        self.option(code::LEASE_TIME, &all.to_be_bytes());
        self.option(code::T1, &(all / 2).to_be_bytes());
        self.option(code::T2, &(all - all / 8).to_be_bytes());
    }

    /// The options that a client may ask for, the more important first.
    fn options(&mut self, of: &ServerOptions) {
        let addresses =
            |all: &[Ipv4Addr]| all.iter().flat_map(Ipv4Addr::octets).collect::<Vec<u8>>();
        self.asked(code::CLASSLESS_ROUTES, &classless(of));
        self.asked(code::ROUTER, &addresses(&of.routers));
        self.asked(code::DNS_SERVER, &addresses(&of.dns_servers));
        self.asked(code::MTU, &of.mtu.map(u16::to_be_bytes).map_or(Vec::new(), Vec::from));
        self.asked(code::DOMAIN_NAME, of.domain.as_deref().unwrap_or_default().as_bytes());
        let search: Vec<u8> =
            of.search.iter().flat_map(|name| names::to_wire(name)).flatten().collect();
        self.asked(code::DOMAIN_SEARCH, &search);
    }

    /// RFC 2131 4.3.1-d: an option that the client asks for, or that it may want if it asks for
    /// none. An empty value means that there is nothing to say.
    fn asked(&mut self, code: u8, value: &[u8]) {
        if !value.is_empty() && self.asked.as_ref().is_none_or(|asked| asked.contains(&code)) {
            self.option(code, value);
        }
    }

    /// An option, in pieces if it is long; it is left out if there is no room for it.
    fn option(&mut self, code: u8, value: &[u8]) {
        let pieces = value.chunks(255);
        if self.bytes.len() + value.len() + 2 * pieces.len() + 1 > self.most {
            return;
        }
        for piece in pieces {
            self.bytes.extend([code, piece.len() as u8]);
            self.bytes.extend(piece);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(code::END);
        self.bytes.resize(self.bytes.len().max(SENT_BYTES_MIN), code::PAD);
        self.bytes
    }
}

/// The value of option 121. A client that takes it ignores routers, so it has the default route
/// too.
fn classless(of: &ServerOptions) -> Vec<u8> {
    let mut value = Vec::new();
    if of.routes.is_empty() {
        return value;
    }
    let default = of.routers.first().map(|&router| (0, Ipv4Addr::UNSPECIFIED, router));
    let routes = of.routes.iter().filter_map(|route| {
        let IpAddr::V4(network) = route.destination.network().addr else { return None };
        let gateway = route.gateway.unwrap_or(Ipv4Addr::UNSPECIFIED);
        Some((route.destination.prefix_len, network, gateway))
    });
    for (prefix_len, network, gateway) in routes.chain(default) {
        value.push(prefix_len);
        // RFC 3442: only the bytes of the network that count.
        value.extend(network.octets().iter().take(usize::from(prefix_len).div_ceil(8)));
        value.extend(gateway.octets());
    }
    value
}
