//! Replays a recording to a stack of ours that reads everything, to measure the cost of a received
//! segment. Called by `icount.rs`; the time is virtual. Only [`Receiver::counted_receive`] is
//! counted, in which a burst is received, read and acknowledged. The frames are made outside it.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use base::{Counter, Instant, IpVersion, LinkKind, SeqNumber, WindowScale};
use device::mem::Mem;
use device::{BURST, Burst, Device, mem};
use mbuf::Pool;
use sim::seen::{self, Seen};
use stack::pair::{self, End, PairConfig};
use stack::{CallError, Event, ListenConfig};
use wire::tcp::{Flags, Options, Timestamps};

use super::{Ends, Recording, Says, Segment, frame};
use crate::measure;

/// The function whose instructions are counted.
pub const COUNTED: &str = "counted_receive";

const PORT: u16 = 5001;
const FIRST_PEER_PORT: u16 = 40_000;
/// The peer's timestamp clock when it connects, in milliseconds.
const PEER_CLOCK: u32 = 0x1234_5678;
/// How much virtual time passes for each burst. A burst of 64 full frames every 0.1 ms is 7.6 Gb/s.
const NS_PER_BURST: u64 = 100_000;

/// How the identifications of the replayed IPv4 packets are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// As they were in the recording.
    AsRecorded,
    /// At random for every packet.
    Random,
}

/// One connection of the recording.
struct Flow {
    ends: Ends,
    /// The flow's next sequence number. `ack` is the sequence number that the flow expects from us
    /// next.
    seq: SeqNumber,
    ack: SeqNumber,
    /// Our clock at the time of the flow's connection, as a timestamp.
    our_clock: u32,
}

/// Our end: a stack, and a program that reads the data.
struct Receiver {
    end: End,
    now: Instant,
    into: Vec<u8>,
    received: u64,
}

impl Receiver {
    /// Receives the frames on the wire, reads the data, and acknowledges it.
    #[inline(never)]
    fn counted_receive(&mut self) -> Result<()> {
        self.end.stack.poll(self.now);
        while let Some(event) = self.end.stack.next_event() {
            let Event::Tcp(handle, events) = event else { continue };
            if !events.has(tcp::Events::READABLE) {
                continue;
            }
            loop {
                match self.end.stack.tcp_read(handle, &mut self.into) {
                    Ok(n) => self.received += n as u64,
                    Err(CallError::WouldBlock) => break,
                    Err(error) => bail!("read: {error:?}"),
                }
            }
        }
        self.end.stack.flush();
        Ok(())
    }
}

struct Replay {
    receiver: Receiver,
    wire: Mem,
    pool: Pool,
    flows: Vec<Flow>,
    data: Vec<u8>,
    random: u64,
}

/// Replays `count` segments, beginning again with the recording as often as needed. They come in
/// full bursts, as from a device that always has frames. Returns the share of segments that
/// followed a leader.
///
/// # Errors
/// A segment is dropped or not delivered.
pub fn replay(recording: &Recording, ids: Ids, count: u64) -> Result<f64> {
    let mut replay = Replay::new(recording)?;
    let counters = |replay: &Replay| {
        let counters = replay.receiver.end.stack.counters();
        (counters.of(Counter::TcpSegmentsIn), counters.of(Counter::TcpFollowed))
    };
    let before = counters(&replay);
    let mut sent = 0;
    let (mut rounds, mut bytes) = (0, 0);
    'all: loop {
        // The clocks continue from where they were at the end of the last replay of the recording.
        let last = |of: fn(&Segment) -> u16| recording.segments.iter().map(of).max().unwrap_or(0);
        let passed = [last(|s| s.value), last(|s| s.echo)].map(|ms| rounds * (u32::from(ms) + 1));
        let mut left = &recording.segments[..];
        while !left.is_empty() {
            if sent >= count {
                break 'all;
            }
            // At first the window is the one of the handshake, which is not scaled and which is
            // smaller than a full burst.
            let most = if sent < 4 * BURST as u64 { BURST / 4 } else { BURST };
            let (burst, rest) = left.split_at(most.min(left.len()));
            left = rest;
            for segment in burst {
                replay.send(segment, passed, ids)?;
                bytes += u64::from(segment.len);
            }
            replay.receiver.now += base::Duration::from_nanos(NS_PER_BURST);
            replay.receiver.counted_receive()?;
            replay.take_answers();
            sent += burst.len() as u64;
        }
        rounds += 1;
    }
    let after = counters(&replay);
    let dropped = replay.receiver.end.stack.drops().total();
    ensure!(dropped == 0, "{dropped} segments were dropped");
    let received = replay.receiver.received;
    ensure!(received == bytes, "{received} of {bytes} bytes were delivered");
    Ok((after.1 - before.1) as f64 / (after.0 - before.0) as f64)
}

