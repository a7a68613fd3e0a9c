//! How a driver thread idles at each mitigation level, in time that the test sets.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Wake, Waker};

use base::{Duration, Instant, Owner};
use device::mitigation::{Level, Mitigation};

use crate::pair::{End, PairConfig, pair};
use crate::{Armed, MitigationError, PortId};

/// A waker that counts its wake-ups.
#[derive(Default)]
pub(super) struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    /// The number of wake-ups so far.
    pub(super) fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Two stacks; the test counts the wake-ups of the second one's driver thread.
struct Test {
    sender: End,
    receiver: End,
    woken: Arc<Woken>,
    now: Instant,
}

impl Test {
    fn new(setting: Mitigation) -> Test {
        let (sender, mut receiver) = pair(&PairConfig::new([1, 2]));
        receiver.stack.set_mitigation(receiver.port, setting).expect("deep enough");
        let woken = Arc::new(Woken::default());
        Test { sender, receiver, woken, now: Instant::from_nanos(5_000_000_000) }
    }

    /// Sends this many datagrams to a port without a socket.
    fn send(&mut self, count: usize, bytes: usize) {
        let local = core::net::SocketAddr::new(self.sender.addr, 0);
        let socket = self.sender.stack.udp_bind(local, Owner::program()).expect("free");
        let to = core::net::SocketAddr::new(self.receiver.addr, 9);
        for _ in 0..count {
            let sent = self.sender.stack.udp_send(socket, to, &vec![0; bytes], self.now);
            sent.expect("room");
            self.sender.stack.flush();
        }
        self.sender.stack.udp_close(socket);
    }

    fn poll_and_arm(&mut self) -> Armed {
        self.receiver.stack.poll(self.now);
        self.receiver.stack.poll(self.now);
        self.receiver.stack.arm(&Waker::from(self.woken.clone()))
    }

    fn wakes(&self) -> usize {
        self.woken.0.swap(0, Ordering::Relaxed)
    }

    fn later(&mut self, us: u64) {
        self.now += Duration::from_micros(us);
    }
}

fn level(n: u8) -> Mitigation {
    Mitigation::Level(Level::new(n).expect("a level"))
}

#[test]
fn while_frames_come_they_gather_and_after_a_silence_the_first_wakes() {
    let mut t = Test::new(level(3));
    assert_eq!(t.poll_and_arm(), Armed::All);
    t.send(1, 10);
    assert_eq!(t.wakes(), 1, "the first frame after a silence did not wake once");
    let until = Armed::Until(t.now + Duration::from_micros(200));
    assert_eq!(t.poll_and_arm(), until);
    t.send(31, 10);
    assert_eq!(t.wakes(), 0, "31 small frames woke it");
    t.send(1, 10);
    assert_eq!(t.wakes(), 1, "32 small frames did not wake it once");
    assert_eq!(t.poll_and_arm(), until);
    t.send(7, 1_472);
    assert_eq!(t.wakes(), 0, "seven full-size frames woke it");
    t.send(1, 1_472);
    assert_eq!(t.wakes(), 1, "eight full-size frames did not wake it once");
    t.poll_and_arm();
    t.later(200);
    assert_eq!(t.poll_and_arm(), Armed::All, "not armed for the first frame after a silence");
    t.send(1, 10);
    assert_eq!(t.wakes(), 1);
}

#[test]
fn at_level_0_each_burst_wakes() {
    let mut t = Test::new(level(0));
    for _ in 0..3 {
        assert_eq!(t.poll_and_arm(), Armed::All);
        t.send(1, 10);
        assert_eq!(t.wakes(), 1);
    }
}

#[test]
fn polling_is_always_ready() {
    let mut t = Test::new(Mitigation::Poll);
    assert_eq!(t.poll_and_arm(), Armed::Ready);
}

#[test]
fn a_queue_that_is_too_shallow_is_refused_with_both_figures() {
    let mut config = PairConfig::new([1, 2]);
    config.wire.depth = 200;
    let (mut end, _other) = pair(&config);
    let refused = end.stack.set_mitigation(end.port, level(4)).expect_err("too shallow");
    assert_eq!(refused, MitigationError::TooShallow { depth: 200, least: 256 });
    assert!(refused.to_string().contains("holds 200 frames"), "{refused}");
    assert_eq!(end.stack.set_mitigation(end.port, level(3)), Ok(()));
    assert_eq!(
        end.stack.mitigation(end.port).expect("a port").0,
        level(3),
        "the refused level was set"
    );
    let nobody = end.stack.set_mitigation(PortId(9), level(0));
    assert_eq!(nobody, Err(MitigationError::NoPort));
}

/// Level 5 with a device that cannot count frames: the device is not armed, and the port is polled
/// after the time of the level.
#[test]
fn a_device_that_cannot_count_is_looked_at_in_time() {
    let (device, end_of_it) = device::channel::pair(&device::channel::Config::default());
    let mut stack = crate::Stack::new(crate::StackConfig::new([3, 4]));
    let id = stack.add_port(Box::new(device), crate::PortConfig::default());
    stack.set_mitigation(id, level(2)).expect("deep enough");
    let woken = Arc::new(Woken::default());
    let now = Instant::from_nanos(5_000_000_000);
    stack.poll(now);
    assert_eq!(stack.arm(&woken.clone().into()), Armed::All);
    end_of_it.send(&[0; 60]).expect("room");
    assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1);
    stack.poll(now);
    let until = Armed::Until(now + Duration::from_micros(100));
    assert_eq!(stack.arm(&woken.clone().into()), until);
    for _ in 0..100 {
        end_of_it.send(&[0; 60]).expect("room");
    }
    assert_eq!(woken.times(), 0, "frames woke an unarmed port");
    stack.poll(now + Duration::from_micros(100));
}
