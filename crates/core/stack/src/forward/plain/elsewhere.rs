//! Packets that another shard has to judge, of a router of several with rules.
//!
//! Called by: `plain.rs`. A packet is handed over once for good at most, and before that a fragment
//! once by the shard that directs the fragments of its datagram, so nothing goes round.
//! docs/decisions/0135. Drop: `shard_ring_full`.

use base::DropReason;
use core::net::SocketAddr;

use filter::firewall::{Arrival, Directed};
use mbuf::Mbuf;

use crate::forward::firewall::{self, Arrived};
use crate::shard::homes::{self, Step};
use crate::stack::Stack;

/// The shard that judges a packet, if it is another one.
pub(super) struct Elsewhere {
    pub(super) to: usize,
    /// It is the home of the datagram's first fragment.
    pub(super) is_directed: bool,
}

/// How a packet came. A stack alone hands nothing over.
pub(super) fn step(stack: &Stack, m: &Mbuf) -> Step {
    if stack.membership.is_some() { homes::step(m) } else { Step::Last }
}

/// [`firewall::arrive`], and the shard that has to be asked instead.
///
/// # Errors
/// The reason to drop the packet.
pub(super) fn arrive(
    stack: &mut Stack,
    port_id: u16,
    m: &Mbuf,
    (at, step): (usize, Step),
) -> Result<(Arrived, Option<Elsewhere>), DropReason> {
    if step == Step::First {
        match direct(stack, port_id, m, at)? {
            Directed::Here => {}
            Directed::To(to) => return Ok((None, Some(Elsewhere { to, is_directed: true }))),
            Directed::Early(datagram) => {
                return Ok((Some(Arrival::Early(datagram)), None));
            }
        }
    }
    let arrived = firewall::arrive(stack, port_id, m, at)?;
    if step == Step::Last {
        return Ok((arrived, None));
    }
    let cx = &mut stack.core.cx;
    let to = match (&arrived, &mut stack.firewall) {
        (Some(Arrival::Elsewhere(to)), _) => Some(*to),
        (Some(Arrival::Begins(new)), Some(firewall)) => {
            let to = firewall.home_of_dest(new);
            if let Some(to) = to {
                firewall.went_elsewhere(new, to, &mut cx.budget, cx.now);
            }
            to
        }
        _ => None,
    };
    Ok((arrived, to.map(|to| Elsewhere { to, is_directed: false })))
}

/// Direct the fragments of a datagram, if this is the shard of their addresses.
fn direct(stack: &mut Stack, port_id: u16, m: &Mbuf, at: usize) -> Result<Directed, DropReason> {
    let packet = m.as_slice().get(at..).unwrap_or_default();
    let is_fragment = match packet.first().map(|first| first >> 4) {
        Some(4) => packet.get(6..8).is_some_and(|place| place[0] & 0x3f | place[1] != 0),
        // A fragment header may be behind others.
        _ => packet.get(6).is_some_and(|next| !matches!(next, 6 | 17 | 58)),
    };
    // Groups are the first shard's, and so are their fragments.
    let stays = !is_fragment || homes::is_to_group(packet);
    if stays || homes::of_host(stack, port_id, m.as_slice()).is_some() {
        return Ok(Directed::Here);
    }
    let steering = stack.steering();
    let Some(firewall) = &mut stack.firewall else { return Ok(Directed::Here) };
    let cx = &mut stack.core.cx;
    let of_flow = |tuple: &filter::Tuple| {
        let end = |addr, port| SocketAddr::new(addr, port);
        steering.of_flow(end(tuple.src, tuple.src_port), end(tuple.dst, tuple.dst_port))
    };
    firewall.direct(packet, port_id, of_flow, &mut cx.budget, cx.now)
}

/// Hand a packet over that belongs to another shard because a rule translates its source when it
/// leaves by `out_port`. It is returned if it stays.
pub(super) fn kept(
    stack: &mut Stack,
    m: Mbuf,
    arrived: &Arrived,
    step: Step,
    out_port: u16,
) -> Option<Mbuf> {
    let Some(to) = of_source(stack, arrived, step, out_port) else { return Some(m) };
    homes::hand(stack, m.in_port(), m, to, false);
    None
}

fn of_source(stack: &mut Stack, arrived: &Arrived, step: Step, out_port: u16) -> Option<usize> {
    let Some(Arrival::Begins(new)) = arrived.as_ref().filter(|_| step != Step::Last) else {
        return None;
    };
    let firewall = stack.firewall.as_mut()?;
    let to = firewall.home_of_source(new, out_port)?;
    let cx = &mut stack.core.cx;
    firewall.went_elsewhere(new, to, &mut cx.budget, cx.now);
    Some(to)
}

/// The shard of a packet for the host itself, whose sockets are where the hash of the flow says.
/// Fragments stay: the datagram is handed over when it is whole.
pub(super) fn of_host(stack: &Stack, m: &Mbuf, step: Step, arrived: &Arrived) -> Option<usize> {
    let Some(Arrival::Begins(new)) = arrived.as_ref().filter(|_| step != Step::Last) else {
        return None;
    };
    let is_as_it_came = !new.is_redirected() && !new.is_closed() && !new.is_fragment();
    let has_homes = stack.firewall.as_ref().is_some_and(|firewall| firewall.homes().is_some());
    let may_go = is_as_it_came && has_homes;
    may_go.then(|| homes::of_host(stack, m.in_port(), m.as_slice()))?
}
