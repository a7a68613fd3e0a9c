//! Gaps between the frames to one destination, for receivers that lose frames which come one right
//! behind the other.
//!
//! Called by: `tx.rs` and `frag/output.rs` for each finished frame of a destination with a gap,
//! `udp.rs` and `ping.rs` before they send, `tx::output` when a frame's time has come. Limits:
//! `burst_gaps`, `gap_destinations`, `gap_queue`; drop reasons `tx_gap_full`, and `ip_too_big` when
//! the link's MTU was lowered while a frame waited. TCP paces itself and does not come here.
//! Decision 0068 says what a gap is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{Budget, Cidr, DropReason, Duration, Instant, IpVersion, Limit, LinkKind};
use mbuf::{Mbuf, Pool};
use tcp::Fate;
use wire::{ether, ipv4, ipv6};

use crate::{Stack, UdpError, addresses, mtu, resolve};

/// The longest gap. What is longer would keep buffers for minutes.
pub const GAP_MAX: Duration = Duration::from_secs(1);

/// Why a gap was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapError {
    /// It is longer than [`GAP_MAX`]: give a shorter one.
    TooLong,
    /// As many networks have a gap as limit `burst_gaps` admits: raise it, or give one gap to a
    /// network that contains several of them.
    LimitReached,
}

impl core::fmt::Display for GapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            GapError::TooLong => "the gap is longer than a second: give a shorter one",
            GapError::LimitReached => {
                "as many networks have a gap as limit burst_gaps admits: raise it, or give one gap \
                 to a network that contains several of them"
            }
        })
    }
}

impl core::error::Error for GapError {}

/// A destination by port and address.
type Key = (u16, IpAddr);

/// What has left for one destination, and what waits.
struct Queue {
    gap: Duration,
    /// No frame may leave before.
    next: Instant,
    /// The number of the last frame among its port's: it may wait there behind others.
    position: u64,
    /// [`Stack::flow_epoch`] when the last frame that waits was known to fit its link.
    epoch: u64,
    /// The last frame had not left when the next one was due.
    is_late: bool,
    frames: VecDeque<Mbuf>,
    /// A sender was pushed back and waits for room.
    is_awaited: bool,
}

/// What has no room for a datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Full {
    Queue,
    Table,
}

/// The gaps, and the frames that wait for one.
#[derive(Default)]
pub(crate) struct Pace {
    /// The longest prefix first.
    gaps: Vec<(Cidr, Duration)>,
    // Strangers choose the keys, by what is answered: a tree has no bad ones.
    queues: BTreeMap<Key, Queue>,
    /// Those with frames, by when their next one may leave.
    due: BTreeSet<(Instant, Key)>,
    /// Lines that are awaited.
    awaited: usize,
    /// An awaited queue has room again since this was asked last.
    found_room: bool,
}

impl Pace {
    /// Has any destination a gap?
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// The gap between frames to `dst`.
    pub(crate) fn gap(&self, dst: IpAddr) -> Option<Duration> {
        gap_of(&self.gaps, dst)
    }

    fn set(
        &mut self,
        to: Cidr,
        gap: Option<Duration>,
        now: Instant,
        budget: &mut Budget,
    ) -> Result<(), GapError> {
        let to = to.network();
        let known = self.gaps.iter().position(|(cidr, _)| *cidr == to);
        match (known, gap) {
            (Some(at), Some(gap)) => self.gaps[at].1 = gap,
            (Some(at), None) => drop(self.gaps.remove(at)),
            (None, None) => {}
            (None, Some(_)) if !budget.admits(Limit::BurstGaps, self.gaps.len()) => {
                return Err(GapError::LimitReached);
            }
            (None, Some(gap)) => {
                let at = self.gaps.partition_point(|(cidr, _)| cidr.prefix_len >= to.prefix_len);
                self.gaps.insert(at, (to, gap));
            }
        }
        // Who waits already waits no longer than the new gap.
        let gaps = &self.gaps;
        for (&key, queue) in &mut self.queues {
            queue.gap = gap_of(gaps, key.1).unwrap_or_default();
            let next = queue.next.min(now + queue.gap);
            if self.due.remove(&(queue.next, key)) {
                self.due.insert((next, key));
            }
            queue.next = next;
        }
        Ok(())
    }

