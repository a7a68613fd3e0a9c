//! What rules make of a packet: the destination that NAT gives it, its route, the rules up to the
//! one that matches, the source that NAT gives it.
//!
//! Called by: `filter.rs` for the rules of a stack; `wirespeed filter explain --file` for those of
//! a file. The plain list of rules is asked, which is the oracle of the compiled program.

use core::net::IpAddr;

use ::filter::program::list;
use ::filter::rules::{Action, Nat, PortMap};
use ::filter::text::question;
use ::filter::{ROUTER, Rules, passes_always};
use base::Owner;
use stack::{FibQuery, FibResult, PortId, Stack};

use super::{Refused, cut, named, number};
use control::protocol::{Explained, Refusal, Step};

const NO_RULES: &str = "No such file or directory: the program has no rules: every packet passes; \
                        [filter] of the router's file has them";

/// What the rules of a stack say of a packet.
///
/// # Errors
/// There are no rules, or the question is not understood.
pub(super) fn of_stack(stack: &Stack, asked: &str) -> Result<Explained, Refused> {
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
    explain_packet(&firewall.published().rules, asked, &ports, is_own, out_port)
        .map_err(|why| (Refusal::Wrong, why))
}

/// What `rules` say of the packet that is `asked` about, in the words of `filter explain`. `ports`
/// are the router's; `is_own` says whether an address is the router's, and `out_port` which port a
/// packet to a destination leaves by, from a source and by a port in.
///
/// # Errors
/// The question is not understood.
pub fn explain_packet(
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
    if action == Action::Pass && packet.out_port != ROUTER {
        let rule = list::judge_source(rules, &packet).map(usize::from);
        let found = rule.and_then(|at| Some((number(at), cut(&rules.nat.get(at)?.text))));
        explained.source = found;
    }
    Ok(explained)
}
