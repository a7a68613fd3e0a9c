//! The errors of sockets when their peer vanishes, and when their device fails. Devices are also
//! replaced by one with a smaller MTU, and ports are bound again.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use base::{IpVersion, Mtu};
use device::mem;
use stack::PortId;
use stack::pair::{PairConfig, end};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_net::{DriverThread, Net, TcpSocket, TcpStream, blocking};

use crate::common::{Ends, SOON, pattern};

/// A connection whose peer's socket was dropped, and whose peer's stack has stopped.
fn vanished() -> (blocking::TcpStream, Ends, DriverThread) {
    let (ends, [client_driver, server_driver]) = Ends::threads_with(|_| {});
    let listener = blocking::TcpListener::bind(&ends.server, ends.to).unwrap();
    let stream = blocking::TcpStream::connect_timeout(&ends.client, ends.to, SOON).unwrap();
    listener.accept().unwrap();
    // Dropping the peer's socket may have sent a FIN, but its stack acknowledges nothing.
    server_driver.stop().unwrap();
    (stream, ends, client_driver)
}

/// A connection whose peer's socket is open, but whose peer's stack has stopped.
fn silent() -> (blocking::TcpStream, blocking::TcpStream, Ends) {
    let (ends, [_client_driver, server_driver]) = Ends::threads_with(|_| {});
    let listener = blocking::TcpListener::bind(&ends.server, ends.to).unwrap();
    let stream = blocking::TcpStream::connect_timeout(&ends.client, ends.to, SOON).unwrap();
    let peer = listener.accept().unwrap().0;
    server_driver.stop().unwrap();
    (stream, peer, ends)
}

const USER_TIMEOUT: Duration = Duration::from_millis(1_200);

