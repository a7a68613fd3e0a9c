//! Names looked up over the stack's own sockets, from a name server on a second stack: by tasks and
//! by threads, by UDP and TCP, after lost questions, and with lookups that are dropped early.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use wirespeed_net::dns::{Config, Families, Hosts, LookupError};
use wirespeed_net::{Net, TcpSocket, blocking};

use crate::common::{Ends, SOON};

/// The answer to a question. The first digit of the name says how many addresses of the server the
/// answer contains; without a digit it says that the name does not exist.
fn answer(question: &[u8], server: IpAddr, truncated: bool) -> Vec<u8> {
    let mut at = 12;
    while question[at] != 0 {
        at += 1 + usize::from(question[at]);
    }
    let mut bytes = question[..at + 5].to_vec();
    let count = match &question[12..14] {
        [_, digit @ b'0'..=b'9'] => digit - b'0',
        _ => 0,
    };
    let rcode = if count == 0 { 3 } else { 0 };
    bytes[2..12].copy_from_slice(&[0x81, 0x80 | rcode, 0, 1, 0, 0, 0, 0, 0, 0]);
    if truncated {
        bytes[2] |= 2;
        return bytes;
    }
    let is_v4 = question[at + 2] == 1;
    let IpAddr::V4(server) = server else { panic!("the server has an IPv4 address") };
    for last in 0..if is_v4 { count } else { 0 } {
        let mut octets = server.octets();
        octets[3] += last;
        bytes[7] += 1;
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        bytes.extend(octets);
    }
    bytes
}

/// A name server on port 53 that ignores the first `ignored` datagrams. It answers names whose
/// second character is t by TCP only.
fn serve(net: &Net, address: IpAddr, ignored: usize) {
    let at = SocketAddr::new(address, 53);
    let datagrams = blocking::UdpSocket::bind(net, at).expect("the port is free");
    thread::spawn(move || {
        let mut room = [0; 2_000];
        let mut left = ignored;
        while let Ok((n, from)) = datagrams.recv_from(&mut room) {
            if left > 0 {
                left -= 1;
                continue;
            }
            let truncated = room[14].eq_ignore_ascii_case(&b't');
            let _ = datagrams.send_to(&answer(&room[..n], address, truncated), from);
        }
    });
    let listener = blocking::TcpListener::bind(net, at).expect("the port is free");
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut length = [0; 2];
            stream.read_exact(&mut length).expect("a length");
            let mut question = vec![0; u16::from_be_bytes(length).into()];
            stream.read_exact(&mut question).expect("a question");
            let answer = answer(&question, address, false);
            let mut bytes = (answer.len() as u16).to_be_bytes().to_vec();
            bytes.extend(answer);
            // The answer comes in two segments.
            stream.write_all(&bytes[..20]).expect("our stack reads");
            stream.write_all(&bytes[20..]).expect("our stack reads");
        }
    });
}

fn served(ends: &Ends, ignored: usize) {
    serve(&ends.server, ends.to.ip(), ignored);
    let servers = vec![SocketAddr::new(ends.to.ip(), 53)];
    let config = Config { servers, ..Config::default() };
    ends.client.set_resolver(config, Hosts::default()).expect("it runs");
}

fn assert_found(found: &[IpAddr], count: usize, first: IpAddr) {
    assert_eq!(found.len(), count, "{found:?}");
    assert_eq!(found[0], first);
}

#[test]
fn threads_look_names_up() {
    let ends = Ends::threads();
    served(&ends, 0);
    let first = ends.to.ip();
    let found = blocking::lookup_host(&ends.client, "3x.example").expect("it answers");
    assert_found(&found, 3, first);
    let found = blocking::lookup_host(&ends.client, "2t.example").expect("by TCP");
    assert_found(&found, 2, first);
    let counts = ends.client.with_resolver(|r| *r.counts()).expect("it runs");
    assert_eq!((counts.truncated, counts.tcp_queries, counts.answers), (2, 2, 4));
    let error = blocking::lookup_host(&ends.client, "x.example").expect_err("no such name");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<LookupError>());
    assert!(matches!(inner, Some(LookupError::NoName(_))), "{error:?}");
}

