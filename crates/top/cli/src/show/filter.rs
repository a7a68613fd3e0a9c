//! Which connections and sockets to show: the filters of ss(8), as far as they concern TCP and UDP.
//!
//! Called by: clap, through `args.rs`, and `run.rs` for each row.
//!
//! ```text
//! FILTER    = EXPRESSION, with `and` (also `&`, or nothing), `or` (`|`), `not` (`!`), `( )`
//! predicate = state NAME | exclude NAME
//!           | src HOST | dst HOST       HOST: ADDR, ADDR/LEN, ADDR:PORT, [V6]:PORT, :PORT, *:PORT
//!           | sport OP :PORT | dport OP :PORT     OP: = != < > <= >=, also eq ne lt gt le ge
//! ```

use core::net::IpAddr;

use wirespeed::Cidr;
use wirespeed::control::protocol::{Connection, Socket};

/// A filter for connections and sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Not(Box<Filter>),
    /// Names of states as they appear in rows.
    State(&'static [&'static str]),
    Host(Side, Option<Cidr>, Option<u16>),
    Port(Side, Compare, u16),
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Local,
    Remote,
}

/// How a port is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    Unequal,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
}

/// An address, or `None` for any, and a port.
type End = (Option<IpAddr>, u16);

/// The fields of a row that filters look at.
struct Row<'a> {
    state: &'a str,
    local: Option<End>,
    remote: Option<End>,
}

/// The states by ss's names, with their names in rows.
const STATES: [(&str, &[&str]); 19] = [
    ("established", &["ESTABLISHED"]),
    ("syn-sent", &["SYN-SENT"]),
    ("syn-recv", &["SYN-RECEIVED"]),
    ("syn-received", &["SYN-RECEIVED"]),
    ("fin-wait-1", &["FIN-WAIT-1"]),
    ("fin-wait-2", &["FIN-WAIT-2"]),
    ("time-wait", &["TIME-WAIT"]),
    ("closed", &["CLOSED"]),
    ("close-wait", &["CLOSE-WAIT"]),
    ("last-ack", &["LAST-ACK"]),
    ("listening", &["LISTEN"]),
    ("listen", &["LISTEN"]),
    ("closing", &["CLOSING"]),
    ("unconnected", &["UNCONN"]),
    ("all", ALL),
    ("connected", CONNECTED),
    ("synchronized", SYNCHRONIZED),
    ("bucket", &["SYN-RECEIVED", "TIME-WAIT"]),
    ("big", BIG),
];

const ALL: &[&str] = &[
    "ESTABLISHED",
    "SYN-SENT",
    "SYN-RECEIVED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "CLOSED",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
    "UNCONN",
];
/// All but listening and closed.
const CONNECTED: &[&str] = &[
    "ESTABLISHED",
    "SYN-SENT",
    "SYN-RECEIVED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "CLOSE-WAIT",
    "LAST-ACK",
    "CLOSING",
];
/// Connected without SYN-SENT.
const SYNCHRONIZED: &[&str] = &[
    "ESTABLISHED",
    "SYN-RECEIVED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "CLOSE-WAIT",
    "LAST-ACK",
    "CLOSING",
];
/// All states that are not in `bucket`.
const BIG: &[&str] = &[
    "ESTABLISHED",
    "SYN-SENT",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "CLOSED",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
    "UNCONN",
];

