//! A policy that wants to see the first bytes of flows.

use gateway::{Config, End, Glance, State};
use stack::CallError;
use tcp::Error;

use super::bench::{Bench, at};

fn bench(answers: &[Glance]) -> Bench {
    let mut bench = Bench::new(Config::default());
    bench.policy.hellos.answers = Some(answers.iter().copied().collect());
    bench
}

/// The state of the only flow.
fn state(bench: &Bench) -> Option<State> {
    bench.engine.flows(bench.now).next().map(|row| row.state)
}

#[test]
fn first_bytes_wait_until_the_policy_is_content() {
    let mut bench = bench(&[Glance::More, Glance::More]);
    let listener = Bench::listen(&mut bench.server, 80);
    let client = bench.connect("198.51.100.7:80");
    bench.guest.tcp_set_no_delay(client, true);
    let there = bench.server.tcp_accept(listener).expect("it is connected");
    assert_eq!(state(&bench), Some(State::Hello));
    // A server may speak first.
    let mut into = [0; 64];
    assert_eq!(bench.server.tcp_write(there, b"220 hello"), Ok(9));
    bench.settle();
    assert_eq!(bench.guest.tcp_read(client, &mut into), Ok(9));
    for (part, all) in
        [(&b"one "[..], &b"one "[..]), (b"two ", b"one two "), (b"three", b"one two three")]
    {
        assert_eq!(bench.server.tcp_read(there, &mut into), Err(CallError::WouldBlock));
        assert_eq!(bench.guest.tcp_write(client, part), Ok(part.len()));
        bench.settle();
        assert_eq!(bench.policy.hellos.seen.last(), Some(&(all.to_vec(), false)));
    }
    assert_eq!(bench.server.tcp_read(there, &mut into), Ok(13));
    assert_eq!(&into[..13], b"one two three");
    assert_eq!(state(&bench), Some(State::Open));
    // What follows is not shown.
    assert_eq!(bench.guest.tcp_write(client, b"four"), Ok(4));
    bench.guest.tcp_shutdown_write(client);
    bench.settle();
    assert_eq!(bench.server.tcp_read(there, &mut into), Ok(4));
    assert_eq!(bench.server.tcp_read(there, &mut into), Ok(0));
    assert_eq!(bench.policy.hellos.seen.len(), 3);
}

#[test]
fn a_refusal_is_a_reset_and_no_byte_leaves() {
    let mut bench = bench(&[Glance::More, Glance::Refuse]);
    let listener = Bench::listen(&mut bench.server, 80);
    let client = bench.connect("198.51.100.7:80");
    bench.guest.tcp_set_no_delay(client, true);
    let there = bench.server.tcp_accept(listener).expect("it is connected");
    for part in [b"one", b"two"] {
        assert_eq!(bench.guest.tcp_write(client, part), Ok(3));
        bench.settle();
    }
    let mut into = [0; 64];
    let reset = Err(CallError::Failed(Error::Reset));
    assert_eq!(bench.guest.tcp_read(client, &mut into), reset);
    assert_eq!(bench.server.tcp_read(there, &mut into), reset);
    let report = bench.engine.next_report().expect("one");
    assert_eq!((report.end, report.bytes_up), (End::Refused, 0));
    assert_eq!(bench.engine.counts().refused_by_hello, 1);
    assert_eq!((bench.engine.flow_count(), bench.tokens.len()), (0, 0));
}

#[test]
fn datagrams_are_seen_before_they_leave() {
    let mut bench = bench(&[Glance::More, Glance::Pass, Glance::Pass, Glance::Refuse]);
    let there = Bench::udp(&mut bench.server, 443);
    let own = Bench::udp(&mut bench.guest, 5_000);
    let send = |bench: &mut Bench, text: &[u8]| {
        let now = bench.now;
        bench.guest.udp_send(own, at("198.51.100.7:443"), text, now).expect("there is room");
        bench.settle();
        bench.server.udp_receive(there).map(|got| got.payload.as_slice().to_vec())
    };
    assert_eq!(send(&mut bench, b"half"), None);
    assert_eq!(send(&mut bench, b"other half"), Some(b"other half".to_vec()));
    assert_eq!(send(&mut bench, b"more"), Some(b"more".to_vec()));
    assert_eq!(bench.policy.asked.len(), 1);
    assert_eq!(bench.engine.counts().datagrams_held, 1);
    // Another connection of the same session is refused: it has no peer any more, and ends.
    assert_eq!(send(&mut bench, b"no"), None);
    assert_eq!(bench.engine.counts().datagrams_refused, 1);
    assert_eq!((bench.engine.session_counts().0, bench.tokens.len()), (0, 0));
    assert!(matches!(bench.engine.next_report().map(|report| report.end), Some(End::Refused)));
    let error = bench.guest.udp_take_error(own);
    assert!(error.is_some(), "the guest hears of it");
    // It is judged anew.
    assert_eq!(send(&mut bench, b"again"), Some(b"again".to_vec()));
    assert_eq!(bench.policy.asked.len(), 2);
}

#[test]
fn the_policy_hears_when_there_will_not_be_more() {
    // The end of the stream, an urgent byte, 16 KB, many small buffers.
    for kind in 0..4 {
        let mut bench = bench(&[Glance::More; 200]);
        let listener = Bench::listen(&mut bench.server, 80);
        let client = bench.connect("198.51.100.7:80");
        bench.guest.tcp_set_no_delay(client, true);
        bench.guest.tcp_set_no_delay(client, true);
        let there = bench.server.tcp_accept(listener).expect("it is connected");
        let mut sent = 0;
        match kind {
            0 => {
                sent = bench.guest.tcp_write(client, b"only").expect("room");
                bench.guest.tcp_shutdown_write(client);
            }
            1 => sent = bench.guest.tcp_write_urgent(client, b"urgent").expect("room"),
            2 => {
                for _ in 0..4 {
                    sent += bench.guest.tcp_write(client, &[7; 10_000]).expect("room");
                    bench.settle();
                }
            }
            _ => {
                for _ in 0..100 {
                    sent += bench.guest.tcp_write(client, b"x").expect("room");
                    bench.settle();
                }
            }
        }
        bench.settle();
        let (bytes, is_all) = bench.policy.hellos.seen.last().expect("it was asked");
        assert!(*is_all && bytes.len() <= 16_384, "{kind}: {}", bytes.len());
        // The engine does not ask for ever: the flow goes on.
        let (mut into, mut got) = (vec![0; 65_536], 0);
        while let Ok(count @ 1..) = bench.server.tcp_read(there, &mut into) {
            got += count;
            bench.settle();
        }
        assert_eq!(got, sent, "{kind}");
    }
}
