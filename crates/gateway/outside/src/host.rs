//! The host as the outside of a gateway: its epoll, and what it reports.
//!
//! Called by: the owner of the event loop, as the example of the crate shows. `outside.rs` is what
//! the engine calls. Everything is watched edge-triggered, with the engine's token as user data;
//! descriptors of the owner are watched level-triggered, because their reader is unknown here.

mod outside;

use core::net::SocketAddr;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::Instant;
use gateway::{Ready, Token};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::counts::Counts;
use crate::datagrams::Gather;
use crate::listen::Listeners;
use crate::via::Via;

/// Reports that one call of the kernel brings at most.
const EVENTS_MAX: usize = 256;
/// The low half of tokens that are not the engine's: no slot of its tables has this number.
const OURS: u64 = u32::MAX as u64;
/// The numbers from here on are listeners.
pub(crate) const LISTENERS: u32 = 1 << 31;

/// Something is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// For [`gateway::Gateway::ready`].
    Outside(Token, Ready),
    /// A descriptor of the owner, by the number with which it is watched.
    Own(u32, Ready),
}

/// The sockets of the host as an outside.
pub struct Host {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    /// How many of `events` were passed on.
    passed: usize,
    /// Open sockets, and how many there may be.
    open: usize,
    open_max: usize,
    pub(crate) listeners: Listeners,
    /// What was reported of each socket of the engine.
    seen: HashMap<Token, Seen>,
    gather: Gather,
    control: Vec<u8>,
    pub(crate) via: Option<(Via, SocketAddr)>,
    /// The resolver's questions go the way of guests.
    pub(crate) asks_through: bool,
    notices: Notices,
    counts: Counts,
}

/// What was reported of a socket, and is still true.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The end of a connection's stream is there, perhaps behind bytes.
    has_ended: bool,
    /// Something is in the error queue of a socket for datagrams.
    has_error: bool,
    /// A connection is open: it became writable without an error.
    is_open: bool,
}

/// The end of a stream.
const END: epoll::EventFlags = epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP);

/// Sentences for the user, each given once.
#[derive(Debug, Default)]
struct Notices {
    due: VecDeque<&'static str>,
    given: Vec<&'static str>,
}

impl Notices {
    fn give(&mut self, notice: &'static str) {
        if !self.given.contains(&notice) {
            self.given.push(notice);
            self.due.push_back(notice);
        }
    }
}

const NO_PING_SOCKETS: &str = "the host permits no ping sockets, so guests cannot ping beyond the \
     gateway; to permit them: sysctl -w net.ipv4.ping_group_range='0 2147483647'";

