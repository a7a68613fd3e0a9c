//! A port: a device, its addresses, and its transmit burst. `table.rs` contains all ports.
//!
//! A stack may have devices of different kinds: a call through `dyn Device` is made once a burst.

mod macs;
mod table;

use core::fmt;
use core::task::Waker;
use std::collections::VecDeque;
use std::sync::Arc;

use base::{Counter, Duration, Instant, IpVersion, MacAddr, Mss};
use bpf::Direction;
use device::mitigation::{IdlePolicy, Level, Mitigation, Moderation, Threshold};
use device::vlan::Tag;
use device::{BURST, Burst, Device, Limits};
use inet::route::SourceCheck;
use inet::{Address, Vrf};
pub(crate) use macs::Macs;
use mbuf::{Mbuf, Pool};
pub use table::ReplaceError;
pub(crate) use table::{LOOPBACK, Ports, admits};
use tcp::Cx;

use crate::config::PortConfig;
use crate::handles::{PortId, TcpHandle, UdpHandle};
use crate::local::LocalAddrs;
use crate::shard::Outbox;
use crate::taps::Taps;

/// A device that takes no frame for longer than this is not merely full.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// This many full bursts in a row show that a device receives more frames than the stack takes:
/// some queues hold as many.
const OVERRUN: u32 = 3;

/// Counters of the packets that a port forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Packets that came by the port and were forwarded.
    pub packets_in: u64,
    /// Packets that were forwarded to a next hop on this port, including those that wait for the
    /// next hop's link address.
    pub packets_out: u64,
}

/// One port.
pub(crate) struct Port {
    pub(crate) id: PortId,
    pub(crate) device: Box<dyn Device>,
    pub(crate) limits: Limits,
    pub(crate) mac: MacAddr,
    /// Further link addresses.
    pub(crate) macs: Macs,
    pub(crate) addresses: Vec<Address>,
    /// [`PortConfig::answer_all`].
    pub(crate) answer_all: bool,
    /// The addresses in the form in which packets are compared with them.
    pub(crate) local: LocalAddrs,
    /// The device's [`Device::own_tag`].
    pub(crate) own_tag: Option<Tag>,
    tx: Burst,
    /// How many frames at the front of `tx` have that tag. The frames after them do not.
    tagged: usize,
    /// Bytes put into `tx` since the last flush.
    tx_bytes: u64,
    /// Frames that the device has taken, including frames that were lost with an earlier device.
    taken: u64,
    /// Frames whose departure time came while `tx` was full; empty unless `tx` is full.
    held: VecDeque<Mbuf>,
    /// Connections that the device pushed back.
    pub(crate) blocked: Vec<TcpHandle>,
    pub(crate) taps: Taps,
    /// How many frames of `tx` taps have seen already.
    shown: usize,
    /// Consecutive bursts that were full. Many of them show that the device receives more than the
    /// stack takes.
    full_bursts: u32,
    /// The device is gone, and the connections have been notified.
    pub(crate) gone: bool,
    /// How often the port's driver is woken.
    pub(crate) moderation: Moderation,
    /// When the port was last armed, its frames were coalesced: its descriptor is not to be waited
    /// on.
    #[cfg(unix)]
    gathers: bool,
    /// Since when the device has taken none of the frames offered to it.
    refused_since: Option<Instant>,
    /// When the device was last armed, something waited for room there.
    asked_for_room: bool,
    /// A full `tx` has got room since this flag was last read.
    found_room: bool,
    /// On a shard: the rings to the other shards.
    pub(crate) outbox: Option<Arc<Outbox>>,
    /// Counters of forwarding.
    pub(crate) forwarded: Forwarded,
    /// How the sources of packets that come by the port are checked, while packets are forwarded.
    pub(crate) source_check: SourceCheck,
    /// The VRF that the port belongs to.
    pub(crate) vrf: Vrf,
    /// While the port has no address: the socket of its DHCP client.
    pub(crate) offers: Option<UdpHandle>,
    /// The port's name for people; empty unless one was set.
    pub(crate) name: Box<str>,
}

impl Port {
    /// A port of a device.
    pub(crate) fn new(id: PortId, device: Box<dyn Device>, config: &PortConfig) -> Port {
        let (limits, own_tag) = (device.limits(), device.own_tag());
        Port {
            id,
            device,
            limits,
            mac: config.mac,
            macs: Macs::default(),
            addresses: config.addresses.iter().copied().map(Address::fixed).collect(),
            answer_all: config.answer_all,
            local: LocalAddrs::new(config.addresses.iter().copied()),
            own_tag,
            tx: Burst::new(),
            tagged: 0,
            tx_bytes: 0,
            taken: 0,
            held: VecDeque::new(),
            blocked: Vec::new(),
            taps: Taps::default(),
            shown: 0,
            full_bursts: 0,
            gone: false,
            moderation: Moderation::default(),
            #[cfg(unix)]
            gathers: false,
            refused_since: None,
            asked_for_room: false,
            found_room: false,
            outbox: None,
            forwarded: Forwarded::default(),
            source_check: SourceCheck::Off,
            vrf: Vrf::NONE,
            offers: None,
            name: Box::default(),
        }
    }

