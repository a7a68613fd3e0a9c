//! Two copies of one router get the same input, and their visible state is compared.

use base::{Counter, Instant, MacAddr, Mtu, Switch, WallTime};
use bpf::{Filter, Insn, Program, Settings, Tap};
use device::{Burst, Device, Offloads, mem, vlan};
use mbuf::{Flags, Mbuf, Pool};

use crate::{ListenConfig, ListenerHandle, PortConfig, PortId, Stack, StackConfig, TapId};

/// The router's ports: two Ethernet ports, one of bare IP packets, another Ethernet port, and two
/// VLANs of one trunk.
pub(super) const LINKS: [base::LinkKind; 6] = {
    use base::LinkKind::{Ethernet, Ip};
    [Ethernet, Ethernet, Ip, Ethernet, Ethernet, Ethernet]
};

/// The first port of the trunk, and the VLANs of its ports.
const TRUNK: usize = 4;
const VLANS: [u16; 2] = [5, 6];

/// The wires whose devices cut super-segments and finish checksums.
const OFFLOADS: [usize; 3] = [1, 2, TRUNK];

/// The VLAN ID of a port, if it is on the trunk.
pub(super) fn vlan_of(port: usize) -> Option<u16> {
    VLANS.get(port.checked_sub(TRUNK)?).copied()
}

/// The index of a port's wire: the ports of the trunk share one.
fn wire_of(port: usize) -> usize {
    port.min(TRUNK)
}

/// The frame of a wire as its port sees it, without the VLAN tag.
pub(super) fn untagged(wire: usize, frame: &[u8]) -> (usize, Vec<u8>) {
    if wire < TRUNK {
        return (wire, frame.to_vec());
    }
    let id = u16::from_be_bytes([frame[14], frame[15]]) & 0xfff;
    let port = VLANS.iter().position(|vlan| *vlan == id).expect("a VLAN of ours");
    (TRUNK + port, [&frame[..12], &frame[16..]].concat())
}

/// The number of frames that a wire holds: fewer than arrive between two reads, so that wires
/// overflow.
const DEPTH: usize = 96;

pub(super) const fn mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port as u8])
}

/// The addresses of a port, with the prefix lengths of their networks.
pub(super) fn networks(port: usize) -> [String; 2] {
    [format!("10.{}.0.1/24", port + 1), format!("2001:db8:{}::1/64", port + 1)]
}

pub(super) struct Router {
    pub(super) stack: Stack,
    /// The far ends.
    wires: Vec<Option<mem::Mem>>,
    pub(super) pool: Pool,
    forwarder: Option<ListenerHandle>,
    taps: [Option<TapId>; LINKS.len()],
}

/// The frames that a tap recorded: whether each was received (or sent), and its bytes.
type Sights = Vec<(bool, Vec<u8>)>;

/// The bytes of a frame, the offset of the transport header if its checksum is unfinished, and the
/// size of its segments.
type Sent = (Vec<u8>, Option<u16>, u16);

/// Asserts that no wire got work that its devices do not do, and that the recorded offset of the
/// transport header is right.
fn check_offloads(wire: usize, (frame, transport_at, size): &Sent) {
    assert!(OFFLOADS.contains(&wire) || transport_at.is_none() && *size == 0);
    assert!(transport_at.is_some() || *size == 0, "a super-segment is unfinished");
    let ip_at = if LINKS[wire] == base::LinkKind::Ip { 0 } else { 14 };
    let ip_at = ip_at + if wire == TRUNK { 4 } else { 0 };
    if let Some(at) = transport_at {
        let inner = inet::forward::Inner::of(&frame[ip_at..]).expect("TCP or UDP");
        assert_eq!(usize::from(*at), ip_at + inner.at, "wrong offset on wire {wire}");
    }
}

fn wire(port: usize, mtu: usize) -> (mem::Mem, mem::Mem) {
    let mtu = Mtu::new(mtu).expect("an MTU");
    let offloads = match OFFLOADS.contains(&port) {
        true => Offloads {
            tx_checksum: true,
            rx_checksum: true,
            tso_max_bytes: 9_500,
            uso_max_bytes: if port == TRUNK { 4_000 } else { 0 },
            gro: false,
        },
        false => Offloads::default(),
    };
    let config = mem::Config { link: LINKS[port], mtu, depth: DEPTH, ..mem::Config::default() };
    mem::pair(&mem::Config { offloads, ..config })
}

/// The devices of a wire, one for each of its ports, and its far end.
fn devices(wire_number: usize, mtu: usize) -> (Vec<Box<dyn Device>>, mem::Mem) {
    let (near, far) = wire(wire_number, mtu);
    if wire_number < TRUNK {
        return (vec![Box::new(near)], far);
    }
    let ids = VLANS.map(vlan::Id::Vlan);
    let ports = vlan::split(Box::new(near), vlan::TAG, &ids).expect("Ethernet");
    (ports.into_iter().map(|port| Box::new(port) as Box<dyn Device>).collect(), far)
}

