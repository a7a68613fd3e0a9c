//! Keeps a time gap between the frames to one destination, for receivers that lose frames which
//! arrive back to back.
//!
//! Called by: all senders of finished frames except connections; `frag/output.rs` for the fragments
//! of a datagram; UDP and echo sockets before they send; `tx::output` when the time of a frame has
//! come. Limits: `burst_gaps`, `gap_destinations`, `gap_queue`; drop reasons `tx_gap_full`, and
//! `ip_too_big` when the link's MTU was lowered while a frame waited. TCP has its own pacing and
//! does not use this. Decision 0068 defines a gap.

mod queues;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{Cidr, DropReason, Duration, IpVersion, Limit, LinkKind};
use mbuf::Mbuf;
use tcp::Fate;
use wire::{ether, ipv4, ipv6};

pub use queues::GapError;
pub(crate) use queues::Pace;
use queues::{Full, Key};

use crate::next_hop::{next_hop, scoped};
use crate::socket::udp::UdpError;
use crate::stack::Stack;

/// The longest gap. A longer one would keep buffers for minutes.
pub const GAP_MAX: Duration = Duration::from_secs(1);

impl Stack {
    /// Keep a gap between frames to destinations in `to`: frames with datagrams, or fragments of
    /// datagrams, leave at least `gap` apart, measured from the start of one frame to the start of
    /// the next. Other frames do not wait for them. This is for receivers that lose frames which
    /// arrive back to back. If several networks contain a destination, the one with the longest
    /// prefix counts; `Some` of zero exempts a part of a larger network, `None` removes the entry.
    /// Each address in `to` has a gap of its own. Sockets are pushed back when `gap_queue` frames
    /// wait for a destination.
    ///
    /// # Errors
    /// [`GapError`].
    pub fn set_burst_gap(&mut self, to: Cidr, gap: Option<Duration>) -> Result<(), GapError> {
        if gap.is_some_and(|gap| gap > GAP_MAX) {
            return Err(GapError::TooLong);
        }
        let cx = &mut self.core.cx;
        self.pace.set(to, gap, cx.now, &mut cx.budget)?;
        // Sockets remember whether frames of their flow have a gap.
        self.path_mtus.note_change();
        release(self);
        Ok(())
    }

    /// The gap between frames to `dst`, if there is one.
    pub fn burst_gap(&self, dst: IpAddr) -> Option<Duration> {
        self.pace.gap(dst)
    }
}

/// Put a finished frame into its port's burst, after the gap of its destination.
pub(crate) fn put(stack: &mut Stack, port_id: u16, frame: Mbuf) {
    let frame = match stack.pace.is_on() {
        true => take(stack, port_id, frame),
        false => Some(frame),
    };
    if let Some(frame) = frame {
        stack.ports.put(port_id, frame, &mut stack.core);
    }
}

/// May a socket send another datagram to `dst` by this port?
///
/// # Errors
/// [`UdpError::WouldBlock`] if the queue is full; [`DropReason::TxGapFull`] if as many other
/// destinations with a gap have frames as the limit `gap_destinations` admits.
pub(crate) fn check_room(stack: &mut Stack, port_id: u16, dst: IpAddr) -> Result<(), UdpError> {
    let cx = &mut stack.core.cx;
    if !stack.pace.is_on() || stack.pace.gap(dst).is_none() {
        let has_room = stack.ports.get_mut(port_id).is_some_and(|port| port.has_room(cx));
        return if has_room { Ok(()) } else { Err(UdpError::WouldBlock) };
    }
    match stack.pace.admit((port_id, dst), cx.now, &mut cx.budget) {
        Ok(()) => Ok(()),
        Err(Full::Table) => Err(UdpError::Unsendable(DropReason::TxGapFull)),
        Err(Full::Queue) => {
            stack.pace.await_room((port_id, dst));
            Err(UdpError::WouldBlock)
        }
    }
}

