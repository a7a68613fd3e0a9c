//! SYN floods, and the SYN cookies that answer them.

use base::{Counter, DropReason, Duration, Instant, SeqNumber, Switch};
use wire::tcp::{Flags, Options};

use super::{NOW, nothing_is_left, syn};
use crate::pair::PairConfig;
use crate::tests::craft::{Bench, Tcp, parse_tcp, timestamps_option};
use crate::{ListenConfig, ListenerHandle};

const BACKLOG: usize = 8;

/// A stack with a listener whose backlog is full of SYNs that are never completed.
fn flooded(config: &PairConfig) -> (Bench, ListenerHandle) {
    let mut bench = Bench::new(config);
    let local = bench.listen_at(80);
    let listen = ListenConfig { backlog: BACKLOG, ..ListenConfig::default() };
    let listener = bench.stack.tcp_listen(local, listen).expect("free");
    for port in 1..=BACKLOG as u16 {
        let frame = bench.tcp_frame(&syn(10_000 + port));
        assert_eq!(bench.exchange(&frame, NOW).len(), 1);
    }
    assert_eq!(bench.stack.counters().of(Counter::TcpCookiesSent), 0);
    (bench, listener)
}

/// The options of a SYN: MSS 1460, SACK, timestamps, and window scale 7.
fn offered(ts: u32) -> Vec<u8> {
    let mut options = vec![2, 4, 0x05, 0xb4, 4, 2, 8, 10];
    options.extend(ts.to_be_bytes());
    options.extend([0, 0, 0, 0, 1, 3, 3, 7]);
    options
}

/// Gives the SYN `open`; returns the peer's next ACK, and the options of the SYN-ACK.
fn answered(bench: &mut Bench, open: &Tcp) -> (Tcp, Options) {
    let frame = bench.tcp_frame(open);
    let answer = bench.exchange(&frame, NOW);
    assert_eq!(answer.len(), 1, "a SYN-ACK");
    let (header, _) = parse_tcp(&answer[0]).expect("TCP");
    // The segment follows the headers of Ethernet and IPv4.
    let segment = &answer[0][34..];
    assert_eq!((header.flags, header.ack), (Flags::SYN | Flags::ACK, open.seq + 1));
    let said = Options::parse(header.options(segment)).expect("well formed");
    let options = match said.timestamps {
        Some(ts) => timestamps_option(ts.echo + 5, ts.value),
        None => Vec::new(),
    };
    let (seq, ack) = (open.seq + 1, header.seq + 1);
    (Tcp { seq, ack, flags: Flags::ACK, options, ..open.clone() }, said)
}

#[test]
fn syn_flood() {
    let (mut bench, listener) = flooded(&PairConfig::new([5, 6]));
    for port in 1..=20_000 {
        let frame = bench.tcp_frame(&syn(20_000 + port));
        assert_eq!(bench.exchange(&frame, NOW).len(), 1);
        assert_eq!(bench.stack.connection_count(), BACKLOG);
    }
    assert_eq!(bench.stack.counters().of(Counter::TcpCookiesSent), 20_000);
    // A real client connects in the middle of the flood.
    let open = Tcp { options: offered(77), ..syn(9) };
    let (ack, said) = answered(&mut bench, &open);
    assert_eq!((said.mss, said.sack_permitted), (Some(1460), true));
    assert!(said.window_scale.is_some() && said.timestamps.is_some_and(|ts| ts.echo == 77));
    let text = Tcp { payload: b"a request".to_vec(), flags: Flags::ACK | Flags::PSH, ..ack };
    let frame = bench.tcp_frame(&text);
    let answers = bench.exchange(&frame, NOW);
    let handle = bench.stack.tcp_accept(listener).expect("its cookie was good");
    let mut into = [0; 20];
    assert_eq!(bench.stack.tcp_read(handle, &mut into), Ok(9));
    assert!(answers.iter().all(|frame| {
        let flags = parse_tcp(frame).expect("TCP").0.flags;
        !flags.contains(Flags::SYN) && !flags.contains(Flags::RST)
    }));
    // The windows of the peer are scaled as its SYN offered.
    let info = bench.stack.tcp_info(handle).expect("open");
    assert_eq!(info.snd_wnd, 60_000 << 7);
    assert_eq!(bench.stack.counters().of(Counter::TcpCookiesAccepted), 1);
    nothing_is_left(&mut bench, &[handle], NOW);
}

/// A flood of SYNs, in bursts that are as full as possible; returns how many were answered.
fn burst_of_syns(bench: &mut Bench, numbers: core::ops::Range<u16>, now: Instant) -> usize {
    let mut answered = 0;
    for n in numbers {
        let frame = bench.tcp_frame(&syn(20_000 + n));
        while !bench.inject(&frame) {
            bench.stack.poll(now);
            answered += bench.sent().len();
        }
    }
    answered
}

