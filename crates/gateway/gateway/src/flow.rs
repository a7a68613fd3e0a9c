//! A TCP flow: a connection of the guest on our stack, one of the outside, and what is known of
//! both.
//!
//! Called by: `gateway.rs`, `tcp/`. RFC 9293; a flow is two connections, and passes on their ends:
//! FIN for FIN, RST for RST.

use std::collections::VecDeque;

use base::{Duration, Instant};
use mbuf::Mbuf;
use slotmap::{Key, KeyData, new_key_type};
use stack::{RequestHandle, TcpHandle};

use crate::outside::{Ends, Token};

new_key_type! {
    /// The number of a flow; a removed one's is not used again.
    pub(crate) struct FlowId;
}

/// How long the whole connect may take: Linux gives up after 127 s.
const CONNECT_WAIT: Duration = Duration::from_secs(130);
/// How long a question may wait for its answer: a guest's program rarely waits for longer.
const ASK_WAIT: Duration = Duration::from_secs(55);

/// Buffers that a call of the outside fills, at most and at first. A flow of short messages takes
/// one or two, and none that would be given back empty.
pub(crate) const BUFFERS_MAX: u8 = 32;
const BUFFERS_FIRST: u8 = 2;

impl FlowId {
    /// The token of the flow's connection of the outside.
    pub(crate) fn token(self) -> Token {
        Token(self.data().as_ffi())
    }

    /// The flow of a token.
    pub(crate) fn of(token: Token) -> FlowId {
        FlowId::from(KeyData::from_ffi(token.0))
    }
}

/// The states of a flow. A flow that is gone is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its SYN waits for somebody's decision.
    Asking,
    /// One of its connections is open, or is being opened, and the other is not open yet.
    Connecting,
    /// Both halves are open, and the guest's first bytes wait for the policy.
    Hello,
    /// Both halves are open.
    Open,
    /// The guest has closed its half, and the outside knows.
    HalfGuest,
    /// The outside has closed its half, and the guest knows.
    HalfHost,
}

impl State {
    /// Until when a flow that began at `since` may stay in this state, if it is not open.
    pub(crate) fn deadline(self, since: Instant) -> Instant {
        since + if self == State::Asking { ASK_WAIT } else { CONNECT_WAIT }
    }
}

/// The guest's leg.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leg {
    /// None now: the stack has forgotten the SYN, and the guest will repeat it.
    Lost,
    /// A SYN that is held.
    Request(RequestHandle),
    /// A connection.
    Tcp(TcpHandle),
}

/// Bits of a flow.
pub(crate) mod bit {
    /// On the list of flows that have something to do.
    pub(crate) const QUEUED: u32 = 1;
    /// The outside may have bytes.
    pub(crate) const HOST_READABLE: u32 = 2;
    /// The outside may have room.
    pub(crate) const HOST_WRITABLE: u32 = 4;
    /// The guest's connection may have bytes.
    pub(crate) const GUEST_READABLE: u32 = 8;
    /// The guest's connection may have room.
    pub(crate) const GUEST_WRITABLE: u32 = 16;
    /// The guest's FIN was read.
    pub(crate) const GUEST_FIN: u32 = 32;
    /// The outside's end of stream was read.
    pub(crate) const HOST_FIN: u32 = 64;
    /// The guest's FIN was passed on.
    pub(crate) const UP_OVER: u32 = 128;
    /// The outside's end of stream was passed on.
    pub(crate) const DOWN_OVER: u32 = 256;
    /// The guest has announced urgent data.
    pub(crate) const GUEST_URGENT: u32 = 512;
    /// The outside has announced urgent data.
    pub(crate) const HOST_URGENT: u32 = 1024;
    /// The guest's connection has ended, well or not.
    pub(crate) const GUEST_CLOSED: u32 = 2048;
    /// The outside reports an error, or the result of a connect.
    pub(crate) const HOST_EVENT: u32 = 4096;
    /// From outside to a published port.
    pub(crate) const INBOUND: u32 = 8192;
    /// The outside is connected, and the SYN is awaited again; or the guest is connected.
    pub(crate) const CONNECTED: u32 = 16_384;
    /// The first direction of the next turn is that from the guest.
    pub(crate) const UP_FIRST: u32 = 32_768;
    /// On the list of flows that found no buffer.
    pub(crate) const STARVED: u32 = 65_536;
    /// The policy wants to see the guest's first bytes.
    pub(crate) const HELLO: u32 = 131_072;
}