    /// Hand the burst to the device. Frames that it does not take stay, in order.
    #[inline(never)]
    pub(crate) fn flush(&mut self, cx: &mut Cx) -> bool {
        self.flush_here(cx)
    }

    /// [`Port::flush`] for the end of a poll, where a function call for each idle port would cost
    /// more.
    #[inline(always)]
    fn flush_here(&mut self, cx: &mut Cx) -> bool {
        if self.tx.is_empty() {
            return true;
        }
        if !self.taps.is_empty() {
            self.show_sent(cx.now);
        }
        let was_full = self.tx.is_full();
        let taken = match self.tagged {
            0 => self.device.tx_burst(&mut cx.pool, &mut self.tx),
            _ => self.device.tx_burst_tagged(&mut cx.pool, &mut self.tx, &mut self.tagged),
        };
        self.found_room |= was_full && taken > 0;
        self.taken += taken as u64;
        self.shown = self.shown.saturating_sub(taken);
        let counters = &mut cx.counters;
        counters.add(Counter::TxFrames, taken as u64);
        counters.add(Counter::TxBytes, core::mem::take(&mut self.tx_bytes));
        counters.add(Counter::TxBursts, u64::from(taken > 0));
        if !self.tx.is_empty() {
            counters.add(Counter::TxPushedBack, 1);
        }
        // Written only when push back begins and when it ends.
        if (taken == 0) != self.refused_since.is_some() {
            self.refused_since = (taken == 0).then_some(cx.now);
        }
        if taken > 0 && !self.held.is_empty() {
            self.take_held();
        }
        taken > 0
    }

    /// Show each frame to taps once, when it is first offered: afterwards the device may own it.
    #[cold]
    fn show_sent(&mut self, now: Instant) {
        // Taps add the tag to the frames that they are shown.
        if let Some(tag) = self.own_tag {
            self.tx.iter_mut().take(self.tagged).for_each(|frame| tag.strip_from(frame));
        }
        self.tagged = 0;
        let new = self.tx.get(self.shown..).unwrap_or_default();
        let on_wire = (self.limits.link, self.device.tags());
        self.taps.show(Direction::Out, new, on_wire, now);
        self.shown = self.tx.len();
    }

    /// Move held frames to the burst while it has room; the ones that waited longest go first.
    #[cold]
    fn take_held(&mut self) {
        while !self.tx.is_full()
            && let Some(frame) = self.held.pop_front()
        {
            self.push(frame);
        }
    }

    /// Put a frame into the outgoing burst. If there is no room, the frame waits here, because its
    /// connection no longer keeps it. At most as many frames wait as the release queue holds, and
    /// one for each destination with a gap.
    pub(crate) fn push_or_hold(&mut self, frame: Mbuf, cx: &mut Cx) {
        if self.held.is_empty() && self.has_room(cx) {
            self.push(frame);
        } else {
            self.held.push_back(frame);
        }
    }

    /// Drop the frames that wait for room; returns how many.
    pub(crate) fn drop_held(&mut self, pool: &mut Pool) -> u64 {
        let count = self.held.len() as u64;
        self.held.drain(..).for_each(|frame| pool.free(frame));
        count
    }

    /// Put a frame into the outgoing burst. The caller has made sure that there is room.
    #[inline(always)]
    pub(crate) fn push(&mut self, frame: Mbuf) {
        self.tx_bytes += frame.len() as u64;
        self.tx.push(frame);
    }

    /// May the next frame have the port's tag? Not after a frame that has none.
    #[inline(always)]
    pub(crate) fn takes_tagged(&self) -> bool {
        self.tagged == self.tx.len()
    }

    /// Returns the outgoing burst, to push frames that it has room for. The caller then passes
    /// their bytes to [`Port::count_bytes`], all at once.
    #[inline(always)]
    pub(crate) fn uncounted(&mut self) -> &mut Burst {
        &mut self.tx
    }

    /// Does the outgoing burst take `count` frames without a flush, and does no frame wait before
    /// them?
    #[inline(always)]
    pub(crate) fn takes(&self, count: usize) -> bool {
        self.held.is_empty() && count <= self.room()
    }

