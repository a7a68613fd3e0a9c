//! Datagrams and echo requests for other hosts, and answers in their name: between two stacks, of
//! which one is the guest of the other, and with frames that the test makes. RFC 768, RFC 792,
//! RFC 4443.

mod answers;
mod newcomers;
mod queue;
mod sending;

use core::net::{IpAddr, SocketAddr};

use base::{IpVersion, Owner};

use crate::pair::{End, PairConfig, pair};
use crate::{Foreign, ForeignDatagram, Route, Stack, UdpHandle};

pub(super) use super::icmp::{BOTH, NOW};

/// A host that neither of the two is.
pub(super) fn other(version: IpVersion) -> IpAddr {
    match version {
        IpVersion::V4 => "198.51.100.53".parse().expect("an address"),
        IpVersion::V6 => "2001:db8:1::53".parse().expect("an address"),
    }
}

pub(super) fn config(version: IpVersion) -> PairConfig {
    let mut config = PairConfig { version, ..PairConfig::new([4, 5]) };
    config.stack.foreign = Foreign { udp: true, echo: true, ..Foreign::default() };
    config
}

/// A guest whose default route leads to the gateway.
pub(super) fn guest_and_gateway(config: &PairConfig) -> (End, End) {
    let (mut guest, gateway) = pair(config);
    let any = if config.version == IpVersion::V4 { "0.0.0.0/0" } else { "::/0" };
    let route = Route::new(any.parse().expect("a network"), Some(gateway.addr), guest.port.0);
    assert!(guest.stack.add_route(route));
    (guest, gateway)
}

/// A socket of the guest that has sent `payload` to port 53 of the other host.
pub(super) fn ask(guest: &mut End, payload: &[u8]) -> (UdpHandle, SocketAddr) {
    let to = SocketAddr::new(other(IpVersion::of(&guest.addr)), 53);
    let local = SocketAddr::new(guest.addr, 4_000);
    let socket = guest.stack.udp_bind(local, Owner::program()).expect("free");
    guest.stack.udp_send(socket, to, payload, NOW).expect("routed");
    (socket, to)
}

pub(super) fn exchange(first: &mut End, second: &mut End) {
    for end in [&mut *first, &mut *second] {
        end.stack.flush();
    }
    second.stack.poll(NOW);
    first.stack.poll(NOW);
}

pub(super) fn take(stack: &mut Stack) -> Vec<ForeignDatagram> {
    let mut all = Vec::new();
    stack.foreign_receive(&mut all, usize::MAX);
    all
}
