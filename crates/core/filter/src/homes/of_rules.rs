//! What rules of NAT say about the homes of packets, computed when they are compiled.
//!
//! Called by: `homes.rs`. It depends on no address of the router.

use core::net::IpAddr;

use base::{Cidr, IpVersion};
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

use crate::exchange::inbound;
use crate::rules::{Hosts, Match, NAT_PORTS, Nat, Ports, Rules, Target};
use crate::sets::private;
use crate::{ROUTER, Set};

/// Rules of NAT, as the home of a packet depends on them.
#[derive(Debug, Default)]
pub(crate) struct OfRules {
    v4: bool,
    v6: bool,
    /// Addresses of pools, and the outside of networks that are exchanged.
    pub(super) outside: Set,
    /// Addresses of pools.
    pub(super) pools: Set,
    /// Sources that rules name, servers behind `dest`, the inside of networks that are exchanged.
    pub(super) inside: Set,
    /// Servers behind `dest`, and the inside of networks that are exchanged.
    pub(super) targets: Set,
    /// Rules that exchange networks.
    exchanged: Vec<Nat>,
    /// Ports of `dest`, and those of them that no mapping can have.
    pub(super) ports: Bits,
    pub(super) clear: Bits,
    /// A rule `dest` is about ICMP.
    pub(super) has_icmp: bool,
    /// Destinations that rules `dest` name.
    pub(super) dests: Set,
    /// A rule `dest` names no destinations, or all but some.
    pub(super) has_dest_everywhere: bool,
    /// A source rule names no sources: then all are meant that are behind other ports than these.
    outer_ports: Option<Vec<Ports>>,
}

/// A bit for each port number.
#[derive(Debug)]
pub(super) struct Bits(Box<[u64]>);

impl Default for Bits {
    fn default() -> Bits {
        Bits(vec![0; 1 << 10].into())
    }
}

impl Bits {
    #[inline]
    pub(super) fn has(&self, port: u16) -> bool {
        self.0.get(usize::from(port >> 6)).is_some_and(|word| word >> (port & 63) & 1 != 0)
    }

    fn set(&mut self, (first, last): (u16, u16)) {
        for port in first..=last {
            if let Some(word) = self.0.get_mut(usize::from(port >> 6)) {
                *word |= 1 << (port & 63);
            }
        }
    }
}

/// Networks that are collected.
#[derive(Default)]
struct Collected {
    outside: Vec<Cidr>,
    pools: Vec<Cidr>,
    inside: Vec<Cidr>,
    targets: Vec<Cidr>,
    /// Sets whose ranges are inside.
    sets: Vec<usize>,
    /// Destinations of `dest`, and sets of them.
    dests: Vec<Cidr>,
    dest_sets: Vec<usize>,
    /// Ports that mappings can have.
    mapped: Vec<(u16, u16)>,
}

impl OfRules {
    /// `None` if no rule translates.
    pub(crate) fn new(rules: &Rules) -> Option<OfRules> {
        let mut made = OfRules::default();
        // Flows that go back by the port that they came by have a pool of their own.
        let mut found = Collected { mapped: vec![NAT_PORTS], ..Collected::default() };
        for rule in &rules.nat {
            if let (Nat::Source { target, ports, .. }, Some(source)) = (&rule.nat, &rule.source) {
                found.mapped.push(*ports);
                made.add_source(source, target, &mut found);
            }
            if let Nat::Both { inside, outside } | Nat::Prefix { inside, outside } = &rule.nat {
                made.note_version(Some(IpVersion::of(&inside.addr)));
                found.outside.push(*outside);
                found.inside.push(*inside);
                found.targets.push(*inside);
                made.exchanged.push(rule.nat);
            }
        }
        for rule in &rules.nat {
            if let (Nat::Dest { addr, .. }, Some(dest)) = (&rule.nat, &rule.dest) {
                made.add_dest(dest, *addr, &mut found);
            }
        }
        if !made.v4 && !made.v6 {
            return None;
        }
        for port in (0..=u16::MAX).filter(|port| made.ports.has(*port)) {
            if !found.mapped.iter().any(|(first, last)| (first..=last).contains(&&port)) {
                made.clear.set((port, port));
            }
        }
        made.outside = Set::new("", &[found.outside.as_slice(), &found.pools].concat());
        made.pools = Set::new("", &found.pools);
        made.targets = Set::new("", &found.targets);
        let all = |networks: &[Cidr], sets: &[usize]| {
            let sets = sets.iter().filter_map(|&at| rules.sets.get(at));
            sets.fold(Set::new("", networks), |all, set| all.joined(set))
        };
        made.inside = all(&found.inside, &found.sets);
        made.dests = all(&found.dests, &found.dest_sets);
        Some(made)
    }

    fn add_source(&mut self, source: &Match, target: &Target, found: &mut Collected) {
        let of_target = match target {
            Target::Network(network) => {
                found.pools.push(*network);
                Some(IpVersion::of(&network.addr))
            }
            Target::Port => None,
        };
        self.note_version(of_target.or(source.version));
        let Hosts { negated, networks, sets } = &source.from;
        if !negated {
            found.inside.extend(networks);
            found.sets.extend(sets);
            return;
        }
        found.inside.extend(private());
        self.outer_ports.get_or_insert_default().push(source.out_ports.clone());
    }

    fn add_dest(&mut self, dest: &Match, addr: IpAddr, found: &mut Collected) {
        self.note_version(Some(IpVersion::of(&addr)));
        let host = Cidr { addr, prefix_len: if addr.is_ipv4() { 32 } else { 128 } };
        found.inside.push(host);
        found.targets.push(host);
        let is_self = matches!(&dest.out_ports, Ports::Of(ports) if ports == &[ROUTER]);
        let Hosts { negated, networks, sets } = &dest.to;
        if !negated {
            found.dests.extend(networks);
            found.dest_sets.extend(sets);
        }
        self.has_dest_everywhere |= *negated && !is_self;
        if dest.services.is_empty() {
            self.ports.set((0, u16::MAX));
            self.has_icmp = true;
        }
        for service in &dest.services {
            match service.protocol {
                TCP | UDP => self.ports.set((service.first, service.last)),
                ICMP | ICMPV6 => self.has_icmp = true,
                _ => {}
            }
        }
    }

    fn note_version(&mut self, version: Option<IpVersion>) {
        self.v4 |= version != Some(IpVersion::V6);
        self.v6 |= version != Some(IpVersion::V4);
    }

    /// Does a rule translate addresses of this version?
    #[inline]
    pub(super) fn concerns(&self, like: IpAddr) -> bool {
        if like.is_ipv4() { self.v4 } else { self.v6 }
    }

    /// Are the networks of a port inside, because rules that name no source are about them?
    pub(super) fn is_inside_port(&self, port: u16) -> bool {
        let outer = self.outer_ports.as_deref().unwrap_or_default();
        let is_outer = |ports: &Ports| *ports != Ports::Any && ports.contains(port);
        !outer.is_empty() && !outer.iter().any(is_outer)
    }

    /// The inside address behind an address of a network that is exchanged.
    pub(super) fn inbound(&self, addr: IpAddr) -> Option<IpAddr> {
        self.exchanged.iter().find_map(|nat| inbound(nat, addr))
    }
}
