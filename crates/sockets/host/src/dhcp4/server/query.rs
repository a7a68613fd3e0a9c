//! A client's message as a DHCPv4 server reads it.
//!
//! Called by: `server.rs`. RFC 2131 sections 2 and 4.3, RFC 2132 sections 9.7 and 9.14 (the client
//! identifier). The options are read by `message.rs`, which the client uses too.

use core::net::Ipv4Addr;

use base::MacAddr;

use super::config::Guest;
use crate::dhcp4::message::{BROADCAST, COOKIE, ETHERNET, OPTIONS_AT, Options, REQUEST, code};

/// The type of a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Discover,
    Request,
    Decline,
    Release,
    Inform,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'a> {
    pub(super) kind: Asked,
    pub(super) xid: [u8; 4],
    pub(super) flags: [u8; 2],
    /// The address that the client uses already, or unspecified.
    pub(super) ciaddr: Ipv4Addr,
    /// The relay, or unspecified.
    pub(super) giaddr: Ipv4Addr,
    pub(super) hardware: MacAddr,
    pub(super) options: Options<'a>,
}

impl<'a> Query<'a> {
    /// A request over Ethernet with the magic cookie, options in order and the message type of a
    /// client; `None` if it is anything else.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Query<'a>> {
        let [op, htype, hlen, _, ..] = *bytes else { return None };
        let cookie = bytes.get(OPTIONS_AT - COOKIE.len()..OPTIONS_AT)?;
        if (op, htype, hlen) != (REQUEST, ETHERNET, 6) || cookie != COOKIE {
            return None;
        }
        let options = Options::find(bytes)?;
        let kind = match options.array::<1>(code::MESSAGE_TYPE)? {
            [1] => Asked::Discover,
            [3] => Asked::Request,
            [4] => Asked::Decline,
            [7] => Asked::Release,
            [8] => Asked::Inform,
            _ => return None,
        };
        let address = |at| Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?));
        let hardware = MacAddr(*bytes.get(28..)?.first_chunk()?);
        (!hardware.is_group()).then_some(Query {
            kind,
            xid: *bytes.get(4..)?.first_chunk()?,
            flags: *bytes.get(10..)?.first_chunk()?,
            ciaddr: address(12)?,
            giaddr: address(24)?,
            hardware,
            options,
        })
    }

    /// The guest that asks. RFC 2131 4.2-a: by the client identifier, and by the link address
    /// without one.
    pub(super) fn guest(&self) -> Guest {
        match self.options.value(code::CLIENT_ID) {
            // The bytes of several pieces may be more than one option can hold.
            Some(mut id) if !id.is_empty() => {
                id.truncate(255);
                Guest::Id(id)
            }
            _ => Guest::Hardware(self.hardware.0),
        }
    }

    /// The address that the client wants (option 50).
    pub(super) fn requested(&self) -> Option<Ipv4Addr> {
        self.options.array::<4>(code::REQUESTED_ADDRESS).map(Ipv4Addr::from)
    }

    /// The server that the message is for (option 54); `None`: for any.
    pub(super) fn server(&self) -> Option<Ipv4Addr> {
        self.options.array::<4>(code::SERVER_ID).map(Ipv4Addr::from)
    }

    /// Does the client ask for answers by broadcast?
    pub(super) fn wants_broadcast(&self) -> bool {
        u16::from_be_bytes(self.flags) & BROADCAST != 0
    }
}
