//! TCP, UDP, SCTP and DCCP; what they carry is in `app`.
//!
//! Called by: `net`, for what IP carries.

mod dccp;
mod flows;
mod mptcp;
mod sctp;
mod tcp;
mod tcp_options;
mod udp;

pub(crate) use dccp::print as dccp;
pub(crate) use flows::Flows;
pub(crate) use sctp::print as sctp;
pub(crate) use tcp::print as tcp;
pub(crate) use udp::print as udp;

use crate::net::Carrier;
use crate::print::{Printer, put};

/// From whom to whom: addresses, unless they stand in front of an extension header, and ports.
pub(crate) fn ends(p: &mut Printer, carrier: &Carrier, protocol: u8, ports: Option<(u16, u16)>) {
    let (from, to) = carrier.ends();
    match ports {
        Some((a, b)) if carrier.protocol == protocol => put!(p, "{from}.{a} > {to}.{b}: "),
        Some((a, b)) => put!(p, "{a} > {b}: "),
        None if carrier.protocol == protocol => put!(p, "{from} > {to}: "),
        None => {}
    }
}
