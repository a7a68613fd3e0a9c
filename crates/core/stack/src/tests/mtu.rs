//! MTUs by neighbour and by route: hosts with different MTUs share a link, and packets to each have
//! its largest size.

use core::net::{IpAddr, SocketAddr};

use base::{Duration, Instant, LinkKind, Mtu, Owner, Switch};
use device::{Burst, Device, mem};
use inet::Route;
use mbuf::Pool;

use super::icmp::NOW;
use crate::{
    ListenConfig, MtuError, PortConfig, PortId, Stack, StackConfig, TcpHandle, UdpHandle, pair,
};

const PORT: PortId = PortId(0);
/// Number 1 has two neighbours.
const US: usize = 0;
const LARGE: usize = 1;
const SMALL: usize = 2;

/// Three hosts on one Ethernet, where each host receives frames up to its own MTU: 65,535, 65,535
/// and 1,500 bytes.
struct Segment {
    hosts: Vec<Stack>,
    wires: Vec<mem::Mem>,
    pool: Pool,
    /// The largest packet that went to each host.
    largest: [usize; 3],
    /// Frames that were larger than their receiver takes.
    too_large: usize,
    now: Instant,
}

fn mtu(bytes: usize) -> Mtu {
    Mtu::new(bytes).expect("an MTU")
}

/// The addresses of a host, whose number counts from 0.
fn ip(host: usize, version: usize) -> IpAddr {
    pair::addresses(host as u8 + 1)[version].addr
}

impl Segment {
    fn new() -> Segment {
        let (mut hosts, mut wires) = (Vec::new(), Vec::new());
        for (host, most) in [65_535, 65_535, 1_500].into_iter().enumerate() {
            let number = host as u8 + 1;
            let config = mem::Config { mtu: mtu(most), depth_bytes: 8 << 20, ..Default::default() };
            let (device, wire) = mem::pair(&config);
            let mut stack = Stack::new(StackConfig::new([5, u64::from(number)]));
            // Pacing is off, since a frame that waits for its departure keeps the size that it was
            // made with.
            stack.set_switch(Switch::Pacing, false);
            let addresses = pair::addresses(number).to_vec();
            stack.add_port(
                Box::new(device),
                PortConfig { mac: pair::mac(number), addresses, ..PortConfig::default() },
            );
            hosts.push(stack);
            wires.push(wire);
        }
        let (pool, largest) = (Pool::new(64 << 20), [0; 3]);
        Segment { hosts, wires, pool, largest, too_large: 0, now: NOW }
    }

    /// Delivers every sent frame to its destination, unless it is larger than that host receives.
    fn carry(&mut self) {
        for from in 0..3 {
            let mut burst = Burst::new();
            while self.wires[from].rx_burst(&mut self.pool, &mut burst) > 0 {
                for m in burst.drain(..) {
                    let frame = m.as_slice().to_vec();
                    self.pool.free(m);
                    for to in (0..3).filter(|&to| to != from) {
                        let is_for = frame[..6] == pair::mac(to as u8 + 1).0 || frame[0] & 1 == 1;
                        if is_for {
                            self.deliver(to, &frame);
                        }
                    }
                }
            }
        }
    }

