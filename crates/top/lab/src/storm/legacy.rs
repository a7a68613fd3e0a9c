//! A model of how a host of 1984 (4.2BSD and systems made from it) treats broadcasts: it knows one
//! form of broadcast address, and forwards packets that seem to be for other hosts.
//!
//! Called by: `cases.rs`. The faults are those that RFC 1122 sections 2.3.2.1, 3.2.2 and 3.3.6
//! forbid today: a packet that arrived as a link-level broadcast is forwarded; the host sends an
//! ARP request for its destination, for each such packet; the packet is sent to all stations again,
//! since the link layer knows both forms of the broadcast address and the IP layer only one;
//! redirects and errors are sent to its source. The transmit queue has 4.2BSD's length, 50 frames.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use base::{Instant, MacAddr};
use wire::checksum::Sum;
use wire::{arp, ether, icmp, ipv4, protocol, udp};

use super::segment::Station;
use super::{Clock, Form, HOPS, PORTS, prefix};

const QUEUE_MAX: usize = 50;
/// Packets that wait for a link address, one for each host, and entries of the ARP table.
const ARP_MAX: usize = 64;
/// The ICMP type and code of a redirect for a host (RFC 792).
const REDIRECT: (u8, u8) = (5, 1);

/// The faults that a host has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    /// The host forwards packets for other hosts, even with a single interface ("ipforwarding" is
    /// on).
    pub(super) forwards: bool,
    /// The host sends an ARP request for the destination of each forwarded packet.
    pub(super) asks: bool,
    /// The host sends redirects and errors about packets that were broadcast.
    pub(super) answers: bool,
}

impl Faults {
    /// All faults, like the systems of 1984 as delivered.
    pub(super) const ALL: Faults = Faults { forwards: true, asks: true, answers: true };
}

/// The host.
pub(super) struct Legacy {
    addr: Ipv4Addr,
    mac: MacAddr,
    form: Form,
    gateway: Ipv4Addr,
    faults: Faults,
    arp: BTreeMap<Ipv4Addr, Option<MacAddr>>,
    held: BTreeMap<Ipv4Addr, Vec<u8>>,
    queue: VecDeque<Vec<u8>>,
    pub(super) clock: Clock,
    /// Datagrams of its own programs that the host broadcast.
    pub(super) originals: u64,
    /// Datagrams that the host's programs received.
    pub(super) received: u64,
    id: u16,
}

impl Legacy {
    pub(super) fn new(
        (addr, mac): (Ipv4Addr, MacAddr),
        form: Form,
        gateway: Ipv4Addr,
        faults: Faults,
        clock: Clock,
    ) -> Legacy {
        Legacy {
            addr,
            mac,
            form,
            gateway,
            faults,
            arp: BTreeMap::new(),
            held: BTreeMap::new(),
            queue: VecDeque::new(),
            clock,
            originals: 0,
            received: 0,
            id: 0,
        }
    }

    /// Send a datagram to port `port` of `dst`; `false` if the transmit queue is full.
    pub(super) fn send(&mut self, dst: Ipv4Addr, port: u16, payload: &[u8]) -> bool {
        if self.queue.len() >= QUEUE_MAX {
            return false;
        }
        let mut datagram = vec![0; udp::HEADER_LEN];
        datagram.extend_from_slice(payload);
        let length = datagram.len() as u16;
        let header = udp::Header { src_port: port, dst_port: port, length, checksum: [0, 0] };
        header.emit(&mut datagram);
        let pseudo = Sum::pseudo_v4(self.addr, dst, protocol::UDP).plus(Sum::of_be16(length));
        let sum = pseudo.plus(wire::checksum::Ladder::Word64.sum(&datagram));
        datagram[6..8].copy_from_slice(&udp::checksum_field(sum));
        let packet = self.packet(dst, protocol::UDP, &datagram);
        self.output(dst, packet, false);
        true
    }

    fn packet(&mut self, dst: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
        self.id = self.id.wrapping_add(1);
        let mut packet = vec![0; ipv4::HEADER_LEN];
        packet.extend_from_slice(payload);
        let header = ipv4::Header {
            header_len: ipv4::HEADER_LEN,
            tos: 0,
            total_len: packet.len() as u16,
            id: self.id,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: HOPS,
            protocol,
            src: self.addr,
            dst,
        };
        header.emit(&mut packet);
        packet
    }

    /// ip_output, and the link layer below it: packets to both forms of its network's broadcast
    /// address are sent to the link's broadcast address, whichever form the IP layer uses.
    fn output(&mut self, dst: Ipv4Addr, packet: Vec<u8>, is_forwarded: bool) {
        let is_near = prefix(dst) == prefix(self.addr);
        let next = if is_near { dst } else { self.gateway };
        let is_broadcast = Form::BOTH.iter().any(|form| form.address(self.addr) == next);
        if is_broadcast {
            if is_forwarded && self.faults.asks {
                self.ask(next);
            }
            self.enqueue(MacAddr::BROADCAST, ether::IPV4, &packet);
            return;
        }
        match self.arp.get(&next).copied() {
            Some(Some(mac)) => self.enqueue(mac, ether::IPV4, &packet),
            known if known.is_some() || self.arp.len() < ARP_MAX => {
                self.arp.insert(next, None);
                self.held.insert(next, packet);
                self.ask(next);
            }
            _ => {}
        }
    }

