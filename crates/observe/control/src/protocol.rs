//! The messages between clients and a running program over the control socket, as JSON.
//!
//! Called by: tools, which ask; `observe`, which answers and trusts nothing in a question; the live
//! page, for its rows. A field may be added with a default: then a tool understands an older
//! program, and an older tool ignores the field. Any other change needs a new [`crate::VERSION`].

mod as_text;
mod call;
mod change;
mod connection;
mod daemons;
mod filter;
mod outer;
mod route;
mod rows;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use call::{Accepted, Call, Called, Datagram, Echo, Kind, Wait};
pub use change::{CHANGES_MAX, Change, Hop, Lookup, Object, RouteSpec, RuleSpec, Verb};
pub use connection::{Connection, Timers};
pub use daemons::{Mirror, RouteSource};
pub use filter::{
    Chosen, Explained, FilterCall, FilterRule, FlowExport, FlowState, Killed, NatMapping, NatRule,
    OnTrial, PairState, RuleText, Step, network,
};
pub use outer::Outer;
pub use route::{DaemonRoute, Found, Leaving, NextHop, Route, Rule};
pub use rows::{Address, Fragments, Group, Limited, Neighbour, Port, Socket, Summary, Vrf};

/// The most connections that one question may name.
pub const CONNECTIONS_MAX: usize = 64;

/// A section of the information that a stack shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are those of `wirespeed show`")]
pub enum Section {
    Stack,
    Ports,
    Connections,
    Sockets,
    Addresses,
    Neighbours,
    Routes,
    Rules,
    Groups,
    Frag,
    Drops,
    Counters,
    Limits,
    Switches,
    /// Rules of the firewall: rows of [`FilterRule`].
    Filter,
    /// Rules of NAT: rows of [`NatRule`].
    Nat,
    /// Mappings of NAT: rows of [`NatMapping`].
    Mappings,
    /// States of flows: rows of [`FlowState`].
    States,
    /// Flow export: a row of [`FlowExport`] if there is a collector.
    Ipfix,
    /// The partner of a pair of routers: a row of [`PairState`] if there is one.
    Pair,
    /// Where routes of routing daemons come from: rows of [`RouteSource`].
    Frr,
    /// Mirrors of ports: rows of [`Mirror`].
    Mirrors,
}

impl Section {
    /// The sections that `wirespeed show` prints if none is named, in this order: all but those of
    /// the firewall, which may have millions of states, and of the daemons beside a router.
    pub const ALL: [Section; 14] = [
        Section::Stack,
        Section::Ports,
        Section::Connections,
        Section::Sockets,
        Section::Addresses,
        Section::Neighbours,
        Section::Routes,
        Section::Rules,
        Section::Groups,
        Section::Frag,
        Section::Drops,
        Section::Counters,
        Section::Limits,
        Section::Switches,
    ];

    /// The name of the section, and the shorter name that ip(8) uses, if any.
    pub fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Section::Stack => ("stack", None),
            Section::Ports => ("ports", None),
            Section::Connections => ("connections", None),
            Section::Sockets => ("sockets", None),
            Section::Addresses => ("addresses", Some("addr")),
            Section::Neighbours => ("neighbours", Some("neigh")),
            Section::Routes => ("routes", Some("route")),
            Section::Rules => ("rules", Some("rule")),
            Section::Groups => ("groups", None),
            Section::Frag => ("frag", None),
            Section::Drops => ("drops", None),
            Section::Counters => ("counters", None),
            Section::Limits => ("limits", None),
            Section::Switches => ("switches", None),
            Section::Filter => ("filter", None),
            Section::Nat => ("nat", None),
            Section::Mappings => ("mappings", None),
            Section::States => ("states", None),
            Section::Ipfix => ("ipfix", None),
            Section::Pair => ("pair", None),
            Section::Frr => ("frr", None),
            Section::Mirrors => ("mirrors", None),
        }
    }
}

