//! Two routers with three ports each: inside, outside, and the wire between them. A flow goes on at
//! the second one.

use core::net::IpAddr;
use std::sync::Arc;

use base::MacAddr;
use device::{Burst, Device, mem};
use filter::states::Timeouts;
use filter::{Published, text};
use mbuf::Pool;
use stack::{PortConfig, PortId, StackConfig};
use statesync::Key;

use super::*;

const LAN: usize = 0;
const WAN: usize = 1;
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const NAT: &str = "source out wan from 10.0.0.0/24 to 203.0.113.0/30";

struct Router {
    stack: Stack,
    sync: PairSync,
    wires: [mem::Mem; 2],
    pool: Pool,
}

impl Router {
    fn new(number: u8, wire: mem::Mem) -> Router {
        let config = StackConfig::new([number.into(), 6]);
        let mut stack = Stack::new(StackConfig { solicited_node_reports: false, ..config });
        let networks = ["10.0.0.1/24", "198.51.100.1/24"];
        let wires = networks.map(|network| {
            let (near, wire) = mem::pair(&mem::Config::default());
            let addresses = vec![network.parse().expect("a network")];
            let config = PortConfig { mac: MAC, addresses, ..PortConfig::default() };
            stack.add_port(Box::new(near), config);
            wire
        });
        let mac = |number| MacAddr([2, 0, 0, 0, 1, number]);
        let addresses = vec![format!("10.9.0.{number}/24").parse().expect("a network")];
        let config = PortConfig { mac: mac(number), addresses, ..PortConfig::default() };
        stack.add_port(Box::new(wire), config);
        let hosts = [(0, "10.0.0.9", HOST), (1, "198.51.100.9", HOST)];
        let partner = (2, format!("10.9.0.{}", 3 - number), mac(3 - number));
        for (port, addr, mac) in hosts {
            assert!(stack.add_neighbour(PortId(port), addr.parse().expect("an address"), mac));
        }
        let addr: IpAddr = partner.1.parse().expect("an address");
        assert!(stack.add_neighbour(PortId(2), addr, partner.2));
        let source =
            text::Source { rules: "pass in lan out wan", nat: NAT, ..text::Source::default() };
        let ports = [("lan", 0), ("wan", 1)];
        let rules = text::parse(&source, &ports, &|_| Err("no files".into())).expect("rules");
        stack.set_filter(Some(
            Published::compile(rules, Timeouts::default(), 1).expect("small") as Arc<_>
        ));
        stack.set_forwarding(true);
        let mut sync = PairSync::default();
        let local = format!("10.9.0.{number}").parse().expect("an address");
        sync.set(Some(Pair { local, peer: addr, port: 3_780, key: Key::new([3; 32]) }));
        Router { stack, sync, wires, pool: Pool::new(16 << 20) }
    }

    fn turn(&mut self, now: Instant) {
        self.stack.poll(now);
        let mut stacks = [&mut self.stack];
        let ports = [(0, "lan"), (1, "wan"), (2, "sync")];
        self.sync.turn(&mut stacks, ports.into_iter());
        self.sync.work();
        self.stack.flush();
    }

    /// The IP packet that leaves by the other port.
    fn cross(&mut self, port: usize, packet: &[u8], now: Instant) -> Option<Vec<u8>> {
        let frame = [&MAC.0[..], &HOST.0, &[8, 0], packet].concat();
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(&frame)?);
        assert_eq!(self.wires[port].tx_burst(&mut self.pool, &mut burst), 1);
        self.stack.poll(now);
        self.stack.flush();
        let (mut left, mut burst) = (None, Burst::new());
        while self.wires[1 - port].rx_burst(&mut self.pool, &mut burst) > 0 {
            for m in burst.drain(..) {
                if m.as_slice()[12..14] == [8, 0] {
                    left = Some(m.as_slice()[14..].to_vec());
                }
                self.pool.free(m);
            }
        }
        left
    }

    fn paired(&self) -> filter::firewall::Paired {
        self.stack.filter().and_then(Firewall::paired).expect("there is a partner").clone()
    }
}

