//! Random traffic through a router while neighbours advertise other link addresses and the
//! administrator changes its tables.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::num::NonZeroU8;

use base::{Cidr, Duration, Instant, LinkKind, MacAddr, Mtu};
use inet::route::SourceCheck;
use inet::{Address, Route, Vrf};
use wire::{arp, ether};

use super::frames::{Frame, frame};
use super::twins::{LINKS, Twins, mac, networks, vlan_of};
use crate::tests::craft::Rng;
use crate::{PortId, Stack};

pub(super) struct Traffic {
    twins: Twins,
    rng: Rng,
    now: Instant,
    /// The port and the bytes of the last frame, which the next frame often repeats.
    last: Option<(usize, Frame)>,
    /// Ports move to VRFs and out of them.
    has_vrfs: bool,
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a network")
}

fn host(port: usize, last: u8, v6: bool) -> IpAddr {
    let link = port as u8 + 1;
    match v6 {
        true => Ipv6Addr::new(0x2001, 0xdb8, link.into(), 0, 0, 0, 0, last.into()).into(),
        false => Ipv4Addr::new(10, link, 0, last).into(),
    }
}

fn host_mac(port: usize, last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 1, port as u8, last])
}

/// Routes to networks beyond each link, by the second host of the link. Beyond the second link,
/// and beyond a VLAN, the gateway of IPv4 has an IPv6 address (RFC 8950).
fn beyond(port: usize) -> [(Cidr, IpAddr); 2] {
    let link = port + 1;
    [
        (cidr(&format!("203.0.{link}.0/24")), host(port, 2, matches!(port, 1 | 4))),
        (cidr(&format!("2001:db8:7700:{link:x}::/40")), host(port, 2, true)),
    ]
}

impl Traffic {
    pub(super) fn new(seed: u64) -> Traffic {
        let mut twins = Twins::new(seed);
        let now = Instant::from_nanos(1_000_000_000);
        for (dest, v6) in [("0.0.0.0/0", false), ("::/0", true)] {
            let route = Route::new(cidr(dest), Some(host(1, 2, v6)), 1);
            twins.both("", |r| r.stack.add_route(route.clone()));
        }
        for (port, link) in LINKS.into_iter().enumerate() {
            for (dest, via) in beyond(port) {
                twins.both("", |r| r.stack.add_route(Route::new(dest, Some(via), port as u16)));
            }
            if link == LinkKind::Ethernet && port != 3 {
                for (last, v6) in [(2, false), (3, false), (2, true), (3, true)] {
                    let id = PortId(port as u16);
                    let (ip, mac) = (host(port, last, v6), host_mac(port, last));
                    twins.both("", |r| r.stack.add_neighbour(id, ip, mac));
                }
            }
        }
        Traffic { twins, rng: Rng(seed), now, last: None, has_vrfs: seed % 4 == 3 }
    }

    pub(super) fn step(&mut self) {
        for _ in 0..=self.rng.below(2) {
            self.burst();
        }
        if self.rng.one_in(4) {
            self.change();
        }
        let ms = self.rng.pick(&[0, 0, 0, 1, 20, 300, 1_100, 6_000, 31_000]);
        self.now += Duration::from_millis(ms);
        let now = self.now;
        self.twins.both("", |router| router.stack.poll(now));
        if self.rng.one_in(8) {
            // A poll without frames, so that the router notices removed ports.
            self.twins.both("", |router| router.stack.poll(now));
        }
        // Sometimes the frames are left on the wires, so that these fill up.
        if !self.rng.one_in(5) {
            for (port, frame) in self.twins.compare(now) {
                self.answer(port, &frame);
            }
        }
    }

    pub(super) fn finish(mut self) -> Twins {
        self.twins.compare(self.now);
        self.twins
    }

