//! What rules do with a packet: the destination that NAT gives it, its route, the rules up to the
//! one that matches, and the source that NAT gives it.
//!
//! Called by: `filter.rs` for the rules of a stack; `wirespeed filter explain --file` for the rules
//! of a file. The answer comes from the plain list of rules, which is also the test oracle of the
//! compiled program.

use core::net::IpAddr;

use ::filter::firewall::redirected;
use ::filter::packet::Packet;
use ::filter::program::list;
use ::filter::rules::{Action, Nat};
use ::filter::text::question;
use ::filter::{ROUTER, Rules, passes_always};
use base::Owner;
use stack::{FibQuery, FibResult, PortId, Stack, Vrf};

use super::{Refused, cut, named, number};
use control::protocol::{Explained, Refusal, Step};

const NO_RULES: &str = "No such file or directory: the program has no rules, so every packet \
                        passes; they belong under [filter] in the router's file";

/// What the rules of a stack decide about a packet.
///
/// # Errors
/// There are no rules, or the question is not understood.
pub(super) fn of_stack(stack: &Stack, asked: &str) -> Result<Explained, Refused> {
    let firewall = stack.filter().ok_or((Refusal::Missing, NO_RULES.to_owned()))?;
    let names = named(stack);
    let ports: Vec<(&str, u16)> = names.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    let out_port = |dst, src, input| {
        let input = (input != ROUTER).then_some(PortId(input));
        let query = FibQuery {
            dst,
            src: Some(src),
            output: None,
            input,
            owner: Owner::program(),
            mark: 0,
            vrf: Vrf::NONE,
        };
        match stack.fib_lookup(&query) {
            FibResult::Local(_) => Some(ROUTER),
            FibResult::Leaves(found) => Some(found.hop.port),
            FibResult::Dropped(..) => None,
        }
    };
    let is_own = |addr| stack.has_address(addr);
    explain_packet(&firewall.published().rules, asked, &ports, is_own, out_port)
        .map_err(|why| (Refusal::Wrong, why))
}

/// The rule of NAT that translates the destination of a packet, and the new destination. Networks
/// that a rule exchanges at one port can be reached from the other ports too.
fn destination(
    rules: &Rules,
    came: &Packet,
    ports: &[(&str, u16)],
) -> Option<(usize, IpAddr, u16)> {
    let by = |packet: &Packet| {
        let at = usize::from(list::judge_dest(rules, packet)?);
        let nat = &rules.nat.get(at)?.nat;
        let (dst, port) = redirected(nat, &came.tuple)?;
        let is_exchange = matches!(nat, Nat::Both { .. } | Nat::Prefix { .. });
        Some((at, dst, port, is_exchange))
    };
    let other = |&(_, in_port): &(&str, u16)| {
        by(&Packet { in_port, ..*came }).filter(|(.., is_exchange)| *is_exchange)
    };
    let found = by(came).or_else(|| ports.iter().find_map(other))?;
    Some((found.0, found.1, found.2))
}

/// What `rules` decide about the packet that `asked` describes, in the language of `filter
/// explain`. `ports` are the router's ports. `is_own` says whether an address is the router's.
/// `out_port` says which port a packet leaves by, from its destination, its source and the port
/// where it arrived.
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
        if let Some((at, dst, port)) = destination(rules, &came, ports) {
            let text = rules.nat.get(at).map(|rule| cut(&rule.text)).unwrap_or_default();
            explained.dest = Some((number(at), text, dst));
            (packet.tuple.dst, packet.tuple.dst_port) = (dst, port);
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

#[cfg(test)]
mod tests {
    use ::filter::text::{Source, parse};

    use super::*;

    const PORTS: [(&str, u16); 2] = [("lan", 0), ("wan", 1)];

    /// The answer to a question about a router whose inside network is at the port `lan`.
    fn explained(nat: &str, asked: &str) -> Explained {
        let source = Source { rules: "pass", nat, default: "block", sets: &[] };
        let rules = parse(&source, &PORTS, &|_| Err("no files".into())).expect("rules");
        let is_inside = |dst: IpAddr| match dst {
            IpAddr::V4(dst) => dst.octets()[0] == 10,
            IpAddr::V6(dst) => dst.segments()[0] == 0xfd00,
        };
        let out_port = |dst, _, _| Some(if is_inside(dst) { 0 } else { 1 });
        explain_packet(&rules, asked, &PORTS, |_| false, out_port).expect("a question")
    }

    #[test]
    fn rules_that_exchange_networks_say_the_destination() {
        let nat = "both out wan 10.0.0.0/24 to 192.0.2.0/24\n\
                   prefix out wan fd00:1::/48 to 2001:db8:1::/48";
        let both = explained(nat, "in wan 198.51.100.7:999 > 192.0.2.5:443 tcp");
        let (rule, _, dst) = both.dest.expect("translated");
        assert_eq!((rule, dst.to_string()), (1, "10.0.0.5".to_owned()));
        assert_eq!(both.out_dev.as_deref(), Some("lan"));
        assert!(both.packet.contains("> 10.0.0.5:443"), "{}", both.packet);
        // The translation also applies to packets from inside (hairpin).
        let hairpin = explained(nat, "in lan 10.0.0.9:999 > 192.0.2.5:443 tcp");
        assert_eq!(hairpin.dest.map(|(.., dst)| dst.to_string()).as_deref(), Some("10.0.0.5"));
        let prefix = explained(nat, "in wan [2001:db8::7]:9 > [2001:db8:1:5::9]:53 udp");
        let (rule, _, dst) = prefix.dest.expect("translated");
        assert!(rule == 2 && dst.to_string().starts_with("fd00:1:"), "{dst}");
    }
}
