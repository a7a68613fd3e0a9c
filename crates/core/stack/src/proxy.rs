//! Answers to ARP requests and neighbour solicitations for addresses of other hosts, at a port that
//! answers for every address ([`crate::PortConfig::answer_all`]).
//!
//! Called by: `arp.rs` and `nd.rs`, which check the message and send the answer. RFC 1027, RFC 4861
//! section 7.2.8. What is never answered: a probe or a duplicate address detection, whose sender is
//! unspecified, and an announcement, whose sender is its target; so a guest gets no answer for an
//! address that it has or wants. Nor is anything answered for a neighbour whose link address is
//! known, because it answers for itself.

use core::net::IpAddr;

use base::DropReason;
use inet::ip_input::is_martian_source;
use inet::nd::Heard;
use inet::neighbour::{Advertisement, State};
use wire::arp;

use crate::stack::Stack;

/// Is `asker`, who asks for `target` at a port, answered although `target` is not ours?
#[cold]
pub(crate) fn answers_for(stack: &Stack, port_id: u16, asker: IpAddr, target: IpAddr) -> bool {
    let Some(port) = stack.ports.get(port_id).filter(|port| port.answer_all) else { return false };
    let asks_for_its_own = asker.is_unspecified() || asker == target;
    let can_be_a_host = !is_martian_source(target)
        && !port.local.is_group(target)
        && !port.local.is_any_broadcast(target);
    // An address of ours that is being checked for duplicates is not answered for, either.
    let is_ours = port.addresses.iter().any(|address| address.ip() == target);
    let state = stack.neighbours.state((port_id, target));
    let is_known = state.is_some_and(|state| state != State::Incomplete);
    !asks_for_its_own && can_be_a_host && !is_ours && !is_known
}

/// What an ARP packet that is not for us asks for, if it is answered for another host.
///
/// # Errors
/// [`DropReason::ArpNotForUs`].
#[cold]
pub(crate) fn arp_request(stack: &Stack, port_id: u16, packet: &[u8]) -> Result<Heard, DropReason> {
    let header = arp::Header::parse(packet)?;
    let (asker, target) = (IpAddr::V4(header.sender_ip), IpAddr::V4(header.target_ip));
    let own = stack.ports.get(port_id).is_some_and(|port| port.mac == header.sender_mac);
    let is_request = header.operation == arp::Operation::Request && !own;
    if !is_request || !answers_for(stack, port_id, asker, target) {
        return Err(DropReason::ArpNotForUs);
    }
    Ok(Heard {
        news: Some((asker, header.sender_mac, Advertisement::Request)),
        asked: Some(target),
        answer_to: Some(asker),
        conflict: false,
    })
}