    /// A burst to one port: several packets each of some flows, and other packets between them.
    fn burst(&mut self) {
        let rng = &mut self.rng;
        let port = rng.below(LINKS.len() as u32) as usize;
        let count = rng.pick(&[1, 2, 5, 20, 64]);
        let mut frames = Vec::new();
        while frames.len() < count {
            let next = match &self.last {
                Some((at, last)) if *at == port && !rng.one_in(3) => last.clone(),
                _ => frame(rng, port),
            };
            self.last = Some((port, next.clone()));
            frames.push(next);
        }
        self.twins.both(&format!("{count} frames to port {port}"), |router| {
            let mut held = Vec::new();
            router.offer(port, |pool| {
                let built = frames.iter().map(|frame| frame.build(pool));
                built.map(|(m, other)| (m, held.push(other)).0).collect()
            });
        });
    }

    /// Hosts answer most of the solicitations for them.
    fn answer(&mut self, port: usize, bytes: &[u8]) {
        let Ok(header) = ether::Header::parse(bytes) else { return };
        if LINKS[port] == LinkKind::Ip || self.rng.one_in(3) {
            return;
        }
        let packet = &bytes[14..];
        let mut reply = vec![0; 14];
        let mac_of_host = host_mac(port, self.rng.below(3) as u8);
        let source =
            ether::Header { dst: mac(port), src: mac_of_host, ethertype: header.ethertype };
        source.emit(&mut reply);
        if header.ethertype == ether::ARP {
            let Ok(asked) = arp::Header::parse(packet) else { return };
            if asked.operation != arp::Operation::Request || asked.target_ip.octets()[3] == 77 {
                return;
            }
            let (from, to) = ((mac_of_host, asked.target_ip), (mac(port), asked.sender_ip));
            reply.extend(inet::nd::arp_output(arp::Operation::Reply, from, to));
        } else if header.ethertype == ether::IPV6 && packet.get(40) == Some(&135) {
            let Ok(asked) = wire::nd::Header::parse(&packet[40..]) else { return };
            if asked.target.octets()[15] == 77 {
                return;
            }
            reply.extend(self.advertisement(asked.target, port, mac_of_host));
        } else {
            return;
        }
        if let Some(id) = vlan_of(port) {
            reply.splice(12..12, [0x81, 0, 0xa0 | (id >> 8) as u8, id as u8]);
        }
        self.put(port, Frame::new(reply));
    }

    /// A packet with an advertisement. It may be unsolicited, and may lack the override flag.
    fn advertisement(&mut self, target: Ipv6Addr, port: usize, at: MacAddr) -> Vec<u8> {
        let IpAddr::V6(dst) = host(port, 1, true) else { return Vec::new() };
        let (solicited, overrides) = (!self.rng.one_in(3), !self.rng.one_in(3));
        let kind = wire::nd::Kind::Advertisement { router: false, solicited, overrides };
        let header = wire::nd::Header { kind, target, link_addr: Some(at) };
        let mut message = [0; wire::nd::LEN_MAX];
        let len = header.emit(&mut message, target, dst).unwrap_or(0);
        let mut packet = vec![0x60, 0, 0, 0, 0, len as u8, 58, 255];
        packet.extend(target.octets());
        packet.extend(dst.octets());
        packet.extend(&message[..len]);
        packet
    }

    fn put(&mut self, port: usize, frame: Frame) {
        self.twins.both(&format!("an answer to port {port}"), |router| {
            router.offer(port, |pool| vec![frame.build(pool).0]);
        });
    }

    /// Puts a port into a VRF or out of it, or adds a route of a VRF, which may lead to another
    /// one.
    fn change_vrf(&mut self) {
        let rng = &mut self.rng;
        let port = rng.below(LINKS.len() as u32) as usize;
        let id = PortId(port as u16);
        let vrf = Vrf::of_table(rng.pick(&[0, 0, 10, 10, 11])).unwrap_or_default();
        let (dest, via) = beyond(port)[usize::from(rng.one_in(3))];
        let (what, network) = (rng.below(3), cidr(&networks(port)[0]).network());
        self.twins.both(&format!("VRF change {what} of port {port}: {vrf:?}"), |router| {
            let stack: &mut Stack = &mut router.stack;
            let table = vrf.table();
            match what {
                0 => _ = stack.set_vrf(id, vrf),
                1 => _ = stack.add_route(Route { table, ..Route::new(dest, Some(via), id.0) }),
                _ => _ = stack.add_route(Route { table, ..Route::new(network, None, id.0) }),
            }
        });
    }

