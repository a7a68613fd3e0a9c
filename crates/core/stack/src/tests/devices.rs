//! Ports over devices that cannot wake their driver thread, that end, that stop transmitting, or
//! that have short queues: how the thread idles, and what is reported.

use core::net::SocketAddr;
use core::task::Waker;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use base::{Duration, Instant, Owner};
use device::mitigation::{Level, Mitigation};
use device::{BURST, Burst, Device, Limits, channel, mem, nic};
use mbuf::Pool;

use super::cable::Cable;
use crate::pair::{PairConfig, pair};
use crate::snapshot::PortRow;
use crate::{
    Armed, Awaited, MitigationError, PortConfig, PortId, ReplaceError, Stack, StackConfig,
};

const NOW: Instant = Instant::from_nanos(5_000_000_000);

fn stack() -> Stack {
    Stack::new(StackConfig::new([3, 4]))
}

fn add(stack: &mut Stack, device: impl Device + 'static) -> PortId {
    stack.add_port(Box::new(device), PortConfig::default())
}

fn level(n: u8) -> Mitigation {
    Mitigation::Level(Level::new(n).expect("a level"))
}

/// A device without a waker, like a kernel device: a UDP socket whose datagrams are its frames.
struct Mute {
    socket: UnixDatagram,
    has_descriptor: bool,
    is_unfinished: bool,
    wakes_at: Instant,
}

/// Such a device with a file descriptor, and the socket that sends to it.
fn mute() -> (Mute, UnixDatagram) {
    let (socket, other) = UnixDatagram::pair().expect("a pair of sockets");
    socket.set_nonblocking(true).expect("it is open");
    let wakes_at = Instant::NEVER;
    (Mute { socket, has_descriptor: true, is_unfinished: false, wakes_at }, other)
}

impl Device for Mute {
    fn limits(&self) -> Limits {
        channel::pair(&channel::Config::default()).0.limits()
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let (before, mut bytes) = (into.len(), [0; 2048]);
        while !into.is_full()
            && let Ok(len) = self.socket.recv(&mut bytes)
        {
            into.push(pool.copy_of(&bytes[..len]).expect("memory"));
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let count = from.len();
        from.drain(..).for_each(|frame| pool.free(frame));
        count
    }

    fn rx_ready(&self) -> bool {
        false
    }

    fn tx_ready(&self) -> bool {
        true
    }

    fn link_up(&self) -> bool {
        true
    }

    fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.has_descriptor.then(|| self.socket.as_fd())
    }

    fn wakes_at(&self) -> Instant {
        self.wakes_at
    }
}

/// A path in front of a TAP: the driver sleeps at the descriptor, and until the next arrival.
#[test]
fn a_device_with_a_descriptor_may_have_a_time_too() {
    let mut stack = stack();
    let (device, _other) = mute();
    let at = NOW + Duration::from_millis(3);
    let id = add(&mut stack, Mute { wakes_at: at, ..device });
    stack.poll(NOW);
    assert_eq!(stack.arm(Waker::noop()), Armed::Until(at));
    assert_eq!(awaited(&stack), [(id, Awaited::Frames)]);
}

#[test]
fn an_end_between_the_last_look_and_the_sleep_is_not_slept_through() {
    let (near, far) = mem::pair(&mem::Config::default());
    let memory = Cable::leaving(near, far);
    let (near, far) = channel::pair(&channel::Config::default());
    let bytes = Cable::leaving(near, far);
    let (near, far) = nic::pair(&nic::Config::default(), Arc::new(|| NOW)).expect("a link");
    let wire = Cable::leaving(near, far);
    for device in [memory, bytes, wire] {
        let mut stack = stack();
        let id = add(&mut stack, device);
        stack.poll(NOW);
        assert_eq!(stack.arm(Waker::noop()), Armed::Ready);
        stack.poll(NOW);
        assert!(stack.port_failure(id).is_some());
        assert_eq!(stack.arm(Waker::noop()), Armed::All, "the driver thread would spin");
    }
}

fn awaited(stack: &Stack) -> Vec<(PortId, Awaited)> {
    stack.descriptors().map(|(port, _, awaited)| (port, awaited)).collect()
}

#[test]
fn a_port_that_lets_frames_gather_does_not_deafen_the_others() {
    let ((busy, sender), (quiet, _other)) = (mute(), mute());
    let mut stack = stack();
    let (busy, quiet) = (add(&mut stack, busy), add(&mut stack, quiet));
    stack.set_mitigation(busy, level(5)).expect("its depth is not known");
    let both = [(busy, Awaited::Frames), (quiet, Awaited::Frames)];
    stack.poll(NOW);
    assert_eq!((stack.arm(Waker::noop()), &awaited(&stack)[..]), (Armed::Descriptors, &both[..]));
    sender.send(&[0; 60]).expect("room");
    stack.poll(NOW);
    let until = NOW + Duration::from_micros(800);
    assert_eq!(stack.arm(Waker::noop()), Armed::Until(until));
    assert_eq!(awaited(&stack), [(busy, Awaited::Nothing), (quiet, Awaited::Frames)]);
    stack.poll(until);
    assert_eq!((stack.arm(Waker::noop()), &awaited(&stack)[..]), (Armed::Descriptors, &both[..]));
}

#[test]
fn a_frame_that_will_come_keeps_nobody_from_a_device_that_tells_of_none() {
    let slow = nic::Config { delay: Duration::from_secs(1), ..nic::Config::default() };
    let (near, mut far) = nic::pair(&slow, Arc::new(|| NOW)).expect("a link");
    let mut stack = stack();
    add(&mut stack, near);
    let mut pool = Pool::new(1 << 20);
    let mut burst = Burst::from_iter([pool.copy_of(&[0; 60]).expect("memory")]);
    far.tx_burst(&mut pool, &mut burst);
    stack.poll(NOW);
    let Armed::Until(at) = stack.arm(Waker::noop()) else { panic!("it is known when") };
    assert!(at > NOW + Duration::from_secs(1));
    let (silent, _other) = mute();
    add(&mut stack, Mute { has_descriptor: false, ..silent });
    let soon = NOW + Duration::from_millis(1);
    assert_eq!(stack.arm(Waker::noop()), Armed::Until(soon));
}

