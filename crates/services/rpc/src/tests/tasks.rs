//! Clients and servers as tokio tasks: concurrent calls, connections that end, peers that
//! misbehave, and datagrams that are lost. Time is virtual where it matters.

use core::future::Future;
use core::net::SocketAddr;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration as Time;

use base::{DropReason, KeyedHash};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::{PROGRAM, peer, server};
use crate::client::{CallError, Config};
use crate::limits::{RECORD_BYTES, STALL};
use crate::server::{Bulk, Refusal, Request, Server, Service};
use crate::tasks::{Client, Datagrams, Limits, Servers, listen, serve_datagrams, serve_stream};
use crate::xdr::{Bytes, Encode};

/// Counts the calls, and the most calls that were carried out at the same time.
#[derive(Default)]
struct Seen {
    calls: AtomicU32,
    now: AtomicU32,
    most: AtomicU32,
}

#[derive(Clone)]
struct Slow(Arc<Seen>, Time);

impl Service for Slow {
    fn program(&self) -> u32 {
        9
    }
    fn versions(&self) -> core::ops::RangeInclusive<u32> {
        1..=1
    }
    fn call(&mut self, _: &Request<'_>, results: &mut Vec<u8>) -> Result<(), Refusal> {
        let number = self.0.calls.fetch_add(1, Ordering::SeqCst);
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(self.1);
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        number.encode(results);
        Ok(())
    }
}

fn slow(calls: usize, takes: Time) -> (Arc<Servers>, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let service = Slow(seen.clone(), takes);
    let servers = Servers::blocking(calls, || {
        let mut server = Server::new(KeyedHash::new(1, 2));
        server.add(service.clone());
        server
    });
    (servers, seen)
}

/// Makes connections in memory to servers.
fn connections(
    servers: Arc<Servers>,
    limits: Limits,
) -> impl FnMut() -> core::future::Ready<io::Result<DuplexStream>> + Send {
    move || {
        let (near, far) = duplex(65_536);
        tokio::spawn(serve_stream(servers.clone(), far, peer(), limits));
        core::future::ready(Ok(near))
    }
}

#[tokio::test]
async fn calls_are_carried_out_at_the_same_time_but_not_more_than_there_are_servers() {
    let (servers, seen) = slow(4, Time::from_millis(20));
    let connect = connections(servers.clone(), Limits::default());
    let client = Client::over_streams(Config::new(9, 1), 1, connect);
    let calls: Vec<_> = (0..24)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call::<_, u32>(1, &()).await })
        })
        .collect();
    let mut numbers = Vec::new();
    for call in calls {
        numbers.push(call.await.expect("no panic").expect("a number"));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..24).collect::<Vec<_>>());
    assert_eq!(seen.most.load(Ordering::SeqCst), 4);
    assert_eq!(servers.totals().answered, 24);
}

/// A service that returns the id of the thread on which it was called. Procedure 2 does not wait if
/// its argument is even.
struct Where;

impl Service for Where {
    fn program(&self) -> u32 {
        9
    }
    fn versions(&self) -> core::ops::RangeInclusive<u32> {
        1..=1
    }
    fn call(&mut self, request: &Request<'_>, results: &mut Vec<u8>) -> Result<(), Refusal> {
        let _: u32 = request.decode()?;
        Bytes(format!("{:?}", std::thread::current().id()).into_bytes()).encode(results);
        Ok(())
    }
    fn call_at_once(
        &mut self,
        request: &Request<'_>,
        results: &mut Vec<u8>,
        _: &mut dyn Bulk,
    ) -> Option<Result<(), Refusal>> {
        let is_it = request.procedure == 2 && request.decode::<u32>().ok()?.is_multiple_of(2);
        is_it.then(|| self.call(request, results))
    }
}

#[tokio::test]
async fn calls_that_do_not_wait_are_carried_out_at_once_and_others_by_the_pool() {
    let servers = Servers::blocking(2, || {
        let mut server = Server::new(KeyedHash::new(1, 2));
        server.add(Where);
        server
    });
    let connect = connections(servers.clone(), Limits::default());
    let client = Client::over_streams(Config::new(9, 1), 1, connect);
    let here = format!("{:?}", std::thread::current().id()).into_bytes();
    for (procedure, argument, is_here) in [(1, 0_u32, false), (2, 0, true), (2, 1, false)] {
        let thread: Bytes = client.call(procedure, &argument).await.expect("a thread");
        assert_eq!(thread.0 == here, is_here, "procedure {procedure}, argument {argument}");
    }
    // Arguments that the service cannot decode are answered as usual.
    assert!(matches!(client.call::<_, ()>(2, &()).await, Err(CallError::GarbageArguments)));
    assert_eq!(servers.totals().answered, 4);
}

