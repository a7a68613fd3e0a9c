//! A server whose connections lend buffers: every way of carrying a call out gives the same bytes,
//! with and without buffers, and whatever becomes of the caller.

use core::ops::RangeInclusive;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{KeyedHash, Limit};
use net::{Net, TcpListener, TcpStream};
use stack::pair::{PairConfig, pair};
use tokio::io::AsyncWriteExt;
use wirespeed_rpc::client::{CallError, Config};
use wirespeed_rpc::server::{Bulk, Refusal, Request, Server, Service};
use wirespeed_rpc::tasks::{AtOnce, Client, Lending, Limits, Servers, listen, serve_stream};
use wirespeed_rpc::xdr::{Bytes, Encode};

const PROGRAM: u32 = 0x2000_0777;
/// Bytes of a record: what is beyond is SYSTEM_ERR.
const RECORD_MAX: usize = 600_000;

/// Procedure 1: so many bytes. Procedure 2: the same, and it may wait when it is asked for an odd
/// number, after it has filled some.
struct Pattern;

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

impl Service for Pattern {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn call(&mut self, request: &Request<'_>, results: &mut Vec<u8>) -> Result<(), Refusal> {
        let bytes: u32 = request.decode()?;
        Bytes(pattern(bytes as usize)).encode(results);
        Ok(())
    }

    fn call_at_once(
        &mut self,
        request: &Request<'_>,
        results: &mut Vec<u8>,
        bulk: &mut dyn Bulk,
    ) -> Option<Result<(), Refusal>> {
        let Ok(bytes) = request.decode::<u32>() else { return None };
        let mut data = pattern(bytes as usize);
        data.resize(data.len().next_multiple_of(4), 0);
        let mut left = &data[..];
        bytes.encode(results);
        let head = results.len();
        while !left.is_empty() {
            let filled = bulk.fill(head, &mut |room| {
                // What a file has is often less than what there is room for.
                let now = left.len().min(room.len()).min(50_000);
                room[..now].copy_from_slice(&left[..now]);
                now
            });
            let Some(filled) = filled else {
                bulk.clear();
                results.truncate(head - 4);
                Bytes(pattern(bytes as usize)).encode(results);
                return Some(Ok(()));
            };
            left = &left[filled..];
        }
        (request.procedure == 1 || bytes.is_multiple_of(2)).then_some(Ok(()))
    }
}

/// Two stacks whose drivers are tasks, and a server at the second.
struct Rig {
    near: Net,
    far: Net,
    to: SocketAddr,
    servers: Arc<Servers>,
}

impl Rig {
    fn new(at_once: AtOnce, mbuf_bytes: usize) -> Rig {
        let mut config = PairConfig::new([7, 42]);
        config.stack.budget.set(Limit::MbufBytes, mbuf_bytes);
        let (near, far) = pair(&config);
        let to = SocketAddr::new(far.addr, 7);
        let (near, far) = (Net::spawn_tokio(near.stack).0, Net::spawn_tokio(far.stack).0);
        let servers = Servers::blocking(2, || {
            let mut server = Server::new(KeyedHash::new(1, 2));
            server.add(Pattern);
            server
        });
        let listener = Arc::new(TcpListener::bind(&far, to).expect("a port"));
        let accept = move || {
            let listener = listener.clone();
            async move { listener.accept().await.map(|(stream, from)| (Lending(stream), from)) }
        };
        let limits = Limits { record_max: RECORD_MAX, at_once, ..Limits::default() };
        tokio::spawn(listen(servers.clone(), accept, limits));
        Rig { near, far, to, servers }
    }

    fn client(&self) -> Client {
        let (net, to) = (self.near.clone(), self.to);
        let connect = move || {
            let net = net.clone();
            async move { TcpStream::connect(&net, to).await }
        };
        Client::over_streams(Config::new(PROGRAM, 1), 1, connect)
    }

