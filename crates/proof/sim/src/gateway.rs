//! A gateway in a world: two of its hosts are one machine, whose first stack faces the guest and
//! whose second is the outside. Connections of the guest to hosts beyond cross it.
//!
//! Called by: `world/topology`, which joins the hosts; `applications.rs` and `events/`, in the
//! steps of the two hosts. Both share a clock.

use base::Instant;
use gateway::{AllowAll, Around, Config, Gateway};
use stack::{Event, ListenerHandle, Route, TcpHandle};

use crate::app::{Endpoint, Phase};
use crate::violation::Violation;
use crate::world::{World, address};
pub use ::gateway::beyond::{Beyond, Socket, Tokens};

/// A gateway and its two hosts.
pub(crate) struct Machine {
    pub(crate) inner: usize,
    pub(crate) outer: usize,
    pub(crate) engine: Gateway<TcpHandle, Socket>,
    /// The tokens of the outside's connections.
    pub(crate) tokens: Tokens,
    /// Listeners of the outside, and the guest's port that each is for.
    pub(crate) published: Vec<(ListenerHandle, core::net::SocketAddr)>,
    /// Settings of the outside's connections.
    pub(crate) tcp: tcp::Config,
}

impl World {
    /// Make one machine of two hosts that are joined to others already, with the same clock: a
    /// gateway for `guest`, which is on the network `inside` with the host `inner`.
    ///
    /// # Errors
    /// The stack has no room for a listener.
    pub fn add_gateway(
        &mut self,
        (guest, inside): (usize, u8),
        (inner, outer): (usize, usize),
        config: Config,
        tcp: tcp::Config,
    ) -> Result<(), stack::ListenError> {
        for version in [base::IpVersion::V4, base::IpVersion::V6] {
            let via = address(inside, inner, version).addr;
            let all = match version {
                base::IpVersion::V4 => "0.0.0.0/0",
                base::IpVersion::V6 => "::/0",
            };
            if let Ok(all) = all.parse() {
                self.hosts[guest].stack.add_route(Route::new(all, Some(via), 0));
            }
        }
        let engine = Gateway::new(&mut self.hosts[inner].stack, config)?;
        let (tokens, published) = (Tokens::default(), Vec::new());
        self.gateway = Some(Machine { inner, outer, engine, tokens, published, tcp });
        Ok(())
    }

    /// Is this one of the gateway's hosts?
    pub(crate) fn is_gateway(&self, host: usize) -> bool {
        self.gateway.as_ref().is_some_and(|own| own.inner == host || own.outer == host)
    }

    /// Add an end whose connect is to be refused.
    pub(crate) fn add_refused(&mut self, end: Endpoint) {
        self.refused.push(self.ends.len());
        self.host_ends[end.host].push(self.ends.len());
        self.event_queue.no_later(self.host_sources[end.host], Instant::ZERO);
        self.ends.push(end);
    }

    /// The engine of the world's gateway.
    pub fn gateway(&self) -> Option<&Gateway<TcpHandle, Socket>> {
        self.gateway.as_ref().map(|machine| &machine.engine)
    }

    /// An event of a host's stack that none of its applications has asked for.
    pub(crate) fn gateway_event(&mut self, host: usize, event: Event, local: Instant) {
        let Some(machine) = &mut self.gateway else { return };
        if host == machine.inner {
            machine.engine.event(event);
        } else if host == machine.outer {
            match event {
                Event::Accept(listener) => self.accept_published(listener, local),
                event => {
                    if let Some((token, ready)) = machine.tokens.ready(&event) {
                        machine.engine.ready(token, ready);
                    }
                }
            }
        }
    }

    fn accept_published(&mut self, listener: ListenerHandle, local: Instant) {
        let Some(machine) = &mut self.gateway else { return };
        let Some(&(_, to)) = machine.published.iter().find(|(own, _)| *own == listener) else {
            return;
        };
        let Ok([inner, outer]) = self.hosts.get_disjoint_mut([machine.inner, machine.outer]) else {
            return;
        };
        while let Some(handle) = outer.stack.tcp_accept(listener) {
            let client = outer.stack.tcp_addresses(handle).map(|(_, client)| client);
            let mut beyond = Beyond {
                stack: &mut outer.stack,
                tokens: &mut machine.tokens,
                tcp: &machine.tcp,
                now: local,
            };
            let mut around = Around {
                stack: &mut inner.stack,
                outside: &mut beyond,
                policy: &mut AllowAll,
                now: local,
            };
            if let Some(client) = client {
                machine.engine.accept_published(handle, client, to, &mut around);
            }
        }
    }

    /// Give the engine a turn in the step of one of its hosts; returns whether it had anything to
    /// do.
    pub(crate) fn gateway_turn(&mut self, host: usize, local: Instant) -> bool {
        let Some(machine) = &mut self.gateway else { return false };
        let other = match host {
            _ if host == machine.inner => machine.outer,
            _ if host == machine.outer => machine.inner,
            _ => return false,
        };
        if !machine.engine.has_work() && machine.engine.next_deadline() > local {
            return false;
        }
        let Ok([inner, outer]) = self.hosts.get_disjoint_mut([machine.inner, machine.outer]) else {
            return false;
        };
        let mut beyond = Beyond {
            stack: &mut outer.stack,
            tokens: &mut machine.tokens,
            tcp: &machine.tcp,
            now: local,
        };
        let mut around = Around {
            stack: &mut inner.stack,
            outside: &mut beyond,
            policy: &mut AllowAll,
            now: local,
        };
        machine.engine.turn(&mut around);
        self.event_queue.no_later(self.host_sources[other], self.now);
        true
    }

    /// When the gateway has something to do on this host, by its clock.
    pub(crate) fn gateway_deadline(&self, host: usize, local: Instant) -> Instant {
        match &self.gateway {
            Some(machine) if host == machine.inner => match machine.engine.has_work() {
                true => local,
                false => machine.engine.next_deadline(),
            },
            _ => Instant::NEVER,
        }
    }

    /// Once all is over, nothing of a gateway is left.
    pub(crate) fn gateway_is_empty(&self) -> Result<(), Violation> {
        for &number in &self.refused {
            let end = &self.ends[number];
            if end.phase != Phase::Ended(Some(tcp::Error::Refused)) {
                let what = format!("a connect where nobody listens: {:?}", end.phase);
                return Err(Violation::new("refusals", what));
            }
        }
        let Some(machine) = &self.gateway else { return Ok(()) };
        let (flows, tokens) = (machine.engine.flow_count(), machine.tokens.len());
        let pending = machine.engine.pending_count();
        let (sessions, echoes) = machine.engine.session_counts();
        if flows + tokens + pending + sessions + echoes == 0 {
            return Ok(());
        }
        let rows: Vec<_> = machine.engine.flows(self.now).collect();
        let what = format!(
            "the gateway still has {flows} flows, {pending} of them not open, {sessions} sessions, \
             {echoes} of echoes, and {tokens} sockets: {rows:?}; {:?}",
            machine.engine.counts()
        );
        Err(Violation::new("leaks", what))
    }
}
