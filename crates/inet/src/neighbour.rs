//! Neighbours' link addresses: the words in which they are spoken of. One table for ARP and ND, in
//! `table.rs`: only the packets differ, and the stack writes those.
//!
//! Called by: `stack/resolve.rs`. Must not know: packets, devices, connections. RFC 4861 section
//! 7.3 (the states, for IPv4 as well) and section 10 (times).

mod table;

use core::net::IpAddr;
use std::collections::VecDeque;

use base::{Duration, MacAddr};
use mbuf::Mbuf;

pub use table::Neighbours;

/// RETRANS_TIMER of RFC 4861 section 10; RFC 1122 asks for no more than one ARP request a second.
pub const RETRANSMIT: Duration = Duration::from_secs(1);
/// MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT of RFC 4861 section 10.
pub const TRIES_MAX: u8 = 3;
/// REACHABLE_TIME of RFC 4861 section 10, without its random factor.
pub const REACHABLE: Duration = Duration::from_secs(30);
/// DELAY_FIRST_PROBE_TIME of RFC 4861 section 10.
pub const DELAY: Duration = Duration::from_secs(5);
/// A changed address is not changed again within this time: two stations that claim the same
/// address cannot make us rewrite headers for every frame of theirs (Linux: `locktime`).
pub const LOCKED: Duration = Duration::from_secs(1);
/// A neighbour: the port it is on, and its IP address.
pub type Key = (u16, IpAddr);

/// How sure an entry is, RFC 4861 section 7.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Set by the user: always right, never asked about, never forgotten.
    Static,
    /// Asked for; nothing is known yet.
    Incomplete,
    /// Confirmed within [`REACHABLE`].
    Reachable,
    /// Was right once; used as it is, checked when it is used.
    Stale,
    /// Used after it was stale: about to be checked.
    Delay,
    /// Being checked, by requests to the known address.
    Probe,
}

/// What somebody said about a neighbour's link address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advertisement {
    /// In a request addressed to us: may make an entry, since an answer is about to be sent.
    Request,
    /// In an answer to us.
    Reply {
        /// It answers a question: the neighbour hears us (the S flag; ARP replies to us).
        solicited: bool,
        /// It replaces what we know (the O flag; always for ARP).
        overrides: bool,
    },
    /// To everybody, unasked (gratuitous ARP): changes an entry, never makes one.
    Unsolicited,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The link address to use now.
    Known(MacAddr),
    /// Being resolved: hold the packet, or wait.
    Pending,
    /// The table is full of entries that are in use.
    Full,
}

/// What is to be done.
#[derive(Debug)]
pub enum Action {
    /// Ask for the neighbour's address: everybody, or the one that had it.
    Solicit(Key, Option<MacAddr>),
    /// A neighbour is known now: send what was held; connections that wait may go on.
    Resolved(Key, MacAddr, VecDeque<Mbuf>),
    /// A neighbour does not answer, or gave way to others: what was held is lost.
    Failed(Key, VecDeque<Mbuf>),
}

/// The link address of a group or of everybody on the link, RFC 1112 section 6.4, RFC 2464 section
/// 7; `None` for one host.
pub fn group_mac(ip: IpAddr) -> Option<MacAddr> {
    match ip {
        IpAddr::V4(a) if a.is_broadcast() => Some(MacAddr::BROADCAST),
        IpAddr::V4(a) if a.is_multicast() => {
            let [_, b, c, d] = a.octets();
            Some(MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
        }
        IpAddr::V6(a) if a.is_multicast() => {
            let [.., a, b, c, d] = a.octets();
            Some(MacAddr([0x33, 0x33, a, b, c, d]))
        }
        _ => None,
    }
}
