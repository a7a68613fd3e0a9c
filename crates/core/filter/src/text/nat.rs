//! Rules of NAT, read: `source`, `keep`, `dest`, `prefix`, `both`.
//!
//! Called by: `text`. The last `to` of a rule is its target, one before it says which packets
//! match. RFC 4787 section 5 (filtering), RFC 6296 section 3 (prefixes), RFC 7422 (blocks of
//! ports).

use core::net::{IpAddr, Ipv6Addr};

use base::{Cidr, IpVersion};

use super::clauses::Clauses;
use super::filter::unknown_clause;
use super::lexer::{Cursor, Token, on_one_line};
use super::mistake::Fault;
use super::values::{Context, bounded_statements, count, is_clause, port, port_range};
use super::{names, sets};
use crate::rules::{
    Filtering, Hosts, Match, NAT_PORTS, Nat, NatRule, PortMap, Ports, Service, Target, has_ports,
};

/// The longest prefix that is translated: the rest of the address takes up the difference of the
/// checksums (RFC 6296 section 3.5).
const PREFIX_LEN_MAX: u8 = 64;

/// All rules of NAT; those with mistakes are not among them.
pub(super) fn read(text: &str, context: &mut Context<'_>) -> Vec<NatRule> {
    let statements = bounded_statements(text, context);
    let mut rules = Vec::new();
    for words in &statements {
        let before = context.log.count();
        match rule(words, context) {
            Ok(rule) if context.log.count() == before => rules.extend(rule),
            Ok(_) => {}
            Err(fault) => context.note(fault),
        }
    }
    rules
}

fn rule(words: &[Token<'_>], context: &mut Context<'_>) -> Result<Option<NatRule>, Fault> {
    let mut cursor = Cursor::new(words);
    let Some(first) = cursor.next() else { return Ok(None) };
    let (source, dest, nat) = match first.text {
        "source" | "keep" | "dest" => translation(first, words, cursor, context)?,
        "prefix" | "both" => one_to_one(first, cursor, context)?,
        other => {
            let known = ["source", "keep", "dest", "prefix", "both"];
            return Err(first.fault(names::unknown("kind", other, known.into_iter())));
        }
    };
    let (text, line) = (on_one_line(words), first.line);
    Ok(Some(NatRule { text, line, source, dest, nat }))
}

/// A match for sources, one for destinations, and what they are translated to.
type Parts = (Option<Match>, Option<Match>, Nat);

/// What a rule says besides its match.
#[derive(Debug, Default)]
struct Options<'a> {
    target: Option<Token<'a>>,
    ports: Option<(u16, u16)>,
    filtering: Filtering,
    block: Option<(Token<'a>, u32)>,
}

fn translation<'a>(
    first: Token<'a>,
    words: &[Token<'a>],
    mut cursor: Cursor<'a, '_>,
    context: &mut Context<'_>,
) -> Result<Parts, Fault> {
    let target_at = match first.text {
        "keep" => None,
        _ => words.iter().rposition(|word| word.text == "to"),
    };
    let (mut options, mut clauses) = (Options::default(), Clauses::default());
    let before = context.log.count();
    while let Some(word) = cursor.peek() {
        let read = if Some(cursor.position()) == target_at {
            cursor.next();
            let missing = "`to` needs a target: an address, a network or `port`";
            cursor.expect(missing).map(|word| options.target = Some(word))
        } else {
            clause(first, word, &mut options, &mut clauses, &mut cursor, context)
        };
        if let Err(fault) = read {
            context.note(fault);
            cursor.skip_to(is_clause);
        }
    }
    let refused = if first.text == "dest" { ["out", "flags"] } else { ["in", "flags"] };
    if let Some(word) = refused.iter().find_map(|name| clauses.token(name)) {
        let what = format!("a rule `{}` has no `{}`: leave it out", first.text, word.text);
        return Err(word.fault(what));
    }
    let needed = if first.text == "dest" { "in" } else { "out" };
    let has_needed = clauses.token(needed).is_some();
    if context.log.count() > before {
        return Ok((None, None, Nat::Keep));
    }
    if !has_needed {
        let what = format!("a port is missing: write `{} {needed} PORT ...`", first.text);
        return Err(first.fault(what));
    }
    let has_to = clauses.token("to").is_some();
    let matches = clauses.finish()?;
    match (first.text, options.target) {
        ("keep", _) => Ok((Some(matches), None, Nat::Keep)),
        ("dest", Some(word)) => dest(first, word, matches, has_to),
        (_, Some(word)) => source(word, matches, &options),
        (kind, None) => {
            let target = if kind == "dest" { "ADDRESS:PORT" } else { "port" };
            Err(first.fault(format!("a target is missing: write `{kind} ... to {target}`")))
        }
    }
}

fn clause<'a>(
    first: Token<'a>,
    word: Token<'a>,
    options: &mut Options<'a>,
    clauses: &mut Clauses<'a>,
    cursor: &mut Cursor<'a, '_>,
    context: &mut Context<'_>,
) -> Result<(), Fault> {
    if clauses.read(cursor, context)? {
        return Ok(());
    }
    match word.text {
        "ports" if first.text == "source" => {
            clauses.begin("ports", cursor, word)?;
            options.ports = Some(port_range(cursor.expect("`ports` needs a range A-B")?)?);
        }
        "filtering" if first.text == "source" => {
            clauses.begin("filtering", cursor, word)?;
            let missing = "`filtering` needs `independent`, `address` or `port`";
            let kind = cursor.expect(missing)?;
            options.filtering = match kind.text {
                "independent" => Filtering::Independent,
                "address" => Filtering::Address,
                "port" => Filtering::Port,
                other => {
                    let known = ["independent", "address", "port"];
                    let what = names::unknown("filtering", other, known.into_iter());
                    return Err(kind.fault(what));
                }
            };
        }
        "block" if first.text == "source" => {
            clauses.begin("block", cursor, word)?;
            options.block = Some((word, count(cursor, "`block` needs a number of ports")?));
        }
        other => {
            cursor.next();
            return Err(word.fault(match first.text {
                "source" => unknown_clause(other, SOURCE),
                _ => unknown_clause(other, OTHERS),
            }));
        }
    }
    Ok(())
}

