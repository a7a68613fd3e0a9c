//! Rules: they select the table in which a packet's route is looked up not only by its destination,
//! like `ip rule` of Linux.
//!
//! Called by: `lookup.rs`, if there are any; without rules, only the main table is used. Rules
//! apply in the order of their priority, those of equal priority in the order in which they were
//! added. If the table of a rule has no route, the next rule applies. The main table always has
//! priority 32766. Packets of a VRF have their own table there in its place, with priority 1000 as
//! Linux's `l3mdev` rule, and no rule behind it: they never get into the main table. Limit:
//! [`RULES_MAX`]. docs/decisions/0080.

use core::fmt;
use core::net::IpAddr;

use base::Cidr;

use super::Sender;
use crate::vrf::Vrf;

/// The priority of the main table.
pub const MAIN_PRIORITY: u32 = 32_766;
/// The priority of a VRF's table for packets of the VRF, for which rules from here on do not apply.
pub const VRF_PRIORITY: u32 = 1_000;
/// The most rules of one stack, even if the limit `rules` is higher.
pub const RULES_MAX: usize = 1_024;

/// What happens to a packet that a rule selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The packet's route is looked up in this table.
    Table(u32),
    /// The packet is not sent. The source of a forwarded packet gets an error that the host is
    /// unreachable.
    Unreachable,
    /// The packet is not sent. The source of a forwarded packet gets an error that the
    /// communication is prohibited.
    Prohibit,
    /// The packet is dropped, and its source gets no report.
    Blackhole,
}

/// A rule. A field that is `None` selects every packet.
///
/// Packets from one network, and packets with the mark 7, have tables of their own:
/// ```
/// # mod wirespeed { pub use wirespeed_inet::route::{Action, Rule}; }
/// use wirespeed::{Action, Rule};
///
/// let from = Some("192.0.2.0/24".parse()?);
/// let by_source = Rule { from, ..Rule::new(100, Action::Table(10)) };
/// let by_mark = Rule { mark: Some((7, u32::MAX)), ..Rule::new(200, Action::Table(20)) };
/// // both go to `Stack::add_rule`
/// # assert!(by_source.priority < by_mark.priority);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Rules with lower numbers apply first.
    pub priority: u32,
    /// Selects packets from this network. A packet whose source is not chosen yet does not match.
    pub from: Option<Cidr>,
    /// Selects packets to this network.
    pub to: Option<Cidr>,
    /// Selects forwarded packets that came by this port, and none of our own (Linux's `iif`).
    pub in_port: Option<u16>,
    /// Selects packets whose mark equals the first number in the bits of the second (Linux's
    /// `fwmark`).
    pub mark: Option<(u32, u32)>,
    /// Selects packets of users in this group (Linux has `uidrange`).
    pub group: Option<u32>,
    /// Select all other packets instead, if they have the IP version of `from` and `to`.
    pub not: bool,
    /// What happens to the selected packets.
    pub action: Action,
}

/// Why a packet has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No table has a route that the sender may use.
    None,
    /// The action of a rule is [`Action::Unreachable`], or a route is of this type.
    Unreachable,
    /// The action of a rule is [`Action::Prohibit`], or a route is of this type.
    Prohibit,
    /// The action of a rule is [`Action::Blackhole`], or a route is of this type.
    Blackhole,
}

/// Why a rule was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// Exactly the same rule exists already.
    Exists,
    /// There are as many rules as the limit `rules` allows.
    LimitReached,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::Exists => "the same rule is there already: remove it first, or leave it",
            RuleError::LimitReached => {
                "the limit `rules` allows no more of them: remove one, or raise the limit"
            }
        })
    }
}

impl core::error::Error for RuleError {}

impl Rule {
    /// A rule that selects every packet.
    pub const fn new(priority: u32, action: Action) -> Rule {
        Rule {
            priority,
            from: None,
            to: None,
            in_port: None,
            mark: None,
            group: None,
            not: false,
            action,
        }
    }