    /// May another datagram be queued for `key`? To one whose queue is full there may be later.
    fn admit(&mut self, key: Key, now: Instant, budget: &mut Budget) -> Result<(), Full> {
        if let Some(queue) = self.queues.get(&key) {
            // A datagram may always wait for the gap, whatever the limit.
            let len = queue.frames.len();
            let has_room = len == 0 || budget.admits(Limit::GapQueue, len);
            return if has_room { Ok(()) } else { Err(Full::Queue) };
        }
        let limit = Limit::GapDestinations;
        if self.queues.len() >= budget.of(limit) {
            // Those whose gap is over are as good as none.
            self.queues.retain(|_, queue| !queue.frames.is_empty() || queue.next > now);
        }
        if budget.admits(limit, self.queues.len()) { Ok(()) } else { Err(Full::Table) }
    }

    /// Somebody waits for room in the queue of `key`.
    fn await_room(&mut self, key: Key) {
        if let Some(queue) = self.queues.get_mut(&key)
            && !core::mem::replace(&mut queue.is_awaited, true)
        {
            self.awaited += 1;
        }
    }

    fn push(&mut self, key: Key, (gap, epoch): (Duration, u64), frame: Mbuf) {
        let queue = self.queues.entry(key).or_insert_with(|| Queue {
            gap,
            next: Instant::ZERO,
            position: 0,
            epoch,
            is_late: false,
            frames: VecDeque::new(),
            is_awaited: false,
        });
        if queue.frames.is_empty() {
            self.due.insert((queue.next, key));
            queue.epoch = epoch;
        }
        queue.frames.push_back(frame);
    }

    /// The destination whose next frame may leave at `now`.
    fn due(&self, now: Instant) -> Option<Key> {
        let &(at, key) = self.due.first()?;
        (at <= now).then_some(key)
    }

    /// When the next frame may leave.
    pub(crate) fn next_departure(&self) -> Instant {
        self.due.first().map_or(Instant::NEVER, |&(at, _)| at)
    }

    /// May the next frame of `key`, which is due, go to its port at `now`, when the device has
    /// `taken` so many? Not while the one before waits there: then it is due a gap later.
    fn may_leave(&mut self, key: Key, now: Instant, taken: u64) -> bool {
        let Some(queue) = self.queues.get_mut(&key) else { return false };
        let has_left = queue.position <= taken;
        // When a late one left is not known: the gap begins now.
        if has_left && !queue.is_late {
            return true;
        }
        queue.is_late = !has_left;
        self.due.remove(&(queue.next, key));
        queue.next = now + queue.gap.max(Duration::from_nanos(1));
        self.due.insert((queue.next, key));
        false
    }

    /// The next frame of `key` goes to its port at `now`, as the `position`th there.
    fn pop(&mut self, key: Key, now: Instant, position: u64, queue_max: usize) -> Option<Mbuf> {
        let queue = self.queues.get_mut(&key)?;
        self.due.remove(&(queue.next, key));
        let frame = queue.frames.pop_front();
        (queue.next, queue.position) = (now + queue.gap, position);
        if !queue.frames.is_empty() {
            self.due.insert((queue.next, key));
        }
        if queue.is_awaited && queue.frames.len() <= queue_max / 2 {
            queue.is_awaited = false;
            self.awaited -= 1;
            self.found_room = true;
        }
        frame
    }

    /// The next frame of `key`, if what its size depends on has changed since it came.
    fn outdated(&self, key: Key, epoch: u64) -> Option<&Mbuf> {
        self.queues.get(&key).filter(|queue| queue.epoch != epoch)?.frames.front()
    }

