//! Sockets for threads, over stacks that driver threads run.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use wirespeed_net::TcpSocket;
use wirespeed_net::blocking::{TcpListener, TcpStream, UdpSocket};

use crate::common::{Ends, SOON, pattern};

/// A connection: the client's end, then the server's.
fn connected(ends: &Ends) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
    let client = TcpStream::connect(&ends.client, ends.to).unwrap();
    let (server, from) = listener.accept().unwrap();
    assert_eq!(client.local_addr().unwrap(), from);
    assert_eq!(client.peer_addr().unwrap(), ends.to);
    assert_eq!(server.local_addr().unwrap(), ends.to);
    (client, server)
}

#[test]
fn an_echo_of_many_sizes() {
    let ends = Ends::threads();
    let (mut client, mut server) = connected(&ends);
    let echo = thread::spawn(move || {
        let mut buf = vec![0; 10_000];
        loop {
            match server.read(&mut buf).unwrap() {
                0 => return,
                n => server.write_all(&buf[..n]).unwrap(),
            }
        }
    });
    let data = pattern(200_000);
    for len in [1, 64, 1448, 1449, 10_000, 200_000] {
        let mut back = vec![0; len];
        let mut writer = client.try_clone().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| writer.write_all(&data[..len]).unwrap());
            client.read_exact(&mut back).unwrap();
        });
        assert_eq!(back, data[..len]);
    }
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
    echo.join().unwrap();
    drop(client);
    ends.wait_empty();
}

#[test]
fn a_ping_pong_of_a_thousand_turns() {
    let ends = Ends::threads();
    let (mut client, mut server) = connected(&ends);
    let echo = thread::spawn(move || {
        let mut buf = [0; 64];
        while server.read_exact(&mut buf).is_ok() {
            server.write_all(&buf).unwrap();
        }
    });
    let mut buf = [0; 64];
    for turn in 0..1000u32 {
        buf[..4].copy_from_slice(&turn.to_le_bytes());
        let sent = buf;
        client.write_all(&buf).unwrap();
        client.read_exact(&mut buf).unwrap();
        assert_eq!(buf, sent);
    }
    drop(client);
    echo.join().unwrap();
    ends.wait_empty();
}

#[test]
fn bulk_both_ways_at_once() {
    let ends = Ends::threads();
    let (client, server) = connected(&ends);
    let data = pattern(8 << 20);
    thread::scope(|scope| {
        for stream in [&client, &server] {
            scope.spawn(|| {
                let mut writing = stream.try_clone().unwrap();
                writing.write_all(&data).unwrap();
                writing.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(|| {
                let mut got = Vec::new();
                stream.try_clone().unwrap().read_to_end(&mut got).unwrap();
                assert!(got == data, "the {} bytes received differ from those sent", got.len());
            });
        }
    });
    drop((client, server));
    ends.wait_empty();
}

#[test]
fn several_connections_and_threads_share_a_stack() {
    let ends = Ends::threads();
    let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..8 {
                let (mut stream, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut got = Vec::new();
                    stream.read_to_end(&mut got).unwrap();
                    stream.write_all(&got).unwrap();
                });
            }
        });
        for n in 0..8usize {
            let ends = &ends;
            scope.spawn(move || {
                let mut stream = TcpStream::connect(&ends.client, ends.to).unwrap();
                let data = pattern(100_000 + n);
                stream.write_all(&data).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).unwrap();
                assert!(got == data);
            });
        }
    });
    ends.wait_empty();
}

