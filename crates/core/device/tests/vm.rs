//! A virtual machine's socket: QEMU's framing, connections and disconnections, invalid lengths,
//! wake-ups, paths that other programs own.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use base::DropReason;
use mbuf::Pool;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirespeed_device::vm::{Dgram, Stream};
use wirespeed_device::{Burst, Device, vlan};

fn place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wsvm-{}-{name}", std::process::id()))
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes(), frame].concat()
}

fn received(device: &mut impl Device, pool: &mut Pool) -> Vec<Vec<u8>> {
    let (mut burst, mut all) = (Burst::new(), Vec::new());
    while device.rx_burst(pool, &mut burst) > 0 {
        for frame in burst.drain(..) {
            all.push(frame.as_slice().to_vec());
            pool.free(frame);
        }
    }
    all
}

fn sent(device: &mut impl Device, pool: &mut Pool, frames: &[&[u8]]) -> usize {
    let mut burst: Burst =
        frames.iter().map(|bytes| pool.copy_of(bytes).expect("memory")).collect();
    let count = device.tx_burst(pool, &mut burst);
    burst.drain(..).for_each(|frame| pool.free(frame));
    count
}

fn readable(fd: impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).expect("it is open") > 0
}

/// Would a sleeping driver be woken?
fn wakes(device: &impl Device) -> bool {
    readable(device.as_fd().expect("it is not gone"))
}

fn datagram_socket(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).expect("a place");
    socket.set_nonblocking(true).expect("a socket");
    socket
}

/// Fill the queue of the datagram socket at `path`, from several sockets, because the buffer of one
/// socket may be too small.
fn fill(path: &Path) {
    loop {
        let other = UnixDatagram::unbound().expect("a socket");
        other.set_nonblocking(true).expect("a socket");
        if other.send_to(&[9; 60], path).is_err() {
            return;
        }
        while other.send_to(&[9; 60], path).is_ok() {}
    }
}

fn dropped(device: &impl Device, reason: DropReason) -> u64 {
    device.drops().expect("it counts").of(reason)
}

#[test]
fn frames_have_their_length_in_front_however_they_are_cut() {
    let (path, mut pool) = (place("cut"), Pool::new(1 << 20));
    let mut port = Stream::listen(&path).expect("a place");
    let mut machine = UnixStream::connect(&path).expect("it listens");
    let all: Vec<u8> =
        (1..=40u8).flat_map(|n| framed(&vec![n; 60 + usize::from(n) * 30])).collect();
    let mut got = Vec::new();
    for part in all.chunks(97) {
        machine.write_all(part).expect("room");
        got.extend(received(&mut port, &mut pool));
    }
    assert_eq!(got.len(), 40);
    for (n, frame) in (1..=40u8).zip(&got) {
        assert_eq!(*frame, vec![n; 60 + usize::from(n) * 30]);
    }
    assert_eq!(sent(&mut port, &mut pool, &[&[1; 60], &[2; 1_514]]), 2);
    let mut bytes = vec![0; 4 + 60 + 4 + 1_514];
    machine.read_exact(&mut bytes).expect("they were sent");
    assert_eq!(bytes, [framed(&[1; 60]), framed(&[2; 1_514])].concat());
    assert_eq!(sent(&mut port, &mut pool, &[&[3; 1_523]]), 1, "taken, and refused");
    assert_eq!(dropped(&port, DropReason::DeviceFrameTooBig), 1);
}

