//! The firewall for clients: rows of rules, states and mappings, and the removal of states.
//!
//! Called by: `answer.rs`, on the thread that owns the stack. `explain` says what the rules do with
//! a packet, `trial` manages rules on trial. Nothing in a question is trusted. A page examines a
//! bounded number of states.

mod explain;
#[cfg(test)]
mod tests;
mod trial;

use core::net::IpAddr;

use ::filter::firewall::{Exported, Paired};
use ::filter::nat::MappingRow;
use ::filter::rules::has_ports;
use ::filter::states::{Cursor, State};
use ::filter::text::protocol_name;
use ::filter::{Firewall, ROUTER, Tuple};
use base::Cidr;
use stack::{PortId, Stack};

use control::protocol::{
    Answer, Chosen, FilterCall, FilterRule, FlowExport, FlowState, Killed, NatMapping, NatRule,
    PairState, Refusal, network,
};

pub use explain::explain_packet;
pub(super) use trial::Trial;

/// The states that one question examines, the states of one step, and the rows after which a
/// question ends.
const LOOKED_MAX: usize = 20_000;
const LOOKED_STEP: usize = 500;
const ROWS_MAX: usize = 500;
/// The most characters of a rule in a row.
const TEXT_MAX: usize = 200;

/// The text of a rule, cut if it is long.
fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text)),
        None => text.to_owned(),
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).map_or(u32::MAX, |at| at.saturating_add(1))
}

/// The name of a port; `self` for the router.
fn dev(stack: &Stack, port: u16) -> String {
    if port == ROUTER { "self".to_owned() } else { stack.port_name(PortId(port)) }
}

fn end((addr, port): (IpAddr, u16), protocol: u8) -> String {
    match (has_ports(protocol), addr) {
        (true, IpAddr::V4(addr)) => format!("{addr}:{port}"),
        (true, IpAddr::V6(addr)) => format!("[{addr}]:{port}"),
        (false, addr) => addr.to_string(),
    }
}

/// The rules of the filter and their counters; the default is last.
pub(super) fn rules(stack: &Stack) -> Vec<FilterRule> {
    let Some(firewall) = stack.filter() else { return Vec::new() };
    let (now, rules) = (stack.now(), &firewall.published().rules);
    let rows = rules.filter.iter().map(|rule| (cut(&rule.text), rule.label.clone()));
    let default = (format!("default {}", rules.default.name()), None);
    let all = rows.chain([default]).zip(firewall.counts()).enumerate();
    all.map(|(at, ((text, label), counts))| FilterRule {
        rule: (at < rules.filter.len()).then(|| number(at)),
        text,
        packets: counts.packets,
        bytes: counts.bytes,
        flows: counts.flows,
        last_hit_ms: counts.last_hit.map(|at| now.since(at).as_millis()),
        label,
    })
    .collect()
}

/// The rules of NAT, and how much their pools are used.
pub(super) fn nat(stack: &Stack) -> Vec<NatRule> {
    let Some(firewall) = stack.filter() else { return Vec::new() };
    let rules = firewall.published().rules.nat.iter().enumerate();
    rules
        .map(|(at, rule)| {
            let used = u16::try_from(at).ok().and_then(|at| firewall.pool_use(at));
            NatRule {
                rule: number(at),
                text: cut(&rule.text),
                sources: used.map(|used| used.sources.into()),
                mappings: used.map(|used| used.mappings.into()),
            }
        })
        .collect()
}

/// Flow export, if there is a collector.
pub(super) fn export(stack: &Stack) -> Vec<FlowExport> {
    let Some(firewall) = stack.filter() else { return Vec::new() };
    let row = |exported: &Exported| FlowExport {
        collector: exported.collector.to_string(),
        domain: exported.domain,
        records: exported.records,
        datagrams: exported.datagrams,
        unsent: exported.unsent,
        lost: firewall.events_lost(),
        icmp_errors: exported.errors,
        failure: exported.failure.clone(),
    };
    firewall.exported().into_iter().map(row).collect()
}

