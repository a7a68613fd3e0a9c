//! What is wrong with a fragment by itself.
//!
//! Called by: `table.rs`, before anything is kept. RFC 8200 section 4.5, RFC 7112, RFC 1858.

use base::DropReason;
use wire::ipv6;

use super::Problem;
use crate::Ip;
use crate::flow::Addrs;
use crate::ip_input::Part;

/// Where the payload length stands in an IPv6 header.
const PAYLOAD_LENGTH_AT: u32 = 4;

/// Check `packet`, which begins with its IP header.
///
/// # Errors
/// [`DropReason::FragmentMalformed`], [`DropReason::FragmentTooBig`],
/// [`DropReason::FragmentHeaders`]; for IPv6 with what its sender is told.
pub(super) fn fragment<A: Addrs>(
    ip: &Ip<A>,
    part: &Part,
    packet: &[u8],
) -> Result<(), (DropReason, Option<Problem>)> {
    let is_v6 = ip.src().is_ipv6();
    let problem = |code, pointer| is_v6.then_some(Problem { code, pointer });
    let len = ip.transport_len;
    if len == 0 {
        return Err((DropReason::FragmentMalformed, None));
    }
    // RFC 8200 4.5-d.
    if part.more && !len.is_multiple_of(8) {
        return Err((DropReason::FragmentMalformed, problem(0, PAYLOAD_LENGTH_AT)));
    }
    // RFC 8200 4.5-e. Ping of death: the last fragment ends behind what a length field can hold.
    let fragment_header = ip.transport_at.saturating_sub(ipv6::Fragment::LEN as u32);
    let headers = match is_v6 {
        true => fragment_header.saturating_sub(ipv6::HEADER_LEN as u32),
        false => ip.transport_at,
    };
    if headers + part.begin + len > u32::from(u16::MAX) {
        return Err((DropReason::FragmentTooBig, problem(0, fragment_header + 2)));
    }
    let data = packet.get(ip.transport_at as usize..).unwrap_or_default();
    let has_headers = match is_v6 {
        true => ipv6::has_all_headers(data, ip.protocol),
        false => ipv6::has_transport_header(data, ip.protocol),
    };
    // RFC 7112 5-a, RFC 8200 4.5-f.
    if part.begin == 0 && !has_headers {
        return Err((DropReason::FragmentHeaders, problem(3, 0)));
    }
    Ok(())
}
