//! A server whose connections lend buffers. Whatever way a call is carried out, with and without
//! buffers, it takes and returns the same bytes, and no buffer is lost if the caller goes away.

use core::ops::RangeInclusive;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{KeyedHash, Limit, Mtu};
use net::{Net, TcpListener, TcpStream};
use stack::pair::{PairConfig, pair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_rpc::client::{CallError, Config};
use wirespeed_rpc::limits::ARRIVED_BYTES;
use wirespeed_rpc::server::{Bulk, Refusal, Request, Server, Service};
use wirespeed_rpc::tasks::{AtOnce, Client, Lending, Limits, Servers, listen, serve_stream};
use wirespeed_rpc::xdr::{Bytes, Encode, Opaque};

const PROGRAM: u32 = 0x2000_0777;
/// The most bytes of a record. A longer reply becomes SYSTEM_ERR.
const RECORD_MAX: usize = 600_000;

/// Procedure 1 returns the given number of bytes. Procedure 2 does the same; for an odd number it
/// asks to be called again, as if it had to wait, after it has filled some bytes. Procedure 3
/// returns the sum of the bytes, each multiplied by its place, and the number of pieces. Procedure
/// 4 does the same, and may wait.
struct Pattern;

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// The sum of the bytes, each multiplied by its place.
fn weighed(pieces: &[&[u8]]) -> u64 {
    pieces.iter().copied().flatten().zip(1..).map(|(&byte, at)| u64::from(byte) * at).sum()
}

impl Service for Pattern {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn call(&mut self, request: &Request<'_>, results: &mut Vec<u8>) -> Result<(), Refusal> {
        if request.procedure > 2 {
            let data: Opaque<'_> = request.decode()?;
            (weighed(&[data.0]), 1_u32).encode(results);
            return Ok(());
        }
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
        if request.procedure > 2 {
            let (len, first) = request.args.split_first_chunk()?;
            let mut left = u32::from_be_bytes(*len) as usize;
            let pieces = core::iter::once(first).chain(request.more.iter().copied());
            let data: Vec<&[u8]> = pieces
                .map(|piece| {
                    let data = &piece[..left.min(piece.len())];
                    left -= data.len();
                    data
                })
                .collect();
            (weighed(&data), data.len() as u32).encode(results);
            return (request.procedure == 3).then_some(Ok(()));
        }
        let Ok(bytes) = request.decode::<u32>() else { return None };
        let mut data = pattern(bytes as usize);
        data.resize(data.len().next_multiple_of(4), 0);
        let mut left = &data[..];
        bytes.encode(results);
        let head = results.len();
        while !left.is_empty() {
            let filled = bulk.fill(head, &mut |room| {
                // As with files, often fewer bytes come than there is room for.
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

/// Two stacks whose drivers are tasks, and an RPC server on the second one.
struct Rig {
    near: Net,
    far: Net,
    to: SocketAddr,
    servers: Arc<Servers>,
}

impl Rig {
    fn new(at_once: AtOnce, mbuf_bytes: usize) -> Rig {
        Rig::with(Mtu::ETHERNET, at_once, mbuf_bytes)
    }

    fn with(mtu: Mtu, at_once: AtOnce, mbuf_bytes: usize) -> Rig {
        let mut config = PairConfig::new([7, 42]);
        config.wire.mtu = mtu;
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

    /// Wait until the server's stack holds no buffer and no connection.
    async fn drained(&self) {
        for _ in 0..2_000 {
            let held = self.far.with_stack(|s| (s.connection_count(), s.pool().outstanding()));
            if held.expect("the driver runs") == (0, 0) {
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
        // Ask for a reply that is longer than a record may be, then make another call.
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
async fn every_way_takes_the_same_bytes() {
    let sizes = [0, 1, 5, 2_000, 16_000, 18_400, 18_500, 65_393, 65_480, 131_072, 262_144, 599_900];
    for (way, mtu) in
        WAYS.into_iter().flat_map(|way| [Mtu::ETHERNET, Mtu::MAX].map(|mtu| (way, mtu)))
    {
        let rig = Rig::with(mtu, way, 64 << 20);
        let client = rig.client();
        // No other call waits, so a server is free for this call.
        let long = Bytes(pattern(599_900));
        let (_, pieces) = client.call::<_, (u64, u32)>(3, &long).await.expect("results");
        // Short pieces are copied.
        let is_lent = way == AtOnce::Lent && mtu == Mtu::MAX;
        assert!(if is_lent { pieces > 4 } else { pieces == 1 }, "{way:?}: {pieces}");
        let calls: Vec<_> = sizes
            .into_iter()
            .chain(sizes.into_iter().rev())
            .flat_map(|bytes| [(3, bytes), (4, bytes)])
            .map(|(procedure, bytes)| {
                let client = client.clone();
                let data = Bytes(pattern(bytes));
                let call = async move { client.call::<_, (u64, u32)>(procedure, &data).await };
                (procedure, bytes, tokio::spawn(call))
            })
            .collect();
        for (procedure, bytes, call) in calls {
            let (sum, pieces) = call.await.expect("no panic").expect("results");
            assert_eq!(sum, weighed(&[&pattern(bytes)]), "{way:?}: {bytes} bytes");
            assert!(procedure == 3 && is_lent || pieces == 1);
        }
        assert_eq!(rig.servers.totals().answered, 4 * sizes.len() as u64 + 1);
        drop(client);
        rig.drained().await;
    }
}

/// Sends a call of procedure 3 with `bytes` bytes of data, but only `sent` bytes of the data.
async fn half_a_call(stream: &mut TcpStream, bytes: usize, sent: usize) {
    let mut call = Vec::new();
    for word in [1, 0, 2, PROGRAM, 1, 3, 0, 0, 0, 0, bytes as u32] {
        u32::encode(&word, &mut call);
    }
    let mark = ((call.len() + bytes) as u32 | 1 << 31).to_be_bytes();
    stream.write_all(&[&mark[..], &call, &pattern(sent)].concat()).await.expect("room");
}

#[tokio::test]
async fn halves_of_calls_keep_no_more_buffers_than_the_limit() {
    let rig = Rig::with(Mtu::MAX, AtOnce::Lent, 64 << 20);
    let mut streams = Vec::new();
    for _ in 0..24 {
        let mut stream = TcpStream::connect(&rig.near, rig.to).await.expect("it listens");
        half_a_call(&mut stream, 590_000, 580_000).await;
        streams.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Over a link in memory a received buffer belongs to the sender's pool.
    let outstanding =
        |net: &Net| net.with_stack(|s| s.pool().outstanding()).expect("the driver runs");
    let held = outstanding(&rig.near) + outstanding(&rig.far);
    let most = ARRIVED_BYTES / 60_000 + streams.len();
    assert!(held > 20 && held <= most, "{held}");
    // The rest of one call arrives, and the call is answered as usual.
    let mut reply = [0; 4 + 24 + 12];
    streams[23].write_all(&pattern(590_000)[580_000..]).await.expect("room");
    streams[23].read_exact(&mut reply).await.expect("a reply");
    assert_eq!(reply[28..36], weighed(&[&pattern(590_000)]).to_be_bytes());
    drop(streams);
    rig.drained().await;
}

#[tokio::test]
async fn without_buffers_data_is_copied() {
    // The budget allows four buffers of 64 KB, of which the connection needs some itself.
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
        // After this time the client's receive window is full of replies.
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