impl Host {
    /// Sockets of the host, at most `sockets_max` at once ([`crate::descriptors`]); beyond that the
    /// engine's requests fail with [`gateway::Failure::Full`].
    ///
    /// # Errors
    /// The kernel has no epoll for us: no descriptor or no memory.
    pub fn new(sockets_max: usize) -> io::Result<Host> {
        Ok(Host {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS_MAX),
            passed: 0,
            open: 0,
            open_max: sockets_max,
            listeners: Listeners::default(),
            seen: HashMap::new(),
            gather: Gather::default(),
            control: vec![0; crate::datagrams::CONTROL_BYTES],
            via: None,
            asks_through: false,
            notices: Notices::default(),
            counts: Counts::default(),
        })
    }

    /// The epoll, to wait for it in another one: it is readable when [`Host::wait`] would not wait.
    pub fn epoll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Events that the engine does not see, counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Sockets that are open for the engine.
    pub fn open_count(&self) -> usize {
        self.open
    }

    /// Wait for a descriptor of the owner too, level-triggered: for [`Ready::READABLE`],
    /// [`Ready::WRITABLE`] or both. It is reported as [`Wake::Own`] with `number`, below 2^31. For
    /// a descriptor that is watched already, this changes for what. Errors are always reported.
    ///
    /// # Errors
    /// As epoll_ctl(2): the descriptor cannot be waited for, or there is no memory.
    ///
    /// # Panics
    /// `number` is 2^31 or more.
    pub fn watch(&self, fd: impl AsFd, number: u32, what: Ready) -> io::Result<()> {
        assert!(number < LISTENERS, "numbers of descriptors are below 2^31");
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, what.has(Ready::READABLE));
        flags.set(epoll::EventFlags::OUT, what.has(Ready::WRITABLE));
        let data = epoll::EventData::new_u64(own_token(number).0);
        match epoll::add(&self.epoll, &fd, data, flags) {
            Err(Errno::EXIST) => Ok(epoll::modify(&self.epoll, &fd, data, flags)?),
            added => Ok(added?),
        }
    }

    /// Do not wait for a descriptor any more.
    ///
    /// # Errors
    /// It is not watched.
    pub fn unwatch(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Wait until something is ready, or until `until`; [`Instant::NEVER`] waits for ever. Then
    /// [`Host::next_wake`] says what is ready. A signal ends the wait.
    ///
    /// # Errors
    /// Only a defect of the program: its descriptors were closed by somebody else.
    pub fn wait(&mut self, now: Instant, until: Instant) -> io::Result<()> {
        if self.passed < self.events.len() {
            return Ok(());
        }
        let until = if self.listeners.has_work() { now } else { until };
        let left_ns = until.since(now).as_nanos();
        let timeout = Timespec {
            tv_sec: (left_ns / 1_000_000_000) as i64,
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        };
        let timeout = (until != Instant::NEVER).then_some(&timeout);
        self.listeners.begin_turn();
        self.events.clear();
        self.passed = 0;
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Would [`Host::wait`] return at once, because not everything was taken?
    pub fn has_work(&self) -> bool {
        self.passed < self.events.len() || self.listeners.has_work()
    }

    /// The next thing that is ready.
    pub fn next_wake(&mut self) -> Option<Wake> {
        while let Some(event) = self.events.get(self.passed) {
            self.passed += 1;
            let (token, flags) = (Token(event.data.u64()), event.flags);
            let ready = ready(flags);
            let Some(number) = number(token) else {
                // Reports about what was closed meanwhile mean nothing.
                if let Some(seen) = self.seen.get_mut(&token) {
                    seen.has_ended |= flags.intersects(END);
                    seen.has_error |= flags.contains(epoll::EventFlags::ERR);
                    seen.is_open |= flags.contains(epoll::EventFlags::OUT)
                        && !flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
                }
                return Some(Wake::Outside(token, ready));
            };
            if number < LISTENERS {
                return Some(Wake::Own(number, ready));
            }
            self.listeners.ready(number - LISTENERS);
        }
        None
    }

    /// A sentence for the user, each once: something that the host or the proxy does not permit,
    /// and what to do.
    pub fn take_notice(&mut self) -> Option<&'static str> {
        self.notices.due.pop_front()
    }

    /// Give the user a sentence, unless it was given.
    pub(crate) fn notify(&mut self, notice: &'static str) {
        self.notices.give(notice);
    }

    /// Connections of guests go through a proxy from now on, which is at `at` ([`Via::resolve`]).
    /// Datagrams and echoes are refused as prohibited then. Questions for names and connections to
    /// loopback addresses of the host need no proxy.
    pub fn set_via(&mut self, via: Via, at: SocketAddr) {
        self.via = Some((via, at));
    }

    /// Do the resolver's questions go the way of guests, too? A proxy carries them over TCP
    /// (`host::dns::ForwarderConfig::tcp_only`).
    pub fn ask_through(&mut self, through: bool) {
        self.asks_through = through;
    }
}

/// The token of a number that is not the engine's.
pub(crate) fn own_token(number: u32) -> Token {
    Token(u64::from(number) << 32 | OURS)
}

/// The number of a token that is not the engine's.
fn number(token: Token) -> Option<u32> {
    (token.0 & OURS == OURS).then_some((token.0 >> 32) as u32)
}

fn ready(flags: epoll::EventFlags) -> Ready {
    use epoll::EventFlags as Flags;
    let mut ready = Ready::default();
    for (flags_of, bit) in [
        (Flags::IN | Flags::RDHUP, Ready::READABLE),
        (Flags::OUT, Ready::WRITABLE),
        (Flags::PRI, Ready::URGENT),
        (Flags::ERR | Flags::HUP, Ready::ERROR),
    ] {
        if flags.intersects(flags_of) {
            ready = ready.and(bit);
        }
    }
    ready
}
