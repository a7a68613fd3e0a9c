//! The two sides of a transfer in memory: each is a stack with an end of every connection, driven
//! in turns. A turn polls, writes until less is taken than was given, and reads until nothing is
//! left.
//!
//! Called by: the loops (`one_thread`, `two_threads`); `connect.rs` makes the sides.

use anyhow::Result;
use wirespeed::device::Doorbell;
use wirespeed::pair::End;
use wirespeed::tcp::Info;
use wirespeed::{Instant, TcpHandle};

use super::data::{Sink, Source};
use super::{tcp, udp};

/// Connections whose state a stalled transfer tells.
const TOLD_MAX: usize = 4;

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Some work was done.
    Worked,
    /// There was nothing to do.
    Idle,
    /// This side is done, and the other one knows.
    Done,
}

/// A stack and its ends of the connections. The first side sends; the second one does, too, if data
/// moves both ways.
pub(super) struct Side {
    pub(super) end: End,
    pub(super) bell: Doorbell,
    pub(super) streams: Vec<Stream>,
    /// Which of them is first in the next turn: it finds most room at the device.
    first: usize,
}

/// An end of a connection, or a UDP socket.
pub(super) struct Stream {
    pub(super) send: Option<Sending>,
    pub(super) receive: Option<Receiving>,
    /// Of TCP, until this end lets go of it.
    pub(super) conn: Option<TcpHandle>,
    /// The connection's statistics when this end let go.
    last_info: Option<Info>,
}

/// What an end sends.
pub(super) struct Sending {
    pub(super) by: Sender,
    pub(super) source: Source,
    pub(super) bytes: u64,
    pub(super) calls: u64,
    /// All was written, and has left if it is UDP.
    is_done: bool,
}

pub(super) enum Sender {
    Tcp(tcp::Sender),
    Udp(udp::Sender),
}

/// What an end receives.
pub(super) struct Receiving {
    pub(super) by: Receiver,
    pub(super) sink: Sink,
    pub(super) bytes: u64,
    pub(super) calls: u64,
    /// When everything had arrived.
    pub(super) finished_at: Option<Instant>,
}

pub(super) enum Receiver {
    Tcp(tcp::Receiver),
    Udp(udp::Receiver),
}

impl Side {
    pub(super) fn new(end: End, bell: Doorbell, streams: Vec<Stream>) -> Side {
        Side { end, bell, streams, first: 0 }
    }

    /// Poll, write and read. `peer_has_sent`, which was so before the turn, ends datagrams: if
    /// there is nothing to do then, no more come.
    #[inline]
    pub(super) fn turn(&mut self, now: Instant, peer_has_sent: bool) -> Result<Turn> {
        let polled = self.end.stack.poll(now);
        while self.end.stack.next_event().is_some() {}
        let mut worked = polled > 0;
        let (behind, ahead) = self.streams.split_at_mut(self.first);
        for stream in ahead.iter_mut().chain(behind) {
            worked |= stream.turn(&mut self.end, now)?;
        }
        self.first = (self.first + 1) % self.streams.len().max(1);
        self.end.stack.flush();
        if !worked && peer_has_sent {
            worked = self.end_datagrams(now);
        }
        Ok(if self.is_over() {
            Turn::Done
        } else if worked {
            Turn::Worked
        } else {
            Turn::Idle
        })
    }

    /// All datagrams have arrived that ever will; was that new?
    fn end_datagrams(&mut self, now: Instant) -> bool {
        let is_open = |r: &&mut Receiving| r.finished_at.is_none() && r.is_udp();
        let receives = self.streams.iter_mut().filter_map(|stream| stream.receive.as_mut());
        receives.filter(is_open).map(|receive| receive.finished_at = Some(now)).count() > 0
    }

    fn is_over(&self) -> bool {
        let is_over = |s: &Stream| s.conn.is_none() && s.has_sent() && s.has_received();
        self.streams.iter().all(is_over) && self.end.stack.connection_count() == 0
    }

    /// Was everything sent, if anything is sent at all?
    pub(super) fn has_sent(&self) -> bool {
        self.streams.iter().all(Stream::has_sent)
    }

    /// Has everything arrived, if anything is received at all?
    pub(super) fn has_received(&self) -> bool {
        self.streams.iter().all(Stream::has_received)
    }

    pub(super) fn sends(&self) -> bool {
        self.streams.iter().any(|stream| stream.send.is_some())
    }

    /// End what is sent here.
    pub(super) fn stop(&mut self) {
        self.streams.iter_mut().flat_map(|s| &mut s.send).for_each(|send| send.source.stop());
    }

    /// Is a file to be read or hashed before it goes on?
    #[inline]
    pub(super) fn awaits_file(&self) -> bool {
        self.streams.iter().any(|stream| {
            stream.send.as_ref().is_some_and(|send| send.source.is_dry())
                || stream.receive.as_ref().is_some_and(|receive| receive.sink.is_full())
        })
    }

