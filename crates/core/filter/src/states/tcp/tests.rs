//! TCP tracking: recorded sequences, a line a segment, and a model of two peers (`model.rs`).

mod model;

use super::*;
use crate::states::tests::{ACK, FIN_ACK, RST, SYN, SYN_ACK, seg};
use base::DropReason::FilterNoState;

/// The sequence number of each side's SYN: one short of a wrap, so that all of it wraps.
const O: u32 = u32::MAX - 1_000;
const R: u32 = u32::MAX - 50;
const RST_ACK: Flags = Flags::RST.with(Flags::ACK);

/// A state and what becomes of segments.
struct Ladder {
    c: Common,
}

type Outcome = Result<Effect, DropReason>;
const PASSES: Outcome = Ok(Effect::Counts);

impl Ladder {
    fn begin(syn: Segment) -> Ladder {
        let mut c = Common::EMPTY;
        begin(&mut c, &syn, Opening::Syn).expect("a SYN");
        Ladder { c }
    }

    /// In the original direction; numbers count from the SYN of each side.
    fn o(&mut self, flags: Flags, seq: u32, ack: u32, len: u32) -> Outcome {
        self.send(0, seg(flags, O.wrapping_add(seq), R.wrapping_add(ack), len))
    }

    /// In the reply direction.
    fn r(&mut self, flags: Flags, seq: u32, ack: u32, len: u32) -> Outcome {
        self.send(1, seg(flags, R.wrapping_add(seq), O.wrapping_add(ack), len))
    }

    fn send(&mut self, from: usize, segment: Segment) -> Outcome {
        let before = self.c.sides;
        let outcome = judge(&mut self.c, from, &segment);
        if outcome.is_err() {
            assert_eq!(self.c.sides, before, "a dropped segment teaches nothing: {segment:?}");
        }
        outcome
    }

    fn phase(&self) -> Phase {
        self.c.phase
    }
}

fn syn_sent() -> Ladder {
    Ladder::begin(seg(SYN, O, 0, 0))
}

fn established() -> Ladder {
    let mut l = syn_sent();
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpSynReceived);
    assert_eq!(l.o(ACK, 1, 1, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpEstablished);
    l
}

/// RFC 5382 REQ-2.
#[test]
fn a_connection_opens_carries_data_over_the_wrap_and_closes() {
    let mut l = established();
    for n in 0..100 {
        assert_eq!(l.o(ACK, 1 + n * 1_000, 1 + n * 500, 1_000), PASSES, "{n}");
        assert_eq!(l.r(ACK, 1 + n * 500, 1 + n * 1_000 + 1_000, 500), PASSES, "{n}");
    }
    assert_eq!(l.o(FIN_ACK, 100_001, 50_001, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpHalfClosed);
    assert_eq!(l.r(ACK, 50_001, 100_002, 0), PASSES);
    assert_eq!(l.r(ACK, 50_001, 100_002, 700), PASSES, "half closed");
    assert_eq!(l.o(ACK, 100_002, 50_701, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpHalfClosed);
    assert_eq!(l.r(FIN_ACK, 50_701, 100_002, 0), PASSES);
    assert_eq!(l.o(ACK, 100_002, 50_702, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpTimeWait);
    assert_eq!(l.r(FIN_ACK, 50_701, 100_002, 0), PASSES, "its ACK was lost");
    assert_eq!(l.o(ACK, 100_002, 50_702, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpTimeWait);
}

#[test]
fn both_sides_may_close_at_the_same_time() {
    let mut l = established();
    assert_eq!(l.o(FIN_ACK, 1, 1, 0), PASSES);
    assert_eq!(l.r(FIN_ACK, 1, 1, 0), PASSES);
    assert_eq!(l.o(ACK, 2, 2, 0), PASSES);
    assert_eq!(l.r(ACK, 2, 2, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpTimeWait);
}

#[test]
fn syns_and_syn_acks_may_be_repeated() {
    let mut l = syn_sent();
    assert_eq!(l.o(SYN, 0, 0, 0), PASSES);
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.o(SYN, 0, 0, 0), PASSES);
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpSynReceived);
    assert_eq!(l.o(ACK, 1, 1, 100), PASSES);
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), Ok(Effect::Late), "late");
    assert_eq!(l.o(SYN, 0, 0, 0), PASSES, "late");
    assert_eq!(l.phase(), Phase::TcpEstablished);
    assert_eq!(l.r(ACK, 1, 101, 1_000), PASSES);
}

#[test]
fn a_syn_ack_must_acknowledge_the_syn() {
    let mut l = syn_sent();
    assert_eq!(l.r(SYN_ACK, 0, 0, 0), Err(FilterWindow));
    assert_eq!(l.r(SYN_ACK, 0, 2, 0), Err(FilterWindow));
    assert_eq!(l.r(ACK, 0, 1, 10), Err(FilterTcpState), "data without a SYN");
    assert_eq!(l.o(ACK, 1, 1, 0), Err(FilterTcpState), "an ACK of nothing");
    assert_eq!(l.phase(), Phase::TcpSynSent);
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
}

#[test]
fn only_the_exact_ack_completes_a_handshake() {
    let mut l = syn_sent();
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.o(ACK, 1, 0, 0), Err(FilterWindow));
    assert_eq!(l.o(ACK, 1, 2, 0), Err(FilterWindow));
    assert_eq!(l.phase(), Phase::TcpSynReceived);
    assert_eq!(l.o(ACK, 1, 1, 0), PASSES);
}

