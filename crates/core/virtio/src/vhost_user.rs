//! A virtual machine whose network card is in our process: vhost-user-net.
//!
//! Called by: the stack, once per burst; programs that open one. Counters: [`Device::drops`], by
//! reason. One pair of queues; one machine at a time, the next one when it has gone.
//!
//! # Who wakes whom
//!
//! The guest's driver notifies us by an eventfd, which is in the port's epoll instance with the
//! socket ([`Interest`]). The stack looks at the ring in every turn, so we ask the guest not to
//! notify us while the stack is at work. The thread that drives the stack calls
//! [`Device::rx_ready`] before it sleeps; that call asks the guest for notifications. In the other
//! direction the guest says for which buffers it wants to be notified; we notify once a burst.

mod connection;

use core::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use base::{DropReason, Drops, LinkKind, Mtu};
use connection::Role;
use device::vm::Interest;
use device::{Burst, Device, Limits, Offloads};
use mbuf::{Mbuf, Pool};

use crate::error::VhostError;
use crate::guest::{FROM_GUEST, Guest, TO_GUEST};
use crate::receive::{self, Taken};
use crate::ring::Ring;
use crate::session::Session;
use crate::transmit::{self, Put, Scratch};

/// The largest IP packet, and the largest super-segment without its link header, in bytes.
const PACKET_MAX: usize = 65_535;

/// The declared transmit depth; only a hint.
const DEPTH: usize = 256;

/// A received burst ends when it has this many bytes, which are still in a core's own cache when
/// they are read.
const BURST_BYTES: usize = 128 << 10;

/// The network card of a virtual machine.
pub struct VhostUser {
    session: Option<Session>,
    role: Role,
    path: PathBuf,
    interest: Arc<Interest>,
    limits: Limits,
    /// Were descriptors asked to wake us, and how many bursts ago were they looked at?
    is_armed: Cell<bool>,
    bursts: u32,
    /// There are more requests at the socket, or a connection could not be accepted.
    has_more: bool,
    is_refused: bool,
    /// Parts of a frame that was finished for the guest, and had no room yet.
    parts: VecDeque<Mbuf>,
    /// A frame found no room when the ring was available this far.
    full: Option<u16>,
    scratch: Scratch,
    trouble: Option<VhostError>,
    /// The error while a ring is broken.
    broken: VhostError,
    drops: Drops,
}

impl VhostUser {
    /// Set the largest packet; both ends have to agree. Call this before a stack has the device.
    #[must_use]
    pub fn with_mtu(mut self, mtu: Mtu) -> VhostUser {
        self.limits = limits(mtu);
        self
    }

    fn forget_frames(&mut self) {
        self.drops.count_many(DropReason::DeviceLinkDown, self.parts.len() as u64);
        self.parts.clear();
        self.full = None;
    }

    /// Put the parts of an unfinished frame that waits. `false`: there is no room for all.
    fn put_parts(&mut self, guest: &mut Guest, pool: &mut Pool) -> bool {
        while let Some(part) = self.parts.front() {
            match offer(guest, &mut self.scratch, part) {
                Put::Full(known) => {
                    self.full = Some(known);
                    return false;
                }
                Put::Done => {}
                Put::Dropped(reason) => self.drops.count(reason),
                // It is finished, so this cannot be.
                Put::Unfinished => self.drops.count(DropReason::DeviceRefused),
            }
            self.parts.pop_front().into_iter().for_each(|part| pool.free(part));
        }
        true
    }

    /// Put frames until there is no room. Returns the rest in `from`.
    fn put_all(&mut self, guest: &mut Guest, pool: &mut Pool, from: &mut Burst) {
        let mut frames = core::mem::take(from).into_iter();
        while self.parts.is_empty() || self.put_parts(guest, pool) {
            let Some(frame) = frames.next() else { return };
            if is_too_long(&frame, &self.limits) {
                self.drops.count(DropReason::DeviceFrameTooBig);
                pool.free(frame);
                continue;
            }
            match offer(guest, &mut self.scratch, &frame) {
                Put::Done => pool.free(frame),
                Put::Dropped(reason) => {
                    self.drops.count(reason);
                    pool.free(frame);
                }
                Put::Unfinished => {
                    let parts = &mut self.parts;
                    let lost =
                        link::cut(frame, LinkKind::Ethernet, pool, |part, _| parts.push_back(part));
                    self.drops.count_many(DropReason::MbufExhausted, lost);
                }
                Put::Full(known) => {
                    self.full = Some(known);
                    from.push(frame);
                    break;
                }
            }
        }
        from.extend(frames);
    }

    /// Is there a frame of the guest, or room for one that waits? If not, the guest will notify us.
    fn guest_is_ready(&self) -> bool {
        let Some(session) = &self.session else { return false };
        let guest = &mut *session.guest();
        if !guest.runs() {
            return false;
        }
        if !self.parts.is_empty() && self.has_room(guest) {
            return true;
        }
        let memory = guest.memory.regions();
        let ring = &mut guest.rings[FROM_GUEST];
        let base = ring.base();
        let now = match ring.available(memory) {
            Ok(now) if now == base => ring.wait(memory, base),
            other => other,
        };
        // A ring that is broken is ready, so that the next burst stops it.
        now != Ok(base)
    }

    /// Is there room where there was none?
    fn has_room(&self, guest: &Guest) -> bool {
        let ring = &guest.rings[TO_GUEST];
        self.full.is_none_or(|known| ring.available(guest.memory.regions()) != Ok(known))
    }
}

