//! Loopback: packets to the stack's own addresses, 127.0.0.0/8 and ::1 come back without an outside
//! device. The loopback port is made when it is first needed, so that a stack without such packets
//! pays nothing for it.
//!
//! Called by: `resolve.rs` to send, `rx/unusual.rs` to receive. Loopback is a wire in memory. Its
//! near end is a port that no list shows; its far end is read here. Connections over it have keys
//! of their own: a segment from such an address that comes by another port finds none of these
//! connections, and is dropped as a martian as usual. RFC 1122 sections 3.2.1.3 and 3.3.4.2. Limit:
//! the wire's depth, at which it pushes back like any device. Counter: `looped`. Decision:
//! docs/decisions/0114-loopback.md.

use core::net::{Ipv4Addr, Ipv6Addr};

use base::{Cidr, LinkKind, Mtu};
use device::mem::{self, Mem};
use device::{Burst, Device, Offloads};
use mbuf::Pool;

use crate::local::LocalAddrs;
use crate::port::{LOOPBACK, Ports};

/// How many frames the wire holds. `DEPTH_BYTES`: how many bytes.
const DEPTH: usize = 1_024;
const DEPTH_BYTES: usize = 4 << 20;

/// The wire's far end.
pub(crate) struct Loopback {
    far: Mem,
    /// [`crate::Stack::flow_epoch`] when the port last learnt which addresses are ours.
    epoch: u64,
}

impl Loopback {
    /// Make the wire, and the port at its near end.
    #[cold]
    pub(crate) fn make(ports: &mut Ports, epoch: u64) -> Loopback {
        let offloads = Offloads { tx_checksum: true, rx_checksum: true, ..Offloads::default() };
        let (link, mtu, depth, depth_bytes) = (LinkKind::Ip, Mtu::MAX, DEPTH, DEPTH_BYTES);
        let (near, far) = mem::pair(&mem::Config { link, mtu, depth, depth_bytes, offloads });
        ports.set_loopback(Box::new(near));
        learn_addresses(ports);
        Loopback { far, epoch }
    }

    pub(crate) fn has_input(&self) -> bool {
        self.far.rx_ready()
    }

    /// Returns a burst of packets that we sent to ourselves. If the flow epoch has changed, the
    /// port first learns which addresses are ours.
    pub(crate) fn receive(&mut self, ports: &mut Ports, epoch: u64, pool: &mut Pool) -> Burst {
        let mut frames = Burst::new();
        if self.far.rx_burst(pool, &mut frames) > 0 && self.epoch != epoch {
            learn_addresses(ports);
            self.epoch = epoch;
        }
        frames
    }
}

/// Give the loopback port all addresses of all ports, and the loopback addresses.
#[cold]
fn learn_addresses(ports: &mut Ports) {
    let of_ports = ports.iter().flat_map(|port| &port.addresses);
    let usable = of_ports.filter(|address| address.is_usable()).map(|address| address.ip());
    let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let local = LocalAddrs::looping(usable.chain(loopback).map(Cidr::host));
    if let Some(port) = ports.get_mut(LOOPBACK) {
        port.local = local;
    }
}
