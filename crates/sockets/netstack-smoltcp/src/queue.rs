//! The device between `Stack` and the stack: a queue of packets in each direction, with wakers on
//! both sides.
//!
//! Called by: `stack.rs`, which has the outer end. Limits: packets in each direction; both sides
//! push back. Each side takes all that waits at once, so it holds the lock for one exchange of two
//! queues, and not for each packet. Counter: [`DropReason::MbufExhausted`].

use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{DropReason, Drops, LinkKind, Mtu};
use device::{Burst, Device, Doorbell, Limits, Offloads};
use mbuf::Pool;

use crate::AnyIpPktFrame;

/// One direction.
struct Lane {
    waiting: Mutex<Waiting>,
    limit: usize,
}

#[derive(Default)]
struct Waiting {
    packets: VecDeque<AnyIpPktFrame>,
    /// The outer task that waits for a packet, or for room.
    waker: Option<Waker>,
}

impl Lane {
    fn new(limit: usize) -> Lane {
        Lane { waiting: Mutex::default(), limit: limit.max(1) }
    }

    /// Nothing panics while it holds the lock, so poisoning can be ignored.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self) -> bool {
        self.lock().packets.len() < self.limit
    }
}

struct Shared {
    inward: Lane,
    outward: Lane,
    bell: Doorbell,
    outer_gone: AtomicBool,
    device_gone: AtomicBool,
    /// Tasks that wait for room in `outward` on the stack's side: datagrams that were pushed back.
    blocked: Mutex<Option<Waker>>,
    /// The task that waits for the end of the outer side.
    reader: Mutex<Option<Waker>>,
}

/// The stack's end.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    limits: Limits,
    /// Packets that were taken and are not mbufs yet.
    taken: VecDeque<AnyIpPktFrame>,
    drops: Drops,
    pushed_back: bool,
}

/// The program's end.
pub(crate) struct Outer {
    shared: Arc<Shared>,
    /// Packets that were taken and not delivered yet.
    taken: VecDeque<AnyIpPktFrame>,
}

/// Tells whether the program's end is still there, and wakes whoever waits for room.
#[derive(Clone)]
pub(crate) struct Room(Arc<Shared>);

/// Make both ends of a queue for `inward` packets to the stack and `outward` packets from it.
pub(crate) fn pair(mtu: Mtu, inward: usize, outward: usize) -> (Queue, Outer, Room) {
    let shared = Arc::new(Shared {
        inward: Lane::new(inward),
        outward: Lane::new(outward),
        bell: Doorbell::new(),
        outer_gone: AtomicBool::new(false),
        device_gone: AtomicBool::new(false),
        blocked: Mutex::default(),
        reader: Mutex::default(),
    });
    let limits = Limits {
        link: LinkKind::Ip,
        mtu,
        max_frame: mtu.bytes(),
        max_segments: 1,
        tx_depth: shared.outward.limit,
        offloads: Offloads::default(),
    };
    let queue = Queue {
        shared: shared.clone(),
        limits,
        taken: VecDeque::new(),
        drops: Drops::default(),
        pushed_back: false,
    };
    let room = Room(shared.clone());
    (queue, Outer { shared, taken: VecDeque::new() }, room)
}