#[tokio::test]
async fn tasks_look_names_up_at_the_same_time() {
    let ends = Ends::threads();
    served(&ends, 0);
    let first = ends.to.ip();
    let tasks: Vec<_> = (1..=9)
        .map(|count| {
            let net = ends.client.clone();
            tokio::spawn(async move { net.lookup_host(&format!("{count}t.example")).await })
        })
        .collect();
    for (count, task) in (1..).zip(tasks) {
        let found = task.await.expect("no panic").expect("it answers");
        assert_found(&found, count, first);
    }
    let only = ends.client.lookup_host_of("1x.example", Families::V6).await;
    assert_eq!(only.expect_err("IPv4 alone").kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_lost_question_is_asked_again_after_a_second() {
    let ends = Ends::threads();
    served(&ends, 2);
    let began = Instant::now();
    let found = ends.client.lookup_host("1x.example").await.expect("the second time");
    assert_found(&found, 1, ends.to.ip());
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(ends.client.with_resolver(|r| r.counts().timeouts).expect("it runs"), 2);
}

#[test]
fn a_thread_whose_question_is_lost_asks_again() {
    let ends = Ends::threads();
    served(&ends, 2);
    let found = blocking::lookup_host(&ends.client, "1x.example").expect("the second time");
    assert_found(&found, 1, ends.to.ip());
}

#[tokio::test]
async fn a_closed_port_is_an_error_at_once_and_nothing_stays_open() {
    let ends = Ends::threads();
    let servers = vec![SocketAddr::new(ends.to.ip(), 53)];
    let config = Config { servers, ..Config::default() };
    ends.client.set_resolver(config, Hosts::default()).expect("it runs");
    let began = Instant::now();
    let error = ends.client.lookup_host("1x.example").await.expect_err("nobody");
    assert!(error.to_string().contains("no name server can answer"), "{error}");
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    assert_eq!(ends.client.with_resolver(|r| r.counts().failures).expect("it runs"), 2);
}

#[tokio::test]
async fn a_lookup_that_is_dropped_closes_its_sockets() {
    let ends = Ends::threads();
    served(&ends, usize::MAX);
    let sockets =
        |net: &Net| net.with_stack(|stack| stack.sockets_page(0, 100).rows.len()).expect("it runs");
    let before = sockets(&ends.client);
    {
        let lookup = ends.client.lookup_host("1x.example");
        let ended = tokio::time::timeout(Duration::from_millis(50), lookup).await;
        assert!(ended.is_err(), "nobody answers");
    }
    assert_eq!(sockets(&ends.client), before);
    assert_eq!(ends.client.with_resolver(|r| r.counts().udp_queries).expect("it runs"), 2);
}

#[tokio::test]
async fn a_program_connects_to_a_host_by_name() {
    let ends = Ends::threads();
    served(&ends, 0);
    let listener = blocking::TcpListener::bind(&ends.server, ends.to).expect("the port is free");
    thread::scope(|scope| {
        scope.spawn(|| listener.accept().expect("our stack connects"));
        let port = ends.to.port();
        let blocking = blocking::TcpStream::connect_host(&ends.client, "1x.example", port);
        assert_eq!(blocking.expect("it listens").peer_addr().ok(), Some(ends.to));
    });
    let socket = TcpSocket::new(&ends.client);
    let timed = tokio::time::timeout(SOON, socket.connect_host("1t.example", ends.to.port()));
    let stream = timed.await.expect("soon").expect("it listens");
    assert_eq!(stream.peer_addr().ok(), Some(ends.to));
    listener.accept().expect("ours has connected");
}

#[tokio::test]
async fn without_a_resolver_addresses_and_localhost_are_known() {
    let ends = Ends::threads();
    let net = &ends.client;
    assert_eq!(net.lookup_host("192.0.2.1").await.ok(), Some(vec![IpAddr::from([192, 0, 2, 1])]));
    assert_eq!(net.lookup_host("localhost").await.map(|a| a.len()).ok(), Some(2));
    let error = net.lookup_host("www.example").await.expect_err("nobody to ask");
    assert!(error.to_string().contains("no name server is configured"), "{error}");
    let error = net.lookup_host("a..b").await.expect_err("no name");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
