//! Ten thousand idle connections: the drivers sleep and use no processor time. This program has
//! only one test, because the test measures the processor time of the whole process.

mod common;

use std::time::{Duration, Instant};

use base::Limit;
use common::Ends;
use rustix::time::{ClockId, clock_gettime};
use wirespeed_net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 10_000;

fn processor_time() -> Duration {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

async fn connect_all(ends: &Ends) -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = TcpStream::connect(&ends.client, ends.to).await.unwrap();
        open.push((client, listener.accept().await.unwrap().0));
    }
    open
}

/// A task waits for data of every stream.
async fn wait_for_all(open: &[(TcpStream, TcpStream)]) {
    std::future::poll_fn(|cx| {
        for (client, server) in open {
            assert!(client.poll_read_ready(cx).is_pending());
            assert!(server.poll_read_ready(cx).is_pending());
        }
        std::task::Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn ten_thousand_idle_connections_use_no_processor_time() {
    let (ends, drivers) = Ends::undriven(|config| {
        config.stack.budget.set(Limit::MbufBytes, 512 << 20);
    });
    let threads = drivers.map(|driver| driver.spawn_thread().unwrap());
    let open = connect_all(&ends).await;
    wait_for_all(&open).await;
    // After this time the handshakes are complete: delayed ACKs are sent, and timers that expire
    // once more have expired.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (before, began) = (processor_time(), Instant::now());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let share = (processor_time() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    println!("{:.4} % of a core", share * 100.0);
    assert!(share < 0.005, "the idle stacks used {:.3} % of a core", share * 100.0);
    drop(open);
    ends.drained().await;
    drop(ends);
    for thread in threads {
        thread.join().unwrap();
    }
}
