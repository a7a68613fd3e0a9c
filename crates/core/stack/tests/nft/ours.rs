//! Our side: a stack in memory that forwards between two Ethernet ports, with the firewall.
//!
//! Called by: `main.rs`. Time is the test's: a millisecond a step. Limits of answers are higher
//! than those of a router, because the kernel's are off too.

use std::sync::Arc;

use base::{Budget, DropReason, Duration, Instant, Limit, MacAddr};
use device::{Burst, Device, mem};
use filter::states::Timeouts;
use filter::{Published, text};
use inet::Route;
use mbuf::Pool;
use wirespeed_stack::{PortConfig, PortId, Stack, StackConfig};

use crate::network::{ADDRESSES, GATEWAYS, NAMES, ROUTES};

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
const OTHERS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 1, 1]), MacAddr([2, 0, 0, 0, 1, 2])];
const STEP: Duration = Duration::from_millis(1);

pub(crate) struct Ours {
    stack: Stack,
    wires: [mem::Mem; 2],
    pool: Pool,
    now: Instant,
}

impl Ours {
    pub(crate) fn new(source: &text::Source<'_>) -> Ours {
        let mut budget = Budget::default();
        budget.set(Limit::IcmpErrorsPerSecond, 1_000_000);
        budget.set(Limit::IcmpErrorsPerDestination, 1_000_000);
        let config = StackConfig { budget, ..StackConfig::new([5, 6]) };
        let mut stack = Stack::new(StackConfig { solicited_node_reports: false, ..config });
        let wires = [0, 1].map(|n| {
            let (near, wire) = mem::pair(&mem::Config::default());
            let addresses = ADDRESSES[n].iter().map(|a| a.parse().expect("an address")).collect();
            stack.add_port(
                Box::new(near),
                PortConfig { mac: MACS[n], addresses, ..PortConfig::default() },
            );
            for (route, gateway) in ROUTES[n].iter().zip(GATEWAYS[n]) {
                let gateway = gateway.parse().expect("an address");
                assert!(stack.add_neighbour(PortId(n as u16), gateway, OTHERS[n]));
                let dest = route.parse().expect("a network");
                assert!(stack.add_route(Route::new(dest, Some(gateway), n as u16)));
            }
            wire
        });
        stack.set_forwarding(true);
        let ports = [(NAMES[0], 0), (NAMES[1], 1)];
        let rules = text::parse(source, &ports, &|_| Err("no files".into()));
        let rules = rules.unwrap_or_else(|e| panic!("{e:?}:\n{}\n{}", source.rules, source.nat));
        let published = Published::compile(rules, Timeouts::default(), 1);
        let published: Arc<Published> = published.expect("they are few");
        stack.set_filter(Some(published));
        Ours { stack, wires, pool: Pool::new(64 << 20), now: Instant::from_nanos(5_000_000_000) }
    }

    /// Send packets into a port, one a poll; returns what leaves by each.
    pub(crate) fn send(&mut self, port: usize, packets: &[Vec<u8>]) -> [Vec<Vec<u8>>; 2] {
        let mut sent = [Vec::new(), Vec::new()];
        for packet in packets {
            let ethertype: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
            let frame = [&MACS[port].0[..], &OTHERS[port].0, &ethertype, packet].concat();
            let mut burst = Burst::new();
            burst.push(self.pool.copy_of(&frame).expect("room"));
            assert_eq!(self.wires[port].tx_burst(&mut self.pool, &mut burst), 1);
            self.now += STEP;
            self.stack.poll(self.now);
            self.stack.flush();
            for (wire, sent) in self.wires.iter_mut().zip(&mut sent) {
                let mut burst = Burst::new();
                while wire.rx_burst(&mut self.pool, &mut burst) > 0 {
                    for m in burst.drain(..) {
                        sent.push(m.as_slice()[14..].to_vec());
                        self.pool.free(m);
                    }
                }
            }
        }
        sent
    }

    /// How often packets were dropped, by reason.
    pub(crate) fn drops(&self, reason: DropReason) -> u64 {
        self.stack.drops().of(reason)
    }
}
