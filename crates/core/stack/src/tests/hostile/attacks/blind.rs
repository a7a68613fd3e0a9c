//! Attacks by guessing, from hosts that do not see the connection's packets: RFC 5961, RFC 7323
//! section 5.

use base::{Counter, DropReason, Limit, SeqNumber};
use tcp::State;
use wire::tcp::Flags;

use super::{BESIDE, MSS, Scene};
use crate::tests::craft::{Tcp, timestamps_option};

/// RFC 5961 3.2-a, 3.2-b, 3.2-c.
#[test]
fn blind_rst() {
    let mut s = Scene::new(&MSS);
    let window = s.bench.stack.tcp_info(s.victim).expect("open").rcv_wnd;
    let rst =
        |s: &Scene, by: u32| Tcp { flags: Flags::RST, seq: s.next.seq + by, ..s.next.clone() };
    for by in [1, 2, 1_000, window / 2, window - 1] {
        let guess = rst(&s, by);
        s.is_challenged(&guess);
    }
    assert_eq!(s.dropped(DropReason::TcpBadRst), 5);
    for by in [u32::MAX, window, window + 1, 1 << 31, 0_u32.wrapping_sub(70_000)] {
        let guess = rst(&s, by);
        s.is_ignored(&guess);
    }
    assert_eq!(s.dropped(DropReason::TcpOutOfWindow), 5);
    // RSTs over the whole sequence space, one window apart: one guess is in the window, none is
    // exact.
    let challenges = s.bench.stack.counters().of(Counter::TcpChallengeAcks);
    for n in 0..u32::MAX / window {
        let frame = s.bench.tcp_frame(&rst(&s, 7 + n * window));
        s.bench.exchange(&frame, s.now);
    }
    assert_eq!(s.bench.stack.counters().of(Counter::TcpChallengeAcks), challenges + 1);
    s.victim_goes_on();
    // The peer's own RST has the exact sequence number.
    let own = rst(&s, 0);
    s.is_ignored(&own);
    assert_eq!((s.state(), s.dropped(DropReason::TcpRst)), (State::Closed, 1));
    s.end();
}

/// RFC 5961 4.2-a.
#[test]
fn blind_syn() {
    let mut s = Scene::new(&MSS);
    let guesses = [0, 1, 30_000, 1 << 31, u32::MAX, 0_u32.wrapping_sub(100_000)];
    for flags in [Flags::SYN, Flags::SYN | Flags::ACK] {
        for by in guesses {
            // A SYN-ACK that the peer itself could have repeated is another case.
            let again = flags.contains(Flags::ACK) && by == u32::MAX;
            let guess = Tcp { flags, seq: s.next.seq + by, ..s.next.clone() };
            if !again {
                s.is_challenged(&guess);
            }
        }
    }
    let reasons =
        [DropReason::TcpSynInWindow, DropReason::TcpOutOfWindow, DropReason::TcpDuplicate];
    let dropped: u64 = reasons.map(|reason| s.dropped(reason)).iter().sum();
    assert_eq!(dropped, 2 * guesses.len() as u64 - 1);
    assert_eq!(s.bench.stack.counters().of(Counter::TcpAccepts), 2);
    s.victim_goes_on();
    s.end();
}

/// RFC 5961 5.2-a.
#[test]
fn blind_data_injection() {
    let mut s = Scene::new(&MSS);
    let lie = |s: &Scene, by: u32, ack: u32| Tcp {
        seq: s.next.seq + by,
        ack: s.next.ack + ack,
        payload: b"a lie".to_vec(),
        ..s.next.clone()
    };
    for ack in [1, 100_000, 1 << 30, 1 << 31, 0_u32.wrapping_sub(60_001), 1 << 31 | 1] {
        for by in [0, 10_000] {
            let guess = lie(&s, by, ack);
            s.is_challenged(&guess);
        }
    }
    let refused = s.dropped(DropReason::TcpAckUnsent) + s.dropped(DropReason::TcpAckTooOld);
    assert_eq!(refused, 12);
    // Of ACK numbers over the whole space only those of the last window are accepted.
    let step = 1 << 20;
    for n in 0..1 << 12 {
        let frame = s.bench.tcp_frame(&lie(&s, 10_000, 500_000 + n * step));
        s.bench.exchange(&frame, s.now);
    }
    assert_eq!(s.bench.stack.tcp_info(s.victim).expect("open").out_of_order, 0);
    assert_eq!(s.bench.stack.tcp_readable(s.victim), Some((0, false)));
    s.victim_goes_on();
    s.end();
}

