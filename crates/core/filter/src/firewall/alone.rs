//! Plain packets that rules judge one by one: they get no state, no translation, no line in the
//! log, and no answer.
//!
//! Called by: the stack's burst path of forwarding, before it asks about a packet in general. It
//! may only leave a packet, with nothing changed, or do exactly what [`Firewall::arrive`] and
//! [`Firewall::decide`] do. Counters: `filter_rule`.

use base::{DropReason, Instant};
use wire::protocol::TCP;
use wire::tcp::Flags;
use wire::{ipv4, ipv6};

use super::Firewall;
use crate::packet::Packet;
use crate::rules::Action;
use crate::states::{Key, Segment, is_whole_udp, plain_v4, plain_v6};

impl Firewall {
    /// Judge a plain packet without padding, which came by port `in_port` and will leave by
    /// `out_port`. `None` if it takes more: it has a state or gets one, rules translate, log or
    /// reject, or it is malformed. Without rules that keep no state it is always `None`.
    ///
    /// # Errors
    /// The reason to drop it.
    #[inline]
    pub fn judge_alone(
        &mut self,
        packet: &[u8],
        (in_port, out_port): (u16, u16),
        now: Instant,
    ) -> Option<Result<(), DropReason>> {
        let program = &self.published.program;
        if !program.has_stateless() || self.may_translate() {
            return None;
        }
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let (key, header_len) = match is_v6 {
            false => (Key::V4(plain_v4(packet)?), ipv4::HEADER_LEN),
            true => (Key::V6(plain_v6(packet)?), ipv6::HEADER_LEN),
        };
        let bytes = packet.get(header_len..)?;
        let flags = match key.protocol() {
            TCP => Segment::flags(bytes)?,
            _ if is_whole_udp(bytes) => Flags(0),
            _ => return None,
        };
        if !self.states.is_empty() && self.states.find(&key).is_some() {
            return None;
        }
        let tuple = key.tuple();
        let packet_of_rules = Packet { tuple, in_port, out_port, icmp: None, tcp_flags: flags.0 };
        let verdict = program.judge(&packet_of_rules);
        if verdict.stateful || verdict.log || verdict.action == Action::Reject {
            return None;
        }
        self.counters.count(verdict.rule, packet.len() as u32, now);
        Some(match verdict.action {
            Action::Pass => Ok(()),
            Action::Block | Action::Reject => Err(DropReason::FilterRule),
        })
    }
}
