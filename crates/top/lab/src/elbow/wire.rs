//! Two stacks of ours on a 10 Mb/s link, full duplex, in virtual time.
//!
//! Called by: `elbow.rs`, tests. Processors take no time: the times are those of the wire and of
//! timers.

use std::net::SocketAddr;

use base::{Duration, Instant};
use device::{Burst, Device, mem};
use link::{Direction, Settings};
use mbuf::Pool;
use stack::pair::{End, PairConfig, end};

use super::ends::{Answerer, Caller, LONGEST, PORT, counted, failed};
use super::point::{Causes, Transport};
use crate::Error;

/// The rate of the link in bits a second.
pub(super) const RATE_BPS: u64 = 10_000_000;
/// The delay of a few hundred metres of cable and a hub.
const DELAY: Duration = Duration::from_micros(5);
/// Buffers of the wire's own side.
const POOL_BYTES: usize = 16 << 20;
/// The most turns in which nothing moves and no time passes; more are a defect.
const SPINS: u32 = 1_000;

/// Both ends, and the link between them.
pub(super) struct Wire {
    ends: [End; 2],
    caller: Caller,
    answerer: Answerer,
    /// The other side of each stack's device, and the direction of the link that its frames take.
    near: [mem::Mem; 2],
    ways: [Direction; 2],
    pool: Pool,
    now: Instant,
    held: Causes,
}

impl Wire {
    pub(super) fn new(transport: Transport, seed: u64) -> Result<Wire, Error> {
        let config = PairConfig::new([seed, 0x1989]);
        let ((a, near_a), (b, near_b)) = (mem::pair(&config.wire), mem::pair(&config.wire));
        let mut ends = [end(&config, a, 1), end(&config, b, 2)];
        let now = Instant::from_nanos(1);
        let at = SocketAddr::new(ends[1].addr, PORT);
        let answerer = Answerer::new(&mut ends[1].stack, transport, at)?;
        let caller = Caller::new(&mut ends[0].stack, transport, at, (seed, 1), now)?;
        let settings = Settings { rate_bps: Some(RATE_BPS), delay: DELAY, ..Settings::default() };
        let ways = [0, 1].map(|way| Direction::new(settings.clone(), seed + way));
        Ok(Wire {
            ends,
            caller,
            answerer,
            near: [near_a, near_b],
            ways,
            pool: Pool::new(POOL_BYTES),
            now,
            held: Causes::default(),
        })
    }

    /// Make calls one after the other. Returns the nanoseconds that they took.
    pub(super) fn calls(&mut self, argument: &[u8], calls: u32) -> Result<u64, Error> {
        let begun = self.now;
        for _ in 0..calls {
            self.call(argument)?;
        }
        Ok(self.now.since(begun).as_nanos())
    }

    /// The causes so far.
    pub(super) fn causes(&self) -> Causes {
        let stacks = [&self.ends[0].stack, &self.ends[1].stack];
        let mut causes = counted(stacks, &self.caller);
        causes += self.held;
        causes
    }

    fn call(&mut self, argument: &[u8]) -> Result<(), Error> {
        let begun = self.now;
        self.caller.call(argument, self.now)?;
        let mut spins = 0;
        loop {
            if self.settle()? {
                return Ok(());
            }
            let link = self.ways[0].next_event().min(self.ways[1].next_event());
            let [client, server] = &self.ends;
            let stacks = client.stack.next_deadline().min(server.stack.next_deadline());
            let timer = stacks.min(self.caller.deadline());
            if timer < link {
                let delays = self.answerer.delays_ack(&server.stack, timer);
                self.held.delayed_acks += u64::from(delays);
                self.held.nagle_holds += u64::from(self.caller.is_held(&client.stack));
            }
            let next = link.min(timer).max(self.now);
            spins = if next > self.now { 0 } else { spins + 1 };
            self.now = next;
            if next == Instant::NEVER || next.since(begun) > LONGEST || spins > SPINS {
                let what = format!("a call of {} bytes has no reply", argument.len());
                return Err(failed(format!("{what}. Please report this line")));
            }
        }
    }

    /// Do everything that can happen at the present time. Returns true if the reply has arrived.
    fn settle(&mut self) -> Result<bool, Error> {
        let Wire { ends, caller, answerer, near, ways, pool, now, .. } = self;
        let mut has_reply = false;
        loop {
            let mut moved = 0;
            for side in 0..2 {
                let mut burst = Burst::new();
                while let Some((frame, _)) = ways[1 - side].receive(*now, pool) {
                    burst.push(frame);
                    moved += 1;
                    if burst.is_full() {
                        near[side].tx_burst(pool, &mut burst);
                    }
                }
                near[side].tx_burst(pool, &mut burst);
                // A full ring drops frames, as the ring of an interface does.
                burst.drain(..).for_each(|frame| pool.free(frame));
                moved += ends[side].stack.poll_before_flush(*now);
            }
            has_reply |= caller.go_on(&mut ends[0].stack, *now)? > 0;
            answerer.go_on(&mut ends[1].stack, *now)?;
            for side in 0..2 {
                while ends[side].stack.next_event().is_some() {}
                ends[side].stack.flush();
                let mut burst = Burst::new();
                while near[side].rx_burst(pool, &mut burst) > 0 {
                    moved += burst.len();
                    burst.drain(..).for_each(|frame| ways[side].send(frame, *now, pool));
                }
            }
            if moved == 0 {
                return Ok(has_reply);
            }
        }
    }
}
