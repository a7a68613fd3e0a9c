//! Peers that complete the handshake and then break the rules: windows that stay closed, ACKs of
//! data that was not sent, too many ACKs, windows of one byte. RFC 5681, RFC 3465, RFC 6429, RFC
//! 9293 3.8.6.

use base::{DropReason, Duration, Limit};
use tcp::State;

use super::{MSS, NOW, Scene, nothing_is_left, open};
use crate::pair::PairConfig;
use crate::tests::craft::Tcp;

/// The payload of a full segment to a peer of MSS 1460, in bytes.
const SEGMENT: u32 = 1_460;

/// Sends the victim's first flight; returns its number of bytes.
fn first_flight(s: &mut Scene) -> u32 {
    s.write(s.victim, 1 << 20);
    let sent: usize = s.sent().iter().map(|(_, payload)| payload.len()).sum();
    assert!(sent as u32 >= 4 * SEGMENT, "{sent}");
    sent as u32
}

/// ACKs of data that was never sent change nothing, and are answered with the victim's position.
#[test]
fn optimistic_ack() {
    let mut s = Scene::new(&MSS);
    let flight = first_flight(&mut s);
    let before = s.bench.stack.tcp_info(s.victim).expect("open");
    for ahead in [1, SEGMENT, 10 * SEGMENT, 1 << 30] {
        let lie = Tcp { ack: s.next.ack + flight + ahead, ..s.next.clone() };
        let answers = s.give(&lie);
        assert_eq!(answers.len(), 1);
        assert_eq!((answers[0].0.ack, answers[0].1.len()), (s.next.seq, 0));
    }
    assert_eq!(s.dropped(DropReason::TcpAckUnsent), 4);
    let after = s.bench.stack.tcp_info(s.victim).expect("open");
    assert_eq!((after.cwnd, after.in_flight), (before.cwnd, before.in_flight));
    assert_eq!(after.bytes_acked, before.bytes_acked);
    s.victim_goes_on();
    s.end();
}

/// RFC 3465: cwnd grows by the acknowledged bytes, however many ACKs acknowledge them.
#[test]
fn ack_division() {
    let window_after = |ack_every: u32| {
        let mut s = Scene::new(&MSS);
        first_flight(&mut s);
        let mut acked = 0;
        while acked < 2 * SEGMENT {
            acked = (acked + ack_every).min(2 * SEGMENT);
            let ack = Tcp { ack: s.next.ack + acked, ..s.next.clone() };
            s.give(&ack);
        }
        let cwnd = s.bench.stack.tcp_info(s.victim).expect("open").cwnd;
        s.end();
        cwnd
    };
    let honest = window_after(2 * SEGMENT);
    for ack_every in [1, 7, 100, SEGMENT] {
        let cwnd = window_after(ack_every);
        assert!(cwnd <= honest, "cwnd {cwnd} by ACKs of {ack_every} bytes, {honest} by one ACK");
    }
}

/// Endless duplicate ACKs: each reports an arrived segment, but no more segments can have arrived
/// than were sent. RFC 5681 section 3.2 step 4.
#[test]
fn dup_ack_spoof() {
    for options in [&MSS[..], &super::SACK] {
        let mut s = Scene::new(options);
        let flight = first_flight(&mut s);
        let mut sent = 0;
        for _ in 0..10_000 {
            let again = s.next.clone();
            for (header, payload) in s.give(&again) {
                let behind = (header.seq + payload.len() as u32).since(s.next.ack) as u32;
                assert!(behind <= 2 * flight + 2 * SEGMENT, "{behind} bytes, {flight} in flight");
                sent += payload.len() as u32;
            }
        }
        // At most the first flight again, and as many bytes of new data.
        assert!(
            sent <= 2 * flight + 2 * SEGMENT,
            "{sent} bytes sent for no ACK, {flight} in flight"
        );
        let info = s.bench.stack.tcp_info(s.victim).expect("open");
        assert!(info.cwnd <= u64::from(2 * flight), "{} of {flight} bytes", info.cwnd);
        s.end();
    }
}