    /// Wait until the server holds nothing.
    async fn drained(&self) {
        for _ in 0..2_000 {
            let held = self.far.with_stack(|s| (s.connection_count(), s.pool().outstanding()));
            if held.expect("driven") == (0, 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the server holds buffers");
    }
}

const WAYS: [AtOnce; 3] = [AtOnce::Never, AtOnce::Copied, AtOnce::Lent];

#[tokio::test]
async fn every_way_gives_the_same_bytes() {
    let sizes = [0, 1, 3, 4, 50_000, 65_393, 65_480, 65_500, 131_072, 262_144, 599_000, 599_961];
    for (at_once, mbuf_bytes) in WAYS.into_iter().map(|way| (way, 64 << 20)) {
        let rig = Rig::new(at_once, mbuf_bytes);
        let client = rig.client();
        let calls: Vec<_> = sizes
            .into_iter()
            .flat_map(|bytes| [(1, bytes), (2, bytes)])
            .map(|(procedure, bytes)| {
                let client = client.clone();
                let call = async move { client.call::<_, Bytes>(procedure, &bytes).await };
                (bytes, tokio::spawn(call))
            })
            .collect();
        for (bytes, call) in calls {
            let got = call.await.expect("no panic").expect("results");
            assert!(got.0 == pattern(bytes as usize), "{at_once:?}: {bytes} bytes");
        }
        // Longer than a record may be, and then the next.
        let long = client.call::<_, Bytes>(1, &(RECORD_MAX as u32)).await;
        assert!(matches!(long, Err(CallError::SystemError)), "{at_once:?}: {long:?}");
        assert!(matches!(client.call::<_, ()>(1, &()).await, Err(CallError::GarbageArguments)));
        assert_eq!(client.call::<_, Bytes>(1, &5_u32).await.expect("results").0, pattern(5));
        assert_eq!(rig.servers.totals().answered, 27);
        drop(client);
        rig.drained().await;
    }
}

#[tokio::test]
async fn without_buffers_data_is_copied() {
    // Four buffers of 64 KB, of which the connection needs some.
    let rig = Rig::new(AtOnce::Lent, 320 << 10);
    let client = rig.client();
    for bytes in [400_000_u32, 100_000, 500_001] {
        let got = client.call::<_, Bytes>(1, &bytes).await.expect("results");
        assert!(got.0 == pattern(bytes as usize), "{bytes} bytes");
    }
    drop(client);
    rig.drained().await;
}

#[tokio::test]
async fn buffers_go_home_when_the_caller_goes() {
    let rig = Rig::new(AtOnce::Lent, 64 << 20);
    let mut call = Vec::new();
    for word in [1, 0, 2, PROGRAM, 1, 1, 0, 0, 0, 0, 500_000] {
        u32::encode(&word, &mut call);
    }
    let mark = (call.len() as u32 | 1 << 31).to_be_bytes();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(&rig.near, rig.to).await.expect("it listens");
        for _ in 0..16 {
            stream.write_all(&mark).await.expect("room");
            stream.write_all(&call).await.expect("room");
        }
        // Its window is full of replies.
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.set_linger(Some(Duration::ZERO)).expect("it is open");
    }
    rig.drained().await;
    assert!(rig.servers.totals().answered >= 3);
}

#[tokio::test]
async fn a_stream_of_ours_that_lends_nothing_is_served_too() {
    let mut config = PairConfig::new([7, 42]);
    config.stack.budget.set(Limit::MbufBytes, 16 << 20);
    let (near, far) = pair(&config);
    let to = SocketAddr::new(far.addr, 7);
    let (near, far) = (Net::spawn_tokio(near.stack).0, Net::spawn_tokio(far.stack).0);
    let servers = Servers::blocking(1, || {
        let mut server = Server::new(KeyedHash::new(1, 2));
        server.add(Pattern);
        server
    });
    let listener = TcpListener::bind(&far, to).expect("a port");
    let serving = async move {
        let (stream, from) = listener.accept().await?;
        serve_stream(servers, stream, from, Limits::default()).await
    };
    let serving: tokio::task::JoinHandle<io::Result<()>> = tokio::spawn(serving);
    let connect = move || {
        let net = near.clone();
        async move { TcpStream::connect(&net, to).await }
    };
    let client = Client::over_streams(Config::new(PROGRAM, 1), 1, connect);
    let got = client.call::<_, Bytes>(1, &300_000_u32).await.expect("results");
    assert!(got.0 == pattern(300_000));
    drop(client);
    serving.await.expect("no panic").expect("its end");
}
