//! Clauses that rules of the filter and of NAT share: ports, hosts, protocols, flags; and what may
//! not stand together.
//!
//! Called by: `filter` and `nat`. A clause is a word and what follows it; clauses come in any
//! order, each at most once. `to self` is the router as a port, because packets for its own
//! addresses leave by no other one; packets that the router sends are not filtered, so there is no
//! `from self`.

use base::IpVersion;
use wire::protocol::{ICMP, ICMPV6, TCP};

use super::lexer::{Cursor, Token};
use super::mistake::Fault;
use super::values::{Context, Host, flags, hosts, is_protocol, list, port_ranges, services};
use crate::packet::ROUTER;
use crate::rules::{Hosts, Match, Ports, Service, has_ports};

/// The clauses of one rule, while it is read.
#[derive(Debug, Default)]
pub(super) struct Clauses<'a> {
    matches: Match,
    /// Clauses that were read, by their first word.
    seen: Vec<(&'static str, Token<'a>)>,
    from_self: Option<Ports>,
    to_self: Option<Ports>,
    to_ports: Vec<(u16, u16)>,
}

impl<'a> Clauses<'a> {
    /// Read the clause at the cursor, if it is one that says what matches.
    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor<'a, '_>,
        context: &mut Context<'_>,
    ) -> Result<bool, Fault> {
        let Some(word) = cursor.peek() else { return Ok(false) };
        match word.text {
            "in" => {
                self.begin("in", cursor, word)?;
                self.matches.in_ports = router_ports("in", cursor, context)?;
            }
            "out" => {
                self.begin("out", cursor, word)?;
                self.matches.out_ports = router_ports("out", cursor, context)?;
            }
            "from" => {
                self.begin("from", cursor, word)?;
                (self.matches.from, self.from_self) = clause_hosts("from", cursor, context)?;
                if cursor.peek().is_some_and(|next| next.text == "port") {
                    self.begin("from ... port", cursor, word)?;
                    self.matches.from_ports = port_ranges(cursor, context)?;
                }
            }
            "to" => {
                self.begin("to", cursor, word)?;
                (self.matches.to, self.to_self) = clause_hosts("to", cursor, context)?;
                if cursor.peek().is_some_and(|next| next.text == "port") {
                    self.begin("to ... port", cursor, word)?;
                    self.to_ports = port_ranges(cursor, context)?;
                }
            }
            "flags" => {
                self.begin("flags", cursor, word)?;
                self.matches.flags = flags(cursor)?;
            }
            text if text == "{" || text == "proto" || is_protocol(text) => {
                if self.token("protocol").is_some() {
                    cursor.next();
                    let what = "a second protocol: write `{tcp, udp}`, or two rules";
                    return Err(word.fault(what));
                }
                self.seen.push(("protocol", word));
                self.matches.services = services(cursor, context)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Take the first word of a clause, which must not have been there.
    pub(super) fn begin(
        &mut self,
        name: &'static str,
        cursor: &mut Cursor<'a, '_>,
        word: Token<'a>,
    ) -> Result<(), Fault> {
        cursor.next();
        if self.token(name).is_some() {
            return Err(word.fault(format!("a second `{name}` in one rule")));
        }
        self.seen.push((name, word));
        Ok(())
    }

    /// The first word of a clause that was read.
    pub(super) fn token(&self, name: &str) -> Option<Token<'a>> {
        self.seen.iter().find(|(seen, _)| *seen == name).map(|&(_, token)| token)
    }

    /// What the clauses say together, or the first contradiction.
    pub(super) fn finish(mut self) -> Result<Match, Fault> {
        self.check_self()?;
        self.join_ports()?;
        if let Some(word) = self.token("flags")
            && (self.matches.services.is_empty()
                || self.matches.services.iter().any(|service| service.protocol != TCP))
        {
            return Err(word.fault("only TCP has flags: write `tcp` too"));
        }
        self.matches.version = self.version()?;
        if let Some(ports) = self.to_self {
            self.matches.out_ports = ports;
        }
        Ok(self.matches)
    }

    fn check_self(&self) -> Result<(), Fault> {
        if let (Some(_), Some(out)) = (&self.to_self, self.token("out")) {
            let what = "packets for the router itself leave by no port: write `to self`, or `out`, \
                        not both";
            return Err(out.fault(what));
        }
        if let (Some(_), Some(from)) = (&self.from_self, self.token("from")) {
            let what = "packets of the router itself pass without a rule, and untranslated: leave \
                        `from self` out";
            return Err(from.fault(what));
        }
        Ok(())
    }

    /// `to ... port P` is another way to say the ports of the protocols.
    fn join_ports(&mut self) -> Result<(), Fault> {
        let services = &mut self.matches.services;
        let have_ports =
            !services.is_empty() && services.iter().all(|service| has_ports(service.protocol));
        for (name, word) in &self.seen {
            if name.ends_with(" port") && !have_ports {
                let what = "ports need a protocol: write `tcp`, `udp` or `{tcp, udp}` too";
                return Err(word.fault(what));
            }
        }
        let Some(&(_, word)) = self.seen.iter().find(|(name, _)| *name == "to ... port") else {
            return Ok(());
        };
        if services.iter().any(|service| *service != Service::all(service.protocol)) {
            return Err(word.fault("destination ports twice: behind `port` and the protocol"));
        }
        let with_ports = services.iter().flat_map(|service| {
            let of = |&(first, last): &(u16, u16)| Service { first, last, ..*service };
            self.to_ports.iter().map(of)
        });
        self.matches.services = with_ports.collect();
        Ok(())
    }

    /// The only version that the rule can be about.
    fn version(&self) -> Result<Option<IpVersion>, Fault> {
        let services = &self.matches.services;
        let all_of = |protocol: u8| {
            !services.is_empty() && services.iter().all(|service| service.protocol == protocol)
        };
        let by_protocol = match (all_of(ICMP), all_of(ICMPV6)) {
            (true, _) => Some(IpVersion::V4),
            (_, true) => Some(IpVersion::V6),
            _ => None,
        };
        let by_clause = [
            ("protocol", by_protocol),
            ("from", hosts_version(&self.matches.from)),
            ("to", hosts_version(&self.matches.to)),
        ];
        let mut found = None;
        for (name, version) in by_clause {
            match (found, version) {
                (Some(one), Some(other)) if one != other => {
                    let at =
                        self.token(name).map_or_else(|| Fault::at_start(""), |word| word.fault(""));
                    let what = "no packet matches: its addresses and its protocol are of one \
                                version of IP, those of the rule are not";
                    return Err(Fault { what: what.to_owned(), ..at });
                }
                _ => found = found.or(version),
            }
        }
        Ok(found)
    }
}

/// The version of hosts that are written as addresses, if it is one.
fn hosts_version(hosts: &Hosts) -> Option<IpVersion> {
    let first = hosts.networks.first().map(|network| IpVersion::of(&network.addr))?;
    let is_only = hosts.sets.is_empty()
        && hosts.networks.iter().all(|network| IpVersion::of(&network.addr) == first);
    is_only.then_some(first)
}

fn router_ports(
    name: &str,
    cursor: &mut Cursor<'_, '_>,
    context: &mut Context<'_>,
) -> Result<Ports, Fault> {
    let missing = format!("`{name}` needs the name of a port, or `{{a, b}}`");
    let mut ports = list(cursor, context, &missing, &mut |context, word| context.port(word))?;
    ports.sort_unstable();
    ports.dedup();
    Ok(Ports::Of(ports))
}

/// Hosts of a clause; `self` alone is a port.
fn clause_hosts(
    name: &str,
    cursor: &mut Cursor<'_, '_>,
    context: &mut Context<'_>,
) -> Result<(Hosts, Option<Ports>), Fault> {
    let (negated, found) = hosts(name, cursor, context)?;
    let count = found.len();
    let mut hosts = Hosts { negated, networks: Vec::new(), sets: Vec::new() };
    for (word, host) in found {
        match host {
            Host::Any | Host::Itself if count > 1 => {
                let what = format!("`{}` stands alone, not in a list", word.text);
                return Err(word.fault(what));
            }
            Host::Any if negated => {
                return Err(word.fault("`!any` is nobody: no packet matches"));
            }
            Host::Any => return Ok((Hosts::default(), None)),
            Host::Itself => {
                let router = vec![ROUTER];
                let ports = if negated { Ports::Not(router) } else { Ports::Of(router) };
                return Ok((Hosts::default(), Some(ports)));
            }
            Host::Network(network) => hosts.networks.push(network),
            Host::Set(set) => hosts.sets.push(set),
        }
    }
    Ok((hosts, None))
}
