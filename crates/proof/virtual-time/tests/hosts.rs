//! Hosts: their addresses, and how they crash and come back.

use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use net::{TcpListener, TcpStream, UdpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_virtual_time::{Host, Path, World};

fn path() -> Path {
    Path { delay: Duration::from_micros(1_500).into(), ..Path::default() }
}

/// Serve one byte to each connection, and keep it open.
fn serve(host: &Host, byte: u8) -> io::Result<()> {
    serve_at(host, host.at(80), byte)
}

fn serve_at(host: &Host, at: SocketAddr, byte: u8) -> io::Result<()> {
    let listener = TcpListener::bind(&host.net()?, at)?;
    host.spawn(async move {
        let mut streams = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            if stream.write_all(&[byte]).await.is_ok() {
                streams.push(stream);
            }
        }
    });
    Ok(())
}

async fn ask(client: &Host, server: &Host) -> io::Result<(TcpStream, u8)> {
    ask_at(client, server.at(80)).await
}

async fn ask_at(client: &Host, at: SocketAddr) -> io::Result<(TcpStream, u8)> {
    let mut stream = TcpStream::connect(&client.net()?, at).await?;
    let byte = stream.read_u8().await?;
    Ok((stream, byte))
}

/// A crash sends nothing: the peer notices it when the restarted host answers with a RST. Then the
/// peer connects again. Its connection to a third host stays.
#[test]
fn a_crash_and_a_restart() {
    let run = World::new(1).run(async |network| {
        let hosts = network.mesh(&["client", "server", "third"], path())?;
        let [client, server, third] = &hosts[..] else { panic!("three hosts") };
        serve(server, 1)?;
        serve(third, 3)?;
        let (mut to_server, first) = ask(client, server).await?;
        let (mut to_third, other) = ask(client, third).await?;
        assert_eq!((first, other), (1, 3));

        server.crash();
        assert!(!server.is_up());
        assert_eq!(server.net().err().expect("down").kind(), ErrorKind::HostUnreachable);
        to_server.write_all(b"x").await?;
        let silence = tokio::time::timeout(Duration::from_secs(2), to_server.read_u8()).await;
        assert!(silence.is_err(), "the crash was reported: {silence:?}");

        server.restart()?;
        let reset = to_server.read_u8().await.expect_err("the new stack has no connection");
        assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
        let refused = ask(client, server).await.expect_err("no listener yet");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        serve(server, 2)?;
        assert_eq!(ask(client, server).await?.1, 2);

        to_third.write_all(b"x").await?;
        third.crash();
        third.restart()?;
        to_third.read_u8().await.expect_err("the new stack has no connection");
        Ok::<_, io::Error>(())
    });
    run.expect("it ends").output.expect("no other error");
}

/// The tasks of a host end with it, and its sockets fail.
#[test]
fn tasks_and_sockets_of_a_crashed_host() {
    let run = World::new(2).run(async |network| {
        let (client, server) = network.pair(path())?;
        serve(&server, 1)?;
        let (mut stream, _) = ask(&client, &server).await?;
        let waiting = client.spawn(std::future::pending::<()>());
        client.crash();
        assert!(waiting.await.expect_err("it has no end").is_cancelled());
        stream.write_all(b"x").await.expect_err("the host is gone");
        // Both are down, and both come back.
        server.crash();
        client.restart()?;
        server.restart()?;
        serve(&server, 2)?;
        assert_eq!(ask(&client, &server).await?.1, 2);
        Ok::<_, io::Error>(())
    });
    run.expect("it ends").output.expect("no other error");
}

/// Each host has an address of both versions. A server may have either one alone, or both; a crash
/// and a partition concern both.
#[test]
fn both_versions_of_ip() {
    let run = World::new(3).run(async |network| {
        let hosts = network.mesh(&["client", "server", "third"], path())?;
        let [client, server, third] = &hosts[..] else { panic!("three hosts") };
        assert_eq!(server.at6(80).to_string(), "[fd00::2]:80");
        serve_at(server, server.at6(80), 6)?;
        let refused = ask(client, server).await.expect_err("it listens over IPv6 alone");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let before = network.elapsed();
        let (stream, byte) = ask_at(client, server.at6(80)).await?;
        assert_eq!((stream.peer_addr()?, byte), (server.at6(80), 6));
        assert_eq!(stream.local_addr()?.ip(), client.ip6());
        assert_eq!(network.elapsed() - before, 4 * Duration::from_micros(1_500), "round trips");

        serve(server, 4)?;
        assert_eq!((ask(client, server).await?.1, ask_at(third, server.at6(80)).await?.1), (4, 6));
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 53));
        let (socket, other) = (UdpSocket::bind(&third.net()?, any)?, server.at6(53));
        let sender = UdpSocket::bind(&server.net()?, other)?;
        sender.send_to(b"six", third.at6(53)).await?;
        assert_eq!(socket.recv_from(&mut [0; 8]).await?, (3, other));

        server.crash();
        server.restart()?;
        let refused = ask_at(client, server.at6(80)).await.expect_err("no listener yet");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        serve_at(server, server.at6(80), 7)?;
        assert_eq!(ask_at(client, server.at6(80)).await?.1, 7);
        let link = network.between(client, server)?;
        link.partition();
        let cut = tokio::time::timeout(Duration::from_secs(9), ask_at(client, server.at6(80)));
        assert!(cut.await.is_err(), "it passed a cut link");
        Ok::<_, io::Error>(())
    });
    run.expect("it ends").output.expect("no other error");
}

/// A host that is down runs nothing, however often its neighbours restart, and comes back.
#[test]
fn neighbours_restart_while_a_host_is_down() {
    let run = World::new(4).digest(true).run(async |network| {
        let hosts = network.mesh(&["client", "server", "third"], path())?;
        let [client, server, third] = &hosts[..] else { panic!("three hosts") };
        serve(third, 3)?;
        let (mut to_third, _) = ask(client, third).await?;
        server.crash();
        let late = server.spawn(std::future::pending::<()>());
        assert!(late.await.expect_err("the host is down").is_cancelled());
        for _ in 0..3 {
            third.crash();
            third.restart()?;
        }
        to_third.write_all(b"x").await?;
        let reset = to_third.read_u8().await.expect_err("the new stack has no connection");
        assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
        server.restart()?;
        serve(server, 2)?;
        assert_eq!(ask(third, server).await?.1, 2);
        Ok::<_, io::Error>(())
    });
    let run = run.expect("it ends");
    run.output.expect("no other error");
    // The frames of devices that are gone count too: the first handshake, at both of its ends.
    assert!(run.frames > 20, "{} frames", run.frames);
}
