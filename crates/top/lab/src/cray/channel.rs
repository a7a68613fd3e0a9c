//! TCP over a channel of 850, 100 or 50 Mb/s, in virtual time: two whole stacks and a link that
//! carries packets at that rate. Processors take no time.
//!
//! Called by: `cray.rs`.

use std::net::SocketAddr;

use base::{Duration, Instant, Owner};
use device::{Burst, Device, mem};
use link::{Direction, Settings as LinkSettings};
use mbuf::Pool;
use stack::pair::{End, PairConfig, end};
use stack::{CallError, ListenConfig};

use super::cases::{self, Settings};
use crate::{Error, Run};

const PORT: u16 = 5001;
/// The delay of a link in a machine room.
const DELAY: Duration = Duration::from_micros(1);
const POOL_BYTES: usize = 64 << 20;
/// The time that is measured. As much time before it is for start-up.
const SPAN: Duration = Duration::from_millis(500);
/// The most turns in which no time passes; more are a defect.
const SPINS: u32 = 100_000;

fn failed(what: &str, why: impl std::fmt::Debug) -> Error {
    Error::Failed(format!("{what}: {why:?}; please report this line"))
}

/// The frames in flight, in both directions.
struct Wires {
    near: [mem::Mem; 2],
    ways: [Direction; 2],
    pool: Pool,
}

impl Wires {
    /// Deliver the frames that have arrived, and take those that the stacks send. Returns how many
    /// frames moved.
    fn carry(&mut self, ends: &mut [End; 2], now: Instant) -> usize {
        let Wires { near, ways, pool } = self;
        let mut moved = 0;
        for side in 0..2 {
            let mut burst = Burst::new();
            while !burst.is_full()
                && let Some((frame, _)) = ways[1 - side].receive(now, pool)
            {
                burst.push(frame);
                moved += 1;
            }
            near[side].tx_burst(pool, &mut burst);
            // A full ring drops frames, as the ring of an interface does.
            burst.drain(..).for_each(|frame| pool.free(frame));
            moved += ends[side].stack.poll(now);
            ends[side].stack.flush();
            let mut burst = Burst::new();
            while near[side].rx_burst(pool, &mut burst) > 0 {
                moved += burst.len();
                burst.drain(..).for_each(|frame| ways[side].send(frame, now, pool));
            }
        }
        moved
    }
}

/// Bits a second of payload; `None` if the run was stopped.
pub(super) fn throughput(
    settings: Settings,
    mbps: u64,
    mtu: usize,
    run: &Run<'_>,
) -> Result<Option<f64>, Error> {
    let mut config = PairConfig::new([mbps, 0x1989]);
    config.wire = cases::wire(mtu).ok_or_else(|| failed("no MTU", mtu))?;
    let ((a, near_a), (b, near_b)) = (mem::pair(&config.wire), mem::pair(&config.wire));
    let mut ends = [end(&config, a, 1), end(&config, b, 2)];
    let rate =
        LinkSettings { rate_bps: Some(mbps * 1_000_000), delay: DELAY, ..Default::default() };
    let mut wires = Wires {
        near: [near_a, near_b],
        ways: [1, 2].map(|seed| Direction::new(rate.clone(), seed)),
        pool: Pool::new(POOL_BYTES),
    };
    let (to, tcp) = (SocketAddr::new(ends[1].addr, PORT), settings.tcp());
    let listen = ListenConfig { tcp, ..ListenConfig::default() };
    let listener = ends[1].stack.tcp_listen(to, listen).map_err(|e| failed("listen", e))?;
    let mut now = Instant::from_nanos(1);
    let connecting = ends[0].stack.tcp_connect(to, None, &tcp, Owner::program(), now);
    let stream = connecting.map_err(|e| failed("connect", e))?;
    let (data, mut into) = (vec![7; 64 << 10], vec![0; 128 << 10]);
    let (mut accepted, mut received, mut start, mut spins) = (None, 0_u64, None, 0);
    while !run.is_stopped() {
        let mut moved = wires.carry(&mut ends, now);
        loop {
            match ends[0].stack.tcp_write(stream, &data) {
                Ok(taken) if taken > 0 => moved += 1,
                Ok(_) | Err(CallError::WouldBlock) => break,
                Err(error) => return Err(failed("write", error)),
            }
        }
        accepted = accepted.or_else(|| ends[1].stack.tcp_accept(listener));
        while let Some(stream) = accepted {
            match ends[1].stack.tcp_read(stream, &mut into) {
                Ok(0) | Err(CallError::WouldBlock) => break,
                Ok(n) => (moved, received) = (moved + 1, received + n as u64),
                Err(error) => return Err(failed("read", error)),
            }
        }
        for end in &mut ends {
            while end.stack.next_event().is_some() {}
        }
        let (from, before) = *start.get_or_insert((now, 0));
        match now.since(from) {
            // Start-up is over: the measurement begins here.
            past if past >= SPAN && before == 0 && received > 0 => start = Some((now, received)),
            past if past >= SPAN => {
                return Ok(Some((received - before) as f64 * 8.0 / past.as_secs_f64()));
            }
            _ => {}
        }
        if moved > 0 && spins < SPINS {
            spins += 1;
            continue;
        }
        let links = wires.ways[0].next_event().min(wires.ways[1].next_event());
        let stacks = ends[0].stack.next_deadline().min(ends[1].stack.next_deadline());
        let next = links.min(stacks).max(now);
        if next == Instant::NEVER || spins >= SPINS {
            return Err(failed("no progress on a channel", (now, received)));
        }
        (spins, now) = (if next > now { 0 } else { spins + 1 }, next);
    }
    Ok(None)
}