#[tokio::test]
async fn a_connection_holds_no_more_calls_than_its_limit() {
    let (servers, seen) = slow(8, Time::from_millis(5));
    let connect = connections(servers, Limits { calls: 2, ..Limits::default() });
    let client = Client::over_streams(Config::new(9, 1), 1, connect);
    let calls = (0..12).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.call::<_, u32>(1, &()).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.expect("no panic").expect("a number");
    }
    assert_eq!(seen.most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn large_arguments_and_results_pass_and_the_next_connection_serves_the_next_call() {
    let servers = Servers::new(1, server);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let tasks = ended.clone();
    let connect = move || {
        let (near, far) = duplex(4_096);
        let task = tokio::spawn(serve_stream(servers.clone(), far, peer(), Limits::default()));
        tasks.lock().expect("no panic").push(task);
        core::future::ready(Ok(near))
    };
    let client = Client::over_streams(Config::new(PROGRAM, 3), 1, connect);
    for bytes in [0, 1, 4_096, 65_537, 1_000_000] {
        let sent = Bytes(vec![7; bytes]);
        assert_eq!(client.call::<_, Bytes>(3, &sent).await.expect("results"), sent);
    }
    let waits = tokio::spawn({
        let client = client.clone();
        async move { client.call::<_, ()>(4, &()).await }
    });
    tokio::time::sleep(Time::from_millis(20)).await;
    ended.lock().expect("no panic").iter().for_each(tokio::task::JoinHandle::abort);
    assert!(matches!(waits.await.expect("no panic"), Err(CallError::Disconnected)));
    assert_eq!(client.call::<_, u32>(2, &()).await.expect("a new connection"), 1);
    assert_eq!(ended.lock().expect("no panic").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_reply_times_out_and_connect_errors_are_reported() {
    let connect = connections(Servers::new(1, server), Limits::default());
    let client = Client::over_streams(Config::new(PROGRAM, 3), 1, connect);
    assert!(matches!(client.call::<_, ()>(4, &()).await, Err(CallError::TimedOut)));
    assert_eq!(client.call::<_, u32>(2, &()).await.expect("a new connection"), 1);
    let refuse = || {
        core::future::ready(io::Result::<DuplexStream>::Err(
            io::ErrorKind::ConnectionRefused.into(),
        ))
    };
    let client = Client::over_streams(Config::new(PROGRAM, 3), 1, refuse);
    assert!(matches!(client.call::<_, ()>(0, &()).await, Err(CallError::Transport(_))));
    let never = core::future::pending::<io::Result<DuplexStream>>;
    let client = Client::over_streams(Config::new(PROGRAM, 3), 1, never);
    assert!(matches!(client.call::<_, ()>(0, &()).await, Err(CallError::Transport(_))));
}

/// What a server returns when it receives these bytes on a stream.
async fn sent(bytes: &[u8], keep_open: bool) -> (io::Result<()>, Arc<Servers>) {
    let servers = Servers::new(1, server);
    let (mut near, far) = duplex(65_536);
    let task = tokio::spawn(serve_stream(servers.clone(), far, peer(), Limits::default()));
    near.write_all(bytes).await.expect("room");
    if !keep_open {
        near.shutdown().await.expect("room");
    }
    (task.await.expect("no panic"), servers)
}

#[tokio::test(start_paused = true)]
async fn fragments_that_lie_claim_2_gb_or_never_end_end_the_connection() {
    let (ended, servers) = sent(&[0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3], true).await;
    assert_eq!(ended.expect_err("2 GB").kind(), io::ErrorKind::InvalidData);
    assert_eq!(servers.totals().drops, [(DropReason::RpcRecord, 1)]);
    let (ended, servers) = sent(&[0; 5_000 * 4], true).await;
    assert_eq!(ended.expect_err("fragments without end").kind(), io::ErrorKind::InvalidData);
    assert_eq!(servers.totals().drops, [(DropReason::RpcRecord, 1)]);
    let (ended, _) = sent(&[0x80, 0, 0, 40, 0, 0, 0, 1], true).await;
    assert_eq!(ended.expect_err("half a record").kind(), io::ErrorKind::TimedOut);
    let (ended, _) = sent(&[0x80, 0, 0, 40, 0, 0, 0, 1], false).await;
    assert!(ended.is_ok(), "half a record at the end");
    let (ended, servers) = sent(&[0x80, 0, 0, 4, 0, 0, 0, 1], true).await;
    assert_eq!(ended.expect_err("no call").kind(), io::ErrorKind::InvalidData);
    assert_eq!(servers.totals().drops, [(DropReason::RpcMalformed, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_no_replies_is_read_no_further_and_ended() {
    let servers = Servers::new(4, server);
    let (near, far) = duplex(16_384);
    let began = tokio::time::Instant::now();
    let task = tokio::spawn(serve_stream(servers.clone(), far, peer(), Limits::default()));
    let (_reads_nothing, mut writer) = tokio::io::split(near);
    let mut call = Vec::new();
    for word in [1, 0, 2, PROGRAM, 3, 3, 0, 0, 0, 0, 60_000] {
        u32::encode(&word, &mut call);
    }
    call.resize(44 + 60_000, 0);
    let mark = (call.len() as u32 | 1 << 31).to_be_bytes();
    let mut written = 0;
    let pushing = async {
        loop {
            writer.write_all(&mark).await?;
            writer.write_all(&call).await?;
            written += call.len();
        }
        #[allow(unreachable_code, reason = "the type of the result")]
        io::Result::Ok(())
    };
    let (pushed, ended) = tokio::join!(pushing, task);
    assert!(pushed.is_err());
    assert_eq!(ended.expect("no panic").expect_err("ended").kind(), io::ErrorKind::TimedOut);
    assert!(began.elapsed() >= STALL.into());
    assert!(
        written < 20 * 60_044 + 65_536,
        "the server read {written} bytes although its replies were not read"
    );
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_counted() {
    let servers = Servers::new(1, server);
    let (new, mut accepted) = mpsc::channel::<DuplexStream>(8);
    let limits = Limits { connections: 2, ..Limits::default() };
    let serving = {
        let servers = servers.clone();
        async move {
            let accept = || {
                let next = accepted.try_recv();
                async move {
                    match next {
                        Ok(stream) => Ok((stream, peer())),
                        Err(_) => {
                            tokio::time::sleep(Time::from_millis(1)).await;
                            Err(io::ErrorKind::ConnectionAborted.into())
                        }
                    }
                }
            };
            listen(servers, accept, limits).await
        }
    };
    let task = tokio::spawn(serving);
    let mut ends = Vec::new();
    for _ in 0..3 {
        let (near, far) = duplex(1_024);
        new.send(far).await.expect("room");
        ends.push(near);
    }
    let mut one = [0];
    assert_eq!(ends[2].read(&mut one).await.expect("closed"), 0);
    assert_eq!(servers.totals().drops, [(DropReason::RpcConnections, 1)]);
    task.abort();
}

/// One end of a path for datagrams, which loses some of them.
struct Lossy {
    to: mpsc::UnboundedSender<Vec<u8>>,
    from: tokio::sync::Mutex<mpsc::UnboundedReceiver<Vec<u8>>>,
    far: SocketAddr,
    sent: AtomicU32,
    /// The path loses the first of every `loses` datagrams.
    loses: u32,
}

impl Datagrams for Lossy {
    fn send(&self, datagram: &[u8], _: SocketAddr) -> impl Future<Output = io::Result<()>> + Send {
        let n = self.sent.fetch_add(1, Ordering::SeqCst);
        if !n.is_multiple_of(self.loses) {
            let _ = self.to.send(datagram.to_vec());
        }
        core::future::ready(Ok(()))
    }

    async fn receive(&self, room: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let Some(datagram) = self.from.lock().await.recv().await else {
            return core::future::pending().await;
        };
        room[..datagram.len()].copy_from_slice(&datagram);
        Ok((datagram.len(), self.far))
    }
}

#[tokio::test(start_paused = true)]
async fn over_a_lossy_path_each_call_is_carried_out_once() {
    let (to_server, at_server) = mpsc::unbounded_channel();
    let (to_client, at_client) = mpsc::unbounded_channel();
    let end = |to, from, far, loses| {
        let (from, sent) = (tokio::sync::Mutex::new(from), AtomicU32::new(0));
        Lossy { to, from, far, sent, loses }
    };
    let near = end(to_server, at_client, peer(), 3);
    let far = end(to_client, at_server, SocketAddr::from(([192, 0, 2, 9], 700)), 2);
    let servers = Servers::new(1, server);
    tokio::spawn(serve_datagrams(servers.clone(), far, KeyedHash::new(3, 4), 8));
    let client =
        Client::over_datagrams(Config::new(PROGRAM, 3), KeyedHash::new(5, 6), near, peer());
    for n in 1..=20 {
        assert_eq!(client.call::<_, u32>(2, &()).await.expect("a reply in the end"), n);
    }
    assert_eq!(servers.totals().answered, 20);
    let long = Bytes(vec![0; RECORD_BYTES]);
    assert!(matches!(client.call::<_, Bytes>(3, &long).await, Err(CallError::TooLong(..))));
}

#[tokio::test]
async fn a_call_that_comes_again_while_it_is_carried_out_is_not_carried_out_twice() {
    let (servers, seen) = slow(4, Time::from_millis(50));
    let (to_server, at_server) = mpsc::unbounded_channel();
    let (to_client, mut at_client) = mpsc::unbounded_channel();
    let (from, sent) = (tokio::sync::Mutex::new(at_server), AtomicU32::new(1));
    let far = Lossy { to: to_client, from, far: peer(), sent, loses: u32::MAX };
    tokio::spawn(serve_datagrams(servers.clone(), far, KeyedHash::new(3, 4), 8));
    let mut call = Vec::new();
    for word in [1, 0, 2, 9, 1, 1, 0, 0, 0, 0] {
        u32::encode(&word, &mut call);
    }
    (0..3).for_each(|_| to_server.send(call.clone()).expect("it receives"));
    let first = at_client.recv().await.expect("a reply");
    to_server.send(call).expect("it receives");
    assert_eq!(at_client.recv().await.expect("a reply"), first);
    assert_eq!(seen.calls.load(Ordering::SeqCst), 1);
    assert_eq!(servers.totals().drops, [(DropReason::RpcInProgress, 2)]);
}