/// The partner of a pair, if there is one.
pub(super) fn pair(stack: &Stack) -> Vec<PairState> {
    let paired = stack.filter().and_then(Firewall::paired);
    let row = |paired: &Paired| PairState {
        peer: paired.peer.to_string(),
        up: paired.is_up,
        since_ms: stack.now().since(paired.since).as_millis(),
        sent: paired.sent,
        received: paired.received,
        imported: paired.imported,
        updated: paired.updated,
        refused: paired.refused.iter().map(|(why, count)| format!("{why} {count}")).collect(),
        datagrams_sent: paired.datagrams_sent,
        datagrams_received: paired.datagrams_received,
        repeated: paired.repeated,
        gaps: paired.gaps,
        lost: paired.lost,
        bulks_sent: paired.bulks[0],
        bulks_received: paired.bulks[1],
        failure: paired.failure.clone(),
    };
    paired.into_iter().map(row).collect()
}

/// A page of the mappings of NAT.
pub(super) fn mappings(stack: &Stack, cursor: u64) -> Answer {
    let Some(firewall) = stack.filter() else { return Answer::of(Vec::<NatMapping>::new()) };
    let from = u32::try_from(cursor).unwrap_or(u32::MAX);
    let (rows, next) = firewall.mappings().page(from, ROWS_MAX);
    let row = |row: &MappingRow| NatMapping {
        protocol: protocol_name(row.protocol),
        inside: end(row.inside, row.protocol),
        outside: end(row.outside, row.protocol),
        flows: row.flows.into(),
    };
    let rows: Vec<NatMapping> = rows.iter().map(row).collect();
    Answer { next: next.map(u64::from), ..Answer::of(rows) }
}

/// Answer a question about states or a packet, or end states.
pub(super) fn answer(stack: &mut Stack, call: &FilterCall) -> Answer {
    match call {
        FilterCall::States { chosen, cursor } => match Wanted::of(stack, chosen) {
            Ok(wanted) => states(stack, &wanted, *cursor),
            Err((refusal, why)) => Answer::refusal(refusal, why),
        },
        FilterCall::Kill { chosen, cursor } => match Wanted::of(stack, chosen) {
            Ok(wanted) => kill(stack, &wanted, *cursor),
            Err((refusal, why)) => Answer::refusal(refusal, why),
        },
        FilterCall::Explain(asked) => match explain::of_stack(stack, asked) {
            Ok(explained) => Answer::of(explained),
            Err((refusal, why)) => Answer::refusal(refusal, why),
        },
        FilterCall::Apply { .. } | FilterCall::Confirm => {
            Answer::refusal(Refusal::Wrong, "this stack has no rules on trial".to_owned())
        }
    }
}

/// The states that a client chose, with numbers instead of names.
#[derive(Default)]
struct Wanted {
    protocol: Option<String>,
    src: Option<Cidr>,
    dst: Option<Cidr>,
    host: Option<Cidr>,
    ports: [Option<u16>; 2],
    devs: [Option<u16>; 2],
    phase: Option<String>,
    /// The numbers of the rules, and the generation of the rule set.
    rules: Option<(Vec<u16>, u32)>,
}

type Refused = (Refusal, String);

impl Wanted {
    fn of(stack: &Stack, chosen: &Chosen) -> Result<Wanted, Refused> {
        let net = |text: &Option<String>| match text.as_deref() {
            Some(text) => network(text).map(|net| Some(net.network())).ok_or_else(|| {
                (Refusal::Wrong, format!("Invalid argument: '{text}' is not an address or network"))
            }),
            None => Ok(None),
        };
        let port = |name: &Option<String>| match name.as_deref() {
            Some("self") => Ok(Some(ROUTER)),
            Some(name) => named(stack).into_iter().find(|(known, _)| known == name).map_or_else(
                || Err((Refusal::Missing, format!("Cannot find device: there is no port {name}"))),
                |(_, number)| Ok(Some(number)),
            ),
            None => Ok(None),
        };
        Ok(Wanted {
            protocol: chosen.protocol.clone(),
            src: net(&chosen.src)?,
            dst: net(&chosen.dst)?,
            host: net(&chosen.host)?,
            ports: [chosen.sport, chosen.dport],
            devs: [port(&chosen.in_dev)?, port(&chosen.out_dev)?],
            phase: chosen.phase.clone(),
            rules: chosen.rule.as_deref().map(|rule| by_rule(stack, rule)).transpose()?,
        })
    }

