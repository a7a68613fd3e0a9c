//! Services over TCP: accepts connections and serves each in turn.
//!
//! Called by: `services.rs`. A connection holds at most `HELD_BYTES` that it could not write yet;
//! connections beyond `--most` are reset.

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use wirespeed::base::addr::unspecified;
use wirespeed::{CallError, Duration, IpVersion, ListenConfig, ListenerHandle, Stack, TcpHandle};

use super::Moved;
use super::service::{SERVICES, Service, daytime, pattern};

/// Bytes read at a time, and so the most that a connection holds.
const HELD_BYTES: usize = 16 << 10;
/// Bytes moved for one connection before the others have their turn.
const TURN_BYTES: usize = 256 << 10;
/// A peer that acknowledges nothing for this long is gone.
const USER_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that is served.
struct Served {
    service: Service,
    /// Read and not written back yet.
    held: Vec<u8>,
    /// Position in the pattern of chargen.
    at: usize,
}

/// All connections and their listeners.
pub(super) struct Connections {
    listeners: Vec<(ListenerHandle, Service)>,
    served: HashMap<TcpHandle, Served>,
    /// Connections that used up their turn and have more to do.
    busy: Vec<TcpHandle>,
    most: usize,
    room: Vec<u8>,
    pattern: Vec<u8>,
}

impl Connections {
    /// Listen, for `most` connections at a time.
    pub(super) fn listen(stack: &mut Stack, most: usize) -> Result<Connections> {
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
            let listener = stack.tcp_listen(at, listen);
            let listener = listener.map_err(|e| anyhow!("cannot listen on port {port}: {e}"))?;
            listeners.push((listener, service));
        }
        Ok(Connections {
            listeners,
            served: HashMap::new(),
            busy: Vec::new(),
            most,
            room: vec![0; HELD_BYTES],
            pattern: pattern(),
        })
    }

    /// Is there work that no event will report?
    pub(super) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Serve the busy connections.
    pub(super) fn go_on(&mut self, stack: &mut Stack, moved: &mut Moved) {
        for handle in std::mem::take(&mut self.busy) {
            self.serve(handle, stack, moved);
        }
    }

    /// Accept the connections that wait at a listener.
    pub(super) fn accept(
        &mut self,
        listener: ListenerHandle,
        stack: &mut Stack,
        moved: &mut Moved,
    ) {
        let service = self.listeners.iter().find(|(l, _)| *l == listener);
        let Some(&(_, service)) = service else { return };
        while let Some(handle) = stack.tcp_accept(listener) {
            moved.connections += 1;
            if self.served.len() >= self.most {
                stack.tcp_abort(handle);
                continue;
            }
            let held = match service {
                Service::Daytime => daytime(Timestamp::now()),
                _ => Vec::new(),
            };
            self.served.insert(handle, Served { service, held, at: 0 });
            self.serve(handle, stack, moved);
        }
    }

    /// Serve a connection, and close it when it is over.
    pub(super) fn serve(&mut self, handle: TcpHandle, stack: &mut Stack, moved: &mut Moved) {
        match self.work(handle, stack, moved) {
            Some(true) => {}
            Some(false) => self.busy.push(handle),
            None => {
                self.served.remove(&handle);
                stack.tcp_close(handle);
            }
        }
    }

    /// Read and write what is possible. `true` if an event will report further work, `false` if
    /// there is more to do now, `None` if the connection is over.
    fn work(&mut self, handle: TcpHandle, stack: &mut Stack, total: &mut Moved) -> Option<bool> {
        let served = self.served.get_mut(&handle)?;
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
                // The time was sent. Read what the client sent, so that closing is no reset.
                Service::Daytime if read == 0 => return None,
                Service::Daytime => {}
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
            total.bytes += moved as u64;
            turn += moved;
        }
        Some(false)
    }
}
