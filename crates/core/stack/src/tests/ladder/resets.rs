//! The rules for RSTs, challenge ACKs and their limit (RFC 5961), segments without a connection,
//! and keyed ISNs.

use super::seg::{bare, rst};
use super::*;
use wire::tcp::Flags;

#[test]
fn no_connection_with_ack_is_reset_at_that_ack() {
    let mut t = Setup::plain().ladder();
    t.wire.ports = (9, 9);
    t.send(seg().seq(5).ack(1234));
    t.expect(rst().seq(1234));
    assert_eq!(t.drops(DropReason::TcpNoSocket), 1);
}

#[test]
fn no_connection_without_ack_is_reset_with_ack() {
    let mut t = Setup::plain().ladder();
    t.wire.ports = (9, 9);
    t.send(syn().data(10).fin());
    t.expect(rst().seq(0).ack(12));
}

#[test]
fn no_connection_and_rst_is_left_alone() {
    let mut t = Setup::plain().ladder();
    t.wire.ports = (9, 9);
    t.send(rst().seq(5));
    t.nothing();
    assert_eq!(t.drops(DropReason::TcpNoSocketRst), 1);
}

#[test]
fn resets_for_nobody_are_rate_limited() {
    let mut t = Setup::plain().limit(Limit::ResetsPerSecond, 3).ladder();
    t.wire.ports = (9, 9);
    for _ in 0..10 {
        t.send(seg().seq(5).ack(1234));
    }
    assert_eq!(t.take_seen().len(), 3);
    // Each segment is dropped under its own reason; the limit counts those that caused no RST.
    assert_eq!(t.drops(DropReason::TcpNoSocket), 10);
    assert_eq!(t.hits(Limit::ResetsPerSecond), 7);
    assert_eq!(t.count(Counter::TcpResetsOut), 3);
    t.pass(1000);
    t.send(seg().seq(5).ack(1234));
    t.expect(rst());
    assert_eq!(t.hits(Limit::ResetsPerSecond), 7);
}

/// The same limit where a listener or a SYN-SENT connection refuses an ACK.
#[test]
fn resets_for_bad_acks_are_under_the_same_limit() {
    let mut t = Setup::plain().limit(Limit::ResetsPerSecond, 3).ladder();
    t.listen();
    for _ in 0..10 {
        t.send(seg().seq(5).ack(1234));
    }
    assert_eq!(t.take_seen().len(), 3);
    assert_eq!(t.drops(DropReason::TcpListenAck), 10);
    assert_eq!(t.hits(Limit::ResetsPerSecond), 7);
    let mut t = Setup::plain().limit(Limit::ResetsPerSecond, 3).ladder();
    t.connect();
    t.expect(syn());
    for _ in 0..10 {
        t.send(syn_ack().ack(70));
    }
    let resets = t.take_seen().iter().filter(|seen| seen.has(Flags::RST)).count();
    assert_eq!(resets, 3);
    assert_eq!(t.drops(DropReason::TcpBadAck), 10);
    assert_eq!(t.hits(Limit::ResetsPerSecond), 7);
}

/// RFC 5961 3.2-b.
#[test]
fn an_exact_rst_closes() {
    let mut t = Setup::plain().established();
    t.send(rst().seq(1));
    t.nothing();
    t.state(State::Closed);
    assert_eq!(t.drops(DropReason::TcpRst), 1);
}

/// The data of a RST can only be a reason in text (RFC 9293 section 3.10.7.4).
/// RFC 9293 SHLD-2.
#[test]
fn data_on_a_rst_is_not_delivered() {
    let mut t = Setup::plain().established();
    t.send(rst().seq(1).data(20));
    t.state(State::Closed);
    assert_eq!(t.info().bytes_received, 0);
    t.close();
    t.all_gone();
}

/// RFC 5961 3.2-c.
#[test]
fn a_rst_in_the_window_is_challenged() {
    let mut t = Setup::plain().established();
    t.send(rst().seq(2));
    t.expect(seg().seq(1).ack(1));
    t.state(State::Established);
    assert_eq!(t.drops(DropReason::TcpBadRst), 1);
    assert_eq!(t.count(Counter::TcpChallengeAcks), 1);
}