    fn is_meant(&self, state: &State) -> bool {
        let (one, other) = (&state.original, &state.reply);
        let is_in = |net: &Option<Cidr>, addr: IpAddr| net.is_none_or(|net| net.contains(addr));
        let hosts = [one.src, one.dst, other.src, other.dst];
        let is = |wanted: Option<u16>, has: u16| wanted.is_none_or(|wanted| wanted == has);
        self.protocol.as_ref().is_none_or(|name| *name == protocol_name(one.protocol))
            && is_in(&self.src, one.src)
            && is_in(&self.dst, one.dst)
            && hosts.iter().any(|&host| is_in(&self.host, host))
            && is(self.ports[0], one.src_port)
            && is(self.ports[1], one.dst_port)
            && is(self.devs[0], state.in_port)
            && is(self.devs[1], state.out_port)
            && self.phase.as_ref().is_none_or(|name| name == state.phase.name())
            && self.rules.as_ref().is_none_or(|(rules, generation)| {
                state.generation == *generation && rules.contains(&state.rule)
            })
    }
}

/// The rules with a number or a label.
fn by_rule(stack: &Stack, wanted: &str) -> Result<(Vec<u16>, u32), Refused> {
    let none = || (Refusal::Missing, format!("there is no rule {wanted}; see `show filter`"));
    let firewall = stack.filter().ok_or_else(none)?;
    let all = (0u16..).zip(&firewall.published().rules.filter);
    let is_it = |at: u16, label: Option<&str>| {
        label == Some(wanted) || wanted.parse().is_ok_and(|n: u32| n == number(at.into()))
    };
    let found = all.filter(|(at, rule)| is_it(*at, rule.label.as_deref()));
    let found: Vec<u16> = found.map(|(at, _)| at).collect();
    if found.is_empty() { Err(none()) } else { Ok((found, firewall.generation())) }
}

fn named(stack: &Stack) -> Vec<(String, u16)> {
    let ports = stack.ports_page(0, usize::MAX).rows;
    ports.into_iter().map(|port| (port.name, port.id.0)).collect()
}

fn states(stack: &Stack, wanted: &Wanted, cursor: u64) -> Answer {
    let Some(firewall) = stack.filter() else { return Answer::of(Vec::<FlowState>::new()) };
    let (mut rows, mut next, mut looked) = (Vec::new(), Some(Cursor::of(cursor)), 0);
    while let Some(at) = next
        && looked < LOOKED_MAX
        && rows.len() < ROWS_MAX
    {
        next = firewall.states().page(at, LOOKED_STEP, stack.now(), |_, state| {
            if wanted.is_meant(state) {
                rows.push(row(stack, firewall, state));
            }
        });
        looked += LOOKED_STEP;
    }
    Answer { next: next.map(Cursor::number), ..Answer::of(rows) }
}

fn row(stack: &Stack, firewall: &Firewall, state: &State) -> FlowState {
    let (now, published) = (stack.now(), firewall.published());
    // The number of a rule refers to the rule set that last decided on the state.
    let rule = (state.generation == firewall.generation()).then_some(usize::from(state.rule));
    let rule = rule.and_then(|at| Some((at, published.rules.filter.get(at)?)));
    let ends = |tuple: &Tuple| {
        [(tuple.src, tuple.src_port), (tuple.dst, tuple.dst_port)]
            .map(|one| end(one, tuple.protocol))
    };
    let ([src, dst], [reply_src, reply_dst]) = (ends(&state.original), ends(&state.reply));
    FlowState {
        protocol: protocol_name(state.original.protocol),
        src,
        dst,
        reply_src,
        reply_dst,
        in_dev: dev(stack, state.in_port),
        out_dev: dev(stack, state.out_port),
        phase: state.phase.name().to_owned(),
        age_ms: now.since(state.created).as_millis(),
        idle_ms: now.since(state.seen).as_millis(),
        expires_ms: state.expires.since(now).as_millis(),
        packets: state.packets[0],
        bytes: state.bytes[0],
        reply_packets: state.packets[1],
        reply_bytes: state.bytes[1],
        rule: rule.map(|(at, _)| number(at)),
        label: rule.and_then(|(_, rule)| rule.label.clone()),
        loose: state.loose,
    }
}

fn kill(stack: &mut Stack, wanted: &Wanted, cursor: u64) -> Answer {
    let now = stack.now();
    let Some(firewall) = stack.filter_mut() else { return Answer::of(Killed::default()) };
    let is_meant = |state: &State| wanted.is_meant(state);
    let (next, killed) = firewall.kill_states(Cursor::of(cursor), LOOKED_MAX, now, is_meant);
    let killed = Killed { killed: killed as u64 };
    Answer { next: next.map(Cursor::number), ..Answer::of(killed) }
}
