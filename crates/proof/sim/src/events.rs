//! The main loop of a world: take the earliest event and handle it.
//!
//! Called by: the owner of the world. Events are arrivals at the end of a link's direction, hosts
//! that have to be polled (`step`), scheduled events, and a check of every connection once a
//! second.

mod step;

use base::{Duration, Instant};
use link::{CORRUPTED, Settings};
use mbuf::Mbuf;

use crate::app::Opening;
use crate::oracle;
use crate::seen;
use crate::violation::Violation;
use crate::world::{ScheduledEvent, Target, World};

/// The time between two checks of liveness.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the world runs after the last connection has ended: longer than TIME-WAIT, and longer
/// than twice the longest time-out.
const REST: Duration = Duration::from_secs(400);

/// The same with a gateway: programs send datagrams for up to 303 s, and a session of theirs ends
/// 300 s later.
const GATEWAY_REST: Duration = Duration::from_secs(700);

impl World {
    /// Run until this time.
    ///
    /// # Errors
    /// The first law that does not hold.
    pub fn run_until(&mut self, end: Instant) -> Result<(), Violation> {
        while let Some((source, at)) = self.event_queue.next() {
            if at > end || at == Instant::NEVER {
                break;
            }
            self.happen(source, at)?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Run until a condition holds, but at most until `latest`. The condition is checked after each
    /// event. Returns the time at which it first held, or `None`.
    ///
    /// # Errors
    /// The first law that does not hold.
    pub fn run_until_that(
        &mut self,
        latest: Instant,
        mut is_so: impl FnMut(&World) -> bool,
    ) -> Result<Option<Instant>, Violation> {
        while let Some((source, at)) = self.event_queue.next() {
            if at > latest || at == Instant::NEVER {
                break;
            }
            self.happen(source, at)?;
            if is_so(self) {
                return Ok(Some(self.now));
            }
        }
        self.now = self.now.max(latest);
        Ok(None)
    }

    /// Run until every connection has ended, at most until `latest`; then let every timer expire
    /// and check for leaks.
    ///
    /// # Errors
    /// The first law that does not hold.
    pub fn run_to_end(&mut self, latest: Instant) -> Result<(), Violation> {
        while !self.ends.iter().all(|end| end.is_ended()) {
            let Some((source, at)) = self.event_queue.next() else { break };
            if at > latest {
                let open = self.ends.iter().filter(|end| !end.is_ended()).map(oracle::story);
                let stories: Vec<String> = open.collect();
                let what = format!("did not end in time: {}", stories.join("; "));
                return Err(Violation::new("liveness", what));
            }
            self.happen(source, at)?;
        }
        oracle::at_end(&self.flows, &self.ends)?;
        for end in &self.ends {
            if let Opening::Accept(listener) = end.opening {
                self.hosts[end.host].stack.tcp_unlisten(listener);
            }
        }
        let rested = self.now + if self.gateway.is_some() { GATEWAY_REST } else { REST };
        for host in 0..self.hosts.len() {
            self.event_queue.no_later(self.host_sources[host], self.now);
            self.hosts[host].release_buffers();
        }
        self.run_until(rested)?;
        for (number, background_flow) in self.background_flows.iter_mut().enumerate() {
            background_flow.close(number, &mut self.hosts)?;
        }
        // Buffers of one host may be in the pool of another host, so flush all pools.
        self.hosts.iter_mut().for_each(|host| host.stack.pool().flush());
        self.pool.flush();
        let mut hosts = self.hosts.iter_mut().enumerate();
        hosts.try_for_each(|(number, host)| oracle::after_end(number, host))?;
        self.gateway_is_empty()?;
        self.wire_is_empty()
    }

    fn wire_is_empty(&mut self) -> Result<(), Violation> {
        for lane in &mut self.lanes {
            while let Some(lost) = lane.model.next_lost() {
                self.pool.free(lost.frame);
            }
        }
        self.pool.flush();
        match self.pool.outstanding() {
            0 => Ok(()),
            mbufs => {
                let what = format!("{mbufs} mbufs of the wire were never freed");
                Err(Violation::new("leaks", what))
            }
        }
    }

    #[inline]
    fn happen(&mut self, source: usize, at: Instant) -> Result<(), Violation> {
        self.now = self.now.max(at);
        self.events += 1;
        if let Some(trace) = &self.trace {
            trace.set_now(self.now);
        }
        if let Some(lane) = self.lane_sources.iter().position(|&s| s == source) {
            return self.arrivals(lane);
        }
        if let Some(host) = self.host_sources.iter().position(|&s| s == source) {
            return self.step(host);
        }
        if let Some(adversary) =
            self.adversaries.iter().position(|attached| attached.source == source)
        {
            self.wake_adversary(adversary);
            return Ok(());
        }
        if source == self.check_source {
            let over = self.ends.iter().all(|end| end.is_ended());
            let next = if over { Instant::NEVER } else { self.now + LOOK_EVERY };
            self.event_queue.set(source, next);
            return self.liveness.check(&self.flows, &mut self.ends, self.now);
        }
        self.next_happening();
        Ok(())
    }

    fn next_happening(&mut self) {
        let Some((_, what)) = self.scheduled_events.pop_front() else { return };
        let next = self.scheduled_events.front().map_or(Instant::NEVER, |(at, _)| *at);
        self.event_queue.set(self.scheduled_source, next);
        if let Some(trace) = &self.trace {
            trace.row(&format!("{what:?}"));
        }
        let touched = match what {
            ScheduledEvent::Pause(host, length) => {
                let until = self.now + length;
                self.hosts[host].paused_until = self.hosts[host].paused_until.max(until);
                host
            }
            ScheduledEvent::ClockJump(host, by_ns) => {
                self.hosts[host].clock.jump(by_ns);
                self.clock_jumped[host] = true;
                host
            }
            ScheduledEvent::Exhaust(host) => {
                self.hosts[host].exhaust();
                return;
            }
            ScheduledEvent::Release(host) => {
                self.hosts[host].release_buffers();
                host
            }
            ScheduledEvent::Unplug(host) => {
                self.hosts[host].attachments.iter().for_each(|port| port.wire.set_carrier(false));
                return;
            }
            ScheduledEvent::Recover(loss) => {
                for lane in &mut self.lanes {
                    let recovered = Settings { loss, ..lane.model.settings().recovered() };
                    lane.model.set_settings(recovered, self.now, &mut self.pool);
                }
                return;
            }
        };
        let wake = self.now.max(self.hosts[touched].paused_until);
        self.event_queue.set(self.host_sources[touched], wake);
    }

    /// Handle frames that have reached the end of a direction.
    fn arrivals(&mut self, lane: usize) -> Result<(), Violation> {
        let to = self.lanes[lane].to;
        while let Some((frame, _)) = self.lanes[lane].model.receive(self.now, &mut self.pool) {
            match to {
                Target::Hub(hub) => self.forward(hub, lane, frame),
                Target::Router(router, by) => self.route(router, by, lane, frame),
                Target::Adversary(adversary) => {
                    self.deliver_to_adversary(lane, adversary, frame)?
                }
                Target::Host { host, port } => {
                    self.arrived(lane, host, &frame);
                    self.hosts[host].arrive(port, frame, self.now, &mut self.pool);
                }
            }
        }
        self.lost(lane);
        self.event_queue.set(self.lane_sources[lane], self.lanes[lane].model.next_event());
        let Target::Host { host, .. } = to else { return Ok(()) };
        let Some(interrupt_at) = self.hosts[host].interrupt_at() else { return Ok(()) };
        let at = interrupt_at.max(self.hosts[host].paused_until);
        if at > self.now {
            self.event_queue.no_later(self.host_sources[host], at);
            return Ok(());
        }
        self.step(host)
    }

    /// Add a row to the trace: a frame has arrived at a host.
    #[inline]
    fn arrived(&mut self, lane: usize, host: usize, frame: &Mbuf) {
        if self.oracles.is_none() && self.trace.is_none() {
            return;
        }
        let kind = self.lanes[lane].kind;
        if let Some(trace) = &self.trace {
            let flipped = if frame.mark() == CORRUPTED { " with a flipped bit" } else { "" };
            let what = seen::describe(frame.as_slice(), kind);
            trace.row(&format!("host {host} < link {lane}{flipped}: {what}"));
        }
        if frame.mark() == CORRUPTED && !seen::verifies(frame.as_slice(), kind) {
            return;
        }
        if let Some(oracles) = &mut self.oracles
            && let Some(seen) = seen::segment(frame.as_slice(), kind)
        {
            oracles.arrived(&seen);
        }
    }

    /// Add rows to the trace: packets that a direction has lost.
    fn lost(&mut self, lane: usize) {
        let Some(trace) = &self.trace else { return };
        while let Some(lost) = self.lanes[lane].model.next_lost() {
            let what = seen::describe(lost.frame.as_slice(), self.lanes[lane].kind);
            trace.row(&format!("link {lane} lost ({:?}): {what}", lost.why));
            self.pool.free(lost.frame);
        }
    }

    /// Put a frame into a direction of a link.
    #[inline]
    pub(crate) fn enter(&mut self, lane: usize, frame: Mbuf) {
        let model = &mut self.lanes[lane].model;
        model.send(frame, self.now, &mut self.pool);
        self.event_queue.set(self.lane_sources[lane], model.next_event());
        self.lost(lane);
    }
}
