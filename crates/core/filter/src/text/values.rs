//! What follows the first word of a clause: lists, hosts, protocols with their ports or types, TCP
//! flags, numbers.
//!
//! Called by: `clauses`, `filter`, `nat` and `question`; the context that they share is here too. A
//! list is `{a, b}`, or `a,b` without blanks or with them. All mistakes of a list are reported.

use base::Cidr;
use wire::protocol::{ICMP, ICMPV6};

use super::lexer::{Cursor, Token, statements};
use super::mistake::{Fault, Location, Log};
use super::sets::Sets;
use super::{names, sets};
use crate::rules::{Flags, Service, has_ports};

/// What readers of rules know and report to.
pub(super) struct Context<'c> {
    pub(super) ports: &'c [(&'c str, u16)],
    pub(super) sets: &'c mut Sets,
    /// Rules of the filter, and as many of NAT.
    pub(super) rules_max: usize,
    pub(super) log: &'c mut Log,
    pub(super) location: Location,
}

impl Context<'_> {
    pub(super) fn note(&mut self, fault: Fault) {
        self.log.add(&self.location, fault);
    }

    /// The number of one of the router's ports.
    pub(super) fn port(&self, word: Token<'_>) -> Result<u16, Fault> {
        let fault = match word.text {
            "self" => "`self` is no port: write `to self`".to_owned(),
            "any" => "leave it out: without `in` and `out` a rule is about all ports".to_owned(),
            "!" => "`!` stands before hosts only: write the names of the ports".to_owned(),
            name => match names::number_of(self.ports, name) {
                Some(port) => return Ok(port),
                None => names::unknown("port", name, self.ports.iter().map(|&(known, _)| known)),
            },
        };
        Err(word.fault(fault))
    }
}

/// Words that begin a clause, besides protocols.
const CLAUSES: &[&str] = &[
    "in",
    "out",
    "from",
    "to",
    "port",
    "proto",
    "flags",
    "new",
    "states",
    "label",
    "log",
    "loose",
    "stateless",
    "ports",
    "filtering",
    "block",
];

/// Does the word begin a clause?
pub(super) fn is_clause(word: &str) -> bool {
    CLAUSES.contains(&word) || is_protocol(word)
}

/// Is the word the name of a protocol?
pub(super) fn is_protocol(word: &str) -> bool {
    names::number_of(names::PROTOCOLS, word).is_some()
}

/// The statements of a text, at most as many as there may be rules.
pub(super) fn bounded_statements<'t>(
    text: &'t str,
    context: &mut Context<'_>,
) -> Vec<Vec<Token<'t>>> {
    let (mut found, faults) = statements(text);
    for fault in faults {
        context.note(fault);
    }
    let max = context.rules_max;
    if let Some(first) = found.get(max).and_then(|words| words.first()) {
        let many = format!("{} rules: filter_rules allows {max}", found.len());
        context.note(first.fault(many));
        found.truncate(max);
    }
    found
}

/// One item, or several: each is read by `one`. Mistakes inside braces are noted, and the items
/// without them returned.
pub(super) fn list<'a, 'c, T>(
    cursor: &mut Cursor<'a, '_>,
    context: &mut Context<'c>,
    missing: &str,
    one: &mut dyn FnMut(&mut Context<'c>, Token<'a>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut items = Vec::new();
    if cursor.accept("{") {
        let mut words = 0usize;
        loop {
            let word = cursor.expect("a `}` is missing")?;
            match word.text {
                "}" if words == 0 => return Err(word.fault(format!("empty list: {missing}"))),
                "}" => return Ok(items),
                "," => {}
                _ => {
                    words += 1;
                    match one(context, word) {
                        Ok(item) => items.push(item),
                        Err(fault) => context.note(fault),
                    }
                }
            }
        }
    }
    loop {
        let word = cursor.expect(missing)?;
        items.push(one(context, word)?);
        if !cursor.accept(",") {
            return Ok(items);
        }
    }
}

/// A host of `from` and `to`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Host {
    Any,
    Itself,
    Network(Cidr),
    Set(usize),
}