    fn ask(&mut self, target: Ipv4Addr) {
        self.arp_out(arp::Operation::Request, MacAddr::BROADCAST, (MacAddr::default(), target));
    }

    fn arp_out(&mut self, operation: arp::Operation, to: MacAddr, target: (MacAddr, Ipv4Addr)) {
        let mut bytes = [0; arp::HEADER_LEN];
        let header = arp::Header {
            operation,
            sender_mac: self.mac,
            sender_ip: self.addr,
            target_mac: target.0,
            target_ip: target.1,
        };
        header.emit(&mut bytes);
        self.enqueue(to, ether::ARP, &bytes);
    }

    fn enqueue(&mut self, dst: MacAddr, ethertype: u16, payload: &[u8]) {
        if self.queue.len() >= QUEUE_MAX {
            return;
        }
        let mut frame = vec![0; ether::HEADER_LEN];
        ether::Header { dst, src: self.mac, ethertype }.emit(&mut frame);
        frame.extend_from_slice(payload);
        self.queue.push_back(frame);
    }

    /// in_arpinput: the sender's address is stored if the sender is in the table already, or asks
    /// for us.
    fn arp_input(&mut self, bytes: &[u8]) {
        let Ok(header) = arp::Header::parse(bytes) else { return };
        let (sender, is_for_us) = (header.sender_ip, header.target_ip == self.addr);
        if self.arp.contains_key(&sender) || (is_for_us && self.arp.len() < ARP_MAX) {
            self.arp.insert(sender, Some(header.sender_mac));
            if let Some(packet) = self.held.remove(&sender) {
                self.enqueue(header.sender_mac, ether::IPV4, &packet);
            }
        }
        if is_for_us && header.operation == arp::Operation::Request {
            self.arp_out(arp::Operation::Reply, header.sender_mac, (header.sender_mac, sender));
        }
    }

    /// ipintr: the packet is for us, or is forwarded.
    fn ip_input(&mut self, packet: &[u8]) {
        let Ok(header) = ipv4::Header::parse(packet) else { return };
        if header.dst == self.addr || header.dst == self.form.address(self.addr) {
            let datagram = packet.get(header.header_len..).unwrap_or_default();
            let to = udp::Header::parse(datagram).map(|udp| udp.dst_port);
            let is_taken = to.is_ok_and(|port| PORTS.contains(&port));
            self.received += u64::from(header.protocol == protocol::UDP && is_taken);
            return;
        }
        if self.faults.forwards {
            self.forward(&header, packet);
        }
    }

    /// ip_forward: forward a packet, with a redirect to its source.
    fn forward(&mut self, header: &ipv4::Header, packet: &[u8]) {
        let mut packet = packet.get(..usize::from(header.total_len)).unwrap_or_default().to_vec();
        if header.ttl <= 1 {
            return self.answer(header, &packet, (11, 0));
        }
        ipv4::decrement_ttl(&mut packet);
        if prefix(header.dst) == prefix(self.addr) && prefix(header.src) == prefix(self.addr) {
            // The packet leaves by the wire that it came by: its source could have sent it
            // directly.
            self.answer(header, &packet, REDIRECT);
        }
        self.output(header.dst, packet, true);
    }

    /// icmp_error: send an ICMP message about a packet, unless the packet is ICMP itself.
    fn answer(&mut self, header: &ipv4::Header, packet: &[u8], (kind, code): (u8, u8)) {
        if !self.faults.answers || header.protocol == protocol::ICMP || header.src == self.addr {
            return;
        }
        let mut message = vec![0; icmp::HEADER_LEN];
        message.extend_from_slice(packet.get(..28).unwrap_or(packet));
        let rest = if kind == REDIRECT.0 { header.dst.octets() } else { [0; 4] };
        icmp::Header::Other { kind, code, rest }.emit(&mut message);
        let packet = self.packet(header.src, protocol::ICMP, &message);
        self.output(header.src, packet, false);
    }
}

impl Station for Legacy {
    fn receive(&mut self, _port: usize, frame: &[u8], _now: Instant) {
        let Ok(header) = ether::Header::parse(frame) else { return };
        if header.dst != self.mac && header.dst != MacAddr::BROADCAST {
            return;
        }
        let payload = frame.get(ether::HEADER_LEN..).unwrap_or_default();
        match header.ethertype {
            ether::ARP => self.arp_input(payload),
            ether::IPV4 => self.ip_input(payload),
            _ => {}
        }
    }

    fn run(&mut self, now: Instant) {
        while let Some((port, payload)) = self.clock.next(now) {
            let is_sent = self.send(self.form.address(self.addr), port, payload);
            self.originals += u64::from(is_sent);
        }
    }

    fn next_frame(&mut self, _port: usize) -> Option<Vec<u8>> {
        self.queue.pop_front()
    }

    fn next_deadline(&self) -> Instant {
        self.clock.next_deadline()
    }
}
