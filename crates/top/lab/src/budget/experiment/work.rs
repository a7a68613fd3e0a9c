//! The work that is measured: a sender and a receiver in memory, and a router in memory, all on
//! this thread, one burst after the other. Every turn records when a role's part begins and ends,
//! so that the time of a sample says to which role the sample belongs.
//!
//! Called by: `round.rs` and `counted.rs`.

use std::net::SocketAddr;
use std::time::{Duration, Instant as Clock};

use base::{Instant, Mtu, Owner};
use stack::pair::{End, PairConfig, pair};
use stack::{CallError, ListenConfig, ListenerHandle, TcpHandle};

use crate::Error;
use crate::forward::{Rig, Shape};

/// Packets in a turn: one burst.
const BURST: usize = 32;

/// Bytes of IPv4 and TCP headers with timestamps.
const TCP_HEADERS: usize = 20 + 32;
/// Bytes of an Ethernet header.
const ETHER_HEADER: usize = 14;

const PORT: u16 = 5001;

/// Packets until windows are open. At the start the sender waits for delayed ACKs.
const WARM_PACKETS: f64 = 4_000.0;
/// The most time for these packets. They take milliseconds, and more under a simulator.
const WARM_UP: Duration = Duration::from_secs(10);

/// The role whose cost is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Writes data, sends it, processes the ACKs.
    Sender,
    /// Receives, reads, acknowledges.
    Receiver,
    /// Forwards.
    Forwarder,
}

impl Role {
    /// In the order of tables.
    pub const ALL: [Role; 3] = [Role::Sender, Role::Receiver, Role::Forwarder];

    /// The name in tables and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Sender => "sender",
            Role::Receiver => "receiver",
            Role::Forwarder => "forwarder",
        }
    }
}

/// Work that is done in turns.
pub(super) enum Work {
    Ends(Box<Ends>),
    Router(Box<Router>),
}

impl Work {
    /// The work of a role with packets of `size` bytes, IP header included. The sender's and the
    /// receiver's work are the same: a connection has both.
    pub(super) fn new(role: Role, size: usize) -> Result<Work, Error> {
        Ok(match role {
            Role::Sender | Role::Receiver => Work::Ends(Box::new(Ends::new(size)?)),
            Role::Forwarder => Work::Router(Box::new(Router::new(size)?)),
        })
    }

    /// Work until windows are open and caches are warm, or return an error after [`WARM_UP`].
    pub(super) fn warm_up(&mut self) -> Result<(), Error> {
        let (begun, mut packets) = (Clock::now(), 0.0);
        while packets < WARM_PACKETS {
            packets += self.turn(&mut |_| {})?;
            if begun.elapsed() > WARM_UP {
                return Err(failed("too few packets within ten seconds", packets));
            }
        }
        Ok(())
    }

    /// Do one turn. `mark` is called with `Some` when the part of a role begins, and with `None`
    /// when it ends. Returns the number of packets that were moved.
    pub(super) fn turn(&mut self, mark: &mut impl FnMut(Option<Role>)) -> Result<f64, Error> {
        match self {
            Work::Ends(ends) => ends.turn(mark),
            Work::Router(router) => router.turn(mark),
        }
    }

    /// Do one turn, with the part of one role inside [`budget_counted_part`].
    pub(super) fn counted_turn(&mut self, role: Role) -> Result<f64, Error> {
        let now = |clock: &Clock| Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1);
        match self {
            Work::Ends(ends) => {
                let now = now(&ends.clock);
                let mut read = Ok(0);
                match role {
                    Role::Sender => budget_counted_part(&mut || sender_turn(ends, now)),
                    _ => sender_turn(ends, now),
                }
                match role {
                    Role::Receiver => {
                        budget_counted_part(&mut || read = receiver_turn(ends, now));
                    }
                    _ => read = receiver_turn(ends, now),
                }
                Ok(read? as f64 / ends.payload as f64)
            }
            Work::Router(router) => {
                let now = now(&router.clock);
                let offered = router.rig.offer(BURST);
                budget_counted_part(&mut || router_turn(&mut router.rig, now));
                router.drained(offered)
            }
        }
    }
}

/// The simulator counts this function by its name (`counted.rs`).
#[inline(never)]
fn budget_counted_part(part: &mut dyn FnMut()) {
    part();
}

fn failed(what: &str, error: impl std::fmt::Debug) -> Error {
    Error::Failed(format!("{what}: {error:?}; please report this line"))
}

/// A connection in memory.
pub(super) struct Ends {
    client: End,
    server: End,
    stream: TcpHandle,
    listener: ListenerHandle,
    accepted: Option<TcpHandle>,
    data: Vec<u8>,
    into: Vec<u8>,
    payload: usize,
    clock: Clock,
}

