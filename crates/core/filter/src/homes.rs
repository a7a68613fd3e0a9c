//! Homes: which shard of a router has a packet while rules of NAT are set, so that both directions
//! of a flow meet, and all flows of an inside host.
//!
//! Called by: the stack, which builds it of the rules and of the router's addresses and asks it for
//! each frame; the firewall, which asks whether answers would come to its shard. A packet to an
//! outside address goes by its port, which says whose mapping it is ([`Shards::of_outside`]); other
//! packets go by the inside address of their flow. That address is guessed by the packet alone,
//! without its route: the firewall knows better once a packet begins a flow, and then names
//! another home. docs/decisions/0135, RFC 4787 REQ-1, REQ-2.

mod fits;
pub(crate) mod of_rules;

use core::net::IpAddr;
use std::sync::Arc;

use base::Cidr;
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

use crate::Set;
use crate::exchange::redirected;
use crate::nat::Shards;
use crate::packet::{Packet, ROUTER, Tuple};
use crate::published::Published;
pub use fits::misfits;
use of_rules::OfRules;

/// An address of a port of the router, with its network.
pub type Own = (u16, Cidr);

/// The homes of packets, by the rules and addresses of a router.
#[derive(Debug)]
pub struct Homes {
    published: Arc<Published>,
    own: Vec<Own>,
    shards: Shards,
    key: [u64; 2],
    /// Addresses of the router, of pools, and of the outside of networks that are exchanged.
    outside: Set,
    /// Addresses at which mappings can be: those of the router and of pools.
    mapped: Set,
    /// Networks of ports that are inside, beside those that rules name.
    near: Set,
}

impl Homes {
    /// The homes for these rules and addresses of the router; `None` if no rule translates. All
    /// shards need the same `key`, which no other host knows.
    #[must_use]
    pub fn new(
        published: &Arc<Published>,
        own: Vec<Own>,
        count: usize,
        key: [u64; 2],
    ) -> Option<Homes> {
        let shards = Shards::of_count(0, count)?;
        let rules = published.homes.as_ref()?;
        let host = |addr: IpAddr| Cidr { addr, prefix_len: if addr.is_ipv4() { 32 } else { 128 } };
        let addresses: Vec<Cidr> = own.iter().map(|(_, cidr)| host(cidr.addr)).collect();
        let near = own.iter().filter(|(port, _)| rules.is_inside_port(*port));
        let near: Vec<Cidr> = near.map(|(_, cidr)| *cidr).collect();
        let (outside, mapped) = (rules.outside.with(&addresses), rules.pools.with(&addresses));
        let near = Set::new("", &near);
        let published = Arc::clone(published);
        Some(Homes { published, own, shards, key, outside, mapped, near })
    }

    /// Was it made of these rules and addresses?
    #[must_use]
    pub fn is_of(&self, published: &Arc<Published>, own: &[Own]) -> bool {
        Arc::ptr_eq(&self.published, published) && self.own == own
    }

    /// The shard of a packet that came by `in_port`. `icmp` is the type and code of a query of
    /// ICMP; an ICMP error is of the flow of the packet that it quotes, in the other direction.
    /// `None`: no rule translates addresses of this version.
    #[must_use]
    pub fn of(&self, tuple: &Tuple, in_port: u16, icmp: Option<(u8, u8)>) -> Option<usize> {
        let rules = self.published.homes.as_ref()?;
        let Tuple { src, dst, protocol, dst_port, .. } = *tuple;
        if !rules.concerns(src) {
            return None;
        }
        if !matches!(protocol, TCP | UDP | ICMP | ICMPV6) {
            return Some(0);
        }
        let is_outside = self.outside.contains(dst);
        if is_outside || rules.has_dest_everywhere || rules.dests.contains(dst) {
            if self.may_be_redirected(rules, tuple)
                && let Some(addr) = self.redirected(tuple, in_port, icmp)
            {
                return Some(self.of_addr(addr));
            }
            if is_outside {
                return Some(match rules.inbound(dst) {
                    Some(addr) => self.of_addr(addr),
                    None => self.shards.of_outside(protocol, dst_port),
                });
            }
        }
        let is_inside = |addr| rules.inside.contains(addr) || self.near.contains(addr);
        Some(match (is_inside(src), is_inside(dst)) {
            (true, false) => self.of_addr(src),
            (false, true) => self.of_addr(dst),
            // Servers behind `dest` have their answers where the first packet went.
            (true, true) => match (rules.targets.contains(src), rules.targets.contains(dst)) {
                (true, false) => self.of_addr(src),
                (false, true) => self.of_addr(dst),
                _ => self.of_pair(src, dst),
            },
            (false, false) => self.of_pair(src, dst),
        })
    }

    /// The shard that has the mappings of an inside host, and what comes for a server behind
    /// `dest`.
    #[must_use]
    pub fn of_inside(&self, protocol: u8, addr: IpAddr) -> usize {
        match protocol {
            TCP | UDP | ICMP | ICMPV6 => self.of_addr(addr),
            _ => 0,
        }
    }

    /// Is it an address of the router?
    pub(crate) fn is_own(&self, addr: IpAddr) -> bool {
        self.own.iter().any(|(_, own)| own.addr == addr)
    }

    /// Is `dest` worth asking about? Where a mapping may have the port, the shard of the mapping
    /// asks, and hands over what is not of one.
    fn may_be_redirected(&self, rules: &OfRules, tuple: &Tuple) -> bool {
        let is_mapped = self.mapped.contains(tuple.dst);
        match tuple.protocol {
            TCP | UDP if is_mapped => {
                rules.clear.has(tuple.dst_port) && !rules.pools.contains(tuple.dst)
            }
            TCP | UDP => rules.ports.has(tuple.dst_port),
            _ => rules.has_icmp && !is_mapped,
        }
    }

    fn redirected(&self, tuple: &Tuple, in_port: u16, icmp: Option<(u8, u8)>) -> Option<IpAddr> {
        let out_port = if self.is_own(tuple.dst) { ROUTER } else { in_port };
        let packet = Packet { tuple: *tuple, in_port, out_port, icmp, tcp_flags: 0 };
        let rule = self.published.program.judge_dest(&packet)?;
        let nat = &self.published.rules.nat.get(usize::from(rule))?.nat;
        redirected(nat, tuple).map(|(addr, _)| addr)
    }

    fn of_addr(&self, addr: IpAddr) -> usize {
        let [a, b] = self.key;
        self.spread(fold(word(addr, a, b) ^ a, b))
    }

    /// The shard of two addresses, whichever is named first.
    fn of_pair(&self, one: IpAddr, other: IpAddr) -> usize {
        let [a, b] = self.key;
        let (one, other) = (word(one, a, b), word(other, a, b));
        self.spread(fold(one.min(other) ^ a, one.max(other) ^ b))
    }

    #[inline]
    fn spread(&self, hash: u64) -> usize {
        let spread = fold(hash ^ self.key[1], 0x9e37_79b9_7f4a_7c15);
        (((spread >> 32) * self.shards.count() as u64) >> 32) as usize
    }
}

/// An address as one word.
#[inline]
fn word(addr: IpAddr, a: u64, b: u64) -> u64 {
    match addr {
        IpAddr::V4(addr) => u64::from(addr.to_bits()),
        IpAddr::V6(addr) => {
            let bits = addr.to_bits();
            fold(bits as u64 ^ b, (bits >> 64) as u64 ^ a)
        }
    }
}

/// Both halves of a product. It is no cryptographic hash: an attacker who finds out the key can
/// overload one shard, and no more (decision 0081).
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests;
