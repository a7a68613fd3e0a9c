//! Our client over a TAP, and a server of libtirpc behind it, in real time.
//!
//! Called by: `elbow.rs`, the benchmarks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::Waker;
use std::time::Instant as Clock;

use base::{Instant, MacAddr};
use device::tap::{Config, Setup, Tap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stack::{Armed, PortConfig, Stack, StackConfig};

use super::ends::{Caller, LONGEST, failed, packets, since};
use super::libtirpc::Peer;
use super::point::{Causes, Curve, Transport};
use super::{Effort, in_turns, sizes};
use crate::Error;

/// The kernel's address on the TAP, and ours.
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0x99, 0, 2]);

/// Turns without a frame after which the client sleeps.
const LOOKS: u32 = 4;
/// The longest time that the client sleeps, in ns.
const LOOK_NS: i64 = 100_000_000;

/// Our client, and the server of libtirpc.
pub struct Tapped {
    stack: Stack,
    caller: Caller,
    clock: Clock,
    held: Causes,
    peer: Peer,
}

impl Tapped {
    /// A client and a server.
    ///
    /// # Errors
    /// Something that is needed is missing; the text says what.
    pub fn new(transport: Transport) -> Result<Tapped, Error> {
        let (peer, tap) = Peer::new(|| {
            let mut tap = Tap::open(&Config::default()).map_err(failed)?;
            let network = format!("{KERNEL}/24").parse();
            let addresses = vec![network.map_err(|_| failed("an address that is none"))?];
            let setup = Setup { addresses, up: true, ..Setup::default() };
            tap.configure(&setup).map_err(failed)?;
            Ok(tap)
        })?;
        let mut stack = Stack::new(StackConfig::new([0x1989, 6]));
        let network = format!("{OURS}/24").parse();
        let addresses = vec![network.map_err(|_| failed("an address that is none"))?];
        stack.add_port(
            Box::new(tap),
            PortConfig { mac: OUR_MAC, addresses, ..PortConfig::default() },
        );
        let to = SocketAddr::new(IpAddr::V4(KERNEL), peer.port(transport));
        let now = Instant::from_nanos(1);
        let caller = Caller::new(&mut stack, transport, to, (19, 89), now)?;
        let clock = Clock::now();
        Ok(Tapped { stack, caller, clock, held: Causes::default(), peer })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 2)
    }

    /// Make calls one after the other. Returns the nanoseconds that they took.
    ///
    /// # Errors
    /// A call has no reply.
    pub fn calls(&mut self, argument: &[u8], calls: u32) -> Result<u64, Error> {
        let begun = self.now();
        for _ in 0..calls {
            self.call(argument)?;
        }
        while self.stack.next_event().is_some() {}
        Ok(self.now().since(begun).as_nanos())
    }

    /// The causes so far: the packets that we sent and received, and the delayed ACKs of the
    /// kernel.
    pub fn causes(&self) -> Causes {
        let received = self.stack.counters().of(base::Counter::RxFrames);
        let mut causes = self.held;
        causes.segments = packets(&self.stack) + received;
        causes.delayed_acks = self.peer.delayed_acks();
        causes.blocked_ns = self.caller.blocked_ns;
        causes
    }

    fn call(&mut self, argument: &[u8]) -> Result<(), Error> {
        let begun = self.now();
        self.caller.call(argument, begun)?;
        let (mut idle, mut was_held) = (0, false);
        loop {
            let now = self.now();
            let moved = self.stack.poll(now);
            if self.caller.go_on(&mut self.stack, now)? > 0 {
                return Ok(());
            }
            self.stack.flush();
            idle = if moved > 0 { 0 } else { idle + 1 };
            if idle == LOOKS {
                self.held.nagle_holds += u64::from(!was_held && self.caller.is_held(&self.stack));
                was_held = true;
            }
            if idle > LOOKS {
                self.wait()?;
            }
            if now.since(begun) > LONGEST {
                let repeats = self.caller.repeats();
                let bytes = argument.len();
                let said =
                    format!("a call of {bytes} bytes has no reply, sent again {repeats} times");
                return Err(failed(said));
            }
        }
    }
}

impl Tapped {
    /// Sleep until a frame comes or a timer expires. A loop of sched_yield would be no replacement:
    /// the scheduler decides when the thread gets the processor back, so that a call's time would
    /// depend on what ran before.
    fn wait(&mut self) -> Result<(), Error> {
        if self.stack.arm(Waker::noop()) == Armed::Ready {
            return Ok(());
        }
        let due = self.stack.next_deadline().min(self.caller.deadline());
        let span = i64::try_from(due.since(self.now()).as_nanos()).unwrap_or(LOOK_NS);
        let span = Timespec { tv_sec: 0, tv_nsec: span.min(LOOK_NS) };
        let asked = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut asked: Vec<_> = self.stack.descriptors().map(|(_, fd, _)| asked(fd)).collect();
        match poll(&mut asked, Some(&span)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(failed(format!("cannot wait for the TAP: {error}"))),
        }
    }
}

/// Measure a curve: our client calls libtirpc's server.
pub(super) fn measure(
    curve: &mut Curve,
    effort: Effort,
    stop: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let mut tapped = Tapped::new(curve.transport)?;
    let argument = vec![0x5a; sizes::largest(curve.transport) as usize];
    // These calls do not count: they include the handshake, the neighbour's resolution, and slow
    // start.
    tapped.calls(&argument[..1], 1)?;
    tapped.calls(&argument, effort.calls.min(20))?;
    in_turns(curve, effort, stop, |bytes, calls| {
        let before = tapped.causes();
        let ns = tapped.calls(&argument[..bytes as usize], calls)?;
        Ok((ns, since(tapped.causes(), before)))
    })
}