/// A datagram without a checksum.
fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0];
    packet.extend(from.0);
    packet.extend(to.0);
    let words = packet.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    [from.1, to.1, 12, 0].iter().for_each(|word| packet.extend(word.to_be_bytes()));
    packet.extend([1; 4]);
    packet
}

fn source(packet: &[u8]) -> ([u8; 4], u16) {
    let addr = [packet[12], packet[13], packet[14], packet[15]];
    (addr, u16::from_be_bytes([packet[20], packet[21]]))
}

const INSIDE: ([u8; 4], u16) = ([10, 0, 0, 9], 4_000);
const OUTSIDE: ([u8; 4], u16) = ([198, 51, 100, 9], 443);

fn run(routers: &mut [Router; 2], now: &mut Instant, ms: u64) {
    for _ in 0..ms / 20 {
        *now += EVERY;
        routers.iter_mut().for_each(|router| router.turn(*now));
    }
}

#[test]
fn a_flow_goes_on_at_the_partner_with_its_outside_port() {
    let (one, other) = mem::pair(&mem::Config::default());
    let mut routers = [Router::new(1, one), Router::new(2, other)];
    let mut now = Instant::from_nanos(1_000_000_000);
    run(&mut routers, &mut now, 1_000);
    assert!(routers.iter().all(|router| router.paired().is_up), "{:?}", routers[0].paired());
    let out = routers[0].cross(LAN, &udp(INSIDE, OUTSIDE), now).expect("it passes");
    let outside = source(&out);
    assert_eq!(outside.0[..3], [203, 0, 113]);
    assert!(routers[0].cross(WAN, &udp(OUTSIDE, outside), now).is_some());
    // The most that the copy may take.
    run(&mut routers, &mut now, 300);
    assert_eq!(routers[1].stack.filter().map(|firewall| firewall.states().len()), Some(1));
    let back = routers[1].cross(WAN, &udp(OUTSIDE, outside), now).expect("the answer passes");
    assert_eq!(back[16..20], INSIDE.0);
    let out = routers[1].cross(LAN, &udp(INSIDE, OUTSIDE), now).expect("the flow goes on");
    assert_eq!(source(&out), outside);
    // The second router's packets come back to the first one.
    run(&mut routers, &mut now, 4_000);
    let [first, second] = [routers[0].paired(), routers[1].paired()];
    assert!(first.received > 0 && second.imported == 1, "{first:?} {second:?}");
    assert_eq!((second.lost, second.failure), (0, None));
}

#[test]
fn many_states_come_to_a_partner_that_begins_later() {
    let (one, other) = mem::pair(&mem::Config::default());
    let mut routers = [Router::new(1, one), Router::new(2, other)];
    let mut now = Instant::from_nanos(1_000_000_000);
    routers[0].turn(now);
    for port in 1_000..3_000 {
        let from = (INSIDE.0, port);
        let out = routers[0].cross(LAN, &udp(from, OUTSIDE), now).expect("it passes");
        assert!(routers[0].cross(WAN, &udp(OUTSIDE, source(&out)), now).is_some());
    }
    run(&mut routers, &mut now, 3_000);
    let states = |router: &Router| router.stack.filter().map(|firewall| firewall.states().len());
    assert_eq!(states(&routers[1]), Some(2_000), "{:?}", routers[1].paired());
    assert_eq!(states(&routers[0]), Some(2_000), "{:?}", routers[0].paired());
    // The partner ends: the states stay.
    routers[1].sync.set(None);
    routers[1].turn(now);
    assert_eq!(states(&routers[1]), Some(2_000));
    assert!(routers[1].stack.filter().is_some_and(|firewall| firewall.paired().is_none()));
    run(&mut routers, &mut now, 4_000);
    let failure = routers[0].paired().failure.expect("it is gone");
    assert!(failure.contains("10.9.0.2:3780 does not answer"), "{failure}");
}
