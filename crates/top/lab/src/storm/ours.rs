//! A host of ours, or a router: a whole stack behind a device in memory.
//!
//! Called by: `cases.rs`.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Instant, MacAddr, Owner};
use device::{Burst, Device, mem};
use mbuf::Pool;
use stack::{
    ListenConfig, ListenerHandle, PortConfig, PortId, Stack, StackConfig, TcpHandle, UdpHandle,
};

use super::segment::Station;
use super::{Clock, Form, PORTS};

/// The most frames that a port takes from the stack before the wire is free for them.
const QUEUE_MAX: usize = 8;
/// Buffers of the wire's own side.
const POOL_BYTES: usize = 16 << 20;
const TCP_PORT: u16 = 5001;
/// The most neighbours that are counted, more than there are hosts.
const ENTRIES_MAX: usize = 4_096;

/// What the host's program does besides its broadcasts.
enum Program {
    None,
    /// Writes without end.
    Writes(TcpHandle),
    Listens(ListenerHandle),
    Reads(TcpHandle),
}

struct Attachment {
    wire: mem::Mem,
    queue: VecDeque<Vec<u8>>,
}

/// The host.
pub(super) struct Ours {
    pub(super) stack: Stack,
    addr: Ipv4Addr,
    ports: Vec<Attachment>,
    pool: Pool,
    sockets: Vec<UdpHandle>,
    pub(super) clock: Clock,
    program: Program,
    /// Datagrams that the host's programs broadcast, and datagrams that they received.
    pub(super) originals: u64,
    pub(super) received: u64,
    /// Bytes that the host's TCP program has read.
    pub(super) read: u64,
}

impl Ours {
    /// A stack with a port for each address; the networks' prefixes have 24 bits.
    pub(super) fn new(addrs: &[(Ipv4Addr, MacAddr)], form: Form, clock: Clock) -> Ours {
        let seed = addrs.iter().map(|(addr, _)| u64::from(addr.to_bits())).sum();
        let mut stack = Stack::new(StackConfig::new([seed, 7]));
        let mut ports = Vec::new();
        for &(addr, mac) in addrs {
            let (near, wire) = mem::pair(&mem::Config { depth: 64, ..mem::Config::default() });
            let network = base::Cidr::new(addr.into(), 24);
            let addresses = network.into_iter().collect();
            let port = stack
                .add_port(Box::new(near), PortConfig { mac, addresses, ..PortConfig::default() });
            stack.set_broadcast(port, addr, form.address(addr));
            ports.push(Attachment { wire, queue: VecDeque::new() });
        }
        let any = |port| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let bind = |&port: &u16| stack.udp_bind(any(port), Owner::program()).ok();
        let sockets: Vec<UdpHandle> = PORTS.iter().filter_map(bind).collect();
        for &socket in &sockets {
            // The socket was just bound: it is open.
            let _ = stack.udp_set_broadcast(socket, true);
        }
        Ours {
            stack,
            addr: addrs.first().map_or(Ipv4Addr::UNSPECIFIED, |&(addr, _)| addr),
            ports,
            pool: Pool::new(POOL_BYTES),
            sockets,
            clock,
            program: Program::None,
            originals: 0,
            received: 0,
            read: 0,
        }
    }

    /// Accept a connection, and read all its data.
    pub(super) fn listen(&mut self) {
        let local = SocketAddr::new(self.addr.into(), TCP_PORT);
        let listener = self.stack.tcp_listen(local, ListenConfig::default());
        self.program = listener.map_or(Program::None, Program::Listens);
    }

    /// Connect to a host that listens, and write as much as the connection takes.
    pub(super) fn connect(&mut self, to: Ipv4Addr, now: Instant) {
        let (to, config) = (SocketAddr::new(to.into(), TCP_PORT), tcp::Config::default());
        let connection = self.stack.tcp_connect(to, None, &config, Owner::program(), now);
        self.program = connection.map_or(Program::None, Program::Writes);
    }

    /// Is the connection, if it has one, established?
    pub(super) fn is_connected(&self) -> bool {
        let (Program::Writes(handle) | Program::Reads(handle)) = self.program else { return false };
        let state = self.stack.tcp_state(handle);
        state.is_some_and(|(state, error)| state == tcp::State::Established && error.is_none())
    }

    /// Segments that the connection retransmitted.
    pub(super) fn retransmits(&self) -> u32 {
        let (Program::Writes(handle) | Program::Reads(handle)) = self.program else { return 0 };
        self.stack.tcp_info(handle).map_or(0, |info| info.retransmits)
    }

    /// Is the link address of this neighbour known to be `mac`?
    pub(super) fn knows(&self, neighbour: Ipv4Addr, mac: MacAddr) -> bool {
        let rows = self.stack.neighbours_page(0, ENTRIES_MAX).rows;
        rows.iter().any(|row| row.ip == IpAddr::V4(neighbour) && row.mac == Some(mac))
    }

    /// The number of neighbours whose link address is known.
    pub(super) fn neighbours(&self) -> usize {
        self.stack.neighbours_page(0, ENTRIES_MAX).rows.iter().filter(|r| r.mac.is_some()).count()
    }

    fn programs(&mut self, now: Instant) {
        while let Some((port, payload)) = self.clock.next(now) {
            let program = PORTS.iter().position(|&other| other == port);
            let socket = program.and_then(|at| self.sockets.get(at)).copied();
            let to = self.stack.broadcast(PortId(0), self.addr);
            let (Some(socket), Some(to)) = (socket, to) else { continue };
            let to = SocketAddr::new(to.into(), port);
            self.originals += u64::from(self.stack.udp_send(socket, to, payload, now).is_ok());
        }
        for &socket in &self.sockets {
            while let Some(datagram) = self.stack.udp_receive(socket) {
                self.received += 1;
                self.stack.give_back(datagram.payload);
            }
        }
        while self.stack.next_event().is_some() {}
        match self.program {
            Program::Listens(listener) => {
                if let Some(handle) = self.stack.tcp_accept(listener) {
                    self.program = Program::Reads(handle);
                }
            }
            Program::Reads(handle) => {
                let mut into = [0; 16 << 10];
                while let Ok(n @ 1..) = self.stack.tcp_read(handle, &mut into) {
                    self.read += n as u64;
                }
            }
            Program::Writes(handle) => {
                while self.stack.tcp_write(handle, &[7; 16 << 10]).is_ok_and(|n| n > 0) {}
            }
            Program::None => {}
        }
    }
}

impl Station for Ours {
    fn receive(&mut self, port: usize, frame: &[u8], _now: Instant) {
        let Some(m) = self.pool.copy_of(frame) else { return };
        let mut burst = Burst::new();
        burst.push(m);
        // A full ring drops the frame, as the ring of an interface does.
        self.ports[port].wire.tx_burst(&mut self.pool, &mut burst);
    }

    fn run(&mut self, now: Instant) {
        self.stack.set_now(now);
        self.programs(now);
        while self.stack.poll(now) > 0 {
            self.programs(now);
        }
        self.stack.flush();
    }

    fn next_frame(&mut self, port: usize) -> Option<Vec<u8>> {
        let attachment = &mut self.ports[port];
        if attachment.queue.len() < QUEUE_MAX {
            let mut burst = Burst::new();
            attachment.wire.rx_burst(&mut self.pool, &mut burst);
            for m in burst.drain(..) {
                attachment.queue.push_back(m.as_slice().to_vec());
                self.pool.free(m);
            }
        }
        attachment.queue.pop_front()
    }

    fn next_deadline(&self) -> Instant {
        self.clock.next_deadline().min(self.stack.next_deadline())
    }
}