impl Outer {
    /// Ready if the stack takes a packet, with an error if it has ended.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let mut waiting = self.shared.inward.lock();
        if self.shared.device_gone.load(Ordering::Acquire) {
            return Poll::Ready(Err(Ended));
        }
        if waiting.packets.len() < self.shared.inward.limit {
            return Poll::Ready(Ok(()));
        }
        remember(&mut waiting.waker, cx);
        Poll::Pending
    }

    /// Queue a packet; false if there is no room for it.
    pub(crate) fn send(&mut self, packet: AnyIpPktFrame) -> bool {
        let mut waiting = self.shared.inward.lock();
        let has_room = waiting.packets.len() < self.shared.inward.limit;
        if has_room {
            waiting.packets.push_back(packet);
            drop(waiting);
            self.shared.bell.ring();
        }
        has_room
    }

    /// The next packet from the stack; `None` once the stack has ended.
    pub(crate) fn poll_packet(&mut self, cx: &mut Context<'_>) -> Poll<Option<AnyIpPktFrame>> {
        if let Some(packet) = self.taken.pop_front() {
            return Poll::Ready(Some(packet));
        }
        let mut waiting = self.shared.outward.lock();
        core::mem::swap(&mut self.taken, &mut waiting.packets);
        if let Some(packet) = self.taken.pop_front() {
            drop(waiting);
            if self.taken.len() + 1 >= self.shared.outward.limit {
                // The stack, or a sender of datagrams, may wait for room.
                self.shared.bell.ring();
                wake(&mut self.shared.blocked());
            }
            return Poll::Ready(Some(packet));
        }
        if self.shared.device_gone.load(Ordering::Acquire) {
            return Poll::Ready(None);
        }
        remember(&mut waiting.waker, cx);
        Poll::Pending
    }

    /// End the stack: what is in flight is lost.
    pub(crate) fn close(&self) {
        self.shared.outer_gone.store(true, Ordering::Release);
        self.shared.bell.ring();
        wake(&mut self.shared.blocked());
        wake(&mut self.shared.reader());
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        self.close();
    }
}

/// The stack has ended.
pub(crate) struct Ended;

impl Shared {
    /// The stack has ended: wake the outer tasks, which see it.
    fn end(&self) {
        for lane in [&self.inward, &self.outward] {
            // The flag is set under the lock, so that no task checks it before and waits after.
            let mut waiting = lane.lock();
            self.device_gone.store(true, Ordering::Release);
            wake(&mut waiting.waker);
        }
    }

    fn blocked(&self) -> MutexGuard<'_, Option<Waker>> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, Option<Waker>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    /// Ready if the stack can send a packet.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut blocked = self.0.blocked();
        remember(&mut blocked, cx);
        // The other side makes room first and takes the waker then.
        if self.0.outward.has_room() || self.is_closed() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// [`Room::is_closed`]; if it is not, the task is woken when it is.
    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> bool {
        remember(&mut self.0.reader(), cx);
        self.is_closed()
    }

    /// Nothing drives the stack any more.
    pub(crate) fn end(&self) {
        self.0.end();
    }

    /// Is the program's end gone?
    pub(crate) fn is_closed(&self) -> bool {
        self.0.outer_gone.load(Ordering::Acquire)
    }
}

fn remember(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl Device for Queue {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        if self.taken.is_empty() {
            let mut waiting = self.shared.inward.lock();
            core::mem::swap(&mut self.taken, &mut waiting.packets);
            wake(&mut waiting.waker);
        }
        let before = into.len();
        while !into.is_full()
            && let Some(packet) = self.taken.pop_front()
        {
            match pool.copy_of(&packet) {
                Some(mbuf) => into.push(mbuf),
                None => self.drops.count(DropReason::MbufExhausted),
            }
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let outward = &self.shared.outward;
        let mut waiting = outward.lock();
        let room = outward.limit.saturating_sub(waiting.packets.len());
        let taken = from.len().min(if self.link_up() { room } else { from.len() });
        waiting.packets.extend(from[..taken].iter().map(|frame| frame.as_slice().to_vec()));
        if taken > 0 {
            wake(&mut waiting.waker);
        }
        drop(waiting);
        pool.free_all(from.drain(..taken));
        self.pushed_back = !from.is_empty();
        taken
    }

    fn rx_ready(&self) -> bool {
        !self.taken.is_empty() || !self.shared.inward.lock().packets.is_empty()
    }

    fn tx_ready(&self) -> bool {
        !self.link_up() || self.shared.outward.has_room()
    }

    fn link_up(&self) -> bool {
        !self.shared.outer_gone.load(Ordering::Acquire)
    }

    fn is_gone(&self) -> bool {
        !self.link_up()
    }

    fn rx_depth(&self) -> usize {
        self.shared.inward.limit
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        self.shared.bell.arm_waker(waker);
        let ready = self.rx_ready() || !self.link_up() || (self.pushed_back && self.tx_ready());
        if ready {
            self.shared.bell.disarm();
        }
        !ready
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.end();
    }
}
