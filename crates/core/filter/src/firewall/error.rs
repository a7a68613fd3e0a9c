//! ICMP errors about packets that have no state: rules judge them.
//!
//! Called by: `decide.rs`. An error is judged as the answer to the packet that it quotes, because
//! packets of rules without states have rules of their own for answers, and then as the ICMP
//! message that it is. A rule with `stateless` must pass it: any other rule passes flows, and the
//! flow of this error is not there. Counter: `filter_icmp`.

use base::{Budget, DropReason, Instant};
use wire::protocol::{ICMP, ICMPV6, TCP};
use wire::tcp::Flags;

use super::Firewall;
use super::arrive::Beginning;
use super::decide::{Passed, Refusal};
use crate::packet::{Packet, ROUTER, Tuple};
use crate::rules::Action;
use crate::states::{Kind, Verdict};

impl Firewall {
    /// Does an error about a packet without a state pass? RFC 5508 REQ-4, REQ-5.
    pub(super) fn judge_error(
        &mut self,
        new: &Beginning,
        out_port: u16,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Passed, Refusal> {
        // The router itself matches errors with its sockets (RFC 4890 4.4.1-c, 4.4.2-a).
        if out_port == ROUTER {
            return Ok(Passed::unchanged());
        }
        let asked = [new.quoted_answer(out_port), new.message(out_port)];
        let verdicts = asked.map(|packet| self.published.program.judge(&packet));
        let passes = |verdict: &&_| {
            let crate::Verdict { action, stateful, .. } = **verdict;
            action == Action::Pass && !stateful
        };
        let passed = verdicts.iter().find(passes);
        if let Some(verdict) = passed {
            self.counters.count(verdict.rule, new.len, now);
        }
        let fragments = if passed.is_some() { Verdict::PassAlone } else { Verdict::Drop };
        self.first_fragment(&new.parsed, fragments, budget, now)?;
        passed.map(|_| Passed::unchanged()).ok_or(DropReason::FilterIcmp.into())
    }
}

impl Beginning {
    /// The answer to the packet that an error quotes.
    fn quoted_answer(&self, out_port: u16) -> Packet {
        let tuple = self.tuple.reversed();
        let about = match self.parsed.kind {
            Kind::Error { about, .. } => about,
            _ => None,
        };
        let tcp_flags = if tuple.protocol == TCP { Flags::ACK.0 } else { 0 };
        let icmp = about.map(|(kind, code)| (answered(tuple.protocol, kind), code));
        Packet { tuple, in_port: self.in_port, out_port, icmp, tcp_flags }
    }

    /// An error as an ICMP message.
    fn message(&self, out_port: u16) -> Packet {
        let to = self.tuple.src;
        let from = match self.parsed.kind {
            Kind::Error { from, .. } => from,
            _ => self.tuple.dst,
        };
        let protocol = if to.is_ipv4() { ICMP } else { ICMPV6 };
        let tuple = Tuple { src: from, dst: to, protocol, src_port: 0, dst_port: 0 };
        let icmp = self.parsed.icmp;
        Packet { tuple, in_port: self.in_port, out_port, icmp, tcp_flags: 0 }
    }
}

/// The type of the answer to a query of ICMP, and the other way round.
const fn answered(protocol: u8, kind: u8) -> u8 {
    match (protocol, kind) {
        (ICMP, 8) => 0,
        (ICMP, 0) => 8,
        (ICMP, 13 | 15 | 17) | (ICMPV6, 128) => kind + 1,
        (ICMP, 14 | 16 | 18) | (ICMPV6, 129) => kind - 1,
        _ => kind,
    }
}
