//! The time that programs see is the time of the network, and passes only when nothing can happen.

use std::time::Duration;

use net::{TcpListener, TcpStream, UdpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};
use wirespeed_virtual_time::{Path, RunError, World};

const MS: Duration = Duration::from_millis(1);

fn delayed(delay: Duration) -> Path {
    Path { delay: delay.into(), ..Path::default() }
}

/// A datagram takes the delay of the path to the nanosecond, also if that is no whole millisecond,
/// and timers of tokio before and after it end at their own times.
#[test]
fn a_packet_arrives_at_its_nanosecond() {
    let delay = Duration::from_nanos(3_456_789);
    let run = World::new(1).run(async |network| {
        let (client, server) = network.pair(delayed(delay)).expect("two hosts");
        let receiver = UdpSocket::bind(&server.net().expect("up"), server.at(9)).expect("free");
        let sender = UdpSocket::bind(&client.net().expect("up"), client.at(9)).expect("free");
        let began = Instant::now();
        let timers = tokio::spawn(async move {
            let mut ends = Vec::new();
            for _ in 0..8 {
                sleep(MS).await;
                ends.push(began.elapsed());
            }
            ends
        });
        sender.send_to(b"x", server.at(9)).await.expect("room");
        receiver.recv_from(&mut [0; 8]).await.expect("a datagram");
        let (took, of_network) = (began.elapsed(), network.elapsed());
        (took, of_network, timers.await.expect("no panic"))
    });
    let (took, of_network, timers) = run.expect("it ends").output;
    assert_eq!((took, of_network), (delay, delay));
    let whole: Vec<Duration> = (1..=8).map(|n| MS * n).collect();
    assert_eq!(timers, whole, "timers between whole milliseconds");
}

/// A round trip of TCP takes two delays, and days without packets take no time. After 30 days the
/// timestamps of TCP look old (RFC 7323 section 5.5), and after 300 they do not.
#[test]
fn round_trips_and_pauses() {
    let delay = Duration::from_micros(12_345);
    let run = World::new(2).run(async |network| {
        let (client, server) = network.pair(delayed(delay)).expect("two hosts");
        let listener = TcpListener::bind(&server.net().expect("up"), server.at(7)).expect("free");
        server.spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let (mut read, mut write) = tokio::io::split(&mut stream);
            tokio::io::copy(&mut read, &mut write).await.expect("an echo");
        });
        let mut stream = TcpStream::connect(&client.net().expect("up"), server.at(7)).await;
        let stream = stream.as_mut().expect("connected");
        let mut round_trips = vec![network.elapsed()];
        for days in [1, 30, 300] {
            sleep(Duration::from_secs(days * 24 * 3600)).await;
            let again = network.elapsed();
            stream.write_all(b"hello").await.expect("room");
            stream.read_exact(&mut [0; 5]).await.expect("the echo");
            round_trips.push(network.elapsed() - again);
        }
        round_trips
    });
    assert_eq!(run.expect("it ends").output, [delay * 2; 4]);
}

/// `timeout` of tokio ends a wait for a packet that never comes, at its time.
#[test]
fn timeouts_of_tokio() {
    let run = World::new(3).run(async |network| {
        let host = network.host("alone").expect("a host");
        let socket = UdpSocket::bind(&host.net().expect("up"), host.at(9)).expect("free");
        let waited = timeout(Duration::from_secs(5), socket.recv_from(&mut [0; 8])).await;
        assert!(waited.is_err(), "nobody has sent anything");
    });
    assert_eq!(run.expect("it ends").elapsed, Duration::from_secs(5));
}

/// Tasks that wait for each other are an error that says since when.
#[test]
fn a_deadlock_is_an_error() {
    let world = World::new(4).limit(Duration::from_secs(24 * 3600));
    let run = world.run(async |network| {
        let (client, server) = network.pair(delayed(MS)).expect("two hosts");
        let listener = TcpListener::bind(&server.net().expect("up"), server.at(7)).expect("free");
        let mut a = TcpStream::connect(&client.net().expect("up"), server.at(7)).await.expect("up");
        let (mut b, _) = listener.accept().await.expect("a connection");
        let (mut of_a, mut of_b) = ([0; 1], [0; 1]);
        sleep(Duration::from_secs(60)).await;
        a.write_all(b"x").await.expect("room");
        b.read_exact(&mut of_b).await.expect("a byte");
        // Both wait for the other one to speak.
        let _ = tokio::join!(a.read(&mut of_a), b.read(&mut of_b));
    });
    let Err(RunError::Stuck(stuck)) = run else { panic!("it ended") };
    assert_eq!(stuck.limit, Duration::from_secs(24 * 3600));
    // The byte, and what a stack does within two seconds after it.
    assert!(stuck.since > Duration::from_secs(60), "{stuck:?}");
    assert!(stuck.since < Duration::from_secs(62), "{stuck:?}");
    assert!(stuck.to_string().contains("has not ended at the limit of 86400s"), "{stuck}");
}

/// A world inside another one, or inside any runtime, is an error and not a panic.
#[test]
fn a_world_inside_a_runtime() {
    let inner = World::new(6).run(async |_| World::new(7).run(async |_| ()).map(|run| run.output));
    let error = inner.expect("it ends").output.expect_err("a runtime in a runtime");
    assert!(matches!(error, RunError::Nested) && error.to_string().contains("#[test]"), "{error}");
}

/// A program that never ends by itself is ended at the limit.
#[test]
fn the_limit() {
    let run = World::new(5).limit(Duration::from_secs(10)).run(async |network| {
        let (client, server) = network.pair(delayed(MS)).expect("two hosts");
        let receiver = UdpSocket::bind(&server.net().expect("up"), server.at(9)).expect("free");
        let sender = UdpSocket::bind(&client.net().expect("up"), client.at(9)).expect("free");
        loop {
            sender.send_to(b"x", server.at(9)).await.expect("room");
            receiver.recv_from(&mut [0; 8]).await.expect("a datagram");
        }
    });
    let Err(RunError::Stuck(stuck)) = run.map(|run| run.elapsed) else { panic!("it ended") };
    assert!(stuck.since > Duration::from_millis(9_990), "{stuck:?}");
}
