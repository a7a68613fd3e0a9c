//! TCP, UDP, SCTP and DCCP; `app` prints their payload.
//!
//! Called by: `net`.

mod dccp;
mod mptcp;
mod sctp;
mod tcp;
mod tcp_options;
mod udp;

use std::collections::HashMap;
use std::net::SocketAddr;

pub(crate) use dccp::print as dccp;
pub(crate) use sctp::print as sctp;
pub(crate) use tcp::print as tcp;
pub(crate) use udp::print as udp;

use crate::net::carrier::Carrier;
use crate::print::{Printer, put};

/// Print source and destination: the ports, and in front of them the addresses, unless these were
/// printed before an extension header.
pub(crate) fn ends(p: &mut Printer, carrier: &Carrier, protocol: u8, ports: Option<(u16, u16)>) {
    let (from, to) = carrier.ends();
    match ports {
        Some((a, b)) if carrier.protocol == protocol => put!(p, "{from}.{a} > {to}.{b}: "),
        Some((a, b)) => put!(p, "{a} > {b}: "),
        None if carrier.protocol == protocol => put!(p, "{from} > {to}: "),
        None => {}
    }
}

// The initial sequence numbers of connections, for relative sequence numbers.
//
// The table is bounded: if there are too many connections, all of them are forgotten.

/// Maximum number of connections in the table. When it is reached, all are forgotten, and relative
/// numbers begin anew.
const MOST: usize = 1 << 14;

/// The numbers that are subtracted from a segment's numbers to make them relative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Base {
    /// The number that is subtracted from the sequence number.
    seq: u32,
    /// The number that is subtracted from the acknowledgment number and from SACK blocks.
    ack: u32,
}

/// Both ends of a connection, the smaller address first.
type Key = (SocketAddr, SocketAddr);

#[derive(Default)]
pub(crate) struct Flows(HashMap<Key, Base>);

impl Flows {
    /// The bases of a segment, and the base of its SACK blocks. For the first segment of a
    /// connection the bases are zero, and only the base of SACK blocks is not.
    fn base(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        (seq, ack): (u32, u32),
        is_syn: bool,
    ) -> (Base, u32) {
        let is_reverse = to < from;
        let key = if is_reverse { (to, from) } else { (from, to) };
        let turned = |base: Base| match is_reverse {
            true => Base { seq: base.ack, ack: base.seq },
            false => base,
        };
        match self.0.get(&key) {
            Some(base) if !is_syn => (turned(*base), turned(*base).ack),
            _ => {
                if self.0.len() >= MOST {
                    self.0.clear();
                }
                let base = Base { seq, ack: ack.wrapping_sub(1) };
                self.0.insert(key, turned(base));
                (Base::default(), base.ack)
            }
        }
    }
}