    /// Changes one thing that forwarding depends on.
    fn change(&mut self) {
        if self.has_vrfs && self.rng.one_in(4) {
            return self.change_vrf();
        }
        let rng = &mut self.rng;
        let port = rng.below(LINKS.len() as u32) as usize;
        let (id, link) = (PortId(port as u16), port as u8 + 1);
        let other = PortId(rng.below(LINKS.len() as u32) as u16);
        let (what, on, v6) = (rng.below(57), rng.one_in(2), rng.one_in(3));
        let small = Mtu::new(rng.pick(&[1_280, 1_300])).filter(|_| on);
        let [of_v4, of_v6] = beyond(port);
        let (dest, via) = if v6 { of_v6 } else { of_v4 };
        // Some gateways are a broadcast address (127), and some are of the other IP version.
        let gateway = host(port, rng.pick(&[2, 3, 4, 127]), v6 != rng.one_in(6));
        let own = cidr(&networks(port)[0]);
        let extra = cidr(&format!("10.{link}.0.126/25"));
        let mtu = rng.pick(&[1_280, 1_400, 1_500]);
        let checks = [SourceCheck::Off, SourceCheck::Off, SourceCheck::Loose, SourceCheck::Strict];
        let check = rng.pick(&checks);
        let at = host_mac(port, rng.below(3) as u8);
        self.twins.both(&format!("change {what} of port {port}"), |router| {
            let stack: &mut Stack = &mut router.stack;
            match what {
                0..4 => _ = stack.add_route(Route::new(dest, Some(gateway), id.0)),
                4..8 => {
                    let route = Route::new(dest, Some(via), id.0);
                    _ = stack.add_route(Route { mtu: small, ..route });
                }
                8..10 => _ = stack.remove_route(dest, id),
                10..16 => _ = stack.add_neighbour(id, gateway, at),
                16..20 => _ = stack.set_neighbour_mtu(id, gateway, small),
                20..22 => _ = stack.add_address(id, Address::fixed(extra)),
                22..24 => _ = stack.remove_address(id, extra.addr),
                24..28 => {
                    let form = if on { [10, link, 255, 255] } else { [10, link, 0, 255] };
                    stack.set_broadcast(id, Ipv4Addr::new(10, link, 0, 1), form.into());
                }
                28 => stack.set_directed_broadcasts(on),
                29 => stack.set_redirects(on),
                30..36 => router.replug(port, Some(mtu)),
                36..38 => router.replug(port, None),
                38..40 => {
                    // An address moves to another port.
                    stack.remove_address(id, own.addr);
                    _ = stack.add_address(other, Address::fixed(own));
                }
                40..44 => {
                    stack.remove_address(other, own.addr);
                    _ = stack.add_address(id, Address::fixed(own));
                }
                44 => _ = stack.set_burst_gap(dest, on.then_some(Duration::from_millis(1))),
                45 => _ = stack.set_burst_gap(dest, None),
                46 => stack.set_forwarding(on || port > 0),
                47 => router.toggle_forwarder(),
                48 | 49 => router.toggle_tap(port),
                50..53 => _ = stack.set_source_check(id, check),
                _ => {
                    // Flows share two gateways.
                    for last in [2, 3] {
                        // Their versions may differ.
                        let is_v6 = v6 || on && last == 3;
                        let route = Route::new(dest, Some(host(port, last, is_v6)), id.0);
                        _ = stack.add_route(route.shared(NonZeroU8::MIN));
                    }
                }
            }
        });
    }
}
