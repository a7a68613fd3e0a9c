//! The firewall: its rows, questions about it, and changes of its rules on trial.
//!
//! Called by: `wirespeed filter`, `states` and `show`, which ask; `observe` answers and trusts
//! nothing in a question. Rules are counted from 1; sizes are bytes. docs/filter.md has the words
//! of rules.

use core::net::IpAddr;
use std::collections::BTreeMap;

use base::Cidr;
use serde::{Deserialize, Serialize};

/// A rule of the filter, in order; the last row is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilterRule {
    /// Its number; `None` for the default.
    pub rule: Option<u32>,
    /// As the operator wrote it, on one line; a long one is cut.
    pub text: String,
    /// Packets that it decided on, those of its flows included.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Flows that it passed.
    pub flows: u64,
    /// The time since the last of these packets.
    pub last_hit_ms: Option<u64>,
    /// Its label.
    pub label: Option<String>,
}

/// A state: a flow that passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowState {
    /// The name of its protocol.
    pub protocol: String,
    /// The source of its first packet as it arrived, with the port.
    pub src: String,
    /// The destination of its first packet as it arrived.
    pub dst: String,
    /// The source of answers as they arrive.
    pub reply_src: String,
    /// The destination of answers as they arrive: another one than `src` if NAT translates it.
    pub reply_dst: String,
    /// The port that the first packet came by; `self` is the router.
    pub in_dev: String,
    /// The port that it left by.
    pub out_dev: String,
    /// Where the flow is: `established`, `unreplied` and so on.
    pub phase: String,
    /// The time since the first packet.
    pub age_ms: u64,
    /// The time since the last packet that counts.
    pub idle_ms: u64,
    /// The time until it ends if no more packets come.
    pub expires_ms: u64,
    /// Packets in its direction.
    pub packets: u64,
    /// Bytes in its direction.
    pub bytes: u64,
    /// Packets in the direction of answers.
    pub reply_packets: u64,
    /// Bytes in the direction of answers.
    pub reply_bytes: u64,
    /// The rule that passed it; `None`: the default, or rules that ran before.
    pub rule: Option<u32>,
    /// That rule's label.
    pub label: Option<String>,
    /// Windows are not checked.
    pub loose: bool,
}

/// A rule of NAT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NatRule {
    /// Its number.
    pub rule: u32,
    /// As the operator wrote it, on one line; a long one is cut.
    pub text: String,
    /// Inside addresses that have mappings of its pool; `None`: it needs none.
    pub sources: Option<u64>,
    /// Mappings of its pool.
    pub mappings: Option<u64>,
}

/// A mapping: an inside address and port, and those of the outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NatMapping {
    /// The name of its protocol.
    pub protocol: String,
    /// The inside address and port.
    pub inside: String,
    /// The outside address and port.
    pub outside: String,
    /// Flows that use it; 0 while its port is held for its source.
    pub flows: u64,
}

/// Flow export: where records go, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowExport {
    /// The collector's address and port.
    pub collector: String,
    /// The observation domain.
    pub domain: u32,
    /// Records of flows and NAT events that were sent.
    pub records: u64,
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Records in datagrams that could not be sent.
    pub unsent: u64,
    /// Events that were lost because too many waited (limit `filter_events`).
    pub lost: u64,
    /// ICMP errors that came back.
    pub icmp_errors: u64,
}

/// Which states are meant: those for which all fields hold that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chosen {
    /// The name of the protocol.
    pub protocol: Option<String>,
    /// A network with the source of the first packet.
    pub src: Option<String>,
    /// A network with its destination.
    pub dst: Option<String>,
    /// A network with one of both, as it arrived or as NAT translated it.
    pub host: Option<String>,
    /// The source port of the first packet.
    pub sport: Option<u16>,
    /// Its destination port.
    pub dport: Option<u16>,
    /// The name of the port that it came by.
    pub in_dev: Option<String>,
    /// The name of the port that it left by.
    pub out_dev: Option<String>,
    /// The phase.
    pub phase: Option<String>,
    /// The rule, by its number or its label.
    pub rule: Option<String>,
}

/// Rules as a configuration has them, with the files that their sets name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleText {
    /// The default.
    pub default: String,
    /// Rules of the filter.
    pub rules: String,
    /// Rules of NAT.
    pub nat: String,
    /// Names of sets, and their entries.
    pub sets: Vec<(String, Vec<String>)>,
    /// Texts of files by the names that sets have for them.
    pub files: BTreeMap<String, String>,
}

/// A question about the firewall, or a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilterCall {
    /// A page of states: rows of [`FlowState`].
    States {
        /// Which.
        chosen: Chosen,
        /// 0, or [`Answer::next`](super::Answer::next) of the page before.
        cursor: u64,
    },
    /// What the rules say of a packet, in the words of `filter explain`: [`Explained`].
    Explain(String),
    /// End states, some at a time: [`Killed`].
    Kill {
        /// Which.
        chosen: Chosen,
        /// 0, or [`Answer::next`](super::Answer::next) of the call before.
        cursor: u64,
    },
    /// Filter by these rules; they go by themselves unless they are confirmed: [`OnTrial`].
    Apply {
        /// The rules.
        text: Box<RuleText>,
        /// How long they stay without confirmation.
        confirm_s: u32,
    },
    /// The rules on trial stay until the configuration is read again: [`OnTrial`].
    Confirm,
}

impl FilterCall {
    /// Does it change something?
    pub fn is_change(&self) -> bool {
        !matches!(self, FilterCall::States { .. } | FilterCall::Explain(_))
    }
}

/// How many of the states that were looked at have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// States.
    pub killed: u64,
}

/// The rules that are on trial, or were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnTrial {
    /// Rules of the filter.
    pub rules: u64,
    /// Rules of NAT.
    pub nat: u64,
}

/// Why a rule does not match a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The number of the rule.
    pub rule: u32,
    /// The rule; a long one is cut.
    pub text: String,
    /// The clause that does not fit; `None`: it matches.
    pub why: Option<String>,
}

/// What the rules say of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// The packet, with its translated destination.
    pub packet: String,
    /// The port that it came by.
    pub in_dev: String,
    /// The port that it leaves by; `None`: no rule is asked, because it has no route, or a source
    /// that is not behind its port.
    pub out_dev: Option<String>,
    /// The rule of NAT that translates its destination, and what that becomes.
    pub dest: Option<(u32, String, IpAddr)>,
    /// It passes before any rule.
    pub always: bool,
    /// The rules up to the one that matches.
    pub steps: Vec<Step>,
    /// `pass`, `block` or `reject`.
    pub action: String,
    /// The rule that decides; `None`: the default.
    pub rule: Option<u32>,
    /// The rule of NAT that translates its source, if it passes.
    pub source: Option<(u32, String)>,
}

/// A network, or an address alone.
pub fn network(text: &str) -> Option<Cidr> {
    text.parse::<IpAddr>().map(Cidr::host).ok().or_else(|| text.parse().ok())
}