/// RFC 5961 3.2-a.
#[test]
fn a_rst_outside_the_window_is_ignored() {
    let mut t = Setup::plain().established();
    for seq in [0, -1, 65_536, 1_000_000] {
        t.send(rst().seq(seq));
        t.nothing();
    }
    t.state(State::Established);
    assert_eq!(t.drops(DropReason::TcpOutOfWindow), 4);
}

/// RFC 9293 MUST-66.
#[test]
fn a_rst_at_a_shut_window_closes() {
    let mut t = Setup::plain().tcp(|c| c.receive_buffer_bytes = 1000).established();
    t.send(seg().data(1000));
    t.expect(seg().ack(1001).win(0));
    t.send(rst().seq(1001));
    t.state(State::Closed);
}

/// RFC 5961 4.2-a, 4.2-b.
#[test]
fn a_syn_on_an_established_connection_is_challenged() {
    let mut t = Setup::plain().established();
    for seq in [0, 1, 50, 100_000] {
        t.send(bare(Flags::SYN).seq(seq));
        t.expect(seg().seq(1).ack(1));
    }
    t.send(seg().and_syn().seq(1).ack(1));
    t.expect(seg().seq(1).ack(1));
    t.state(State::Established);
    assert_eq!(t.count(Counter::TcpChallengeAcks), 5);
}

/// RFC 9293 returns to LISTEN for a SYN in the window of SYN-RECEIVED. The stack answers with a
/// challenge ACK as in other states: otherwise an off-path attacker could close half-open
/// connections (RFC 5961).
#[test]
fn a_syn_in_the_window_of_syn_received_is_challenged() {
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.send(bare(Flags::SYN).seq(1));
    t.expect(seg().seq(1).ack(1));
    t.send(seg().seq(1).ack(1));
    t.accept();
}

/// RFC 5961 5.2-a.
#[test]
fn an_ack_of_what_was_never_sent_is_challenged() {
    let mut t = Setup::plain().established();
    t.send(seg().seq(1).ack(2).data(10));
    t.expect(seg().seq(1).ack(1));
    assert_eq!(t.drops(DropReason::TcpAckUnsent), 1);
}

/// RFC 5961 section 5.2: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT.
/// RFC 5961 5.2-a.
#[test]
fn an_ack_older_than_the_largest_window_is_challenged() {
    let mut t = Setup::plain().peer_window(5000).established();
    t.send(seg().seq(1).ack(1 - 5000).data(10));
    t.nothing();
    t.send(seg().seq(11).ack(1 - 5001).data(10));
    t.expect(seg().seq(1).ack(11));
    assert_eq!(t.drops(DropReason::TcpAckTooOld), 1);
    assert_eq!(t.info().bytes_received, 10);
}

/// Once the limit of challenge ACKs is reached, every segment that would get one is dropped under
/// one reason.
/// RFC 5961 7-a, 7-b.
#[test]
fn challenge_acks_are_rate_limited() {
    let lies = [
        (rst().seq(2), DropReason::TcpBadRst),
        (bare(Flags::SYN).seq(9), DropReason::TcpSynInWindow),
        (seg().seq(1).ack(2), DropReason::TcpAckUnsent),
        (seg().seq(1).ack(-65_536), DropReason::TcpAckTooOld),
    ];
    for (lie, reason) in lies {
        let mut t = Setup::plain().limit(Limit::ChallengeAcksPerSecond, 5).established();
        for _ in 0..20 {
            t.send(lie.clone());
        }
        let answers = t.take_seen().len() as u64;
        assert!((3..=5).contains(&answers), "{answers}");
        assert_eq!(t.count(Counter::TcpChallengeAcks), answers);
        assert_eq!(t.drops(reason), answers);
        assert_eq!(t.drops(DropReason::TcpChallengeLimited), 20 - answers);
        assert_eq!(t.hits(Limit::ChallengeAcksPerSecond), 20 - answers);
        t.pass(1000);
        t.send(lie);
        t.expect(seg().seq(1).ack(1));
        t.state(State::Established);
    }
}

