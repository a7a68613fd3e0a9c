//! The types of the neighbour table. One table (`table.rs`) serves ARP and neighbour discovery; the
//! stack writes the packets, which differ.
//!
//! Called by: `stack/resolve.rs`. RFC 4861 section 7.3 (the states, also used for IPv4) and section
//! 10 (times).

mod table;

use core::net::IpAddr;
use std::collections::VecDeque;

use base::{Duration, Instant, MacAddr};
use mbuf::Mbuf;
pub use table::Neighbours;

/// RETRANS_TIMER of RFC 4861 section 10; RFC 1122 recommends at most one ARP request a second.
pub const RETRANSMIT: Duration = Duration::from_secs(1);
/// MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT of RFC 4861 section 10.
pub const TRIES_MAX: u8 = 3;
/// REACHABLE_TIME of RFC 4861 section 10, without its random factor.
pub const REACHABLE: Duration = Duration::from_secs(30);
/// DELAY_FIRST_PROBE_TIME of RFC 4861 section 10.
pub const DELAY: Duration = Duration::from_secs(5);
/// How many changes of a link address are accepted at once: enough for two moves and back.
pub const MOVES_MAX: u64 = 4;
/// After these, one more change is accepted in this time. So two stations with the same IP address
/// cannot make us rewrite header templates for each frame (Linux has `locktime` for advertisements
/// that are not gratuitous).
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
    /// Not confirmed recently. When it is used, it becomes [`State::Delay`]; until then nothing is
    /// verified.
    Stale,
    /// The entry was used after it was stale. It is verified after `DELAY` unless something
    /// confirms it.
    Delay,
    /// The entry is being verified by unicast solicitations to the known link address.
    Probe,
}

impl State {
    /// The name in output, as `ip neighbour` prints it.
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
    /// When a solicited reply last confirmed the entry.
    pub confirmed_at: Option<Instant>,
}

/// How a packet advertised a neighbour's link address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advertisement {
    /// In a request to us. It may create an entry, since we are about to send a reply.
    Request,
    /// In a reply to us.
    Reply {
        /// The advertisement replies to a solicitation, so the neighbour is reachable (the S flag;
        /// every ARP reply to us).
        solicited: bool,
        /// The advertisement overrides the known address (the O flag; always for ARP).
        overrides: bool,
    },
    /// Unsolicited (gratuitous ARP). It may change an entry, but never creates one.
    Unsolicited,
}

/// What an advertisement did to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// The advertisement created, changed or confirmed an entry.
    Used,
    /// Nobody had solicited the advertisement, or it may not change the entry.
    Useless,
    /// The neighbour has recently changed its link address too often: see [`MOVES_MAX`].
    TooOften,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The link address to use now.
    Known(MacAddr),
    /// The address is being resolved: enqueue the packet with [`Neighbours::enqueue`], or wait.
    Pending,
    /// The table is full of entries that are in use.
    Full,
}

/// What the stack has to do for the table.
#[derive(Debug)]
pub enum Action {
    /// Solicit the neighbour's address: by multicast, or, if `Some`, at its known link address.
    Solicit(Key, Option<MacAddr>),
    /// A neighbour is resolved: send its pending queue and wake connections that wait for it.
    Resolved(Key, MacAddr, VecDeque<Mbuf>),
    /// [`State::Delay`] began. From now on [`Neighbours::expire`] asks whether a protocol above has
    /// made progress.
    Delayed(Key),
    /// A neighbour did not answer, or its entry was removed: drop its pending queue.
    Failed(Key, VecDeque<Mbuf>),
}

/// The MAC address of a multicast group or of the limited broadcast, RFC 1112 section 6.4, RFC 2464
/// section 7; `None` for a unicast address.
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
    /// The time at which the changes so far would have been allowed if one were allowed in each
    /// [`MOVE_INTERVAL`].
    moves_until: Instant,
    /// The entry's position in `by_use`.
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

    /// May the entry's link address change now? If so, the change is counted.
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
