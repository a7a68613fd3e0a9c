//! Two stacks with a path between them: a TELNET client on one, a TELNET server with a terminal on
//! the other.
//!
//! Called by: `telnet.rs`.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Duration, Instant, LinkKind, MacAddr, Owner};
use device::{Burst, Device, mem};
use mbuf::Pool;
use stack::{ListenConfig, ListenerHandle, PortConfig, Stack, StackConfig, TcpHandle};
use telnet::{Client, Event, Mode, Out, Server, Settings};

use crate::report::Span;

const PORT: u16 = 23;
/// Time for the connection and the options before the first key.
const SETTLE: Duration = Duration::from_secs(60);
/// More steps than a line of 4,000 characters takes.
const STEPS_MAX: usize = 1_000_000;
/// The usual mode of a terminal when a program starts: it edits lines.
const COOKED: Mode = Mode { edit: true, trapsig: true, soft_tab: false, lit_echo: false };

/// The typing, the program, and the path.
pub(super) struct Typing {
    pub(super) one_way: Duration,
    /// The time from one key to the next.
    pub(super) between: Duration,
    pub(super) characters: usize,
    /// The program prints the line that it reads.
    pub(super) prints: bool,
    /// The client does not do LINEMODE.
    pub(super) by_character: bool,
}

/// The traffic from the first key on.
pub(super) struct Outcome {
    /// Packets to the server; `down` has those to the client.
    pub(super) up: u64,
    pub(super) down: u64,
    pub(super) bytes: u64,
    /// Milliseconds until a character was seen.
    pub(super) echo: Option<Span>,
}

impl Outcome {
    pub(super) fn packets(&self) -> u64 {
        self.up + self.down
    }
}

/// A stack, and the packets on the path from it.
struct Host {
    stack: Stack,
    wire: mem::Mem,
    pool: Pool,
    connection: Option<TcpHandle>,
    in_flight: VecDeque<(Instant, Vec<u8>)>,
    packets: u64,
    bytes: u64,
}

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

fn tcp_config() -> tcp::Config {
    tcp::Config { no_delay: true, ..tcp::Config::default() }
}

impl Host {
    fn new(last: u8) -> Host {
        let config = mem::Config { link: LinkKind::Ip, ..mem::Config::default() };
        let (near, wire) = mem::pair(&config);
        let mut stack = Stack::new(StackConfig::new([u64::from(last), 7]));
        let addresses = base::Cidr::new(IpAddr::V4(address(last)), 24).into_iter().collect();
        stack.add_port(
            Box::new(near),
            PortConfig { mac: MacAddr([2, 0, 0, 0, 0, last]), addresses, ..PortConfig::default() },
        );
        Host {
            stack,
            wire,
            pool: Pool::new(1 << 20),
            connection: None,
            in_flight: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Put the packets that the stack sends on the path.
    fn depart(&mut self, arrives: Instant) {
        self.stack.flush();
        loop {
            let mut burst = Burst::new();
            self.wire.rx_burst(&mut self.pool, &mut burst);
            if burst.is_empty() {
                return;
            }
            for m in burst.drain(..) {
                let frame = m.as_slice().to_vec();
                self.pool.free(m);
                self.packets += 1;
                self.bytes += frame.len() as u64;
                self.in_flight.push_back((arrives, frame));
            }
        }
    }

    /// Take a packet that has arrived at the other end off the path.
    fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        let is_due = self.in_flight.front().is_some_and(|&(at, _)| at <= now);
        self.in_flight.pop_front_if(|_| is_due).map(|(_, frame)| frame)
    }

    fn receive(&mut self, frame: &[u8]) {
        let Some(m) = self.pool.copy_of(frame) else { return };
        let mut burst = Burst::new();
        burst.push(m);
        self.wire.tx_burst(&mut self.pool, &mut burst);
    }

    fn next_event(&self) -> Instant {
        let arrival = self.in_flight.front().map_or(Instant::NEVER, |&(at, _)| at);
        arrival.min(self.stack.next_deadline())
    }

    fn read(&mut self) -> Vec<u8> {
        let (mut all, mut part) = (Vec::new(), [0; 4096]);
        let Some(connection) = self.connection else { return all };
        while let Ok(count @ 1..) = self.stack.tcp_read(connection, &mut part) {
            all.extend_from_slice(&part[..count]);
        }
        all
    }

    fn write(&mut self, out: &mut Out) {
        let Some(connection) = self.connection else { return };
        while !out.is_empty() {
            match self.stack.tcp_write(connection, out.next().0) {
                Ok(count) => out.sent(count),
                Err(_) => return,
            }
        }
    }
}

/// Both hosts and what runs on them.
struct World {
    now: Instant,
    near: Host,
    far: Host,
    one_way: Duration,
    listener: ListenerHandle,
    client: Client,
    server: Server,
    /// The line that the server's terminal edits.
    line: Vec<u8>,
    prints: bool,
    /// Bytes shown to the user.
    shown: usize,
}

impl World {
    fn new(typing: &Typing) -> Result<World, String> {
        let (mut near, mut far) = (Host::new(1), Host::new(2));
        let listen = ListenConfig { tcp: tcp_config(), ..ListenConfig::default() };
        let at = SocketAddr::new(IpAddr::V4(address(2)), PORT);
        let listener =
            far.stack.tcp_listen(at, listen).map_err(|e| format!("no listener: {e:?}"))?;
        let now = Instant::ZERO + Duration::from_millis(1);
        let connection = near.stack.tcp_connect(at, None, &tcp_config(), Owner::program(), now);
        near.connection = Some(connection.map_err(|e| format!("no connection: {e:?}"))?);
        let settings = Settings {
            terminal: "xterm".to_owned(),
            window: (80, 24),
            speed: "38400,38400".to_owned(),
            environment: Vec::new(),
            asks: true,
            linemode: !typing.by_character,
        };
        let mut server = Server::new();
        server.set_mode(COOKED, true);
        Ok(World {
            now,
            near,
            far,
            one_way: typing.one_way,
            listener,
            client: Client::new(settings),
            server,
            line: Vec::new(),
            prints: typing.prints,
            shown: 0,
        })
    }

