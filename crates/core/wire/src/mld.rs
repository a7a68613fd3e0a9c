//! MLD of both versions: how hosts and routers of IPv6 agree on multicast groups, in ICMPv6.
//!
//! Called by: `inet::group`, which checks hop limit, source and Router Alert. RFC 2710 section 3
//! (version 1), RFC 3810 section 5 (2).

use core::net::{IpAddr, Ipv6Addr};

use base::{DropReason, Duration, IpVersion};

use crate::bytes::{array, be16};
use crate::checksum::Ladder;
use crate::group::{Addresses, Message, Query, Records, Version, Writer, of_long_code, query_tail};
use crate::icmpv6;

/// Bytes of a message of version 1; also the bytes before a query's flags in version 2.
pub const HEADER_LEN: usize = 24;

/// ICMPv6 type of a query, in both versions.
pub const QUERY: u8 = 130;
/// ICMPv6 type of a report of version 1.
pub const REPORT_V1: u8 = 131;
/// ICMPv6 type of a done message of version 1.
pub const DONE: u8 = 132;
/// ICMPv6 type of a report of version 2.
pub const REPORT_V2: u8 = 143;

/// Bytes of the shortest query of version 2.
const QUERY_V2_LEN: usize = 28;

/// Is this the type of an MLD message?
pub const fn is_mld(kind: u8) -> bool {
    matches!(kind, QUERY | REPORT_V1 | DONE | REPORT_V2)
}

/// Parse `message`, a whole ICMPv6 message with a correct checksum.
/// RFC 3810 8.1-a.
///
/// # Errors
/// Those of [`crate::igmp::parse`]; a query of 25 to 27 bytes is malformed.
pub fn parse(message: &[u8]) -> Result<Message<'_>, DropReason> {
    let kind = *message.first().ok_or(DropReason::GroupMalformed)?;
    if kind == REPORT_V2 {
        return Ok(Message::Records(Records::parse(message, IpVersion::V6)?));
    }
    if !is_mld(kind) {
        return Err(DropReason::GroupUnhandled);
    }
    let b = message.first_chunk::<HEADER_LEN>().ok_or(DropReason::GroupMalformed)?;
    let address = Ipv6Addr::from(array::<_, 16>(b, 8));
    let group = if address.is_multicast() {
        Ok(IpAddr::V6(address))
    } else {
        Err(DropReason::GroupMalformed)
    };
    Ok(match kind {
        QUERY => {
            let group = if address.is_unspecified() { None } else { Some(group?) };
            Message::Query(query(message, be16(b, 4), group)?)
        }
        REPORT_V1 => Message::Report(Version::V2, group?),
        _ => Message::Leave(group?),
    })
}

fn query(message: &[u8], code: u16, group: Option<IpAddr>) -> Result<Query<'_>, DropReason> {
    let mut query = Query {
        version: Version::V2,
        group,
        max_response: Duration::from_millis(code.into()),
        robustness: 0,
        interval: Duration::ZERO,
        sources: Addresses::NONE,
    };
    if message.len() == HEADER_LEN {
        return Ok(query);
    }
    if message.len() < QUERY_V2_LEN {
        return Err(DropReason::GroupMalformed);
    }
    let (robustness, interval, sources) = query_tail(message, HEADER_LEN, IpVersion::V6)?;
    if group.is_none() && !sources.is_empty() {
        return Err(DropReason::GroupMalformed);
    }
    query.version = Version::V3;
    query.max_response = Duration::from_millis(of_long_code(code));
    (query.robustness, query.interval, query.sources) = (robustness, interval, sources);
    Ok(query)
}

/// A message of version 1, of type `kind`, from `src` to `dst`.
pub fn older(kind: u8, group: Ipv6Addr, (src, dst): (Ipv6Addr, Ipv6Addr)) -> [u8; HEADER_LEN] {
    let mut message = [0; HEADER_LEN];
    message[0] = kind;
    message[8..].copy_from_slice(&group.octets());
    fill_checksum(&mut message, src, dst);
    message
}

/// Fill in the header of a report of version 2 from `src` to `dst`; returns its length in bytes.
pub fn report(records: Writer<'_>, (src, dst): (Ipv6Addr, Ipv6Addr)) -> usize {
    let message = records.finish(REPORT_V2);
    fill_checksum(message, src, dst);
    message.len()
}

fn fill_checksum(message: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
    let sum = icmpv6::pseudo(src, dst, message.len()).plus(Ladder::best().sum(message));
    if let Some(to) = message.get_mut(2..4) {
        to.copy_from_slice(&sum.field());
    }
}

#[cfg(test)]
mod tests;
