//! The file server against clients that keep it waiting, over a wire in memory: each is let go, and
//! its place is free again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use wirespeed::net::{Net, TcpListener, TcpStream};
use wirespeed::pair::{PairConfig, pair};
use wirespeed_examples::{files, tls};

/// Short, so that the test is short; a client that takes all it gets is never so slow.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than the buffers of both ends hold.
const BIG: usize = 10_000_000;

/// A folder with the file `big`, gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wsimp-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("room for a folder");
        std::fs::write(path.join("big"), vec![7; BIG]).expect("room for 10 MB");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server with its stack, and a client's stack.
struct Scene {
    server: Net,
    client: Net,
    at: SocketAddr,
    certificate: String,
}

fn scene(folder: &Folder) -> Scene {
    let (left, right) = pair(&PairConfig::new([1, 2]));
    let at = SocketAddr::new(right.addr, 443);
    let (client, _driver) = Net::spawn_tokio(left.stack);
    let (server, _driver) = Net::spawn_tokio(right.stack);
    let identity = tls::identity(at.ip()).expect("a certificate");
    let listener = TcpListener::bind(&server, at).expect("free");
    let root = folder.0.clone();
    tokio::spawn(async move {
        let _ = files::serve(listener, identity.acceptor, &root, PATIENCE).await;
    });
    Scene { server, client, at, certificate: identity.certificate_pem }
}

impl Scene {
    async fn connected(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(&self.client, self.at).await.expect("it listens");
        let connector = tls::connector(self.certificate.as_bytes()).expect("a certificate");
        let name = ServerName::IpAddress(self.at.ip().into());
        connector.connect(name, stream).await.expect("it shakes hands")
    }

    fn connections(&self) -> usize {
        self.server.with_stack(|stack| stack.connection_count()).expect("it is driven")
    }

    /// Wait until the server's stack has no connection, far longer than the server's patience.
    async fn free(&self) {
        for _ in 0..600 {
            if self.connections() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} connections are still held", self.connections());
    }
}

/// Is it done, with any result, within a time that is far longer than the server's patience?
async fn within<T>(what: impl Future<Output = T>) -> bool {
    tokio::time::timeout(PATIENCE * 15, what).await.is_ok()
}

const GET: &[u8] = b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test]
async fn a_client_that_never_reads_is_let_go() {
    let folder = Folder::new("reads");
    let scene = scene(&folder);
    let mut stream = scene.connected().await;
    stream.write_all(GET).await.expect("sent");
    let mut head = [0; 15];
    stream.read_exact(&mut head).await.expect("an answer begins");
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    assert_eq!(scene.connections(), 1);
    scene.free().await;
    // A reset, not an end that could be taken for the file's.
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).await.is_err());
    assert!(rest.len() < BIG);
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_it_all() {
    let folder = Folder::new("slowly");
    let scene = scene(&folder);
    let mut stream = scene.connected().await;
    stream.write_all(GET).await.expect("sent");
    let (mut room, mut got) = (vec![0; 1 << 20], 0);
    // The whole transfer takes longer than the server would wait at one place.
    while got < BIG {
        tokio::time::sleep(PATIENCE / 8).await;
        let mut filled = 0;
        while filled < room.len() && got + filled < BIG {
            let n = stream.read(&mut room[filled..]).await.expect("it goes on");
            assert!(n > 0, "it ended after {} bytes", got + filled);
            filled += n;
        }
        got += filled;
    }
}

#[tokio::test]
async fn a_client_that_says_nothing_is_let_go() {
    let folder = Folder::new("nothing");
    let scene = scene(&folder);
    // One client without a handshake, and one with a handshake but without a request.
    let mut silent = TcpStream::connect(&scene.client, scene.at).await.expect("it listens");
    let mut idle = scene.connected().await;
    assert_eq!(scene.connections(), 2);
    let mut nothing = Vec::new();
    for (what, ended) in [
        ("no handshake", within(silent.read_to_end(&mut nothing)).await),
        ("no request", within(idle.read_to_end(&mut nothing)).await),
    ] {
        assert!(ended, "{what}: the server still waits");
    }
    drop((silent, idle));
    scene.free().await;
}
