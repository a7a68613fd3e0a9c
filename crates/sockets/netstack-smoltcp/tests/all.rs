//! A stack of ours as the client behind the packets, and the interface of `netstack-smoltcp` as a
//! program uses it. `cargo xtask interop programs` runs the original's own tests and programs.

use std::future::Future;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use base::{LinkKind, Mtu};
use device::channel;
use futures_util::{SinkExt, StreamExt};
use net::{Net, TcpStream, UdpSocket};
use netstack_smoltcp::{IpFilters, Stack, StackBuilder, TcpListener};
use stack::{PortConfig, Route, StackConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wire::checksum::Sum;

/// More than any of these tests takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn all() -> StackBuilder {
    StackBuilder::default().enable_tcp(true).enable_udp(true).enable_icmp(true)
}

/// A host whose packets go to `stack` and come from there.
fn host(stack: Stack) -> Net {
    let mtu = Mtu::new(1_500).unwrap();
    let config = channel::Config { link: LinkKind::Ip, mtu, depth: 512 };
    let (device, end) = channel::pair(&config);
    let mut host = stack::Stack::new(StackConfig::new([3, 4]));
    let addresses = ["10.0.0.1/24", "2001:db8::1/64"].map(|addr| addr.parse().unwrap());
    let config = PortConfig { addresses: addresses.to_vec(), ..PortConfig::default() };
    let port = host.add_port(Box::new(device), config);
    for all in ["0.0.0.0/0", "::/0"] {
        host.add_route(Route::new(all.parse().unwrap(), None, port.0));
    }
    let (net, _driver) = Net::spawn_thread(host).unwrap();
    let (mut sink, mut stream) = stack.split();
    let end = std::sync::Arc::new(end);
    let (frames, mut to_stack) = tokio::sync::mpsc::unbounded_channel();
    let reader = end.clone();
    std::thread::spawn(move || {
        let mut frame = [0; 2_048];
        while let Ok(len) = reader.recv(&mut frame) {
            if frames.send(frame[..len].to_vec()).is_err() {
                break;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(packet) = to_stack.recv().await {
            if sink.send(packet).await.is_err() {
                break;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(Ok(packet)) = stream.next().await {
            if end.send(&packet).is_err() {
                break;
            }
        }
    });
    net
}

async fn accept(listener: &mut TcpListener) -> (netstack_smoltcp::TcpStream, SocketAddr) {
    let (stream, src, dst) = timeout(LONG, listener.next()).await.unwrap().unwrap();
    assert_eq!((stream.local_addr(), stream.remote_addr()), (&src, &dst));
    (stream, dst)
}

#[tokio::test]
async fn connections_to_any_host() {
    let (stack, runner, _udp, listener) = all().build().unwrap();
    tokio::spawn(runner.unwrap());
    let (mut net, mut listener) = (host(stack), listener.unwrap());
    for to in ["198.51.100.7:443", "[2001:db8:1::7]:80"] {
        let to: SocketAddr = to.parse().unwrap();
        let client = tokio::spawn(async move {
            let data: Vec<u8> = (0..1_000_000_u32).map(|i| (i * 7 + (i >> 9)) as u8).collect();
            let mut stream = TcpStream::connect(&net, to).await.unwrap();
            let (mut read, mut write) = stream.split();
            let mut back = Vec::new();
            let write = async {
                write.write_all(&data).await.unwrap();
                write.shutdown().await.unwrap();
            };
            let read = async { read.read_to_end(&mut back).await.unwrap() };
            tokio::join!(write, read);
            assert!(back == data, "{} bytes came back", back.len());
            drop(stream);
            net
        });
        let (stream, dst) = accept(&mut listener).await;
        assert_eq!(dst, to);
        // The echo: it ends its direction when the client has ended its own.
        let (mut read, mut write) = tokio::io::split(stream);
        let echoed = timeout(LONG, tokio::io::copy(&mut read, &mut write)).await.unwrap();
        assert_eq!(echoed.unwrap(), 1_000_000);
        write.shutdown().await.unwrap();
        net = timeout(LONG, client).await.unwrap().unwrap();
    }
}

/// With a runner, and without one for a stack of UDP alone.
#[tokio::test]
async fn datagrams_to_any_host() {
    for builder in [all(), StackBuilder::default().enable_udp(true)] {
        let (stack, runner, udp, _listener) = builder.mtu(1_500).build().unwrap();
        if let Some(runner) = runner {
            tokio::spawn(runner);
        }
        let net = host(stack);
        let (mut read, mut write) = udp.unwrap().split();
        let echo = tokio::spawn(async move {
            while let Some((payload, src, dst)) = read.next().await {
                write.send((payload, dst, src)).await.unwrap();
            }
        });
        for (from, to) in [("0.0.0.0:0", "198.51.100.53:53"), ("[::]:0", "[2001:db8:1::1]:53")] {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let socket = UdpSocket::bind(&net, from).unwrap();
            // The last one goes in fragments, both ways.
            for len in [0, 1, 1_400, 6_000] {
                let payload = vec![len as u8; len];
                socket.send_to(&payload, to).await.unwrap();
                let mut room = vec![0; 10_000];
                let got = timeout(LONG, socket.recv_from(&mut room)).await.unwrap().unwrap();
                assert_eq!(got, (len, to));
                assert_eq!(room[..len], payload);
            }
        }
        echo.abort();
    }
}

#[tokio::test]
async fn a_datagram_between_two_versions_is_refused() {
    let (_stack, _runner, udp, _listener) = all().build().unwrap();
    let (_read, mut write) = udp.unwrap().split();
    let (v4, v6) = ("192.0.2.1:1".parse().unwrap(), "[2001:db8::1]:1".parse().unwrap());
    let error = write.send((vec![1], v4, v6)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

/// An echo request from 10.0.0.1 to 198.51.100.7, or other ends.
fn ping(src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
    let (src, dst) = (src.into(), dst.into());
    let mut packet = vec![0; 20];
    let ip = wire::ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: 36,
        id: 1,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: wire::protocol::ICMP,
        src,
        dst,
    };
    assert!(ip.emit(&mut packet));
    packet.extend([8, 0, 0, 0, 0, 9, 0, 5]);
    packet.extend(b"abcdefgh");
    let field = wire::checksum::Ladder::best().sum(&packet[20..]).field();
    packet[22..24].copy_from_slice(&field);
    packet
}

#[tokio::test]
async fn pings_are_answered_in_the_name_of_any_host() {
    let (mut stack, runner, _udp, _listener) = all().build().unwrap();
    tokio::spawn(runner.unwrap());
    // The first two do not pass the filter; of the others only the last gets an answer.
    stack.send(ping([10, 0, 0, 1], [255; 4])).await.unwrap();
    stack.send(ping([10, 0, 0, 1], [224, 0, 0, 1])).await.unwrap();
    stack.send(ping([10, 0, 0, 1], [198, 51, 100, 7])).await.unwrap();
    let reply = timeout(LONG, stack.next()).await.unwrap().unwrap().unwrap();
    assert_eq!((&reply[12..16], &reply[16..20]), (&[198, 51, 100, 7][..], &[10, 0, 0, 1][..]));
    assert_eq!((reply[20], &reply[24..]), (0, &b"\0\x09\0\x05abcdefgh"[..]));
}

#[tokio::test]
async fn filters_and_protocols_decide_what_passes() {
    let refused: IpAddr = "198.51.100.7".parse().unwrap();
    let builder = all()
        .set_ip_filters(IpFilters::new())
        .add_ip_filter(Box::new(|_, _| true))
        .add_ip_filter_fn(move |_, dst| *dst != refused);
    let (mut stack, runner, _udp, _listener) = builder.build().unwrap();
    tokio::spawn(runner.unwrap());
    stack.send(ping([10, 0, 0, 1], [198, 51, 100, 7])).await.unwrap();
    stack.send(ping([10, 0, 0, 1], [198, 51, 100, 8])).await.unwrap();
    let reply = timeout(LONG, stack.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(reply[12..16], [198, 51, 100, 8]);

    // Without ICMP the request is not even queued: the queue of one packet takes it ten times.
    let builder = StackBuilder::default().enable_tcp(true).tcp_buffer_size(1);
    let (mut stack, _runner, _udp, _listener) = builder.build().unwrap();
    for _ in 0..10 {
        stack.send(ping([10, 0, 0, 1], [198, 51, 100, 8])).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_packet_is_an_error_and_ends_nothing() {
    let (mut stack, runner, _udp, _listener) = all().build().unwrap();
    tokio::spawn(runner.unwrap());
    stack.send(Vec::new()).await.unwrap();
    let whole = ping([10, 0, 0, 1], [198, 51, 100, 7]);
    let v6 = [&[0x60, 0, 0, 0, 0, 8, 17, 64][..], &[0x20; 32]].concat();
    for len in 1..whole.len() {
        let error = stack.send(whole[..len].to_vec()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{len} bytes");
    }
    for packet in [v6, vec![0; 60], vec![0xff; 2_000], vec![0x45; 19]] {
        assert_eq!(stack.send(packet).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let mut short = whole.clone();
    short[3] = 19; // a total length shorter than the header
    assert_eq!(stack.send(short).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    stack.send(whole).await.unwrap();
    assert!(timeout(LONG, stack.next()).await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn a_full_queue_pushes_back() {
    let (mut stack, runner, _udp, _listener) = all().tcp_buffer_size(2).build().unwrap();
    let send = |stack: &mut Stack, to| {
        let packet = ping([10, 0, 0, 1], [198, 51, 100, to]);
        Box::pin(stack.send(packet)).as_mut().poll(&mut noop())
    };
    assert!(send(&mut stack, 1).is_ready() && send(&mut stack, 2).is_ready());
    assert!(send(&mut stack, 3).is_pending());
    let unasked = stack.start_send_unpin(ping([10, 0, 0, 1], [198, 51, 100, 3]));
    assert_eq!(unasked.unwrap_err().kind(), ErrorKind::WouldBlock);
    tokio::spawn(runner.unwrap());
    let third = ping([10, 0, 0, 1], [198, 51, 100, 4]);
    timeout(LONG, stack.send(third)).await.expect("woken when there is room").unwrap();
    for to in [1, 2, 4] {
        let reply = timeout(LONG, stack.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(reply[15], to);
    }
}

fn noop() -> std::task::Context<'static> {
    std::task::Context::from_waker(std::task::Waker::noop())
}

/// A segment without data from 10.0.0.1 to 198.51.100.7:80.
fn segment(port: u16, seq: u32, flags: u8) -> Vec<u8> {
    let mut packet = ping([10, 0, 0, 1], [198, 51, 100, 7]);
    packet.truncate(20);
    packet[2..4].copy_from_slice(&[0, 40]);
    packet[9] = wire::protocol::TCP;
    packet[10..12].fill(0);
    let field = wire::checksum::sum_short(&packet).field();
    packet[10..12].copy_from_slice(&field);
    packet.extend(port.to_be_bytes());
    packet.extend([0, 80]);
    packet.extend(seq.to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    let ends = ([10, 0, 0, 1].into(), [198, 51, 100, 7].into());
    let sum = Sum::pseudo_v4(ends.0, ends.1, wire::protocol::TCP).plus(Sum::of_be16(20));
    let field = sum.plus(wire::checksum::Ladder::best().sum(&packet[20..])).field();
    packet[36..38].copy_from_slice(&field);
    packet
}

#[tokio::test]
async fn a_handshake_that_fails_makes_room_for_another() {
    const SYN: u8 = 2;
    const RST: u8 = 4;
    let (mut stack, runner, _udp, listener) = all().build().unwrap();
    tokio::spawn(runner.unwrap());
    let mut listener = listener.unwrap();
    tokio::spawn(async move { while listener.next().await.is_some() {} });
    let most = netstack_smoltcp::tcp::OPENING_MAX as u16;
    for port in 1..=most {
        stack.send(segment(port, 7, SYN)).await.unwrap();
        answer_to(&mut stack, port).await;
    }
    stack.send(segment(1, 8, RST)).await.unwrap();
    stack.send(segment(most + 1, 7, SYN)).await.unwrap();
    answer_to(&mut stack, most + 1).await;
}

/// Wait for a segment to this port.
async fn answer_to(stack: &mut Stack, port: u16) {
    loop {
        let packet = timeout(LONG, stack.next()).await.expect("an answer").unwrap().unwrap();
        if packet[22..24] == port.to_be_bytes() {
            return;
        }
    }
}

#[tokio::test]
async fn the_end_of_the_stack_ends_everything() {
    let (stack, runner, udp, listener) = all().build().unwrap();
    let running = tokio::spawn(runner.unwrap());
    let (mut read, _write) = udp.unwrap().split();
    let reading = tokio::spawn(async move { read.next().await });
    let mut listener = listener.unwrap();
    tokio::task::yield_now().await;
    drop(stack);
    timeout(LONG, running).await.expect("the runner ends").unwrap().unwrap();
    assert!(timeout(LONG, listener.next()).await.expect("the listener ends").is_none());
    assert!(timeout(LONG, reading).await.expect("the reader ends").unwrap().is_none());

    let (stack, _runner, udp, _listener) =
        StackBuilder::default().enable_udp(true).build().unwrap();
    let (mut read, _write) = udp.unwrap().split();
    let reading = tokio::spawn(async move { read.next().await });
    tokio::task::yield_now().await;
    drop(stack);
    assert!(timeout(LONG, reading).await.expect("it ends without a runner").unwrap().is_none());

    let (mut stack, runner, _udp, _listener) = all().build().unwrap();
    drop(runner);
    let sent = timeout(LONG, stack.send(ping([10, 0, 0, 1], [198, 51, 100, 7]))).await.unwrap();
    assert_eq!(sent.unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(timeout(LONG, stack.next()).await.unwrap().is_none());
}

#[test]
fn settings_that_cannot_be() {
    let error = StackBuilder::default().enable_icmp(true).build().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    for mtu in [0, 67, 65_536] {
        assert_eq!(all().mtu(mtu).build().err().unwrap().kind(), ErrorKind::InvalidInput);
    }
    let (_stack, runner, udp, listener) = StackBuilder::default().build().unwrap();
    assert!(runner.is_none() && udp.is_none() && listener.is_none());
    let runner: Option<netstack_smoltcp::Runner> = all().build().unwrap().1;
    let future: Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>> = runner.unwrap();
    drop(future);
}
