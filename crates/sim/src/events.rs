//! The main loop of a world: take the earliest event and handle it.
//!
//! Called by: the owner of the world. Events are arrivals at the end of a link's direction, hosts
//! that want to be polled, scheduled events, and a check of every connection once a second.

use base::{Duration, Instant};
use link::{CORRUPTED, Settings};
use mbuf::Mbuf;

use crate::app::Opening;
use crate::oracle::{self, Look};
use crate::seen;
use crate::violation::Violation;
use crate::world::{ScheduledEvent, Target, World};

/// Interval between two checks of liveness.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Rounds of polling in one step of a host; more is an endless loop.
const ROUNDS_MAX: u32 = 10_000;

/// Times in a row that a host may ask to be woken at once.
const SPINS_MAX: u32 = 1_000;

/// After the last connection's end: longer than TIME-WAIT, and than the longest time-out twice.
const REST: Duration = Duration::from_secs(400);

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

    /// Run until a condition holds, checked after each event, at most until `latest`; returns when
    /// it held first, or `None`.
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
                let what = format!("not over in time: {}", stories.join("; "));
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
        let rested = self.now + REST;
        for host in 0..self.hosts.len() {
            self.event_queue.no_later(self.host_sources[host], self.now);
            self.hosts[host].release_buffers();
        }
        self.run_until(rested)?;
        for (number, background_flow) in self.background_flows.iter_mut().enumerate() {
            background_flow.close(number, &mut self.hosts)?;
        }
        // A host's buffers may still be at another host.
        self.hosts.iter_mut().for_each(|host| host.stack.pool().flush());
        self.pool.flush();
        let mut hosts = self.hosts.iter_mut().enumerate();
        hosts.try_for_each(|(number, host)| oracle::after_end(number, host))?;
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
                let what = format!("{mbufs} mbufs of the wire did not come back");
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

    /// Frames have reached the end of a direction.
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

    /// For the trace: a frame arrives at a host.
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

    /// For the trace: packets that a direction lost.
    fn lost(&mut self, lane: usize) {
        let Some(trace) = &self.trace else { return };
        while let Some(lost) = self.lanes[lane].model.next_lost() {
            let what = seen::describe(lost.frame.as_slice(), self.lanes[lane].kind);
            trace.row(&format!("link {lane} lost ({:?}): {what}", lost.why));
            self.pool.free(lost.frame);
        }
    }

    /// A frame enters a direction of a link.
    #[inline]
    pub(crate) fn enter(&mut self, lane: usize, frame: Mbuf) {
        let model = &mut self.lanes[lane].model;
        model.send(frame, self.now, &mut self.pool);
        self.event_queue.set(self.lane_sources[lane], model.next_event());
        self.lost(lane);
    }

    /// Poll a host until it has nothing more to do at this moment.
    fn step(&mut self, host: usize) -> Result<(), Violation> {
        if self.hosts[host].paused_until > self.now {
            let until = self.hosts[host].paused_until;
            self.event_queue.set(self.host_sources[host], until);
            return Ok(());
        }
        let local = self.hosts[host].clock.local(self.now);
        let mut taken = 0;
        for round in 0.. {
            let waiting = self.hosts[host].take_delivered();
            taken += waiting;
            self.hosts[host].stack.poll(local);
            let acted = self.applications(host, local)?;
            if acted {
                self.hosts[host].stack.flush();
            }
            let sent = self.departures(host)?;
            let is_blocked = self.hosts[host].stack.is_pushed_back() && sent > 0;
            if !is_blocked && waiting <= device::BURST {
                break;
            }
            if round > ROUNDS_MAX {
                let what = format!("host {host} never comes to rest");
                return Err(Violation::new("timers", what));
            }
        }
        self.hosts[host].spend(taken, self.now);
        self.look(host)?;
        self.check_adversaries()?;
        self.wake_later(host, local)
    }

    /// Move frames that a host sent to its links; returns how many.
    fn departures(&mut self, host: usize) -> Result<usize, Violation> {
        let World {
            hosts,
            lanes,
            pool,
            oracles,
            trace,
            event_queue,
            lane_sources,
            digest,
            now,
            ..
        } = self;
        let mut total = 0;
        let mut outcome = Ok(());
        for port in 0..hosts[host].attachments.len() {
            let out = hosts[host].attachments[port].out;
            let lane = &mut lanes[out];
            let kind = lane.kind;
            let sent = hosts[host].sent(port, pool, |frame, pool| {
                if let Some(oracles) = oracles {
                    *digest = digest_of(*digest, *now, frame.as_slice());
                    if outcome.is_ok()
                        && let Some(seen) = seen::segment(frame.as_slice(), kind)
                    {
                        outcome = oracles.sent(&seen, *now);
                    }
                }
                if let Some(trace) = trace {
                    let what = seen::describe(frame.as_slice(), kind);
                    trace.row(&format!("host {host} > link {out}: {what}"));
                }
                if let Some(hook) = &mut lane.hook
                    && let Some(seen) = seen::segment(frame.as_slice(), kind)
                    && !hook(*now, &seen)
                {
                    lane.dropped_by_hook += 1;
                    pool.free(frame);
                    return;
                }
                lane.model.send(frame, *now, pool);
            });
            if sent > 0 {
                event_queue.set(lane_sources[out], lane.model.next_event());
            }
            total += sent;
        }
        outcome?;
        if self.trace.is_some() {
            (0..self.lanes.len()).for_each(|lane| self.lost(lane));
        }
        Ok(total)
    }

    /// Check the laws after a step.
    fn look(&mut self, host: usize) -> Result<(), Violation> {
        let Some(oracles) = &mut self.oracles else { return Ok(()) };
        let own = &self.hosts[host];
        oracles.stepped_host(own, self.host_ends[host].len())?;
        for &index in &self.host_ends[host] {
            let end = &self.ends[index];
            let Some(info) = end.handle.and_then(|handle| own.stack.tcp_info(handle)) else {
                continue;
            };
            let look = Look {
                index,
                end,
                info,
                stack: &own.stack,
                clock_is_true: !self.clock_jumped[host],
                now: self.now,
            };
            oracles.stepped(&look)?;
        }
        Ok(())
    }

    /// When does a host want to be polled next?
    fn wake_later(&mut self, host: usize, local: Instant) -> Result<(), Violation> {
        let ends = self.host_ends[host].iter().map(|&end| &self.ends[end]);
        let wake = ends.filter(|end| !end.is_ended()).map(|end| end.wake).min();
        let background_flows = self
            .background_flows
            .iter()
            .filter(|background_flow| background_flow.settings.hosts.0 == host);
        let wake = wake
            .into_iter()
            .chain(background_flows.map(|background_flow| background_flow.next))
            .min();
        let own = &mut self.hosts[host];
        let deadline = own.stack.next_deadline().min(wake.unwrap_or(Instant::NEVER));
        if deadline > local {
            own.spins = 0;
        } else {
            own.spins += 1;
            if own.spins > SPINS_MAX {
                let what = format!("host {host} asks to be woken at once, again and again");
                return Err(Violation::new("timers", what));
            }
        }
        let soon = self.now + Duration::from_micros(1);
        let at = own.clock.world(deadline).max(soon).max(own.paused_until);
        self.event_queue.set(
            self.host_sources[host],
            if deadline == Instant::NEVER { Instant::NEVER } else { at },
        );
        Ok(())
    }
}

/// Mix a frame's time, length and first bytes into the digest.
fn digest_of(before: u64, now: Instant, frame: &[u8]) -> u64 {
    let mix = |h: u64, word: u64| (h ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let mut h = mix(mix(before, now.as_nanos()), frame.len() as u64);
    for chunk in frame[..frame.len().min(96)].chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        h = mix(h, u64::from_le_bytes(word));
    }
    h
}
