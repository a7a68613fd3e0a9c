//! Datagrams and echo requests for addresses that are not ours, kept for the program: a gateway or
//! a proxy that answers in the name of every host. What listeners at `0.0.0.0:0` are for TCP, this
//! is for UDP and echo.
//!
//! Errors about datagrams that the program has sent in another host's name come to it as well.
//!
//! Called by: `input.rs` and `newcomers.rs` for what arrives; `answers.rs` and
//! `socket/udp/between.rs` send answers. Off unless [`crate::StackConfig::foreign`] says otherwise.
//! Packets for us do not come here, and packets that a router forwards do not either. Limits:
//! `foreign_datagrams`, `foreign_bytes`, `foreign_errors_per_second`. Counters: `foreign_in`,
//! `foreign_echo_replies`, `foreign_errors`; drop reason: `foreign_queue_full`.

mod answers;
pub(crate) mod input;
pub(crate) mod newcomers;

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use base::{DropReason, Limit, PerSecond};
use inet::icmp::ErrorKind;
use mbuf::Mbuf;
pub use newcomers::RouterSolicitation;
use tcp::Cx;

use crate::config::Foreign;
use crate::handles::{Event, PortId};

/// What a datagram for another host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForeignKind {
    /// A UDP datagram; its ports are in the addresses.
    Udp,
    /// An ICMP or ICMPv6 echo request; the ports of its addresses are 0.
    Echo {
        /// Its identifier.
        id: u16,
        /// Its sequence number.
        seq: u16,
    },
}

/// Source, destination and kind of a datagram for another host: the key of a session, and what an
/// ICMP error about the datagram quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForeignFlow {
    /// The sender; a link-local IPv6 address has the scope of the port.
    pub src: SocketAddr,
    /// The destination: no address of ours, no group and no broadcast address.
    pub dst: SocketAddr,
    /// UDP or echo.
    pub kind: ForeignKind,
}

/// A datagram for another host, as [`crate::Stack::foreign_receive`] returns it.
pub struct ForeignDatagram {
    /// From where, to where, and what it is.
    pub flow: ForeignFlow,
    /// The port that it came by.
    pub port: PortId,
    /// TTL or hop limit that it arrived with.
    pub ttl: u8,
    /// Type of service or traffic class; two low bits for ECN.
    pub tos: u8,
    /// Bytes of each datagram in `payload`, except for the last, which may be shorter, if a device
    /// delivered several at once (UDP_GRO); 0 for one datagram.
    pub segment_size: u16,
    /// The payload, behind the header of UDP or of the echo; the buffer in which it arrived.
    pub payload: Mbuf,
}

/// An error about a datagram that the program has sent in another host's name, as
/// [`crate::Stack::foreign_take_error`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignError {
    /// The datagram: from the other host, to the guest.
    pub about: ForeignFlow,
    /// What became of it.
    pub error: ErrorKind,
    /// The sender of the error: the guest, or a router on the way.
    pub from: IpAddr,
}

/// The datagrams that wait for the program, and the rate of its errors.
pub(crate) struct ForeignQueue {
    pub(crate) takes: Foreign,
    /// Each with the bytes of the buffer that it held when it came.
    queue: VecDeque<(usize, ForeignDatagram)>,
    /// Those bytes, of all of them.
    bytes: usize,
    reported: VecDeque<ForeignError>,
    solicitations: VecDeque<RouterSolicitation>,
    /// The rate of errors that the program sends.
    pub(crate) errors: PerSecond,
}

impl ForeignQueue {
    pub(crate) fn new(takes: Foreign) -> ForeignQueue {
        ForeignQueue {
            takes,
            queue: VecDeque::new(),
            bytes: 0,
            reported: VecDeque::new(),
            solicitations: VecDeque::new(),
            errors: PerSecond::default(),
        }
    }

    /// Keep an error; the first one causes an event.
    ///
    /// # Errors
    /// [`DropReason::ForeignQueueFull`].
    fn push_error(
        &mut self,
        error: ForeignError,
        cx: &mut Cx,
    ) -> Result<Option<Event>, DropReason> {
        if !cx.budget.admits(Limit::ForeignDatagrams, self.reported.len()) {
            return Err(DropReason::ForeignQueueFull);
        }
        self.reported.push_back(error);
        Ok((self.reported.len() == 1).then_some(Event::Foreign))
    }

    fn take_error(&mut self) -> Option<ForeignError> {
        let error = self.reported.pop_front()?;
        if self.reported.is_empty() {
            self.reported = VecDeque::new();
        }
        Some(error)
    }

    /// Keep a datagram; the first one causes an event.
    ///
    /// # Errors
    /// [`DropReason::ForeignQueueFull`].
    fn push(
        &mut self,
        datagram: ForeignDatagram,
        cx: &mut Cx,
    ) -> Result<Option<Event>, DropReason> {
        let held = datagram.payload.held_bytes();
        let bytes = self.bytes + held;
        let has_room = cx.budget.admits(Limit::ForeignDatagrams, self.queue.len());
        // `admits` counts a hit if the last byte has no room.
        if !has_room || !cx.budget.admits(Limit::ForeignBytes, bytes.saturating_sub(1)) {
            cx.pool.free(datagram.payload);
            return Err(DropReason::ForeignQueueFull);
        }
        self.bytes = bytes;
        self.queue.push_back((held, datagram));
        Ok((self.queue.len() == 1).then_some(Event::Foreign))
    }

    /// Move the oldest, at most `most`, to the end of `into`; returns how many.
    fn take(&mut self, into: &mut Vec<ForeignDatagram>, most: usize) -> usize {
        let count = self.queue.len().min(most);
        for (held, datagram) in self.queue.drain(..count) {
            self.bytes -= held;
            into.push(datagram);
        }
        if self.queue.is_empty() && self.queue.capacity() > 64 {
            // After a flood the queue gives its memory back.
            self.queue = VecDeque::new();
        }
        count
    }
}
