//! A connection of our stack with many segments outstanding, and a peer that this file imitates and
//! that acknowledges them. It shows what an ACK costs the sender that receives it, and whether this
//! cost grows with the window. Called by `icount.rs`; the time is virtual. Only
//! [`Outstanding::counted_poll`] is counted, the poll that processes one ACK. The cost includes the
//! segments that this poll sends.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use anyhow::{Context, Result, ensure};
use base::{Cidr, Instant, Limit, LinkKind, Owner, SeqNumber, Switch, WindowScale};
use device::mem::{self, Mem};
use device::{Burst, Device};
use mbuf::Pool;
use sim::hand::{Said, packet};
use sim::seen::{self, Seen};
use stack::{PortConfig, Stack, StackConfig, TcpHandle};
use wire::tcp::{Flags, Options, SackBlocks, Timestamps};

/// The function whose instructions are counted.
pub const COUNTED: &str = "counted_poll";

/// Bytes of payload of a segment with timestamps at MTU 1500.
const MSS: u32 = 1448;
/// Segments that an ACK covers, as with delayed ACKs.
const SEGMENTS_PER_ACK: u32 = 2;
/// Of this many segments one is lost, the first of them.
const LOST_EVERY: u32 = 10;
const ROUND_TRIP_NS: u64 = 10_000_000;

/// Our sender, and its peer.
pub struct Outstanding {
    stack: Stack,
    handle: TcpHandle,
    wire: Mem,
    pool: Pool,
    now: Instant,
    ours: SocketAddrV4,
    peer: SocketAddrV4,
    /// The peer's next sequence number, the next one that it expects, and the highest that it has
    /// seen.
    seq: SeqNumber,
    una: SeqNumber,
    nxt: SeqNumber,
    their_clock: u32,
    data: Vec<u8>,
}

impl Outstanding {
    /// A connection on which this many full segments were sent and not acknowledged.
    ///
    /// # Errors
    /// If the segments cannot be sent.
    pub fn new(segments: u32) -> Result<Outstanding> {
        let mem = mem::Config {
            link: LinkKind::Ip,
            depth: 4096,
            depth_bytes: 16 << 20,
            ..mem::Config::default()
        };
        let (inside, wire) = mem::pair(&mem);
        let mut config = StackConfig::new([4, 5]);
        config.budget.set(Limit::MbufBytes, 1 << 30);
        // Without pacing, segments leave in `write`, outside the poll that is counted.
        config.switches = config.switches.with(Switch::Pacing, false);
        let mut stack = Stack::new(config);
        let [ours, peer] = [1, 2].map(|n| SocketAddrV4::new([10, 0, 0, n].into(), 9));
        let address = Cidr { addr: IpAddr::V4(*ours.ip()), prefix_len: 24 };
        let port = PortConfig { addresses: vec![address], ..PortConfig::default() };
        stack.add_port(Box::new(inside), port);
        let send_buffer_bytes = 2 * segments * MSS;
        let config = tcp::Config { send_buffer_bytes, ..tcp::Config::default() };
        let now = Instant::from_nanos(1_000_000_000);
        let handle = stack
            .tcp_connect(SocketAddr::V4(peer), None, &config, Owner::program(), now)
            .map_err(|error| anyhow::anyhow!("connect: {error:?}"))?;
        let mut state = Outstanding {
            stack,
            handle,
            wire,
            pool: Pool::new(64 << 20),
            now,
            ours,
            peer,
            seq: SeqNumber(1000),
            una: SeqNumber(0),
            nxt: SeqNumber(0),
            their_clock: 0,
            data: vec![0x5a; (64 * MSS) as usize],
        };
        state.open()?;
        state.fill(segments)?;
        Ok(state)
    }

    fn open(&mut self) -> Result<()> {
        self.stack.flush();
        let syn = self.drain().context("no SYN came")?;
        (self.ours, self.una, self.nxt) = (v4(syn.src)?, syn.end(), syn.end());
        let options = Options {
            mss: Some(1460),
            window_scale: Some(WindowScale::new(14)),
            sack_permitted: true,
            timestamps: self.timestamps(),
            ..Options::default()
        };
        self.say(&Said { flags: Flags::SYN | Flags::ACK, options, ..self.plain() })?;
        self.counted_poll();
        self.seq += 1;
        self.drain().context("no ACK of the SYN came")?;
        Ok(())
    }

    /// Send and acknowledge one window after another, so that the congestion window grows, until
    /// this many segments are outstanding.
    fn fill(&mut self, segments: u32) -> Result<()> {
        for _ in 0..200 {
            self.write(segments)?;
            if self.nxt.since(self.una) as u32 == segments * MSS {
                return Ok(());
            }
            self.now += base::Duration::from_nanos(ROUND_TRIP_NS);
            self.una = self.nxt;
            self.say(&self.plain())?;
            self.counted_poll();
            self.drain();
        }
        let out = self.nxt.since(self.una) as u32 / MSS;
        anyhow::bail!("{out} of {segments} segments are outstanding after 200 round trips")
    }

