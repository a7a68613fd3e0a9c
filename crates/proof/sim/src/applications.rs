//! Runs the applications of a host in a step of the main loop: takes the events of the host's
//! stack, gives accepted connections to their applications, and lets each application continue.
//!
//! Called by: `events.rs`.

use base::Instant;
use stack::Event;

use crate::app::Phase;
use crate::oracle;
use crate::violation::Violation;
use crate::world::World;

impl World {
    /// Run every application that may have something to do.
    pub(crate) fn applications(&mut self, host: usize, local: Instant) -> Result<bool, Violation> {
        while let Some(event) = self.hosts[host].stack.next_event() {
            match event {
                Event::Tcp(handle, events) => {
                    let own = &self.host_ends[host];
                    let whose = own.iter().find(|&&end| self.ends[end].handle == Some(handle));
                    if let Some(&end) = whose {
                        self.ends[end].ready = true;
                        self.ends[end].was_open |= events.has(tcp::Events::CONNECTED);
                    } else {
                        self.gateway_event(host, event, local);
                    }
                }
                Event::Accept(_) if self.is_gateway(host) => {
                    self.gateway_event(host, event, local);
                }
                Event::Accept(listener) => self.accept(host, listener)?,
                // Also what a gateway has on its hosts.
                other => self.gateway_event(host, other, local),
            }
        }
        let mut acted = self.chat(host, local)? | self.gateway_turn(host, local);
        for index in 0..self.host_ends[host].len() {
            let number = self.host_ends[host][index];
            let end = &mut self.ends[number];
            if end.is_ended() || !(end.ready || end.wake <= local) {
                continue;
            }
            let before = end.phase;
            acted |= end.drive(&mut self.hosts[host].stack, &self.pattern, local)?;
            if let Some(trace) = &self.trace
                && before != end.phase
            {
                trace.row(&format!("end {number}: {}", oracle::story(end)));
            }
        }
        Ok(acted)
    }

    /// Run the background flows. Returns `true` if anything was sent.
    fn chat(&mut self, host: usize, local: Instant) -> Result<bool, Violation> {
        let World { background_flows, hosts, pattern, now, .. } = self;
        let mut sent = false;
        for background_flow in background_flows {
            if background_flow.settings.hosts.0 == host {
                sent |= background_flow.send(&mut hosts[host].stack, pattern, (local, *now));
            }
            background_flow.take(&mut hosts[host].stack, host, pattern)?;
        }
        Ok(sent)
    }

    fn accept(&mut self, host: usize, listener: stack::ListenerHandle) -> Result<(), Violation> {
        while let Some(handle) = self.hosts[host].stack.tcp_accept(listener) {
            let mut own = self.host_ends[host].iter().copied();
            let whose = own.find(|&end| self.ends[end].accepts_at(listener));
            let Some(number) = whose else { continue };
            let end = &mut self.ends[number];
            if end.phase != Phase::Waiting && self.gateway.is_some() {
                // A late copy of a SYN that a gateway took for a new one: nobody answers behind it.
                self.hosts[host].stack.tcp_abort(handle);
                continue;
            }
            if end.phase != Phase::Waiting {
                let what = format!("end {number}: a connection that nobody opened was accepted");
                return Err(Violation::new("stream", what));
            }
            end.handle = Some(handle);
            end.phase = Phase::Open;
            end.was_open = true;
            end.ready = true;
        }
        Ok(())
    }
}
