//! The services at work: connections are accepted, and each moves what it can in its turn.
//!
//! Called by: `services.rs`. Must not know: how frames get to the wire (`outside` does).

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use wirespeed::base::addr::unspecified;
use wirespeed::{
    CallError, Duration, Event, Instant, IpVersion, ListenConfig, ListenerHandle, TcpHandle,
};

use super::args::Args;
use super::report::Moved;
use crate::clock::Interrupt;
use crate::control_service::ControlService;
use crate::outside::Outside;

/// Bytes read at a time, and so what a connection may hold of its peer's.
const HELD_BYTES: usize = 16 << 10;
/// Bytes moved for one connection before the others have their turn.
const TURN_BYTES: usize = 256 << 10;
/// Ctrl-C and `wirespeed show` are looked at as often.
const TICK: Duration = Duration::from_millis(50);
/// A peer that answers nothing for so long is gone.
const USER_TIMEOUT: Duration = Duration::from_secs(20);

/// What is done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Echo,
    Discard,
    Chargen,
}

const SERVICES: [(u16, Service); 3] =
    [(7, Service::Echo), (9, Service::Discard), (19, Service::Chargen)];

/// A connection that is served.
struct Served {
    service: Service,
    /// Read and not written back yet.
    held: Vec<u8>,
    /// The next character to generate.
    at: usize,
}

pub(super) struct Server {
    pub(super) outside: Outside,
    listeners: Vec<(ListenerHandle, Service)>,
    served: HashMap<TcpHandle, Served>,
    /// Those with more to do than one turn had time for.
    busy: Vec<TcpHandle>,
    most: usize,
    room: Vec<u8>,
    pattern: Vec<u8>,
    pub(super) moved: Moved,
}

/// Until Ctrl-C, or the device is gone.
pub(super) fn serve(
    server: &mut Server,
    control: &mut ControlService,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut next_tick = Instant::ZERO;
    while !interrupt.noted() {
        let worked = server.turn();
        let now = server.outside.clock.now();
        if now >= next_tick {
            control.poll(now, &mut [("services", &mut server.outside.stack)]);
            next_tick = now + control.look_within(TICK);
        }
        if worked == 0 && server.busy.is_empty() {
            server.outside.wait(next_tick)?;
        }
    }
    Ok(())
}

impl Server {
    pub(super) fn open(args: &Args) -> Result<Server> {
        let mut outside = Outside::open(&args.outside)?;
        let part = Duration::from_nanos(USER_TIMEOUT.as_nanos() / 4);
        let tcp = wirespeed::tcp::Config {
            user_timeout: Some(USER_TIMEOUT),
            keepalive_idle: Some(part),
            keepalive_interval: part,
            keepalive_probes_max: 3,
            ..wirespeed::tcp::Config::default()
        };
        let mut listeners = Vec::new();
        for (port, service) in SERVICES {
            let at = SocketAddr::new(unspecified(IpVersion::V4), port);
            let listen = ListenConfig { tcp, ..ListenConfig::default() };
            let listener = outside.stack.tcp_listen(at, listen);
            let listener = listener.map_err(|e| anyhow!("cannot listen on port {port}: {e:?}"))?;
            listeners.push((listener, service));
        }
        Ok(Server {
            outside,
            listeners,
            served: HashMap::new(),
            busy: Vec::new(),
            most: args.most as usize,
            room: vec![0; HELD_BYTES],
            pattern: pattern(),
            moved: Moved::default(),
        })
    }

    /// Take in what came, and do what there is to do; returns how much that was.
    fn turn(&mut self) -> usize {
        let worked = self.outside.turn();
        for handle in std::mem::take(&mut self.busy) {
            self.serve(handle);
        }
        while let Some(event) = self.outside.stack.next_event() {
            match event {
                Event::Accept(listener) => self.accept(listener),
                Event::Tcp(handle, _) => self.serve(handle),
                _ => {}
            }
        }
        worked
    }

    fn accept(&mut self, listener: ListenerHandle) {
        let service = self.listeners.iter().find(|(l, _)| *l == listener);
        let Some(&(_, service)) = service else { return };
        while let Some(handle) = self.outside.stack.tcp_accept(listener) {
            self.moved.connections += 1;
            if self.served.len() >= self.most {
                self.outside.stack.tcp_abort(handle);
                continue;
            }
            self.served.insert(handle, Served { service, held: Vec::new(), at: 0 });
            self.serve(handle);
        }
    }

    fn serve(&mut self, handle: TcpHandle) {
        match self.work(handle) {
            Some(true) => {}
            Some(false) => self.busy.push(handle),
            None => {
                self.served.remove(&handle);
                self.outside.stack.tcp_close(handle);
            }
        }
    }

    /// Move what moves. `true` if an event will tell of more, `None` if the connection is over.
    fn work(&mut self, handle: TcpHandle) -> Option<bool> {
        let served = self.served.get_mut(&handle)?;
        let stack = &mut self.outside.stack;
        let mut turn = 0;
        while turn < TURN_BYTES {
            if !served.held.is_empty() {
                match stack.tcp_write(handle, &served.held) {
                    Ok(n) => drop(served.held.drain(..n)),
                    Err(CallError::WouldBlock) => return Some(true),
                    Err(_) => return None,
                }
                continue;
            }
            let read = match stack.tcp_read(handle, &mut self.room) {
                Ok(0) => return None,
                Ok(n) => n,
                Err(CallError::WouldBlock) => 0,
                Err(_) => return None,
            };
            let mut moved = read;
            match served.service {
                Service::Echo => served.held.extend_from_slice(&self.room[..read]),
                Service::Discard => {}
                Service::Chargen => match stack.tcp_write(handle, &self.pattern[served.at..]) {
                    Ok(n) => {
                        served.at = (served.at + n) % self.pattern.len();
                        moved += n;
                    }
                    Err(CallError::WouldBlock) => {}
                    Err(_) => return None,
                },
            }
            if moved == 0 {
                return Some(true);
            }
            self.moved.bytes += moved as u64;
            turn += moved;
        }
        Some(false)
    }
}

/// The lines of RFC 864: 72 of the 95 printing characters each, beginning one further each time.
fn pattern() -> Vec<u8> {
    let character = |n: usize| b' ' + (n % 95) as u8;
    let line = |from: usize| (from..from + 72).map(character).chain(*b"\r\n");
    (0..95).flat_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_that_of_rfc_864() {
        let text = pattern();
        let lines: Vec<_> = text.split(|&b| b == b'\n').collect();
        assert_eq!(lines.len(), 96, "and nothing behind the last");
        assert!(
            lines[0].starts_with(b" !\"#$%&'()*+,-./0123456789:") && lines[0].ends_with(b"g\r")
        );
        assert!(lines[1].starts_with(b"!\"#") && lines[94].starts_with(b"~ !"));
        assert!(lines[..95].iter().all(|line| line.len() == 73));
    }
}
