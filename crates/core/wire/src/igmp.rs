//! IGMP of all three versions: how hosts and routers of IPv4 agree on multicast groups.
//!
//! Called by: `inet::group`. A message is an IPv4 payload; TTL, source and Router Alert are checked
//! there. RFC 1112 appendix I (version 1), RFC 2236 section 2 (2), RFC 3376 section 4 (3).

use core::net::{IpAddr, Ipv4Addr};

use base::{DropReason, Duration, IpVersion};

use crate::bytes::array;
use crate::checksum::Ladder;
pub use crate::group::HEADER_LEN;
use crate::group::{Addresses, Message, Query, Records, Version, Writer, of_code, query_tail};

/// Type of a query, in all versions.
pub const QUERY: u8 = 0x11;
/// Type of a report of version 1.
pub const REPORT_V1: u8 = 0x12;
/// Type of a report of version 2.
pub const REPORT_V2: u8 = 0x16;
/// Type of a leave message of version 2.
pub const LEAVE: u8 = 0x17;
/// Type of a report of version 3.
pub const REPORT_V3: u8 = 0x22;

/// Bytes of the shortest query of version 3.
const QUERY_V3_LEN: usize = 12;

/// Parse `message`, which must be the whole IP payload.
/// RFC 3376 4-a, 7.1-a.
///
/// # Errors
/// [`DropReason::GroupMalformed`]: fewer than 8 bytes, a wrong checksum, a query of 9 to 11 bytes,
/// sources or records past the end, or an address that is no group. [`DropReason::GroupUnhandled`]:
/// any other type.
pub fn parse(message: &[u8]) -> Result<Message<'_>, DropReason> {
    let b = message.first_chunk::<HEADER_LEN>().ok_or(DropReason::GroupMalformed)?;
    if !Ladder::best().sum(message).is_whole() {
        return Err(DropReason::GroupMalformed);
    }
    let address = Ipv4Addr::from(array::<_, 4>(b, 4));
    let group = if address.is_multicast() {
        Ok(IpAddr::V4(address))
    } else {
        Err(DropReason::GroupMalformed)
    };
    Ok(match b[0] {
        QUERY => {
            let group = if address.is_unspecified() { None } else { Some(group?) };
            Message::Query(query(message, b[1], group)?)
        }
        REPORT_V1 => Message::Report(Version::V1, group?),
        REPORT_V2 => Message::Report(Version::V2, group?),
        LEAVE => Message::Leave(group?),
        REPORT_V3 => Message::Records(Records::parse(message, IpVersion::V4)?),
        _ => return Err(DropReason::GroupUnhandled),
    })
}

/// Parse a query. Its version follows from its length and code, RFC 3376 section 7.1.
fn query(message: &[u8], code: u8, group: Option<IpAddr>) -> Result<Query<'_>, DropReason> {
    let tenths = |n: u64| Duration::from_millis(n.saturating_mul(100));
    let query = |version, tenths| Query {
        version,
        group,
        max_response: tenths,
        robustness: 0,
        interval: Duration::ZERO,
        sources: Addresses::NONE,
    };
    if message.len() == HEADER_LEN {
        return Ok(match code {
            // RFC 1112 has no such field; the time is ten seconds.
            0 => query(Version::V1, tenths(100)),
            code => query(Version::V2, tenths(code.into())),
        });
    }
    if message.len() < QUERY_V3_LEN {
        return Err(DropReason::GroupMalformed);
    }
    let (robustness, interval, sources) = query_tail(message, HEADER_LEN, IpVersion::V4)?;
    if group.is_none() && !sources.is_empty() {
        return Err(DropReason::GroupMalformed);
    }
    let query = query(Version::V3, tenths(of_code(code)));
    Ok(Query { robustness, interval, sources, ..query })
}

/// A message of an older version, of type `kind`.
pub fn older(kind: u8, group: Ipv4Addr) -> [u8; HEADER_LEN] {
    let [a, b, c, d] = group.octets();
    let mut message = [kind, 0, 0, 0, a, b, c, d];
    let field = Ladder::best().sum(&message).field();
    message[2..4].copy_from_slice(&field);
    message
}

/// Fill in the header of a report of version 3; returns its length in bytes.
pub fn report(records: Writer<'_>) -> usize {
    let message = records.finish(REPORT_V3);
    let field = Ladder::best().sum(message).field();
    if let Some(to) = message.get_mut(2..4) {
        to.copy_from_slice(&field);
    }
    message.len()
}

#[cfg(test)]
mod tests;