/// RFC 5382 REQ-2a, RFC 9293 section 3.5 figure 7.
#[test]
fn both_sides_may_open_at_the_same_time() {
    let mut l = syn_sent();
    assert_eq!(l.r(SYN, 0, 0, 0), PASSES);
    assert_eq!(l.o(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpEstablished);
    assert_eq!(l.o(ACK, 1, 1, 500), PASSES);
    assert_eq!(l.r(ACK, 1, 501, 500), PASSES);
}

/// RFC 7413: data on the SYN, and an answer with data before the handshake is complete.
#[test]
fn a_syn_may_have_data_that_is_taken_or_not() {
    for taken in [true, false] {
        let mut l = Ladder::begin(seg(SYN, O, 0, 1_000));
        let ack = if taken { 1_001 } else { 1 };
        assert_eq!(l.r(SYN_ACK, 0, ack, 0), PASSES);
        assert_eq!(l.r(ACK, 1, ack, 1_400), PASSES, "early data");
        if !taken {
            assert_eq!(l.o(ACK, 1, 1, 1_000), PASSES, "again");
        }
        assert_eq!(l.o(ACK, 1_001, 1_401, 0), PASSES);
        assert_eq!(l.phase(), Phase::TcpEstablished);
    }
    let mut l = Ladder::begin(seg(SYN, O, 0, 1_000));
    assert_eq!(l.o(SYN, 0, 0, 0), PASSES, "again without data");
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.o(ACK, 1, 1, 1_000), PASSES);
}

#[test]
fn a_refused_connection_is_reset_by_an_acceptable_rst_alone() {
    let mut l = syn_sent();
    assert_eq!(l.r(RST_ACK, 0, 2, 0), Err(FilterWindow));
    assert_eq!(l.r(RST, 0, 0, 0), Err(FilterWindow), "without ACK");
    assert_eq!(l.phase(), Phase::TcpSynSent);
    // A closed port answers with the sequence number 0.
    assert_eq!(l.send(1, seg(RST_ACK, 0, O.wrapping_add(1), 0)), PASSES);
    assert_eq!(l.phase(), Phase::TcpReset);
    assert_eq!(l.r(ACK, 1, 1, 5), Err(FilterTcpState));
    assert_eq!(l.o(ACK, 1, 1, 5), Err(FilterTcpState));
    assert_eq!(l.o(SYN, 0, 0, 0), Ok(Effect::NewFlow), "the client tries again");
}