/// An attacker counts, on his own connection, how many challenge ACKs are left after he provoked
/// those of another connection: as many as before. RFC 5961 7-a, 7-b.
#[test]
fn cve_2016_5696() {
    let mut s = Scene::new(&MSS);
    let least = s.bench.stack.budget().of(Limit::ChallengeAcksPerSecond) / 2;
    let lies: [fn(&Tcp) -> Tcp; 3] = [
        |t| Tcp { flags: Flags::RST, seq: t.seq + 9, ..t.clone() },
        |t| Tcp { flags: Flags::SYN, ..t.clone() },
        |t| Tcp { ack: t.ack + 9, ..t.clone() },
    ];
    for lie in lies {
        let mut drawn = [0, 0];
        for (count, of) in drawn.iter_mut().zip([s.next.clone(), s.beside_next.clone()]) {
            for _ in 0..10 * least {
                *count += s.give(&lie(&of)).len();
            }
        }
        assert!(drawn.iter().all(|&count| count >= least), "{drawn:?} of {least}");
        s.pass(1_001);
    }
    assert!(s.dropped(DropReason::TcpChallengeLimited) > 0);
    s.victim_goes_on();
    s.end();
}

/// RFC 7323 5.2-a, 5.3-a.
#[test]
fn tsval_paws_stale() {
    let with_timestamps = [&MSS[..], &timestamps_option(1_000_000, 0)].concat();
    let mut s = Scene::new(&with_timestamps);
    let at = |s: &Scene, value: u32| Tcp {
        options: timestamps_option(value, 0),
        payload: b"a lie".to_vec(),
        ..s.next.clone()
    };
    for old in [1 << 30, (1 << 31) - 1].map(|by| 1_000_000_u32.wrapping_sub(by)) {
        let guess = at(&s, old);
        s.is_challenged(&guess);
    }
    assert_eq!(s.dropped(DropReason::TcpPaws), 2);
    // A segment without timestamps is judged by its sequence and ACK numbers alone (decision 0106).
    let bare = Tcp { options: Vec::new(), payload: b"a lie".to_vec(), ..s.next.clone() };
    s.is_challenged(&Tcp { ack: bare.ack + 1_000, ..bare.clone() });
    // A timestamp far in the future in a refused segment is not recorded: the peer's later segments
    // are still accepted.
    for by in [1 << 30, 1 << 31] {
        let mut guess = at(&s, 1_000_000 + (1 << 30));
        guess.seq += by;
        s.give(&guess);
        let mut guess = at(&s, 1_000_000 + (1 << 30));
        guess.ack += 1_000;
        s.give(&guess);
    }
    s.victim_goes_on();
    // A RST needs no timestamp (RFC 7323 section 5.2), but its sequence number still has to be
    // exact.
    let near = Tcp { flags: Flags::RST, seq: s.next.seq + 1, ..bare.clone() };
    s.is_challenged(&near);
    assert_eq!((s.dropped(DropReason::TcpBadRst), s.state()), (1, State::Established));
    s.end();
}

/// The attacker's own connection must not get an answer that reveals the victim's state: whatever
/// he sends on it, the answers are about his connection only.
#[test]
fn answers_go_to_whom_they_are_about() {
    let mut s = Scene::new(&MSS);
    let his = s.beside_next.clone();
    for flags in [Flags::RST, Flags::SYN, Flags::ACK, Flags::NONE, Flags::FIN | Flags::ACK] {
        let odd = Tcp { flags, seq: SeqNumber(77), ack: SeqNumber(99), ..his.clone() };
        let answers = s.give(&odd);
        assert!(answers.iter().all(|(header, _)| header.dst_port == BESIDE), "{flags:?}");
        s.pass(1_001);
    }
    s.victim_goes_on();
    s.end();
}