#[test]
fn a_machine_that_goes_is_followed_by_the_next() {
    let (path, mut pool) = (place("next"), Pool::new(1 << 20));
    let mut port = Stream::listen(&path).expect("a place");
    assert!(!port.link_up() && !port.is_gone());
    assert!(port.failure().is_some_and(|why| why.to_string().contains("-netdev")));
    assert_eq!(sent(&mut port, &mut pool, &[&[1; 60]]), 1);
    assert_eq!(dropped(&port, DropReason::DeviceLinkDown), 1);
    for n in 1..=3u8 {
        let mut machine = UnixStream::connect(&path).expect("it listens");
        assert!(port.rx_ready(), "somebody is there");
        machine.write_all(&framed(&[n; 70])).expect("room");
        assert_eq!(received(&mut port, &mut pool), [vec![n; 70]]);
        assert!(port.link_up());
        // Half a frame of one machine must not become part of the next machine's stream.
        machine.write_all(&framed(&[n; 70])[..30]).expect("room");
        drop(machine);
        // The first call reads the bytes, the second one the end of the stream.
        for _ in 0..2 {
            assert!(received(&mut port, &mut pool).is_empty());
        }
        assert!(!port.link_up());
    }
    drop(port);
    assert!(!path.exists(), "its name goes with it");
}

#[test]
fn every_machine_is_heard_of_at_one_descriptor() {
    let (path, mut pool) = (place("one"), Pool::new(1 << 20));
    let mut port = Stream::listen(&path).expect("a place");
    let lent = port.as_fd().expect("it waits");
    let number = lent.as_raw_fd();
    // Register the descriptor as a driver does: once, by its number.
    let driver = epoll::create(CreateFlags::CLOEXEC).expect("a descriptor");
    epoll::add(&driver, lent, EventData::new_u64(0), EventFlags::IN).expect("it can be waited for");
    assert!(!readable(&driver));
    let mut machine = UnixStream::connect(&path).expect("it listens");
    for n in 1..=4u8 {
        assert!(readable(&driver), "machine {n} is there");
        assert!(received(&mut port, &mut pool).is_empty() && port.link_up());
        assert_eq!(port.as_fd().map(|fd| fd.as_raw_fd()), Some(number));
        // The second and the fourth machine connect while another one is connected.
        let next = (n % 2 == 1).then(|| UnixStream::connect(&path).expect("it listens"));
        assert!(!readable(&driver), "nothing is to be done");
        machine.write_all(&framed(&[n; 60])).expect("room");
        assert!(readable(&driver), "a frame");
        assert_eq!(received(&mut port, &mut pool), [vec![n; 60]]);
        assert!(!readable(&driver));
        drop(machine);
        assert!(readable(&driver), "machine {n} has gone");
        assert!(received(&mut port, &mut pool).is_empty() && !port.link_up() && !port.is_gone());
        assert_eq!(readable(&driver), next.is_some());
        machine = next.unwrap_or_else(|| UnixStream::connect(&path).expect("it listens"));
    }
}

#[test]
fn a_copy_of_the_descriptor_keeps_no_connection_open() {
    let (path, mut pool) = (place("copy"), Pool::new(1 << 20));
    let port = Stream::listen(&path).expect("a place");
    let ids = [vlan::Id::Untagged];
    let mut trunk = vlan::split(Box::new(port), vlan::TAG, &ids).expect("Ethernet").remove(0);
    let mut machine = UnixStream::connect(&path).expect("it listens");
    assert!(received(&mut trunk, &mut pool).is_empty() && trunk.link_up());
    assert!(!wakes(&trunk), "the trunk has made its copy");
    // Send an invalid length, so that our end closes.
    machine.write_all(&[0; 4]).expect("room");
    assert!(wakes(&trunk));
    assert!(received(&mut trunk, &mut pool).is_empty() && !trunk.link_up());
    assert!(!wakes(&trunk));
    machine.set_nonblocking(true).expect("a socket");
    assert_eq!(machine.read(&mut [0; 1]).expect("not open any more"), 0);
    let _next = UnixStream::connect(&path).expect("it listens");
    assert!(wakes(&trunk));
}