    /// Do everything that is due now.
    fn step(&mut self) {
        while let Some(frame) = self.near.arrived(self.now) {
            self.far.receive(&frame);
        }
        while let Some(frame) = self.far.arrived(self.now) {
            self.near.receive(&frame);
        }
        for host in [&mut self.near, &mut self.far] {
            while host.stack.poll(self.now) > 0 {}
            while host.stack.next_event().is_some() {}
        }
        if self.far.connection.is_none() {
            self.far.connection = self.far.stack.tcp_accept(self.listener);
        }
        let (to_client, to_server) = (self.near.read(), self.far.read());
        self.client.receive(&to_client);
        self.server.receive(&to_server);
        for event in self.server.take_events() {
            if let Event::Data(data) = event {
                data.into_iter().for_each(|byte| self.terminal(byte));
            }
        }
        self.shown += self.client.take_display().len();
        self.near.write(self.client.out());
        self.far.write(self.server.out());
        let arrives = self.now + self.one_way;
        self.near.depart(arrives);
        self.far.depart(arrives);
    }

    /// The server's terminal: it echoes typed characters unless the client does, and gives lines to
    /// the program.
    fn terminal(&mut self, byte: u8) {
        let shows = !self.server.is_linemode();
        if byte == b'\r' {
            let line = core::mem::take(&mut self.line);
            if shows {
                self.server.write(b"\r\n");
            }
            if self.prints {
                self.server.write(&[&line[..], b"\r\n"].concat());
            }
            return;
        }
        self.line.push(byte);
        if shows {
            self.server.write(&[byte]);
        }
    }

    fn next_event(&self) -> Instant {
        self.near.next_event().min(self.far.next_event())
    }

    /// Run until `until`. After each step `after` gets the time, and the number of bytes shown so
    /// far.
    fn run(&mut self, until: Instant, steps: &mut usize, mut after: impl FnMut(Instant, usize)) {
        while *steps < STEPS_MAX {
            *steps += 1;
            self.step();
            after(self.now, self.shown);
            let next = self.next_event().max(self.now + Duration::from_nanos(1));
            if next > until {
                break;
            }
            self.now = next;
        }
        self.now = until;
    }
}

/// Type a line.
pub(super) fn measure(typing: &Typing) -> Result<Outcome, String> {
    let mut world = World::new(typing)?;
    let mut steps = 0;
    let begin = world.now + SETTLE;
    world.run(begin, &mut steps, |_, _| {});
    if world.server.is_linemode() == typing.by_character || !world.server.is_settled() {
        return Err("the ends did not agree on their options".to_owned());
    }
    for host in [&mut world.near, &mut world.far] {
        (host.packets, host.bytes) = (0, 0);
    }
    let (before, mut typed) = (world.shown, Vec::new());
    let mut echo_ms: Vec<f64> = Vec::new();
    let characters = typing.characters;
    for key in 0..=characters {
        let byte = if key == characters { b'\r' } else { b'a' + (key % 26) as u8 };
        typed.push(world.now);
        world.client.keys(&[byte]);
        let last = key == characters;
        let until = world.now + if last { SETTLE } else { typing.between };
        world.run(until, &mut steps, |now, shown| {
            while echo_ms.len() < (shown - before).min(typed.len()).min(characters) {
                let at = typed[echo_ms.len()];
                echo_ms.push(now.since(at).as_nanos() as f64 / 1e6);
            }
        });
    }
    let printed = if typing.prints { characters + 2 } else { 0 };
    let (shown, expected) = (world.shown - before, characters + 2 + printed);
    if shown != expected {
        return Err(format!("{shown} bytes were shown instead of {expected}"));
    }
    let (near, far) = (&world.near, &world.far);
    Ok(Outcome {
        up: near.packets,
        down: far.packets,
        bytes: near.bytes + far.bytes,
        echo: Span::of(echo_ms),
    })
}
