//! Urgent data between two stacks, for tasks.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_net::{TcpListener, TcpStream};

use crate::common::{Ends, on_each_runtime};

#[test]
fn a_task_hears_of_urgent_data_and_finds_its_mark() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let listener = TcpListener::bind(&ends.server, ends.to).expect("free");
        let mut client = TcpStream::connect(&ends.client, ends.to).await.expect("it listens");
        let (server, _) = listener.accept().await.expect("it connected");
        let (mut reading, waiting) = server.into_split();
        let hears = tokio::spawn(async move {
            let ahead = waiting.urgent().await.expect("the driver runs");
            waiting.forget();
            ahead
        });
        client.write_all(b"much").await.expect("open");
        client.send_urgent(b"hurry").await.expect("open");
        client.write_all(b"after").await.expect("open");
        assert_eq!(hears.await.expect("it did not panic"), 9);
        let mut into = [0; 64];
        let mut read = 0;
        while !reading.at_mark().expect("open") {
            read += reading.read(&mut into[read..]).await.expect("data");
        }
        assert_eq!(&into[..read], b"muchhurr");
        // A vectored read ends at the mark like a plain read. There is no second mark after it.
        reading.read_exact(&mut into[..6]).await.expect("data");
        assert_eq!(&into[..6], b"yafter");
        assert_eq!(reading.urgent_pending().expect("open"), 0);
        // A task that waits for urgent data is woken by the end of the stream.
        client.shutdown().await.expect("open");
        assert_eq!(reading.urgent().await.expect("the driver runs"), 0);
        drop(client);
    });
}

#[test]
fn several_buffers_end_at_a_mark() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let listener = TcpListener::bind(&ends.server, ends.to).expect("free");
        let client = TcpStream::connect(&ends.client, ends.to).await.expect("it listens");
        let (server, _) = listener.accept().await.expect("it connected");
        assert_eq!(client.try_send_urgent(b"123456").expect("room"), 6);
        assert_eq!(server.urgent().await.expect("the driver runs"), 6);
        let (mut a, mut b) = ([0; 5], [0; 5]);
        let mut parts = [std::io::IoSliceMut::new(&mut a), std::io::IoSliceMut::new(&mut b)];
        assert_eq!(server.try_read_vectored(&mut parts).expect("data"), 5);
        assert!(server.at_mark().expect("open"));
    });
}
