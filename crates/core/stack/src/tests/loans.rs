//! Loaned buffers: filled by every method, sent, and inspected at the receiver.

use core::net::SocketAddr;

use base::{Counter, Duration, Instant, Owner, Switch, Switches};
use tcp::usrreq::CallError;

use crate::pair::{End, PairConfig, pair};
use crate::{ListenConfig, Loan, TcpHandle};

/// Two connected stacks; checksums are computed and verified.
fn connected(switches: Switches) -> (End, TcpHandle, End, TcpHandle, Instant) {
    let mut config = PairConfig::new([7, 9]);
    config.stack.switches = switches;
    let (mut client, mut server) = pair(&config);
    let mut now = Instant::from_nanos(1_000_000);
    let to = SocketAddr::new(server.addr, 5001);
    let listener = server.stack.tcp_listen(to, ListenConfig::default()).expect("free");
    let tcp = tcp::Config::default();
    let c = client.stack.tcp_connect(to, None, &tcp, Owner::program(), now).expect("routed");
    for _ in 0..4 {
        now += Duration::from_micros(10);
        client.stack.poll(now);
        server.stack.poll(now);
    }
    let s = server.stack.tcp_accept(listener).expect("established");
    (client, c, server, s, now)
}

/// Fills a loan with the next bytes of the stream, by the method that `way` selects.
fn filled(mut loan: Loan, data: &[u8], way: usize) -> (Loan, usize) {
    let most = data.len().min(loan.room());
    let (first, rest) = data[..most].split_at(most * (way % 7) / 7);
    let n = match way % 4 {
        // Two parts, the second mostly at an odd offset.
        0 => loan.append(first) + loan.append(rest),
        1 => loan.append(first) + loan.fill(|to| copied(rest, to)),
        2 => loan.fill(|to| copied(first, to)) + loan.append(rest),
        _ => {
            let n = loan.append(&vec![0x55; most]);
            loan.bytes_mut().copy_from_slice(&data[..n]);
            n
        }
    };
    assert_eq!((n, loan.bytes()), (most, &data[..most]));
    (loan, n)
}

fn copied(from: &[u8], to: &mut [u8]) -> usize {
    to[..from.len()].copy_from_slice(from);
    from.len()
}

#[test]
fn bytes_of_loans_arrive_however_they_were_put_there() {
    for fused in [true, false] {
        let switches = Switches::default().with(Switch::FusedSum, fused);
        let (mut client, c, mut server, s, mut now) = connected(switches);
        let data: Vec<u8> = (0..400_000).map(|i| (i * 7 + i / 251) as u8).collect();
        let (mut sent, mut way, mut received, mut held) = (0, 0, Vec::new(), None);
        for _ in 0..2_000 {
            now += Duration::from_micros(10);
            client.stack.poll(now);
            while sent < data.len() || held.is_some() {
                let loan = held.take().or_else(|| {
                    way += 1;
                    let (loan, n) = filled(client.stack.tcp_loan(c)?, &data[sent..], way);
                    sent += n;
                    Some(loan)
                });
                let Some(loan) = loan else { break };
                if let Err((why, loan)) = client.stack.tcp_write_loan(c, loan) {
                    assert_eq!(why, CallError::WouldBlock);
                    held = Some(loan);
                    break;
                }
            }
            client.stack.flush();
            server.stack.poll(now);
            let before = received.len();
            match server.stack.tcp_read_in_place(s, |piece| received.extend_from_slice(piece)) {
                Ok(n) => assert_eq!(n, received.len() - before),
                Err(why) => assert_eq!(why, CallError::WouldBlock),
            }
        }
        assert_eq!(received.len(), data.len());
        assert!(received == data);
        assert_eq!(server.stack.drops().total(), 0, "a checksum was wrong");
        assert_eq!(client.stack.counters().of(Counter::TcpRetransmits), 0);
        client.stack.tcp_shutdown_write(c);
        client.stack.poll(now);
        server.stack.poll(now);
        assert_eq!(server.stack.tcp_read_in_place(s, |_| {}), Ok(0), "data after the end");
        for _ in 0..4 {
            now += Duration::from_millis(100);
            client.stack.poll(now);
            server.stack.poll(now);
        }
        assert_eq!(client.stack.pool().outstanding(), 0, "a buffer was not returned");
    }
}

/// Loans that are sent one by one would each be a run of one segment with its own headers.
#[test]
fn loans_wait_for_company_until_there_is_a_run_or_a_poll() {
    let (mut client, c, mut server, s, now) = connected(Switches::default());
    let sent = |client: &End| client.stack.counters().of(Counter::TcpSegmentsOut);
    let before = sent(&client);
    for _ in 0..3 {
        let mut loan = client.stack.tcp_loan(c).expect("buffers");
        loan.append(&[1; 1448]);
        client.stack.tcp_write_loan(c, loan).map_err(|(why, _)| why).expect("room");
    }
    assert_eq!(sent(&client), before, "three segments left before a burst was full");
    client.stack.poll(now);
    assert_eq!(sent(&client), before + 3);
    server.stack.poll(now);
    assert_eq!(server.stack.tcp_read_in_place(s, |_| {}), Ok(3 * 1448));
}
