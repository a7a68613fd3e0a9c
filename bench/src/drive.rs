//! Two of our stacks in memory, which one thread polls, for `ours.rs` and the instruction counts.
//! The application at each end has its own buffer, from which data is copied in and into which it
//! is copied out. Called by `ours.rs` and `icount.rs`. This file does not depend on the rows.

use std::net::SocketAddr;
use std::time::Instant as Clock;

use anyhow::{Context, Result, bail, ensure};
use base::{Counter, Instant, IpVersion, Mtu, Owner, Switches};
use stack::pair::{End, PairConfig, pair};
use stack::{Event, ListenConfig, TcpHandle};

use crate::measure;

/// A transfer in one direction: two stacks in memory, polled by the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// MTU of the link, IP header included.
    pub mtu: usize,
    /// Use IPv6 instead of IPv4.
    pub v6: bool,
    /// Bytes that the application passes to one write.
    pub write: usize,
    /// Bytes of the memory from which writes take their data, one part after another.
    pub payload: usize,
    /// The link takes super-segments of up to 64 KB, as a device with TSO does.
    pub super_segments: bool,
    /// The link computes checksums, and marks those of received frames as verified, like both ends
    /// of a veth.
    pub link_checksums: bool,
    /// Number of connections. If there are several, each sends one segment a turn.
    pub flows: usize,
}

impl Default for Bulk {
    fn default() -> Bulk {
        Bulk {
            mtu: 1500,
            v6: false,
            write: 16 << 10,
            payload: 128 << 10,
            super_segments: false,
            link_checksums: false,
            flows: 1,
        }
    }
}

/// Two stacks joined in memory, and the connections from the first to the second.
pub struct Drive {
    /// The end that connected.
    pub client: End,
    /// The end that listens.
    pub server: End,
    /// The handles of each connection at the client and at the server.
    pub flows: Vec<(TcpHandle, TcpHandle)>,
    clock: Clock,
    now: Instant,
    data: Vec<u8>,
    into: Vec<u8>,
    at: usize,
    write: usize,
    /// Bytes that arrived at the application.
    pub received: u64,
}

const PORT: u16 = 5001;

impl Drive {
    /// Two stacks with `shape.flows` established connections.
    pub fn new(shape: Bulk, switches: Switches, tcp: tcp::Config) -> Result<Drive> {
        let mut config = PairConfig::new([0x1988, 0x1989]);
        config.wire.mtu = Mtu::new(shape.mtu).context("an MTU is 68 to 65535")?;
        if shape.mtu > 9000 || shape.super_segments {
            // The wire has room for several packets even if each has 64 KB.
            config.wire.depth_bytes = 512 << 10;
        }
        if shape.super_segments {
            config.wire.offloads.tso_max_bytes = 65_535 + 14;
        }
        config.wire.offloads.tx_checksum = shape.link_checksums;
        config.wire.offloads.rx_checksum = shape.link_checksums;
        if shape.v6 {
            config.version = IpVersion::V6;
        }
        config.stack.switches = switches;
        let (client, server) = pair(&config);
        let mut drive = Drive {
            client,
            server,
            flows: Vec::new(),
            clock: Clock::now(),
            now: Instant::from_nanos(1),
            data: measure::pattern(shape.payload.max(shape.write)),
            into: vec![0; 128 << 10],
            at: 0,
            write: shape.write,
            received: 0,
        };
        drive.open(shape.flows, tcp)?;
        Ok(drive)
    }

    fn open(&mut self, flows: usize, tcp: tcp::Config) -> Result<()> {
        let to = SocketAddr::new(self.server.addr, PORT);
        let listen = ListenConfig { backlog: flows + 1, tcp, ..ListenConfig::default() };
        let listener =
            self.server.stack.tcp_listen(to, listen).map_err(|e| anyhow::anyhow!("{e:?}"))?;
        let mut clients = Vec::new();
        let mut turns = 0;
        while self.flows.len() < flows {
            if clients.len() < flows && clients.len() < self.flows.len() + 64 {
                let c = self
                    .client
                    .stack
                    .tcp_connect(to, None, &tcp, Owner::program(), self.now)
                    .map_err(|e| anyhow::anyhow!("connect: {e:?}"))?;
                clients.push(c);
            }
            self.step();
            while let Some(event) = self.server.stack.next_event() {
                if let Event::Accept(_) = event
                    && let Some(s) = self.server.stack.tcp_accept(listener)
                {
                    let c = clients.get(self.flows.len()).context("accepted before connected")?;
                    self.flows.push((*c, s));
                }
            }
            turns += 1;
            ensure!(turns < 100 * flows + 1000, "{} of {flows} connected", self.flows.len());
        }
        self.step();
        self.step();
        self.pair_up()
    }

    /// The server may accept connections in another order than the client opened them, so match
    /// them by port.
    fn pair_up(&mut self) -> Result<()> {
        let mut by_port = std::collections::BTreeMap::new();
        for (c, _) in &self.flows {
            let (local, _) = self.client.stack.tcp_addresses(*c).context("client is gone")?;
            by_port.insert(local.port(), *c);
        }
        for (c, s) in &mut self.flows {
            let (_, remote) = self.server.stack.tcp_addresses(*s).context("server is gone")?;
            *c = *by_port.get(&remote.port()).context("no such client")?;
        }
        Ok(())
    }

