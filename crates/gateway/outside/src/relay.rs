//! Connections between two of the kernel's stacks: from a listener in another network namespace to
//! an address of this one. No packet of them passes our stack.
//!
//! Called by: owners of a loop, for `netns --to-host`. A relay has an epoll of its own, which the
//! owner watches level-triggered; [`Relay::turn`] does what is possible.
//!
//! Half-closes and resets are passed on. A side is read only while the other takes what it got, and
//! at most [`CHUNK`] bytes wait. Limits: [`PAIRS_MAX`] connections; further ones are reset.

use core::net::SocketAddr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gateway::Token;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt;
use rustix::net::{SendFlags, Shutdown, SocketFlags, acceptfrom_with};
use slab::Slab;

use crate::tcp;

/// Connections at once.
const PAIRS_MAX: usize = 1_024;
/// Bytes that are moved at once, and that wait for a side that is full.
const CHUNK: usize = 64 * 1024;
/// Chunks that a connection moves in a direction before the next one has its turn.
const CHUNKS_A_TURN: usize = 4;
/// Connections that are accepted at a listener in a turn.
const ACCEPTS_A_TURN: usize = 64;
/// Reports of the kernel in a turn.
const EVENTS_MAX: usize = 64;
/// Tokens from here on are listeners.
const LISTENERS: u64 = 1 << 32;

/// The relays of an owner.
#[derive(Debug)]
pub struct Relay {
    epoll: OwnedFd,
    listeners: Vec<(OwnedFd, SocketAddr)>,
    pairs: Slab<Pair>,
    buffer: Box<[u8]>,
    counts: RelayCounts,
}

base::counts! {
    /// How often each event of relays happened.
    pub struct RelayCounts {
        /// Connections that were opened.
        opened;
        /// Connections that were reset because the address did not answer.
        refused;
        /// Connections that were reset because there were too many, or no descriptor was left.
        without_room;
    }
}

/// One connection of each side.
#[derive(Debug)]
struct Pair {
    /// From the listener, and to the address.
    sides: [Side; 2],
    is_connected: bool,
}

#[derive(Debug)]
struct Side {
    fd: OwnedFd,
    /// What came from this side and the other one did not take.
    staged: Vec<u8>,
    is_readable: bool,
    is_writable: bool,
    /// Its end of the stream was read, and was passed on.
    has_ended: bool,
    is_over: bool,
}

impl Side {
    fn new(fd: OwnedFd) -> Side {
        Side {
            fd,
            staged: Vec::new(),
            is_readable: false,
            is_writable: false,
            has_ended: false,
            is_over: false,
        }
    }
}

/// What became of a direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It waits for a side.
    Waits,
    /// It has more to do.
    HasMore,
    /// A side is broken.
    Broken,
}

impl Relay {
    /// No relay yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Relay> {
        Ok(Relay {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            listeners: Vec::new(),
            pairs: Slab::new(),
            buffer: vec![0; CHUNK].into(),
            counts: RelayCounts::default(),
        })
    }

    /// Readable when [`Relay::turn`] has something to do.
    pub fn epoll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// How often each event happened.
    pub fn counts(&self) -> &RelayCounts {
        &self.counts
    }

    /// Connect everybody who connects to `listener`, which is listening, to `to`.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn add(&mut self, listener: OwnedFd, to: SocketAddr) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&listener, true)?;
        let data = epoll::EventData::new_u64(LISTENERS + self.listeners.len() as u64);
        epoll::add(&self.epoll, &listener, data, epoll::EventFlags::IN)?;
        self.listeners.push((listener, to));
        Ok(())
    }

    /// Accept, connect, and pass bytes on. Never waits; returns whether it has more to do at once.
    pub fn turn(&mut self) -> bool {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let came = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&now));
        let mut has_more = came == Ok(EVENTS_MAX);
        for event in events {
            let token = event.data.u64();
            if let Some(number) = token.checked_sub(LISTENERS) {
                self.accept(number as usize);
                continue;
            }
            let (key, side) = ((token / 2) as usize, (token % 2) as usize);
            // One report may be of a connection that has ended by another one.
            let Some(pair) = self.pairs.get_mut(key) else { continue };
            pair.note(side, event.flags);
            match pair.turn(&mut self.buffer) {
                Step::Waits => {}
                Step::HasMore => {
                    has_more = true;
                    self.again(key);
                }
                Step::Broken => self.abort(key),
            }
            if self.pairs.get(key).is_some_and(Pair::is_over) {
                self.pairs.remove(key);
            }
        }
        has_more
    }

    fn accept(&mut self, number: usize) {
        let Some((listener, to)) = self.listeners.get(number) else { return };
        let to = *to;
        for _ in 0..ACCEPTS_A_TURN {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let Ok((near, _)) = retry_on_intr(|| acceptfrom_with(listener, flags)) else { return };
            if self.pairs.len() >= PAIRS_MAX {
                self.counts.without_room += 1;
                reset(&near);
                continue;
            }
            let entry = self.pairs.vacant_entry();
            let key = entry.key() as u64;
            let Ok(far) = tcp::connect(Token(key), to) else {
                self.counts.refused += 1;
                reset(&near);
                continue;
            };
            let sides = [Side::new(near), Side::new(far.into_fd())];
            let pair = entry.insert(Pair { sides, is_connected: false });
            let watched = pair.sides.iter().zip(0..).try_for_each(|(side, number)| {
                let data = epoll::EventData::new_u64(key * 2 + number);
                epoll::add(&self.epoll, &side.fd, data, SIDE)
            });
            if watched.is_err() {
                self.counts.without_room += 1;
                self.pairs.get(key as usize).iter().for_each(|pair| reset(&pair.sides[0].fd));
                self.pairs.remove(key as usize);
            }
        }
    }

    /// Have the kernel report a connection once more: its turn was cut short.
    fn again(&mut self, key: usize) {
        let Some(pair) = self.pairs.get(key) else { return };
        let data = epoll::EventData::new_u64(key as u64 * 2);
        // A failure leaves it waiting for the next event.
        let _ = epoll::modify(&self.epoll, &pair.sides[0].fd, data, SIDE);
    }

    fn abort(&mut self, key: usize) {
        let Some(pair) = self.pairs.try_remove(key) else { return };
        if !pair.is_connected {
            self.counts.refused += 1;
        }
        pair.sides.iter().for_each(|side| reset(&side.fd));
    }
}

