//! A step of a host: poll its stack, run its applications, take the frames that it sends, check the
//! laws, and compute when the next step is due.
//!
//! Called by: `events.rs`, when a host has frames or a deadline.

use base::{Duration, Instant};

use crate::oracle::Look;
use crate::seen;
use crate::violation::Violation;
use crate::world::World;

/// The most rounds of polling in one step of a host. More rounds would be an endless loop.
const ROUNDS_MAX: u32 = 10_000;

/// How many times in a row a host may want to be woken at once.
const SPINS_MAX: u32 = 1_000;

impl World {
    /// Poll a host until it has nothing more to do at this moment.
    pub(super) fn step(&mut self, host: usize) -> Result<(), Violation> {
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

    /// Move frames that a host sent to its links. Returns how many.
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
            if hosts[host].attachments[port].waits_for_link && lane.model.is_sending(*now) {
                continue;
            }
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
        // Each flow has a connection on each side of a gateway, and a late SYN another.
        let connections_max = match &self.gateway {
            Some(_) => 3 * (self.flows.len() + self.refused.len()),
            None => self.host_ends[host].len(),
        };
        oracles.stepped_host(own, connections_max)?;
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

    /// Set the time at which a host is polled next.
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
        let gateway = self.gateway_deadline(host, local);
        let own = &mut self.hosts[host];
        let deadline = gateway.min(own.stack.next_deadline()).min(wake.unwrap_or(Instant::NEVER));
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
        let at = match deadline {
            Instant::NEVER => Instant::NEVER,
            _ => own.clock.world(deadline),
        };
        // A device that waits for its link is polled again when the link has sent the burst.
        let waiting = own.attachments.iter().filter(|port| port.waits_for_link);
        let lanes = waiting.map(|port| &self.lanes[port.out].model);
        let free_at = lanes.filter(|model| model.is_sending(self.now)).map(|m| m.free_at()).min();
        let at = at.min(free_at.unwrap_or(Instant::NEVER));
        let at = if at == Instant::NEVER { at } else { at.max(soon).max(own.paused_until) };
        self.event_queue.set(self.host_sources[host], at);
        Ok(())
    }
}

/// Combine the digest so far with a frame's time, length and first bytes.
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
