//! The firewall for clients: rows of its rules, states and mappings, what it says of a packet, the
//! end of states, and rules on trial.
//!
//! Called by: `answer.rs` on the thread that owns the stack; `service.rs` keeps the trial, which
//! one stack, the first one, can have: its shards follow it. Nothing in a question is trusted. A
//! page looks at a bounded number of states.

use core::net::IpAddr;
use std::sync::Arc;

use ::filter::firewall::Published;
use ::filter::nat::MappingRow;
use ::filter::program::list;
use ::filter::rules::{Nat, PortMap, has_ports};
use ::filter::states::{Cursor, State, Timeouts};
use ::filter::text::{self, Source, protocol_name, question};
use ::filter::{Firewall, ROUTER, Rules, Tuple, passes_always};
use base::{Cidr, Duration, Instant, Owner};
use stack::{FibQuery, FibResult, PortId, Stack};

use control::protocol::{
    Answer, Chosen, Explained, FilterCall, FilterRule, FlowState, Killed, NatMapping, NatRule,
    OnTrial, Refusal, RuleText, Step, network,
};

/// States that one question looks at, in steps, and rows after which it ends.
const LOOKED_MAX: usize = 20_000;
const LOOKED_STEP: usize = 500;
const ROWS_MAX: usize = 500;
/// Characters of a rule in a row.
const TEXT_MAX: usize = 200;
/// The longest trial.
const TRIAL_MAX_S: u32 = 86_400;

const NO_RULES: &str = "No such file or directory: the program has no rules: every packet passes; \
                        [filter] of the router's file has them";

/// A rule, cut if it is long.
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
        FilterCall::Explain(asked) => match explain_of_stack(stack, asked) {
            Ok(explained) => Answer::of(explained),
            Err((refusal, why)) => Answer::refusal(refusal, why),
        },
        FilterCall::Apply { .. } | FilterCall::Confirm => {
            Answer::refusal(Refusal::Wrong, "this stack has no rules on trial".to_owned())
        }
    }
}

/// What a client asks of states, with numbers instead of names.
#[derive(Default)]
struct Wanted {
    protocol: Option<String>,
    src: Option<Cidr>,
    dst: Option<Cidr>,
    host: Option<Cidr>,
    ports: [Option<u16>; 2],
    devs: [Option<u16>; 2],
    phase: Option<String>,
    /// By the number of a rule, and that of the rules' generation.
    rules: Option<(Vec<u16>, u32)>,
}

type Refused = (Refusal, String);