#[test]
fn a_segment_without_ack_is_dropped() {
    let mut t = Setup::plain().established();
    t.send(seg().no_ack().seq(1).data(10));
    t.nothing();
    assert_eq!(t.drops(DropReason::TcpNoAck), 1);
}

#[test]
fn a_segment_outside_the_window_draws_an_ack() {
    let mut t = Setup::plain().established();
    t.send(seg().seq(65_536).data(10));
    t.expect(seg().ack(1));
    t.send(seg().seq(-100).data(50));
    t.expect(seg().ack(1));
    assert_eq!(t.drops(DropReason::TcpOutOfWindow), 1);
    assert_eq!(t.drops(DropReason::TcpDuplicate), 1);
}

/// RFC 6093: the urgent byte stays in the stream, whatever the pointer is.
#[test]
fn urgent_data_stays_in_the_stream() {
    let mut t = Setup::plain().established();
    t.send(seg().seq(1).data(100).urg(50));
    t.send(seg().seq(101).data(100).urg(0xffff));
    t.send(seg().seq(201).data(0).urg(10));
    t.read(200);
    t.state(State::Established);
}

fn isn_at(t: &mut Ladder, seed: [u64; 2], port: u16, at: u64) -> u32 {
    use inet::FlowKey;
    let secret = base::KeyedHash::new(seed[0], seed[1]);
    let key = FlowKey::new(t.end.addr, 80, t.wire.addr, port);
    let now = Instant::from_nanos(at);
    tcp::isn::initial_sequence_number(&secret, [key.hash(&secret), 1], now).0
}

/// RFC 9293 MUST-8. RFC 6528 3-a.
#[test]
fn keyed_isn_clock_ticks_every_4_us() {
    let mut t = Setup::plain().ladder();
    let a = isn_at(&mut t, [1, 2], 7, 8_000);
    assert_eq!(isn_at(&mut t, [1, 2], 7, 11_999), a);
    assert_eq!(isn_at(&mut t, [1, 2], 7, 12_000), a.wrapping_add(1));
    assert_eq!(isn_at(&mut t, [1, 2], 7, 4_000_008_000), a.wrapping_add(1_000_000));
}

/// RFC 9293 SHLD-1, MUST-9. RFC 6528 3-b.
#[test]
fn keyed_isn_differs_by_tuple_and_by_secret() {
    let mut t = Setup::plain().ladder();
    let a = isn_at(&mut t, [1, 2], 7, 8_000);
    assert_ne!(isn_at(&mut t, [1, 2], 8, 8_000), a);
    assert_ne!(isn_at(&mut t, [1, 3], 7, 8_000), a);
}

/// 10,000 tuples at one time: all ISNs differ, no difference between two repeats, and each bit is
/// set in half of them.
/// RFC 6528 3-b.
#[test]
fn number_jack_predictable_isn() {
    let mut t = Setup::plain().ladder();
    let isns: Vec<u32> = (0..10_000).map(|p| isn_at(&mut t, [1, 2], p, 8_000)).collect();
    let distinct = |mut v: Vec<u32>| {
        v.sort_unstable();
        v.dedup();
        v.len()
    };
    assert!(distinct(isns.clone()) > 9_980);
    let steps = isns.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
    assert!(distinct(steps) > 9_970);
    for bit in 0..32 {
        let ones = isns.iter().filter(|&&i| i >> bit & 1 == 1).count();
        assert!((4_700..5_300).contains(&ones), "bit {bit}: {ones}");
    }
}

/// The stack uses these ISNs: the SYN-ACK contains the ISN of its tuple, and another tuple's
/// differs.
/// RFC 6528 3-a.
#[test]
fn keyed_isn_is_what_a_syn_ack_carries() {
    let mut t = Setup::plain().ladder();
    t.listen();
    let mut isns = Vec::new();
    for port in [1, 2, 3] {
        t.wire.ports.0 = port;
        t.send(syn());
        t.expect(syn_ack());
        isns.push(t.wire.stack_isn.0);
        let seed = [0x1d ^ 1, 0x2e];
        let now = t.now.as_nanos();
        assert_eq!(isn_at(&mut t, seed, port, now), isns[isns.len() - 1]);
    }
    assert!(isns[1].wrapping_sub(isns[0]) != isns[2].wrapping_sub(isns[1]));
}