/// More SYNs than the stack can process: only a repeated SYN is answered.
#[test]
fn syn_flood_that_overruns_the_device() {
    for repeated in [true, false] {
        let mut config = PairConfig::new([5, 6]);
        config.stack.switches = config.stack.switches.with(Switch::RepeatedSyns, repeated);
        let (mut bench, listener) = flooded(&config);
        let answered_of_flood = burst_of_syns(&mut bench, 0..6000, NOW);
        let dropped = bench.stack.drops().of(DropReason::TcpSynOnce);
        if !repeated {
            assert!(dropped == 0 && answered_of_flood > 5000, "{answered_of_flood}");
            continue;
        }
        assert!(dropped > 3000 && answered_of_flood < 2000, "{dropped} {answered_of_flood}");
        assert!(bench.stack.is_overrun);
        // A real client sends its SYN; the first one is not answered.
        let frame = bench.tcp_frame(&syn(9));
        assert!(bench.inject(&frame));
        burst_of_syns(&mut bench, 6000..12_000, NOW);
        let of_nine = |frame: &Vec<u8>| parse_tcp(frame).is_some_and(|(h, _)| h.dst_port == 9);
        assert!(!bench.sent().iter().any(of_nine));
        let later = NOW + Duration::from_secs(1);
        assert!(bench.inject(&frame));
        // One poll takes a limited number of bursts and leaves the other frames on the device.
        for _ in 0..10 {
            bench.stack.poll(later);
        }
        let answers = bench.sent();
        let answer =
            answers.iter().find(|frame| of_nine(frame)).expect("the repeated SYN is answered");
        let (header, _) = parse_tcp(answer).expect("TCP");
        let (seq, ack) = (SeqNumber(header.ack.0), header.seq + 1);
        let frame = bench.tcp_frame(&Tcp { seq, ack, flags: Flags::ACK, ..syn(9) });
        bench.exchange(&frame, later);
        let handle = bench.stack.tcp_accept(listener).expect("its cookie was good");
        // After the flood a first SYN is answered again.
        assert!(!bench.stack.is_overrun);
        answered(&mut bench, &syn(10));
        nothing_is_left(&mut bench, &[handle], later);
    }
}

#[test]
fn syn_cookie_bypass_and_ack_flood() {
    // A stack that never sent a cookie accepts no ACK as a cookie.
    let mut bench = Bench::new(&PairConfig::new([5, 6]));
    let local = bench.listen_at(80);
    bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    let guess = |port: u16, n: u32| Tcp {
        seq: SeqNumber(n),
        ack: SeqNumber(n.wrapping_mul(0x9e37_79b9)),
        flags: Flags::ACK,
        ..syn(port)
    };
    let refused = |bench: &mut Bench, segment: &Tcp| {
        let frame = bench.tcp_frame(segment);
        let answer = bench.exchange(&frame, NOW);
        answer.first().is_some_and(|frame| {
            parse_tcp(frame).is_some_and(|(header, _)| header.flags.contains(Flags::RST))
        })
    };
    assert!(refused(&mut bench, &guess(1, 1)));
    assert_eq!(bench.stack.counters().of(Counter::TcpCookiesRefused), 0);
    // A stack that sent cookies accepts only those.
    let (mut bench, listener) = flooded(&PairConfig::new([5, 6]));
    let (ack, _) = answered(&mut bench, &syn(9));
    for n in 0..50_000 {
        let frame = bench.tcp_frame(&guess(9, n));
        bench.exchange(&frame, NOW);
    }
    assert_eq!(bench.stack.counters().of(Counter::TcpCookiesRefused), 50_000);
    assert_eq!(bench.stack.connection_count(), BACKLOG);
    let other_port = Tcp { ports: (10, 80), ..ack.clone() };
    let frame = bench.tcp_frame(&other_port);
    bench.exchange(&frame, NOW);
    assert_eq!(bench.stack.tcp_accept(listener), None);
    let frame = bench.tcp_frame(&ack);
    assert_eq!(bench.exchange(&frame, NOW).len(), 0);
    let handle = bench.stack.tcp_accept(listener).expect("the right one");
    nothing_is_left(&mut bench, &[handle], NOW);
}

#[test]
fn a_cookie_promises_no_place_that_is_taken() {
    let (mut bench, listener) = flooded(&PairConfig::new([5, 6]));
    let mut acks = Vec::new();
    for port in 1..=2 * BACKLOG as u16 + 1 {
        acks.push(answered(&mut bench, &syn(port)).0);
    }
    for ack in &acks {
        let frame = bench.tcp_frame(ack);
        assert_eq!(bench.exchange(&frame, NOW).len(), 0, "a client was reset");
    }
    assert_eq!(bench.stack.drops().of(DropReason::TcpBacklogFull), 1);
    assert_eq!(bench.stack.counters().of(Counter::TcpCookiesLate), 1);
    // The program accepts no connections meanwhile, so no more cookies are sent.
    let sent = bench.stack.counters().of(Counter::TcpCookiesSent);
    let frame = bench.tcp_frame(&syn(99));
    bench.exchange(&frame, NOW);
    assert_eq!(bench.stack.counters().of(Counter::TcpCookiesSent), sent);
    let mut handles: Vec<_> = core::iter::from_fn(|| bench.stack.tcp_accept(listener)).collect();
    assert_eq!(handles.len(), 2 * BACKLOG);
    // The connection for which there was no room is made by its next segment.
    let frame = bench.tcp_frame(&acks[2 * BACKLOG]);
    bench.exchange(&frame, NOW + Duration::from_secs(1));
    handles.extend(bench.stack.tcp_accept(listener));
    assert_eq!(handles.len(), 2 * BACKLOG + 1);
    nothing_is_left(&mut bench, &handles, NOW + Duration::from_secs(1));
}

#[test]
fn without_cookies_a_full_backlog_drops() {
    let mut config = PairConfig::new([5, 6]);
    config.stack.switches = config.stack.switches.with(Switch::SynCookies, false);
    let (mut bench, _) = flooded(&config);
    let frame = bench.tcp_frame(&syn(1));
    assert_eq!(bench.exchange(&frame, NOW).len(), 0);
    assert_eq!(bench.stack.drops().of(DropReason::TcpBacklogFull), 1);
    nothing_is_left(&mut bench, &[], NOW);
}