impl Wanted {
    fn of(stack: &Stack, chosen: &Chosen) -> Result<Wanted, Refused> {
        let net = |text: &Option<String>| match text.as_deref() {
            Some(text) => network(text).map(|net| Some(net.network())).ok_or_else(|| {
                (Refusal::Wrong, format!("Invalid argument: '{text}' is no address or network"))
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
    // Numbers of rules are those of the rules that judged it last.
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

fn explain_of_stack(stack: &Stack, asked: &str) -> Result<Explained, Refused> {
    let firewall = stack.filter().ok_or((Refusal::Missing, NO_RULES.to_owned()))?;
    let names = named(stack);
    let ports: Vec<(&str, u16)> = names.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    let out_port = |dst, src, input| {
        let input = (input != ROUTER).then_some(PortId(input));
        let query =
            FibQuery { dst, src: Some(src), output: None, input, owner: Owner::program(), mark: 0 };
        match stack.fib_lookup(&query) {
            FibResult::Local(_) => Some(ROUTER),
            FibResult::Leaves(found) => Some(found.hop.port),
            FibResult::Dropped(_) => None,
        }
    };
    let is_own = |addr| stack.has_address(addr);
    explain(&firewall.published().rules, asked, &ports, is_own, out_port)
        .map_err(|why| (Refusal::Wrong, why))
}

/// What `rules` say of the packet that is `asked` about, in the words of `filter explain`. `ports`
/// are the router's; `is_own` says whether an address is the router's, and `out_port` which port a
/// packet to a destination leaves by, from a source and by a port in.
///
/// # Errors
/// The question is not understood.
pub fn explain(
    rules: &Rules,
    asked: &str,
    ports: &[(&str, u16)],
    is_own: impl Fn(IpAddr) -> bool,
    out_port: impl Fn(IpAddr, IpAddr, u16) -> Option<u16>,
) -> Result<Explained, String> {
    let question = question(asked, ports).map_err(|mistake| mistake.to_string())?;
    let mut packet = question.packet;
    let name = |port: u16| match ports.iter().find(|(_, number)| *number == port) {
        Some((name, _)) => (*name).to_owned(),
        None => "self".to_owned(),
    };
    let mut explained = Explained { in_dev: name(packet.in_port), ..Explained::default() };
    if packet.in_port != ROUTER {
        let mut came = packet;
        came.out_port = if is_own(packet.tuple.dst) { ROUTER } else { packet.in_port };
        let rule = list::judge_dest(rules, &came).map(usize::from);
        if let Some((at, rule)) = rule.and_then(|at| Some((at, rules.nat.get(at)?)))
            && let Nat::Dest { addr, port } = rule.nat
        {
            explained.dest = Some((number(at), cut(&rule.text), addr));
            packet.tuple.dst = addr;
            packet.tuple.dst_port = port
                .map_or(packet.tuple.dst_port, |ports: PortMap| ports.map(packet.tuple.dst_port));
        }
    }
    explained.packet = packet.to_string();
    if !question.has_out {
        let (dst, src) = (packet.tuple.dst, packet.tuple.src);
        let found = if is_own(dst) { Some(ROUTER) } else { out_port(dst, src, packet.in_port) };
        let Some(found) = found else { return Ok(explained) };
        packet.out_port = found;
    }
    explained.out_dev = Some(name(packet.out_port));
    if passes_always(&packet) {
        "pass".clone_into(&mut explained.action);
        explained.always = true;
        return Ok(explained);
    }
    let steps = list::explain(rules, &packet);
    let step = |(at, why): &(usize, Option<list::Clause>)| Step {
        rule: number(*at),
        text: rules.filter.get(*at).map(|rule| cut(&rule.text)).unwrap_or_default(),
        why: why.map(|why| why.to_string()),
    };
    explained.steps = steps.iter().map(step).collect();
    let decides = steps.last().filter(|(_, why)| why.is_none()).map(|(at, _)| *at);
    let action = decides.and_then(|at| rules.filter.get(at)).map_or(rules.default, |r| r.action);
    action.name().clone_into(&mut explained.action);
    explained.rule = decides.map(number);
    if action == ::filter::rules::Action::Pass && packet.out_port != ROUTER {
        let rule = list::judge_source(rules, &packet).map(usize::from);
        let found = rule.and_then(|at| Some((number(at), cut(&rules.nat.get(at)?.text))));
        explained.source = found;
    }
    Ok(explained)
}

/// Rules that go by themselves unless they are confirmed.
#[derive(Default)]
pub(super) struct Trial(Option<Trying>);

struct Trying {
    before: Option<Arc<Published>>,
    tried: Arc<Published>,
    until: Instant,
}

impl Trying {
    /// Are they still those of the stack? Others that were published meanwhile end the trial.
    fn runs(&self, stack: &Stack) -> bool {
        stack.filter().is_some_and(|firewall| Arc::ptr_eq(firewall.published(), &self.tried))
    }

    fn on_trial(&self) -> OnTrial {
        let rules = &self.tried.rules;
        OnTrial { rules: rules.filter.len() as u64, nat: rules.nat.len() as u64 }
    }
}

impl Trial {
    pub(super) fn next_deadline(&self) -> Instant {
        self.0.as_ref().map_or(Instant::NEVER, |trying| trying.until)
    }

    /// Go back to the rules before, if the time is over.
    pub(super) fn end_if_due(&mut self, stack: &mut Stack, now: Instant) {
        if let Some(trying) = self.0.take_if(|trying| trying.until <= now)
            && trying.runs(stack)
        {
            stack.set_filter(trying.before);
        }
    }

    pub(super) fn answer(&mut self, stack: &mut Stack, call: &FilterCall, now: Instant) -> Answer {
        match call {
            FilterCall::Apply { text, confirm_s } => match self.apply(stack, text, *confirm_s, now)
            {
                Ok(on_trial) => Answer::of(on_trial),
                Err((refusal, why)) => Answer::refusal(refusal, why),
            },
            FilterCall::Confirm => match self.0.take().filter(|trying| trying.runs(stack)) {
                Some(trying) => Answer::of(trying.on_trial()),
                None => {
                    let why = "No such file or directory: no rules are on trial: the time is over, \
                               or the configuration was read again";
                    Answer::refusal(Refusal::Missing, why.to_owned())
                }
            },
            _ => answer(stack, call),
        }
    }

    fn apply(
        &mut self,
        stack: &mut Stack,
        text: &RuleText,
        confirm_s: u32,
        now: Instant,
    ) -> Result<OnTrial, Refused> {
        let wrong = |why: String| (Refusal::Wrong, format!("Invalid argument: {why}"));
        if !(1..=TRIAL_MAX_S).contains(&confirm_s) {
            return Err(wrong(format!("a trial takes 1 to {TRIAL_MAX_S} seconds")));
        }
        let names = named(stack);
        let ports: Vec<(&str, u16)> = names.iter().map(|(name, at)| (name.as_str(), *at)).collect();
        let RuleText { default, rules, nat, sets, files } = text;
        let file = |name: &str| files.get(name).cloned().ok_or("it was not sent".to_owned());
        let source = Source { rules, nat, default, sets };
        let rules = text::parse(&source, &ports, &file).map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            wrong(lines.join("\n"))
        })?;
        if !rules.nat.is_empty() && stack.steering().count() > 1 {
            return Err(wrong("NAT needs one shard".to_owned()));
        }
        if !stack.forwarding() {
            return Err(wrong("rules are asked while packets are forwarded".to_owned()));
        }
        let has = stack.filter().map(|firewall| Arc::clone(firewall.published()));
        let generation = has.as_ref().map_or(0, |has| has.generation).saturating_add(1);
        let tried = Published::compile(rules, Timeouts::default(), generation);
        let tried = tried.map_err(|why| wrong(why.to_string()))?;
        stack.set_filter(Some(Arc::clone(&tried)));
        // A second trial goes back to the rules before the first one.
        let first = self
            .0
            .take()
            .filter(|trying| has.as_ref().is_some_and(|has| Arc::ptr_eq(has, &trying.tried)));
        let before = first.map_or(has, |first| first.before);
        let until = now + Duration::from_secs(confirm_s.into());
        let trying = Trying { before, tried, until };
        let on_trial = trying.on_trial();
        self.0 = Some(trying);
        Ok(on_trial)
    }
}
