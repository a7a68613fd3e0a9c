//! New rules: a state is judged again at its next packet, and a sweep does the idle ones.
//!
//! Called by: the stack, when rules are published. A state that the new rules pass stays, with its
//! counters; another one ends, and its packet is refused as the rule says. No look-up waits for
//! that: the rules are published whole. Counters: `filter_rule`.

use core::net::IpAddr;
use std::sync::Arc;

use base::{Budget, DropReason, Instant, Limit};

use super::Firewall;
use crate::packet::{Packet, ROUTER, Tuple};
use crate::program::Verdict;
use crate::published::Published;
use crate::rules::Action;
use crate::states::{Cursor, State, StateId, Why};
use wire::protocol;
use wire::tcp::Flags;

/// States that a turn judges again, at most: some 200 ns for each with 1,000 rules, beside the
/// packets of the turn.
const SWEPT_A_TURN: usize = 16;

impl Firewall {
    /// Publish other rules.
    pub fn publish(&mut self, published: Arc<Published>) {
        self.counters = self.counters.moved(&self.published.names, &published.names);
        self.nats.set(&published.rules, &mut self.mappings);
        self.states.set_timeouts(&published.timeouts);
        self.published = published;
        self.generation = self.generation.wrapping_add(1);
        self.sweep = Some(Cursor::default());
    }

    /// An address of a port is gone: flows that were translated to it end. In a pair of routers it
    /// has gone to the partner, and comes back with its flows.
    pub fn address_gone(&mut self, addr: IpAddr, now: Instant) {
        if self.states.copies() {
            return;
        }
        self.mappings.address_gone(addr, now, |_| {});
        // Their states end at their next packet, or by the sweep.
        self.generation = self.generation.wrapping_add(1);
        self.sweep = Some(Cursor::default());
    }

    /// Does a state still pass? Rules that were published after it are asked. `false`: it has ended
    /// with its mapping, and the packet may begin another flow.
    ///
    /// # Errors
    /// [`DropReason::FilterRule`]: the state has ended.
    pub(super) fn still_passes(
        &mut self,
        id: StateId,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<bool, DropReason> {
        if !self.states.is_stale(id, self.generation) {
            return Ok(true);
        }
        if let Some(mapping) = self.states.tag(id).and_then(|tag| self.nats.mapping(tag))
            && !self.mappings.is_alive(mapping)
        {
            self.states.kill(id, Why::Rules, now);
            self.give_back_mappings(now);
            return Ok(false);
        }
        let Some(state) = self.states.state(id, now) else { return Ok(true) };
        if state.in_port == ROUTER {
            // Rules are not about what the router itself sends (`own.rs`).
            let sources = budget.of(Limit::FilterSources);
            self.states.adopt(id, u16::MAX, self.generation, false, sources, now);
            return Ok(true);
        }
        let verdict =
            self.judge_again((&state.original, &state.reply), state.in_port, state.out_port);
        if verdict.action != Action::Pass {
            self.states.kill(id, Why::Rules, now);
            self.give_back_mappings(now);
            return Err(DropReason::FilterRule);
        }
        let rule = verdict.rule.unwrap_or(u16::MAX);
        let sources = budget.of(Limit::FilterSources);
        let limits = verdict
            .rule
            .and_then(|rule| self.published.rules.filter.get(usize::from(rule))?.states_per_source);
        self.states.adopt(id, rule, self.generation, limits.is_some(), sources, now);
        Ok(true)
    }

    /// The verdict of today's rules on the first packet of a state.
    pub(super) fn judge_again(
        &self,
        tuples: (&Tuple, &Tuple),
        in_port: u16,
        out_port: u16,
    ) -> Verdict {
        self.published.program.judge(&first_packet(tuples, in_port, out_port))
    }

    /// Look at up to [`SWEPT_A_TURN`] states, and judge those again that have had no packet since.
    pub(super) fn sweep_stale(&mut self, budget: &mut Budget, now: Instant) {
        let Some(cursor) = self.sweep else { return };
        let (mut stale, mut count) = ([None; SWEPT_A_TURN], 0);
        self.sweep = self.states.stale(cursor, SWEPT_A_TURN, self.generation, |id| {
            if let Some(place) = stale.get_mut(count) {
                *place = Some(id);
                count += 1;
            }
        });
        for id in stale.into_iter().flatten() {
            // A state that does not pass has ended; nobody waits for the answer.
            let _ = self.still_passes(id, budget, now);
        }
    }

    /// End up to `most` states from `cursor` on that `is_meant` names; returns where to go on, and
    /// how many ended.
    pub fn kill_states(
        &mut self,
        cursor: Cursor,
        most: usize,
        now: Instant,
        mut is_meant: impl FnMut(&State) -> bool,
    ) -> (Option<Cursor>, usize) {
        let ended = self.states.kill_if(cursor, most, Why::Killed, now, |_, state| is_meant(state));
        self.give_back_mappings(now);
        ended
    }
}

/// The first packet of a state as rules see it: behind translation of the destination, before that
/// of the source. An answer comes from the translated destination.
pub(super) fn first_packet(
    (original, reply): (&Tuple, &Tuple),
    in_port: u16,
    out_port: u16,
) -> Packet {
    const ECHO_V4: (u8, u8) = (8, 0);
    const ECHO_V6: (u8, u8) = (128, 0);
    let tuple = Tuple { dst: reply.src, dst_port: reply.src_port, ..*original };
    let icmp = match tuple.protocol {
        protocol::ICMP => Some(ECHO_V4),
        protocol::ICMPV6 => Some(ECHO_V6),
        _ => None,
    };
    let tcp_flags = if tuple.protocol == protocol::TCP { Flags::SYN.0 } else { 0 };
    Packet { tuple, in_port, out_port, icmp, tcp_flags }
}
