//! Bad input on every layer: nothing panics and nothing leaks; every frame that is not delivered is
//! counted under exactly one reason; every answer that a remote host can cause is rate-limited.

mod attacks;
mod bytes;
mod cookies;
mod fields;
mod limits;
mod memory;
mod orphans;
mod states;

use base::{Counter, DropReason, Instant};
use wire::tcp::Flags;

use crate::pair::PairConfig;
use crate::tests::craft::{Bench, Tcp, parse_tcp};
use crate::{ListenConfig, TcpHandle};

pub(super) const NOW: Instant = Instant::from_nanos(5_000_000_000);

/// A stack with a listener and one connection: returns the connection's handle, and the peer's next
/// segment.
fn established(config: &PairConfig, tcp: tcp::Config) -> (Bench, TcpHandle, Tcp) {
    let mut bench = Bench::new(config);
    let local = bench.listen_at(80);
    let listen = ListenConfig { tcp, ..ListenConfig::default() };
    let listener = bench.stack.tcp_listen(local, listen).expect("free");
    let next = handshake(&mut bench, 2_000, NOW);
    let handle = bench.stack.tcp_accept(listener).expect("established");
    while bench.stack.next_event().is_some() {}
    (bench, handle, next)
}

/// Open a connection from `port` without options; returns the peer's next segment.
fn handshake(bench: &mut Bench, port: u16, now: Instant) -> Tcp {
    let syn = syn(port);
    let frame = bench.tcp_frame(&syn);
    let answer = bench.exchange(&frame, now);
    let (header, _) = parse_tcp(&answer[0]).expect("SYN, ACK");
    assert_eq!(header.flags, Flags::SYN | Flags::ACK);
    let ack = Tcp { seq: syn.seq + 1, ack: header.seq + 1, flags: Flags::ACK, ..syn };
    let frame = bench.tcp_frame(&ack);
    assert_eq!(bench.exchange(&frame, now).len(), 0);
    ack
}

fn syn(port: u16) -> Tcp {
    Tcp {
        ports: (port, 80),
        seq: base::SeqNumber(u32::MAX - 300),
        ack: base::SeqNumber(0),
        flags: Flags::SYN,
        window: 60_000,
        urgent: 0,
        options: Vec::new(),
        payload: Vec::new(),
    }
}

/// Give one frame to the stack and check its counters: the frame was dropped under exactly one
/// reason, or delivered to TCP, to a UDP socket or to neighbour discovery, or answered as an echo
/// request. Over all frames: frames in == delivered + dropped + fragments held. An answer that
/// could not be sent is a second packet with its own drop reason.
fn account(bench: &mut Bench, frame: &[u8], now: Instant) -> Vec<Vec<u8>> {
    let totals = |bench: &Bench| {
        let (counters, drops) = (bench.stack.counters(), bench.stack.drops());
        let no_route = [
            DropReason::IpNoRoute,
            DropReason::IpNoNeighbour,
            DropReason::NeighbourQueueFull,
            DropReason::NeighbourTableFull,
        ];
        let no_route = no_route.map(|reason| drops.of(reason)).iter().sum();
        let others = [
            Counter::UdpIn,
            Counter::IcmpEchoReplies,
            Counter::IcmpEchoRepliesIn,
            Counter::IcmpErrorsIn,
            Counter::ArpIn,
            Counter::NdIn,
        ];
        let others = others.map(|counter| counters.of(counter)).iter().sum();
        let tcp = counters.of(Counter::TcpSegmentsIn);
        let pieces = counters.of(Counter::FragmentsIn);
        let joined = counters.of(Counter::DatagramsReassembled);
        let held = bench.stack.frags.held() as u64;
        let frames = counters.of(Counter::RxFrames);
        [frames, drops.total(), no_route, others, tcp, pieces, joined, held]
    };
    let before = totals(bench);
    let sent = bench.exchange(frame, now);
    let after = totals(bench);
    let [frames, dropped, no_route, others, tcp, pieces, joined, _] =
        core::array::from_fn(|i| after[i].wrapping_sub(before[i]));
    assert_eq!(frames, 1);
    let answer_lost = dropped == 2 && no_route == 1;
    let settled = match dropped {
        // A fragment is held, or it is dropped, perhaps with held fragments of its datagram.
        _ if pieces == 1 && joined == 0 => {
            dropped - no_route + after[7] == before[7] + 1 && others + tcp == 0
        }
        0 => others + tcp == 1,
        _ => (dropped == 1 || answer_lost) && others == 0 && tcp <= 1,
    };
    let reasons: Vec<_> = bench.stack.drops().nonzero().collect();
    assert!(settled, "{dropped} drops, {others} + {tcp} delivered, {reasons:?}: {frame:x?}");
    sent
}

/// Closes the connections; afterwards no buffer of the stack's or the peer's pool is in use.
fn nothing_is_left(bench: &mut Bench, handles: &[TcpHandle], mut now: Instant) {
    for &handle in handles {
        bench.stack.tcp_abort(handle);
    }
    for _ in 0..40 {
        bench.stack.poll(now);
        bench.sent();
        now += base::Duration::from_secs(30);
    }
    assert_eq!(bench.stack.connection_count(), 0);
    assert_eq!(bench.stack.time_wait_count(), 0);
    assert_eq!(bench.stack.pool().outstanding(), 0);
    assert_eq!(bench.peers_buffers_out(), 0);
}