    fn deliver(&mut self, to: usize, frame: &[u8]) {
        let len = frame.len() - LinkKind::Ethernet.header_len();
        self.largest[to] = self.largest[to].max(len);
        if len > self.wires[to].limits().mtu.bytes() {
            self.too_large += 1;
            return;
        }
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(frame).expect("memory"));
        self.wires[to].tx_burst(&mut self.pool, &mut burst);
        assert!(burst.is_empty(), "the wire did not take all frames");
    }

    fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            for host in &mut self.hosts {
                host.poll(self.now);
            }
            self.carry();
            self.now += Duration::from_millis(1);
        }
    }

    /// A connection from host `US` to a host, and that host's end of it.
    fn connect(&mut self, to: usize, version: usize) -> (TcpHandle, TcpHandle) {
        let at = SocketAddr::new(ip(to, version), 80);
        let listener = self.hosts[to].tcp_listen(at, ListenConfig::default()).expect("free");
        let config = tcp::Config { timestamps: false, ..tcp::Config::default() };
        let ours = self.hosts[US].tcp_connect(at, None, &config, Owner::program(), self.now);
        self.run(10);
        let theirs = self.hosts[to].tcp_accept(listener).expect("accepted");
        (ours.expect("routed"), theirs)
    }

    /// Sends `total` bytes from host `US` to the other end; all must arrive.
    fn transfer(&mut self, to: usize, (ours, theirs): (TcpHandle, TcpHandle), total: usize) {
        let data: Vec<u8> = (0..total).map(|n| (n * 7 % 251) as u8).collect();
        let (mut sent, mut got) = (0, Vec::new());
        let mut buffer = vec![0; 1 << 16];
        for _ in 0..20_000 {
            if let Ok(n) = self.hosts[US].tcp_write(ours, &data[sent..]) {
                sent += n;
            }
            self.run(1);
            while let Ok(n) = self.hosts[to].tcp_read(theirs, &mut buffer) {
                got.extend_from_slice(&buffer[..n]);
            }
            if got.len() == total {
                break;
            }
        }
        assert!(got == data, "{} of {total} bytes", got.len());
    }

    fn socket(&mut self, host: usize, version: usize) -> UdpHandle {
        let at = SocketAddr::new(ip(host, version), 9);
        self.hosts[host].udp_bind(at, Owner::program()).expect("free")
    }

    fn snd_mss(&self, handle: TcpHandle) -> usize {
        self.hosts[US].tcp_info(handle).expect("open").snd_mss
    }
}

#[test]
fn two_neighbours_each_get_their_best_size() {
    for version in [0, 1] {
        let headers = [40, 60][version];
        let mut wire = Segment::new();
        wire.hosts[US]
            .set_neighbour_mtu(PORT, ip(SMALL, version), Some(mtu(1_500)))
            .expect("there is room");
        assert_eq!(wire.hosts[US].neighbour_mtu(PORT, ip(LARGE, version)), Some(Mtu::MAX));
        let large = wire.connect(LARGE, version);
        let small = wire.connect(SMALL, version);
        assert_eq!(wire.snd_mss(large.0), 65_535 - headers);
        assert_eq!(wire.snd_mss(small.0), 1_500 - headers);
        wire.transfer(LARGE, large, 3 << 20);
        wire.transfer(SMALL, small, 300_000);
        assert_eq!(wire.largest[LARGE], 65_535);
        assert_eq!(wire.largest[SMALL], 1_500);
        // Host `US` offers its full MSS to both: what it may send does not limit what it receives.
        let offered = wire.hosts[SMALL].tcp_info(small.1).expect("open").snd_mss;
        assert_eq!(offered, 1_500 - headers, "not bounded by its own port");

        // Datagrams of 60,000 bytes: one packet to the host with the large MTU, fragments to the
        // other.
        wire.largest = [0; 3];
        let socket = wire.socket(US, version);
        for to in [LARGE, SMALL] {
            let theirs = wire.socket(to, version);
            let at = SocketAddr::new(ip(to, version), 9);
            wire.hosts[US].udp_send(socket, at, &vec![3; 60_000], wire.now).expect("sent");
            wire.run(3);
            let datagram = wire.hosts[to].udp_receive(theirs).expect("it arrived");
            assert_eq!(datagram.payload.len(), 60_000);
        }
        assert_eq!(wire.largest[LARGE], 60_000 + headers - 20 + 8);
        assert!(wire.largest[SMALL] <= 1_500 && wire.largest[SMALL] > 1_490);
        assert_eq!(wire.too_large, 0);
    }
}

/// The first datagram waits for the neighbour's link address, and is fragmented once that is known.
#[test]
fn a_datagram_that_waited_for_its_neighbour_has_the_neighbours_size() {
    for version in [0, 1] {
        let mut wire = Segment::new();
        let at = SocketAddr::new(ip(SMALL, version), 9);
        wire.hosts[US].set_neighbour_mtu(PORT, at.ip(), Some(mtu(1_500))).expect("set");
        let (ours, theirs) = (wire.socket(US, version), wire.socket(SMALL, version));
        wire.hosts[US].udp_send(ours, at, &[3; 8_192], wire.now).expect("queued");
        wire.run(5);
        assert_eq!(wire.hosts[SMALL].udp_receive(theirs).expect("whole").payload.len(), 8_192);
        assert_eq!(wire.too_large, 0);
    }
}

