//! Flow export: events of the firewalls become messages of IPFIX and leave by a UDP socket of the
//! router's own stack, so that a collector behind any of its ports is reached by its routes.
//!
//! Called by: the worker at each of its turns. Under the stacks' locks it sends what is ready and
//! takes a bounded number of events ([`Export::turn`]); it encodes them after that
//! ([`Export::encode`]), while packets are forwarded. Nothing waits for a collector: a datagram
//! without a route, without a neighbour or against an ICMP error is gone, and counted. If a device
//! is full, events wait in the firewalls, up to limit `filter_events`. RFC 7011 sections 8.4, 10.3.

mod reach;
mod shard;
#[cfg(test)]
mod tests;

use core::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use base::{Duration, Instant, Owner};
use filter::firewall::Event;
use ipfix::{Clock, Interface};
use stack::{MtuDiscovery, Stack, UdpError, UdpHandle, UdpOptions};

use crate::applied::Stacks;
use crate::config::Ipfix;
use reach::{AGAIN, Reach};
use shard::Shard;

/// How often events are taken.
const EVERY: Duration = Duration::from_millis(50);
/// Events that are taken together from a shard, and messages that are sent together.
const EVENTS: usize = 512;
const MESSAGES: usize = 64;

/// Flow export of a router.
#[derive(Default)]
pub(crate) struct Export {
    wanted: Option<Ipfix>,
    running: Option<Running>,
}

struct Running {
    settings: Ipfix,
    /// On the first stack, or why there is none.
    socket: Result<UdpHandle, UdpError>,
    /// When it may be asked for again.
    socket_at: Instant,
    shards: Vec<Shard>,
    /// Events that are to be encoded, by shard.
    taken: Vec<(usize, Event)>,
    interfaces: Vec<Interface>,
    clock: Clock,
    reach: Reach,
    /// There may be more events.
    is_behind: bool,
}

impl Export {
    /// Export this from the next turn on; `None`: nothing.
    pub(crate) fn set(&mut self, wanted: Option<Ipfix>) {
        self.wanted = wanted;
    }

    /// Send what is ready and take events. Returns when to call again.
    pub(crate) fn turn(&mut self, stacks: Stacks<'_, '_>) -> Instant {
        let Some(now) = stacks.first().map(|stack| stack.now()) else { return Instant::NEVER };
        if self.running.as_ref().map(|running| running.settings) != self.wanted {
            if let Some(running) = self.running.take() {
                running.end(stacks);
            }
            if self.wanted.is_none() {
                stacks.iter_mut().for_each(|stack| ask(stack, None));
            }
            self.running = self.wanted.map(|settings| Running::new(settings, stacks.len(), now));
        }
        let Some(running) = &mut self.running else { return Instant::NEVER };
        running.turn(stacks, now);
        now + EVERY
    }

    /// Encode the events that were taken. `true`: the next turn is due at once.
    pub(crate) fn encode(&mut self) -> bool {
        self.running.as_mut().is_some_and(Running::encode)
    }
}

impl Running {
    fn new(settings: Ipfix, shards: usize, now: Instant) -> Running {
        let clock = clock(now);
        // RFC 7011 3.1-c, 3.1-d, 3.1-f: the file leaves room for all shards, so that none has 0.
        let shard = |number: u32| {
            let domain = settings.domain.saturating_add(number);
            Shard::new(settings.collector, domain, settings.destinations, clock)
        };
        Running {
            settings,
            socket: Err(UdpError::Closed),
            socket_at: now,
            shards: (0..shards as u32).map(shard).collect(),
            taken: Vec::new(),
            interfaces: Vec::new(),
            clock,
            reach: Reach::default(),
            is_behind: false,
        }
    }

    /// The firewalls go on, so that what they have reported is not reported to another collector.
    fn end(mut self, stacks: Stacks<'_, '_>) {
        let Some(first) = stacks.first_mut() else { return };
        self.clock = clock(first.now());
        self.send(first);
        if let Ok(socket) = self.socket {
            first.udp_close(socket);
        }
    }

    fn turn(&mut self, stacks: Stacks<'_, '_>, now: Instant) {
        self.clock = clock(now);
        for stack in stacks.iter_mut() {
            ask(stack, Some(self.settings.active));
        }
        let Some(first) = stacks.first_mut() else { return };
        self.open(first, now);
        self.hear(first, now);
        self.is_behind = false;
        let is_full = self.send(first);
        self.reach.look(now);
        if self.settings.names && self.shards.iter().any(|shard| shard.is_due(now)) {
            let rows = first.ports_page(0, usize::MAX).rows;
            let name = |row: stack::snapshot::PortRow| Interface { port: row.id.0, name: row.name };
            self.interfaces = rows.into_iter().map(name).collect();
        }
        for (number, (stack, shard)) in stacks.iter_mut().zip(&mut self.shards).enumerate() {
            let now = stack.now();
            let Some(firewall) = stack.filter_mut() else { continue };
            shard.exported.failure = self.reach.failure().cloned();
            firewall.note_exported(&shard.exported);
            if !is_full {
                let taken = &mut self.taken;
                let more = firewall.take_events(EVENTS, now, |event| taken.push((number, event)));
                self.is_behind |= more;
            }
        }
    }