    /// Frames in the outgoing burst.
    #[inline(always)]
    pub(crate) fn pending(&self) -> usize {
        self.tx.len()
    }

    /// Take uncounted frames out of the burst again: all but the first `first` frames.
    pub(crate) fn take_back(&mut self, first: usize) -> impl Iterator<Item = Mbuf> {
        self.tx.drain(first..)
    }

    /// Note that the next `count` frames, which are pushed uncounted, have the port's tag. The
    /// burst has room for them.
    #[inline(always)]
    pub(crate) fn count_tagged(&mut self, count: usize) {
        self.tagged += count;
    }

    /// Count the bytes of frames that were put into [`Port::uncounted`].
    #[inline(always)]
    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.tx_bytes += bytes as u64;
    }

    /// How many frames the outgoing burst still takes without a flush.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.tx.remaining_capacity()
    }

    /// The number of frames that have left. A frame has left once this number reaches the value
    /// that [`Port::offered`] had just after the frame was offered.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// The number of frames offered to this port, including those that wait here. They leave in
    /// order.
    pub(crate) fn offered(&self) -> u64 {
        self.taken + (self.tx.len() + self.held.len()) as u64
    }

    /// Does the outgoing burst take no more without a flush?
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.tx.is_full()
    }

    /// Is there room in the outgoing burst for one more frame? A full burst is flushed first.
    #[inline(always)]
    pub(crate) fn has_room(&mut self, cx: &mut Cx) -> bool {
        !self.tx.is_full() || (self.flush(cx) && !self.tx.is_full())
    }

    /// Show a received burst to taps. Returns whether the device receives more than the stack
    /// takes.
    #[inline(always)]
    pub(crate) fn received(&mut self, count: usize, frames: &[Mbuf], now: Instant) -> bool {
        self.full_bursts = if count == BURST { self.full_bursts.saturating_add(1) } else { 0 };
        if !self.taps.is_empty() {
            let on_wire = (self.limits.link, self.device.tags());
            self.taps.show(Direction::In, frames, on_wire, now);
        }
        self.full_bursts >= OVERRUN
    }

    fn has_input(&self) -> bool {
        self.device.rx_ready() || (self.is_pushed_back() && self.device.tx_ready())
    }

    fn arm(&mut self, waker: &Waker, now: Instant) -> Armed {
        self.asked_for_room = self.is_pushed_back();
        let idle =
            if self.gone { IdlePolicy::UntilFrame } else { self.moderation.idle_policy(now) };
        #[cfg(unix)]
        {
            self.gathers = matches!(idle, IdlePolicy::Gather(_));
        }
        match idle {
            IdlePolicy::Poll => return Armed::Ready,
            IdlePolicy::UntilFrame => {
                self.device.coalesce(Threshold::EACH);
            }
            IdlePolicy::Gather(threshold) => {
                let counts = self.device.coalesce(threshold);
                if counts && !self.device.arm(waker) {
                    return Armed::Ready;
                }
                let known = if counts { self.device.wakes_at() } else { Instant::NEVER };
                return Armed::Until(known.min(now + threshold.within));
            }
        }
        let wakes = self.device.arm(waker);
        // The end of the peer is no frame, so it did not wake the driver if it came after the last
        // poll.
        if !self.gone && self.device.is_gone() {
            return Armed::Ready;
        }
        if wakes || self.gone {
            return match self.device.wakes_at() {
                Instant::NEVER => Armed::All,
                at => Armed::Until(at),
            };
        }
        // Only devices that cannot wake need this check, but it is cheap for the others.
        if self.has_input() {
            return Armed::Ready;
        }
        if self.device.is_unfinished() {
            return Armed::NotAll;
        }
        #[cfg(unix)]
        if self.device.as_fd().is_some() {
            return match self.device.wakes_at() {
                Instant::NEVER => Armed::Descriptors,
                at => Armed::Until(at),
            };
        }
        Armed::NotAll
    }

    /// What to wait for at the device's descriptor, if it has one.
    #[cfg(unix)]
    pub(crate) fn awaited(&self) -> Awaited {
        match (self.gathers, self.is_pushed_back()) {
            (true, _) => Awaited::Nothing,
            (false, false) => Awaited::Frames,
            (false, true) => Awaited::FramesAndRoom,
        }
    }

    /// For how long the device has taken none of the frames offered to it. `None` if that is short
    /// enough to be push back.
    pub(crate) fn stalled(&self, now: Instant) -> Option<Duration> {
        let span = now.since(self.refused_since?);
        (span > STALLED_AFTER).then_some(span)
    }

    /// Why frames do not pass: the reason that the device gives, or, if it gives none, that it
    /// takes no frames.
    pub(crate) fn trouble(&self, now: Instant) -> Option<String> {
        let said = self.device.failure().map(ToString::to_string);
        said.or_else(|| {
            let seconds = self.stalled(now)?.as_millis() / 1_000;
            Some(format!(
                "the device has taken no frame for {seconds} s, though some wait to leave. Look \
                 whether anybody still takes them at its other end"
            ))
        })
    }

    /// Was something pushed back: a connection that has more to send, or finished frames (for
    /// example UDP's)?
    pub(crate) fn is_pushed_back(&self) -> bool {
        !self.blocked.is_empty() || !self.tx.is_empty()
    }

    /// Compare packets with the port's new addresses from now on.
    pub(crate) fn refresh_local(&mut self) {
        let usable = self.addresses.iter().filter(|a| a.is_usable()).map(|a| a.cidr);
        self.local = LocalAddrs::new(usable).with_broadcasts_of(&self.local);
    }

    /// The MSS to offer on this port.
    pub(crate) fn mss(&self, version: IpVersion) -> Mss {
        Mss::for_mtu(self.limits.mtu, version)
    }

    /// Payload bytes of the largest super-segment that the device takes; 0 for none.
    pub(crate) fn super_max_bytes(&self, version: IpVersion) -> u32 {
        let ip = match version {
            IpVersion::V4 => 20,
            IpVersion::V6 => 40,
        };
        let link = self.limits.link.header_len();
        // 60 bytes of TCP header; an IP packet of 65,535 bytes at most.
        let most = self.limits.offloads.tso_max_bytes.min(65_535 + link);
        most.saturating_sub(link + ip + 60) as u32
    }
}

