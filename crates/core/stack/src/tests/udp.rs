//! UDP sockets: which socket gets a datagram, how datagrams leave, and errors that the network
//! reports about them. RFC 768, RFC 1122 section 4.1, RFC 6935, RFC 8899.

mod checksums;
mod errors;
mod receiving;
mod segments;
mod sending;
mod sockets;
mod supers;

use core::net::SocketAddr;

use base::{Instant, Owner};
use wire::protocol;

use super::craft::{Bench, frame_between};
use super::frag::udp_frame;
use super::icmp::{BOTH, NOW, What, bench, tell};
use crate::{Stack, UdpHandle, UdpOptions};

/// A socket of the stack on a port.
fn bound(bench: &mut Bench, port: u16) -> UdpHandle {
    let local = SocketAddr::new(bench.ours, port);
    bench.stack.udp_bind(local, Owner::program()).expect("free")
}

/// The address of the other end with a port.
fn peer(bench: &Bench, port: u16) -> SocketAddr {
    SocketAddr::new(bench.theirs, port)
}

/// Puts datagrams on the wire, from these ports of the other end to port 9 of the stack, and polls.
fn arrive(bench: &mut Bench, from_ports: &[u16], now: Instant) {
    for &from in from_ports {
        let frame = udp_frame(bench, (from, 9), &from.to_be_bytes());
        assert!(bench.inject(&frame));
    }
    bench.stack.poll(now);
}

/// The first two bytes, as a number, of each datagram that waits in a socket.
fn taken(stack: &mut Stack, socket: UdpHandle) -> Vec<u16> {
    let mut all = Vec::new();
    while let Some(datagram) = stack.udp_receive(socket) {
        let bytes = datagram.payload.as_slice();
        all.push(u16::from_be_bytes([bytes[0], bytes[1]]));
        stack.give_back(datagram.payload);
    }
    all
}

fn set(bench: &mut Bench, socket: UdpHandle, change: impl FnOnce(&mut UdpOptions)) {
    let mut options = bench.stack.udp_options(socket).expect("open");
    change(&mut options);
    bench.stack.udp_set_options(socket, options).expect("open");
}

/// A frame with a datagram from the other end that has this checksum field.
fn frame_with_checksum(bench: &Bench, checksum: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    let length = (8 + payload.len()) as u16;
    wire::udp::Header { src_port: 7, dst_port: 9, length, checksum }.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    frame_between(bench.theirs, bench.ours, protocol::UDP, &bytes)
}