    /// Does the rule select this packet?
    pub fn selects(&self, dst: IpAddr, src: Option<IpAddr>, sender: Sender<'_>) -> bool {
        let is_other = |net: &Cidr| net.addr.is_ipv4() != dst.is_ipv4();
        if self.from.iter().chain(&self.to).any(is_other) {
            return false;
        }
        let (mark, in_port, owner) = match sender {
            Sender::Program | Sender::Vrf(_) => (0, None, None),
            Sender::Socket { owner, by } => (by.mark, None, Some(owner)),
            Sender::Transit { in_port, .. } => (0, Some(in_port), None),
        };
        let is_from = |net: Cidr| net.prefix_len == 0 || src.is_some_and(|src| net.contains(src));
        let fits = self.from.is_none_or(is_from)
            && self.to.is_none_or(|net| net.contains(dst))
            && self.in_port.is_none_or(|port| in_port == Some(port))
            && self.mark.is_none_or(|(value, mask)| (value ^ mark) & mask == 0)
            && self.group.is_none_or(|group| owner.is_some_and(|owner| owner.in_group(group)));
        fits != self.not
    }

    /// May the rule select a packet of this host between these addresses, for any sender on the
    /// host?
    pub(super) fn may_select_ours(&self, dst: IpAddr, src: IpAddr) -> bool {
        let of_program = |rule: &Rule| rule.selects(dst, Some(src), Sender::Program);
        let of_all = Rule { mark: None, group: None, ..*self };
        // For a sender with another mark, or outside of the group, the rule selects the opposite.
        let depends = self.mark.is_some() || self.group.is_some();
        of_program(&of_all) || depends && self.not && self.in_port.is_none()
    }

    /// May the rule select a forwarded packet? Such a packet belongs to no group.
    fn concerns_transit(&self) -> bool {
        self.group.is_none() || self.not
    }
}

/// The rules of a stack, in order.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// One of the rules may make forwarded packets use another table than the main table.
    pub(super) divert_transit: bool,
}

impl Rules {
    pub(super) fn all(&self) -> &[Rule] {
        &self.rules
    }

    pub(super) fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        if self.rules.contains(&rule) {
            return Err(RuleError::Exists);
        }
        if self.rules.len() >= RULES_MAX {
            return Err(RuleError::LimitReached);
        }
        let at = self.rules.partition_point(|other| other.priority <= rule.priority);
        self.rules.insert(at, rule);
        self.look();
        Ok(())
    }

    pub(super) fn remove(&mut self, rule: &Rule) -> bool {
        let Some(at) = self.rules.iter().position(|other| other == rule) else { return false };
        self.rules.remove(at);
        self.look();
        true
    }

    pub(super) fn set(&mut self, rules: &[Rule]) {
        self.rules = rules.to_vec();
        self.look();
    }

    /// The rules before and behind a priority.
    pub(super) fn around(&self, priority: u32) -> (&[Rule], &[Rule]) {
        self.rules.split_at(self.rules.partition_point(|rule| rule.priority < priority))
    }

    fn look(&mut self) {
        let mut early = self.rules.iter().filter(|rule| rule.priority < MAIN_PRIORITY);
        self.divert_transit = early.any(Rule::concerns_transit);
    }

    /// Calls `find` for the tables that the rules select for a packet of a VRF, and returns its
    /// first result.
    pub(super) fn find<T>(
        &self,
        vrf: Vrf,
        selects: impl Fn(&Rule) -> bool,
        find: impl Fn(u32) -> Option<T>,
    ) -> Result<T, NoRoute> {
        self.find_by(vrf, selects, |_, table| find(table))
    }

    /// [`Rules::find`] that also passes the rule that selected the table to `find`. `None` is the
    /// rule of the main table, or of the VRF's, which always exists.
    pub(super) fn find_by<T>(
        &self,
        vrf: Vrf,
        selects: impl Fn(&Rule) -> bool,
        find: impl Fn(Option<&Rule>, u32) -> Option<T>,
    ) -> Result<T, NoRoute> {
        let priority = if vrf.is_none() { MAIN_PRIORITY } else { VRF_PRIORITY };
        let (early, late) = self.around(priority);
        let late = if vrf.is_none() { late } else { &[] };
        let main = Rule::new(priority, Action::Table(vrf.table()));
        let rules = early.iter().chain([&main]).chain(late);
        for rule in rules.filter(|rule| selects(rule)) {
            match rule.action {
                Action::Table(table) => {
                    let named = (!core::ptr::eq(rule, &raw const main)).then_some(rule);
                    if let Some(found) = find(named, table) {
                        return Ok(found);
                    }
                }
                Action::Unreachable => return Err(NoRoute::Unreachable),
                Action::Prohibit => return Err(NoRoute::Prohibit),
                Action::Blackhole => return Err(NoRoute::Blackhole),
            }
        }
        Err(NoRoute::None)
    }
}
