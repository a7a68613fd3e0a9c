//! Two stacks of ours joined in memory and driven by one thread: bulk TCP from one to the other, as
//! fast as possible.
//!
//! Called by: `cray`, `knee`. The figure is bytes in a second of the thread's processor time, so
//! that another program on the same core does not change it. It includes the work of both ends,
//! with copies from and to the application and checksums. If both ends wait for a timer, their
//! clock advances to it at once: a program would sleep, and sleeping takes no processor time.

use std::net::SocketAddr;
use std::time::Instant as Clock;

use base::{Instant, Owner};
use stack::pair::{End, PairConfig, pair};
use stack::{CallError, ListenConfig, ListenerHandle, TcpHandle};

use crate::forward::cost::cpu_s;
use crate::{Error, Run};

const PORT: u16 = 5001;
/// Bytes of a read.
const READ_BYTES: usize = 128 << 10;
/// Bytes that are transferred before the measurement begins, while buffers grow and caches fill.
const WARM_BYTES: u64 = 1 << 20;
/// Turns between two readings of the clocks.
const TURNS: u32 = 8;

/// The settings: of the stacks, the connection and the writes.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    /// The stacks and the wire between them.
    pub(crate) pair: PairConfig,
    /// The settings of the connection, for both ends.
    pub(crate) tcp: tcp::Config,
    /// Bytes of a write.
    pub(crate) write_bytes: usize,
}

/// Both ends, connected.
pub(crate) struct Joined {
    client: End,
    server: End,
    stream: TcpHandle,
    listener: ListenerHandle,
    accepted: Option<TcpHandle>,
    clock: Clock,
    /// Nanoseconds by which the clock was advanced without waiting.
    skipped_ns: u64,
    data: Vec<u8>,
    into: Vec<u8>,
    received: u64,
    is_warm: bool,
}

fn failed(what: &str, error: impl std::fmt::Debug) -> Error {
    Error::Failed(format!("{what}: {error:?}; please report this line"))
}

impl Joined {
    pub(crate) fn new(joining: &Joining) -> Result<Joined, Error> {
        let (mut client, mut server) = pair(&joining.pair);
        let to = SocketAddr::new(server.addr, PORT);
        let listen = ListenConfig { tcp: joining.tcp, ..ListenConfig::default() };
        let listening = server.stack.tcp_listen(to, listen);
        let listener = listening.map_err(|error| failed("listen", error))?;
        let now = Instant::from_nanos(1);
        let connecting = client.stack.tcp_connect(to, None, &joining.tcp, Owner::program(), now);
        let stream = connecting.map_err(|error| failed("connect", error))?;
        let (data, into) = (vec![7; joining.write_bytes], vec![0; READ_BYTES]);
        Ok(Joined {
            client,
            server,
            stream,
            listener,
            accepted: None,
            clock: Clock::now(),
            skipped_ns: 0,
            data,
            into,
            received: 0,
            is_warm: false,
        })
    }

    /// Bytes in a second of the thread's processor time, measured for about `seconds`; `None` if
    /// the run was stopped.
    pub(crate) fn measure(&mut self, seconds: f64, run: &Run<'_>) -> Result<Option<f64>, Error> {
        let mut start = None;
        while !run.is_stopped() {
            for _ in 0..TURNS {
                self.turn()?;
            }
            let is_warm = self.is_warm || self.received >= WARM_BYTES;
            let (cpu, before) = match start {
                None if is_warm => *start.insert((cpu_s(), self.received)),
                None => continue,
                Some(known) => known,
            };
            self.is_warm = true;
            let took = cpu_s() - cpu;
            if took >= seconds && self.received > before {
                return Ok(Some((self.received - before) as f64 / took));
            }
        }
        Ok(None)
    }

    /// The sender polls, and writes until a write is taken only in part; the receiver polls, and
    /// reads all that has arrived.
    fn turn(&mut self) -> Result<(), Error> {
        let passed_ns = self.clock.elapsed().as_nanos() as u64;
        let now = Instant::from_nanos(passed_ns + self.skipped_ns + 1);
        let (client, server) = (&mut self.client.stack, &mut self.server.stack);
        let mut moved = client.poll(now);
        while client.next_event().is_some() {}
        loop {
            match client.tcp_write(self.stream, &self.data) {
                Ok(taken) => {
                    moved += taken;
                    if taken < self.data.len() {
                        break;
                    }
                }
                Err(CallError::WouldBlock) => break,
                Err(error) => return Err(failed("write", error)),
            }
        }
        client.flush();
        moved += server.poll(now);
        while server.next_event().is_some() {}
        self.accepted = self.accepted.or_else(|| server.tcp_accept(self.listener));
        while let Some(stream) = self.accepted {
            match server.tcp_read(stream, &mut self.into) {
                Ok(0) | Err(CallError::WouldBlock) => break,
                Ok(n) => (moved, self.received) = (moved + n, self.received + n as u64),
                Err(error) => return Err(failed("read", error)),
            }
        }
        server.flush();
        let due = client.next_deadline().min(server.next_deadline());
        if moved == 0 && due != Instant::NEVER {
            self.skipped_ns += due.since(now).as_nanos();
        }
        Ok(())
    }
}

/// Bytes a second that memcpy copies, by the thread's processor time, from one buffer of this many
/// bytes to another.
pub(crate) fn memcpy(bytes: usize, seconds: f64) -> f64 {
    let (from, mut to) = (vec![7_u8; bytes], vec![0_u8; bytes]);
    let copy = |to: &mut Vec<u8>| {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
    };
    copy(&mut to);
    let (cpu, mut copied, rounds) = (cpu_s(), 0_u64, (1 << 20) / bytes.min(1 << 20));
    loop {
        (0..rounds).for_each(|_| copy(&mut to));
        copied += (rounds * bytes) as u64;
        let took = cpu_s() - cpu;
        if took >= seconds {
            return copied as f64 / took;
        }
    }
}