/// Bytes that one side gave and the other did not take at once.
#[derive(Default)]
pub(crate) struct Staged {
    /// From the guest.
    pub(crate) up: VecDeque<Mbuf>,
    /// The urgent byte behind them.
    pub(crate) urgent: Option<u8>,
    /// From the outside.
    pub(crate) down: VecDeque<Mbuf>,
}

impl Staged {
    fn is_empty(&self) -> bool {
        self.up.is_empty() && self.urgent.is_none() && self.down.is_empty()
    }
}

/// A flow.
pub(crate) struct Flow<T> {
    pub(crate) ends: Ends,
    pub(crate) outer: Option<T>,
    pub(crate) guest: Leg,
    /// Only while a side is full.
    pub(crate) staged: Option<Box<Staged>>,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
    /// When it began.
    pub(crate) since: Instant,
    /// The second in which it last moved a byte.
    pub(crate) active_s: u32,
    pub(crate) bits: u32,
    pub(crate) state: State,
    /// Buffers into which the outside's next bytes are received.
    pub(crate) buffers: u8,
}

// A host may have thousands, most of them idle.
const _: () = assert!(size_of::<Flow<std::os::fd::OwnedFd>>() <= 128);

impl<T> Flow<T> {
    pub(crate) fn new(ends: Ends, guest: Leg, state: State, now: Instant) -> Flow<T> {
        Flow {
            ends,
            outer: None,
            guest,
            staged: None,
            bytes_up: 0,
            bytes_down: 0,
            since: now,
            active_s: second(now),
            bits: 0,
            state,
            buffers: BUFFERS_FIRST,
        }
    }

    pub(crate) fn has(&self, bits: u32) -> bool {
        self.bits & bits != 0
    }

    pub(crate) fn set(&mut self, bits: u32) {
        self.bits |= bits;
    }

    pub(crate) fn clear(&mut self, bits: u32) {
        self.bits &= !bits;
    }

    /// Until when it may wait for what it waits for.
    pub(crate) fn deadline(&self) -> Instant {
        self.state.deadline(self.since)
    }

    /// The place for bytes that wait; see [`Flow::settle`].
    pub(crate) fn staged(&mut self, spare: &mut Option<Box<Staged>>) -> &mut Staged {
        self.staged.get_or_insert_with(|| spare.take().unwrap_or_default())
    }

    /// A call received so many bytes, in buffers of this size: have one buffer more than that takes
    /// for the next call, or twice as many if all were filled.
    pub(crate) fn expect_bytes(&mut self, bytes: usize, buffer_bytes: usize, is_full: bool) {
        let used = bytes.div_ceil(buffer_bytes.max(1));
        let next = if is_full { 2 * usize::from(self.buffers) } else { used + 1 };
        self.buffers = next.clamp(1, BUFFERS_MAX.into()) as u8;
    }

    /// Does something of the guest wait for the outside?
    pub(crate) fn stages_up(&self) -> bool {
        self.staged.as_ref().is_some_and(|staged| !staged.up.is_empty() || staged.urgent.is_some())
    }

    /// Does something of the outside wait for the guest?
    pub(crate) fn stages_down(&self) -> bool {
        self.staged.as_ref().is_some_and(|staged| !staged.down.is_empty())
    }

    /// If no bytes wait, their place is for the next flow.
    pub(crate) fn settle(&mut self, spare: &mut Option<Box<Staged>>) {
        if self.staged.as_ref().is_some_and(|staged| staged.is_empty()) {
            *spare = self.staged.take();
        }
    }

    /// Are both halves over?
    pub(crate) fn is_over(&self) -> bool {
        self.has(bit::UP_OVER) && self.has(bit::DOWN_OVER)
    }

    /// Note which halves are open.
    pub(crate) fn name_state(&mut self) {
        self.state = match (self.has(bit::UP_OVER), self.has(bit::DOWN_OVER)) {
            (true, _) => State::HalfGuest,
            (false, true) => State::HalfHost,
            (false, false) if self.has(bit::HELLO) => State::Hello,
            (false, false) => State::Open,
        };
    }
}

/// The second of a time.
pub(crate) fn second(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}
