//! The messages between clients and a running program over the control socket, as JSON.
//!
//! Called by: tools, which ask; `observe`, which answers and trusts nothing in a question; the live
//! page for its rows. A field may be added, with a default: then a tool understands an older
//! program, and an older tool leaves out what it does not know. A change of another kind is a new
//! [`crate::VERSION`].

mod as_text;
mod call;
mod change;
mod connection;
mod filter;
mod route;
mod rows;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use call::{Accepted, Call, Called, Datagram, Echo, Kind, Wait};
pub use change::{CHANGES_MAX, Change, Hop, Lookup, Object, RouteSpec, RuleSpec, Verb};
pub use connection::{Connection, Timers};
pub use filter::{
    Chosen, Explained, FilterCall, FilterRule, FlowExport, FlowState, Killed, NatMapping, NatRule,
    OnTrial, RuleText, Step, network,
};
pub use route::{Found, Leaving, NextHop, Route, Rule};
pub use rows::{Address, Fragments, Group, Limited, Neighbour, Port, Socket, Summary};

/// The most connections of a question that names them.
pub const CONNECTIONS_MAX: usize = 64;

/// A part of what a stack can show.
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
}

impl Section {
    /// The sections that `wirespeed show` has unless it is asked for one, in its order: all but
    /// those of the firewall, whose states may be millions.
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

    /// Its name, and a shorter one as ip(8) has it.
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
        }
    }
}

/// A question about the program, or about one of its stacks, by its place in [`About::stacks`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// The program that answers: [`Answer::program`].
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
    /// The connections with these numbers: rows of the section, each with a look at it.
    Connections {
        /// The stack that is asked.
        stack: usize,
        /// In order; [`CONNECTIONS_MAX`] at most.
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
        /// The tap's number.
        tap: u64,
    },
    /// Remove a tap.
    Untap {
        /// The stack that is asked.
        stack: usize,
        /// The tap's number.
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
        /// In this order; [`CHANGES_MAX`] at most. The first that fails ends the request.
        changes: Vec<Change>,
    },
    /// About the firewall.
    Filter {
        /// The stack that is asked.
        stack: usize,
        /// What is asked for.
        call: FilterCall,
    },
    /// A call of a socket in the stack, as the user that the kernel says the client is: [`Called`].
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
    /// Its number.
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
    /// The bytes of a buffer of records in base64; empty if there are no packets.
    pub records: String,
    /// Packets that the tap has seen.
    pub seen: u64,
    /// Packets that its filter chose.
    pub matched: u64,
    /// Chosen packets that found no room.
    pub dropped: u64,
}

/// The program that answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct About {
    /// Its process.
    pub pid: u32,
    /// The name that it gives itself, such as `ttcp`.
    pub command: String,
    /// The version of wirespeed that it was built with.
    pub version: String,
    /// The names of its stacks.
    pub stacks: Vec<String>,
    /// The stacks are shards of one host, the first of which speaks for it.
    #[serde(default)]
    pub shards: bool,
}

/// A page, or why there is none.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// For [`Question::Program`].
    pub program: Option<About>,
    /// For all other questions.
    pub body: Value,
    /// Where the next page begins; the last page has none.
    pub next: Option<u64>,
    /// Why the question was refused, and what to do.
    pub error: Option<String>,
    /// The meaning of the error for a client that goes on asking.
    #[serde(default)]
    pub refusal: Refusal,
    /// There is nothing to say yet: the question may wait for this many milliseconds.
    #[serde(skip)]
    pub later_ms: Option<u32>,
}

impl Answer {
    /// An answer with a body.
    pub fn of(body: impl Serialize) -> Answer {
        match serde_json::to_value(body) {
            Ok(body) => Answer { body, ..Answer::default() },
            Err(why) => Answer::refusal(Refusal::Wrong, format!("it cannot be said: {why}")),
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
    /// Not now; ask again.
    Busy,
    /// There is no such tap: perhaps its lease has expired.
    Lapsed,
    /// The stack has ended, or the port is gone.
    Gone,
    /// A limit is reached.
    Full,
    /// The thing to add is there already.
    Exists,
    /// The thing to change or remove is not there.
    Missing,
    /// The program does not do this for that user, or for nobody.
    Denied,
    /// It cannot be sent: no route, none for this user, no address.
    Unreachable,
}
