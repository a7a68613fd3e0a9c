//! A seed replays a run: all frames are equal, and their times.

use std::io;
use std::path::Path as FilePath;
use std::time::Duration;

use net::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_virtual_time::{Loss, Network, Path, Run, World};

/// Several connections at once, over a bad path, with a partition.
async fn traffic(network: Network) -> io::Result<usize> {
    let bad = Path {
        rate_bps: Some(20_000_000),
        delay: Duration::from_micros(7_001).into(),
        jitter: Duration::from_millis(2).into(),
        loss: Loss::Random(0.02),
        late: 0.01,
        late_by: Duration::from_millis(5).into(),
        duplicate: 0.01,
        ..Path::default()
    };
    let (client, server) = network.pair(bad)?;
    let listener = TcpListener::bind(&server.net()?, server.at(80))?;
    let serving = server.clone();
    server.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            serving.spawn(async move { stream.write_all(&[5; 50_000]).await });
        }
    });
    let link = network.between(&client, &server)?;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (net, to) = (client.net()?, server.at(80));
        tasks.push(client.spawn(async move {
            let mut received = Vec::new();
            TcpStream::connect(&net, to).await?.read_to_end(&mut received).await
        }));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    link.partition();
    tokio::time::sleep(Duration::from_millis(700)).await;
    link.repair();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    Ok(total)
}

fn run(seed: u64) -> Run<usize> {
    let run = World::new(seed).digest(true).run(traffic).expect("it ends");
    let Run { output, elapsed, frames, digest } = run;
    Run { output: output.expect("no error"), elapsed, frames, digest }
}

#[test]
fn a_seed_replays_all_frames_and_another_one_does_not() {
    let (first, again, other) = (run(11), run(11), run(12));
    assert_eq!(first.output, 400_000);
    assert!(first.frames > 500, "{first:?}");
    assert_eq!(
        (first.frames, first.digest, first.elapsed),
        (again.frames, again.digest, again.elapsed)
    );
    assert_ne!(first.digest, other.digest);
}

/// The files of two runs are equal byte for byte, and they are captures.
#[test]
fn captures_are_equal() {
    let directories = ["first", "second"].map(|name| {
        FilePath::new(env!("CARGO_TARGET_TMPDIR")).join(format!("virtual-time-{name}"))
    });
    for directory in &directories {
        World::new(3).captures(directory).run(traffic).expect("it ends").output.expect("no error");
    }
    for file in ["client-server.pcapng", "server-client.pcapng"] {
        let [a, b] = directories.each_ref().map(|d| std::fs::read(d.join(file)).expect("a file"));
        assert!(a.len() > 100_000 && a == b, "{file}: {} and {} bytes", a.len(), b.len());
        assert_eq!(a[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a section header of pcapng");
    }
}

/// Hosts with dots and slashes in their names have a file each; two of one name have an error.
#[test]
fn names_of_captures() {
    let directory = FilePath::new(env!("CARGO_TARGET_TMPDIR")).join("virtual-time-names");
    let run = World::new(3).captures(&directory).run(async |network| {
        network.mesh(&["node.a", "node.b", "node/c"], Path::default())?;
        network.pair(Path::default())?;
        Ok::<_, io::Error>(network.pair(Path::default()).expect_err("the same names again"))
    });
    let error = run.expect("it ends").output.expect("the first hosts have other names");
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("client-server.pcapng"), "{error}");
    for file in ["node.a-node.b", "node.b-node.a", "node.a-node_c", "node_c-node.b"] {
        assert!(directory.join(file).with_added_extension("pcapng").exists(), "no file for {file}");
    }
}

/// A directory that cannot be made is an error of the call that needs it.
#[test]
fn a_capture_without_a_place() {
    let run = World::new(3).captures("/dev/null/nowhere").run(traffic).expect("it ends");
    run.output.expect_err("no such directory can be made");
}
