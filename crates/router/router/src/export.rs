//! Flow export: events of the firewalls become messages of IPFIX and leave by a UDP socket of the
//! router's own stack, so that a collector behind any of its ports is reached by its routes.
//!
//! Called by: the worker at each of its turns. Under the stacks' locks it sends what is ready and
//! takes a bounded number of events ([`Export::turn`]); it encodes them after that
//! ([`Export::encode`]), while packets are forwarded. Nothing waits for a collector: a datagram
//! without a route, without a neighbour or against an ICMP error is gone, and counted. If a device
//! is full, events wait in the firewalls, up to limit `filter_events`. RFC 7011 sections 8.4, 10.3.

use core::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use base::{Duration, Instant, Owner};
use filter::firewall::{Event, Exported};
use ipfix::{Clock, Exporter, Interface};
use stack::{MtuDiscovery, Stack, UdpError, UdpHandle, UdpOptions};

use crate::applied::Stacks;
use crate::config::Ipfix;

/// How often events are taken.
const EVERY: Duration = Duration::from_millis(50);
/// Events that are taken together from a shard, and messages that are sent together.
const EVENTS: usize = 512;
const MESSAGES: usize = 64;
/// A socket that cannot be had is asked for again, and templates are sent to a collector that was
/// away, after this time.
const AGAIN: Duration = Duration::from_secs(1);

/// Flow export of a router.
#[derive(Default)]
pub(crate) struct Export {
    wanted: Option<Ipfix>,
    running: Option<Running>,
}

struct Running {
    settings: Ipfix,
    /// On the first stack.
    socket: Option<UdpHandle>,
    /// When it may be asked for again.
    socket_at: Instant,
    shards: Vec<Shard>,
    /// Events that are to be encoded, by shard.
    taken: Vec<(usize, Event)>,
    interfaces: Vec<Interface>,
    clock: Clock,
    /// When templates were sent last, and when they are due.
    sent_at: Option<Instant>,
    templates_at: Instant,
    /// There may be more events.
    is_behind: bool,
}

/// An observation domain.
struct Shard {
    exporter: Exporter,
    exported: Exported,
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
        // RFC 7011 3.1-c.
        let shard = |number: usize| {
            let domain = settings.domain.wrapping_add(number as u32);
            let collector = settings.collector;
            let (records, datagrams, unsent, errors) = (0, 0, 0, 0);
            let exported = Exported { collector, domain, records, datagrams, unsent, errors };
            Shard { exporter: Exporter::new(domain, clock), exported }
        };
        Running {
            settings,
            socket: None,
            socket_at: now,
            shards: (0..shards).map(shard).collect(),
            taken: Vec::new(),
            interfaces: Vec::new(),
            clock,
            sent_at: None,
            templates_at: now,
            is_behind: false,
        }
    }

    /// The firewalls go on, so that what they have reported is not reported to another collector.
    fn end(mut self, stacks: Stacks<'_, '_>) {
        let Some(first) = stacks.first_mut() else { return };
        self.send(first);
        if let Some(socket) = self.socket {
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
        if now >= self.templates_at && self.settings.names {
            let rows = first.ports_page(0, usize::MAX).rows;
            let name = |row: stack::snapshot::PortRow| Interface { port: row.id.0, name: row.name };
            self.interfaces = rows.into_iter().map(name).collect();
        }
        for (number, (stack, shard)) in stacks.iter_mut().zip(&mut self.shards).enumerate() {
            let now = stack.now();
            let Some(firewall) = stack.filter_mut() else { continue };
            firewall.note_exported(shard.exported);
            if !is_full {
                let taken = &mut self.taken;
                let more = firewall.take_events(EVENTS, now, |event| taken.push((number, event)));
                self.is_behind |= more;
            }
        }
    }

    /// Open the socket, and make messages as large as the path's packets. RFC 7011 10.3.3-a.
    fn open(&mut self, stack: &mut Stack, now: Instant) {
        let collector = self.settings.collector;
        if self.socket.is_none() && now >= self.socket_at {
            self.socket_at = now + AGAIN;
            self.socket = opened(stack, collector).ok();
        }
        let Some(socket) = self.socket else { return };
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
        let Some(socket) = self.socket else { return };
        let errors = stack.udp_take_errors(socket).len();
        if errors > 0 {
            if let Some(shard) = self.shards.first_mut() {
                shard.exported.errors += errors as u64;
            }
            let soon = self.sent_at.map_or(now, |at| at + AGAIN);
            self.templates_at = self.templates_at.min(soon);
        }
    }

    /// Send messages; `true`: some have to wait.
    fn send(&mut self, stack: &mut Stack) -> bool {
        let (collector, mut room) = (self.settings.collector, MESSAGES);
        for Shard { exporter, exported } in &mut self.shards {
            while let Some(message) = exporter.next_message() {
                let sent = match self.socket {
                    _ if room == 0 => Err(UdpError::WouldBlock),
                    Some(socket) => stack.udp_send(socket, collector, &message.bytes, stack.now()),
                    None => Err(UdpError::NoAddress),
                };
                match sent {
                    Ok(_) => {
                        exported.datagrams += 1;
                        exported.records += u64::from(message.records);
                        room -= 1;
                    }
                    Err(UdpError::WouldBlock) => {
                        self.is_behind |= room == 0;
                        exporter.put_back(message);
                        break;
                    }
                    Err(UdpError::Closed) => {
                        exported.unsent += u64::from(message.records);
                        self.socket = None;
                    }
                    Err(_) => exported.unsent += u64::from(message.records),
                }
            }
        }
        stack.flush();
        self.shards.iter().any(|shard| shard.exporter.waiting() > 0)
    }

    fn encode(&mut self) -> bool {
        let now = self.clock.now;
        let is_due = now >= self.templates_at;
        for shard in &mut self.shards {
            shard.exporter.set_clock(self.clock);
            if is_due && shard.exporter.waiting() == 0 {
                shard.exporter.templates(&self.interfaces);
            }
        }
        if is_due {
            (self.sent_at, self.templates_at) = (Some(now), now + self.settings.template);
        }
        let mut is_ready = is_due || self.is_behind;
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

#[cfg(test)]
mod tests;
