//! Stacks that a program polls by steps: the clock stands still until the program advances it, and
//! a step says when the next one is due.

use core::task::Waker;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use base::{Duration, Instant};
use host::dns::{Config, Hosts};
use stack::VirtualClock;
use stack::pair::{PairConfig, pair};
use wirespeed_net::{Net, Next, StepClock, Stepped, TcpSocket, blocking};

struct Ends {
    client: Net,
    server: Net,
    steps: [Stepped; 2],
    clock: VirtualClock,
    to: SocketAddr,
}

fn ends() -> Ends {
    let clock = VirtualClock::default();
    let (a, b) = pair(&PairConfig::new([3, 4]));
    let to = SocketAddr::new(b.addr, 7);
    let (client, a) = Net::stepped(a.stack, clock.clone());
    let (server, b) = Net::stepped(b.stack, clock.clone());
    Ends { client, server, steps: [a, b], clock, to }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Counter>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Ends {
    /// Step both stacks until neither has work at the present time. Returns the next deadline.
    fn settle(&mut self) -> Option<Instant> {
        for _ in 0..1_000 {
            let mut next = None;
            for steps in &mut self.steps {
                next = match (next, steps.step(Waker::noop())) {
                    (_, Next::Again) => Some(Instant::ZERO),
                    (Some(other), Next::At(at)) => Some(at.min(other)),
                    (None, Next::At(at)) => Some(at),
                    (other, Next::WhenWoken | Next::Ended) => other,
                };
            }
            // The second stack may have sent something to the first one.
            if next.is_none_or(|at| at > self.clock.now())
                && self.steps[0].step(Waker::noop()) != Next::Again
                && self.steps[1].step(Waker::noop()) != Next::Again
            {
                return next;
            }
        }
        panic!("the stacks have work without end at {:?}", self.clock.now());
    }

    /// Let the time pass up to the next deadline; `false` if there is none.
    fn pass(&mut self) -> bool {
        let next = self.settle();
        next.inspect(|&at| self.clock.advance_to(at)).is_some()
    }

    fn connected(&mut self) -> (blocking::TcpStream, blocking::TcpStream) {
        let listener = blocking::TcpListener::bind(&self.server, self.to).expect("a free port");
        listener.set_nonblocking(true).expect("an open socket");
        let (client, to) = (self.client.clone(), self.to);
        let connecting = std::thread::spawn(move || blocking::TcpStream::connect(&client, to));
        let accepted = loop {
            self.settle();
            match listener.accept() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                other => break other.expect("a connection").0,
            }
        };
        self.settle();
        (connecting.join().expect("no panic").expect("connected"), accepted)
    }
}

/// A thread that blocks in `connect` continues when another thread steps, and nonblocking calls
/// need no other thread.
#[test]
fn blocking_calls_wait_for_steps_and_nonblocking_ones_do_not() {
    let mut ends = ends();
    let (mut client, mut server) = ends.connected();
    client.set_nonblocking(true).expect("an open socket");
    server.set_nonblocking(true).expect("an open socket");
    let mut buffer = [0; 16];
    assert_eq!(server.read(&mut buffer).expect_err("no data").kind(), ErrorKind::WouldBlock);
    client.write_all(b"hello").expect("room");
    assert_eq!(server.read(&mut buffer).expect_err("no step").kind(), ErrorKind::WouldBlock);
    ends.settle();
    assert_eq!(server.read(&mut buffer).expect("data"), 5);
    assert_eq!(&buffer[..5], b"hello");
}

/// A connection attempt to a host that nobody steps fails after minutes of the virtual clock.
#[test]
fn time_passes_only_when_the_program_advances_the_clock() {
    let mut ends = ends();
    let socket = TcpSocket::new(&ends.client);
    let began = ends.clock.now();
    let mut connecting = Box::pin(socket.connect(ends.to));
    let mut context = core::task::Context::from_waker(Waker::noop());
    for _ in 0..1_000 {
        if let core::task::Poll::Ready(connected) = connecting.as_mut().poll(&mut context) {
            assert_eq!(connected.expect_err("no peer").kind(), ErrorKind::TimedOut);
            let took = ends.clock.now().since(began);
            assert!(took > Duration::from_secs(30), "only {took:?} passed");
            return;
        }
        match ends.steps[0].step(Waker::noop()) {
            Next::At(at) => ends.clock.advance_to(at),
            Next::Again | Next::WhenWoken => {}
            Next::Ended => panic!("the stack has ended"),
        }
    }
    panic!("the attempt has no end");
}

/// The waker of a step is woken by a frame, and by a call that needs an earlier step.
#[test]
fn a_frame_and_an_earlier_deadline_wake() {
    let mut ends = ends();
    let (mut client, _server) = ends.connected();
    ends.settle();
    let wakes = [Arc::new(Counter::default()), Arc::new(Counter::default())];
    let wakers: [Waker; 2] = wakes.clone().map(Waker::from);
    let nexts = [ends.steps[0].step(&wakers[0]), ends.steps[1].step(&wakers[1])];
    assert!(nexts.iter().all(|next| *next != Next::Again), "{nexts:?}");
    client.write_all(b"hello").expect("room");
    let counts = wakes.map(|count| count.0.load(Ordering::Relaxed));
    assert_eq!(counts, [1, 1], "retransmission timer of one, frame of the other");
}

/// A thread that waits for a name gets its error when the lookup's deadlines have passed on the
/// virtual clock.
#[test]
fn lookups_end_by_the_virtual_clock() {
    let mut ends = ends();
    let servers = vec![SocketAddr::new(IpAddr::from([192, 0, 2, 77]), 53)];
    let config = Config { servers, ..Config::default() };
    ends.client.set_resolver(config, Hosts::default()).expect("the stack has not ended");
    let client = ends.client.clone();
    let lookup = std::thread::spawn(move || blocking::lookup_host(&client, "www.example.org"));
    while !lookup.is_finished() {
        if !ends.pass() {
            std::thread::yield_now();
        }
    }
    lookup.join().expect("no panic").expect_err("no server answers");
}

/// A stack ends when it is shut down or when its `Stepped` is dropped; its sockets fail then.
#[test]
fn the_end() {
    let mut ends = ends();
    let (mut client, mut server) = ends.connected();
    ends.client.shut_down();
    assert_eq!(ends.steps[0].step(Waker::noop()), Next::Ended);
    assert_eq!(ends.steps[0].step(Waker::noop()), Next::Ended);
    client.write(b"x").expect_err("the stack has ended");
    let [_, steps] = ends.steps;
    drop(steps);
    server.read(&mut [0]).expect_err("nobody steps any more");
}

/// With the system's clock a step says when the next is due on that clock.
#[test]
fn the_systems_clock() {
    let (end, _other) = pair(&PairConfig::new([3, 4]));
    let (net, mut steps) = Net::stepped(end.stack, StepClock::System);
    let socket = TcpSocket::new(&net);
    let mut connecting = Box::pin(socket.connect("192.0.2.2:7".parse().expect("an address")));
    let mut context = core::task::Context::from_waker(Waker::noop());
    assert!(connecting.as_mut().poll(&mut context).is_pending());
    let Next::At(at) = steps.step(Waker::noop()) else { panic!("a retransmission is due") };
    assert!(at > steps.now() && at < steps.now() + Duration::from_secs(2), "{at:?}");
    #[cfg(target_os = "linux")]
    assert!(steps.descriptor().is_none(), "a wire in memory has no descriptor");
}
