//! A stack behind the card, and a stack in the guest: both sleep when there is nothing to do, so
//! each is woken by the other.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};

use base::Mtu;
use device::Device;
use mbuf::Pool;
use net::{Net, blocking};
use stack::{PortConfig, Stack, StackConfig};
use wirespeed_virtio::VhostUser;

use crate::guest::{ALL, EVENT_IDX, GUEST_CSUM, MRG_RXBUF, VERSION_1};
use crate::world::{BIG, SMALL, connect, place};

/// Bytes in each direction.
const BYTES: usize = 8 << 20;

fn host(device: Box<dyn Device>, number: u8) -> Net {
    let mut stack = Stack::new(StackConfig::new([u64::from(number), 2]));
    let address = format!("10.1.0.{number}/24").parse().expect("an address");
    let mac = base::MacAddr([2, 0, 0, 0, 0, number]);
    stack.add_port(device, PortConfig { addresses: vec![address], mac, ..PortConfig::default() });
    Net::spawn_thread(stack).expect("a thread").0
}

/// What is at this place of the stream.
fn bytes(at: usize) -> u8 {
    (at % 251) as u8
}

/// All of a stream arrives in both directions at once.
fn exchange(features: u64, room: u32, mtu: Mtu) {
    let (path, mut pool) = (place(), Pool::new(1 << 20));
    let mut port = VhostUser::listen(&path).expect("a place").with_mtu(mtu);
    let guest = connect(&mut port, &mut pool, &path, features, room).with_mtu(mtu);
    drop(pool);
    let (ours, theirs) = (host(Box::new(port), 1), host(Box::new(guest), 2));
    let at: SocketAddr = "10.1.0.1:7".parse().expect("an address");
    let listener = blocking::TcpListener::bind(&ours, at).expect("a port");
    let server = std::thread::spawn(move || both(&listener.accept().expect("a client").0));
    both(&blocking::TcpStream::connect(&theirs, at).expect("it listens"));
    server.join().expect("it does not panic");
}

fn both(stream: &blocking::TcpStream) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let all: Vec<u8> = (0..BYTES).map(bytes).collect();
            let mut to = stream;
            to.write_all(&all).expect("it goes");
            stream.shutdown(Shutdown::Write).expect("it ends");
        });
        let (mut from, mut all) = (stream, Vec::new());
        from.read_to_end(&mut all).expect("it comes");
        assert_eq!(all.len(), BYTES);
        assert!(all.iter().enumerate().all(|(at, byte)| *byte == bytes(at)));
    });
}

#[test]
fn streams_pass_with_all_offloads() {
    exchange(ALL, SMALL, Mtu::ETHERNET);
}

#[test]
fn streams_pass_with_all_offloads_into_big_buffers() {
    exchange(ALL & !MRG_RXBUF, BIG, Mtu::ETHERNET);
}

#[test]
fn streams_pass_in_long_packets() {
    exchange(ALL, SMALL, Mtu::new(65_520).expect("68 or more"));
}

#[test]
fn streams_pass_to_a_driver_that_can_nothing() {
    exchange(VERSION_1, SMALL, Mtu::ETHERNET);
}

#[test]
fn streams_pass_to_a_driver_that_only_checks() {
    exchange(VERSION_1 | GUEST_CSUM | EVENT_IDX, SMALL, Mtu::ETHERNET);
}
