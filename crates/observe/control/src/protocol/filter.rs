//! The firewall: rows, questions, and changes of rules on trial.
//!
//! Called by: `wirespeed filter`, `states` and `show`, which ask; `observe`, which answers and
//! trusts nothing in a question. Rules are numbered from 1; sizes are in bytes. docs/filter.md
//! describes the language of rules.

use core::net::IpAddr;
use std::collections::BTreeMap;

use base::Cidr;
use serde::{Deserialize, Serialize};

/// A rule of the filter. Rows are in the order of the rules; the last row is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilterRule {
    /// The number of the rule; `None` for the default.
    pub rule: Option<u32>,
    /// The rule as the operator wrote it, on one line; a long rule is cut.
    pub text: String,
    /// Packets that the rule decided on, including later packets of its flows.
    pub packets: u64,
    /// The bytes of these packets, IP headers included.
    pub bytes: u64,
    /// Flows that the rule passed.
    pub flows: u64,
    /// The time since the last of these packets.
    pub last_hit_ms: Option<u64>,
    /// The label of the rule.
    pub label: Option<String>,
}

/// A state of the filter: a flow that passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowState {
    /// The name of the protocol.
    pub protocol: String,
    /// The source address and port of the first packet, as it arrived.
    pub src: String,
    /// The destination of the first packet, as it arrived.
    pub dst: String,
    /// The source of answers, as they arrive.
    pub reply_src: String,
    /// The destination of answers, as they arrive. It differs from `src` if NAT translates the
    /// source.
    pub reply_dst: String,
    /// The port where the first packet arrived; `self` is the router.
    pub in_dev: String,
    /// The port that the first packet left by.
    pub out_dev: String,
    /// The phase of the flow: `established`, `unreplied` and so on.
    pub phase: String,
    /// The time since the first packet.
    pub age_ms: u64,
    /// The time since the last packet that renewed the state.
    pub idle_ms: u64,
    /// The time until the state expires if no more packets come.
    pub expires_ms: u64,
    /// Packets in the direction of the first packet.
    pub packets: u64,
    /// Bytes in the direction of the first packet.
    pub bytes: u64,
    /// Packets in the direction of answers.
    pub reply_packets: u64,
    /// Bytes in the direction of answers.
    pub reply_bytes: u64,
    /// The rule that passed the flow; `None` if the default did, or a rule of an earlier rule set.
    pub rule: Option<u32>,
    /// The label of that rule.
    pub label: Option<String>,
    /// TCP windows are not checked.
    pub loose: bool,
}

/// A rule of NAT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NatRule {
    /// The number of the rule.
    pub rule: u32,
    /// The rule as the operator wrote it, on one line; a long rule is cut.
    pub text: String,
    /// Inside addresses that have mappings of the rule's pool; `None` if the rule needs no
    /// mappings.
    pub sources: Option<u64>,
    /// Mappings of the rule's pool.
    pub mappings: Option<u64>,
}

/// A mapping: an inside address and port, and an outside address and port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NatMapping {
    /// The name of the protocol.
    pub protocol: String,
    /// The inside address and port.
    pub inside: String,
    /// The outside address and port.
    pub outside: String,
    /// Flows that use the mapping; 0 while the port is still reserved for the source.
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
    /// Why datagrams do not reach the collector, as far as that is known.
    pub failure: Option<String>,
}

/// The partner of a pair of routers: what its session has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PairState {
    /// The partner's address and port.
    pub peer: String,
    /// The partner is there.
    pub up: bool,
    /// The time since it is there, or is not.
    pub since_ms: u64,
    /// Copies of states, and ends of states, that were sent.
    pub sent: u64,
    /// Those that came.
    pub received: u64,
    /// Copies that have become states.
    pub imported: u64,
    /// Copies that have updated a state.
    pub updated: u64,
    /// Copies and datagrams that were refused, by the name of the reason: `rule 3`.
    pub refused: Vec<String>,
    /// Datagrams that were sent.
    pub datagrams_sent: u64,
    /// Datagrams that came.
    pub datagrams_received: u64,
    /// Datagrams that the partner has asked for again.
    pub repeated: u64,
    /// Datagrams that this router has asked for again.
    pub gaps: u64,
    /// Datagrams of the partner's that never came.
    pub lost: u64,
    /// Times that all states were sent.
    pub bulks_sent: u64,
    /// Times that all states of the partner came.
    pub bulks_received: u64,
    /// Why the partner is not there, as far as that is known.
    pub failure: Option<String>,
}

