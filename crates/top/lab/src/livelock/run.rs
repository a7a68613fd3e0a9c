//! One load: the sender, the receiver, and the counts.
//!
//! Called by: `livelock.rs`.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant as Clock};

use base::{Instant, Owner};
use device::nic::{self, Nic};
use device::{Burst, Device, Doorbell};
use mbuf::Pool;
use stack::pair::{PairConfig, end};
use stack::{Armed, Stack, UdpHandle};

use crate::Error;

const PORT: u16 = 5001;

/// Bytes of payload of a datagram.
const BYTES: usize = 64;

/// Maximum number of frames that the sender hands over at once.
const AT_ONCE: usize = 32;

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Datagrams a second.
    pub pps: f64,
    /// How long the application works on each datagram.
    pub work: Duration,
    /// Length of the run, in seconds.
    pub seconds: f64,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Datagrams put on the link.
    pub offered: u64,
    /// Datagrams that reached the application.
    pub delivered: u64,
    /// Wall time of the receiver, in seconds.
    pub seconds: f64,
    /// The fraction of this time in which the application worked.
    pub application_share: f64,
    /// Datagrams dropped in the interface's ring.
    pub lost_in_ring: u64,
    /// Datagrams dropped later, by the stack.
    pub lost_later: u64,
}

impl Outcome {
    /// Datagrams put on the link in a second.
    pub fn offered_pps(&self) -> f64 {
        if self.seconds > 0.0 { self.offered as f64 / self.seconds } else { 0.0 }
    }

    /// Datagrams that reached the application in a second.
    pub fn delivered_pps(&self) -> f64 {
        if self.seconds > 0.0 { self.delivered as f64 / self.seconds } else { 0.0 }
    }
}

struct Ring(Doorbell);

impl Wake for Ring {
    fn wake(self: Arc<Ring>) {
        self.0.ring();
    }
}

fn instant(clock: Clock) -> Instant {
    Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1)
}

/// Offer a load, and measure how much is delivered.
///
/// # Errors
/// A link or a socket that could not be made.
pub fn measure(load: &Load) -> Result<Outcome, Error> {
    let failed = |what: &str| Error::Failed(format!("{what}; please report this line"));
    let clock = Clock::now();
    let link = nic::Config { rate_bps: 10_000_000_000, ..nic::Config::default() };
    let (first, second) = nic::pair(&link, Arc::new(move || instant(clock)))
        .map_err(|error| Error::Failed(error.to_string()))?;
    let config = PairConfig::new([0x1997, 0x1998]);
    let mut server = end(&config, second, 2);
    let to = SocketAddr::new(server.addr, PORT);
    let frame = datagram(&config, to).ok_or_else(|| failed("no datagram could be made"))?;
    let bound = server.stack.udp_bind(to, Owner::program());
    let socket = bound.map_err(|error| Error::Failed(format!("no port: {error:?}")))?;
    let done = AtomicBool::new(false);
    let (stack, to_stop) = (&mut server.stack, &done);
    let (received, offered) = thread::scope(|scope| {
        let receiving = scope.spawn(move || receive(stack, socket, load, clock, to_stop));
        let offered = offer(first, &frame, load, clock);
        done.store(true, Ordering::Release);
        (receiving.join(), offered)
    });
    let outcome = received.map_err(|_| failed("the receiver panicked"))?;
    let device = server.stack.device(server.port).and_then(|device| device.drops());
    Ok(Outcome {
        offered,
        lost_in_ring: device.map_or(0, base::Drops::total),
        lost_later: server.stack.drops().total(),
        ..outcome
    })
}