#[test]
fn the_client_may_reset_a_handshake_as_scanners_do() {
    let mut l = syn_sent();
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.o(RST, 1, 0, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpReset);
}

#[test]
fn windows_are_scaled_only_if_both_sides_offer_it() {
    let syn = |flags, seq, ack, scale| Segment { scale, ..seg(flags, seq, ack, 0) };
    for (offers, right) in [
        ([Some(7), Some(7)], 1 + 1_000 * 128),
        ([Some(7), None], 1 + 65_535),
        ([None, Some(7)], 1 + 65_535),
    ] {
        let mut l = Ladder::begin(syn(SYN, O, 0, offers[0]));
        let syn_ack = syn(SYN_ACK, R, O.wrapping_add(1), offers[1]);
        assert_eq!(l.send(1, syn_ack), PASSES);
        let last = |window| Segment { window, ..seg(ACK, O.wrapping_add(1), R.wrapping_add(1), 0) };
        assert_eq!(l.send(0, last(1_000)), PASSES);
        // The window of the SYN, 65,535, still holds where windows are not scaled.
        assert_eq!(l.r(ACK, right - 1_000, 1, 1_000), PASSES, "{offers:?}");
        assert_eq!(l.r(ACK, right, 1, 2), Err(FilterWindow), "{offers:?}");
    }
}

#[test]
fn keep_alives_and_window_probes_pass() {
    let mut l = established();
    assert_eq!(l.o(ACK, 1, 1, 1_000), PASSES);
    let closed = Segment { window: 0, ..seg(ACK, R.wrapping_add(1), O.wrapping_add(1_001), 0) };
    assert_eq!(l.send(1, closed), PASSES);
    assert_eq!(l.o(ACK, 1_000, 1, 0), PASSES, "a keep-alive without data");
    assert_eq!(l.o(ACK, 1_000, 1, 1), PASSES, "a keep-alive with a byte");
    assert_eq!(l.o(ACK, 1_001, 1, 1), PASSES, "a probe of the closed window");
}

#[test]
fn segments_beyond_the_window_do_not_pass() {
    let mut l = established();
    assert_eq!(l.o(ACK, 1, 1, 1_000), PASSES);
    assert_eq!(l.o(ACK, 1 + 65_535 + 1, 1, 1), Err(FilterWindow), "beyond the right edge");
    assert_eq!(l.o(ACK, 0_u32.wrapping_sub(70_000), 1, 1), Err(FilterWindow), "too old");
    assert_eq!(l.o(ACK, 1_001, 2, 0), Err(FilterWindow), "an ACK of what was not sent");
    assert_eq!(l.o(ACK, 1_001, 0_u32.wrapping_sub(66_001), 0), Err(FilterWindow), "too old");
    assert_eq!(l.o(ACK, 1, 1, 1_000), PASSES, "sent again");
}

/// RFC 5961 section 3: out of window, in the window, exact. RFC 5382 9-a.
#[test]
fn a_rst_must_be_in_the_window_and_is_contradicted_by_a_challenge_ack() {
    let mut l = established();
    assert_eq!(l.o(ACK, 1, 1, 100), PASSES);
    assert_eq!(l.r(ACK, 1, 101, 0), PASSES);
    assert_eq!(l.r(RST, 70_000, 0, 0), Err(FilterWindow));
    assert_eq!(l.r(RST, 500, 0, 0), PASSES, "forged, in the window");
    assert_eq!(l.phase(), Phase::TcpReset);
    assert_eq!(l.o(ACK, 101, 1, 0), PASSES, "the challenge ACK");
    assert_eq!(l.phase(), Phase::TcpEstablished);
    assert_eq!(l.r(ACK, 1, 101, 1_000), PASSES);
    assert_eq!(l.r(RST, 1_001, 0, 0), PASSES, "exact");
    assert_eq!(l.phase(), Phase::TcpReset);
    assert_eq!(l.o(ACK, 101, 1, 50), Ok(Effect::Late), "on its way already");
    assert_eq!(l.phase(), Phase::TcpReset);
    assert_eq!(l.r(RST, 1_001, 0, 0), Ok(Effect::Late));
    assert_eq!(l.r(ACK, 1_001, 151, 20), PASSES, "it was forged after all");
    assert_eq!(l.phase(), Phase::TcpEstablished);
}