/// Put a frame into the guest's buffers; if there are too few, the guest will notify us of more.
fn offer(guest: &mut Guest, scratch: &mut Scratch, frame: &Mbuf) -> Put {
    // Buffers may come while we ask to be notified of them. They come twice at most.
    for _ in 0..2 {
        let known = match transmit::put(guest, scratch, frame) {
            Ok(Put::Full(known)) => known,
            Ok(put) => return put,
            Err(broken) => {
                guest.rings[TO_GUEST].give_up(broken);
                return Put::Dropped(Ring::BROKEN);
            }
        };
        let memory = guest.memory.regions();
        let ring = &mut guest.rings[TO_GUEST];
        // What is in the ring already has to be visible, or no buffer would come back.
        match ring.publish(memory).and_then(|()| ring.wait(memory, known)) {
            Ok(now) if now == known => return Put::Full(known),
            Ok(_) => {}
            Err(broken) => {
                ring.give_up(broken);
                return Put::Dropped(Ring::BROKEN);
            }
        }
    }
    let known = guest.rings[TO_GUEST].base();
    Put::Full(known)
}

fn is_too_long(frame: &Mbuf, limits: &Limits) -> bool {
    let most =
        if frame.segment_size() == 0 { limits.max_frame } else { limits.offloads.tso_max_bytes };
    frame.len() > most.max(limits.max_frame)
}

fn limits(mtu: Mtu) -> Limits {
    let most = PACKET_MAX + LinkKind::Ethernet.header_len();
    let offloads = Offloads {
        // What a guest does not take is done here: its driver may change between two starts.
        tx_checksum: true,
        rx_checksum: true,
        tso_max_bytes: most,
        uso_max_bytes: most,
        gro: true,
    };
    Limits {
        link: LinkKind::Ethernet,
        mtu,
        // An Ethernet header with two tags.
        max_frame: mtu.bytes() + 14 + 8,
        max_segments: 1,
        tx_depth: DEPTH,
        offloads,
    }
}

impl Device for VhostUser {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        self.look();
        let Some(session) = self.session.take() else { return 0 };
        let before = into.len();
        {
            let guest = &mut *session.guest();
            if guest.runs() {
                self.put_parts(guest, pool);
                publish(guest, TO_GUEST);
                let ring = &mut guest.rings[FROM_GUEST];
                let quiet = ring.wait_no_longer(guest.memory.regions());
                let mut bytes = 0;
                // Take no more frames than there was room for, so that dropped frames cannot keep
                // this loop running.
                for _ in 0..into.remaining_capacity() {
                    let pieces = &mut self.scratch.pieces;
                    let taken =
                        quiet.and_then(|()| receive::take(guest, pieces, &self.limits, pool));
                    match taken {
                        Ok(Taken::Frame(frame)) => {
                            bytes += frame.len();
                            into.push(frame);
                        }
                        Ok(Taken::Dropped(reason)) => self.drops.count(reason),
                        Ok(Taken::Empty) => break,
                        Err(broken) => {
                            self.drops.count(Ring::BROKEN);
                            guest.rings[FROM_GUEST].give_up(broken);
                            break;
                        }
                    }
                    if bytes >= BURST_BYTES {
                        break;
                    }
                }
                publish(guest, FROM_GUEST);
            }
        }
        self.session = Some(session);
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        self.look();
        let before = from.len();
        let session = self.session.take();
        if let Some(session) = &session {
            let guest = &mut *session.guest();
            if guest.runs() && self.has_room(guest) {
                if self.full.take().is_some() {
                    let ring = &mut guest.rings[TO_GUEST];
                    if let Err(broken) = ring.wait_no_longer(guest.memory.regions()) {
                        ring.give_up(broken);
                    }
                }
                self.put_all(guest, pool, from);
                publish(guest, TO_GUEST);
            }
        }
        let runs = session.as_ref().is_some_and(|session| session.guest().runs());
        self.session = session;
        if !runs {
            self.forget_frames();
            self.drops.count_many(DropReason::DeviceLinkDown, from.len() as u64);
            from.drain(..).for_each(|frame| pool.free(frame));
        }
        before - from.len()
    }

    fn rx_ready(&self) -> bool {
        if self.has_more || self.guest_is_ready() {
            return true;
        }
        self.is_armed.set(true);
        self.interest.has_news()
    }

    fn tx_ready(&self) -> bool {
        let Some(session) = &self.session else { return true };
        let guest = session.guest();
        !guest.runs() || self.has_room(&guest)
    }

    fn link_up(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.guest().runs())
    }

    /// True if a connection could not be accepted, which is tried again, and if the driver does not
    /// notify us.
    fn is_unfinished(&self) -> bool {
        let is_silent = |session: &Session| {
            let guest = session.guest();
            guest.runs() && guest.rings.iter().any(|ring| ring.kick.is_none())
        };
        self.is_refused || self.session.as_ref().is_some_and(is_silent)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.interest.as_fd())
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        let is_broken = |session: &Session| session.guest().rings.iter().any(Ring::is_broken);
        if self.session.as_ref().is_some_and(is_broken) {
            return Some(&self.broken);
        }
        self.trouble.as_ref().map(|error| error as _)
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}

/// Let the guest see what was given back.
fn publish(guest: &mut Guest, ring: usize) {
    let ring = &mut guest.rings[ring];
    if let Err(broken) = ring.publish(guest.memory.regions()) {
        ring.give_up(broken);
    }
}