const SOURCE: &[&str] = &["out", "from", "to", "ports", "filtering", "block"];
const OTHERS: &[&str] = &["in", "out", "from", "to"];

/// The rule is about packets of the version that its target has.
fn of_version(matches: Match, version: IpVersion, word: Token<'_>) -> Result<Match, Fault> {
    if matches.version.is_some_and(|other| other != version) {
        let what = "NAT keeps the version of IP: the target is of the other one than the packets";
        return Err(word.fault(what));
    }
    Ok(Match { version: Some(version), ..matches })
}

fn source(word: Token<'_>, matches: Match, options: &Options<'_>) -> Result<Parts, Fault> {
    let (first, last) = options.ports.unwrap_or(NAT_PORTS);
    if first == 0 {
        return Err(word.fault("port 0 is no port to translate to: begin `ports` at 1"));
    }
    let (target, matches) = match word.text {
        "port" => (Target::Port, matches),
        text => {
            let network = network(word, text, "write an address, a network or `port`")?;
            check_host(word, network.addr)?;
            let version = IpVersion::of(&network.addr);
            (Target::Network(network), of_version(matches, version, word)?)
        }
    };
    let block = match options.block {
        None => None,
        Some((_, size)) if size <= u32::from(last - first) + 1 => u16::try_from(size).ok(),
        Some((at, _)) => {
            let what = format!("a block has more ports than there are from {first} to {last}");
            return Err(at.fault(what));
        }
    };
    let filtering = options.filtering;
    let nat = Nat::Source { target, ports: (first, last), filtering, block };
    Ok((Some(matches), None, nat))
}

fn dest(first: Token<'_>, word: Token<'_>, matches: Match, has_to: bool) -> Result<Parts, Fault> {
    if matches.services.is_empty() && !has_to {
        let what = "every packet would be translated: write a protocol with its ports, or `to`";
        return Err(first.fault(what));
    }
    let Some((addr, ports)) = endpoint(word.text) else {
        let what =
            format!("`{}` is no target: write ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT", word.text);
        return Err(word.fault(what));
    };
    check_host(word, addr)?;
    let port = ports.map(|ports| port_map(word, &matches.services, ports)).transpose()?;
    let matches = of_version(matches, IpVersion::of(&addr), word)?;
    Ok((None, Some(matches), Nat::Dest { addr, port }))
}

/// Packets are translated to hosts only.
fn check_host(word: Token<'_>, addr: IpAddr) -> Result<(), Fault> {
    let is_broadcast = matches!(addr, IpAddr::V4(addr) if addr.is_broadcast());
    if addr.is_unspecified() || addr.is_multicast() || is_broadcast {
        return Err(word.fault(format!("no host has the address {addr}")));
    }
    Ok(())
}