impl Ends {
    fn new(size: usize) -> Result<Ends, Error> {
        let mut config = PairConfig::new([0x026, 0x1988]);
        config.wire.mtu = Mtu::new(size).ok_or_else(|| failed("no MTU", size))?;
        config.wire.depth_bytes = 4 * BURST * size.max(1_500);
        let (mut client, mut server) = pair(&config);
        let to = SocketAddr::new(server.addr, PORT);
        let listening = server.stack.tcp_listen(to, ListenConfig::default());
        let listener = listening.map_err(|e| failed("listen", e))?;
        let settings = tcp::Config { no_delay: true, ..tcp::Config::default() };
        let clock = Clock::now();
        let now = Instant::from_nanos(1);
        let opened = client.stack.tcp_connect(to, None, &settings, Owner::program(), now);
        let stream = opened.map_err(|e| failed("connect", e))?;
        let payload = size.saturating_sub(TCP_HEADERS).max(1);
        let (data, into) = (vec![7; BURST * payload], vec![0; BURST * payload]);
        Ok(Ends { client, server, stream, listener, accepted: None, data, into, payload, clock })
    }

    fn turn(&mut self, mark: &mut impl FnMut(Option<Role>)) -> Result<f64, Error> {
        let now = Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1);
        mark(Some(Role::Sender));
        sender_turn(self, now);
        mark(Some(Role::Receiver));
        let read = receiver_turn(self, now)?;
        mark(None);
        if self.accepted.is_none() {
            self.accepted = self.server.stack.tcp_accept(self.listener);
        }
        Ok(read as f64 / self.payload as f64)
    }
}

#[inline(never)]
fn sender_turn(ends: &mut Ends, now: Instant) {
    let stack = &mut ends.client.stack;
    stack.poll(now);
    while stack.next_event().is_some() {}
    // A write may take only a part of the data: all data is the same, so nothing is lost.
    let _ = stack.tcp_write(ends.stream, &ends.data);
    stack.flush();
}

#[inline(never)]
fn receiver_turn(ends: &mut Ends, now: Instant) -> Result<usize, Error> {
    let stack = &mut ends.server.stack;
    stack.poll(now);
    while stack.next_event().is_some() {}
    let mut bytes = 0;
    while let Some(stream) = ends.accepted {
        match stack.tcp_read(stream, &mut ends.into) {
            Ok(0) | Err(CallError::WouldBlock) => break,
            Ok(n) => bytes += n,
            Err(error) => return Err(failed("read", error)),
        }
    }
    stack.flush();
    Ok(bytes)
}

/// A router between two wires in memory.
pub(super) struct Router {
    rig: Rig,
    clock: Clock,
}

impl Router {
    fn new(size: usize) -> Result<Router, Error> {
        let sizes = FRAMES.iter().find(|sizes| sizes[0] == size + ETHER_HEADER);
        let shape = sizes.map(|sizes| Shape { sizes, ..Shape::default() });
        let rig = shape.and_then(Rig::new).ok_or_else(|| failed("no router for packets", size))?;
        Ok(Router { rig, clock: Clock::now() })
    }

    fn turn(&mut self, mark: &mut impl FnMut(Option<Role>)) -> Result<f64, Error> {
        let now = Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1);
        let offered = self.rig.offer(BURST);
        mark(Some(Role::Forwarder));
        router_turn(&mut self.rig, now);
        mark(None);
        self.drained(offered)
    }

    /// Take the packets that the router forwarded; an error if any of those offered is missing.
    fn drained(&mut self, offered: usize) -> Result<f64, Error> {
        let passed = self.rig.drain();
        match passed == offered && offered > 0 {
            true => Ok(passed as f64),
            false => Err(failed("a router lost packets", self.rig.lost())),
        }
    }
}

#[inline(never)]
fn router_turn(rig: &mut Rig, now: Instant) {
    rig.turn(now);
}

/// Sizes of packets, in bytes with the IP header.
pub(super) const SIZES: [usize; 7] = [116, 256, 512, 1_024, 1_500, 4_096, 9_000];

/// The frames with packets of these sizes.
const FRAMES: [&[usize]; 7] = {
    const fn frame(at: usize) -> usize {
        SIZES[at] + ETHER_HEADER
    }
    [&[frame(0)], &[frame(1)], &[frame(2)], &[frame(3)], &[frame(4)], &[frame(5)], &[frame(6)]]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_moves_packets_of_every_size_and_says_when_it_begins() {
        for role in [Role::Sender, Role::Forwarder] {
            for size in SIZES {
                let mut work = Work::new(role, size).expect("made");
                // Without a warm-up, 400 turns may end before the first ACK arrives, which is
                // delayed. A busy machine may stop them for the length of a delayed ACK, too.
                work.warm_up().expect("warm");
                let (mut marks, mut packets, mut turns) = (Vec::new(), 0.0, 0);
                while packets <= 2_000.0 && turns < 400_000 {
                    packets += work.turn(&mut |role| marks.push(role)).expect("a turn");
                    turns += 1;
                }
                assert!(packets > 2_000.0, "{role:?} {size}: {packets} in {turns} turns");
                let expected: &[Option<Role>] = match role {
                    Role::Forwarder => &[Some(Role::Forwarder), None],
                    _ => &[Some(Role::Sender), Some(Role::Receiver), None],
                };
                assert!(marks.chunks(expected.len()).all(|turn| turn == expected));
            }
        }
    }
}
