//! A whole stack with its wires in a script's hands: any frame, any call, any time.
//!
//! Called by: the targets `stack` and `listener`, and by `seeds.rs`, which records what real peers
//! say to the same bench. `script.rs` decodes; this file holds the stack and judges it.

pub(crate) mod near;
pub(crate) mod router;
pub(crate) mod script;
#[cfg(test)]
mod tests;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Cidr, Counters, Duration, Instant, Limit, LinkKind, Mtu, Owner};
use device::{Burst, Device, mem};
use mbuf::Pool;
use stack::pair::{self, PairConfig};
use stack::{
    Event, ListenConfig, ListenerHandle, PingHandle, PortConfig, PortId, Stack, TcpHandle,
    UdpHandle,
};

use crate::craft::{self, Sent};

/// TCP is listened for here, twice over IPv4 and IPv6.
pub(crate) const LISTEN_PORT: u16 = 80;
/// The listener that inspects SYNs has this port.
pub(crate) const FORWARD_PORT: u16 = 81;
/// The UDP socket's port.
pub(crate) const UDP_PORT: u16 = 53;
/// The port that the bench's own connections go to.
pub(crate) const REMOTE_PORT: u16 = 8_080;

/// Small limits, so that a script reaches them.
const LIMITS: &[(Limit, usize)] = &[
    (Limit::MbufBytes, 8 << 20),
    (Limit::Connections, 24),
    (Limit::TimeWait, 4),
    (Limit::HalfOpen, 6),
    (Limit::ForwardRequests, 4),
    (Limit::Sockets, 8),
    (Limit::UdpQueueBytes, 4_096),
    (Limit::NeighbourQueueTotal, 8),
    (Limit::Neighbours, 8),
    (Limit::PathMtus, 4),
    (Limit::PingReplies, 4),
    (Limit::PacedFrames, 32),
    (Limit::ReassemblySegments, 32),
    (Limit::SackRanges, 16),
    (Limit::Addresses, 8),
    (Limit::Routers, 2),
    (Limit::Prefixes, 2),
    (Limit::AdvertisedRoutes, 2),
    (Limit::NameServers, 2),
    (Limit::SearchDomains, 2),
    (Limit::Redirects, 4),
    (Limit::GroupsPerPort, 12),
];

/// Any frames, most of them with fixed checksums.
pub fn any_frame(data: &[u8]) {
    script::play(data, script::bench, script::step);
}

/// Packets to a listener: handshakes of many peers, whole and not.
pub fn any_handshake(data: &[u8]) {
    script::play(data, script::bench, script::handshake);
}

/// Any messages of neighbours, routers and queriers to a port that configures itself.
pub fn any_neighbour(data: &[u8]) {
    script::play(data, |_| near::bench(), near::step);
}

/// Any packets to a stack that forwards.
pub fn any_packet_to_forward(data: &[u8]) {
    script::play(data, |_| router::bench(), router::step);
}

/// A wire's far end.
pub(crate) struct Wire {
    pub(crate) link: LinkKind,
    pub(crate) far: mem::Mem,
    id: PortId,
}

/// A packet that the stack sent, for a script to answer.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) wire: usize,
    pub(crate) sent: Sent,
}

/// A stack, both its wires, and what its user holds.
pub(crate) struct Bench {
    pub(crate) stack: Stack,
    pub(crate) wires: [Wire; 2],
    pub(crate) pool: Pool,
    pub(crate) now: Instant,
    pub(crate) listeners: [ListenerHandle; 2],
    pub(crate) udp: UdpHandle,
    pub(crate) ping: PingHandle,
    pub(crate) held: Vec<TcpHandle>,
    /// The last packets that the stack sent, newest last.
    pub(crate) said: Vec<Said>,
    /// The other end takes nothing that the stack sends.
    pub(crate) stalled: bool,
    /// It sends packets of others, too.
    pub(crate) forwards: bool,
    /// Frames that it sent on the first wire, if they are recorded.
    pub(crate) record: Option<Vec<Vec<u8>>>,
}

/// Our addresses behind the second wire, which is bare IP.
pub(crate) fn second_address() -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1))
}

/// The first wire's settings: those of a pair, so that a real peer fits its other end.
pub(crate) fn pair_config() -> PairConfig {
    let mut config = PairConfig::new([11, 22]);
    for &(limit, value) in LIMITS {
        config.stack.budget.set(limit, value);
    }
    config.wire.depth = 64;
    config
}

