//! Hosts that crash and come back.

use std::io::{self, ErrorKind};
use std::time::Duration;

use net::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_virtual_time::{Host, Path, World};

fn path() -> Path {
    Path { delay: Duration::from_micros(1_500).into(), ..Path::default() }
}

/// Serve one byte to each connection, and keep it open.
fn serve(host: &Host, byte: u8) -> io::Result<()> {
    let listener = TcpListener::bind(&host.net()?, host.at(80))?;
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
    let mut stream = TcpStream::connect(&client.net()?, server.at(80)).await?;
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