/// A choice of states: those that match all fields that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chosen {
    /// The name of the protocol.
    pub protocol: Option<String>,
    /// A network that contains the source of the first packet.
    pub src: Option<String>,
    /// A network that contains the destination of the first packet.
    pub dst: Option<String>,
    /// A network that contains the source or the destination, as it arrived or as NAT translated
    /// it.
    pub host: Option<String>,
    /// The source port of the first packet.
    pub sport: Option<u16>,
    /// The destination port of the first packet.
    pub dport: Option<u16>,
    /// The name of the port where the first packet arrived.
    pub in_dev: Option<String>,
    /// The name of the port that the first packet left by.
    pub out_dev: Option<String>,
    /// The phase.
    pub phase: Option<String>,
    /// The rule, by its number or its label.
    pub rule: Option<String>,
}

/// Rules in the form of a configuration, with the files that their sets name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleText {
    /// The default action.
    pub default: String,
    /// Rules of the filter.
    pub rules: String,
    /// Rules of NAT.
    pub nat: String,
    /// The names of sets, and their entries.
    pub sets: Vec<(String, Vec<String>)>,
    /// The contents of files, by the names that the sets use.
    pub files: BTreeMap<String, String>,
}

/// A question about the firewall, or a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilterCall {
    /// A page of states: rows of [`FlowState`].
    States {
        /// The states that are meant.
        chosen: Chosen,
        /// 0, or [`Answer::next`](super::Answer::next) of the page before.
        cursor: u64,
    },
    /// What the rules decide about a packet, which is described as for `filter explain`:
    /// [`Explained`].
    Explain(String),
    /// End states, some at a time: [`Killed`].
    Kill {
        /// The states that are meant.
        chosen: Chosen,
        /// 0, or [`Answer::next`](super::Answer::next) of the call before.
        cursor: u64,
    },
    /// Filter by these rules, which are removed automatically unless they are confirmed:
    /// [`OnTrial`].
    Apply {
        /// The rules.
        text: Box<RuleText>,
        /// How long the rules stay without confirmation.
        confirm_s: u32,
    },
    /// Keep the rules on trial until the configuration is read again: [`OnTrial`].
    Confirm,
}

impl FilterCall {
    /// Does the call change something?
    pub fn is_change(&self) -> bool {
        !matches!(self, FilterCall::States { .. } | FilterCall::Explain(_))
    }
}

/// How many of the examined states were ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// The number of states that were ended.
    pub killed: u64,
}

/// The numbers of the rules that are on trial, or were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnTrial {
    /// Rules of the filter.
    pub rules: u64,
    /// Rules of NAT.
    pub nat: u64,
}

/// Whether a rule matches a packet, and if not, why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The number of the rule.
    pub rule: u32,
    /// The text of the rule; a long rule is cut.
    pub text: String,
    /// The clause that does not match; `None` if the rule matches.
    pub why: Option<String>,
}

/// What the rules decide about a packet, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// The packet, with its translated destination.
    pub packet: String,
    /// The port where the packet arrived.
    pub in_dev: String,
    /// The port that the packet leaves by. If it is `None`, no rule is evaluated, because the
    /// packet has no route, or its source is not behind the port where it arrived.
    pub out_dev: Option<String>,
    /// The rule of NAT that translates the packet's destination, and the new destination.
    pub dest: Option<(u32, String, IpAddr)>,
    /// The packet passes before any rule.
    pub always: bool,
    /// The rules up to the one that matches.
    pub steps: Vec<Step>,
    /// `pass`, `block` or `reject`.
    pub action: String,
    /// The rule that decides; `None`: the default.
    pub rule: Option<u32>,
    /// The rule of NAT that translates the packet's source, if the packet passes.
    pub source: Option<(u32, String)>,
}

/// Parse a network, or a single address as the network of only that address.
pub fn network(text: &str) -> Option<Cidr> {
    text.parse::<IpAddr>().map(Cidr::host).ok().or_else(|| text.parse().ok())
}