    /// Read the clock. Call this once a turn.
    #[inline]
    pub fn tick(&mut self) {
        self.now = Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1);
    }

    /// Advance virtual time instead, so that counts are the same in every run.
    #[inline]
    pub fn advance(&mut self, ns: u64) {
        self.now = Instant::from_nanos(self.now.as_nanos() + ns);
    }

    /// Both ends receive the frames that have arrived.
    #[inline]
    pub fn step(&mut self) {
        self.client.stack.poll(self.now);
        self.server.stack.poll(self.now);
    }

    /// One turn of a bulk transfer on the first flow. The sender writes until its stack takes no
    /// more, then the receiver reads everything.
    #[inline]
    pub fn bulk_turn(&mut self) -> Result<()> {
        let (c, s) = self.flows[0];
        self.client.stack.poll(self.now);
        loop {
            let end = (self.at + self.write).min(self.data.len());
            let Ok(n) = self.client.stack.tcp_write(c, &self.data[self.at..end]) else { break };
            let short = self.at + n < end;
            self.at = if self.at + n == self.data.len() { 0 } else { self.at + n };
            if short {
                break;
            }
        }
        self.client.stack.flush();
        self.server.stack.poll(self.now);
        self.read(s)
    }

    /// One turn in which every flow sends one segment, and the receiver reads the flows for which
    /// it has events. As in an event loop, the wire passes the frames on a burst at a time.
    pub fn flows_turn(&mut self, segment: usize) -> Result<()> {
        for first in (0..self.flows.len()).step_by(device::BURST) {
            let last = (first + device::BURST).min(self.flows.len());
            for &(c, _) in &self.flows[first..last] {
                // A flow whose write would block sends in the next turn; a flow that failed is an
                // error.
                match self.client.stack.tcp_write(c, &self.data[..segment]) {
                    Ok(_) | Err(stack::CallError::WouldBlock) => {}
                    Err(error) => bail!("write: {error:?}"),
                }
            }
            self.client.stack.flush();
            self.server.stack.poll(self.now);
            while let Some(event) = self.server.stack.next_event() {
                if let Event::Tcp(s, events) = event
                    && events.has(tcp::Events::READABLE)
                {
                    self.read(s)?;
                }
            }
            self.server.stack.flush();
            self.client.stack.poll(self.now);
            while self.client.stack.next_event().is_some() {}
        }
        Ok(())
    }

    /// Every flow carries a message of `size` bytes to the server and becomes idle: delayed ACKs
    /// have been sent, and nothing is in flight. The time is virtual.
    pub fn settle_all(&mut self, size: usize) -> Result<()> {
        const LONGER_THAN_ANY_ACK_DELAY_NS: u64 = 500_000_000;
        for first in (0..self.flows.len()).step_by(device::BURST) {
            let last = (first + device::BURST).min(self.flows.len());
            for i in first..last {
                let written = self.client.stack.tcp_write(self.flows[i].0, &self.data[..size]);
                ensure!(written == Ok(size), "write: {written:?}");
            }
            self.client.stack.flush();
            self.step();
            for i in first..last {
                self.read(self.flows[i].1)?;
            }
            self.advance(LONGER_THAN_ANY_ACK_DELAY_NS);
            self.step();
            self.step();
        }
        Ok(())
    }

    #[inline]
    fn read(&mut self, s: TcpHandle) -> Result<()> {
        loop {
            match self.server.stack.tcp_read(s, &mut self.into) {
                Ok(0) => bail!("the sender closed"),
                Ok(n) => {
                    self.received += n as u64;
                    if n < self.into.len() {
                        return Ok(());
                    }
                }
                Err(stack::CallError::WouldBlock) => return Ok(()),
                Err(error) => bail!("read: {error:?}"),
            }
        }
    }

    /// Send `size` bytes to the server, which sends them back to the client.
    #[inline]
    pub fn ping_pong(&mut self, size: usize) -> Result<()> {
        let (c, s) = self.flows[0];
        let Drive { client, server, data, into, now, .. } = self;
        client.stack.tcp_write(c, &data[..size]).map_err(|e| anyhow::anyhow!("{e:?}"))?;
        client.stack.flush();
        server.stack.poll(*now);
        let n = server.stack.tcp_read(s, into).map_err(|e| anyhow::anyhow!("{e:?}"))?;
        server.stack.tcp_write(s, &into[..n]).map_err(|e| anyhow::anyhow!("{e:?}"))?;
        server.stack.flush();
        client.stack.poll(*now);
        let n = client.stack.tcp_read(c, into).map_err(|e| anyhow::anyhow!("{e:?}"))?;
        self.received += n as u64;
        ensure!(n == size, "{n} of {size} bytes came back");
        Ok(())
    }

    /// How many data segments the server received.
    pub fn segments(&self) -> u64 {
        self.server.stack.counters().of(Counter::TcpSegmentsIn)
    }

    /// The number of retransmissions and drops at both ends, for a row's note.
    pub fn troubles(&self) -> u64 {
        let of = |end: &End| {
            end.stack.counters().of(Counter::TcpRetransmits) + end.stack.drops().total()
        };
        of(&self.client) + of(&self.server)
    }
}
