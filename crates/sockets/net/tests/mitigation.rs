//! Blocking and async sockets over ports with each setting of interrupt mitigation: all data
//! arrives, and a single request is not delayed.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use device::mitigation::Mitigation;
use stack::PortId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_net::blocking::{TcpListener, TcpStream};

use crate::common::{Ends, on_each_runtime, pattern};

const SETTINGS: [&str; 6] = ["0", "1", "3", "5", "adaptive", "poll"];

/// Sets the mitigation of both ends' ports while the stacks run.
fn set(ends: &Ends, setting: &str) {
    let to: Mitigation = setting.parse().expect("a setting");
    for net in [&ends.client, &ends.server] {
        net.with_stack(|stack| stack.set_mitigation(PortId(0), to)).unwrap().expect("deep enough");
    }
}

#[test]
fn threads_move_bulk_and_messages_at_each_setting() {
    let data = pattern(3_000_000);
    for setting in SETTINGS {
        let ends = Ends::threads();
        set(&ends, setting);
        let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
        let mut client = TcpStream::connect(&ends.client, ends.to).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let echo =
            thread::spawn(move || std::io::copy(&mut server.try_clone().unwrap(), &mut server));
        let mut writer = client.try_clone().unwrap();
        let mut back = vec![0; data.len()];
        thread::scope(|scope| {
            scope.spawn(|| writer.write_all(&data).unwrap());
            client.read_exact(&mut back).unwrap();
        });
        assert!(back == data, "mitigation {setting}");
        for turn in 0..100_u32 {
            let mut message = turn.to_le_bytes();
            client.write_all(&message).unwrap();
            client.read_exact(&mut message).unwrap();
            assert_eq!(message, turn.to_le_bytes(), "mitigation {setting}");
        }
        drop((client, writer));
        assert_eq!(echo.join().unwrap().unwrap(), data.len() as u64 + 400);
        ends.wait_empty();
    }
}

#[test]
fn tasks_move_bulk_and_messages_at_each_setting() {
    let data = pattern(1_000_000);
    on_each_runtime(|| async {
        for setting in SETTINGS {
            let ends = Ends::tasks();
            set(&ends, setting);
            let listener = wirespeed_net::TcpListener::bind(&ends.server, ends.to).unwrap();
            let connect = wirespeed_net::TcpStream::connect(&ends.client, ends.to);
            let (client, accepted) = tokio::join!(connect, listener.accept());
            let (client, (mut server, _)) = (client.unwrap(), accepted.unwrap());
            let echo = tokio::spawn(async move {
                let (mut reading, mut writing) = server.split();
                tokio::io::copy(&mut reading, &mut writing).await.unwrap()
            });
            let (mut reading, mut writing) = client.into_split();
            let sent = data.clone();
            let writer = tokio::spawn(async move {
                writing.write_all(&sent).await.unwrap();
                writing
            });
            let mut back = vec![0; data.len()];
            reading.read_exact(&mut back).await.unwrap();
            assert!(back == data, "mitigation {setting}");
            let mut writing = writer.await.unwrap();
            for turn in 0..20_u32 {
                let mut message = turn.to_le_bytes();
                writing.write_all(&message).await.unwrap();
                reading.read_exact(&mut message).await.unwrap();
                assert_eq!(message, turn.to_le_bytes(), "mitigation {setting}");
            }
            drop((reading, writing));
            assert_eq!(echo.await.unwrap(), data.len() as u64 + 80);
            ends.client.shut_down();
            ends.server.shut_down();
        }
    });
}

/// After a silence the first frame wakes the driver at once, even at the highest mitigation level.
#[test]
fn a_lone_request_does_not_wait() {
    let ends = Ends::threads();
    set(&ends, "5");
    let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
    let mut client = TcpStream::connect(&ends.client, ends.to).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let echo = thread::spawn(move || {
        let mut message = [0; 8];
        while server.read_exact(&mut message).is_ok() {
            server.write_all(&message).unwrap();
        }
    });
    let mut times = Vec::new();
    for _ in 0..30 {
        thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        client.write_all(&[7; 8]).unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
        times.push(start.elapsed());
    }
    drop(client);
    echo.join().unwrap();
    times.sort_unstable();
    // If each of the two frames were delayed, a round trip would take at least 800 us for each. On
    // a busy machine some of the thirty times are longer, so the sixth shortest one is checked.
    assert!(times[5] < Duration::from_micros(800), "{times:?}");
}