impl Replay {
    fn new(recording: &Recording) -> Result<Replay> {
        let mut config = PairConfig::new([0x1988, 0x1989]);
        config.wire.depth_bytes = 1 << 20;
        if recording.v6 {
            config.version = IpVersion::V6;
        }
        let (left, wire) = mem::pair(&config.wire);
        let end = pair::end(&config, left, 1);
        let (now, into) = (Instant::from_nanos(1_000_000_000), vec![0; 128 << 10]);
        let mut replay = Replay {
            receiver: Receiver { end, now, into, received: 0 },
            wire,
            pool: Pool::new(64 << 20),
            flows: Vec::new(),
            data: measure::pattern(1 << 16),
            random: 1,
        };
        let to = SocketAddr::new(replay.receiver.end.addr, PORT);
        let tcp = tcp::Config { receive_buffer_bytes: 512 << 10, ..tcp::Config::default() };
        let listen = ListenConfig { backlog: 256, tcp, ..ListenConfig::default() };
        let stack = &mut replay.receiver.end.stack;
        let listener = stack.tcp_listen(to, listen).map_err(|e| anyhow::anyhow!("{e:?}"))?;
        for flow in 0..recording.flows {
            replay.connect(recording.v6, flow)?;
            let stack = &mut replay.receiver.end.stack;
            while stack.next_event().is_some() {}
            stack.tcp_accept(listener).context("no connection was accepted")?;
        }
        Ok(replay)
    }

    /// Make a handshake with the options that Linux sends.
    fn connect(&mut self, v6: bool, flow: u8) -> Result<()> {
        let from = pair::addresses(2)[usize::from(v6)].addr;
        let ends = Ends {
            from: (from, FIRST_PEER_PORT + u16::from(flow)),
            to: (self.receiver.end.addr, PORT),
            macs: [pair::mac(2), pair::mac(1)],
        };
        // The initial sequence numbers are chosen so that the flows' numbers wrap at different
        // times.
        let seq = SeqNumber(0) - (1 + u32::from(flow)) * 3_000_000;
        let says = Says {
            seq,
            ack: SeqNumber(0),
            flags: Flags::SYN,
            window: 64_240,
            options: Options {
                mss: Some(if v6 { 1440 } else { 1460 }),
                window_scale: Some(WindowScale::new(7)),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: PEER_CLOCK, echo: 0 }),
                ..Options::default()
            },
            tos: 0,
            id: 0,
        };
        self.say(&frame(&ends, &says, &[]))?;
        self.receiver.end.stack.poll(self.receiver.now);
        let answer = self.take_answers().context("the SYN was not answered")?;
        let our_clock = answer.timestamps.context("timestamps were refused")?.value;
        let flow = Flow { ends, seq: seq + 1, ack: answer.seq + 1, our_clock };
        let says = Says {
            seq: flow.seq,
            ack: flow.ack,
            flags: Flags::ACK,
            window: 502,
            options: Options {
                timestamps: Some(Timestamps { value: PEER_CLOCK, echo: our_clock }),
                ..Options::default()
            },
            ..says
        };
        self.say(&frame(&flow.ends, &says, &[]))?;
        self.receiver.end.stack.poll(self.receiver.now);
        self.flows.push(flow);
        Ok(())
    }

    /// Sends the next segment of the recording.
    fn send(&mut self, segment: &Segment, passed: [u32; 2], ids: Ids) -> Result<()> {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let id = match ids {
            Ids::Random => (self.random >> 48) as u16,
            Ids::AsRecorded => segment.id,
        };
        let flow = self.flows.get_mut(usize::from(segment.flow)).context("no such flow")?;
        let [value, echo] = passed;
        let timestamps = Timestamps {
            value: PEER_CLOCK.wrapping_add(value + u32::from(segment.value)),
            echo: flow.our_clock.wrapping_add(echo + u32::from(segment.echo)),
        };
        let says = Says {
            seq: flow.seq,
            ack: flow.ack,
            flags: Flags(segment.flags),
            window: segment.window,
            options: Options { timestamps: Some(timestamps), ..Options::default() },
            tos: segment.tos,
            id,
        };
        let bytes = frame(&flow.ends, &says, &self.data[..usize::from(segment.len)]);
        flow.seq += u32::from(segment.len);
        self.say(&bytes)
    }

    fn say(&mut self, bytes: &[u8]) -> Result<()> {
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(bytes).context("no memory for a frame")?);
        ensure!(self.wire.tx_burst(&mut self.pool, &mut burst) == 1, "the wire is full");
        Ok(())
    }

    /// Take the segments that the stack has sent. Returns the last one.
    fn take_answers(&mut self) -> Option<Seen> {
        let (mut burst, mut last) = (Burst::new(), None);
        while self.wire.rx_burst(&mut self.pool, &mut burst) > 0 {
            for frame in burst.drain(..) {
                last = seen::segment(frame.as_slice(), LinkKind::Ethernet).or(last);
                self.pool.free(frame);
            }
        }
        self.pool.flush();
        last
    }
}
