//! The types of the neighbour table. One table (`table.rs`) serves ARP and ND; the stack writes the
//! packets, which differ.
//!
//! Called by: `stack/resolve.rs`. RFC 4861 section 7.3 (the states, for IPv4 as well) and section
//! 10 (times).

mod table;

use core::net::IpAddr;
use std::collections::VecDeque;

use base::{Duration, Instant, MacAddr};
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
/// Changes of a link address that are followed at once: enough for two moves and back.
pub const MOVES_MAX: u64 = 4;
/// After those, one more change is followed in this time, so that two stations with the same IP
/// address cannot make us rewrite header templates per frame (Linux has `locktime` for
/// advertisements that are not gratuitous).
pub const MOVE_INTERVAL: Duration = Duration::from_secs(1);
/// A neighbour: the port it is on, and its IP address.
pub type Key = (u16, IpAddr);

/// The state of an entry, RFC 4861 section 7.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Set by the user: it is never solicited and never evicted.
    Static,
    /// Solicited; no link address is known yet.
    Incomplete,
    /// Confirmed within `REACHABLE`.
    Reachable,
    /// Not confirmed recently. Use moves it to [`State::Delay`]; until then nothing is verified.
    Stale,
    /// Used after it was stale; verified after `DELAY` unless something confirms it.
    Delay,
    /// Being verified by unicast solicitations to the known link address.
    Probe,
}

impl State {
    /// The name in output, as `ip neighbour` has it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Static => "PERMANENT",
            State::Incomplete => "INCOMPLETE",
            State::Reachable => "REACHABLE",
            State::Stale => "STALE",
            State::Delay => "DELAY",
            State::Probe => "PROBE",
        }
    }
}

/// An entry of the table, for output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The port that the neighbour is on.
    pub port: u16,
    /// Its IP address.
    pub ip: IpAddr,
    /// Its link address, once that is known.
    pub mac: Option<MacAddr>,
    /// The state of the entry.
    pub state: State,
    /// When a solicited reply confirmed it last.
    pub confirmed_at: Option<Instant>,
}

/// How a packet advertised a neighbour's link address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advertisement {
    /// In a request to us: may create an entry, since we are about to send a reply.
    Request,
    /// In a reply to us.
    Reply {
        /// The advertisement replies to a solicitation: the neighbour is reachable (the S flag; ARP
        /// replies to us).
        solicited: bool,
        /// The advertisement overrides the known address (the O flag; always for ARP).
        overrides: bool,
    },
    /// Unsolicited (gratuitous ARP): changes an entry, never creates one.
    Unsolicited,
}

/// The result of an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// The advertisement was used for an entry of the table, perhaps a new one.
    Used,
    /// Nobody had solicited it, or it may not change the entry.
    Useless,
    /// The neighbour has recently changed its link address too often: see [`MOVES_MAX`].
    TooOften,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The link address to use now.
    Known(MacAddr),
    /// Being resolved: enqueue the packet with [`Neighbours::enqueue`], or wait.
    Pending,
    /// The table is full of entries that are in use.
    Full,
}

/// What the stack has to do for the table.
#[derive(Debug)]
pub enum Action {
    /// Solicit the neighbour's address: by multicast, or at its known link address.
    Solicit(Key, Option<MacAddr>),
    /// A neighbour is resolved: send its pending queue and wake connections that wait for it.
    Resolved(Key, MacAddr, VecDeque<Mbuf>),
    /// [`State::Delay`] began: [`Neighbours::expire`] will ask for progress from here on.
    Delayed(Key),
    /// A neighbour did not answer, or its entry was removed: drop its pending queue.
    Failed(Key, VecDeque<Mbuf>),
}

/// The link address of a multicast group or of broadcast, RFC 1112 section 6.4, RFC 2464 section
/// 7; `None` for unicast.
/// RFC 1112 6.4-a.
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

/// One neighbour.
#[derive(Debug)]
struct Entry {
    state: State,
    mac: MacAddr,
    /// When the state's timer expires; [`Instant::NEVER`] in states without one.
    deadline: Instant,
    confirmed_at: Instant,
    /// The time at which the moves so far would have been allowed, at one a [`MOVE_INTERVAL`].
    moves_until: Instant,
    /// Its position in `by_use`.
    used: u64,
    tries: u8,
    pending: VecDeque<Mbuf>,
}

impl Entry {
    fn new(state: State, mac: MacAddr, now: Instant, used: u64) -> Entry {
        Entry {
            state,
            mac,
            deadline: Instant::NEVER,
            confirmed_at: Instant::ZERO,
            moves_until: now,
            used,
            tries: 0,
            pending: VecDeque::new(),
        }
    }

    /// May its link address change now? If so, the change is counted.
    fn may_move(&mut self, now: Instant) -> bool {
        let from = self.moves_until.max(now);
        let may = from.since(now) <= MOVE_INTERVAL.saturating_mul(MOVES_MAX - 1);
        if may {
            self.moves_until = from + MOVE_INTERVAL;
        }
        may
    }

    fn row(&self, (port, ip): Key) -> Row {
        Row {
            port,
            ip,
            mac: (self.state != State::Incomplete).then_some(self.mac),
            state: self.state,
            confirmed_at: (self.confirmed_at != Instant::ZERO).then_some(self.confirmed_at),
        }
    }
}