#[test]
fn vectored_peeked_and_loaned() {
    let ends = Ends::threads();
    let (mut client, mut server) = connected(&ends);
    let parts = [IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two")];
    assert_eq!(client.write_vectored(&parts).unwrap(), 7);
    let mut seen = [0; 16];
    while server.peek(&mut seen).unwrap() < 7 {}
    assert_eq!(&seen[..7], b"one two");
    assert_eq!(server.peek(&mut seen[..3]).unwrap(), 3);
    let (mut a, mut b) = ([0; 3], [0; 9]);
    let n = server.read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]).unwrap();
    assert_eq!((n, &a, &b[..4]), (7, b"one", b" two".as_slice()));
    client.write_all(b"loaned").unwrap();
    let loan = server.read_loan().unwrap().expect("not the end");
    assert_eq!(&*loan, b"loaned");
    client.shutdown(Shutdown::Write).unwrap();
    assert!(server.read_loan().unwrap().is_none());
    drop((client, server));
    // A loan may be dropped on any thread, after its connection is gone.
    thread::spawn(move || drop(loan)).join().unwrap();
    ends.wait_empty();
}

#[test]
fn time_outs_and_not_waiting() {
    let ends = Ends::threads();
    let (mut client, server) = connected(&ends);
    client.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    assert_eq!(client.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(client.read_timeout().unwrap(), Some(Duration::from_millis(30)));
    client.set_write_timeout(Some(Duration::from_millis(30))).unwrap();
    let more_than_buffers = vec![1; 16 << 20];
    let n = client.write(&more_than_buffers).unwrap();
    assert!(n < more_than_buffers.len());
    assert_eq!(client.write(b"x").unwrap_err().kind(), ErrorKind::WouldBlock);
    let zero = client.set_read_timeout(Some(Duration::ZERO));
    assert_eq!(zero.unwrap_err().kind(), ErrorKind::InvalidInput);
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
    client.set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    drop(server);
    ends.wait_empty();
}

#[test]
fn nobody_answers_a_connect() {
    let (ends, drivers) = Ends::undriven(|_| {});
    let [driving, silent] = drivers;
    let driving = driving.spawn_thread().unwrap();
    let timeout = Duration::from_millis(50);
    let failed = TcpStream::connect_timeout(&ends.client, ends.to, timeout);
    assert_eq!(failed.err().map(|e| e.kind()), Some(ErrorKind::TimedOut));
    drop(silent);
    driving.stop().unwrap();
    let failed = TcpStream::connect(&ends.client, ends.to).err().unwrap();
    assert!(failed.to_string().contains("driver"), "{failed}");
}

/// RFC 9293 MUST-21 (section 3.8.3): a program can set how long data may stay unacknowledged before
/// the connection is aborted.
#[test]
fn a_peer_that_vanishes_ends_in_an_error_after_the_user_timeout() {
    let (ends, [client_driver, server_driver]) = Ends::threads_with(|_| {});
    let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
    let mut socket = TcpSocket::new(&ends.client);
    socket.set_tcp_user_timeout(Some(Duration::from_millis(300)));
    let mut client = TcpStream::connect_with(&socket, ends.to, Some(SOON)).unwrap();
    let _server = listener.accept().unwrap();
    server_driver.stop().unwrap();
    client.write_all(b"is anybody there?").unwrap();
    assert_eq!(client.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(client.write(b"no").unwrap_err().kind(), ErrorKind::BrokenPipe);
    drop(client);
    assert_eq!(ends.client.with_stack(|s| s.connection_count()).unwrap(), 0);
    client_driver.stop().unwrap();
}

#[test]
fn a_driver_that_ends_wakes_and_fails_everyone() {
    let (ends, [client_driver, _server_driver]) = Ends::threads_with(|_| {});
    let (client, _server) = connected(&ends);
    let mut reading = client.try_clone().unwrap();
    let reader = thread::spawn(move || reading.read(&mut [0; 9]));
    thread::sleep(Duration::from_millis(20));
    client_driver.stop().unwrap();
    let error = reader.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("driver"), "{error}");
    assert_eq!(client.peer_addr().unwrap_err().kind(), ErrorKind::Other);
}

#[test]
fn drivers_end_when_nobody_is_left() {
    let (ends, drivers) = Ends::threads_with(|_| {});
    let (mut client, server) = connected(&ends);
    client.write_all(b"the last words").unwrap();
    drop(ends);
    let last = thread::spawn(move || {
        let mut got = String::new();
        { server }.read_to_string(&mut got).unwrap();
        got
    });
    drop(client);
    assert_eq!(last.join().unwrap(), "the last words");
    for driver in drivers {
        driver.join().unwrap();
    }
}

#[test]
fn datagrams() {
    let ends = Ends::threads();
    let server = UdpSocket::bind(&ends.server, ends.to).unwrap();
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let client = UdpSocket::bind(&ends.client, any).unwrap();
    let stranger = UdpSocket::bind(&ends.client, any).unwrap();
    assert_eq!(client.send(b"x").unwrap_err().kind(), ErrorKind::NotConnected);
    client.connect(ends.to).unwrap();
    client.send(b"hello").unwrap();
    let mut buf = [0; 64];
    let (n, from) = server.recv_from(&mut buf).unwrap();
    assert_eq!(&buf[..n], b"hello");
    server.connect(from).unwrap();
    stranger.send_to(b"let me in", ends.to).unwrap();
    client.send(b"").unwrap();
    client.send(b"longer than the room").unwrap();
    assert_eq!(server.recv(&mut buf).unwrap(), 0);
    assert_eq!(server.peek_from(&mut buf[..6]).unwrap(), (6, from));
    assert_eq!(server.recv(&mut buf[..6]).unwrap(), 6);
    assert_eq!(&buf[..6], b"longer");
    server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(server.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
    let dropped = ends.server.with_stack(|s| s.drops().of(base::DropReason::UdpNotPeer)).unwrap();
    assert_eq!(dropped, 1);
    let flood = thread::spawn({
        let to = ends.to;
        move || {
            (0..20_000).for_each(|_| assert_eq!(stranger.send_to(&[7; 1400], to).unwrap(), 1400))
        }
    });
    flood.join().unwrap();
    drop((client, server));
    ends.wait_empty();
}

/// As in the kernel, the next call of a connected socket reports the error, once.
#[test]
fn a_datagram_to_a_closed_port_is_refused_at_the_next_call() {
    let ends = Ends::threads();
    let client = UdpSocket::bind(&ends.client, SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
    client.connect(ends.to).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client.send(b"is anybody there?").unwrap();
    let mut buf = [0; 64];
    assert_eq!(client.recv(&mut buf).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(client);
    ends.wait_empty();
}

/// A gap makes a thread wait that writes faster than the gap allows. Its data is neither delayed
/// further nor dropped.
#[test]
fn a_gap_between_frames_pushes_the_sender_back() {
    const GAP: Duration = Duration::from_micros(20);
    let ends = Ends::threads();
    let host = base::Cidr::new(ends.to.ip(), 32).unwrap();
    let too_long = ends.client.set_burst_gap(host, Some(Duration::MAX)).unwrap_err();
    assert_eq!(too_long.kind(), ErrorKind::InvalidInput);
    assert!(too_long.to_string().contains("shorter"), "{too_long}");
    ends.client.set_burst_gap(host, Some(GAP)).unwrap();
    let server = UdpSocket::bind(&ends.server, ends.to).unwrap();
    let client = UdpSocket::bind(&ends.client, SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
    let begun = std::time::Instant::now();
    let sender = thread::spawn({
        let to = ends.to;
        move || (0..100).for_each(|_| assert_eq!(client.send_to(&[7; 8192], to).unwrap(), 8192))
    });
    server.set_read_timeout(Some(SOON)).unwrap();
    let mut buf = [0; 8192];
    for _ in 0..100 {
        assert_eq!(server.recv_from(&mut buf).unwrap().0, 8192);
    }
    // The gap separates 600 frames 599 times. A busy machine takes longer, but never less.
    assert!(begun.elapsed() >= 599 * GAP);
    sender.join().unwrap();
    drop(server);
    ends.wait_empty();
}

/// Several sockets at one address, one for each peer and one for all other peers; many datagrams in
/// one call.
#[test]
fn connected_datagram_sockets_share_a_port() {
    let ends = Ends::threads();
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let server = UdpSocket::bind(&ends.server, ends.to).unwrap();
    let clients = [(); 2].map(|()| UdpSocket::bind(&ends.client, any).unwrap());
    let mut buf = vec![0; 9_000];
    clients[0].send_to(b"first", ends.to).unwrap();
    let (_, from) = server.recv_from(&mut buf).unwrap();
    let own = UdpSocket::bind_connected(&ends.server, ends.to, from).unwrap();
    let again = UdpSocket::bind_connected(&ends.server, ends.to, from);
    assert_eq!(again.err().map(|e| e.kind()), Some(ErrorKind::AddrInUse));
    let mut options = own.options().unwrap();
    options.coalesces = true;
    own.set_options(options).unwrap();
    own.set_read_timeout(Some(SOON)).unwrap();
    let data = pattern(5_050);
    assert_eq!(clients[0].send_segments(&data, 100, ends.to).unwrap(), 5_050);
    let parts: Vec<(SocketAddr, &[u8])> = data.chunks(500).map(|part| (ends.to, part)).collect();
    assert_eq!(clients[1].send_many(&parts).unwrap(), 11);
    let (mut all, mut received) = (Vec::new(), Vec::new());
    while all.len() < 5_050 {
        assert_eq!(own.recv_many(&mut [IoSliceMut::new(&mut buf)], &mut received).unwrap(), 1);
        assert_eq!((received[0].from, received[0].to), (from, ends.to));
        all.extend_from_slice(&buf[..received[0].len]);
    }
    assert!(all == data, "the connected socket received other data than was sent to it");
    all.clear();
    let mut bufs: Vec<Vec<u8>> = vec![vec![0; 500]; 4];
    while all.len() < 5_050 {
        let mut slices: Vec<IoSliceMut> = bufs.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let count = server.recv_many(&mut slices, &mut received).unwrap();
        assert!((1..=4).contains(&count) && received.len() == count);
        for (one, buf) in received.iter().zip(&bufs) {
            all.extend_from_slice(&buf[..one.len]);
        }
    }
    assert!(all == data, "the unconnected socket received other data than was sent to it");
    // The answer's source is the address to which the request was sent.
    server.send_from(b"1", received[0].to.ip(), received[0].from).unwrap();
    let wrong = server.send_from(b"1", from.ip(), from).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::AddrNotAvailable);
    let segments = clients[0].send_segments(&data, 10, ends.to).unwrap_err();
    assert_eq!(segments.kind(), ErrorKind::InvalidInput);
    drop((server, own, clients));
    ends.wait_empty();
}

/// A stack connects to one of its own addresses, and to the loopback addresses. The packets do not
/// pass the device.
#[test]
fn a_stack_connects_to_its_own_listener() {
    let ends = Ends::threads();
    let net = &ends.server;
    let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), ends.to.port());
    for (bound, to) in [
        (ends.to, ends.to),
        (at("127.0.0.1"), at("127.0.0.1")),
        (at("::1"), at("::1")),
        (at("0.0.0.0"), at("127.0.0.1")),
        (at("0.0.0.0"), ends.to),
    ] {
        let listener = TcpListener::bind(net, bound).unwrap();
        let mut client = TcpStream::connect(net, to).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!(client.local_addr().unwrap(), from);
        assert_eq!(from.ip(), to.ip());
        let data = pattern(100_000);
        let mut back = vec![0; data.len()];
        thread::scope(|scope| {
            scope.spawn(|| client.write_all(&data).unwrap());
            server.read_exact(&mut back).unwrap();
        });
        assert!(back == data, "{to}");
        drop(client);
        assert_eq!(server.read(&mut [0; 9]).unwrap(), 0, "{to}");
        let udp = UdpSocket::bind(net, bound).unwrap();
        let other = UdpSocket::bind(net, SocketAddr::new(to.ip(), 0)).unwrap();
        other.send_to(b"hello", to).unwrap();
        let mut into = [0; 9];
        let (count, from) = udp.recv_from(&mut into).unwrap();
        assert_eq!((count, from), (5, other.local_addr().unwrap()));
    }
    let nobody = TcpStream::connect(net, at("127.0.0.1")).err().unwrap();
    assert_eq!(nobody.kind(), ErrorKind::ConnectionRefused);
}