/// An end of the first wire, number 1 or 2; `strange`: it knows no neighbours.
pub(crate) fn end(
    config: &PairConfig,
    near: mem::Mem,
    number: u8,
    strange: bool,
) -> (Stack, PortId) {
    if !strange {
        let end = pair::end(config, near, number);
        return (end.stack, end.port);
    }
    let mut stack = Stack::new(config.stack.clone());
    let (mac, addresses) = (pair::mac(number), pair::addresses(number).to_vec());
    let id = stack.add_port(Box::new(near), PortConfig { mac, addresses, ..PortConfig::default() });
    (stack, id)
}

impl Bench {
    /// A stack with listeners, sockets and two wires; `strange`: it knows no neighbours.
    pub(crate) fn new(strange: bool) -> Bench {
        Bench::with_second_mtu(strange, pair_config().wire.mtu)
    }

    /// The same with an MTU of the second wire.
    pub(crate) fn with_second_mtu(strange: bool, mtu: Mtu) -> Bench {
        let config = pair_config();
        let (near, far) = mem::pair(&config.wire);
        let (mut stack, first) = end(&config, near, 1, strange);
        let bare = mem::Config { link: LinkKind::Ip, depth: 16, mtu, ..config.wire };
        let (near, second_far) = mem::pair(&bare);
        let cidr = Cidr { addr: second_address(), prefix_len: 24 };
        let addresses = PortConfig { addresses: vec![cidr], ..PortConfig::default() };
        let second = stack.add_port(Box::new(near), addresses);
        let any = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
        let listen = ListenConfig { backlog: 4, ..ListenConfig::default() };
        let inspect = ListenConfig { inspect: true, ..listen.clone() };
        let listeners = [
            stack.tcp_listen(any(LISTEN_PORT), listen).expect("a new stack has room"),
            stack.tcp_listen(any(FORWARD_PORT), inspect).expect("and for another"),
        ];
        let udp = stack.udp_bind(any(UDP_PORT), Owner::program()).expect("nobody has it");
        let ping = stack.ping_open(Owner::program()).expect("the first");
        let wires = [
            Wire { link: LinkKind::Ethernet, far, id: first },
            Wire { link: LinkKind::Ip, far: second_far, id: second },
        ];
        Bench {
            stack,
            wires,
            pool: Pool::new(8 << 20),
            now: Instant::from_nanos(5_000_000_000),
            listeners,
            udp,
            ping,
            held: Vec::new(),
            said: Vec::new(),
            stalled: false,
            forwards: false,
            record: None,
        }
    }

    /// Put a frame on a wire; without room it is lost, as on a wire.
    pub(crate) fn inject(&mut self, wire: usize, frame: &[u8]) {
        let Some(m) = self.pool.copy_of(frame) else { return };
        let mut burst = Burst::new();
        burst.push(m);
        self.wires[wire].far.tx_burst(&mut self.pool, &mut burst);
    }

    /// An IP packet behind the link header that the wire wants.
    pub(crate) fn inject_packet(&mut self, wire: usize, packet: &[u8]) {
        let link = self.wires[wire].link;
        let frame = craft::frame(link, pair::mac(1), pair::mac(2), packet);
        self.inject(wire, &frame);
    }

    /// Let the stack work, take what it sent, look at what it holds.
    pub(crate) fn poll(&mut self) {
        self.stack.poll(self.now);
        if !self.stalled {
            self.take_sent();
        }
        self.events();
        self.check();
    }

    /// Everything on the wires, each frame looked at.
    fn take_sent(&mut self) {
        for index in 0..self.wires.len() {
            loop {
                let mut burst = Burst::new();
                self.stack.flush();
                if self.wires[index].far.rx_burst(&mut self.pool, &mut burst) == 0 {
                    break;
                }
                for m in burst {
                    self.look_at(index, m.as_slice());
                    if let (0, Some(record)) = (index, &mut self.record) {
                        record.push(m.as_slice().to_vec());
                    }
                    self.pool.free(m);
                }
            }
        }
        self.pool.flush();
    }

