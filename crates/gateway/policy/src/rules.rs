//! A policy as structures: what its text says, in order. The first rule that matches a flow decides
//! about it.
//!
//! Called by: `text`, which reads them; `compiled`, which makes them fast; `plain`, which does not.

use core::net::IpAddr;

use base::{Cidr, Limit};
use filter::Set;
use filter::rules::Service;

use crate::group::Group;
use crate::name::Pattern;

/// Rules that a policy may have.
pub const RULES_MAX: usize = 4_096;

/// Everything that the text of a policy says.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The name of the file, for the log.
    pub file: String,
    /// What becomes of a flow that no rule matches.
    pub default: Action,
    /// What a guest hears of a refusal.
    pub refuse: Refusal,
    /// How questions for names are treated.
    pub dns: Dns,
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// The sets that rules name, by [`Target::Set`].
    pub sets: Vec<Set>,
    /// Published ports.
    pub publish: Vec<Publish>,
    /// Limits of the gateway.
    pub limits: Vec<(Limit, usize)>,
    /// Bytes that guests may send, all flows together; then every new flow is refused.
    pub bytes_out_max: Option<u64>,
    /// The same of bytes that they receive.
    pub bytes_in_max: Option<u64>,
}

impl Rules {
    /// Where a rule is: `policy.toml:12`, `--allow:1`; `default` for none.
    pub fn place(&self, number: Option<u16>) -> String {
        let Some(rule) = number.and_then(|number| self.rules.get(usize::from(number))) else {
            return "default".to_owned();
        };
        match rule.is_argument {
            false => format!("{}:{}", self.file, rule.line),
            true => format!("--{}:{}", rule.action.name(), rule.line),
        }
    }
}

/// What a rule does with a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// It begins.
    #[default]
    Allow,
    /// It is refused.
    Deny,
    /// Somebody is asked.
    Ask,
}

impl Action {
    /// The word in rules and in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Deny => "deny",
            Action::Ask => "ask",
        }
    }
}

/// What a guest hears of a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusal {
    /// RST; for datagrams and echoes an ICMP error, "port unreachable".
    #[default]
    Reset,
    /// An ICMP error, "communication administratively prohibited" (RFC 1812 section 5.2.7.1, RFC
    /// 4443 section 3.1).
    Prohibited,
    /// Nothing.
    Drop,
}

/// How questions for names are treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// The servers, in order; the owner reads those of the host again when they change.
    pub servers: Vec<Server>,
    /// Only names that a rule could allow are asked upstream.
    pub only_allowed: bool,
    /// Answers with addresses that are not public are refused, unless a rule allows the address.
    pub refuses_rebinding: bool,
}

impl Default for Dns {
    fn default() -> Dns {
        Dns { servers: vec![Server::Host], only_allowed: true, refuses_rebinding: false }
    }
}

/// A name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Those of the host.
    Host,
    /// This one, at port 53.
    Address(IpAddr),
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Where it begins: a line of the file, or the number of an argument.
    pub line: u32,
    /// Is it an argument of the command line?
    pub is_argument: bool,
    /// What it does.
    pub action: Action,
    /// The destinations that it is about; one of them has to match.
    pub targets: Vec<Target>,
    /// Protocols with ports; empty means all.
    pub services: Vec<Service>,
    /// Does the name in a TLS hello have to match?
    pub sni: Sni,
    /// The outside by which its flows leave; kept for the owner.
    pub via: Option<String>,
}

/// Destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Addresses that our resolver has given for such a name.
    Name(Pattern),
    /// A network without host bits; IPv4-mapped ones are written as IPv4.
    Network(Cidr),
    /// One of [`Rules::sets`].
    Set(usize),
    /// A group.
    Group(Group),
}

/// What is asked of the TLS hello of a flow that a name allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sni {
    /// A hello has to name what the rule allows; what is not TLS passes.
    #[default]
    Tls,
    /// There has to be a hello, and it has to name what the rule allows.
    Match,
    /// Nothing.
    Ignore,
}

/// A published port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The address of the host at which it listens; `None`: all.
    pub address: Option<IpAddr>,
    /// The host's interface on which it listens.
    pub interface: Option<String>,
    /// The first and last port of the host.
    pub host: (u16, u16),
    /// The guest's port for the first one.
    pub guest: u16,
    /// UDP, not TCP.
    pub is_udp: bool,
    /// The networks of clients that may connect; empty means all.
    pub from: Vec<Cidr>,
}

impl Rule {
    /// Does the rule say something about all ports and protocols?
    pub fn is_about_all(&self) -> bool {
        self.services.is_empty()
    }

    /// Is the service with this number ([`Service::number`]) one of the rule's?
    pub fn has_service(&self, number: u32) -> bool {
        self.is_about_all() || self.services.iter().any(|service| service.contains(number))
    }

    /// The patterns among its targets.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.targets.iter().filter_map(|target| match target {
            Target::Name(pattern) => Some(pattern),
            _ => None,
        })
    }
}
