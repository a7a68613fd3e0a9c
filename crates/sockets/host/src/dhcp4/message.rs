//! DHCPv4 messages: sent ones are made, received ones are checked and their options found.
//!
//! Called by: `client.rs`, `lease.rs`, and `server` for options. RFC 2131 section 2 (the fixed
//! fields), RFC 2132 (options and their lengths), RFC 3396 (an option in several pieces). Options
//! are read as ISC's dhclient reads them, because servers were tested with it: a value of fixed
//! length is the first bytes of the option, and an end option may be missing. A message with an
//! option that is longer than its field is no message: nothing of it is used.

use core::net::Ipv4Addr;

use base::MacAddr;

use super::{Config, Refusal};

/// The fields before `sname` and `file`, those two, and the magic cookie.
pub(super) const FIXED_BYTES: usize = 44;
pub(super) const SNAME_BYTES: usize = 64;
pub(super) const FILE_BYTES: usize = 128;
pub(super) const OPTIONS_AT: usize = FIXED_BYTES + SNAME_BYTES + FILE_BYTES + COOKIE.len();
pub(super) const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// BOOTP's 64 bytes of vendor data: relays and servers drop messages below that (RFC 1542 section
/// 2.1).
pub(super) const SENT_BYTES_MIN: usize = 300;

pub(super) const REQUEST: u8 = 1;
pub(super) const REPLY: u8 = 2;
pub(super) const ETHERNET: u8 = 1;
pub(super) const BROADCAST: u16 = 0x8000;

/// Option codes (RFC 2132, RFC 3397, RFC 3442).
pub(super) mod code {
    pub(crate) const PAD: u8 = 0;
    pub(crate) const SUBNET_MASK: u8 = 1;
    pub(crate) const ROUTER: u8 = 3;
    pub(crate) const DNS_SERVER: u8 = 6;
    pub(crate) const HOSTNAME: u8 = 12;
    pub(crate) const DOMAIN_NAME: u8 = 15;
    pub(crate) const MTU: u8 = 26;
    pub(crate) const REQUESTED_ADDRESS: u8 = 50;
    pub(crate) const LEASE_TIME: u8 = 51;
    pub(crate) const OVERLOAD: u8 = 52;
    pub(crate) const MESSAGE_TYPE: u8 = 53;
    pub(crate) const SERVER_ID: u8 = 54;
    pub(crate) const PARAMETERS: u8 = 55;
    pub(crate) const MESSAGE: u8 = 56;
    pub(crate) const MAX_MESSAGE: u8 = 57;
    pub(crate) const T1: u8 = 58;
    pub(crate) const T2: u8 = 59;
    pub(crate) const CLIENT_ID: u8 = 61;
    pub(crate) const DOMAIN_SEARCH: u8 = 119;
    pub(crate) const CLASSLESS_ROUTES: u8 = 121;
    pub(crate) const END: u8 = 255;
}

/// The options that the client asks for. RFC 3442: classless routes come before routers.
const PARAMETERS: &[u8] = &[
    code::SUBNET_MASK,
    code::CLASSLESS_ROUTES,
    code::ROUTER,
    code::DNS_SERVER,
    code::DOMAIN_NAME,
    code::DOMAIN_SEARCH,
    code::MTU,
    code::LEASE_TIME,
    code::T1,
    code::T2,
];

/// Messages that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Sent {
    Discover = 1,
    Request = 3,
    Decline = 4,
    Release = 7,
}

/// Messages that a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Offer,
    Ack,
    Nak,
}

/// The fields of a sent message that vary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) kind: Sent,
    pub(super) xid: u32,
    /// Seconds since the exchange began.
    pub(super) secs: u16,
    /// The address in use, or unspecified.
    pub(super) ciaddr: Ipv4Addr,
    pub(super) requested: Option<Ipv4Addr>,
    pub(super) server: Option<Ipv4Addr>,
}

impl Outgoing {
    /// The bytes. RFC 2131 4.4.1-e (table 5: which fields and options each message has).
    pub(super) fn emit(&self, config: &Config) -> Vec<u8> {
        let asks = matches!(self.kind, Sent::Discover | Sent::Request);
        let mut bytes = vec![REQUEST, ETHERNET, 6, 0];
        bytes.extend(self.xid.to_be_bytes());
        bytes.extend(self.secs.to_be_bytes());
        // RFC 2131 4.1-c: the flag is for clients without an address.
        let broadcast = asks && config.broadcast && self.ciaddr.is_unspecified();
        bytes.extend((if broadcast { BROADCAST } else { 0 }).to_be_bytes());
        bytes.extend(self.ciaddr.octets());
        bytes.extend([0; 12]);
        bytes.extend(config.hardware.0);
        bytes.resize(FIXED_BYTES + SNAME_BYTES + FILE_BYTES, 0);
        bytes.extend(COOKIE);
        let mut option = |code: u8, value: &[u8]| {
            // Values have a fixed length, except two, whose length `Client::new` checks.
            debug_assert!(value.len() <= 255, "option {code} of {} bytes", value.len());
            bytes.extend([code, value.len() as u8]);
            bytes.extend(value);
        };
        option(code::MESSAGE_TYPE, &[self.kind as u8]);
        option(code::CLIENT_ID, &config.client_id);
        if let Some(address) = self.requested {
            option(code::REQUESTED_ADDRESS, &address.octets());
        }
        if let Some(server) = self.server {
            option(code::SERVER_ID, &server.octets());
        }
        if asks {
            option(code::MAX_MESSAGE, &config.mtu_max.to_be_bytes());
            let is_asked = |&one: &u8| config.learn_routes || one != code::CLASSLESS_ROUTES;
            let asked: Vec<u8> = PARAMETERS.iter().copied().filter(is_asked).collect();
            option(code::PARAMETERS, &asked);
            if let Some(name) = &config.hostname {
                option(code::HOSTNAME, name.as_bytes());
            }
        }
        bytes.push(code::END);
        bytes.resize(bytes.len().max(SENT_BYTES_MIN), code::PAD);
        bytes
    }
}