/// `!` or not, and the hosts with their words.
pub(super) fn hosts<'a>(
    name: &str,
    cursor: &mut Cursor<'a, '_>,
    context: &mut Context<'_>,
) -> Result<(bool, Vec<(Token<'a>, Host)>), Fault> {
    let missing =
        format!("`{name}` needs hosts: an address, a network, `@set`, `{{a, b}}`, `self` or `any`");
    let negated = cursor.accept("!");
    let mut one = |context: &mut Context<'_>, word: Token<'a>| Ok((word, host(context, word)?));
    Ok((negated, list(cursor, context, &missing, &mut one)?))
}

fn host(context: &mut Context<'_>, word: Token<'_>) -> Result<Host, Fault> {
    match word.text {
        "any" => return Ok(Host::Any),
        "self" => return Ok(Host::Itself),
        "!" => return Err(word.fault("`!` stands once, before the hosts or their list")),
        _ => {}
    }
    if let Some(name) = word.text.strip_prefix('@') {
        return context.sets.find(name).map(Host::Set).map_err(|what| word.fault(what));
    }
    if sets::network(word.text).is_ok() {
        let network = sets::plain_network(word.text);
        return network.map(Host::Network).map_err(|what| word.fault(what));
    }
    if context.sets.knows(word.text) {
        return Err(word.fault(format!("unknown host `{0}`: write `@{0}` for the set", word.text)));
    }
    if names::number_of(context.ports, word.text).is_some() {
        let what = format!("`{}` is a port: write it behind `in` or `out`", word.text);
        return Err(word.fault(what));
    }
    let what = format!(
        "unknown host `{}`: write an address, ADDRESS/LENGTH, `@set`, `self` or `any`",
        word.text
    );
    Err(word.fault(what))
}

/// Ranges of ports, after their first word.
pub(super) fn port_ranges(
    cursor: &mut Cursor<'_, '_>,
    context: &mut Context<'_>,
) -> Result<Vec<(u16, u16)>, Fault> {
    let missing = "a port is missing: a number, a range `1024-2048`, or a name";
    list(cursor, context, missing, &mut |_, word| port_range(word))
}

/// `443`, `https`, `1024-2048`.
pub(super) fn port_range(word: Token<'_>) -> Result<(u16, u16), Fault> {
    if let Some(port) = port(word.text) {
        return Ok((port, port));
    }
    let ends = word.text.split_once('-').map(|(first, last)| (port(first), port(last)));
    match ends {
        Some((Some(first), Some(last))) if first <= last => Ok((first, last)),
        Some((Some(first), Some(last))) => {
            Err(word.fault(format!("the range ends before it begins: write {last}-{first}")))
        }
        _ if word.text.starts_with(|c: char| c.is_ascii_digit()) => {
            let what = format!("`{}` is no port: ports are numbers from 0 to 65535", word.text);
            Err(word.fault(what))
        }
        _ => {
            let known = names::SERVICES.iter().map(|&(name, _)| name);
            Err(word.fault(names::unknown("port or clause", word.text, known)))
        }
    }
}

/// A port's number or the name of its service.
pub(super) fn port(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { names::number_of(names::SERVICES, text) }
}

/// Protocols with the ports or types behind them.
pub(super) fn services(
    cursor: &mut Cursor<'_, '_>,
    context: &mut Context<'_>,
) -> Result<Vec<Service>, Fault> {
    let first = cursor.peek();
    cursor.accept("proto");
    let missing = "a protocol is missing: a name, or a number behind `proto`";
    let protocols = list(cursor, context, missing, &mut |_, word| protocol(word))?;
    let is_done = cursor.peek().is_none_or(|next| is_clause(next.text));
    if is_done {
        return Ok(protocols.into_iter().map(Service::all).collect());
    }
    let mut services = Vec::new();
    if protocols.iter().all(|&protocol| has_ports(protocol)) {
        for (first, last) in port_ranges(cursor, context)? {
            let with = |&protocol: &u8| Service { protocol, first, last };
            services.extend(protocols.iter().map(with));
        }
    } else if protocols.iter().all(|&protocol| matches!(protocol, ICMP | ICMPV6)) {
        let missing = "a type is missing: a name, a number, or `TYPE/CODE`";
        let mut one = |_: &mut Context<'_>, word: Token<'_>| {
            protocols.iter().map(|&protocol| icmp_type(protocol, word)).collect()
        };
        let found: Vec<Vec<Service>> = list(cursor, context, missing, &mut one)?;
        services.extend(found.into_iter().flatten());
    } else {
        let what = match (cursor.next(), first) {
            (Some(next), Some(first)) => {
                let clauses = names::PROTOCOLS.iter().map(|&(name, _)| name);
                match next.text.starts_with(|c: char| c.is_ascii_digit()) {
                    true => next.fault(format!("`{}` has no ports", first.text)),
                    false => next.fault(names::unknown("clause", next.text, clauses)),
                }
            }
            _ => Fault::at_start(missing),
        };
        return Err(what);
    }
    Ok(services)
}

/// A protocol by its name or number.
pub(super) fn protocol(word: Token<'_>) -> Result<u8, Fault> {
    if let Some(protocol) = names::number_of(names::PROTOCOLS, word.text) {
        return Ok(protocol);
    }
    word.text.parse().map_err(|_| {
        let known = names::PROTOCOLS.iter().map(|&(name, _)| name);
        word.fault(names::unknown("protocol", word.text, known))
    })
}

/// `echo-request`, `8`, `3/4`.
pub(super) fn icmp_type(protocol: u8, word: Token<'_>) -> Result<Service, Fault> {
    let table = if protocol == ICMP { names::ICMP_TYPES } else { names::ICMPV6_TYPES };
    let named = table.iter().find(|(name, ..)| *name == word.text);
    let numbers = || {
        let (kind, code) = match word.text.split_once('/') {
            Some((kind, code)) => (kind, Some(code.parse::<u8>().ok()?)),
            None => (word.text, None),
        };
        Some((kind.parse::<u8>().ok()?, code))
    };
    let found = named.map(|&(_, kind, code)| (kind, code)).or_else(numbers);
    let Some((kind, code)) = found else {
        let known = table.iter().map(|&(name, ..)| name);
        return Err(word.fault(names::unknown("ICMP type or clause", word.text, known)));
    };
    let first = u16::from_be_bytes([kind, code.unwrap_or(0)]);
    let last = u16::from_be_bytes([kind, code.unwrap_or(u8::MAX)]);
    Ok(Service { protocol, first, last })
}

/// `S/SA`: the letters that must be set, of those that are looked at; `any` looks at none.
pub(super) fn flags(cursor: &mut Cursor<'_, '_>) -> Result<Option<Flags>, Fault> {
    let word = cursor.expect("`flags` needs SET/MASK, such as `S/SA`")?;
    if word.text == "any" {
        return Ok(None);
    }
    let Some((set, mask)) = word.text.split_once('/') else {
        return Err(word.fault("write the flags that are looked at too: `S/SA`"));
    };
    let flags = Flags { set: letters(word, set)?, mask: letters(word, mask)? };
    if flags.set & !flags.mask != 0 {
        let what = format!("no segment matches: write `{set}/{mask}{set}`");
        return Err(word.fault(what));
    }
    Ok(Some(flags))
}

fn letters(word: Token<'_>, letters: &str) -> Result<u8, Fault> {
    let mut bits = 0;
    for letter in letters.chars() {
        let known = names::FLAGS.iter().find(|&&(known, ..)| known == letter);
        let &(_, _, bit) = known.ok_or_else(|| {
            word.fault(format!("unknown flag `{letter}`: flags are F S R P A U E W"))
        })?;
        bits |= bit;
    }
    Ok(bits)
}

/// A number from 1 on, which `what` needs.
pub(super) fn count(cursor: &mut Cursor<'_, '_>, what: &str) -> Result<u32, Fault> {
    let word = cursor.expect(what)?;
    count_of(word, word.text, what)
}

/// The number in a part of a word.
pub(super) fn count_of(word: Token<'_>, text: &str, what: &str) -> Result<u32, Fault> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse::<u32>().ok().filter(|&number| is_number && number > 0);
    number.ok_or_else(|| word.fault(what))
}
