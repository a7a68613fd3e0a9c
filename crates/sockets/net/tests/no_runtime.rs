//! Async sockets without a runtime. One thread polls the driver as a future, another thread is the
//! driver's timer, and the streams are used with the traits of futures-io.

use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_net::{TcpListener, TcpStream, ThreadTimer};

use crate::common::Ends;

#[test]
fn on_no_runtime_with_the_traits_of_futures() {
    let (ends, [client, server]) = Ends::undriven(|_| {});
    // A plain thread polls the driver; a `ThreadTimer` keeps its time.
    let timer = ThreadTimer::new().unwrap();
    let driver = std::thread::spawn(move || block_on(client.with_timer(timer)));
    let _server = server.spawn_thread().unwrap();
    block_on(async {
        let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
        let mut client = TcpStream::connect(&ends.client, ends.to).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(b"hello").await.unwrap();
        client.close().await.unwrap();
        let mut got = String::new();
        server.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "hello");
    });
    drop(ends);
    driver.join().unwrap();
}

/// A minimal executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Unpark>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
