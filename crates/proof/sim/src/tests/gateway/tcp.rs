//! TCP flows through a gateway, one by one.

use base::Limit;
use gateway::{Config, End, Failure, Verdict};
use stack::{CallError, Unreachable};
use tcp::{Error, State};

use super::bench::{Bench, GUEST, SERVER, at};

fn bench() -> Bench {
    Bench::new(Config::default())
}

#[test]
fn a_syn_is_answered_as_the_outside_answers() {
    let mut bench = bench();
    let refused = bench.connect("198.51.100.7:81");
    assert_eq!(bench.guest.tcp_state(refused), Some((State::Closed, Some(Error::Refused))));
    // The outside has no route there: a soft error, with which the guest's connect fails at last
    // (RFC 9293 section 3.9.2.2).
    let lost = bench.connect("203.0.113.1:80");
    let info = bench.guest.tcp_info(lost).expect("it is kept");
    assert_eq!(info.soft_error, Some(Error::NetUnreachable));
    let ends: Vec<End> =
        core::iter::from_fn(|| bench.engine.next_report()).map(|r| r.end).collect();
    let nowhere = Failure::Unreachable(Unreachable::Net);
    assert_eq!(ends, [End::NotConnected(Failure::Refused), End::NotConnected(nowhere)]);
    assert_eq!((bench.engine.flow_count(), bench.tokens.len()), (0, 0));
}

#[test]
fn halves_close_one_after_the_other() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 80);
    let client = bench.connect("198.51.100.7:80");
    let there = bench.server.tcp_accept(listener).expect("it is connected");
    assert_eq!(bench.guest.tcp_write(client, b"question"), Ok(8));
    bench.guest.tcp_shutdown_write(client);
    bench.settle();
    let mut into = [0; 64];
    assert_eq!(bench.server.tcp_read(there, &mut into), Ok(8));
    assert_eq!(bench.server.tcp_read(there, &mut into), Ok(0));
    // A minute later the other half still works.
    bench.pass(60);
    assert_eq!(bench.engine.flow_count(), 1);
    assert_eq!(bench.server.tcp_write(there, b"answer"), Ok(6));
    bench.server.tcp_close(there);
    bench.settle();
    assert_eq!(bench.guest.tcp_read(client, &mut into), Ok(6));
    assert_eq!(bench.guest.tcp_read(client, &mut into), Ok(0));
    assert_eq!((bench.engine.flow_count(), bench.tokens.len()), (0, 0));
    assert_eq!(bench.engine.counts().finished, 1);
}

#[test]
fn a_reset_is_a_reset_both_ways() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 80);
    for guest_resets in [true, false] {
        let client = bench.connect("198.51.100.7:80");
        let there = bench.server.tcp_accept(listener).expect("it is connected");
        let mut into = [0];
        let got = if guest_resets {
            bench.guest.tcp_abort(client);
            bench.settle();
            bench.server.tcp_read(there, &mut into)
        } else {
            bench.server.tcp_abort(there);
            bench.settle();
            bench.guest.tcp_read(client, &mut into)
        };
        assert_eq!(got, Err(CallError::Failed(Error::Reset)));
        assert_eq!((bench.engine.flow_count(), bench.tokens.len()), (0, 0));
    }
    let counts = bench.engine.counts();
    assert_eq!((counts.reset_by_guest, counts.reset_by_outside), (1, 1));
}

#[test]
fn urgent_data_stays_urgent_both_ways() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 80);
    let client = bench.connect("198.51.100.7:80");
    let there = bench.server.tcp_accept(listener).expect("it is connected");
    assert_eq!(bench.guest.tcp_write_urgent(client, b"abc!"), Ok(4));
    assert_eq!(bench.guest.tcp_write(client, b"def"), Ok(3));
    assert_eq!(bench.server.tcp_write_urgent(there, b"uvw?"), Ok(4));
    assert_eq!(bench.server.tcp_write(there, b"xyz"), Ok(3));
    bench.settle();
    let mut into = [0; 16];
    for (stack, handle, text) in
        [(&mut bench.server, there, &b"abc!def"[..]), (&mut bench.guest, client, &b"uvw?xyz"[..])]
    {
        let n = stack.tcp_read(handle, &mut into).expect("data");
        assert_eq!(&into[..n], &text[..3]);
        assert_eq!(stack.tcp_at_mark(handle), Some(true));
        let mut rest = Vec::new();
        while let Ok(n @ 1..) = stack.tcp_read(handle, &mut into) {
            rest.extend_from_slice(&into[..n]);
        }
        assert_eq!(rest, &text[3..]);
    }
}

