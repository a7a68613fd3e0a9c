//! Decides which IGMP and MLD messages are accepted: only those from this link. Routers do not
//! forward these messages, and a message that a remote host sent must not make us answer.
//!
//! Called by: `stack/groups`. RFC 3376 sections 4.1 and 9, RFC 3810 sections 6.2 and 10.

use core::net::IpAddr;

use base::DropReason;
use wire::group::{Message, Version};

use crate::ip_input::is_martian_source;

/// The packet in which a message arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Its source.
    pub src: IpAddr,
    /// Its TTL or hop limit.
    pub ttl: u8,
    /// The packet has the Router Alert option.
    pub router_alert: bool,
}

/// Parse an IGMP message. `message` is the whole IP payload.
/// RFC 3376 9.1-a, 9.1-b.
///
/// # Errors
/// [`DropReason::GroupMalformed`], [`DropReason::GroupUnhandled`].
pub fn igmp<'m>(message: &'m [u8], arrived: &Arrived) -> Result<Message<'m>, DropReason> {
    let message = wire::igmp::parse(message)?;
    let version = match &message {
        Message::Query(query) => query.version,
        Message::Report(version, _) => *version,
        Message::Leave(_) | Message::Records(_) => return Err(DropReason::GroupUnhandled),
    };
    // A switch that queries instead of a router may have no address (RFC 4541 section 2.1.1), and a
    // host may not have one yet.
    let from_host = arrived.src.is_unspecified() || !is_martian_source(arrived.src);
    let alerts = arrived.router_alert || version == Version::V1;
    match arrived.ttl == 1 && from_host && alerts {
        true => Ok(message),
        false => Err(DropReason::GroupMalformed),
    }
}

/// Parse an MLD message. `message` is a whole ICMPv6 message with a correct checksum.
/// RFC 3810 6.2-a, 5.1.14-a.
///
/// # Errors
/// Those of [`igmp`].
pub fn mld<'m>(message: &'m [u8], arrived: &Arrived) -> Result<Message<'m>, DropReason> {
    let message = wire::mld::parse(message)?;
    if matches!(message, Message::Leave(_) | Message::Records(_)) {
        return Err(DropReason::GroupUnhandled);
    }
    let link_local = matches!(arrived.src, IpAddr::V6(a) if a.is_unicast_link_local());
    match arrived.ttl == 1 && link_local && arrived.router_alert {
        true => Ok(message),
        false => Err(DropReason::GroupMalformed),
    }
}
