//! DHCPv6 messages: sent ones are made, received ones are checked and their options found.
//!
//! Called by: `client.rs`, `reply.rs`, and `server.rs` for options. Options in options are read two
//! levels deep and without recursion, because an identity association holds addresses and an
//! address holds a status, and nothing deeper is of use. A message whose options do not fill it
//! exactly is no message. RFC 8415 sections 8 (the header), 16 (what makes a message valid) and 21
//! (options).

use core::net::Ipv6Addr;

/// The longest DUID and the shortest: a type of two bytes, and 1 to 128 more (RFC 8415 section
/// 11.1).
const DUID_BYTES: core::ops::RangeInclusive<usize> = 3..=130;
pub(super) const INFINITE: u32 = u32::MAX;

/// Option codes (RFC 8415 section 24, RFC 3646).
pub(super) mod code {
    pub(crate) const CLIENT_ID: u16 = 1;
    pub(crate) const SERVER_ID: u16 = 2;
    pub(crate) const IA_NA: u16 = 3;
    pub(crate) const IA_TA: u16 = 4;
    pub(crate) const IA_ADDRESS: u16 = 5;
    pub(crate) const OPTION_REQUEST: u16 = 6;
    pub(crate) const PREFERENCE: u16 = 7;
    pub(crate) const ELAPSED_TIME: u16 = 8;
    pub(crate) const STATUS: u16 = 13;
    pub(crate) const RAPID_COMMIT: u16 = 14;
    pub(crate) const DNS_SERVERS: u16 = 23;
    pub(crate) const DOMAIN_LIST: u16 = 24;
    pub(crate) const IA_PD: u16 = 25;
    pub(crate) const REFRESH_TIME: u16 = 32;
    pub(crate) const SOL_MAX_RT: u16 = 82;
    pub(crate) const INF_MAX_RT: u16 = 83;
}

/// Status codes (RFC 8415 section 21.13); all others are failures without a name here.
pub(super) mod status {
    pub(crate) const SUCCESS: u16 = 0;
    pub(crate) const NO_ADDRESSES: u16 = 2;
    pub(crate) const NO_BINDING: u16 = 3;
    pub(crate) const NOT_ON_LINK: u16 = 4;
}

/// Messages that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Sent {
    Solicit = 1,
    Request = 3,
    Confirm = 4,
    Renew = 5,
    Rebind = 6,
    Release = 8,
    Decline = 9,
    InformationRequest = 11,
}

/// Messages of a server that a client handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Advertise,
    Reply,
}

/// May a DUID of this length be sent and kept?
pub(super) fn is_duid(duid: &[u8]) -> bool {
    DUID_BYTES.contains(&duid.len())
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) kind: Sent,
    pub(super) xid: u32,
    pub(super) elapsed: u16,
    pub(super) client: &'a [u8],
    pub(super) server: Option<&'a [u8]>,
    /// The identity association and the address to ask for in it.
    pub(super) ia: Option<(u32, Option<Ipv6Addr>)>,
    pub(super) rapid_commit: bool,
}

impl Outgoing<'_> {
    pub(super) fn emit(&self) -> Vec<u8> {
        let [_, xid @ ..] = self.xid.to_be_bytes();
        let mut bytes = vec![self.kind as u8];
        bytes.extend(xid);
        // RFC 8415 18.2.1-a, 18.2.2-a, 18.2.6-a: each message has the client's identifier and the
        // elapsed time.
        option(&mut bytes, code::CLIENT_ID, self.client);
        if let Some(server) = self.server {
            option(&mut bytes, code::SERVER_ID, server);
        }
        if let Some((iaid, address)) = self.ia {
            // T1 and T2 are zero: the server chooses them.
            let mut ia = [&iaid.to_be_bytes()[..], &[0; 8]].concat();
            if let Some(address) = address {
                option(&mut ia, code::IA_ADDRESS, &[&address.octets()[..], &[0; 8]].concat());
            }
            option(&mut bytes, code::IA_NA, &ia);
        }
        option(&mut bytes, code::ELAPSED_TIME, &self.elapsed.to_be_bytes());
        let asked: Vec<u8> = self.requested().iter().flat_map(|c| c.to_be_bytes()).collect();
        if !asked.is_empty() {
            option(&mut bytes, code::OPTION_REQUEST, &asked);
        }
        if self.rapid_commit {
            option(&mut bytes, code::RAPID_COMMIT, &[]);
        }
        bytes
    }

    /// RFC 8415 21.7-a: SOL_MAX_RT or INF_MAX_RT is asked for with the options that are wanted.
    fn requested(&self) -> &'static [u16] {
        match self.kind {
            Sent::Confirm | Sent::Release | Sent::Decline => &[],
            Sent::InformationRequest => {
                &[code::DNS_SERVERS, code::DOMAIN_LIST, code::REFRESH_TIME, code::INF_MAX_RT]
            }
            _ => &[code::DNS_SERVERS, code::DOMAIN_LIST, code::SOL_MAX_RT],
        }
    }
}

pub(super) fn option(bytes: &mut Vec<u8>, code: u16, value: &[u8]) {
    // The longest value is a server's list of 32 names.
    debug_assert!(value.len() <= 32 * 256, "option {code} of {} bytes", value.len());
    bytes.extend(code.to_be_bytes());
    bytes.extend((value.len() as u16).to_be_bytes());
    bytes.extend(value);
}

/// A received message, checked as far as it can be without knowing what was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received<'a> {
    pub(super) kind: Kind,
    pub(super) xid: u32,
    pub(super) options: Options<'a>,
}

impl<'a> Received<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Received<'a>> {
        let (&[kind, a, b, c], options) = bytes.split_first_chunk::<4>()?;
        // RFC 8415 16-a: other messages are for servers and relays; a Reconfigure was not accepted
        // beforehand.
        let kind = match kind {
            2 => Kind::Advertise,
            7 => Kind::Reply,
            _ => return None,
        };
        let xid = u32::from_be_bytes([0, a, b, c]);
        Some(Received { kind, xid, options: Options::whole(options)? })
    }
}

/// Options that fill their field exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'a> {
    field: &'a [u8],
}

impl<'a> Options<'a> {
    /// The options of a field, `None` if the last one ends behind it.
    pub(super) fn whole(field: &'a [u8]) -> Option<Options<'a>> {
        let mut walk = Walk { rest: field };
        walk.by_ref().for_each(drop);
        walk.rest.is_empty().then_some(Options { field })
    }

    /// The values of all options of a code.
    pub(super) fn all(self, code: u16) -> impl Iterator<Item = &'a [u8]> {
        Walk { rest: self.field }.filter(move |&(found, _)| found == code).map(|(_, value)| value)
    }

    /// The value of the first option of a code.
    pub(super) fn value(self, code: u16) -> Option<&'a [u8]> {
        self.all(code).next()
    }

    /// The value of an option of exactly `N` bytes.
    pub(super) fn array<const N: usize>(self, code: u16) -> Option<[u8; N]> {
        self.value(code)?.try_into().ok()
    }

    /// The status; without the option it is a success (RFC 8415 section 21.13).
    pub(super) fn status(self) -> Option<u16> {
        let Some(value) = self.value(code::STATUS) else { return Some(status::SUCCESS) };
        value.first_chunk().map(|&status| u16::from_be_bytes(status))
    }
}

/// Code and value of each option, up to one that is longer than what is left.
struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Walk<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let (&[a, b, c, d], rest) = self.rest.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([c, d]));
        let (value, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some((u16::from_be_bytes([a, b]), value))
    }
}