/// Queue the frames of one datagram to `dst`, all or none.
///
/// # Errors
/// [`DropReason::TxGapFull`].
pub(crate) fn enqueue(
    stack: &mut Stack,
    (port_id, dst, gap): (u16, IpAddr, Duration),
    frames: impl IntoIterator<Item = Mbuf>,
) -> Fate {
    let (key, cx) = ((port_id, dst), &mut stack.core.cx);
    stack.pace.admit(key, cx.now, &mut cx.budget).map_err(|_| DropReason::TxGapFull)?;
    let epoch = stack.flow_epoch();
    for frame in frames {
        stack.pace.push(key, (gap, epoch), frame);
    }
    release(stack);
    Ok(())
}

/// Queue a finished frame. The frame is returned if its destination has no gap.
#[cold]
fn take(stack: &mut Stack, port_id: u16, frame: Mbuf) -> Option<Mbuf> {
    let link = stack.ports.get(port_id).map(|port| port.limits.link);
    let dst = link.and_then(|link| destination(link, frame.as_slice()));
    let Some((dst, gap)) = dst.and_then(|dst| Some((dst, stack.pace.gap(dst)?))) else {
        return Some(frame);
    };
    if let Err(reason) = enqueue(stack, (port_id, dst, gap), [frame]) {
        stack.core.drops.count(reason);
    }
    None
}

/// The IP destination of a frame of ours.
fn destination(link: LinkKind, frame: &[u8]) -> Option<IpAddr> {
    let packet = frame.get(link.header_len()..)?;
    let is_ip = link == LinkKind::Ip
        || matches!(ether::Header::parse(frame).ok()?.ethertype, ether::IPV4 | ether::IPV6);
    let version = if packet.first()? >> 4 == 6 { IpVersion::V6 } else { IpVersion::V4 };
    match version {
        IpVersion::V4 if is_ip => {
            let bytes = packet.get(16..ipv4::HEADER_LEN)?;
            Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into())
        }
        IpVersion::V6 if is_ip => {
            let bytes = packet.get(24..ipv6::HEADER_LEN)?;
            Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into())
        }
        _ => None,
    }
}

/// Does the frame fit the link? A frame that was made before the link's MTU changed may be too
/// large now.
fn fits(stack: &Stack, (port_id, dst): Key, frame: &Mbuf) -> bool {
    let Some(port) = stack.ports.get(port_id) else { return true };
    let remote = scoped(SocketAddr::new(dst, 0), port_id);
    let hop = next_hop(stack, None, remote, inet::Sender::Vrf(port.vrf)).ok();
    let hop = hop.filter(|hop| hop.port == port_id);
    let link = hop
        .and_then(|hop| stack.neighbour_mtus.of_hop(&stack.ports, &hop))
        .unwrap_or(port.limits.mtu);
    frame.len() <= port.limits.link.header_len() + link.bytes()
}

/// Send the frames whose time has come, each at once: a frame that waited for a full burst would
/// leave too close to the next one. A frame that the device does not take now waits at the port.
#[cold]
pub(crate) fn release(stack: &mut Stack) {
    let cx = &stack.core.cx;
    let (now, most, epoch) = (cx.now, cx.budget.of(Limit::GapQueue), stack.flow_epoch());
    while let Some(key) = stack.pace.due(now) {
        let core = &mut stack.core;
        let Some(port) = stack.ports.get_mut(key.0) else {
            let count = stack.pace.forget_port(key.0, &mut core.cx.pool);
            core.drops.count_many(DropReason::TxNoPort, count);
            continue;
        };
        port.flush(&mut core.cx);
        if !stack.pace.may_leave(key, now, port.taken()) {
            continue;
        }
        let offered = port.offered();
        let is_too_large = stack.pace.outdated(key, epoch).is_some_and(|m| !fits(stack, key, m));
        // A dropped frame takes no position.
        let position = if is_too_large { offered } else { offered + 1 };
        let Some(frame) = stack.pace.pop(key, now, position, most) else { continue };
        let core = &mut stack.core;
        if is_too_large {
            core.drops.count(DropReason::IpTooBig);
            core.cx.pool.free(frame);
        } else if let Some(port) = stack.ports.get_mut(key.0) {
            port.push_or_hold(frame, &mut core.cx);
            port.flush(&mut core.cx);
        }
    }
}
