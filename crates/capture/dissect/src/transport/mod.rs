//! TCP, UDP, SCTP and DCCP; `app` prints their payload.
//!
//! Called by: `net`.

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

use crate::net::carrier::Carrier;
use crate::print::{Printer, put};

/// Source and destination: addresses, unless an extension header already has them in front, and
/// ports.
pub(crate) fn ends(p: &mut Printer, carrier: &Carrier, protocol: u8, ports: Option<(u16, u16)>) {
    let (from, to) = carrier.ends();
    match ports {
        Some((a, b)) if carrier.protocol == protocol => put!(p, "{from}.{a} > {to}.{b}: "),
        Some((a, b)) => put!(p, "{a} > {b}: "),
        None if carrier.protocol == protocol => put!(p, "{from} > {to}: "),
        None => {}
    }
}