/// A stopped queue must not keep its driver thread, and so a processor, busy.
#[test]
fn an_unfinished_device_is_looked_at_and_not_spun_for() {
    let (device, _other) = mute();
    let mut stack = stack();
    add(&mut stack, Mute { is_unfinished: true, ..device });
    stack.poll(NOW);
    assert_eq!(stack.arm(Waker::noop()), Armed::NotAll);
    assert_eq!(awaited(&stack).len(), 1, "frames do not wake the driver thread");
}

/// A task that waits for room on one port must not wait for room on the other port, which may never
/// come.
#[test]
fn a_port_that_stands_hides_no_other_ones_room() {
    let one = mem::Config { depth: 1, ..mem::Config::default() };
    let ((stands, _nobody), (near, mut far)) = (mem::pair(&one), mem::pair(&one));
    let mut stack = stack();
    let (stands, near) = (add(&mut stack, stands), add(&mut stack, near));
    let fill = |stack: &mut Stack, port: PortId| {
        for _ in 0..BURST + 2 {
            let frame = stack.core.cx.pool.copy_of(&[0; 60]).expect("memory");
            crate::pace::put(stack, port.0, frame);
        }
    };
    stack.poll(NOW);
    fill(&mut stack, stands);
    stack.arm(Waker::noop());
    assert!(stack.is_pushed_back() && !stack.is_newly_pushed_back());
    fill(&mut stack, near);
    assert!(stack.is_newly_pushed_back(), "a task waits for its room already");
    stack.arm(Waker::noop());
    assert!(!stack.is_newly_pushed_back());
    stack.found_room();
    stack.poll(NOW);
    assert!(!stack.found_room());
    let (mut pool, mut burst) = (Pool::new(1 << 20), Burst::new());
    assert_eq!(far.rx_burst(&mut pool, &mut burst), 1);
    stack.poll(NOW);
    assert!(stack.found_room() && stack.is_pushed_back());
    assert!(!stack.found_room(), "the room was reported twice");
}

fn wire(depth: usize) -> mem::Mem {
    mem::pair(&mem::Config { depth, ..mem::Config::default() }).0
}

#[test]
fn a_port_may_always_have_what_it_began_with_and_less_than_it_has() {
    let mut stack = stack();
    let id = add(&mut stack, wire(3));
    for to in [level(0), Mitigation::Poll, level(0)] {
        assert_eq!(stack.set_mitigation(id, to), Ok(()), "{to}");
    }
    let refused = stack.set_mitigation(id, level(1)).expect_err("too shallow");
    assert_eq!(refused, MitigationError::TooShallow { depth: 3, least: 32 });
    assert!(refused.to_string().contains("choose level 0 or a deeper queue"), "{refused}");
}

#[test]
fn a_device_too_shallow_for_the_ports_mitigation_does_not_take_its_place() {
    let mut stack = stack();
    let id = add(&mut stack, wire(1024));
    stack.set_mitigation(id, level(5)).expect("deep enough");
    let refused = stack.replace_port(id, Box::new(wire(100)));
    let (why, device) = refused.err().expect("too shallow");
    let shallow = MitigationError::TooShallow { depth: 100, least: 512 };
    assert_eq!((why, device.rx_depth()), (ReplaceError::Mitigation(shallow), 100));
    assert!(why.to_string().contains("choose level 2 or a deeper queue"), "{why}");
    assert_eq!(stack.mitigation(id).expect("a port").0, level(5));
    stack.set_mitigation(id, level(2)).expect("less than it has");
    assert!(stack.replace_port(id, device).is_ok());
    let nobody = stack.replace_port(PortId(9), Box::new(wire(100))).err().expect("no such port");
    assert_eq!(nobody.0, ReplaceError::NoPort);
}

fn row(stack: &Stack) -> PortRow {
    stack.ports_page(0, 1).rows.into_iter().next().expect("a port")
}

#[test]
fn a_device_that_takes_nothing_for_five_seconds_is_told_of() {
    let mut config = PairConfig::new([1, 2]);
    config.wire.depth = 1;
    let (mut end, mut other) = pair(&config);
    end.stack.poll(NOW);
    let (local, to) = (SocketAddr::new(end.addr, 0), SocketAddr::new(other.addr, 9));
    let socket = end.stack.udp_bind(local, Owner::program()).expect("free");
    for _ in 0..2 {
        end.stack.udp_send(socket, to, &[0; 10], NOW).expect("room");
        end.stack.flush();
    }
    let after = |seconds| NOW + Duration::from_secs(seconds);
    end.stack.poll(after(5));
    assert_eq!((row(&end.stack).pushed_back, row(&end.stack).stalled_ms), (true, None));
    assert_eq!(end.stack.port_trouble(end.port), None, "a full queue was reported as trouble");
    end.stack.poll(after(7));
    assert_eq!(row(&end.stack).stalled_ms, Some(7_000));
    let why = end.stack.port_trouble(end.port).expect("a reason");
    assert!(why.contains("no frame for 7 s"), "{why}");
    assert_eq!(row(&end.stack).failure, Some(why));
    other.stack.poll(after(7));
    end.stack.poll(after(7));
    assert_eq!((row(&end.stack).stalled_ms, end.stack.port_trouble(end.port)), (None, None));
}