/// A question about the program, or about one of its stacks, which is named by its index in
/// [`About::stacks`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// Which program answers: [`Answer::program`].
    Program,
    /// A page of a section: a list of rows, or a single object.
    Section {
        /// The stack that is asked.
        stack: usize,
        /// The section that is asked for.
        section: Section,
        /// 0, or [`Answer::next`] of the page before.
        cursor: u64,
    },
    /// The connections with these numbers: rows of the section, each with a look at the connection.
    Connections {
        /// The stack that is asked.
        stack: usize,
        /// The numbers in ascending order, [`CONNECTIONS_MAX`] at most.
        numbers: Vec<u64>,
    },
    /// Tap a port: [`Tapped`].
    Tap {
        /// The stack that is asked.
        stack: usize,
        /// The number of the port.
        port: u16,
        /// The filter's instructions: code, jt, jf, k.
        insns: Vec<(u16, u8, u8, u32)>,
        /// The most bytes that are kept of a packet.
        snaplen: u32,
    },
    /// The packets that a tap has kept since the last question: [`Kept`].
    Kept {
        /// The stack that is asked.
        stack: usize,
        /// The number of the tap.
        tap: u64,
    },
    /// Remove a tap.
    Untap {
        /// The stack that is asked.
        stack: usize,
        /// The number of the tap.
        tap: u64,
    },
    /// A look-up of a packet in the FIB: [`Found`].
    Lookup {
        /// The stack that is asked.
        stack: usize,
        /// The packet.
        lookup: Lookup,
    },
    /// Change rules, routes, neighbours or addresses: [`Changed`].
    Change {
        /// The stack that is asked.
        stack: usize,
        /// The changes in order, [`CHANGES_MAX`] at most. The first change that fails ends the
        /// request.
        changes: Vec<Change>,
    },
    /// A question about the firewall, or a change of it.
    Filter {
        /// The stack that is asked.
        stack: usize,
        /// The question or the change.
        call: FilterCall,
    },
    /// A call on a socket in the stack, on behalf of the client's user, whom the kernel reports:
    /// [`Called`].
    Socket {
        /// The stack that is asked.
        stack: usize,
        /// The call.
        call: Call,
    },
}

/// The tap that was added: [`Answer::body`] of [`Question::Tap`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Tapped {
    /// The number of the tap.
    pub tap: u64,
}

/// The changes that were made: [`Answer::body`] of [`Question::Change`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Changed {
    /// How many of the changes were made.
    pub done: usize,
}

/// A tap's packets: [`Answer::body`] of [`Question::Kept`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    /// The bytes of a buffer of records, in base64; empty if there are no packets.
    pub records: String,
    /// Packets that the tap has seen.
    pub seen: u64,
    /// Packets that the tap's filter matched.
    pub matched: u64,
    /// Matched packets for which the buffer had no room.
    pub dropped: u64,
}

/// The program that answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct About {
    /// The process ID of the program.
    pub pid: u32,
    /// The name that the program gives itself, such as `ttcp`.
    pub command: String,
    /// The version of wirespeed that the program was built with.
    pub version: String,
    /// The names of the program's stacks.
    pub stacks: Vec<String>,
    /// The stacks are shards of one host; the first stack represents the host.
    #[serde(default)]
    pub shards: bool,
}

/// The answer to a question: a page, or why there is none.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The answer to [`Question::Program`].
    pub program: Option<About>,
    /// The answer to all other questions.
    pub body: Value,
    /// Where the next page begins; the last page has none.
    pub next: Option<u64>,
    /// Why the question was refused, and what to do.
    pub error: Option<String>,
    /// The kind of the error, for a client that may ask again.
    #[serde(default)]
    pub refusal: Refusal,
    /// There is nothing to report yet: the question may wait for this many milliseconds.
    #[serde(skip)]
    pub later_ms: Option<u32>,
}

impl Answer {
    /// An answer with a body.
    pub fn of(body: impl Serialize) -> Answer {
        match serde_json::to_value(body) {
            Ok(body) => Answer { body, ..Answer::default() },
            Err(why) => Answer::refusal(Refusal::Wrong, format!("it has no JSON form: {why}")),
        }
    }

    /// An answer with an error.
    pub fn refusal(refusal: Refusal, error: String) -> Answer {
        Answer { error: Some(error), refusal, ..Answer::default() }
    }
}

/// Why a question was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Refusal {
    /// The question is invalid.
    #[default]
    Wrong,
    /// The program cannot answer now; ask again.
    Busy,
    /// There is no such tap: perhaps its lease has expired.
    Lapsed,
    /// The stack has ended, or the port is gone.
    Gone,
    /// A limit is reached.
    Full,
    /// The object to add exists already.
    Exists,
    /// The object to change or remove does not exist.
    Missing,
    /// The program does not do this for this user, or for any user.
    Denied,
    /// The packet cannot be sent: there is no route, no route for this user, or no address.
    Unreachable,
}