#[test]
fn a_neighbours_mtu_lowered_in_mid_transfer_is_followed() {
    for version in [0, 1] {
        let headers = [40, 60][version];
        let mut wire = Segment::new();
        let to = ip(LARGE, version);
        let ends = wire.connect(LARGE, version);
        wire.transfer(LARGE, ends, 1 << 20);
        assert_eq!(wire.largest[LARGE], 65_535);
        // A part of this data is queued and in flight in segments of the former size.
        let ahead = wire.hosts[US].tcp_write(ends.0, &vec![9; 400_000]).expect("room");
        wire.hosts[US].flush();
        wire.carry();
        assert_eq!(wire.largest[LARGE], 65_535);
        wire.hosts[US].set_neighbour_mtu(PORT, to, Some(mtu(9_000))).expect("set");
        wire.largest = [0; 3];
        let mut got = 0;
        let mut buffer = vec![0; 1 << 16];
        for _ in 0..500 {
            wire.run(1);
            while let Ok(n) = wire.hosts[LARGE].tcp_read(ends.1, &mut buffer) {
                assert!(buffer[..n].iter().all(|&b| b == 9));
                got += n;
            }
        }
        assert_eq!(got, ahead);
        assert_eq!(wire.snd_mss(ends.0), 9_000 - headers);
        wire.transfer(LARGE, ends, 1 << 20);
        assert_eq!(wire.largest[LARGE], 9_000);
        // The size goes back up, since only the neighbour's MTU limited it.
        wire.hosts[US].set_neighbour_mtu(PORT, to, None).expect("unset");
        wire.transfer(LARGE, ends, 3 << 20);
        assert_eq!(wire.snd_mss(ends.0), 65_535 - headers);
        assert_eq!(wire.largest[LARGE], 65_535);
    }
}

#[test]
fn a_routes_mtu_bounds_what_goes_by_it_and_connections_follow() {
    let mut wire = Segment::new();
    let to = ip(LARGE, 0);
    let route = |bytes| Route {
        mtu: Some(mtu(bytes)),
        ..Route::new(format!("{to}/32").parse().expect("a host"), None, 0)
    };
    wire.hosts[US].add_route(route(4_000));
    let remote = SocketAddr::new(to, 9);
    assert_eq!(wire.hosts[US].mtu_towards(remote), Some(mtu(4_000)));
    let ends = wire.connect(LARGE, 0);
    assert_eq!(wire.snd_mss(ends.0), 4_000 - 40);
    wire.transfer(LARGE, ends, 100_000);
    wire.hosts[US].add_route(route(2_000));
    wire.transfer(LARGE, ends, 100_000);
    assert_eq!(wire.snd_mss(ends.0), 2_000 - 40);
    let socket = wire.socket(US, 0);
    wire.largest = [0; 3];
    wire.hosts[US].udp_send(socket, remote, &[1; 5_000], wire.now).expect("sent");
    wire.carry();
    assert!(wire.largest[LARGE] <= 2_000);
    // The neighbour's MTU is smaller still.
    wire.hosts[US].set_neighbour_mtu(PORT, to, Some(mtu(1_000))).expect("set");
    assert_eq!(wire.hosts[US].mtu_towards(remote), Some(mtu(1_000)));
}

/// RFC 8200 section 5: every IPv6 link carries 1280 bytes.
#[test]
fn mtus_that_cannot_be_are_refused() {
    let mut wire = Segment::new();
    let us = &mut wire.hosts[US];
    let (v4, v6) = (ip(SMALL, 0), ip(SMALL, 1));
    assert_eq!(us.set_neighbour_mtu(PortId(7), v4, None), Err(MtuError::NoPort));
    assert_eq!(us.set_neighbour_mtu(PORT, v6, Some(mtu(1_279))), Err(MtuError::BelowMinimum));
    assert_eq!(us.set_neighbour_mtu(PORT, v4, Some(mtu(68))), Ok(()));
    us.core.cx.budget.set(base::Limit::NeighbourMtus, 1);
    assert_eq!(us.set_neighbour_mtu(PORT, v6, Some(mtu(1_280))), Err(MtuError::LimitReached));
    assert_eq!(
        us.set_neighbour_mtu(PORT, v4, Some(mtu(600))),
        Ok(()),
        "an entry that exists was refused"
    );
    assert_eq!(us.neighbour_mtu(PORT, v4), Some(mtu(600)));
    us.remove_port(PORT);
    assert_eq!(us.neighbour_mtu(PORT, v4), None);
    assert!(us.neighbour_mtus.get(&(0, v4)).is_none());
}