#[test]
fn the_guest_sees_the_room_of_the_outside() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 80);
    let client = bench.connect("198.51.100.7:80");
    let there = bench.server.tcp_accept(listener).expect("it is connected");
    let data = vec![7; 1 << 20];
    let mut written = 0;
    for _ in 0..200 {
        written += bench.guest.tcp_write(client, &data).unwrap_or(0);
        bench.settle();
    }
    bench.pass(30);
    // Nobody reads: the buffers of all ends are full, and no more is taken.
    assert!(written < 64 << 20, "{written}");
    let held = bench.inner.pool().in_use_bytes();
    assert!(held < 8 << 20, "the gateway holds {held} bytes");
    let mut into = vec![0; 1 << 20];
    let mut read = 0;
    for _ in 0..2_000 {
        read += bench.server.tcp_read(there, &mut into).unwrap_or(0);
        bench.pass(1);
        if read == written {
            break;
        }
    }
    assert_eq!(read, written);
}

#[test]
fn somebody_decides_about_a_syn_that_is_held() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 80);
    bench.policy.verdicts.extend([Verdict::Ask, Verdict::Ask, Verdict::Drop]);
    let client = bench.connect("198.51.100.7:80");
    let denied = bench.connect("198.51.100.7:80");
    let dropped = bench.connect("198.51.100.7:80");
    assert_eq!(bench.engine.pending_count(), 2);
    let ends = bench.policy.asked.clone();
    let decided = bench.with(|engine, around| {
        engine.decide(&ends[0], Verdict::Allow, around)
            && engine.decide(&ends[1], Verdict::Reset, around)
    });
    assert!(decided);
    bench.settle();
    assert!(bench.server.tcp_accept(listener).is_some());
    assert_eq!(bench.guest.tcp_state(client), Some((State::Established, None)));
    assert_eq!(bench.guest.tcp_state(denied), Some((State::Closed, Some(Error::Refused))));
    assert_eq!(bench.guest.tcp_state(dropped), Some((State::SynSent, None)));
    // Its SYN comes again, and is allowed this time.
    bench.pass(4);
    assert_eq!(bench.guest.tcp_state(dropped), Some((State::Established, None)));
}

#[test]
fn observers_see_flows_sessions_and_counts() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 80);
    let client = bench.connect("198.51.100.7:80");
    let there = bench.server.tcp_accept(listener).expect("it is connected");
    assert_eq!(bench.guest.tcp_write(client, b"hello"), Ok(5));
    assert_eq!(bench.server.tcp_write(there, b"hi"), Ok(2));
    let (own, peer) = (Bench::udp(&mut bench.guest, 5_000), at("198.51.100.7:7001"));
    let now = bench.now;
    bench.guest.udp_send(own, peer, b"which?", now).expect("there is room");
    bench.settle();
    bench.pass(3);
    let row = bench.engine.flows(bench.now).next().expect("a flow");
    assert_eq!((row.ends.remote, row.state), (at("198.51.100.7:80"), gateway::State::Open));
    assert_eq!((row.bytes_up, row.bytes_down, row.is_inbound), (5, 2, false));
    assert_eq!((row.since, row.idle), (now, base::Duration::from_secs(3)));
    assert!(row.handle.is_some_and(|own| bench.inner.tcp_info(own).is_some()));
    assert!(row.outer.is_some_and(|&own| bench.outer.tcp_info(own).is_some()));
    let row = bench.engine.sessions(bench.now).next().expect("a session");
    assert_eq!((row.peers, row.bytes_up, row.bytes_down), (1, 6, 0));
    assert_eq!((row.since, row.idle), (now, base::Duration::from_secs(3)));
    let of = |name| bench.engine.rows().find(|row| row.0 == name).map(|row| row.1);
    assert_eq!([of("flows_now"), of("sessions_now"), of("bytes_up")], [Some(1), Some(1), Some(5)]);
    let all: Vec<_> = gateway::Gateway::<(), ()>::meanings().map(|(name, _)| name).collect();
    assert!(bench.engine.rows().all(|(name, _)| all.contains(&name)), "each has a meaning");
}

