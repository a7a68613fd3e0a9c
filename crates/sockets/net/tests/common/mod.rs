//! Two stacks with sockets, joined by a link in memory, and the count of their connections and
//! buffers.
#![allow(dead_code, reason = "each test program uses a part")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use base::Limit;
use stack::Stack;
use stack::pair::{PairConfig, pair};
use wirespeed_net::{Driver, DriverThread, Net};

/// A time limit that suffices on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Two stacks, those of the client and the server.
pub(crate) struct Ends {
    pub(crate) client: Net,
    pub(crate) server: Net,
    /// An address of the server with an unused port.
    pub(crate) to: SocketAddr,
}

fn stacks(tune: impl FnOnce(&mut PairConfig)) -> (Stack, Stack, SocketAddr) {
    let mut config = PairConfig::new([0x0123_4567_89ab_cdef, 42]);
    config.stack.budget.set(Limit::MbufBytes, 256 << 20);
    tune(&mut config);
    let (client, server) = pair(&config);
    let to = SocketAddr::new(server.addr, 7);
    (client.stack, server.stack, to)
}

impl Ends {
    /// Stacks that are run by driver threads.
    pub(crate) fn threads() -> Ends {
        Ends::threads_with(|_| {}).0
    }

    pub(crate) fn threads_with(tune: impl FnOnce(&mut PairConfig)) -> (Ends, [DriverThread; 2]) {
        let (ends, [a, b]) = Ends::undriven(tune);
        (ends, [a.spawn_thread().expect("a thread"), b.spawn_thread().expect("the thread starts")])
    }

    /// Stacks that are run by tasks of the current runtime.
    pub(crate) fn tasks() -> Ends {
        let (ends, drivers) = Ends::undriven(|_| {});
        for driver in drivers {
            tokio::spawn(driver.with_tokio());
        }
        ends
    }

    pub(crate) fn undriven(tune: impl FnOnce(&mut PairConfig)) -> (Ends, [Driver; 2]) {
        let (a, b, to) = stacks(tune);
        let ((client, a), (server, b)) = (Net::new(a), Net::new(b));
        (Ends { client, server, to }, [a, b])
    }

    /// Numbers of connections and buffers that the stacks hold: the client's, then the server's.
    pub(crate) fn held(&self) -> [usize; 4] {
        let count = |net: &Net| {
            net.with_stack(|s| (s.connection_count(), s.pool().outstanding()))
                .expect("the driver runs")
        };
        let ((a, b), (c, d)) = (count(&self.client), count(&self.server));
        [a, b, c, d]
    }

    /// Wait until neither stack holds a connection or a buffer.
    pub(crate) fn wait_empty(&self) {
        let end = Instant::now() + SOON;
        while self.held() != [0; 4] {
            assert!(
                Instant::now() < end,
                "connections and buffers were not released in time: {:?}",
                self.held()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// [`Ends::wait_empty`] for tasks.
    pub(crate) async fn drained(&self) {
        let end = Instant::now() + SOON;
        while self.held() != [0; 4] {
            assert!(
                Instant::now() < end,
                "connections and buffers were not released in time: {:?}",
                self.held()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// `len` bytes, each of which depends on its position.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + i / 65_521) as u8).collect()
}

/// Runs a test for tasks on a current-thread runtime and on one with several threads.
pub(crate) fn on_each_runtime<F: Future<Output = ()>>(test: impl Fn() -> F) {
    let current = tokio::runtime::Builder::new_current_thread().enable_all().build();
    current.expect("a runtime").block_on(async {
        tokio::time::timeout(SOON * 2, test()).await.expect("on one thread in time");
    });
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    many.expect("a runtime").block_on(async {
        tokio::time::timeout(SOON * 2, test()).await.expect("on two threads in time");
    });
}
