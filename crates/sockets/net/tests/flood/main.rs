//! A hundred thousand strangers connect. The server refuses them, or they leave their handshake
//! half-open, or they open a connection and are slow. Memory stays within the limits, every refusal
//! is counted by name, and an honest client of the same listener or forwarder is served.

mod fixture;
pub(crate) mod segment;

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::{Counter, DropReason, Limit};
use fixture::{Fixture, Manner};
use stack::snapshot::Snapshot;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use wirespeed_net::{Forwarder, Net, TcpListener, TcpStream, blocking};

use crate::common::SOON;

const STRANGERS: usize = 100_000;
const PORT: u16 = 7;
/// Limit on half-open connections of the listener and the forwarder.
const BACKLOG: usize = 1024;
/// Limit on the server's buffers, in bytes.
const MBUF_BYTES: usize = 16 << 20;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Echo one request of four bytes.
async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    stream.write_all(&request).await
}

fn serve_listener(runtime: &Runtime, net: &Net, at: SocketAddr) {
    let listener = TcpListener::bind(net, at).expect("free");
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
}

/// Complete requests of the forwarder for `PORT`, and refuse all others.
fn serve_forwarder(runtime: &Runtime, net: &Net) {
    let forwarder = Forwarder::new(net, Default::default(), BACKLOG).expect("the first");
    runtime.spawn(async move {
        while let Ok(request) = forwarder.accept().await {
            if request.dst().port() != PORT {
                request.reset().expect("the driver runs");
                continue;
            }
            tokio::spawn(async move { serve(request.complete().await?).await });
        }
    });
}

/// One request of an honest client, and its answer.
fn ask(net: &Net, at: SocketAddr) -> io::Result<()> {
    let mut stream = blocking::TcpStream::connect_timeout(net, at, SOON)?;
    stream.set_read_timeout(Some(SOON))?;
    stream.write_all(b"ping")?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"ping");
    Ok(())
}

/// The results of an honest client that asks repeatedly.
#[derive(Debug, Default)]
struct Honest {
    served: usize,
    failed: usize,
    slowest: Duration,
}

impl Honest {
    fn ask_until(net: &Net, at: SocketAddr, over: &AtomicBool) -> Honest {
        let mut honest = Honest::default();
        while !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            match ask(net, at) {
                Ok(()) => honest.served += 1,
                Err(_) => honest.failed += 1,
            }
            honest.slowest = honest.slowest.max(began.elapsed());
        }
        honest
    }
}

/// Take snapshots until `over` is set. Returns the maximum of each value.
fn most_until(net: &Net, over: &AtomicBool) -> Snapshot {
    let mut most = Snapshot::default();
    while !over.load(Ordering::Relaxed) {
        let now = net.with_stack(|stack| stack.snapshot()).expect("the driver runs");
        most.connections = most.connections.max(now.connections);
        most.half_open = most.half_open.max(now.half_open);
        most.pool_bytes = most.pool_bytes.max(now.pool_bytes);
        thread::sleep(Duration::from_millis(2));
    }
    most
}

/// Flood `port` while an honest client sends requests to `PORT` and the server's maxima are
/// recorded.
fn under_flood(fixture: &Fixture, port: u16, rounds: usize) -> (Honest, Snapshot) {
    let over = AtomicBool::new(false);
    let at = fixture.at(PORT);
    thread::scope(|scope| {
        let honest = scope.spawn(|| Honest::ask_until(&fixture.client, at, &over));
        let watcher = scope.spawn(|| most_until(&fixture.server, &over));
        let began = Instant::now();
        for _ in 0..rounds {
            fixture.flood(port);
        }
        println!("the flood took {:?}", began.elapsed());
        over.store(true, Ordering::Relaxed);
        (honest.join().expect("no panic"), watcher.join().expect("no panic"))
    })
}

/// After the flood, the first connect succeeds and its request is served. The SYN may need a
/// retransmission or two.
fn served_afterwards(fixture: &Fixture) {
    ask(&fixture.client, fixture.at(PORT)).expect("served after the flood");
}

fn drops(fixture: &Fixture, reason: DropReason) -> usize {
    fixture.server.with_stack(|stack| stack.drops().of(reason)).expect("the driver runs") as usize
}

fn counted(fixture: &Fixture, counter: Counter) -> usize {
    fixture.server.with_stack(|stack| stack.counters().of(counter)).expect("the driver runs")
        as usize
}

