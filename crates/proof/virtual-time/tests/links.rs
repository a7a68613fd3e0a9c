//! Links that lose, that are slow, and that are cut.

use std::io;
use std::time::Duration;

use net::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_virtual_time::{Host, Loss, Network, Path, World};

async fn send(client: &Host, server: &Host, bytes: usize) -> io::Result<usize> {
    let listener = TcpListener::bind(&server.net()?, server.at(80))?;
    let sending = server.spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream.write_all(&vec![7; bytes]).await
    });
    let mut received = Vec::new();
    let mut stream = TcpStream::connect(&client.net()?, server.at(80)).await?;
    stream.read_to_end(&mut received).await?;
    sending.await??;
    assert!(received.iter().all(|&byte| byte == 7), "other bytes than were sent");
    Ok(received.len())
}

/// The rate of a path bounds the time of a transfer from below, and its losses are repaired.
#[test]
fn a_slow_path_with_losses() {
    let slow = Path {
        rate_bps: Some(8_000_000),
        delay: Duration::from_millis(10).into(),
        loss: Loss::Random(0.01),
        queue_bytes: 64 << 10,
        ..Path::default()
    };
    let run = World::new(1).run(async |network: Network| {
        let (client, server) = network.pair(slow)?;
        let count = send(&client, &server, 2_000_000).await?;
        let [_, to_client] = network.between(&client, &server)?.counts();
        Ok::<_, io::Error>((count, to_client.lost))
    });
    let run = run.expect("it ends");
    let (count, lost) = run.output.expect("no error");
    assert_eq!(count, 2_000_000);
    assert!(lost > 5, "only {lost} packets were lost");
    assert!(run.elapsed > Duration::from_secs(2), "{:?} for 16 Mbit", run.elapsed);
    assert!(run.elapsed < Duration::from_secs(20), "{:?} for 16 Mbit", run.elapsed);
}

/// Nothing passes a cut link, not even a packet sent right after the cut; TCP goes on when the link
/// is repaired.
#[test]
fn a_partition() {
    let path = Path { delay: Duration::from_millis(2).into(), ..Path::default() };
    let run = World::new(2).run(async |network: Network| {
        let (client, server) = network.pair(path)?;
        let link = network.between(&client, &server)?;
        let listener = TcpListener::bind(&server.net()?, server.at(80))?;
        let mut a = TcpStream::connect(&client.net()?, server.at(80)).await?;
        let (mut b, _) = listener.accept().await?;
        link.partition();
        a.write_all(b"hello").await?;
        let waited = tokio::time::timeout(Duration::from_secs(20), b.read_u8()).await;
        assert!(waited.is_err(), "{waited:?} passed a cut link");
        assert!(link.counts()[0].cut >= 5, "{:?}", link.counts());
        link.repair();
        let mut received = [0; 5];
        b.read_exact(&mut received).await?;
        assert_eq!(&received, b"hello");
        Ok::<_, io::Error>(())
    });
    let run = run.expect("it ends");
    run.output.expect("no error");
    assert!(run.elapsed < Duration::from_secs(60), "the retransmission came at {:?}", run.elapsed);
}

/// Errors of calls that make links.
#[test]
fn links_that_cannot_be() {
    let run = World::new(3).run(async |network: Network| {
        let hosts = network.mesh(&["a", "b", "c"], Path::default())?;
        let alone = network.host("alone")?;
        for (a, b) in [(0, 0), (0, 1), (2, 1)] {
            let error = network.link(&hosts[a], &hosts[b], Path::default()).err().expect("no link");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        let error = network.between(&alone, &hosts[0]).err().expect("no link");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        hosts[0].crash();
        let error = network.link(&alone, &hosts[0], Path::default()).err().expect("no link");
        assert_eq!(error.kind(), io::ErrorKind::HostUnreachable);
        Ok::<_, io::Error>(())
    });
    run.expect("it ends").output.expect("no error");
}