    /// Write until this many segments are outstanding, or the stack takes no more.
    fn write(&mut self, segments: u32) -> Result<()> {
        loop {
            let out = self.nxt.since(self.una) as u32;
            let unsent =
                self.stack.tcp_info(self.handle).context("the connection is gone")?.unsent as u32;
            let wanted = (segments * MSS).saturating_sub(out + unsent).min(64 * MSS);
            let wrote = match wanted {
                0 => 0,
                _ => self.stack.tcp_write(self.handle, &self.data[..wanted as usize]).unwrap_or(0),
            };
            self.stack.flush();
            if self.drain().is_none() && wrote == 0 {
                // Paced segments leave only when time passes.
                self.now += base::Duration::from_nanos(ROUND_TRIP_NS / 10);
                self.stack.poll(self.now);
                if self.drain().is_none() {
                    return Ok(());
                }
            }
        }
    }

    /// Take the segments that the stack has sent. Returns the last one.
    fn drain(&mut self) -> Option<Seen> {
        let (mut burst, mut last) = (Burst::new(), None);
        while self.wire.rx_burst(&mut self.pool, &mut burst) > 0 {
            for frame in burst.drain(..) {
                let seen = seen::segment(frame.as_slice(), LinkKind::Ip);
                if let Some(seen) = seen {
                    self.nxt = self.nxt.max(seen.end());
                    self.their_clock = seen.timestamps.map_or(self.their_clock, |t| t.value);
                }
                last = seen.or(last);
                self.pool.free(frame);
            }
            self.pool.flush();
            self.stack.poll(self.now);
        }
        last
    }

    fn timestamps(&self) -> Option<Timestamps> {
        Some(Timestamps { value: self.now.as_millis() as u32, echo: self.their_clock })
    }

    fn plain(&self) -> Said {
        Said {
            seq: self.seq,
            ack: self.una,
            flags: Flags::ACK,
            window: u16::MAX,
            options: Options { timestamps: self.timestamps(), ..Options::default() },
        }
    }

    /// Let the peer send a segment.
    fn say(&mut self, said: &Said) -> Result<()> {
        let bytes = packet(self.peer, self.ours, said, &[]);
        let frame = self.pool.copy_of(&bytes).context("no memory for an ACK")?;
        let mut burst = Burst::new();
        burst.push(frame);
        let sent = self.wire.tx_burst(&mut self.pool, &mut burst);
        ensure!(sent == 1, "the stack takes no more ACKs");
        Ok(())
    }

    /// Let the stack process the peer's segment.
    #[inline(never)]
    pub fn counted_poll(&mut self) {
        self.stack.poll(self.now);
    }

    fn tick(&mut self) {
        self.now += base::Duration::from_nanos(1_000);
    }
}

/// Process `count` ACKs of two segments each. Each ACK releases two more segments, so that the
/// number of outstanding segments stays the same.
///
/// # Errors
/// The number of outstanding segments changes.
pub fn acks(segments: u32, count: u64) -> Result<()> {
    let mut state = Outstanding::new(segments)?;
    for _ in 0..count {
        state.tick();
        state.una += SEGMENTS_PER_ACK * MSS;
        state.say(&state.plain())?;
        state.counted_poll();
        state.drain();
        state.write(segments)?;
        ensure!(state.nxt.since(state.una) as u32 == segments * MSS, "the window has changed");
    }
    Ok(())
}

/// Process `count` duplicate ACKs, each of which reports one more segment by SACK. Every tenth
/// segment of the window is lost, and so are retransmissions. After four tenths of the window a new
/// connection begins.
///
/// # Errors
/// If the state cannot be made.
pub fn sacks(segments: u32, count: u64) -> Result<()> {
    let most = u64::from(segments) * 37 / 100;
    let mut left = count;
    while left > 0 {
        let mut state = Outstanding::new(segments)?;
        let (start, mut runs) = (state.una, Vec::new());
        for number in 0..left.min(most) {
            state.tick();
            let (run, place) = divided(number as u32, LOST_EVERY - 1);
            let left_edge = start + (run * LOST_EVERY + 1) * MSS;
            runs.truncate(run as usize);
            runs.push((left_edge, left_edge + (place + 1) * MSS));
            let mut sack = SackBlocks::EMPTY;
            // The newest block comes first, then the blocks before it (RFC 2018 section 4).
            for &(left_edge, right_edge) in runs.iter().rev().take(3) {
                sack.push(left_edge, right_edge);
            }
            let mut said = state.plain();
            said.options.sack = sack;
            state.say(&said)?;
            state.counted_poll();
            state.drain();
        }
        let recoveries = state.stack.tcp_info(state.handle).map_or(0, |i| i.fast_recoveries);
        ensure!(recoveries == 1 || left < 10, "{recoveries} recoveries instead of one");
        left -= left.min(most);
    }
    Ok(())
}

fn divided(number: u32, by: u32) -> (u32, u32) {
    (number / by, number % by)
}

fn v4(address: SocketAddr) -> Result<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => anyhow::bail!("the stack answers by IPv6"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_stays_full_while_it_is_acknowledged() {
        acks(100, 300).unwrap();
    }

    #[test]
    fn a_window_with_holes_is_one_recovery() {
        sacks(100, 80).unwrap();
    }
}