/// Wait until `so` is true. It becomes true when the server has processed all frames on the link.
fn settled(fixture: &Fixture, so: impl Fn(&Fixture) -> bool) {
    let end = Instant::now() + SOON;
    while !so(fixture) {
        let reasons: Vec<_> =
            fixture.server.with_stack(|s| s.drops().nonzero().collect()).expect("the driver runs");
        if Instant::now() >= end {
            let of = |counter| counted(fixture, counter);
            panic!(
                "frames are not processed: {reasons:?}; {} open, cookies sent {}, \
                 accepted {}, refused {}",
                fixture.server.with_stack(|s| s.connection_count()).expect("the driver runs"),
                of(Counter::TcpCookiesSent),
                of(Counter::TcpCookiesAccepted),
                of(Counter::TcpCookiesRefused),
            );
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn small_buffers(config: &mut stack::StackConfig) {
    config.budget.set(Limit::MbufBytes, MBUF_BYTES);
}

#[test]
fn refused_by_a_stack_without_that_listener() {
    let runtime = runtime();
    let fixture = Fixture::new(STRANGERS, Manner::Silent, small_buffers);
    serve_listener(&runtime, &fixture.server, fixture.at(PORT));
    let (honest, most) = under_flood(&fixture, 9, 1);
    println!("{honest:?} {most:?}");
    // An honest client that had to wait may have retransmitted segments of a connection that is
    // over, so there may be more drops than strangers.
    settled(&fixture, |fixture| drops(fixture, DropReason::TcpNoSocket) >= STRANGERS);
    let hits = |stack: &mut stack::Stack| stack.budget().hits(Limit::ResetsPerSecond);
    let unanswered = fixture.server.with_stack(hits).expect("the driver runs") as usize;
    let refused = drops(&fixture, DropReason::TcpNoSocket);
    assert_eq!(counted(&fixture, Counter::TcpResetsOut) + unanswered, refused);
    assert!(honest.served > 0 && honest.failed == 0, "{honest:?}");
    assert!(most.connections < 10, "{most:?}");
    assert!(most.pool_bytes <= MBUF_BYTES, "{most:?}");
    served_afterwards(&fixture);
    fixture.end();
}

#[test]
fn refused_by_a_forwarder() {
    let runtime = runtime();
    let fixture = Fixture::new(STRANGERS, Manner::Silent, small_buffers);
    serve_forwarder(&runtime, &fixture.server);
    let (honest, most) = under_flood(&fixture, 9, 1);
    println!("{honest:?} {most:?}");
    // The program refused each SYN, or there was no room for the SYN's record.
    let hits = |stack: &mut stack::Stack| stack.budget().hits(Limit::ResetsPerSecond);
    settled(&fixture, |fixture| {
        let unanswered = fixture.server.with_stack(hits).expect("the driver runs") as usize;
        let refused = counted(fixture, Counter::TcpResetsOut) + unanswered;
        refused + drops(fixture, DropReason::TcpBacklogFull) >= STRANGERS
    });
    assert!(honest.served > 0, "{honest:?}");
    assert!(most.connections < 10, "{most:?}");
    assert!(most.pool_bytes <= MBUF_BYTES, "{most:?}");
    served_afterwards(&fixture);
    fixture.end();
}

#[test]
fn half_open_at_a_listener() {
    let runtime = runtime();
    let fixture = Fixture::new(STRANGERS, Manner::Silent, small_buffers);
    serve_listener(&runtime, &fixture.server, fixture.at(PORT));
    let (honest, most) = under_flood(&fixture, PORT, 1);
    println!("{honest:?} {most:?}");
    settled(&fixture, |fixture| {
        let answered = counted(fixture, Counter::TcpCookiesSent);
        answered + BACKLOG + syns_refused(fixture) >= STRANGERS
    });
    assert!(honest.served > 0 && honest.failed == 0, "{honest:?}");
    assert!(most.half_open <= BACKLOG, "{most:?}");
    assert!(most.connections < BACKLOG + 100, "{most:?}");
    assert!(most.pool_bytes <= MBUF_BYTES, "{most:?}");
    served_afterwards(&fixture);
    fixture.end();
}

#[test]
fn half_open_at_a_forwarder() {
    let runtime = runtime();
    let fixture = Fixture::new(STRANGERS, Manner::Silent, small_buffers);
    serve_forwarder(&runtime, &fixture.server);
    let (honest, most) = under_flood(&fixture, PORT, 1);
    println!("{honest:?} {most:?}");
    assert!(most.half_open <= BACKLOG, "{most:?}");
    assert!(most.connections < BACKLOG + 100, "{most:?}");
    assert!(most.pool_bytes <= MBUF_BYTES, "{most:?}");
    let requests = fixture.server.with_stack(|s| s.request_count()).expect("the driver runs");
    assert!(requests <= Limit::ForwardRequests.default_value(), "{requests}");
    // Every refusal is counted.
    settled(&fixture, |fixture| syns_refused(fixture) > 0);
    served_afterwards(&fixture);
    fixture.end();
}

/// The number of SYNs that were dropped because the backlog was full, or because they came too fast
/// for the device. Which of the two it is depends on how busy the machine is.
fn syns_refused(fixture: &Fixture) -> usize {
    let reasons = [DropReason::TcpBacklogFull, DropReason::TcpSynOnce];
    reasons.into_iter().map(|reason| drops(fixture, reason)).sum()
}

/// All strangers are accepted: each has a connection, and a task that waits for the rest of its
/// request.
#[test]
fn slow_at_a_listener() {
    let runtime = runtime();
    let fixture = Fixture::new(STRANGERS, Manner::Slow, small_buffers);
    serve_listener(&runtime, &fixture.server, fixture.at(PORT));
    slow(&fixture);
    drop(runtime);
    fixture.end();
}

#[test]
fn slow_at_a_forwarder() {
    let runtime = runtime();
    let tune = |config: &mut stack::StackConfig| {
        small_buffers(config);
        config.budget.set(Limit::Forwarded, STRANGERS + 100);
    };
    let fixture = Fixture::new(STRANGERS / 4, Manner::Slow, tune);
    serve_forwarder(&runtime, &fixture.server);
    slow(&fixture);
    drop(runtime);
    fixture.end();
}

/// The number of strangers whose half-open connection was replaced by a newer one, or whose cookie
/// came back while the accept queue was full. They send nothing that would bring the cookie again.
fn late(fixture: &Fixture) -> usize {
    counted(fixture, Counter::TcpHalfOpenReplaced) + counted(fixture, Counter::TcpCookiesLate)
}

fn slow(fixture: &Fixture) {
    let strangers = fixture.strangers();
    let (mut rounds, mut served, mut failed) = (0, 0, 0);
    while fixture.answered() < strangers {
        let (honest, most) = under_flood(fixture, PORT, 1);
        println!("{} open, {honest:?} {most:?}", fixture.answered());
        assert!(most.pool_bytes <= MBUF_BYTES, "{most:?}");
        served += honest.served;
        failed += honest.failed;
        rounds += 1;
        assert!(rounds < 100, "after 100 rounds only {} connections are open", fixture.answered());
    }
    // On a busy machine it may be the honest client that comes too late.
    assert!(served > failed, "{served} were served in {rounds} rounds, {failed} were not");
    // All strangers have open connections, except those that came too late on a busy machine.
    settled(fixture, |fixture| {
        let open = fixture.server.with_stack(|s| s.connection_count()).expect("the driver runs");
        open + late(fixture) >= strangers
    });
    served_afterwards(fixture);
    let (held, pool) =
        fixture.server.with_stack(|s| (s.pool().outstanding(), s.snapshot().pool_bytes)).unwrap();
    let late = late(fixture);
    println!("{held} buffers held, {pool} bytes of buffers, {late} were late");
    assert!(late < strangers / 2, "{late} of {strangers} strangers came too late");
    assert!(held < 1000, "{held} buffers are still held although all data was read");
    // The strangers send RSTs, and all their state is removed.
    fixture.reset_all(PORT);
    settled(fixture, |fixture| {
        fixture.server.with_stack(|s| s.connection_count()).expect("the driver runs") < 10
    });
    served_afterwards(fixture);
}

/// Slow strangers reach the limit on connections. Newcomers are refused, which is counted by name.
/// As soon as the program drops the slow connections, newcomers are served again.
#[test]
fn slow_up_to_the_limit_of_connections() {
    let runtime = runtime();
    let fixture = Fixture::new(3_000, Manner::Slow, |config| {
        small_buffers(config);
        config.budget.set(Limit::Connections, 1_000);
    });
    let listener = TcpListener::bind(&fixture.server, fixture.at(PORT)).expect("free");
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The slow stranger's connection is reset, because after a FIN it would wait for an
            // acknowledgment.
            stream.set_linger(Some(Duration::ZERO)).expect("the driver runs");
            tokio::spawn(tokio::time::timeout(Duration::from_secs(2), serve(stream)));
        }
    });
    let (_, most) = under_flood(&fixture, PORT, 2);
    println!("{most:?}");
    assert!(most.connections <= 1_000, "{most:?}");
    assert!(drops(&fixture, DropReason::TcpConnectionLimit) > 0);
    served_afterwards(&fixture);
    drop(runtime);
    fixture.end();
}