/// A received message, checked as far as it can be without knowing what was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received<'a> {
    pub(super) kind: Kind,
    pub(super) xid: u32,
    /// The address that the server gives.
    pub(super) yiaddr: Ipv4Addr,
    pub(super) hardware: MacAddr,
    pub(super) options: Options<'a>,
}

impl<'a> Received<'a> {
    /// A reply over Ethernet with the magic cookie, options in order, and a message type of a
    /// server; `None` if it is anything else.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Received<'a>> {
        let [op, htype, hlen, _, ..] = *bytes else { return None };
        if (op, htype, hlen) != (REPLY, ETHERNET, 6) {
            return None;
        }
        let cookie = bytes.get(OPTIONS_AT - COOKIE.len()..OPTIONS_AT)?;
        if cookie != COOKIE {
            return None;
        }
        let options = Options::find(bytes)?;
        let kind = match options.array::<1>(code::MESSAGE_TYPE)? {
            [2] => Kind::Offer,
            [5] => Kind::Ack,
            [6] => Kind::Nak,
            _ => return None,
        };
        let xid = u32::from_be_bytes(*bytes.get(4..8)?.first_chunk()?);
        let yiaddr = Ipv4Addr::from(*bytes.get(16..20)?.first_chunk::<4>()?);
        let hardware = MacAddr(*bytes.get(28..34)?.first_chunk()?);
        Some(Received { kind, xid, yiaddr, hardware, options })
    }
}

/// The options of a message: of the options field, and of `file` and `sname` if they are
/// overloaded, in this order (RFC 2131 section 4.1, RFC 3396 section 5).
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'a> {
    fields: [&'a [u8]; 3],
}

impl<'a> Options<'a> {
    pub(super) fn find(bytes: &'a [u8]) -> Option<Options<'a>> {
        let sname = bytes.get(FIXED_BYTES..FIXED_BYTES + SNAME_BYTES)?;
        let file = bytes.get(FIXED_BYTES + SNAME_BYTES..OPTIONS_AT - COOKIE.len())?;
        let unused: &[u8] = &[code::END];
        let field = bytes.get(OPTIONS_AT..).filter(|field| is_whole(field))?;
        let mut options = Options { fields: [field, unused, unused] };
        // RFC 2131 4.1-d: a bit for each field.
        if let Some([overload]) = options.array(code::OVERLOAD) {
            let file = if overload & 1 != 0 { file } else { unused };
            let sname = if overload & 2 != 0 { sname } else { unused };
            options.fields = [field, file, sname];
        }
        options.fields.iter().all(|field| is_whole(field)).then_some(options)
    }

    /// The pieces of an option, in order.
    fn pieces(&self, code: u8) -> impl Iterator<Item = &'a [u8]> {
        let fields = self.fields.into_iter().flat_map(|field| Walk { rest: field });
        fields.filter(move |&(found, _)| found == code).map(|(_, value)| value)
    }

    /// The value of an option, its pieces joined (RFC 3396 section 7); `None` if it is absent. Two
    /// equal pieces are one value that was sent twice, not a split one.
    pub(super) fn value(&self, code: u8) -> Option<Vec<u8>> {
        let first = self.pieces(code).next()?;
        match self.pieces(code).all(|piece| piece == first) {
            true => Some(first.to_vec()),
            false => Some(self.pieces(code).flatten().copied().collect()),
        }
    }

    /// The value of an option of `N` bytes: its first `N` bytes, whether it came in one piece, in
    /// several, or more than once.
    pub(super) fn array<const N: usize>(&self, code: u8) -> Option<[u8; N]> {
        let mut value = [0; N];
        let mut bytes = self.pieces(code).flatten();
        for to in &mut value {
            *to = *bytes.next()?;
        }
        Some(value)
    }

    /// As [`Options::array`], for an option that the answer needs.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn needed<const N: usize>(&self, code: u8) -> Result<[u8; N], Refusal> {
        if self.pieces(code).next().is_none() {
            return Err(Refusal::Missing(code));
        }
        let bytes = self.pieces(code).map(<[u8]>::len).sum();
        self.array(code).ok_or(Refusal::Short { code, bytes })
    }

    /// An option that is a time in seconds.
    pub(super) fn seconds(&self, code: u8) -> Option<u32> {
        self.array(code).map(u32::from_be_bytes)
    }

    /// An option that is a list of addresses, without bytes behind the last whole one.
    pub(super) fn addresses(&self, code: u8) -> Vec<Ipv4Addr> {
        let value = self.value(code).unwrap_or_default();
        let (addresses, _) = value.as_chunks::<4>();
        addresses.iter().map(|&octets| Ipv4Addr::from(octets)).collect()
    }
}

/// Code and value of each option of a field, up to its end or to one that is longer than the field.
struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Walk<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        while let [code::PAD, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let [code, length, rest @ ..] = self.rest else { return None };
        if *code == code::END {
            return None;
        }
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        self.rest = rest;
        Some((*code, value))
    }
}

/// Are the options of a field not longer than it? RFC 2131 section 4.1 wants an end option behind
/// them, which some servers leave out.
fn is_whole(field: &[u8]) -> bool {
    let mut walk = Walk { rest: field };
    walk.by_ref().for_each(drop);
    matches!(walk.rest, [] | [code::END, ..])
}