    /// Read and hash what is sent, and hash what was received; takes time.
    pub(super) fn attend_files(&mut self) -> Result<()> {
        for stream in &mut self.streams {
            if let Some(receive) = &mut stream.receive {
                receive.sink.drain(&mut self.end.stack);
            }
            if let Some(send) = &mut stream.send
                && send.source.is_dry()
            {
                send.source.refill()?;
            }
        }
        Ok(())
    }

    /// Bytes sent and received.
    pub(super) fn moved(&self) -> u64 {
        let moved = |s: &Stream| {
            s.send.as_ref().map_or(0, |send| send.bytes)
                + s.receive.as_ref().map_or(0, |receive| receive.bytes)
        };
        self.streams.iter().map(moved).sum()
    }

    /// For the error message of a stalled transfer.
    pub(super) fn state(&self) -> String {
        let stack = &self.end.stack;
        let open = self.streams.iter().filter(|s| !s.has_sent() || !s.has_received());
        let states = open.take(TOLD_MAX).map(|stream| match stream.conn {
            Some(conn) => format!("{:?}", stack.tcp_info(conn)),
            None => "datagrams".to_owned(),
        });
        let states: Vec<String> = states.collect();
        format!("{} bytes moved; {}", self.moved(), states.join("; "))
    }
}

impl Stream {
    pub(super) fn new(
        conn: Option<TcpHandle>,
        send: Option<Sending>,
        receive: Option<Receiving>,
    ) -> Stream {
        Stream { send, receive, conn, last_info: None }
    }

    /// Write and read; did anything move?
    #[inline]
    fn turn(&mut self, end: &mut End, now: Instant) -> Result<bool> {
        let mut worked = false;
        if let Some(send) = &mut self.send
            && !send.is_done
        {
            worked |= send.turn(end, now)?;
        }
        if let Some(receive) = &mut self.receive
            && receive.finished_at.is_none()
        {
            worked |= receive.turn(end, now)?;
        }
        if let Some(conn) = self.conn
            && self.has_sent()
            && self.peer_has_ended(end, conn)
        {
            self.last_info = end.stack.tcp_info(conn);
            end.stack.tcp_close(conn);
            self.conn = None;
            worked = true;
        }
        Ok(worked)
    }

    fn peer_has_ended(&self, end: &End, conn: TcpHandle) -> bool {
        match &self.receive {
            Some(receive) => receive.finished_at.is_some(),
            None => end.stack.tcp_readable(conn).is_none_or(|(_, closed)| closed),
        }
    }

    fn has_sent(&self) -> bool {
        self.send.as_ref().is_none_or(|send| send.is_done)
    }

    fn has_received(&self) -> bool {
        self.receive.as_ref().is_none_or(|receive| receive.finished_at.is_some())
    }

    /// The connection's statistics, or the last ones before it ended.
    pub(super) fn info(&self, end: &End) -> Option<Info> {
        self.conn.and_then(|conn| end.stack.tcp_info(conn)).or(self.last_info)
    }

    /// Segments that this end has retransmitted.
    pub(super) fn retransmits(&self, end: &End) -> u64 {
        self.info(end).map_or(0, |info| u64::from(info.retransmits))
    }
}

impl Sending {
    pub(super) fn new(by: Sender, source: Source) -> Sending {
        Sending { by, source, bytes: 0, calls: 0, is_done: false }
    }

    #[inline]
    fn turn(&mut self, end: &mut End, now: Instant) -> Result<bool> {
        let (bytes, calls) = match &mut self.by {
            Sender::Tcp(tcp) => tcp.write(end, &mut self.source)?,
            Sender::Udp(udp) => udp.send(end, &mut self.source, now)?,
        };
        self.bytes += bytes;
        self.calls += calls;
        self.is_done = match &self.by {
            Sender::Tcp(tcp) => tcp.shut,
            Sender::Udp(_) => self.source.finished() && udp::all_left(end),
        };
        Ok(bytes > 0 || self.is_done)
    }
}

impl Receiving {
    pub(super) fn new(by: Receiver, sink: Sink) -> Receiving {
        Receiving { by, sink, bytes: 0, calls: 0, finished_at: None }
    }

    #[inline]
    fn turn(&mut self, end: &mut End, now: Instant) -> Result<bool> {
        match &mut self.by {
            Receiver::Tcp(tcp) => {
                let (bytes, calls, eof) = tcp.read(end, &mut self.sink)?;
                self.bytes += bytes;
                self.calls += calls;
                self.finished_at = eof.then_some(now);
                Ok(bytes > 0 || eof)
            }
            Receiver::Udp(udp) => {
                let datagrams = udp.receive(end)?;
                self.bytes += datagrams * udp.length as u64;
                self.calls += datagrams;
                Ok(datagrams > 0)
            }
        }
    }

    fn is_udp(&self) -> bool {
        matches!(self.by, Receiver::Udp(_))
    }
}