    /// Open the socket, and make messages as large as the path's packets. Another socket has
    /// another port, and is another session. RFC 7011 10.3.3-a, 10.3.3-c.
    fn open(&mut self, stack: &mut Stack, now: Instant) {
        let collector = self.settings.collector;
        if self.socket.is_err() && now >= self.socket_at {
            self.socket_at = now + AGAIN;
            self.socket = opened(stack, collector);
            match self.socket {
                Ok(_) => self.shards.iter_mut().for_each(|shard| shard.begin(now)),
                Err(why) => self.reach.refused(&why, now),
            }
        }
        let Ok(socket) = self.socket else { return };
        if let Ok(mtu) = stack.udp_path_mtu(socket, collector) {
            const UDP: usize = 8;
            let headers = UDP + if collector.is_ipv4() { 20 } else { 40 };
            let most = mtu.bytes().saturating_sub(headers);
            self.shards.iter_mut().for_each(|shard| shard.exporter.set_most(most));
        }
    }

    /// Count ICMP errors. A collector that is not there will not know the templates when it comes
    /// back.
    fn hear(&mut self, stack: &mut Stack, now: Instant) {
        let Ok(socket) = self.socket else { return };
        let errors = stack.udp_take_errors(socket);
        errors.iter().for_each(|report| self.reach.heard(report, now));
        if !errors.is_empty() {
            if let Some(shard) = self.shards.first_mut() {
                shard.exported.errors += errors.len() as u64;
            }
            self.shards.iter_mut().for_each(|shard| shard.hurry(now));
        }
    }

    /// Send messages; `true`: some have to wait.
    fn send(&mut self, stack: &mut Stack) -> bool {
        let (collector, mut room) = (self.settings.collector, MESSAGES);
        let now = stack.now();
        for shard in &mut self.shards {
            while let Some(message) = shard.exporter.next_message(&self.clock) {
                let sent = match self.socket {
                    _ if room == 0 => Err(UdpError::WouldBlock),
                    Ok(socket) => stack.udp_send(socket, collector, &message.bytes, now),
                    Err(why) => Err(why),
                };
                match sent {
                    Ok(_) => {
                        shard.sent(&message, now);
                        self.reach.sent(now);
                        room -= 1;
                    }
                    Err(UdpError::WouldBlock) => {
                        self.is_behind |= room == 0;
                        shard.exporter.put_back(message);
                        break;
                    }
                    Err(why) => {
                        shard.lost(&message, now);
                        self.reach.refused(&why, now);
                        if why == UdpError::Closed {
                            self.socket = Err(why);
                        }
                    }
                }
            }
        }
        stack.flush();
        self.shards.iter().any(|shard| shard.exporter.waiting() > 0)
    }

    fn encode(&mut self) -> bool {
        let mut is_ready = self.is_behind;
        for shard in &mut self.shards {
            shard.exporter.set_clock(self.clock);
            is_ready |= shard.templates(self.clock.now, self.settings.template, &self.interfaces);
        }
        for (number, event) in self.taken.drain(..) {
            if let Some(shard) = self.shards.get_mut(number) {
                shard.exporter.event(&event);
                is_ready = true;
            }
        }
        self.shards.iter_mut().for_each(|shard| shard.exporter.finish());
        is_ready
    }
}

/// Have a firewall queue events, or no longer.
fn ask(stack: &mut Stack, active: Option<Duration>) {
    if stack.filter().is_none_or(|firewall| firewall.exports() == active) {
        return;
    }
    let (budget, now) = (stack.budget().clone(), stack.now());
    if let Some(firewall) = stack.filter_mut() {
        firewall.export(active, &budget, now);
    }
}

/// A socket that sends packets which no router fragments, with checksums, and hears of errors. RFC
/// 7011 10.3.2-b.
fn opened(stack: &mut Stack, collector: SocketAddr) -> Result<UdpHandle, UdpError> {
    let any: IpAddr = match collector {
        SocketAddr::V4(_) => core::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => core::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let owner = Owner::program();
    let socket = stack.udp_bind_connected(SocketAddr::new(any, 0), collector, owner)?;
    let options =
        UdpOptions { mtu_discovery: MtuDiscovery::Do, error_queue: true, ..UdpOptions::default() };
    stack.udp_set_options(socket, options)?;
    Ok(socket)
}

fn clock(now: Instant) -> Clock {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Clock { now, unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX) }
}
