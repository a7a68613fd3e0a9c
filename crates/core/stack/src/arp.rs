//! Handles received ARP packets. `resolve.rs` sends them.
//!
//! Called by: `rx.rs`. RFC 826, RFC 5227. Counters: `arp_in`, `neighbour_advertisements`.

use core::net::IpAddr;

use base::{Counter, DropReason};
use inet::nd;
use inet::neighbour::Learnt;
use mbuf::Mbuf;
use tcp::Fate;
use wire::{arp, ether};

use crate::stack::Stack;
use crate::{addresses, neighbours, proxy, resolve};

/// Process an ARP packet, which follows the Ethernet header in `m`.
/// RFC 826 2-c, 2-d, 2-e.
#[cold]
pub(crate) fn input(stack: &mut Stack, m: &Mbuf) -> Fate {
    let packet = m.as_slice().get(ether::HEADER_LEN..).unwrap_or_default();
    if stack.is_follower() {
        return follow(stack, m.in_port(), packet);
    }
    addresses::heard(stack, m.in_port(), packet)?;
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::TxNoPort)?;
    let heard = match nd::arp_input(packet, port.mac, |ip| port.local.is_ours(ip)) {
        Err(DropReason::ArpNotForUs) => proxy::arp_request(stack, m.in_port(), packet)?,
        heard => heard?,
    };
    if heard.conflict {
        addresses::in_use(stack, m.in_port(), arp::Header::parse(packet)?.sender_ip);
        return Err(DropReason::NeighbourConflict);
    }
    let learnt = resolve::learn(stack, m.in_port(), &heard);
    neighbours::act(stack);
    if let Some(IpAddr::V4(ours)) = heard.asked {
        let header = arp::Header::parse(packet)?;
        let asker = (header.sender_mac, header.sender_ip);
        neighbours::may_answer(stack)?;
        let mac = stack.ports.get(m.in_port()).map(|p| p.mac_of(ours.into()));
        let mac = mac.unwrap_or_default();
        let bytes = nd::arp_output(arp::Operation::Reply, (mac, ours), asker);
        resolve::send_arp(stack, m.in_port(), asker.0, &bytes)?;
        stack.core.cx.counters.add(Counter::NeighbourAdvertisements, 1);
    } else if learnt != Learnt::Used {
        return Err(neighbours::not_learnt(learnt, DropReason::ArpUnsolicited));
    }
    stack.core.cx.counters.add(Counter::ArpIn, 1);
    Ok(())
}

/// Process a copy of an ARP packet. Another shard answers the packet, and counts it if it is
/// useless.
fn follow(stack: &mut Stack, port_id: u16, packet: &[u8]) -> Fate {
    let port = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
    if let Ok(heard) = nd::arp_input(packet, port.mac, |ip| port.local.is_ours(ip)) {
        resolve::learn(stack, port_id, &heard);
        neighbours::act(stack);
    }
    Ok(())
}