/// A frame with a datagram of 64 bytes, as the first end of a pair sends it to the second. The
/// frame is read from a link whose other end has no stack.
pub fn datagram(config: &PairConfig, to: SocketAddr) -> Option<Vec<u8>> {
    let (inside, mut wire) = device::mem::pair(&device::mem::Config::default());
    let mut client = end(config, inside, 1);
    let now = Instant::from_nanos(1);
    let from = SocketAddr::new(client.addr, 0);
    let socket = client.stack.udp_bind(from, Owner::program()).ok()?;
    // The destination may be a broadcast address.
    client.stack.udp_set_broadcast(socket, true).ok()?;
    client.stack.udp_send(socket, to, &[7; BYTES], now).ok()?;
    client.stack.flush();
    let (mut pool, mut burst) = (Pool::new(1 << 20), Burst::new());
    wire.rx_burst(&mut pool, &mut burst);
    burst.first().map(|frame| frame.as_slice().to_vec())
}

/// The sender's thread: it sends frames at the load's rate. Returns how many the link took.
fn offer(mut nic: Nic, frame: &[u8], load: &Load, clock: Clock) -> u64 {
    let (mut pool, mut burst) = (Pool::new(64 << 20), Burst::new());
    let begun = clock.elapsed();
    let mut offered = 0;
    loop {
        let passed = (clock.elapsed() - begun).as_secs_f64();
        if passed >= load.seconds {
            return offered;
        }
        let due = (passed * load.pps) as u64;
        let missing = (due.saturating_sub(offered) as usize).min(AT_ONCE);
        while burst.len() < missing
            && let Some(frame) = pool.copy_of(frame)
        {
            burst.push(frame);
        }
        offered += nic.tx_burst(&mut pool, &mut burst) as u64;
        // If the link's ring is full, the rest of the burst is offered again later.
        burst.drain(..).for_each(|frame| pool.free(frame));
        pool.collect();
    }
}

/// The receiver's thread: it polls the stack, then the application handles all datagrams that
/// arrived.
fn receive(
    stack: &mut Stack,
    socket: UdpHandle,
    load: &Load,
    clock: Clock,
    done: &AtomicBool,
) -> Outcome {
    let bell = Doorbell::new();
    let waker = Waker::from(Arc::new(Ring(bell.clone())));
    let spins = spins_for(load.work);
    let (mut delivered, mut working) = (0, Duration::ZERO);
    let begun = clock.elapsed();
    while !done.load(Ordering::Acquire) {
        bell.arm();
        stack.poll(instant(clock));
        while stack.next_event().is_some() {}
        let before = clock.elapsed();
        let mut had = 0;
        while let Some(datagram) = stack.udp_receive(socket) {
            black_box(spin(spins, datagram.payload.as_slice()));
            stack.give_back(datagram.payload);
            had += 1;
        }
        working += clock.elapsed() - before;
        delivered += had;
        stack.flush();
        if had > 0 {
            bell.disarm();
            continue;
        }
        let until = match stack.arm(&waker) {
            Armed::Ready => {
                bell.disarm();
                continue;
            }
            Armed::Until(at) => stack.next_deadline().min(at),
            _ => stack.next_deadline(),
        };
        let most = base::Duration::from_millis(10);
        bell.sleep(Some(until.since(instant(clock)).min(most).into()));
    }
    let seconds = (clock.elapsed() - begun).as_secs_f64();
    let application_share = working.as_secs_f64() / seconds;
    Outcome { delivered, seconds, application_share, ..Outcome::default() }
}

/// The application's work: `steps` steps of computation.
fn spin(steps: u64, bytes: &[u8]) -> u64 {
    let mut state = bytes.first().copied().map_or(1, u64::from);
    for _ in 0..steps {
        state = black_box(state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7) ^ 1);
    }
    state
}

/// The number of steps that take this long on this machine at present.
fn spins_for(work: Duration) -> u64 {
    const TRIED: u64 = 200_000;
    let begun = Clock::now();
    black_box(spin(TRIED, &[1]));
    let ns_a_step = begun.elapsed().as_nanos() as f64 / TRIED as f64;
    (work.as_nanos() as f64 / ns_a_step.max(0.01)) as u64
}