impl Filter {
    /// Parse the words of a filter; `None` for no words. A single word ADDRESS:PORT matches either
    /// end.
    ///
    /// # Errors
    /// The words that are not understood, and the expected ones.
    pub(crate) fn parse(words: &[String]) -> Result<Option<Filter>, String> {
        let tokens = tokens(&words.join(" "));
        let mut rest = tokens.as_slice();
        if let [only] = rest
            && let Some((Some(net), Some(port))) = host(only)
        {
            let at = |side| Box::new(Filter::Host(side, Some(net), Some(port)));
            return Ok(Some(Filter::Or(at(Side::Local), at(Side::Remote))));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let filter = either(&mut rest)?;
        match rest.first() {
            None => Ok(Some(filter)),
            Some(word) => Err(format!("'{word}' closes nothing: begin with '('")),
        }
    }

    /// Does the filter match a connection?
    pub(crate) fn connection(&self, row: &Connection) -> bool {
        self.holds(&Row { state: &row.state, local: end(&row.local), remote: end(&row.remote) })
    }

    /// Does it match a socket? TCP sockets listen, UDP sockets are connected or not.
    pub(crate) fn socket(&self, row: &Socket) -> bool {
        let state = match (&*row.protocol, &row.remote) {
            ("tcp", _) => "LISTEN",
            (_, None) => "UNCONN",
            (_, Some(_)) => "ESTABLISHED",
        };
        let remote = row.remote.as_deref().and_then(end);
        self.holds(&Row { state, local: end(&row.local), remote })
    }

    fn holds(&self, row: &Row<'_>) -> bool {
        match self {
            Filter::And(one, other) => one.holds(row) && other.holds(row),
            Filter::Or(one, other) => one.holds(row) || other.holds(row),
            Filter::Not(filter) => !filter.holds(row),
            Filter::State(names) => names.contains(&row.state),
            Filter::Host(side, net, port) => side.of(row).is_some_and(|(addr, at)| {
                let inside = |net: &Cidr| addr.is_some_and(|addr| net.contains(addr));
                net.as_ref().is_none_or(inside) && port.is_none_or(|port| port == at)
            }),
            Filter::Port(side, compare, port) => {
                side.of(row).is_some_and(|(_, at)| compare.holds(at, *port))
            }
        }
    }
}

impl Side {
    fn of(self, row: &Row<'_>) -> Option<End> {
        match self {
            Side::Local => row.local,
            Side::Remote => row.remote,
        }
    }
}

impl Compare {
    fn of(word: &str) -> Option<Compare> {
        Some(match word {
            "=" | "==" | "eq" => Compare::Equal,
            "!=" | "ne" | "neq" => Compare::Unequal,
            "<" | "lt" => Compare::Less,
            ">" | "gt" => Compare::Greater,
            "<=" | "le" | "leq" => Compare::LessOrEqual,
            ">=" | "ge" | "geq" => Compare::GreaterOrEqual,
            _ => return None,
        })
    }

    fn holds(self, one: u16, other: u16) -> bool {
        match self {
            Compare::Equal => one == other,
            Compare::Unequal => one != other,
            Compare::Less => one < other,
            Compare::Greater => one > other,
            Compare::LessOrEqual => one <= other,
            Compare::GreaterOrEqual => one >= other,
        }
    }
}

/// Split into words. Parentheses and signs are words even without spaces around them.
fn tokens(text: &str) -> Vec<String> {
    const SIGNS: [char; 8] = ['(', ')', '!', '&', '|', '=', '<', '>'];
    let (mut all, mut word) = (Vec::new(), String::new());
    let mut left = text.chars().peekable();
    while let Some(c) = left.next() {
        if c.is_whitespace() || SIGNS.contains(&c) {
            all.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        if SIGNS.contains(&c) {
            let doubled = match c {
                '&' | '|' => left.next_if_eq(&c),
                '=' | '!' | '<' | '>' => left.next_if_eq(&'='),
                _ => None,
            };
            all.push([Some(c), doubled].into_iter().flatten().collect());
        } else if !c.is_whitespace() {
            word.push(c);
        }
    }
    all.extend((!word.is_empty()).then_some(word));
    all
}

/// Skip the first word if it is one of `words`.
fn take(rest: &mut &[String], words: &[&str]) -> bool {
    match rest.split_first() {
        Some((first, others)) if words.contains(&first.as_str()) => {
            *rest = others;
            true
        }
        _ => false,
    }
}

fn either(rest: &mut &[String]) -> Result<Filter, String> {
    let mut filter = both(rest)?;
    while take(rest, &["or", "|", "||"]) {
        filter = Filter::Or(Box::new(filter), Box::new(both(rest)?));
    }
    Ok(filter)
}

fn both(rest: &mut &[String]) -> Result<Filter, String> {
    let mut filter = one(rest)?;
    loop {
        let is_joined = take(rest, &["and", "&", "&&"]);
        let ends = matches!(rest.first().map(String::as_str), None | Some(")" | "or" | "|" | "||"));
        if ends && !is_joined {
            return Ok(filter);
        }
        filter = Filter::And(Box::new(filter), Box::new(one(rest)?));
    }
}

fn one(rest: &mut &[String]) -> Result<Filter, String> {
    if take(rest, &["not", "!"]) {
        return Ok(Filter::Not(Box::new(one(rest)?)));
    }
    if take(rest, &["("]) {
        let filter = either(rest)?;
        return match take(rest, &[")"]) {
            true => Ok(filter),
            false => Err("a '(' is not closed".to_owned()),
        };
    }
    let Some((word, others)) = rest.split_first() else {
        return Err("the filter ends where a predicate is expected, as 'dport = :80'".to_owned());
    };
    *rest = others;
    match word.as_str() {
        "state" => state(rest).map(Filter::State),
        "exclude" => Ok(Filter::Not(Box::new(Filter::State(state(rest)?)))),
        "src" => a_host(Side::Local, rest),
        "dst" => a_host(Side::Remote, rest),
        "sport" => a_port(Side::Local, rest),
        "dport" => a_port(Side::Remote, rest),
        other => Err(format!(
            "'{other}' is no predicate; there are: state, exclude, src, dst, sport, dport"
        )),
    }
}

fn state(rest: &mut &[String]) -> Result<&'static [&'static str], String> {
    let expected = || {
        let names: Vec<_> = STATES.iter().map(|(name, _)| *name).collect();
        format!("a state is expected, one of: {}", names.join(", "))
    };
    let (word, others) = rest.split_first().ok_or_else(expected)?;
    *rest = others;
    let found = STATES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|(_, names)| *names).ok_or_else(expected)
}

