//! Tests of requests over loopback, of refused requests, and of the state while all metrics
//! connections are used.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;

use super::*;

/// More bytes than the sockets of a loopback connection hold for a client that does not read.
const LONG: usize = 16 << 20;

/// A server whose loop runs on a thread.
struct Served {
    to: SocketAddr,
    refused: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    turns: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    fn new(metrics_len: usize) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("its address");
        let mut texts = Texts::start().expect("a thread");
        texts.serve_at(Some(listener.into()));
        let (refused, ends) = (texts.refused.clone(), Arc::new(AtomicBool::new(false)));
        let is_over = ends.clone();
        let turns = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                texts.turn(|path| match path {
                    Path::Metrics => {
                        Text { status: 200, kind: "text/plain", text: "m".repeat(metrics_len) }
                    }
                    Path::Health => {
                        Text { status: 503, kind: "text/plain", text: "ill\n".to_owned() }
                    }
                });
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Served { to, refused, ends, turns: Some(turns) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.to).expect("it listens");
        let minute = Some(Duration::from_secs(60));
        stream.set_read_timeout(minute).expect("a time");
        stream
    }

    /// The server's answer to a request that is sent in two parts.
    fn asked(&self, request: &str) -> String {
        let mut client = self.connect();
        let (first, second) = request.split_at(request.len() / 2);
        client.write_all(first.as_bytes()).expect("room");
        // The rest of a request that is too long is not read.
        let _ = client.write_all(second.as_bytes());
        let mut text = Vec::new();
        let _ = client.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.asked(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(turns) = self.turns.take() {
            let _ = turns.join();
        }
    }
}

#[test]
fn texts_and_refusals() {
    let served = Served::new(8);
    let metrics = served.get("/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n") && metrics.ends_with("\r\n\r\nmmmmmmmm"));
    assert!(metrics.contains("content-length: 8\r\n"), "{metrics}");
    let health = served.get("/healthz?a=b");
    assert!(health.starts_with("HTTP/1.1 503 ") && health.ends_with("\r\n\r\nill\n"), "{health}");
    assert!(served.get("/").starts_with("HTTP/1.1 404 "));
    let asked = |text: &str| served.asked(text);
    let head = asked("HEAD /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    let post = asked("POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("allow: GET, HEAD"), "{post}");
    assert!(asked("\x01\x02\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(4 * REQUEST_MAX));
    assert!(!asked(&long).contains("200 OK"));
}

/// A foreign page could let its name resolve to this address (DNS rebinding).
#[test]
fn a_request_by_another_name_is_refused() {
    let served = Served::new(8);
    let asked = |host: &str| served.asked(&format!("GET /metrics HTTP/1.1\r\n{host}\r\n\r\n"));
    for host in ["Host: evil.example", "Host: 127.0.0.1.evil.example", "Host: 127.0.0.1:x"] {
        let said = asked(&format!("{host}\r\n"));
        assert!(said.starts_with("HTTP/1.1 403 "), "{host}: {said}");
    }
    assert!(asked("Accept: */*").starts_with("HTTP/1.1 400 "));
    assert!(asked("Host: localhost:9464").starts_with("HTTP/1.1 200 "));
}

#[test]
fn the_state_is_told_while_clients_do_not_read_the_metrics() {
    let served = Served::new(LONG);
    let mut slow = Vec::new();
    for _ in 0..METRICS_MAX {
        let mut client = served.connect();
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").expect("room");
        // Wait until the answer has begun.
        client.read_exact(&mut [0; 12]).expect("an answer");
        slow.push(client);
    }
    let metrics = served.get("/metrics");
    assert!(metrics.starts_with("HTTP/1.1 503 ") && metrics.contains("as many"), "{metrics}");
    assert!(served.get("/healthz").ends_with("\r\n\r\nill\n"));
    assert!(served.refused.load(Ordering::Relaxed) >= 1);
}

#[test]
fn the_oldest_silent_client_gives_way() {
    let served = Served::new(8);
    let mut silent: Vec<TcpStream> = (0..3 * CONNECTIONS_MAX).map(|_| served.connect()).collect();
    assert!(served.get("/healthz").ends_with("\r\n\r\nill\n"));
    assert!(served.refused.load(Ordering::Relaxed) >= 1);
    let mut room = Vec::new();
    // The connection is closed, by a FIN or by a reset.
    let closed = silent[0].read_to_end(&mut room);
    assert!(room.is_empty() && closed.map_or(true, |count| count == 0));
}