/// `10.0.0.5`, `10.0.0.5:443`, `10.0.0.5:9000-9010`, `2001:db8::5`, `[2001:db8::5]:443`.
fn endpoint(text: &str) -> Option<(IpAddr, Option<(u16, u16)>)> {
    if let Ok(addr) = text.parse::<IpAddr>() {
        return Some((addr, None));
    }
    let (addr, ports) = match text.strip_prefix('[') {
        Some(rest) => {
            let (addr, ports) = rest.split_once("]:")?;
            (addr.parse::<Ipv6Addr>().ok()?.into(), ports)
        }
        None => {
            let (addr, ports) = text.rsplit_once(':')?;
            (addr.parse::<IpAddr>().ok().filter(IpAddr::is_ipv4)?, ports)
        }
    };
    let range = match ports.split_once('-') {
        _ if port(ports).is_some() => (port(ports)?, port(ports)?),
        Some((first, last)) => (port(first)?, port(last)?),
        None => return None,
    };
    (range.0 <= range.1).then_some((addr, Some(range)))
}

fn port_map(
    word: Token<'_>,
    services: &[Service],
    (to, last): (u16, u16),
) -> Result<PortMap, Fault> {
    if services.is_empty() || !services.iter().all(|service| has_ports(service.protocol)) {
        let what = "a target with a port needs a protocol: write `tcp`, `udp` or `{tcp, udp}` too";
        return Err(word.fault(what));
    }
    if to == 0 {
        return Err(word.fault("port 0 is no target: ports are numbers from 1 to 65535"));
    }
    let ranges = || services.iter().map(|service| (service.first, service.last));
    let (from, from_last) = ranges().next().unwrap_or((0, u16::MAX));
    if to == last {
        return Ok(PortMap { from, to, is_range: false });
    }
    let is_same = ranges().all(|range| range == (from, from_last));
    if !is_same || from_last - from != last - to {
        let what = "a range maps to a range of as many ports, or to one port";
        return Err(word.fault(what));
    }
    Ok(PortMap { from, to, is_range: true })
}

fn network(word: Token<'_>, text: &str, advice: &str) -> Result<Cidr, Fault> {
    let network =
        sets::network(text).map_err(|_| word.fault(format!("`{text}` is no network: {advice}")))?;
    match text.parse::<Cidr>() {
        Ok(cidr) if cidr != network => {
            Err(word.fault(format!("`{text}` has host bits: write {network}")))
        }
        _ => Ok(network),
    }
}

/// `prefix out PORTS INSIDE to OUTSIDE`, and `both` alike. RFC 6296 4.1-a.
fn one_to_one<'a>(
    first: Token<'a>,
    mut cursor: Cursor<'a, '_>,
    context: &mut Context<'_>,
) -> Result<Parts, Fault> {
    let kind = first.text;
    let usage = format!("write `{kind} out PORTS INSIDE to OUTSIDE`");
    let mut clauses = Clauses::default();
    if cursor.peek().is_none_or(|word| word.text != "out") {
        return Err(cursor.next().unwrap_or(first).fault(usage));
    }
    clauses.read(&mut cursor, context)?;
    let ports = clauses.finish()?.out_ports;
    let word = cursor.expect(&usage)?;
    let inside = network(word, word.text, &usage)?;
    let to = cursor.expect(&usage)?;
    if to.text != "to" {
        return Err(to.fault(usage));
    }
    let word = cursor.expect(&usage)?;
    let outside = network(word, word.text, &usage)?;
    if let Some(more) = cursor.next() {
        return Err(more.fault(format!("nothing follows here: {usage}")));
    }
    let version = IpVersion::of(&inside.addr);
    if version != IpVersion::of(&outside.addr) {
        return Err(word.fault("NAT keeps the version of IP: write networks of one version"));
    }
    if inside.prefix_len != outside.prefix_len {
        let what = format!("the networks differ in length: write two of /{}", inside.prefix_len);
        return Err(word.fault(what));
    }
    let nat = match kind {
        "both" => Nat::Both { inside, outside },
        _ if version == IpVersion::V4 => {
            return Err(word.fault("`prefix` is for IPv6 (RFC 6296): write `both` for IPv4"));
        }
        _ if inside.prefix_len > PREFIX_LEN_MAX => {
            let what = format!(
                "prefixes have {PREFIX_LEN_MAX} bits at most (RFC 6296): write \
                                `both` for longer ones"
            );
            return Err(word.fault(what));
        }
        _ => Nat::Prefix { inside, outside },
    };
    let of = |network| Hosts { negated: false, networks: vec![network], sets: Vec::new() };
    let common = Match { version: Some(version), ..Match::default() };
    let source = Match { out_ports: ports.clone(), from: of(inside), ..common.clone() };
    let dest = Match { in_ports: ports, to: of(outside), out_ports: Ports::Any, ..common };
    Ok((Some(source), Some(dest), nat))
}
