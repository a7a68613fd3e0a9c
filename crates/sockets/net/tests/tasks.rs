//! Async sockets on tokio's current-thread runtime and on a runtime with two workers. Tasks run the
//! drivers.

use std::io::{ErrorKind, IoSlice};
use std::net::Shutdown;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_net::{TcpKeepalive, TcpListener, TcpSocket, TcpStream, UdpSocket};

use crate::common::{Ends, on_each_runtime, pattern};

async fn connected(ends: &Ends) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
    let (client, accepted) =
        tokio::join!(TcpStream::connect(&ends.client, ends.to), listener.accept());
    (client.unwrap(), accepted.unwrap().0)
}

#[test]
fn echo() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let (mut client, mut server) = connected(&ends).await;
        let echo = tokio::spawn(async move {
            let (mut reading, mut writing) = server.split();
            tokio::io::copy(&mut reading, &mut writing).await.unwrap()
        });
        let mut buf = [0; 64];
        for turn in 0..500u32 {
            buf[..4].copy_from_slice(&turn.to_le_bytes());
            let sent = buf;
            client.write_all(&buf).await.unwrap();
            client.read_exact(&mut buf).await.unwrap();
            assert_eq!(buf, sent);
        }
        client.shutdown().await.unwrap();
        assert_eq!(client.read(&mut buf).await.unwrap(), 0);
        assert_eq!(echo.await.unwrap(), 500 * 64);
        drop(client);
        ends.drained().await;
    });
}

#[test]
fn bulk_both_ways_over_split_streams() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let (client, server) = connected(&ends).await;
        let data = pattern(8 << 20);
        let mut tasks = Vec::new();
        for stream in [client, server] {
            let (mut reading, mut writing) = stream.into_split();
            let (data, expected) = (data.clone(), data.clone());
            tasks.push(tokio::spawn(async move { writing.write_all(&data).await.unwrap() }));
            tasks.push(tokio::spawn(async move {
                let mut got = Vec::new();
                // The stream ends because the write half was dropped.
                reading.read_to_end(&mut got).await.unwrap();
                assert!(got == expected, "{} bytes", got.len());
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        ends.drained().await;
    });
}

#[test]
fn vectored_peeked_loaned_and_reunited() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let (mut client, server) = connected(&ends).await;
        let parts = [IoSlice::new(b"one "), IoSlice::new(b"two")];
        assert!(tokio::io::AsyncWrite::is_write_vectored(&client));
        assert_eq!(client.write_vectored(&parts).await.unwrap(), 7);
        let mut seen = [0; 16];
        server.readable().await.unwrap();
        assert_eq!(server.peek(&mut seen).await.unwrap(), 7);
        assert_eq!(server.try_read(&mut seen).unwrap(), 7);
        assert_eq!(&seen[..7], b"one two");
        assert_eq!(server.try_read(&mut seen).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut loan = client.loan().unwrap();
        assert!(loan.room() >= 536);
        assert_eq!(loan.append(b"in pl"), 5);
        assert_eq!(
            loan.fill(|room| {
                room[..3].copy_from_slice(b"ace");
                3
            }),
            3
        );
        client.send_loan(loan).await.unwrap();
        let received = server.read_loan().await.unwrap().expect("not the end");
        assert_eq!(&*received, b"in place");
        drop(received);
        let (reading, writing) = client.into_split();
        let client = reading.reunite(writing).unwrap();
        assert_eq!(server.try_read(&mut seen).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop((client, server));
        ends.drained().await;
    });
}

#[test]
fn half_close_and_readiness() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let (mut client, mut server) = connected(&ends).await;
        client.shutdown().await.unwrap();
        assert_eq!(client.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(server.read(&mut [0; 9]).await.unwrap(), 0);
        server.write_all(b"still open this way").await.unwrap();
        let mut got = vec![0; 19];
        client.read_exact(&mut got).await.unwrap();
        // Write until there is no room. When the peer has read, there is room again.
        while server.try_write(&[7; 65_536]).is_ok() {
            tokio::task::yield_now().await;
        }
        loop {
            match server.try_write(&[7; 65_536]) {
                Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        let reader = tokio::spawn(async move {
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.unwrap();
            all.len()
        });
        server.writable().await.unwrap();
        assert!(server.try_write(&[7; 100]).unwrap() > 0);
        server.shut_down(Shutdown::Both).unwrap();
        drop(server);
        assert!(reader.await.unwrap() > 65_536);
        ends.drained().await;
    });
}

