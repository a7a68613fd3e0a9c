//! ARP: the packets that come, and sending one.
//!
//! Called by: `rx.rs` and `broadcast.rs` for what arrives; `resolve.rs` and `acd.rs` send. RFC 826,
//! RFC 3927 section 2.5, RFC 5227. Counters: `arp_in`, `neighbour_advertisements`.

use core::net::IpAddr;

use base::{Counter, DropReason, MacAddr};
use inet::nd;
use inet::neighbour::Learnt;
use mbuf::Mbuf;
use tcp::Fate;
use wire::{arp, ether};

use crate::{Stack, acd, resolve, tx};

/// An ARP packet behind its Ethernet header.
/// RFC 826 2-c, 2-d, 2-e.
#[cold]
pub(crate) fn input(stack: &mut Stack, m: &Mbuf) -> Fate {
    let packet = m.as_slice().get(ether::HEADER_LEN..).unwrap_or_default();
    if stack.is_follower() {
        return follow(stack, m.in_port(), packet);
    }
    acd::heard(stack, m.in_port(), packet)?;
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::TxNoPort)?;
    let heard = nd::arp_input(packet, port.mac, |ip| port.local.is_ours(ip))?;
    if heard.conflict {
        acd::in_use(stack, m.in_port(), arp::Header::parse(packet)?.sender_ip);
        return Err(DropReason::NeighbourConflict);
    }
    let learnt = resolve::learn(stack, m.in_port(), &heard);
    if let Some(IpAddr::V4(ours)) = heard.asked {
        let header = arp::Header::parse(packet)?;
        let asker = (header.sender_mac, header.sender_ip);
        resolve::may_answer(stack)?;
        let mac = stack.ports.get(m.in_port()).map(|p| p.mac).unwrap_or_default();
        let bytes = nd::arp_output(arp::Operation::Reply, (mac, ours), asker);
        send(stack, m.in_port(), asker.0, &bytes)?;
        stack.core.cx.counters.add(Counter::NeighbourAdvertisements, 1);
    } else if learnt != Learnt::Used {
        return Err(resolve::not_learnt(learnt, DropReason::ArpUnsolicited));
    }
    stack.core.cx.counters.add(Counter::ArpIn, 1);
    Ok(())
}

/// The copy of an ARP packet that another shard answers, and counts if it is of no use.
fn follow(stack: &mut Stack, port_id: u16, packet: &[u8]) -> Fate {
    let port = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
    if let Ok(heard) = nd::arp_input(packet, port.mac, |ip| port.local.is_ours(ip)) {
        resolve::learn(stack, port_id, &heard);
    }
    Ok(())
}

/// Send an ARP packet; from a link-local address by broadcast, so that conflicts are noticed.
/// RFC 3927 2.5-a.
pub(crate) fn send(stack: &mut Stack, port_id: u16, dst: MacAddr, packet: &[u8]) -> Fate {
    let src = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?.mac;
    let is_link_local = arp::Header::parse(packet).is_ok_and(|h| h.sender_ip.is_link_local());
    let dst = if is_link_local { MacAddr::BROADCAST } else { dst };
    let mut m = stack.core.cx.pool.copy_of(packet).ok_or(DropReason::MbufExhausted)?;
    let header = m.prepend(ether::HEADER_LEN).ok_or(DropReason::IpTooBig)?;
    ether::Header { dst, src, ethertype: ether::ARP }.emit(header);
    tx::put(stack, port_id, m);
    Ok(())
}