impl Router {
    fn new(in_bursts: bool) -> Router {
        let mut config = StackConfig::new([5, 6]);
        config.solicited_node_reports = false;
        config.switches = config.switches.with(Switch::ForwardBurst, in_bursts);
        let (stack, pool) = (Stack::new(config), Pool::new(16 << 20));
        let mut router =
            Router { stack, wires: Vec::new(), pool, forwarder: None, taps: Default::default() };
        for wire in 0..=TRUNK {
            let (devices, far) = devices(wire, 1_500);
            for (device, port) in devices.into_iter().zip(wire..) {
                let addresses = networks(port).map(|a| a.parse().expect("a network")).to_vec();
                router.stack.add_port(
                    device,
                    PortConfig { mac: mac(port), addresses, ..PortConfig::default() },
                );
            }
            router.wires.push(Some(far));
        }
        router.stack.set_forwarding(true);
        router
    }

    /// Puts frames on a wire in one burst; the wire may take only the first of them.
    pub(super) fn offer(&mut self, port: usize, frames: impl FnOnce(&mut Pool) -> Vec<Mbuf>) {
        let Some(wire) = &mut self.wires[wire_of(port)] else { return };
        let mut burst: Burst = frames(&mut self.pool).into_iter().collect();
        wire.tx_burst(&mut self.pool, &mut burst);
    }

    /// The frames that left by a wire, with the offload work that they leave to the device.
    fn sent(&mut self, wire: usize) -> Vec<Sent> {
        let (mut frames, mut burst) = (Vec::new(), Burst::new());
        let Some(wire) = &mut self.wires[wire] else { return frames };
        while wire.rx_burst(&mut self.pool, &mut burst) > 0 {
            for m in burst.drain(..) {
                let transport_at = m.has(Flags::CSUM_PARTIAL).then(|| m.csum());
                frames.push((m.as_slice().to_vec(), transport_at, m.segment_size()));
                self.pool.free(m);
            }
        }
        frames
    }

    /// A listener takes connections to any address, or stops doing so.
    pub(super) fn toggle_forwarder(&mut self) {
        match self.forwarder.take() {
            Some(listener) => self.stack.tcp_unlisten(listener),
            None => {
                let anything = "0.0.0.0:0".parse().expect("an address");
                self.forwarder = self.stack.tcp_listen(anything, ListenConfig::default()).ok();
            }
        }
    }

    /// Gives the ports of a wire another device, or one that passes no frames.
    pub(super) fn replug(&mut self, port: usize, mtu: Option<usize>) {
        let wire = wire_of(port);
        self.wires[wire] = None;
        if let Some(mtu) = mtu {
            let (devices, far) = devices(wire, mtu);
            for (device, port) in devices.into_iter().zip(wire as u16..) {
                drop(self.stack.replace_port(PortId(port), device));
            }
            self.wires[wire] = Some(far);
        }
    }

    /// Opens a tap on a port, or closes it.
    pub(super) fn toggle_tap(&mut self, port: usize) {
        match self.taps[port].take() {
            Some(id) => drop(self.stack.remove_tap(id)),
            None => {
                let all = Program::new(&[Insn::new(0x06, 0, 0, 0xffff)]).expect("it returns");
                let settings = Settings { buffer_bytes: 1 << 20, ..Settings::default() };
                let tap = Tap::new(Filter::new(all), settings).expect("settings in range");
                self.taps[port] = self.stack.add_tap(PortId(port as u16), tap, WallTime(0));
            }
        }
    }

    /// The frames that the taps recorded since the last call.
    fn sights(&mut self) -> Vec<Sights> {
        let mut all = Vec::new();
        for id in self.taps.into_iter().flatten() {
            let mut sights = Sights::new();
            if let Some(tap) = self.stack.tap(id)
                && let Some(buffer) = tap.take()
            {
                let is_in = |direction| direction == bpf::Direction::In;
                sights = buffer.records().map(|r| (is_in(r.direction), r.bytes.to_vec())).collect();
                tap.give_back(buffer);
            }
            all.push(sights);
        }
        all
    }
}

pub(super) struct Twins {
    pub(super) on: Router,
    pub(super) off: Router,
    /// The steps so far, printed if the copies differ.
    pub(super) log: Vec<String>,
    pub(super) seed: u64,
}

impl Twins {
    pub(super) fn new(seed: u64) -> Twins {
        Twins { on: Router::new(true), off: Router::new(false), log: Vec::new(), seed }
    }

    /// Does the same to both copies and compares the results.
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

    /// Compares the frames that left, the taps' frames and the counters; returns the frames that
    /// left, each with its port and without its VLAN tag.
    pub(super) fn compare(&mut self, now: Instant) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        for wire in 0..=TRUNK {
            let frames = self.both("", |router| router.sent(wire));
            frames.iter().for_each(|sent| check_offloads(wire, sent));
            all.extend(frames.iter().map(|(frame, ..)| untagged(wire, frame)));
        }
        self.both("what taps saw", Router::sights);
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
