//! Drops futures at every await and sockets in every state, then checks that neither stack holds a
//! connection or a buffer.

use std::io::ErrorKind;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_net::{Forwarder, TcpListener, TcpSocket, TcpStream};

use crate::common::{Ends, SOON, on_each_runtime};

/// Polls a future at most `polls` times, then drops it; `true` if it was ready. The runtime runs
/// its other tasks between two polls. The polls do not wait for wake-ups.
async fn polled<F: Future>(future: F, polls: usize) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        let once = std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx)));
        if once.await.is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// More polls than any future here needs on any machine. They take about a second.
const ENDLESS: usize = 1_000_000;

/// The number of polls to try after `polls`. On one thread a future takes a few dozen polls, and
/// each number is tried. With driver threads it may take thousands, because a thread may have to
/// wait for a core, so the numbers grow faster.
fn more(polls: usize) -> usize {
    polls + 1 + polls / 64
}

/// A complete conversation that uses every kind of future.
async fn conversation(ends: &Ends) {
    let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        stream.peek(&mut [0; 4]).await.unwrap();
        let mut got = vec![0; 100_000];
        stream.read_exact(&mut got).await.unwrap();
        stream.writable().await.unwrap();
        stream.write_all(&got).await.unwrap();
        let loan = stream.read_loan().await.unwrap();
        assert!(loan.is_none());
    };
    let client = async {
        let nobody = std::net::SocketAddr::new(ends.to.ip(), 9);
        let stream = TcpSocket::new(&ends.client).connect_any(&[nobody, ends.to]).await.unwrap();
        let mut loan = stream.loan().unwrap();
        loan.append(&[7; 1000]);
        stream.send_loan(loan).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        writing.write_all(&[7; 99_000]).await.unwrap();
        let mut got = vec![0; 100_000];
        reading.read_exact(&mut got).await.unwrap();
        writing.shutdown().await.unwrap();
        reading.read_to_end(&mut got).await.unwrap();
    };
    tokio::join!(server, client);
}

#[test]
fn a_conversation_that_is_dropped_at_every_await() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let mut polls = 0;
        loop {
            let ended = polled(conversation(&ends), polls).await;
            ends.drained().await;
            if ended {
                break;
            }
            polls = more(polls);
            assert!(polls < ENDLESS, "the conversation never ends");
        }
        // On a busy machine a driver thread may do between two polls what takes many polls on a
        // quiet machine.
        assert!(polls > 1, "only {polls} polls: nothing was cancelled");
    });
}

#[test]
fn a_forwarded_handshake_that_is_dropped_at_every_await() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let forwarder = Forwarder::new(&ends.server, Default::default(), 16).unwrap();
        let mut polls = 0;
        loop {
            let accepting = async {
                let stream = forwarder.accept().await.unwrap().complete().await;
                drop(stream);
            };
            let connecting = async {
                drop(TcpStream::connect(&ends.client, ends.to).await);
            };
            let ended = polled(async { tokio::join!(accepting, connecting) }, polls).await;
            // A SYN that was not accepted is a record, not a connection. The next accept returns
            // it.
            let requests = || ends.server.with_stack(|s| s.request_count()).unwrap();
            let end = Instant::now() + SOON;
            loop {
                let next = tokio::time::timeout(Duration::from_millis(5), forwarder.accept());
                let found = next.await.is_ok();
                ends.drained().await;
                // On a busy machine a SYN may arrive late.
                if !found && requests() == 0 {
                    break;
                }
                assert!(Instant::now() < end, "{} requests were not released in time", requests());
            }
            if ended {
                break;
            }
            polls = more(polls);
            assert!(polls < ENDLESS, "the handshake never ends");
        }
        assert!(polls > 1, "only {polls} polls: nothing was cancelled");
    });
}

#[test]
fn what_a_cancelled_read_had_not_taken_is_read_by_the_next() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
        let mut client = TcpStream::connect(&ends.client, ends.to).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut buf = [0; 3];
        for n in 0..100u8 {
            assert!(!polled(server.read(&mut buf), 2).await, "nothing was sent");
            client.write_all(&[n, n, n]).await.unwrap();
            server.read_exact(&mut buf).await.unwrap();
            assert_eq!(buf, [n, n, n]);
        }
        drop((client, server));
        ends.drained().await;
    });
}

/// The calls of one end, in order; both ends are dropped afterwards.
type Steps = &'static [fn(&mut TcpStream)];

fn send(stream: &mut TcpStream) {
    // The number of bytes that fit does not matter.
    let _ = stream.try_write(&[7; 300_000]);
}

fn shut_write(stream: &mut TcpStream) {
    let _ = stream.shut_down(std::net::Shutdown::Write);
}

fn shut_read(stream: &mut TcpStream) {
    let _ = stream.shut_down(std::net::Shutdown::Read);
}

fn reset(stream: &mut TcpStream) {
    stream.set_linger(Some(Duration::ZERO)).unwrap();
}

fn take(stream: &mut TcpStream) {
    while matches!(stream.try_read(&mut [0; 65_536]), Ok(1..)) {}
}

const SCRIPTS: &[Steps] = &[
    &[],
    &[send],
    &[shut_write],
    &[send, shut_write],
    &[shut_read],
    &[send, shut_read, shut_write],
    &[reset],
    &[send, reset],
    &[take],
    &[take, send, take, shut_write],
];

#[test]
fn sockets_that_are_dropped_in_every_state() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
        for (a, b) in SCRIPTS.iter().flat_map(|a| SCRIPTS.iter().map(move |b| (a, b))) {
            for turns in 0..3 {
                let mut client = TcpStream::connect(&ends.client, ends.to).await.unwrap();
                let (mut server, _) = listener.accept().await.unwrap();
                a.iter().for_each(|step| step(&mut client));
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                b.iter().for_each(|step| step(&mut server));
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                drop(client);
                drop(server);
            }
        }
        // SYN-SENT, and a connection in SYN-RECEIVED that is not accepted.
        drop(TcpSocket::new(&ends.client).connect(ends.to));
        // The server runs on another thread, which may have answered during the one poll.
        polled(TcpStream::connect(&ends.client, ends.to), 1).await;
        drop(listener);
        ends.drained().await;
    });
}

#[test]
fn a_stack_that_is_shut_down_under_its_sockets() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
        let mut client = TcpStream::connect(&ends.client, ends.to).await.unwrap();
        let _server = listener.accept().await.unwrap();
        let waiting = tokio::spawn(async move { client.read(&mut [0; 9]).await });
        tokio::task::yield_now().await;
        ends.client.shut_down();
        let ended = tokio::time::timeout(SOON, waiting).await.expect("woken").unwrap();
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Other);
        let refused = TcpStream::connect(&ends.client, ends.to).await.unwrap_err();
        assert!(refused.to_string().contains("driver"), "{refused}");
    });
}