/// Peers that open a connection, send a request, and close their windows for good. Some answer
/// every probe (sockstress): RFC 9293 section 3.8.6.1 keeps their connections, at the cost of
/// occasional probes. Others are silent (Netkill): the user timeout ends their connections. Memory
/// is bounded, the connection beside them goes on, and a program that closes such a connection gets
/// rid of it.
#[test]
fn sockstress_zero_window_netkill() {
    const PEERS: u16 = 60;
    let minute = Duration::from_secs(60);
    let tcp = tcp::Config { user_timeout: Some(minute), ..tcp::Config::default() };
    let mut config = PairConfig::new([41, 42]);
    config.stack.budget.set(Limit::MbufBytes, 8 << 20);
    let mut s = Scene::with(&config, tcp, &MSS);
    let mut peers = Vec::new();
    for n in 0..PEERS {
        let next = Tcp { window: 0, ..open(&mut s.bench, 10_000 + n, 0, &MSS, s.now) };
        let handle = s.bench.stack.tcp_accept(s.listener).expect("established");
        s.write(handle, 1 << 20);
        peers.push((handle, next));
    }
    assert!(s.held_bytes() <= 8 << 20, "{} bytes", s.held_bytes());
    s.beside_goes_on();
    let mut probes = 0;
    for second in 0..1_800 {
        for (header, payload) in s.pass(1_000) {
            assert!(payload.len() <= 1, "{} bytes into a shut window", payload.len());
            let Some((_, next)) = peers.get(usize::from(header.dst_port) - 10_000) else {
                continue;
            };
            // The first half of the peers are sockstress peers, which answer.
            if header.dst_port < 10_000 + PEERS / 2 {
                probes += 1;
                let still_shut = s.bench.tcp_frame(&next.clone());
                s.bench.inject(&still_shut);
            }
        }
        if second == 100 {
            s.beside_goes_on();
        }
    }
    let (sockstress, netkill) = peers.split_at(usize::from(PEERS / 2));
    for (handle, _) in netkill {
        let gone = s.bench.stack.tcp_state(*handle).expect("kept for its user");
        assert_eq!(gone, (State::Closed, Some(tcp::Error::TimedOut)));
        s.bench.stack.tcp_close(*handle);
    }
    // About one probe in a minute for each, once the probes have backed off.
    assert!(probes < 60 * sockstress.len(), "{probes}");
    for (handle, _) in sockstress {
        s.bench.stack.tcp_close(*handle);
    }
    // They still answer, but the program has closed its sockets.
    for _ in 0..4_000 {
        for (header, _) in s.pass(1_000) {
            if let Some((_, next)) = peers.get(usize::from(header.dst_port.max(10_000)) - 10_000) {
                let still_shut = s.bench.tcp_frame(&next.clone());
                s.bench.inject(&still_shut);
            }
        }
    }
    assert_eq!(s.bench.stack.connection_count(), 2);
    s.end();
}

/// A peer whose window grows by a byte at a time is not sent a segment for each (RFC 9293 section
/// 3.8.6.2.1), and a program that reads a byte at a time causes no window updates (3.8.6.2.2).
#[test]
fn silly_window_and_tiny_receive_buffer() {
    let mut s = Scene::new(&MSS);
    s.next.window = 0;
    let shut = s.next.clone();
    s.give(&shut);
    s.write(s.victim, 50_000);
    s.sent();
    let mut segments = 0;
    for n in 0..500 {
        s.next.window = 1 + n % 3;
        let offer = s.next.clone();
        for (header, payload) in s.give(&offer) {
            segments += 1;
            s.next.ack = s.next.ack.max(header.seq + payload.len() as u32);
        }
    }
    assert!(segments <= 5, "{segments} segments into windows of 1 to 3 bytes");
    s.end();

    let mut tcp = tcp::Config::default();
    tcp.set_fixed_buffers(3_000, 3_000);
    let mut s = Scene::with(&PairConfig::new([41, 42]), tcp, &MSS);
    let full = Tcp { payload: vec![7; 1_000], ..s.next.clone() };
    for _ in 0..3 {
        let part = Tcp { seq: s.next.seq, ..full.clone() };
        s.give(&part);
        s.next.seq += 1_000;
    }
    let beyond = Tcp { payload: vec![8; 1_000], ..s.next.clone() };
    s.give(&beyond);
    assert!(s.held_bytes() < 64 * 1024);
    let mut offered = Vec::new();
    for _ in 0..3_000 {
        assert_eq!(s.bench.stack.tcp_read(s.victim, &mut [0]), Ok(1));
        offered.extend(s.sent().iter().map(|(header, _)| header.window));
        offered.extend(s.pass(1).iter().map(|(header, _)| header.window));
    }
    // Each update offers at least half a buffer, or a segment, more than the update before.
    assert!(offered.len() <= 4, "{offered:?}");
    assert!(s.bench.stack.tcp_readable(s.victim) == Some((0, false)));
    s.end();
}

/// Many idle connections hold no buffers.
#[test]
fn silent_connections_hold_no_buffers() {
    let mut s = Scene::new(&MSS);
    let mut handles = Vec::new();
    for n in 0..2_000 {
        open(&mut s.bench, 10_000 + n, 0, &MSS, NOW);
        handles.push(s.bench.stack.tcp_accept(s.listener).expect("established"));
    }
    s.pass(1_000);
    assert!(s.held_bytes() < 256 * 1024, "{} bytes", s.held_bytes());
    s.beside_goes_on();
    handles.extend([s.victim, s.beside]);
    nothing_is_left(&mut s.bench, &handles, s.now);
}