/// RFC 9293 section 3.5.1, figures 9 and 10; RFC 5961 section 4.2.
#[test]
fn a_client_that_has_rebooted_resets_the_old_connection_and_begins_anew() {
    let mut l = established();
    assert_eq!(l.o(ACK, 1, 1, 100), PASSES);
    assert_eq!(l.r(ACK, 1, 101, 100), PASSES);
    assert_eq!(l.o(SYN, 5_000_000, 0, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpEstablished);
    assert_eq!(l.r(ACK, 101, 101, 0), PASSES, "the challenge ACK");
    assert_eq!(l.o(RST, 101, 0, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpReset);
    assert_eq!(l.o(SYN, 5_000_000, 0, 0), Ok(Effect::NewFlow));
}

#[test]
fn a_server_that_has_forgotten_the_connection_too_answers_the_new_syn() {
    let mut l = established();
    assert_eq!(l.o(ACK, 1, 1, 100), PASSES);
    assert_eq!(l.o(SYN, 5_000_000, 0, 0), PASSES);
    assert_eq!(l.r(SYN_ACK, 7_000_000, 5_000_002, 0), Err(FilterWindow));
    assert_eq!(l.r(SYN_ACK, 7_000_000, 5_000_001, 0), PASSES);
    assert_eq!(l.o(ACK, 5_000_001, 7_000_001, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpEstablished);
    assert_eq!(l.o(ACK, 5_000_001, 7_000_001, 500), PASSES);
    assert_eq!(l.r(ACK, 7_000_001, 5_000_501, 500), PASSES);
    assert_eq!(l.o(ACK, 101, 1, 1), Err(FilterWindow), "the old one is gone");
}

#[test]
fn a_server_without_the_connection_and_without_the_port_refuses_the_new_syn() {
    let mut l = established();
    assert_eq!(l.o(SYN, 5_000_000, 0, 0), PASSES);
    let refusal = seg(RST_ACK, 0, O.wrapping_add(5_000_001), 0);
    assert_eq!(l.send(1, refusal), PASSES);
    assert_eq!(l.phase(), Phase::TcpReset);
}

#[test]
fn a_server_with_an_old_connection_challenges_the_syn_of_a_new_one() {
    let mut l = syn_sent();
    assert_eq!(l.r(ACK, 900_000, 333_333, 0), PASSES, "it says where the old one is");
    assert_eq!(l.o(RST, 333_334, 0, 0), Err(FilterWindow));
    assert_eq!(l.o(RST, 333_333, 0, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpSynSent, "the client goes on");
    assert_eq!(l.o(SYN, 0, 0, 0), PASSES);
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.o(ACK, 1, 1, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpEstablished);
}

#[test]
fn a_server_opens_no_connection_in_the_other_direction() {
    let mut l = established();
    assert_eq!(l.r(SYN, 1_000_000, 0, 0), Err(FilterTcpState));
    assert_eq!(l.r(SYN, 1, 0, 0), Err(FilterTcpState));
    assert_eq!(l.phase(), Phase::TcpEstablished);
}

#[test]
fn a_client_that_gave_up_tries_again_from_the_same_port() {
    let mut l = syn_sent();
    assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
    assert_eq!(l.o(SYN, 9_000_000, 0, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpSynSent);
    assert_eq!(l.r(SYN_ACK, 4_000_000, 9_000_001, 0), PASSES);
    assert_eq!(l.o(ACK, 9_000_001, 4_000_001, 10), PASSES);
    assert_eq!(l.phase(), Phase::TcpEstablished);
}

/// A server with SYN cookies may answer a repeated SYN with another number, and the client may have
/// either answer.
#[test]
fn of_two_syn_acks_the_one_counts_that_the_client_acknowledges() {
    for first in [true, false] {
        let mut l = syn_sent();
        assert_eq!(l.r(SYN_ACK, 0, 1, 0), PASSES);
        assert_eq!(l.r(SYN_ACK, 3_000_000, 1, 0), PASSES);
        let at = if first { 1 } else { 3_000_001 };
        assert_eq!(l.o(ACK, 1, at, 100), PASSES);
        assert_eq!(l.phase(), Phase::TcpEstablished);
        assert_eq!(l.r(ACK, at, 101, 100), PASSES);
        assert_eq!(l.r(ACK, at.wrapping_add(1_000_000), 101, 100), Err(FilterWindow));
    }
}

#[test]
fn data_behind_a_fin_says_that_the_fin_was_forged() {
    let mut l = established();
    assert_eq!(l.o(FIN_ACK, 1, 1, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpHalfClosed);
    assert_eq!(l.o(ACK, 1, 1, 1_000), PASSES);
    assert_eq!(l.phase(), Phase::TcpEstablished);
}

#[test]
fn a_syn_into_time_wait_begins_a_new_flow() {
    let mut l = established();
    assert_eq!(l.o(FIN_ACK, 1, 1, 0), PASSES);
    assert_eq!(l.r(FIN_ACK, 1, 2, 0), PASSES);
    assert_eq!(l.o(ACK, 2, 2, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpTimeWait);
    assert_eq!(l.o(SYN, 600_000, 0, 0), Ok(Effect::NewFlow));
    assert_eq!(l.phase(), Phase::TcpTimeWait, "until rules pass it");
}

#[test]
fn sack_blocks_bring_an_old_ack_nearer() {
    let mut l = established();
    for n in 0..60 {
        assert_eq!(l.o(ACK, 1 + n * 1_000, 1, 1_000), PASSES);
        // The window opens though the first segment is missing.
        let (ack, edge) = (O.wrapping_add(1), O.wrapping_add(1 + (n + 1) * 1_000));
        let sack = SeqNumber(edge);
        let hole = Segment { sack, ..seg(ACK, R.wrapping_add(1), ack, 0) };
        assert_eq!(l.send(1, hole), PASSES, "{n}");
    }
}

#[test]
fn a_loose_state_begins_anywhere_and_checks_no_window() {
    let mut c = Common::EMPTY;
    assert_eq!(begin(&mut c, &seg(ACK, 77, 88, 10), Opening::Syn), Err(FilterNoState));
    assert_eq!(begin(&mut c, &seg(RST, 77, 0, 0), Opening::Any), Err(FilterNoState));
    assert_eq!(begin(&mut c, &seg(ACK, 77, 88, 10), Opening::Any), Ok(()));
    let mut l = Ladder { c };
    assert_eq!(l.phase(), Phase::TcpSynReceived, "one direction");
    assert_eq!(l.o(ACK, 5, 900_000, 10), PASSES);
    assert_eq!(l.phase(), Phase::TcpSynReceived);
    assert_eq!(l.r(ACK, 123_456_789, 5, 10), PASSES);
    assert_eq!(l.phase(), Phase::TcpEstablished);
    assert_eq!(l.o(FIN_ACK, 9, 9, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpHalfClosed);
    assert_eq!(l.r(FIN_ACK, 9, 9, 0), PASSES);
    assert_eq!(l.o(ACK, 9, 9, 0), PASSES);
    assert_eq!(l.phase(), Phase::TcpTimeWait);
    assert_eq!(l.o(SYN, 9, 0, 0), Ok(Effect::NewFlow));
}

#[test]
fn a_flow_begins_with_a_syn_alone() {
    for flags in [ACK, SYN_ACK, FIN_ACK, RST, RST_ACK] {
        let mut c = Common::EMPTY;
        assert_eq!(begin(&mut c, &seg(flags, 1, 1, 0), Opening::Syn), Err(FilterNoState));
    }
}