#[test]
fn what_is_no_dead_socket_stays_where_it_is() {
    let path = place("notes.txt");
    std::fs::write(&path, "of value").expect("a file");
    let refusals = [Stream::listen(&path).err(), Dgram::bind(&path, &place("nobody")).err()];
    for refusal in refusals {
        let said = refusal.expect("a file is there").to_string();
        assert!(said.contains("no socket") && said.contains("another path"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "of value");
    std::fs::remove_file(&path).expect("it is there");

    let first = Stream::listen(&path).expect("a place");
    let refusals = [Stream::listen(&path).err(), Dgram::bind(&path, &place("nobody")).err()];
    for refusal in refusals {
        let said = refusal.expect("somebody listens").to_string();
        assert!(said.contains("another program"), "{said}");
    }
    assert!(!first.rx_ready(), "nobody had to connect to find out");
    // If somebody removes the path, the first socket must not remove the new socket at that path.
    std::fs::remove_file(&path).expect("it is there");
    let second = Dgram::bind(&path, &place("nobody")).expect("a place");
    assert!(Dgram::bind(&path, &place("nobody")).is_err());
    drop(first);
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());

    // The standard library does not remove the file.
    drop(UnixListener::bind(&path).expect("a place"));
    drop(Stream::listen(&path).expect("the old one is dead"));
    drop(UnixDatagram::bind(&path).expect("a place"));
    drop(Stream::listen(&path).expect("the old one is dead"));
    assert!(!path.exists());
}

#[test]
fn a_length_that_no_frame_has_ends_the_connection() {
    for bad in [[0u8; 4], [0xff; 4]] {
        let (path, mut pool) = (place("bad"), Pool::new(1 << 20));
        let mut port = Stream::listen(&path).expect("a place");
        let mut machine = UnixStream::connect(&path).expect("it listens");
        machine.write_all(&framed(&[1; 60])).expect("room");
        machine.write_all(&bad).expect("room");
        assert_eq!(received(&mut port, &mut pool).len(), 1);
        assert!(!port.link_up());
        assert_eq!(dropped(&port, DropReason::DeviceBadHeader), 1);
        // A frame that is longer than our maximum is skipped, and the next frame is found.
        let mut machine = UnixStream::connect(&path).expect("it listens");
        machine.write_all(&framed(&vec![2; 5_000])).expect("room");
        machine.write_all(&framed(&[3; 60])).expect("room");
        assert_eq!(received(&mut port, &mut pool), [vec![3; 60]]);
        assert_eq!(dropped(&port, DropReason::DeviceFrameTooBig), 1);
    }
}

#[test]
fn a_machine_that_does_not_read_pushes_back_and_loses_nothing() {
    let (path, mut pool) = (place("slow"), Pool::new(8 << 20));
    let mut port = Stream::listen(&path).expect("a place");
    let mut machine = UnixStream::connect(&path).expect("it listens");
    let mut taken = 0;
    loop {
        let frame = [taken as u8; 1_000];
        match sent(&mut port, &mut pool, &[&frame]) {
            0 => break,
            n => taken += n,
        }
        assert!(taken < 10_000, "it never pushes back");
    }
    assert!(!port.tx_ready());
    let mut read = vec![0; taken * 1_004];
    let mut at = 0;
    machine.set_nonblocking(true).expect("a socket");
    while at < read.len() {
        at += machine.read(&mut read[at..]).unwrap_or(0);
        received(&mut port, &mut pool);
    }
    assert!(port.tx_ready());
    for (n, frame) in read.chunks(1_004).enumerate() {
        assert_eq!(frame, framed(&[n as u8; 1_000]));
    }
}

#[test]
fn frames_that_a_machine_leaves_behind_are_counted() {
    let (path, mut pool) = (place("left"), Pool::new(8 << 20));
    let mut port = Stream::listen(&path).expect("a place");
    let mut machine = UnixStream::connect(&path).expect("it listens");
    let mut taken = 0;
    while sent(&mut port, &mut pool, &[&[7; 1_000]]) > 0 {
        taken += 1;
    }
    // The bytes in the socket count as sent. The machine reads one and a half frames of them.
    machine.read_exact(&mut [0; 1_506]).expect("bytes");
    let held = rustix::io::ioctl_fionread(&machine).expect("a socket");
    drop(machine);
    received(&mut port, &mut pool);
    let whole = (1_506 + held) / 1_004;
    assert_eq!(dropped(&port, DropReason::DeviceLinkDown), taken - whole);
    assert!(taken > whole);
}

#[test]
fn who_connected_is_gone_with_the_other_end() {
    let (path, mut pool) = (place("server"), Pool::new(1 << 20));
    assert!(Stream::connect(&path).err().is_some_and(|e| e.to_string().contains("connecting to")));
    let mut server = Stream::listen(&path).expect("a place");
    let mut port = Stream::connect(&path).expect("it listens");
    assert_eq!(sent(&mut port, &mut pool, &[&[5; 64]]), 1);
    assert_eq!(received(&mut server, &mut pool), [vec![5; 64]]);
    drop(server);
    received(&mut port, &mut pool);
    assert!(port.is_gone() && port.as_fd().is_none());
}

#[test]
fn datagrams_are_frames() {
    let (ours, theirs, mut pool) = (place("d-ours"), place("d-theirs"), Pool::new(1 << 20));
    let mut port = Dgram::bind(&ours, &theirs).expect("a place");
    assert_eq!(sent(&mut port, &mut pool, &[&[1; 60]]), 1, "nobody is there");
    assert_eq!(dropped(&port, DropReason::DeviceLinkDown), 1);
    let machine = UnixDatagram::bind(&theirs).expect("a place");
    assert_eq!(sent(&mut port, &mut pool, &[&[2; 60], &[3; 1_514]]), 2);
    let mut room = [0; 2_000];
    assert_eq!(machine.recv(&mut room).expect("a frame"), 60);
    assert_eq!(machine.recv(&mut room).expect("a frame"), 1_514);
    machine.send_to(&[4; 99], &ours).expect("room");
    machine.send_to(&[4; 1_999], &ours).expect("room");
    assert!(port.rx_ready());
    assert_eq!(received(&mut port, &mut pool), [vec![4; 99]]);
    assert_eq!(dropped(&port, DropReason::DeviceFrameTooBig), 1);
    drop(machine);
    let _ = std::fs::remove_file(&theirs);
    drop(port);
    assert!(!ours.exists());
}

#[test]
fn a_receiver_that_is_full_is_waited_for() {
    let (ours, theirs, mut pool) = (place("f-ours"), place("f-theirs"), Pool::new(1 << 20));
    let mut port = Dgram::bind(&ours, &theirs).expect("a place");
    let machine = datagram_socket(&theirs);
    fill(&theirs);
    let mut room = [0; 2_000];
    for turn in 0..3 {
        assert_eq!(sent(&mut port, &mut pool, &[&[1; 60]]), 0, "pushed back in turn {turn}");
        assert!(!port.tx_ready() && !port.rx_ready() && !wakes(&port), "nobody is called");
        machine.recv(&mut room).expect("it is full");
        assert!(port.tx_ready() && wakes(&port), "there is room for one");
        assert_eq!(sent(&mut port, &mut pool, &[&[1; 60], &[2; 60]]), 1);
        assert!(!port.tx_ready() && !wakes(&port));
        // Frames are still received in the meantime.
        machine.send_to(&[3; 60], &ours).expect("room");
        assert!(port.rx_ready() && wakes(&port));
        assert_eq!(received(&mut port, &mut pool), [vec![3; 60]]);
        assert!(!port.tx_ready() && !wakes(&port), "full as before");
    }
    // If room is no longer needed, it does not wake the driver again.
    machine.recv(&mut room).expect("it is full");
    assert!(wakes(&port) && received(&mut port, &mut pool).is_empty());
    assert!(port.tx_ready() && !wakes(&port));
    assert_eq!(sent(&mut port, &mut pool, &[&[1; 60], &[2; 60]]), 1);
    drop(machine);
    assert!(
        port.tx_ready() && wakes(&port),
        "a peer that is gone takes nothing, so the port is \
                                              ready"
    );
    assert_eq!(sent(&mut port, &mut pool, &[&[2; 60]]), 1);
    assert_eq!(dropped(&port, DropReason::DeviceLinkDown), 1);
    assert!(!wakes(&port));
    std::fs::remove_file(&theirs).expect("the socket left it");
}

#[test]
fn a_buffer_that_is_full_is_waited_for() {
    let (ours, theirs, mut pool) = (place("b-ours"), place("b-theirs"), Pool::new(1 << 20));
    let mut port = Dgram::bind(&ours, &theirs).expect("a place");
    let machine = datagram_socket(&theirs);
    // The kernel does not limit the queue of a socket that is connected to our socket.
    machine.connect(&ours).expect("it is there");
    let mut taken = 0;
    while sent(&mut port, &mut pool, &[&[1; 1_514]]) == 1 {
        taken += 1;
        assert!(taken < 100_000, "it never pushes back");
    }
    assert!(!port.tx_ready() && !wakes(&port));
    let mut room = [0; 2_000];
    let mut got = 0;
    while machine.recv(&mut room).is_ok() {
        got += 1;
    }
    assert_eq!(got, taken);
    assert!(port.tx_ready() && wakes(&port));
    assert_eq!(sent(&mut port, &mut pool, &[&[1; 60]]), 1);
    assert!(!wakes(&port));
    drop(machine);
    std::fs::remove_file(&theirs).expect("the socket left it");
}

#[test]
fn a_machine_that_starts_again_is_heard_before_it_is_spoken_to() {
    let (ours, theirs, mut pool) = (place("a-ours"), place("a-theirs"), Pool::new(1 << 20));
    let mut port = Dgram::bind(&ours, &theirs).expect("a place");
    for n in 1..=3u8 {
        let machine = datagram_socket(&theirs);
        machine.send_to(&[n; 60], &ours).expect("it takes frames of anybody");
        assert!(wakes(&port));
        assert_eq!(received(&mut port, &mut pool), [vec![n; 60]]);
        assert_eq!(sent(&mut port, &mut pool, &[&[n; 70]]), 1);
        assert_eq!(machine.recv(&mut [0; 100]).expect("a frame"), 70);
        // The machine's queue is full when its socket is dropped.
        fill(&theirs);
        assert_eq!(sent(&mut port, &mut pool, &[&[n; 80]]), 0);
        drop(machine);
        std::fs::remove_file(&theirs).expect("the socket left it");
    }
    assert_eq!(dropped(&port, DropReason::DeviceLinkDown), 0);
}

#[test]
fn a_machine_that_sends_first_is_answered_where_it_is() {
    let (path, mut pool) = (place("first"), Pool::new(1 << 20));
    let mut port = Dgram::listen(&path).expect("a place");
    assert_eq!(sent(&mut port, &mut pool, &[&[1; 60]]), 1);
    assert_eq!(dropped(&port, DropReason::DeviceLinkDown), 1, "nobody is known yet");
    for name in ["machine-1", "machine-2"] {
        let own = place(name);
        let machine = datagram_socket(&own);
        machine.send_to(b"VFKT", &path).expect("it is there");
        assert!(received(&mut port, &mut pool).is_empty(), "the greeting is no frame");
        machine.send_to(&[2; 60], &path).expect("it is there");
        assert_eq!(received(&mut port, &mut pool), [[2; 60]]);
        assert_eq!(sent(&mut port, &mut pool, &[&[3; 60]]), 1);
        let mut frame = [0; 100];
        assert_eq!(machine.recv(&mut frame).expect("a frame"), 60);
        std::fs::remove_file(own).expect("it was made");
    }
}