/// What is waited for at a side.
const SIDE: epoll::EventFlags = epoll::EventFlags::IN
    .union(epoll::EventFlags::OUT)
    .union(epoll::EventFlags::RDHUP)
    .union(epoll::EventFlags::ET);

/// Closing this will reset its connection.
fn reset(fd: &OwnedFd) {
    let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
}

impl Pair {
    fn note(&mut self, side: usize, flags: epoll::EventFlags) {
        use epoll::EventFlags as Flags;
        let side = &mut self.sides[side];
        side.is_readable |= flags.intersects(Flags::IN | Flags::RDHUP | Flags::HUP | Flags::ERR);
        side.is_writable |= flags.intersects(Flags::OUT | Flags::HUP | Flags::ERR);
    }

    fn is_over(&self) -> bool {
        self.sides.iter().all(|side| side.is_over)
    }

    fn turn(&mut self, buffer: &mut [u8]) -> Step {
        let far = &self.sides[1];
        if !self.is_connected {
            if !far.is_writable {
                return Step::Waits;
            }
            if sockopt::socket_error(&far.fd).and_then(|error| error).is_err() {
                return Step::Broken;
            }
            self.is_connected = true;
        }
        let [near, far] = &mut self.sides;
        match (pump(near, far, buffer), pump(far, near, buffer)) {
            (Step::Broken, _) | (_, Step::Broken) => Step::Broken,
            (Step::HasMore, _) | (_, Step::HasMore) => Step::HasMore,
            (Step::Waits, Step::Waits) => Step::Waits,
        }
    }
}

/// Move bytes from one side to the other.
fn pump(from: &mut Side, to: &mut Side, buffer: &mut [u8]) -> Step {
    for _ in 0..CHUNKS_A_TURN {
        if from.is_over {
            return Step::Waits;
        }
        if !from.staged.is_empty() {
            match send(to, &from.staged) {
                Ok(0) => return Step::Waits,
                Ok(taken) => drop(from.staged.drain(..taken)),
                Err(_) => return Step::Broken,
            }
            continue;
        }
        from.staged.shrink_to_fit();
        if from.has_ended {
            // If it fails, the connection is gone, and that is reported.
            let _ = rustix::net::shutdown(&to.fd, Shutdown::Write);
            from.is_over = true;
            return Step::Waits;
        }
        if !from.is_readable || !to.is_writable {
            return Step::Waits;
        }
        match retry_on_intr(|| rustix::io::read(&from.fd, &mut *buffer)) {
            Ok(0) => from.has_ended = true,
            Ok(bytes) => match send(to, &buffer[..bytes]) {
                Ok(taken) => from.staged.extend_from_slice(&buffer[taken..bytes]),
                Err(_) => return Step::Broken,
            },
            Err(Errno::AGAIN) => {
                from.is_readable = false;
                return Step::Waits;
            }
            Err(_) => return Step::Broken,
        }
    }
    Step::HasMore
}

/// Send; returns how many bytes were taken.
fn send(to: &mut Side, bytes: &[u8]) -> Result<usize, Errno> {
    if !to.is_writable {
        return Ok(0);
    }
    match retry_on_intr(|| rustix::net::send(&to.fd, bytes, SendFlags::NOSIGNAL)) {
        Ok(taken) => {
            to.is_writable = taken == bytes.len();
            Ok(taken)
        }
        Err(Errno::AGAIN) => {
            to.is_writable = false;
            Ok(0)
        }
        Err(error) => Err(error),
    }
}