#[test]
fn a_peer_that_vanishes_is_an_error_of_a_blocking_read() {
    let (mut stream, _peer, _ends) = silent();
    stream.set_tcp_user_timeout(Some(USER_TIMEOUT)).unwrap();
    assert_eq!(stream.tcp_user_timeout().unwrap(), Some(USER_TIMEOUT));
    stream.write_all(b"anybody?").unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("is it up"), "{error}");
    // The error is reported once, as by the kernel.
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(stream.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_peer_that_vanishes_is_an_error_of_a_blocking_write() {
    let (mut stream, _peer, _ends) = silent();
    stream.set_tcp_user_timeout(Some(USER_TIMEOUT)).unwrap();
    let error = stream.write_all(&[7; 32 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[tokio::test]
async fn a_peer_that_vanishes_is_an_error_of_both_halves() {
    let (stream, peer, ends) = tokio::task::spawn_blocking(silent).await.unwrap();
    let Ok(stream) = stream.into_async() else { panic!("it is the only handle") };
    stream.set_tcp_user_timeout(Some(USER_TIMEOUT)).unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let write = async { writing.write_all(&[7; 32 << 20]).await.map_err(|e| e.kind()) };
    let mut room = [0];
    let read = async { reading.read(&mut room).await.map_err(|e| e.kind()) };
    let both = tokio::time::timeout(SOON, async { tokio::join!(read, write) }).await;
    // The first call of the two reports the error; the other half reads the end of the stream.
    match both.expect("in time") {
        (Err(ErrorKind::TimedOut), Err(ErrorKind::BrokenPipe))
        | (Ok(0), Err(ErrorKind::TimedOut)) => {}
        other => panic!("{other:?}"),
    }
    // Buffers on the link return to their pool when the peer's stack is gone.
    let Ends { client, server, .. } = ends;
    drop((reading, writing, peer, server));
    let count = || client.with_stack(|s| (s.connection_count(), s.pool().outstanding()));
    assert_eq!(count().unwrap(), (0, 0));
}

#[tokio::test]
async fn a_close_that_nobody_acknowledges_ends_at_its_time() {
    for written in [&b""[..], b"unread"] {
        let (stream, ends, _driver) = tokio::task::spawn_blocking(vanished).await.unwrap();
        let Ok(mut stream) = stream.into_async() else { panic!("it is the only handle") };
        stream.set_linger(Some(Duration::from_millis(50))).unwrap();
        stream.write_all(written).await.unwrap();
        let began = Instant::now();
        let error = tokio::time::timeout(SOON, stream.close()).await.expect("in time").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("linger"), "{error}");
        assert!(began.elapsed() >= Duration::from_millis(50));
        // The connection goes on although its socket is gone.
        assert_eq!(ends.client.with_stack(|s| s.connection_count()).unwrap(), 1);
    }
}

#[test]
fn an_address_in_use_is_taken_again_only_by_those_who_say_so() {
    let ends = Ends::threads();
    let listen = |reuse: bool| {
        TcpSocket::new(&ends.server).bind(ends.to).set_reuseaddr(reuse).listen(8).map(drop)
    };
    let refused = |what: &str| {
        let error = listen(false).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{what}: {error}");
        listen(true).expect(what);
    };
    listen(false).expect("nobody is there");
    let listener = blocking::TcpListener::bind(&ends.server, ends.to).unwrap();
    assert_eq!(listen(true).unwrap_err().kind(), ErrorKind::AddrInUse, "two listeners");
    let mut client = blocking::TcpStream::connect_timeout(&ends.client, ends.to, SOON).unwrap();
    let (server, _) = listener.accept().unwrap();
    drop(listener);
    refused("a connection is open");
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    drop(client);
    let end = Instant::now() + SOON;
    while ends.server.with_stack(|s| s.time_wait_count()).unwrap() == 0 {
        assert!(Instant::now() < end, "no TIME-WAIT");
        thread::sleep(Duration::from_millis(1));
    }
    refused("a connection is in TIME-WAIT");
    let other = SocketAddr::new(ends.to.ip(), ends.to.port() + 1);
    TcpSocket::new(&ends.server).bind(other).set_reuseaddr(false).listen(8).expect("another port");
}

fn both(ends: &Ends, mtu: usize) {
    let mtu = Mtu::new(mtu).expect("a valid MTU");
    let (left, right) = mem::pair(&mem::Config { mtu, ..mem::Config::default() });
    // If one end of a link is dropped, the connections of the other end fail. So both old devices
    // are kept until both are replaced.
    let old = ends.client.replace_port(PortId(0), Box::new(left)).expect("the same link");
    let old = (old, ends.server.replace_port(PortId(0), Box::new(right)).expect("the same link"));
    drop(old);
}

#[test]
fn a_transfer_goes_on_over_a_device_with_a_smaller_mtu() {
    for (version, mtu) in [(IpVersion::V4, 600), (IpVersion::V6, 1280)] {
        let (ends, _drivers) = Ends::threads_with(|config| config.version = version);
        let listener = blocking::TcpListener::bind(&ends.server, ends.to).unwrap();
        let mut client = blocking::TcpStream::connect_timeout(&ends.client, ends.to, SOON).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        // If the stack kept retransmitting a segment that no longer fits the MTU, the write would
        // time out.
        client.set_write_timeout(Some(SOON)).unwrap();
        server.set_read_timeout(Some(SOON)).unwrap();
        let data = pattern(8_000_000);
        let before = client.tcp_info().unwrap().snd_mss;
        let got = thread::scope(|scope| {
            let client = &mut client;
            let sent = data.clone();
            scope.spawn(move || {
                client.write_all(&sent).expect("the peer reads");
                client.shutdown(Shutdown::Write).expect("it is open");
            });
            let mut got = vec![0; data.len() / 4];
            server.read_exact(&mut got).expect("the first quarter");
            // The transfer is in progress: the writer waits until this side reads.
            both(&ends, mtu);
            server.read_to_end(&mut got).expect("all of it");
            got
        });
        assert!(got == data, "{} bytes of {}", got.len(), data.len());
        let after = client.tcp_info().unwrap().snd_mss;
        let headers = if version == IpVersion::V4 { 40 } else { 60 };
        assert!(before > after && after <= mtu - headers, "{before}, then {after}");
        // Send in the other direction, and over a new connection.
        server.write_all(&data[..100_000]).expect("the peer reads");
        let mut back = vec![0; 100_000];
        client.read_exact(&mut back).expect("it comes");
        assert!(back == data[..100_000]);
        let fresh = blocking::TcpStream::connect_timeout(&ends.client, ends.to, SOON).unwrap();
        assert_eq!(fresh.tcp_info().unwrap().snd_mss, after);
        drop((client, server, fresh, listener));
        ends.wait_empty();
    }
}

#[test]
fn a_device_that_fails_in_a_transfer_says_why_and_another_takes_its_place() {
    let (ends, [_client_driver, server_driver]) = Ends::threads_with(|_| {});
    let listener = blocking::TcpListener::bind(&ends.server, ends.to).unwrap();
    let connect = || blocking::TcpStream::connect_timeout(&ends.client, ends.to, SOON).unwrap();
    let (mut writer, mut reader) = (connect(), connect());
    let peers = [listener.accept().unwrap(), listener.accept().unwrap()];
    let writing = thread::spawn(move || writer.write_all(&pattern(64 << 20)).unwrap_err());
    let reading = thread::spawn(move || reader.read(&mut [0]).unwrap_err());
    thread::sleep(Duration::from_millis(50));
    server_driver.stop().unwrap();
    let Ends { client, server, to } = ends;
    drop((peers, listener, server));
    for error in [writing.join().unwrap(), reading.join().unwrap()] {
        assert_eq!(error.kind(), ErrorKind::NetworkDown, "{error}");
        assert!(error.to_string().contains("Make a new pair"), "{error}");
    }
    let refused = blocking::TcpStream::connect(&client, to).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NetworkDown, "{refused}");
    assert_eq!(client.with_stack(|s| s.connection_count()).unwrap(), 0);
    let (left, right) = mem::pair(&mem::Config::default());
    client.replace_port(PortId(0), Box::new(left)).expect("the same link");
    let right = end(&PairConfig::new([4, 4]), right, 2);
    let (server, _driver) = Net::spawn_thread(right.stack).unwrap();
    let listener = blocking::TcpListener::bind(&server, to).unwrap();
    let mut again = blocking::TcpStream::connect_timeout(&client, to, SOON).unwrap();
    again.write_all(b"again").unwrap();
    let mut got = [0; 5];
    listener.accept().unwrap().0.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"again");
}

/// A task's write also fails with the reason of the device.
#[tokio::test]
async fn a_device_that_fails_under_a_task_says_why() {
    let (ends, [_client_driver, server_driver]) = Ends::threads_with(|_| {});
    let listener = wirespeed_net::TcpListener::bind(&ends.server, ends.to).unwrap();
    let mut stream = TcpStream::connect(&ends.client, ends.to).await.unwrap();
    let peer = listener.accept().await.unwrap();
    let Ends { client: _client, server, .. } = ends;
    let writing = tokio::spawn(async move { stream.write_all(&pattern(64 << 20)).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    tokio::task::spawn_blocking(move || server_driver.stop()).await.unwrap().unwrap();
    drop((listener, peer, server));
    let ended = tokio::time::timeout(SOON, writing).await.expect("in time").unwrap();
    let error = ended.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkDown, "{error}");
    assert!(error.to_string().contains("Make a new pair"), "{error}");
}
