//! The cost for a host of datagrams that others send: those for its application, and broadcasts for
//! which it has no socket. Called by `ip`. The host is a stack in memory; the bench uses the other
//! end of the host's wire. Only the receiver's turns are timed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant as Clock;

use anyhow::{Context, Result, anyhow, ensure};
use base::{DropReason, Instant, Owner};
use device::{Burst, Device, mem};
use lab::livelock::datagram;
use mbuf::Pool;
use stack::UdpHandle;
use stack::pair::{End, PairConfig, end};

use super::kernel;
use crate::harness::{Bench, Figure};
use crate::measure::{Measurement, median, thread_cpu_s};

/// The port of the socket, and a port without a socket.
const PORT: u16 = 5001;
const NOBODY: u16 = 513;

/// Frames of a round. They have to fit on the wire, and be so many that reading the CPU clock costs
/// next to nothing.
const ROUND: usize = 768;

/// A host with one socket, and the other end of its wire.
struct Host {
    end: End,
    socket: UdpHandle,
    wire: mem::Mem,
    pool: Pool,
    frame: Vec<u8>,
    clock: Clock,
}

impl Host {
    fn new(to: impl FnOnce(IpAddr) -> SocketAddr) -> Result<Host> {
        let config = PairConfig::new([0x1989, 0x1990]);
        let (inside, wire) = mem::pair(&config.wire);
        let mut end = end(&config, inside, 2);
        let bound = end.stack.udp_bind(SocketAddr::new(end.addr, PORT), Owner::program());
        let socket = bound.map_err(|error| anyhow!("bind: {error:?}"))?;
        let frame = datagram(&config, to(end.addr)).context("no datagram could be made")?;
        Ok(Host { end, socket, wire, pool: Pool::new(64 << 20), frame, clock: Clock::now() })
    }

    /// Put frames on the wire until it is full. Returns how many.
    fn offer(&mut self) -> Result<u64> {
        let mut offered = 0;
        while offered < ROUND {
            let mut burst = Burst::new();
            while !burst.is_full() {
                burst.push(self.pool.copy_of(&self.frame).context("memory")?);
            }
            let taken = self.wire.tx_burst(&mut self.pool, &mut burst);
            offered += taken;
            if taken < device::BURST {
                break;
            }
        }
        Ok(offered as u64)
    }

    /// Run the host's turns until the wire is empty. Returns how many datagrams reached the
    /// application.
    fn receive(&mut self, into: &mut [u8; 64]) -> Result<u64> {
        let stack = &mut self.end.stack;
        let mut received = 0;
        loop {
            let now = Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1);
            if stack.poll(now) == 0 {
                return Ok(received);
            }
            while stack.next_event().is_some() {}
            while let Some(datagram) = stack.udp_receive(self.socket) {
                into.copy_from_slice(datagram.payload.as_slice().get(..64).context("short")?);
                stack.give_back(datagram.payload);
                received += 1;
            }
        }
    }

    /// Do rounds for `seconds`. `units` of the measurement counts frames. The second value is the
    /// number of datagrams that reached the application.
    fn rounds(&mut self, seconds: f64) -> Result<(Measurement, u64)> {
        let mut into = [0; 64];
        let (mut measured, mut delivered) = (Measurement::default(), 0);
        for _ in 0..20 {
            self.offer()?;
            self.receive(&mut into)?;
        }
        let start = Clock::now();
        while start.elapsed().as_secs_f64() < seconds {
            measured.units += self.offer()?;
            let cpu = thread_cpu_s();
            delivered += self.receive(&mut into)?;
            measured.cpu_s += thread_cpu_s() - cpu;
        }
        measured.wall_s = start.elapsed().as_secs_f64();
        Ok((measured, delivered))
    }
}

pub(super) fn ours(seconds: f64) -> Result<Measurement> {
    let (mut measured, delivered) =
        Host::new(|addr| SocketAddr::new(addr, PORT))?.rounds(seconds)?;
    ensure!(delivered == measured.units, "{delivered} of {} arrived", measured.units);
    let ns = measured.cpu_s * 1e9 / delivered as f64;
    measured.settings = format!("{ns:.0} ns a datagram, the receiver's turns alone");
    Ok(measured)
}

pub(super) fn against_recvmmsg(b: &Bench) -> Result<Figure> {
    let frame = {
        let config = PairConfig::new([0x1989, 0x1990]);
        let to = SocketAddr::new(stack::pair::addresses(2)[0].addr, PORT);
        datagram(&config, to).context("no datagram could be made")?
    };
    let (pairs, seconds, trial_s) = (b.pairs, b.seconds, b.trial_s);
    kernel::in_namespace(b.cores.first, move || {
        let receiver = kernel::Receiver::new(&frame, PORT)?;
        let theirs = |seconds| receiver.measure(seconds);
        theirs(trial_s)?;
        ours(trial_s)?;
        let (mut samples, mut notes) = (Vec::new(), (String::new(), String::new()));
        for pair in 0..pairs {
            let (first, second) = if pair % 2 == 0 {
                let first = ours(seconds)?;
                (first, theirs(seconds)?)
            } else {
                let second = theirs(seconds)?;
                (ours(seconds)?, second)
            };
            samples.push(first.units_per_cpu_s()? / second.units_per_cpu_s()?);
            notes = (first.settings, second.settings);
        }
        let note = format!("{} and {}, the last pair", notes.0, notes.1);
        Ok(Figure { value: median(&samples), samples, note })
    })
}

/// The share of a core, in percent, that 100,000 unwanted broadcasts per second take.
pub(super) fn bystander(b: &Bench) -> Result<Figure> {
    let everybody = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 255));
    let mut samples = Vec::with_capacity(b.pairs);
    for _ in 0..b.pairs {
        let mut host = Host::new(|_| SocketAddr::new(everybody, NOBODY))?;
        let (measured, delivered) = host.rounds(b.seconds / 2.0)?;
        let dropped = host.end.stack.drops().of(DropReason::UdpNoSocket);
        ensure!(delivered == 0 && dropped >= measured.units, "the host did not drop them");
        let sent = host.end.stack.counters().of(base::Counter::TxFrames);
        ensure!(sent == 0, "the host answered {sent} broadcasts");
        samples.push(measured.cpu_s / measured.units as f64 * 100_000.0 * 100.0);
    }
    let value = median(&samples);
    let note = format!(
        "{:.0} ns a frame: 64 bytes of UDP to the network's broadcast address, no socket, checksum \
         verified",
        value * 100.0
    );
    Ok(Figure { value, samples, note })
}
