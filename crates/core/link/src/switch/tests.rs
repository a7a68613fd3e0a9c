//! Three machines and a stack at a switch, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Duration;
use device::mem::{self, Mem};

use super::*;

const STACK: u8 = 1;
const ALL: u8 = 0xff;

struct Hosts {
    switch: Switch,
    machines: [Mem; 3],
    pool: Pool,
    now_ms: Arc<AtomicU64>,
}

fn mac(number: u8) -> MacAddr {
    if number == ALL { MacAddr([ALL; 6]) } else { MacAddr([2, 0, 0, 0, 0, number]) }
}

impl Hosts {
    fn new() -> Hosts {
        let pairs = [0; 3].map(|_| mem::pair(&mem::Config::default()));
        let (mut devices, mut machines) = (Vec::<Box<dyn Device>>::new(), Vec::new());
        for (device, machine) in pairs {
            devices.push(Box::new(device));
            machines.push(machine);
        }
        let machines = machines.try_into().ok().expect("three");
        let now_ms = Arc::new(AtomicU64::new(1_000));
        let read = now_ms.clone();
        let clock = move || Instant::ZERO + Duration::from_millis(read.load(Ordering::Relaxed));
        let switch = Switch::new(devices, mac(STACK), Arc::new(clock)).expect("no descriptors");
        Hosts { switch, machines, pool: Pool::new(1 << 26), now_ms }
    }

    fn frame(&mut self, from: u8, to: u8) -> Mbuf {
        let mut data = [0; 64];
        let header = ether::Header { dst: mac(to), src: mac(from), ethertype: ether::IPV4 };
        assert!(header.emit(&mut data));
        self.pool.copy_of(&data).expect("the pool is large")
    }

    /// A machine sends as station `from`.
    fn send(&mut self, machine: usize, from: u8, to: u8) {
        let mut burst = Burst::new();
        burst.push(self.frame(from, to));
        assert_eq!(self.machines[machine].tx_burst(&mut self.pool, &mut burst), 1);
    }

    /// The stack sends.
    fn stack_sends(&mut self, to: u8) {
        let mut burst = Burst::new();
        burst.push(self.frame(STACK, to));
        assert_eq!(self.switch.tx_burst(&mut self.pool, &mut burst), 1);
    }

    /// What the stack receives, as the senders' numbers.
    fn at_stack(&mut self) -> Vec<u8> {
        let mut burst = Burst::new();
        self.switch.rx_burst(&mut self.pool, &mut burst);
        senders(&mut burst, &mut self.pool)
    }

    fn at(&mut self, machine: usize) -> Vec<u8> {
        let mut burst = Burst::new();
        self.machines[machine].rx_burst(&mut self.pool, &mut burst);
        senders(&mut burst, &mut self.pool)
    }

    fn dropped(&self, why: DropReason) -> u64 {
        self.switch.drops().map_or(0, |drops| drops.of(why))
    }
}

fn senders(burst: &mut Burst, pool: &mut Pool) -> Vec<u8> {
    let from = burst.iter().map(|frame| frame.as_slice()[11]).collect();
    burst.drain(..).for_each(|frame| pool.free(frame));
    from
}

#[test]
fn frames_go_where_their_station_is() {
    let mut hosts = Hosts::new();
    hosts.send(0, 10, ALL);
    assert_eq!(hosts.at_stack(), [10], "a broadcast is for the stack as well");
    assert_eq!((hosts.at(0), hosts.at(1), hosts.at(2)), (vec![], vec![10], vec![10]));
    // Unknown: to all machines but the sender, and not to the stack.
    hosts.send(0, 10, 11);
    assert_eq!(hosts.at_stack(), []);
    assert_eq!((hosts.at(0), hosts.at(1), hosts.at(2)), (vec![], vec![10], vec![10]));
    hosts.send(1, 11, 10);
    assert_eq!(hosts.at_stack(), []);
    hosts.send(0, 10, 11);
    hosts.send(2, 12, STACK);
    assert_eq!(hosts.at_stack(), [12]);
    assert_eq!((hosts.at(0), hosts.at(1), hosts.at(2)), (vec![11], vec![10], vec![]));
    hosts.stack_sends(12);
    hosts.stack_sends(ALL);
    assert_eq!((hosts.at(0), hosts.at(1)), (vec![STACK], vec![STACK]));
    assert_eq!(hosts.at(2), [STACK, STACK]);
    // A station behind the device that a frame came from has had it.
    hosts.send(0, 10, 10);
    assert_eq!(hosts.at_stack(), []);
    assert_eq!(hosts.dropped(DropReason::EtherNotForUs), 1);
}

#[test]
fn nobody_has_the_stacks_address() {
    let mut hosts = Hosts::new();
    hosts.send(0, STACK, 11);
    hosts.send(1, 11, STACK);
    assert_eq!(hosts.at_stack(), [11]);
    assert_eq!(hosts.at(1), []);
    assert_eq!(hosts.dropped(DropReason::NeighbourConflict), 1);
}

#[test]
fn a_storm_is_bounded_and_hits_nobody_else() {
    let mut hosts = Hosts::new();
    let storm = |hosts: &mut Hosts| {
        let mut passed = 0;
        for _ in 0..200 {
            for _ in 0..50 {
                hosts.send(0, 10, ALL);
            }
            passed += hosts.at_stack().len();
            hosts.at(1);
            hosts.at(2);
        }
        passed as u64
    };
    assert_eq!(storm(&mut hosts), FLOODS_PER_SECOND, "a second's worth was saved");
    assert_eq!(hosts.dropped(DropReason::SwitchFlooded), 10_000 - FLOODS_PER_SECOND);
    hosts.now_ms.fetch_add(10, Ordering::Relaxed);
    assert_eq!(storm(&mut hosts), FLOODS_PER_SECOND / 100);
    hosts.send(1, 11, ALL);
    assert_eq!(hosts.at_stack(), [11]);
}

#[test]
fn a_machine_that_reads_nothing_keeps_nobody_waiting() {
    let mut hosts = Hosts::new();
    hosts.send(0, 10, STACK);
    hosts.send(1, 11, STACK);
    assert_eq!(hosts.at_stack().len(), 2);
    for _ in 0..2_000 {
        hosts.stack_sends(10);
    }
    hosts.stack_sends(11);
    assert_eq!(hosts.at(1), [STACK]);
    let lost = hosts.dropped(DropReason::DeviceQueueFull);
    assert!((1..2_000).contains(&lost), "{lost}");
    // It reads again.
    let mut received = 0;
    loop {
        let some = hosts.at(0).len();
        hosts.at_stack();
        if some == 0 {
            break;
        }
        received += some as u64;
    }
    assert_eq!(received, 2_000 - lost);
}

#[test]
fn two_machines_with_one_address_are_news() {
    let mut hosts = Hosts::new();
    let news = hosts.switch.news();
    for machine in [0, 1] {
        hosts.send(machine, 10, STACK);
        hosts.at_stack();
    }
    assert_eq!(news.twice(), None, "a station may move");
    for machine in [0, 1, 0, 1] {
        hosts.send(machine, 10, STACK);
        hosts.at_stack();
    }
    assert_eq!(news.twice(), Some(mac(10)));
}
