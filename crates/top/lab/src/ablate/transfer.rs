//! The work that is measured: a bulk transfer from one stack to another in memory, both on this
//! thread. The switches of both stacks are set before each measurement; the connections and the
//! memory stay the same for all combinations of switches.
//!
//! Called by: `ablate`.

use std::net::SocketAddr;
use std::time::Instant as Clock;

use base::{Instant, Mtu, Owner, Switch};
use stack::pair::{End, PairConfig, pair};
use stack::{CallError, ListenConfig, TcpHandle};

use super::Meter;
use crate::Error;

const PORT: u16 = 5001;

/// IPv4 and TCP with timestamps.
const HEADERS: usize = 20 + 32;

/// Bytes that all flows together write in a [`Transfer::turn`], or a segment each if that is more.
const TURN: usize = 64 << 10;

/// Bytes that are transferred after the switches were set and before the measurement begins.
const WARM: u64 = 512 << 10;
/// Bytes that are transferred in each part of a measurement.
const PART: u64 = 1 << 20;

/// Parts of a measurement; its result is their median.
const PARTS: usize = 3;

/// The two ends and the connections.
pub(super) struct Transfer {
    client: End,
    server: End,
    streams: Vec<TcpHandle>,
    accepted: Vec<TcpHandle>,
    clock: Clock,
    data: Vec<u8>,
    into: Vec<u8>,
    segment: usize,
    received: u64,
}

fn failed(what: &str, error: impl std::fmt::Debug) -> Error {
    Error::Failed(format!("{what}: {error:?}; please report this line"))
}

impl Transfer {
    /// A transfer with this many connections, all established.
    pub(super) fn new(mtu: usize, flows: usize) -> Result<Transfer, Error> {
        let mut config = PairConfig::new([0x0012, 0x0700]);
        config.wire.mtu = Mtu::new(mtu).ok_or_else(|| failed("not an MTU", mtu))?;
        if mtu > 9_000 {
            // Room for several packets even if each has 64 KB.
            config.wire.depth_bytes = 512 << 10;
        }
        let (client, server) = pair(&config);
        let mut transfer = Transfer {
            client,
            server,
            streams: Vec::new(),
            accepted: Vec::new(),
            clock: Clock::now(),
            data: vec![7; TURN.max(mtu)],
            into: vec![0; 128 << 10],
            segment: mtu - HEADERS,
            received: 0,
        };
        transfer.connect(flows)?;
        Ok(transfer)
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1)
    }

    fn connect(&mut self, flows: usize) -> Result<(), Error> {
        let to = SocketAddr::new(self.server.addr, PORT);
        let listen = ListenConfig { backlog: flows + 1, ..ListenConfig::default() };
        let listener = self.server.stack.tcp_listen(to, listen).map_err(|e| failed("listen", e))?;
        let config = tcp::Config::default();
        for turn in 0.. {
            // At most 32 handshakes at a time, so that no queue overflows.
            while self.streams.len() < flows && self.streams.len() < self.accepted.len() + 32 {
                let now = self.now();
                let owner = Owner::program();
                let stream = self.client.stack.tcp_connect(to, None, &config, owner, now);
                self.streams.push(stream.map_err(|e| failed("connect", e))?);
            }
            self.poll();
            while let Some(stream) = self.server.stack.tcp_accept(listener) {
                self.accepted.push(stream);
            }
            if self.accepted.len() == flows {
                break;
            }
            if turn > 1_000 + 100 * flows {
                return Err(failed("too few connections were made", self.accepted.len()));
            }
        }
        Ok(())
    }

    fn poll(&mut self) {
        let now = self.now();
        for end in [&mut self.client, &mut self.server] {
            end.stack.poll(now);
            while end.stack.next_event().is_some() {}
            end.stack.flush();
        }
    }

    /// Every flow writes its share once, and the server reads all that has arrived.
    fn turn(&mut self) -> Result<(), Error> {
        let now = self.now();
        let each = (TURN / self.streams.len()).max(self.segment).min(self.data.len());
        self.client.stack.poll(now);
        while self.client.stack.next_event().is_some() {}
        for stream in &self.streams {
            match self.client.stack.tcp_write(*stream, &self.data[..each]) {
                Ok(_) | Err(CallError::WouldBlock) => {}
                Err(error) => return Err(failed("write", error)),
            }
        }
        self.client.stack.flush();
        self.server.stack.poll(now);
        while self.server.stack.next_event().is_some() {}
        for stream in &self.accepted {
            loop {
                match self.server.stack.tcp_read(*stream, &mut self.into) {
                    Ok(0) | Err(CallError::WouldBlock) => break,
                    Ok(count) => self.received += count as u64,
                    Err(error) => return Err(failed("read", error)),
                }
            }
        }
        self.server.stack.flush();
        Ok(())
    }

    /// Transfer at least this many bytes; returns how many the server read.
    fn pass(&mut self, bytes: u64) -> Result<u64, Error> {
        let (before, begun) = (self.received, Clock::now());
        while self.received - before < bytes {
            self.turn()?;
            if begun.elapsed().as_secs() > 60 {
                return Err(failed("too few bytes arrived in 60 s", self.received - before));
            }
        }
        Ok(self.received - before)
    }

    /// The cost of a full segment. Switches whose bits are set in `on` are on, the others are off.
    pub(super) fn measure(
        &mut self,
        switches: &[Switch],
        on: u32,
        meter: &mut Meter,
    ) -> Result<f64, Error> {
        for (bit, switch) in switches.iter().enumerate() {
            for end in [&mut self.client, &mut self.server] {
                end.stack.set_switch(*switch, on >> bit & 1 == 1);
            }
        }
        self.pass(WARM)?;
        let mut parts = [0.0; PARTS];
        for part in &mut parts {
            meter.start()?;
            let bytes = self.pass(PART)?;
            *part = meter.stop()? / (bytes as f64 / self.segment as f64);
        }
        parts.sort_by(f64::total_cmp);
        Ok(parts[PARTS / 2])
    }
}