/// A connect of the host may take 127 s, and its guest's may as well.
#[test]
fn a_syn_is_held_until_a_slow_connect_has_its_result() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 80);
    let (config, now) = (tcp::Config { syn_retries_max: 6, ..Default::default() }, bench.now);
    let to = at("198.51.100.7:80");
    bench.is_server_deaf = true;
    let client = bench.guest.tcp_connect(to, None, &config, base::Owner::program(), now);
    let client = client.expect("there is a route");
    bench.pass(100);
    assert_eq!(bench.guest.tcp_state(client), Some((State::SynSent, None)));
    assert_eq!((bench.engine.pending_count(), bench.engine.counts().syns), (1, 1));
    // With another SYN the stack forgets those whose peers have given up.
    bench.connect("198.51.100.7:81");
    assert_eq!(bench.engine.counts().syns, 2);
    bench.is_server_deaf = false;
    bench.pass(20);
    assert_eq!(bench.guest.tcp_state(client), Some((State::Established, None)));
    assert_eq!(bench.engine.counts().syns, 2);
    assert!(bench.server.tcp_accept(listener).is_some());
}

#[test]
fn a_limit_leaves_a_syn_without_an_answer_until_there_is_room() {
    let mut config = Config::default();
    config.budget.set(Limit::GatewayPending, 1);
    let mut bench = Bench::new(config);
    Bench::listen(&mut bench.server, 80);
    bench.policy.verdicts.extend([Verdict::Ask]);
    let asked = bench.connect("198.51.100.7:80");
    let second = bench.connect("198.51.100.7:80");
    assert_eq!(bench.guest.tcp_state(second), Some((State::SynSent, None)));
    assert_eq!(bench.engine.budget().hits(Limit::GatewayPending), 1);
    assert_eq!(bench.engine.counts().unanswered, 1);
    // Nobody answers the question within its time, and the first one ends.
    bench.pass(130);
    assert_eq!(bench.guest.tcp_state(second), Some((State::Established, None)));
    assert_eq!(bench.guest.tcp_state(asked), Some((State::Established, None)));
    assert_eq!(bench.engine.pending_count(), 0);
}

#[test]
fn a_published_port_sees_its_client() {
    let mut bench = bench();
    let published = Bench::listen(&mut bench.outer, 8080);
    let listener = Bench::listen(&mut bench.guest, 80);
    for (port, taken) in [(80, true), (81, false)] {
        let (config, now) = (tcp::Config::default(), bench.now);
        let owner = base::Owner::program();
        let to = at("198.51.100.1:8080");
        let client = bench.server.tcp_connect(to, None, &config, owner, now).expect("a route");
        bench.settle();
        let outer = bench.outer.tcp_accept(published).expect("the outside accepts");
        let (_, from) = bench.outer.tcp_addresses(outer).expect("it is open");
        let to = at(&format!("{GUEST}:{port}"));
        bench.with(|engine, around| engine.accept_published(outer, from, to, around));
        bench.inner.flush();
        bench.settle();
        if !taken {
            let got = bench.server.tcp_read(client, &mut [0]);
            assert_eq!(got, Err(CallError::Failed(Error::Reset)));
            assert_eq!(bench.engine.counts().refused_inbound, 1);
            continue;
        }
        let own = bench.guest.tcp_accept(listener).expect("it is connected");
        let (_, seen) = bench.guest.tcp_addresses(own).expect("it is open");
        assert_eq!(seen, from);
        assert!(seen.to_string().starts_with(SERVER));
        assert_eq!(bench.server.tcp_write(client, b"hello"), Ok(5));
        bench.settle();
        let mut into = [0; 8];
        assert_eq!(bench.guest.tcp_read(own, &mut into), Ok(5));
        bench.server.tcp_close(client);
        bench.guest.tcp_close(own);
        bench.settle();
    }
    assert_eq!((bench.engine.flow_count(), bench.tokens.len()), (0, 0));
}
