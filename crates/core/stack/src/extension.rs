//! Walks the extension headers of IPv6 packets, within limits. Reports an unacceptable header to
//! the packet's sender where the RFC requires it.
//!
//! Called by: `rx.rs`, and `frag.rs` for reassembled packets. RFC 8200 sections 4.1 to 4.4, RFC
//! 4443 section 2.4(e), RFC 8504 section 5.3. Limits: `extension_headers`,
//! `extension_header_bytes`, `extension_options`; drop reasons: `ipv6_*`.

use core::net::IpAddr;

use base::{Budget, DropReason, Limit};
use inet::Ip;
use inet::flow::V6Addrs;
use inet::icmp::Report;
use inet::ip_input::{Part, ipv6_within};
use mbuf::Mbuf;
use wire::{icmpv6, ipv6, protocol};

use crate::icmp;
use crate::stack::Stack;

/// Parse the IPv6 packet that begins at `at` in `m`. It may have extension headers.
///
/// # Errors
/// Those of [`ipv6_within`]. The sender has been notified.
#[cold]
pub(crate) fn walk(
    stack: &mut Stack,
    m: &Mbuf,
    at: usize,
) -> Result<(Ip<V6Addrs>, Option<Part>), DropReason> {
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let limits = limits(&stack.core.cx.budget);
    ipv6_within(packet, &limits).map_err(|refused| {
        if let Some(limit) = refused.limit {
            stack.core.cx.budget.admits(limit, usize::MAX);
        }
        if let Some(problem) = refused.problem {
            report(stack, m, packet, problem);
        }
        refused.reason
    })
}

fn limits(budget: &Budget) -> ipv6::ChainLimits {
    ipv6::ChainLimits {
        headers: budget.of(Limit::ExtensionHeaders),
        bytes: budget.of(Limit::ExtensionHeaderBytes),
        options: budget.of(Limit::ExtensionOptions),
    }
}

/// Send a Parameter Problem about a packet that was for us. About a multicast packet it is sent
/// only where RFC 8200 section 4.2 requires it, and about an error message never.
/// RFC 4443 3.4-a.
fn report(stack: &mut Stack, m: &Mbuf, packet: &[u8], problem: ipv6::Problem) {
    let Ok(header) = ipv6::Header::parse(packet) else { return };
    let Some(port) = stack.ports.get(m.in_port()) else { return };
    let (src, dst) = (IpAddr::V6(header.src), IpAddr::V6(header.dst));
    // RFC 4443 2.4-e.
    if !port.local.may_send(src) || is_error(packet) {
        return;
    }
    let packet = packet.get(..ipv6::HEADER_LEN + usize::from(header.payload_len));
    let packet = packet.unwrap_or_default();
    let what =
        Report::Problem(inet::frag::Problem { code: problem.code, pointer: problem.pointer });
    if port.local.is_ours(dst) {
        match problem.even_to_group {
            true => _ = icmp::report_from(stack, packet, m.in_port(), (dst, src), what),
            false => icmp::report(stack, m, packet, (dst, src), what),
        }
    } else if header.dst.is_multicast()
        && problem.even_to_group
        && let Some(own) = inet::select::source(port.addresses.iter(), src, src)
    {
        icmp::report_from(stack, packet, m.in_port(), (own, src), what);
    }
}

/// Is the packet an ICMPv6 error or redirect, as far as its headers can be read?
fn is_error(packet: &[u8]) -> bool {
    match ipv6::last_header(packet) {
        Some((protocol::ICMPV6, at, _)) => {
            packet.get(at).is_none_or(|&kind| kind < 128 || kind == icmpv6::REDIRECT)
        }
        _ => false,
    }
}
