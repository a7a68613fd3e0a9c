//! The TCP and the sockets of 4.3BSD as an RPC library of 1989 used them, in virtual time: two
//! hosts of 3 million instructions a second on a 10 Mb/s Ethernet, and one connection.
//!
//! Called by: `elbow.rs`, tests. It is a model of the rules that make the elbow, written from the
//! descriptions of that system; it uses no code of our stack. Sources: RFC 896 (Nagle), RFC 1122
//! section 4.2.3.2 (delayed ACKs), and the published measurements in `sizes.rs`.
//!
//! The rules. A write blocks while the send buffer is full. A write of a cluster or more also
//! blocks while less than a cluster is free and a cluster is queued. Otherwise it fills the free
//! space. A segment shorter than the MSS leaves if nothing was in flight when output began (Nagle).
//! Data is acknowledged when the program has read two segments, or 35 % of the buffer, since the
//! last ACK; with a reply; or by a timer that fires every 200 ms, however long ago the data
//! arrived. The server's program runs when no interrupt needs the processor, so that it usually
//! finds a whole window of data.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use device::fault::Rng;

use super::point::Causes;

/// Bytes of the send buffer, and of the receive buffer.
const BUFFER: u64 = 4096;
pub(super) const MSS: u64 = 1024;
/// An mbuf cluster: the unit of room that a write waits for.
const CLUSTER: u64 = 1024;
/// The share of the receive buffer that an ACK must free.
const UPDATE_PERCENT: u64 = 35;
/// The tick of the timer that sends delayed ACKs.
const FAST_TICK: u64 = 200 * MS;
/// Bytes of a call before its argument, and of a reply.
const CALL_BYTES: u64 = 44;
const REPLY_BYTES: u64 = 28;
/// The record mark before a fragment.
const MARK_BYTES: u64 = 4;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
/// Processor time: of the library for a call, of a process that wakes, of a segment, of each byte
/// sent (driver and checksum), of each byte received, of each byte copied to or from a program, and
/// of XDR for each byte. The values were chosen so that the model gives both published tables. The
/// elbow at 4,096 and 8,192 does not depend on them; the remedy's elbow at 16,392 does, as it is a
/// race between the two programs.
const CALL_NS: u64 = 1_900 * US;
const WAKE_NS: u64 = 1_450 * US;
const SEGMENT_NS: u64 = 400 * US;
const SENT_NS_PER_BYTE: u64 = 620;
const RECEIVED_NS_PER_BYTE: u64 = 180;
const COPY_NS_PER_BYTE: u64 = 120;
const XDR_NS_PER_BYTE: u64 = 1_350;
/// Processor time of a system call that follows another one.
const SYSCALL_NS: u64 = 100 * US;
/// 10 Mb/s; bytes of each frame's headers and check sequence (Ethernet, IP, TCP), preamble, and
/// gap.
const WIRE_NS_PER_BYTE: u64 = 800;
const HEADER_BYTES: u64 = 14 + 4 + 20 + 20 + 8 + 12;
/// How often in a thousand segments another interrupt or process (the clock, a daemon) delays the
/// next segment, and for how long at most.
const OTHERS_PER_MILLE: u32 = 5;
const OTHERS_NS: u64 = MS;

/// The version of the RPC library: how it writes, and its socket options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// As delivered: fragments and writes of 4,000 bytes.
    Delivered,
    /// With the vendor's remedy: buffers of 24,000 bytes in the library.
    Remedy,
    /// One write for a whole record, with TCP_NODELAY: no segment waits for an ACK.
    Fixed,
}

impl Library {
    /// Bytes of the library's send buffer, which are those of a fragment and of a write.
    fn send_bytes(self) -> u64 {
        match self {
            Library::Delivered => 4_000,
            Library::Remedy => 24_000,
            Library::Fixed => 1 << 20,
        }
    }

    fn receive_bytes(self) -> u64 {
        if self == Library::Delivered { 4_000 } else { 24_000 }
    }

