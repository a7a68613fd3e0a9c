//! Duplicate address detection: before a tentative IPv6 address is used, the other hosts on the
//! link are asked whether they have it.
//!
//! Called by: `nd.rs` for messages about such an address, `autoconf::expire` when a probe or its
//! answer is due. RFC 4862 section 5.4, RFC 7527.
//! Limits: `addresses`, `solicitations_per_second`; counters: `dad_probes`, `dad_duplicates`.

use core::net::{IpAddr, Ipv6Addr};

use base::{Counter, DropReason};
use inet::dad::Due;
use inet::flow::Addrs;
use inet::neighbour::{Key, RETRANSMIT, group_mac};
use inet::{AddressState, Ip, nd};
use mbuf::Mbuf;
use tcp::Fate;
use wire::nd::{Header, Nonce};

use super::slaac;
use crate::handles::PortId;
use crate::resolve;
use crate::stack::Stack;

pub(super) fn expire(stack: &mut Stack) {
    let now = stack.core.cx.now;
    while let Some(due) = stack.autoconf.dad.next(now, RETRANSMIT) {
        match due {
            Due::Probe(key, nonce) => {
                if let Err(reason) = probe(stack, key, nonce) {
                    stack.core.drops.count(reason);
                    stack.autoconf.dad.postpone(key, now + RETRANSMIT);
                }
            }
            Due::Passed(key) => passed(stack, key),
        }
    }
}

/// Send a neighbour solicitation for a tentative address. RFC 4862 5.4.2-a.
fn probe(stack: &mut Stack, (port, ip): Key, nonce: Nonce) -> Fate {
    let IpAddr::V6(target) = ip else { return Ok(()) };
    resolve::may_solicit(stack)?;
    let group = nd::solicited_node(target);
    let mut bytes = [0; wire::nd::LEN_MAX];
    let len = Header::emit_probe(&mut bytes, target, group, nonce).unwrap_or(0);
    let mac = group_mac(group.into()).unwrap_or_default();
    let ends = (Ipv6Addr::UNSPECIFIED.into(), group.into());
    resolve::send_nd(stack, port, mac, ends, &bytes[..len])?;
    stack.core.cx.counters.add(Counter::DadProbes, 1);
    Ok(())
}

/// Nobody answered a solicitation for the address: use it.
fn passed(stack: &mut Stack, (port, ip): Key) {
    let (id, now) = (PortId(port), stack.core.cx.now);
    let Some(mut address) = stack.addresses(id).iter().find(|a| a.ip() == ip).copied() else {
        return;
    };
    address.state = match address.preferred_until <= now {
        true => AddressState::Deprecated,
        false => AddressState::Preferred,
    };
    // The address exists and only changes, so no limit refuses it.
    if stack.add_address(id, address).is_ok() {
        slaac::passed(stack, id, &address);
    }
    stack.note_address_event(id);
}

/// Process a message about `target`, an address of ours that is being checked.
///
/// # Errors
/// [`DropReason::NdTentative`] if the sender asks for our link address (RFC 4862 section 5.4.3),
/// [`DropReason::NdLooped`] if the message is our own, [`DropReason::NeighbourConflict`] if the
/// sender has the address; those of [`nd::nd_input`].
/// RFC 4862 5.4.3-a, 5.4.3-b, 5.4.4-a.
pub(crate) fn input<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf, target: Ipv6Addr) -> Fate {
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src(), ip.dst()) else {
        return Err(DropReason::IcmpMalformed);
    };
    let message = m.as_slice();
    let heard = nd::nd_input(message, (src, dst, ip.ttl), |ip| ip == IpAddr::V6(target))?;
    let key = (m.in_port(), IpAddr::V6(target));
    if !heard.conflict {
        if heard.answer_to.is_some() {
            return Err(DropReason::NdTentative);
        }
        if stack.autoconf.dad.is_own(key, Header::nonce(message)) {
            return Err(DropReason::NdLooped);
        }
    }
    duplicate(stack, key);
    Err(DropReason::NeighbourConflict)
}

/// Another host has the address, or is about to use it: mark it as a duplicate.
/// RFC 4862 5.4.5-a, 5.4.5-b.
fn duplicate(stack: &mut Stack, (port, ip): Key) {
    let id = PortId(port);
    stack.autoconf.dad.forget((port, ip));
    stack.core.cx.counters.add(Counter::DadDuplicates, 1);
    let Some(mut address) = stack.addresses(id).iter().find(|a| a.ip() == ip).copied() else {
        return;
    };
    address.state = AddressState::Duplicated;
    // The address exists and only changes, so no limit refuses it.
    let _ = stack.add_address(id, address);
    slaac::duplicate(stack, id, &address);
    stack.note_address_event(id);
    stack.addresses_changed();
}
