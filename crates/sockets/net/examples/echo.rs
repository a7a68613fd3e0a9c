//! Two stacks in one process, joined by a link in memory: an echo server on one, a client on the
//! other, all on one tokio thread.
//!
//! `cargo run -p wirespeed-net --features tokio --example echo`

use std::io;
use std::net::SocketAddr;

use stack::pair::{PairConfig, pair};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use wirespeed_net::{Net, TcpListener, TcpStream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    // A real program draws the seed at random.
    let (here, there) = pair(&PairConfig::new([1, 2]));
    let address = SocketAddr::new(there.addr, 7);
    let (client, _) = Net::spawn_tokio(here.stack);
    let (server, _) = Net::spawn_tokio(there.stack);

    let listener = TcpListener::bind(&server, address)?;
    tokio::spawn(async move {
        while let Ok((stream, from)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reading, mut writing) = stream.into_split();
                match copy(&mut reading, &mut writing).await {
                    Ok(bytes) => println!("{from} sent {bytes} bytes"),
                    Err(error) => println!("{from}: {error}"),
                }
            });
        }
    });

    let mut stream = TcpStream::connect(&client, address).await?;
    stream.write_all(b"hello, stack").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("the echo is {answer:?}");
    Ok(())
}