    /// Does a sender wait for room?
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited > 0
    }

    /// Has there been room for one since this was asked last?
    pub(crate) fn found_room(&mut self) -> bool {
        core::mem::take(&mut self.found_room)
    }

    /// Frames that wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queues.values().map(|queue| queue.frames.len()).sum()
    }

    /// Nothing leaves by this port any more. Returns how many frames were thrown away.
    pub(crate) fn forget_port(&mut self, port: u16, pool: &mut Pool) -> u64 {
        let mut count = 0;
        self.due.retain(|(_, key)| key.0 != port);
        self.queues.retain(|key, queue| {
            if key.0 != port {
                return true;
            }
            count += queue.frames.len() as u64;
            queue.frames.drain(..).for_each(|frame| pool.free(frame));
            self.awaited -= usize::from(queue.is_awaited);
            self.found_room |= queue.is_awaited;
            false
        });
        count
    }
}

fn gap_of(gaps: &[(Cidr, Duration)], dst: IpAddr) -> Option<Duration> {
    let (_, gap) = gaps.iter().find(|(cidr, _)| cidr.contains(dst))?;
    (*gap > Duration::ZERO).then_some(*gap)
}

impl Stack {
    /// Let frames with datagrams, fragments or whole, to destinations in `to` leave at least `gap`
    /// apart, from the start of one to the start of the next; the others do not wait for them. It
    /// is for receivers that lose frames which come one right behind the other. Of several
    /// networks that contain a destination the one with the longest prefix counts; `Some` of no
    /// time exempts a part of another, `None` removes the entry. Each address in `to` has a gap of
    /// its own. Sockets are pushed back when `gap_queue` frames wait for a destination.
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

    /// The gap between frames to `dst`, if it has one.
    pub fn burst_gap(&self, dst: IpAddr) -> Option<Duration> {
        self.pace.gap(dst)
    }

    /// May a socket send another datagram to `dst` by this port?
    ///
    /// # Errors
    /// [`UdpError::WouldBlock`]; [`DropReason::TxGapFull`] if frames are on the way to as many
    /// other destinations with a gap as limit `gap_destinations` admits.
    pub(crate) fn check_room(&mut self, port_id: u16, dst: IpAddr) -> Result<(), UdpError> {
        let cx = &mut self.core.cx;
        if !self.pace.is_on() || self.pace.gap(dst).is_none() {
            let has_room = self.ports.get_mut(port_id).is_some_and(|port| port.has_room(cx));
            return if has_room { Ok(()) } else { Err(UdpError::WouldBlock) };
        }
        match self.pace.admit((port_id, dst), cx.now, &mut cx.budget) {
            Ok(()) => Ok(()),
            Err(Full::Table) => Err(UdpError::Unsendable(DropReason::TxGapFull)),
            Err(Full::Queue) => {
                self.pace.await_room((port_id, dst));
                Err(UdpError::WouldBlock)
            }
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

/// A finished frame; it comes back if its destination has no gap.
#[cold]
pub(crate) fn take(stack: &mut Stack, port_id: u16, frame: Mbuf) -> Option<Mbuf> {
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

/// A frame that was made before a link's MTU changed may be larger than the link takes now.
fn fits(stack: &Stack, (port_id, dst): Key, frame: &Mbuf) -> bool {
    let Some(port) = stack.ports.get(port_id) else { return true };
    let remote = resolve::scoped(SocketAddr::new(dst, 0), port_id);
    let hop = addresses::next_hop(stack, None, remote, inet::Sender::Program).ok();
    let hop = hop.filter(|hop| hop.port == port_id);
    let link = hop.and_then(|hop| mtu::of_hop(stack, &hop)).unwrap_or(port.limits.mtu);
    frame.len() <= port.limits.link.header_len() + link.bytes()
}

/// Send the frames whose time has come, each at once: one that waited for a burst to be full would
/// leave closer to the next. One that the device does not take now waits behind others, by itself.
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
        // One that does not leave is not waited for.
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