    /// Check that any host would take a frame that the stack sends.
    fn look_at(&mut self, wire: usize, frame: &[u8]) {
        let link = self.wires[wire].link;
        let source = craft::source(frame, link);
        if self.forwards && source.is_some_and(|ip| !self.stack.has_address(ip)) {
            return router::check_forwarded(frame, link, wire);
        }
        let Some(sent) = craft::sent(frame, link) else { return };
        self.said.push(Said { wire, sent });
        if self.said.len() > 16 {
            self.said.remove(0);
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.stack.next_event() {
            if let Event::Accept(listener) = event
                && listener == self.listeners[0]
                && self.held.len() < 12
                && let Some(handle) = self.stack.tcp_accept(listener)
            {
                self.held.push(handle);
            }
        }
    }

    /// No table holds more than its limit.
    pub(crate) fn check(&mut self) {
        let budget = self.stack.budget();
        let within = [
            (Limit::Connections, self.stack.connection_count()),
            (Limit::TimeWait, self.stack.time_wait_count()),
            (Limit::HalfOpen, self.stack.snapshot().half_open),
            (Limit::ForwardRequests, self.stack.request_count()),
            (Limit::ReceiveBufferBytes, budget.reserved(Limit::ReceiveBufferBytes)),
        ];
        for (limit, used) in within {
            let most = budget.of(limit);
            assert!(used <= most, "{used} of {}, {most} may", limit.name());
        }
        let (held, most) = (self.stack.pool().held_bytes(), self.stack.pool().limit_bytes());
        assert!(held <= most, "{held} bytes of buffers, {most} may");
        for &handle in &self.held {
            if let Some(info) = self.stack.tcp_info(handle) {
                assert!(info.cwnd < 1 << 40, "cwnd {}", info.cwnd);
                let waits = info.in_flight > 0 && self.stack.next_deadline() == Instant::NEVER;
                let over = matches!(info.state, tcp::State::Closed | tcp::State::TimeWait);
                assert!(over || !waits, "{} bytes in flight and no deadline", info.in_flight);
            }
        }
    }

    /// Everything that a connection may still say or hear.
    pub(crate) fn use_connection(&mut self, index: usize, how: u8, len: usize) {
        let Some(&handle) = self.held.get(index % self.held.len().max(1)) else { return };
        let mut bytes = vec![0x5a; len];
        match how % 8 {
            0 | 1 => {
                let done = self.stack.tcp_write(handle, &bytes);
                assert!(done != Ok(0) || len == 0);
            }
            2 => {
                let _ = self.stack.tcp_read(handle, &mut bytes);
            }
            3 => {
                if let Ok(Some(m)) = self.stack.tcp_read_mbuf(handle) {
                    self.stack.give_back(m);
                }
            }
            4 => self.stack.tcp_shutdown_write(handle),
            5 => self.stack.tcp_shutdown_read(handle),
            6 => {
                self.stack.tcp_close(handle);
                self.held.retain(|&h| h != handle);
            }
            _ => {
                self.stack.tcp_abort(handle);
                self.held.retain(|&h| h != handle);
            }
        }
    }

    /// Close everything and let every timer expire: nothing may be left but counters.
    pub(crate) fn finish(mut self) -> Counters {
        self.stalled = false;
        for handle in core::mem::take(&mut self.held) {
            self.stack.tcp_abort(handle);
        }
        for listener in self.listeners {
            while let Some((request, ..)) = self.stack.tcp_request(listener) {
                self.stack.tcp_ignore(request);
            }
            self.stack.tcp_unlisten(listener);
        }
        near::end(&mut self);
        self.stack.udp_close(self.udp);
        self.stack.ping_close(self.ping);
        // An hour: a peer whose answers took a minute is given up after half of one.
        for _ in 0..120 {
            self.stack.poll(self.now);
            self.take_sent();
            while self.stack.next_event().is_some() {}
            let open = self.stack.connection_count() + self.stack.time_wait_count();
            if open + self.stack.pool().outstanding() == 0 {
                break;
            }
            self.now += Duration::from_secs(30);
        }
        let left = (self.stack.connection_count(), self.stack.time_wait_count());
        assert_eq!(left, (0, 0), "connections and TIME-WAIT records are left");
        assert_eq!(self.stack.snapshot().half_open, 0, "half-open connections are counted");
        assert_eq!(self.stack.pool().outstanding(), 0, "buffers that nobody gave back");
        assert_eq!(self.stack.budget().reserved(Limit::ReceiveBufferBytes), 0);
        let ids = self.wires.each_ref().map(|wire| wire.id);
        for id in ids {
            drop(self.stack.remove_port(id));
        }
        let Bench { stack, wires, mut pool, .. } = self;
        let counters = stack.counters().clone();
        drop(stack);
        drop(wires);
        assert_eq!(pool.outstanding(), 0, "the peer's buffers are kept");
        counters
    }
}