    /// The writes that a call makes.
    fn writes(self, argument: u32) -> Vec<u64> {
        let mut left = CALL_BYTES + u64::from(argument.next_multiple_of(4));
        let most = self.send_bytes() - MARK_BYTES;
        let mut writes = Vec::new();
        while left > 0 {
            let body = left.min(most);
            writes.push(body + MARK_BYTES);
            left -= body;
        }
        writes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A segment of data is in the server's memory.
    Data { bytes: u64 },
    /// The server's TCP has processed the segment.
    Taken { bytes: u64 },
    /// An ACK is at the client: of the bytes up to `to`, with a window that ends at `edge`, and
    /// maybe with the reply.
    Ack { to: u64, edge: u64, is_reply: bool },
    /// The timer of delayed ACKs at the server.
    FastTick,
}

/// When a program continues: from then on it has the processor.
type Due = Option<u64>;

/// Both hosts and the wire.
pub(super) struct World {
    library: Library,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    rng: Rng,
    /// When each host's processor has finished its interrupts; `wire` is when the wire has finished
    /// its frames.
    busy: [u64; 2],
    wire: u64,
    client: Client,
    server: Server,
    causes: Causes,
}

#[derive(Default)]
struct Client {
    /// The writes that the call still has to make, the last one first, and the bytes that are left
    /// of the present write.
    writes: Vec<u64>,
    resid: u64,
    /// Bytes in the send buffer, and stream positions.
    queued: u64,
    una: u64,
    nxt: u64,
    /// The end of the peer's window.
    edge: u64,
    due: Due,
    blocked: Due,
    has_reply: bool,
}

#[derive(Default)]
struct Server {
    /// Bytes in the receive buffer, and stream positions.
    queued: u64,
    nxt: u64,
    edge: u64,
    delays: bool,
    due: Due,
    /// The program waits for data.
    sleeps: bool,
    /// Bytes of the call that the program has not read.
    left: u64,
}

impl World {
    pub(super) fn new(library: Library, seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let first = u64::from(rng.below(FAST_TICK as usize) as u32);
        let mut world = World {
            library,
            now: 0,
            events: BinaryHeap::new(),
            order: 0,
            rng,
            busy: [0; 2],
            wire: 0,
            client: Client { edge: BUFFER, ..Client::default() },
            server: Server { edge: BUFFER, sleeps: true, ..Server::default() },
            causes: Causes::default(),
        };
        world.at(first, Event::FastTick);
        world
    }

    /// Make calls one after the other. Returns the nanoseconds that they took.
    pub(super) fn calls(&mut self, argument: u32, calls: u32) -> u64 {
        let begun = self.now;
        for _ in 0..calls {
            self.call(argument);
        }
        self.now - begun
    }

    /// The causes since the last call of this function.
    pub(super) fn take_causes(&mut self) -> Causes {
        core::mem::take(&mut self.causes)
    }