fn a_host(side: Side, rest: &mut &[String]) -> Result<Filter, String> {
    let is_not = take(rest, &["!=", "ne", "neq"]);
    if !is_not {
        take(rest, &["=", "==", "eq"]);
    }
    let word = rest.first().map_or("", String::as_str);
    let Some((net, port)) = host(word) else {
        return Err(format!("'{word}' is no address: write 192.0.2.1, 10.0.0.0/8 or [::1]:80"));
    };
    *rest = &rest[1..];
    let filter = Filter::Host(side, net, port);
    Ok(if is_not { Filter::Not(Box::new(filter)) } else { filter })
}

fn a_port(side: Side, rest: &mut &[String]) -> Result<Filter, String> {
    let expected = || "a port is compared as in 'dport = :80' or 'sport >= :1024'".to_owned();
    let compare = rest.first().and_then(|word| Compare::of(word));
    *rest = if compare.is_some() { &rest[1..] } else { rest };
    let word = rest.first().ok_or_else(expected)?;
    *rest = &rest[1..];
    let port = word.strip_prefix(':').unwrap_or(word).parse().map_err(|_| expected())?;
    Ok(Filter::Port(side, compare.unwrap_or(Compare::Equal), port))
}

/// An address or network, `None` for any, and a port, if one is given.
fn host(word: &str) -> Option<(Option<Cidr>, Option<u16>)> {
    if let Some(net) = network(word) {
        return Some((Some(net), None));
    }
    let (address, port) = word.rsplit_once(':')?;
    let port = match port {
        "*" => None,
        port => Some(port.parse().ok()?),
    };
    match address {
        "" | "*" => Some((None, port)),
        address => {
            let inner = address.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
            Some((Some(network(inner.unwrap_or(address))?), port))
        }
    }
}

fn network(word: &str) -> Option<Cidr> {
    match word.parse::<IpAddr>() {
        Ok(addr) => Some(Cidr::host(addr)),
        Err(_) => word.parse().ok(),
    }
}

/// One end as rows have it: `192.0.2.1:80`, `[::1]:80`, `*:80`.
fn end(text: &str) -> Option<End> {
    let (address, port) = text.rsplit_once(':')?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let address = if address == "*" { None } else { Some(address.parse().ok()?) };
    Some((address, port.parse().ok()?))
}

#[cfg(test)]
mod tests;
