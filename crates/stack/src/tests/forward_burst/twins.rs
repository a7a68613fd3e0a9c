//! Two copies of one router with the same input; their visible state is compared.

use base::{Counter, Instant, MacAddr, Mtu, Switch};
use device::{Burst, Device, mem};
use mbuf::{Mbuf, Pool};

use crate::{ListenConfig, ListenerHandle, PortConfig, PortId, Stack, StackConfig};

/// Ports of the router: two of Ethernet, one of bare packets, and one more of Ethernet.
pub(super) const LINKS: [base::LinkKind; 4] = {
    use base::LinkKind::{Ethernet, Ip};
    [Ethernet, Ethernet, Ip, Ethernet]
};

/// Frames that a wire holds: less than arrive between two looks at it.
const DEPTH: usize = 96;

pub(super) const fn mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port as u8])
}

/// The networks of a port.
pub(super) fn networks(port: usize) -> [String; 2] {
    [format!("10.{}.0.1/24", port + 1), format!("2001:db8:{}::1/64", port + 1)]
}

pub(super) struct Router {
    pub(super) stack: Stack,
    /// The far ends.
    wires: Vec<Option<mem::Mem>>,
    pub(super) pool: Pool,
    forwarder: Option<ListenerHandle>,
}

fn wire(port: usize, mtu: usize) -> (mem::Mem, mem::Mem) {
    let mtu = Mtu::new(mtu).expect("an MTU");
    mem::pair(&mem::Config { link: LINKS[port], mtu, depth: DEPTH, ..mem::Config::default() })
}

impl Router {
    fn new(in_bursts: bool) -> Router {
        let mut config = StackConfig::new([5, 6]);
        config.solicited_node_reports = false;
        config.switches = config.switches.with(Switch::ForwardBurst, in_bursts);
        let (stack, pool) = (Stack::new(config), Pool::new(16 << 20));
        let mut router = Router { stack, wires: Vec::new(), pool, forwarder: None };
        for port in 0..LINKS.len() {
            let (near, far) = wire(port, 1_500);
            let addresses = networks(port).map(|a| a.parse().expect("a network")).to_vec();
            let config = PortConfig { mac: mac(port), addresses };
            router.stack.add_port(Box::new(near), config);
            router.wires.push(Some(far));
        }
        router.stack.set_forwarding(true);
        router
    }

    /// Frames of one burst onto a wire, as far as it takes them.
    pub(super) fn offer(&mut self, port: usize, frames: impl FnOnce(&mut Pool) -> Vec<Mbuf>) {
        let Some(wire) = &mut self.wires[port] else { return };
        let mut burst: Burst = frames(&mut self.pool).into_iter().collect();
        wire.tx_burst(&mut self.pool, &mut burst);
    }

    /// What left by a port.
    fn sent(&mut self, port: usize) -> Vec<Vec<u8>> {
        let (mut frames, mut burst) = (Vec::new(), Burst::new());
        let Some(wire) = &mut self.wires[port] else { return frames };
        while wire.rx_burst(&mut self.pool, &mut burst) > 0 {
            for m in burst.drain(..) {
                frames.push(m.as_slice().to_vec());
                self.pool.free(m);
            }
        }
        frames
    }

    /// A program takes connections to any address, or lets go of them.
    pub(super) fn toggle_forwarder(&mut self) {
        match self.forwarder.take() {
            Some(listener) => self.stack.tcp_unlisten(listener),
            None => {
                let anything = "0.0.0.0:0".parse().expect("an address");
                self.forwarder = self.stack.tcp_listen(anything, ListenConfig::default()).ok();
            }
        }
    }

    /// Another device for a port, or none that passes frames.
    pub(super) fn replug(&mut self, port: usize, mtu: Option<usize>) {
        self.wires[port] = None;
        if let Some(mtu) = mtu {
            let (near, far) = wire(port, mtu);
            drop(self.stack.replace_port(PortId(port as u16), Box::new(near)));
            self.wires[port] = Some(far);
        }
    }
}

pub(super) struct Twins {
    pub(super) on: Router,
    pub(super) off: Router,
    /// The steps so far, for the message of a failure.
    pub(super) log: Vec<String>,
    pub(super) seed: u64,
}

impl Twins {
    pub(super) fn new(seed: u64) -> Twins {
        Twins { on: Router::new(true), off: Router::new(false), log: Vec::new(), seed }
    }

    /// Do the same to both; the results must be the same.
    pub(super) fn both<R: PartialEq + core::fmt::Debug>(
        &mut self,
        what: &str,
        act: impl Fn(&mut Router) -> R,
    ) -> R {
        if !what.is_empty() {
            self.log.push(what.to_owned());
        }
        let (on, off) = (act(&mut self.on), act(&mut self.off));
        if on != off {
            let last = &self.log[self.log.len().saturating_sub(12)..];
            panic!("seed {}: {what}\n on {on:x?}\noff {off:x?}\nafter {last:#?}", self.seed);
        }
        on
    }

    /// Compare what left and what was counted; returns what left, with the port.
    pub(super) fn compare(&mut self, now: Instant) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        for port in 0..LINKS.len() {
            let frames = self.both("", |router| router.sent(port));
            all.extend(frames.into_iter().map(|frame| (port, frame)));
        }
        self.both("", |router| {
            let stack = &mut router.stack;
            let drops: Vec<_> = stack.drops().nonzero().collect();
            let counts =
                |&(counter, n): &(Counter, u64)| n > 0 && counter != Counter::ForwardedInBursts;
            let counters: Vec<_> = stack.counters().iter().filter(counts).collect();
            let ports: Vec<_> =
                (0..LINKS.len() as u16).map(|n| stack.forwarded(PortId(n))).collect();
            let neighbours: Vec<_> = stack.neighbours.rows().collect();
            assert_eq!(stack.now(), now);
            (drops, counters, ports, neighbours, stack.next_deadline())
        });
        self.both("", |router| {
            let total = router.stack.counters().of(Counter::Forwarded);
            let ports = (0..LINKS.len() as u16).filter_map(|n| router.stack.forwarded(PortId(n)));
            assert_eq!(ports.map(|port| port.packets_in).sum::<u64>(), total);
        });
        all
    }
}