#[test]
fn a_backlog_holds_connections_until_they_are_accepted() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let mut socket = TcpSocket::new(&ends.server);
        let listener = socket.bind(ends.to).listen(4).unwrap();
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(TcpStream::connect(&ends.client, ends.to).await.unwrap());
        }
        let late = TcpStream::connect(&ends.client, ends.to);
        let late = tokio::time::timeout(Duration::from_millis(50), late).await;
        assert!(late.is_err(), "a fifth connection was admitted beyond the backlog");
        let full = base::DropReason::TcpBacklogFull;
        assert!(ends.server.with_stack(|s| s.drops().of(full)).unwrap() > 0);
        for client in &clients {
            let (_, from) = listener.accept().await.unwrap();
            assert_eq!(from, client.local_addr().unwrap());
        }
        assert_eq!(listener.try_accept().err().unwrap().kind(), ErrorKind::WouldBlock);
        // Connections that were not accepted are reset when their listener is dropped.
        let mut unaccepted = TcpStream::connect(&ends.client, ends.to).await.unwrap();
        drop(listener);
        let reset = unaccepted.read(&mut [0; 9]).await.unwrap_err();
        assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
        drop((clients, unaccepted));
        ends.drained().await;
    });
}

#[test]
fn two_futures_of_one_task_wait_at_one_place() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let (mut client, server) = connected(&ends).await;
        let mut first = Box::pin(server.readable());
        let mut second = Box::pin(server.readable());
        let both = async { tokio::join!(&mut first, &mut second) };
        assert!(tokio::time::timeout(Duration::from_millis(10), both).await.is_err());
        // Dropping one future must not lose the wake-up of the other future.
        drop(first);
        let writer = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            client.write_all(b"x").await.unwrap();
            client
        });
        second.await.unwrap();
        drop((writer.await.unwrap(), server));
        ends.drained().await;
    });
}

#[test]
fn options_are_kept() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let (client, server) = connected(&ends).await;
        assert!(!client.nodelay().unwrap() && !client.keepalive().unwrap());
        client.set_nodelay(true).unwrap();
        let retries = Some(3);
        let keepalive =
            TcpKeepalive { time: Some(Duration::from_secs(9)), interval: None, retries };
        client.set_tcp_keepalive(&keepalive).unwrap();
        client.set_tcp_user_timeout(Some(Duration::from_secs(5))).unwrap();
        client.set_recv_buffer_size(100_000).unwrap();
        client.set_send_buffer_size(200_000).unwrap();
        assert!(client.nodelay().unwrap() && client.keepalive().unwrap());
        assert_eq!(client.tcp_user_timeout().unwrap(), Some(Duration::from_secs(5)));
        assert_eq!(client.recv_buffer_size().unwrap(), 100_000);
        assert_eq!(client.send_buffer_size().unwrap(), 200_000);
        assert_eq!(client.linger().unwrap(), None);
        client.set_linger(Some(Duration::from_millis(1_001))).unwrap();
        assert_eq!(client.linger().unwrap(), Some(Duration::from_millis(1_010)), "rounded up");
        client.set_linger(None).unwrap();
        assert_eq!(client.linger().unwrap(), None);
        assert_eq!(server.ttl().unwrap(), 64);
        assert_eq!(server.tcp_info().unwrap().state.name(), "ESTABLISHED");
        client.set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        server.readable().await.unwrap();
        let error = server.take_error().unwrap().expect("the peer reset it");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        drop(server);
        ends.drained().await;
    });
}

#[test]
fn datagrams() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let server = UdpSocket::bind(&ends.server, ends.to).unwrap();
        let client = UdpSocket::bind(&ends.client, "0.0.0.0:0".parse().unwrap()).unwrap();
        assert_eq!(server.try_recv_from(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut buf = [0; 2000];
        for n in 0..200u8 {
            client.send_to(&[n; 100], ends.to).await.unwrap();
            let (len, from) = server.recv_from(&mut buf).await.unwrap();
            assert_eq!((len, buf[99]), (100, n));
            server.send_to(&buf[..len], from).await.unwrap();
            assert_eq!(client.recv_from(&mut buf).await.unwrap(), (100, ends.to));
        }
        let too_long = client.send_to(&[0; 65_508], ends.to).await.unwrap_err();
        // The error is the same as the kernel's, with this system's number.
        let kernel = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let theirs = kernel.send_to(&[0; 65_508], kernel.local_addr().unwrap()).unwrap_err();
        assert_eq!(too_long.kind(), theirs.kind());
        assert_eq!(too_long.raw_os_error(), theirs.raw_os_error());
        // More datagrams than the link holds: the sender waits for room, and no datagram is lost.
        for _ in 0..5_000 {
            client.send_to(&[1; 1400], ends.to).await.unwrap();
        }
        drop((client, server));
        ends.drained().await;
    });
}