    fn call(&mut self, argument: u32) {
        let mut writes = self.library.writes(argument);
        self.server.left = writes.iter().sum();
        writes.reverse();
        self.client.writes = writes;
        self.client.has_reply = false;
        let encodes = XDR_NS_PER_BYTE * u64::from(argument);
        self.client.due = Some(self.now + CALL_NS + encodes);
        self.busy[0] = self.busy[0].max(self.now);
        while !self.client.has_reply {
            self.step();
        }
        // The reply wakes the client's program.
        self.now += WAKE_NS + CALL_NS;
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    /// Do what is next in time: an event, or a program that continues.
    fn step(&mut self) {
        let event = self.events.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let client = self.client.due.unwrap_or(u64::MAX);
        let server = self.server.due.unwrap_or(u64::MAX);
        let next = event.min(client).min(server);
        self.now = self.now.max(next);
        if next == event {
            let Some(Reverse((_, _, event))) = self.events.pop() else { return };
            self.take(event);
        } else if next == client {
            self.client.due = None;
            self.write();
        } else {
            self.server.due = None;
            self.read();
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Data { bytes } => {
                let done = self.interrupt(1, SEGMENT_NS + RECEIVED_NS_PER_BYTE * bytes);
                self.at(done, Event::Taken { bytes });
            }
            Event::Taken { bytes } => {
                let server = &mut self.server;
                server.nxt += bytes;
                server.queued += bytes;
                server.delays = true;
                if server.sleeps {
                    server.sleeps = false;
                    server.due = Some(self.now.max(self.busy[1]) + WAKE_NS);
                }
            }
            Event::Ack { to, edge, is_reply } => {
                self.interrupt(0, SEGMENT_NS);
                let client = &mut self.client;
                client.queued -= to - client.una;
                client.una = to;
                client.edge = edge;
                client.has_reply |= is_reply;
                if let Some(since) = client.blocked.take() {
                    client.due = Some(self.now.max(self.busy[0]) + WAKE_NS);
                    self.causes.blocked_ns += self.now - since;
                }
                // TCP's output runs first: the program that waits for room has not run yet.
                self.output();
            }
            Event::FastTick => {
                if self.server.delays {
                    self.causes.delayed_acks += 1;
                    self.acknowledge(false);
                }
                self.at(self.now + FAST_TICK, Event::FastTick);
            }
        }
    }

    /// A host's processor does the work of an interrupt before any program's. Returns the time at
    /// which the work is done.
    fn interrupt(&mut self, host: usize, takes: u64) -> u64 {
        self.busy[host] = self.busy[host].max(self.now) + takes;
        let due = if host == 0 { &mut self.client.due } else { &mut self.server.due };
        if let Some(due) = due {
            *due += takes;
        }
        self.busy[host]
    }

    /// The client's program writes until it has to wait.
    fn write(&mut self) {
        let client = &mut self.client;
        if client.resid == 0 {
            let Some(next) = client.writes.pop() else { return };
            client.resid = next;
        }
        let space = BUFFER - client.queued;
        let waits_for_cluster =
            client.resid >= CLUSTER && space < CLUSTER && client.queued >= CLUSTER;
        if space == 0 || waits_for_cluster {
            client.blocked = Some(self.now);
            return;
        }
        let bytes = space.min(client.resid);
        client.resid -= bytes;
        client.queued += bytes;
        self.now += COPY_NS_PER_BYTE * bytes;
        self.output();
        let goes_on = self.client.resid > 0 || !self.client.writes.is_empty();
        self.client.due = goes_on.then(|| self.now.max(self.busy[0]) + SYSCALL_NS);
    }

    /// Send the segments that the window and Nagle's algorithm allow.
    fn output(&mut self) {
        let idle = self.client.una == self.client.nxt;
        loop {
            let client = &self.client;
            let off = client.nxt - client.una;
            let window = client.edge - client.una;
            let ready = client.queued.min(window).saturating_sub(off);
            if ready == 0 {
                return;
            }
            let bytes = ready.min(MSS);
            let is_last = off + bytes >= client.queued;
            let may_be_short = idle || self.library == Library::Fixed;
            if bytes < MSS && !(may_be_short && is_last) {
                self.causes.nagle_holds += 1;
                return;
            }
            self.send(bytes);
        }
    }

    /// Send one segment onto the wire.
    fn send(&mut self, bytes: u64) {
        self.client.nxt += bytes;
        self.causes.segments += 1;
        if (self.rng.below(1000) as u32) < OTHERS_PER_MILLE {
            let takes = self.rng.below(OTHERS_NS as usize) as u64;
            self.interrupt(0, takes);
        }
        let ready = self.interrupt(0, SEGMENT_NS + SENT_NS_PER_BYTE * bytes);
        let there = self.transmit(ready, bytes);
        self.at(there, Event::Data { bytes });
    }

    fn transmit(&mut self, ready: u64, bytes: u64) -> u64 {
        let bytes = (bytes + HEADER_BYTES).max(64 + 20);
        self.wire = self.wire.max(ready) + WIRE_NS_PER_BYTE * bytes;
        self.wire
    }

    /// The server's program reads.
    fn read(&mut self) {
        let server = &mut self.server;
        let bytes = server.queued.min(self.library.receive_bytes());
        server.queued -= bytes;
        server.left = server.left.saturating_sub(bytes);
        self.now += COPY_NS_PER_BYTE * bytes;
        let room = BUFFER - server.queued;
        let offers = room - (server.edge - server.nxt);
        let is_over = server.left == 0;
        if offers >= 2 * MSS || offers * 100 >= BUFFER * UPDATE_PERCENT {
            self.acknowledge(false);
        }
        if is_over {
            self.now = self.now.max(self.busy[1]) + CALL_NS;
            self.acknowledge(true);
            self.server.sleeps = true;
        } else if self.server.queued > 0 {
            self.server.due = Some(self.now.max(self.busy[1]) + SYSCALL_NS);
        } else {
            self.server.sleeps = true;
        }
    }

    /// The server sends an ACK, with the reply or without.
    fn acknowledge(&mut self, is_reply: bool) {
        let server = &mut self.server;
        server.delays = false;
        server.edge = server.nxt + BUFFER - server.queued;
        let (to, edge) = (server.nxt, server.edge);
        self.causes.segments += 1;
        let bytes = if is_reply { REPLY_BYTES } else { 0 };
        let ready = self.interrupt(1, SEGMENT_NS + SENT_NS_PER_BYTE * bytes);
        let there = self.transmit(ready, bytes);
        self.at(there, Event::Ack { to, edge, is_reply });
    }
}
