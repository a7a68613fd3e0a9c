//! Peers that never finish a close: FIN-WAIT-2, CLOSE-WAIT, LAST-ACK and TIME-WAIT in large
//! numbers. RFC 9293 section 3.6, RFC 1122 section 4.2.2.20, RFC 1337, RFC 6191.

use base::{DropReason, Duration, Limit};
use tcp::State;
use wire::tcp::Flags;

use super::{MSS, Scene, open};
use crate::TcpHandle;
use crate::pair::PairConfig;
use crate::tests::craft::Tcp;

const CROWD: u16 = 500;

/// Many connections, each with its handle and its peer's next segment.
fn crowd(s: &mut Scene) -> Vec<(TcpHandle, Tcp)> {
    let mut crowd = Vec::new();
    for n in 0..CROWD {
        let next = open(&mut s.bench, 10_000 + n, 60_000, &MSS, s.now);
        crowd.push((s.bench.stack.tcp_accept(s.listener).expect("established"), next));
    }
    crowd
}

fn exchange(s: &mut Scene, segment: &Tcp) {
    let frame = s.bench.tcp_frame(segment);
    s.bench.exchange(&frame, s.now);
}

#[test]
fn fin_wait_2_close_wait_time_wait_exhaustion() {
    let mut config = PairConfig::new([41, 42]);
    config.stack.budget.set(Limit::TimeWait, 100);
    let mut s = Scene::with(&config, tcp::Config::default(), &MSS);
    // FIN-WAIT-2: the stack's FIN is acknowledged, but the peer's FIN never comes. The user has
    // closed and cannot read, so the state lasts a minute.
    for (handle, next) in crowd(&mut s) {
        s.bench.stack.tcp_close(handle);
        exchange(&mut s, &Tcp { ack: next.ack + 1, ..next });
    }
    assert!(s.bench.stack.connection_count() <= usize::from(CROWD) + 2);
    for _ in 0..130 {
        s.pass(1_000);
        assert!(s.bench.stack.time_wait_count() <= 100);
    }
    assert_eq!((s.bench.stack.connection_count(), s.bench.stack.time_wait_count()), (2, 0));
    s.beside_goes_on();
    // CLOSE-WAIT lasts until the program closes; then comes LAST-ACK, and the peer does not
    // acknowledge its FIN.
    let waiting = crowd(&mut s);
    for (_, next) in &waiting {
        exchange(&mut s, &Tcp { flags: Flags::FIN | Flags::ACK, ..next.clone() });
    }
    s.pass(60_000);
    for (handle, _) in &waiting {
        assert_eq!(s.bench.stack.tcp_info(*handle).expect("open").state, State::CloseWait);
    }
    let held = s.held_bytes();
    assert!(held < 256 * 1024, "{held} bytes for {CROWD} connections in CLOSE-WAIT");
    for (handle, _) in &waiting {
        s.bench.stack.tcp_close(*handle);
    }
    for _ in 0..1_500 {
        s.pass(1_000);
    }
    assert_eq!(s.bench.stack.connection_count(), 2);
    s.beside_goes_on();
    // Hundreds of TIME-WAIT states: their records are small and their number is bounded, and other
    // connections go on.
    for (handle, next) in crowd(&mut s) {
        s.bench.stack.tcp_close(handle);
        let fin = Tcp { ack: next.ack + 1, flags: Flags::FIN | Flags::ACK, ..next };
        exchange(&mut s, &fin);
        assert!(s.bench.stack.time_wait_count() <= 100);
    }
    assert!(s.bench.stack.budget().hits(Limit::TimeWait) >= u64::from(CROWD) - 100);
    assert_eq!(s.bench.stack.connection_count(), 2);
    s.victim_goes_on();
    s.end();
}

/// RFC 1337: old segments must not end TIME-WAIT early; only a RST at the very next sequence number
/// does (RFC 9293 section 3.10.7.4), and a newer SYN replaces the record (RFC 6191).
#[test]
fn time_wait_assassination() {
    let mut s = Scene::new(&MSS);
    let next = open(&mut s.bench, 9_000, 60_000, &MSS, s.now);
    let handle = s.bench.stack.tcp_accept(s.listener).expect("established");
    s.bench.stack.tcp_close(handle);
    let fin = Tcp { ack: next.ack + 1, flags: Flags::FIN | Flags::ACK, ..next };
    exchange(&mut s, &fin);
    assert_eq!(s.bench.stack.time_wait_count(), 1);
    let end = fin.seq + 1;
    for flags in [Flags::RST, Flags::RST | Flags::ACK] {
        for seq in [end + 1, end - 1, end + 70_000, end - 70_000] {
            s.is_ignored(&Tcp { flags, seq, ..fin.clone() });
        }
    }
    assert_eq!(s.dropped(DropReason::TcpTimeWait), 8);
    // Old data, an old SYN, an ACK of data that was never sent: each is answered, and the record
    // stays.
    let old = [
        Tcp { seq: end - 500, flags: Flags::ACK, payload: vec![1; 20], ..fin.clone() },
        Tcp { seq: end - 500, flags: Flags::SYN, ..fin.clone() },
        Tcp { seq: end, ack: fin.ack + 1_000, flags: Flags::ACK, payload: vec![1], ..fin.clone() },
    ];
    for segment in old {
        let answers = s.give(&segment);
        assert!(answers.iter().all(|(h, _)| h.flags == Flags::ACK && h.ack == end));
        assert_eq!(s.bench.stack.time_wait_count(), 1);
    }
    s.now += Duration::from_secs(58);
    s.pass(0);
    assert_eq!(s.bench.stack.time_wait_count(), 1, "an old segment ended TIME-WAIT");
    s.victim_goes_on();
    s.end();
}
