use base::{Duration, Instant, Owner};
use tcp::State;
use wire::tcp::Flags;

use super::{NOW, established, handshake, nothing_is_left, syn};
use crate::pair::PairConfig;
use crate::tests::craft::{Bench, Tcp};
use crate::{ListenConfig, TcpHandle};

const STATES: [State; 8] = [
    State::SynSent,
    State::Established,
    State::CloseWait,
    State::FinWait1,
    State::FinWait2,
    State::Closing,
    State::LastAck,
    State::TimeWait,
];

/// A connection in `state`, with unread data, out-of-order data and unsent data where the state
/// allows them.
fn in_state(state: State) -> (Bench, TcpHandle) {
    let config = PairConfig::new([11, 12]);
    if state == State::SynSent {
        let mut bench = Bench::new(&config);
        let remote = core::net::SocketAddr::new(bench.theirs, 7);
        let tcp = tcp::Config::default();
        let owner = Owner::program();
        let handle = bench.stack.tcp_connect(remote, None, &tcp, owner, NOW).expect("routed");
        bench.stack.tcp_write(handle, &[1; 5_000]).expect("room");
        bench.sent();
        return (bench, handle);
    }
    let (mut bench, handle, mut next) = established(&config, tcp::Config::default());
    let mut give = |bench: &mut Bench, flags: Flags, offset: u32, payload: &[u8], acked: u32| {
        let segment = Tcp {
            flags: flags | Flags::ACK,
            seq: next.seq + offset,
            ack: next.ack + acked,
            payload: payload.to_vec(),
            ..next.clone()
        };
        let frame = bench.tcp_frame(&segment);
        bench.exchange(&frame, NOW);
        if offset == 0 {
            next.seq += payload.len() as u32 + u32::from(flags.contains(Flags::FIN));
        }
    };
    give(&mut bench, Flags::NONE, 0, &[1; 500], 0);
    let fin_first = matches!(state, State::CloseWait | State::LastAck);
    if fin_first {
        give(&mut bench, Flags::FIN, 0, &[2; 500], 0);
    } else {
        give(&mut bench, Flags::NONE, 700, &[3; 100], 0);
    }
    if matches!(state, State::Established | State::CloseWait) {
        bench.stack.tcp_write(handle, &[1; 60_000]).expect("room");
    } else {
        bench.stack.tcp_write(handle, &[1; 100]).expect("room");
        bench.stack.tcp_shutdown_write(handle);
    }
    match state {
        State::FinWait2 => give(&mut bench, Flags::NONE, 0, &[], 101),
        State::Closing => {
            give(&mut bench, Flags::NONE, 0, &[2; 800], 0);
            give(&mut bench, Flags::FIN, 0, &[], 0);
        }
        State::TimeWait => {
            give(&mut bench, Flags::NONE, 0, &[2; 800], 101);
            give(&mut bench, Flags::FIN, 0, &[], 101);
        }
        _ => {}
    }
    let seen = bench.stack.tcp_info(handle).expect("there").state;
    assert_eq!(seen, state);
    bench.sent();
    (bench, handle)
}

#[test]
fn a_connection_let_go_in_any_state_leaks_nothing() {
    for state in STATES {
        for abort in [false, true] {
            let (mut bench, handle) = in_state(state);
            if abort {
                bench.stack.tcp_abort(handle);
            } else {
                bench.stack.tcp_close(handle);
            }
            // The peer sends nothing from here on.
            let mut now = NOW;
            for _ in 0..80 {
                now += Duration::from_secs(30);
                bench.stack.poll(now);
                bench.sent();
            }
            nothing_is_left(&mut bench, &[], now);
        }
    }
}

#[test]
fn a_reset_in_any_state_leaks_nothing() {
    for state in STATES {
        let (mut bench, handle) = in_state(state);
        let pcb = bench.stack.connections.get(handle).expect("there");
        let (seq, ack, port) = (pcb.tcb.rcv_nxt, pcb.tcb.snd_nxt, pcb.key.remote().port());
        let ports = (port, pcb.key.local().port());
        let flags = Flags::RST | Flags::ACK;
        let reset = Tcp { ports, seq, ack, flags, ..syn(port) };
        let frame = bench.tcp_frame(&reset);
        assert_eq!(bench.exchange(&frame, NOW).len(), 0);
        assert!(state == State::TimeWait || bench.stack.next_event().is_some());
        nothing_is_left(&mut bench, &[handle], NOW);
    }
}

#[test]
fn a_stack_dropped_in_any_state_gives_the_peers_buffers_back() {
    for state in STATES {
        let (bench, _) = in_state(state);
        let Bench { stack, wire, mut pool, .. } = bench;
        drop(stack);
        assert_eq!(pool.outstanding(), 0, "{state:?}");
        drop(wire);
    }
}

#[test]
fn a_listener_removed_with_half_open_and_waiting_connections_leaks_nothing() {
    let mut bench = Bench::new(&PairConfig::new([13, 14]));
    let local = bench.listen_at(80);
    let listener = bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    let mut waiting = handshake(&mut bench, 100, NOW);
    waiting.payload = vec![1; 900];
    let frame = bench.tcp_frame(&waiting);
    bench.exchange(&frame, NOW);
    handshake(&mut bench, 101, NOW);
    for port in 200..210 {
        let frame = bench.tcp_frame(&syn(port));
        bench.exchange(&frame, NOW);
    }
    bench.stack.tcp_unlisten(listener);
    assert_eq!(bench.sent().len(), 2, "not one RST for each waiting connection");
    // One handshake is completed too late, one half-open connection is reset, the others time out.
    finish_late(&mut bench, 200, NOW);
    let reset = Tcp { flags: Flags::RST, seq: syn(201).seq + 1, ..syn(201) };
    let frame = bench.tcp_frame(&reset);
    bench.exchange(&frame, NOW);
    assert_eq!(bench.stack.connection_count(), 8);
    assert_eq!(bench.stack.listeners.half_open.count(), 8);
    nothing_is_left(&mut bench, &[], NOW);
    assert_eq!(bench.stack.listeners.half_open.count(), 0);
}

/// The ACK of a handshake whose listener is gone is answered with RST.
fn finish_late(bench: &mut Bench, port: u16, now: Instant) {
    let syn = syn(port);
    let frame = bench.tcp_frame(&syn);
    let answer = bench.exchange(&frame, now);
    let (header, _) = crate::tests::craft::parse_tcp(&answer[0]).expect("SYN, ACK again");
    let ack = Tcp { seq: syn.seq + 1, ack: header.seq + 1, flags: Flags::ACK, ..syn };
    let frame = bench.tcp_frame(&ack);
    let answer = bench.exchange(&frame, now);
    let (header, _) = crate::tests::craft::parse_tcp(&answer[0]).expect("RST");
    assert!(header.flags.contains(Flags::RST));
}