/// Polling interval of a device that cannot wake, while other devices have a deadline.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// The result of [`crate::Stack::arm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// Every device wakes the waker.
    All,
    /// Every device wakes the waker, or has a descriptor to wait on
    /// ([`crate::Stack::descriptors`]).
    Descriptors,
    /// There is something to poll for at once.
    Ready,
    /// Some device cannot wake the waker: poll it at an interval.
    NotAll,
    /// Poll at this time: until then frames are coalesced, or by then they will have come.
    /// Meanwhile wait only on the descriptors at which something is awaited
    /// ([`crate::Stack::descriptors`]), which belong to ports that coalesce nothing. Every other
    /// device wakes the waker, or can wait.
    Until(Instant),
}

/// What to wait for at the descriptor of a port's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Nothing: frames are coalesced, and the port is polled in time.
    Nothing,
    /// Frames.
    Frames,
    /// Frames, and room for the frames that were pushed back.
    FramesAndRoom,
}

impl Armed {
    /// The result for two ports together.
    pub(crate) fn and(self, other: Armed, now: Instant) -> Armed {
        match (self, other) {
            (Armed::Ready, _) | (_, Armed::Ready) => Armed::Ready,
            (Armed::Until(a), Armed::Until(b)) => Armed::Until(a.min(b)),
            (Armed::Until(at), Armed::NotAll) | (Armed::NotAll, Armed::Until(at)) => {
                Armed::Until(at.min(now + LOOK_INTERVAL))
            }
            (Armed::Until(at), _) | (_, Armed::Until(at)) => Armed::Until(at),
            (Armed::NotAll, _) | (_, Armed::NotAll) => Armed::NotAll,
            (Armed::Descriptors, _) | (_, Armed::Descriptors) => Armed::Descriptors,
            (Armed::All, Armed::All) => Armed::All,
        }
    }
}

/// Why a port's interrupt mitigation was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MitigationError {
    /// There is no such port.
    NoPort,
    /// Frames would be lost while a burst is handled.
    TooShallow {
        /// Frames that the port's receive queue holds.
        depth: usize,
        /// Frames that it would have to hold.
        least: usize,
    },
}

impl fmt::Display for MitigationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MitigationError::NoPort => f.write_str("there is no such port"),
            MitigationError::TooShallow { depth, least } => write!(
                f,
                "the receive queue holds {depth} frames, and this mitigation lets so many gather \
                 that it needs {least}: choose level {} or a deeper queue",
                highest_for(*depth).number()
            ),
        }
    }
}

impl core::error::Error for MitigationError {}

/// The highest level for which a queue of `depth` frames is deep enough. Level 0 suits any queue.
fn highest_for(depth: usize) -> Level {
    let mut levels = (0..=Level::MAX.number()).rev().filter_map(Level::new);
    levels.find(|&level| Mitigation::Level(level).least_depth() <= depth).unwrap_or_default()
}
