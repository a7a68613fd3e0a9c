//! Requests over loopback, and those that are refused.

use super::*;

fn page(path: Path) -> Page {
    Page { status: 200, kind: "text/plain", text: format!("{path:?}\n") }
}

/// What the server answers to a request that comes in two parts.
fn asked(request: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("its address");
    let mut server = Server::new(listener.into()).expect("a socket");
    let mut client = TcpStream::connect(to).expect("it listens");
    let (first, second) = request.split_at(request.len() / 2);
    client.write_all(first.as_bytes()).expect("room");
    server.turn(page);
    client.write_all(second.as_bytes()).expect("room");
    let mut text = String::new();
    client.set_nonblocking(true).expect("a socket");
    for _ in 0..1000 {
        server.turn(page);
        match client.read_to_string(&mut text) {
            Ok(_) => return text,
            Err(error) if is_temporary(error.kind()) => {}
            // The rest of a request that is too long was not read.
            Err(_) => return text,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no end: {text}");
}

#[test]
fn pages_and_refusals() {
    let get = |path: &str| asked(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let metrics = get("/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n") && metrics.ends_with("\r\n\r\nMetrics\n"));
    assert!(metrics.contains("Content-Length: 8\r\n"), "{metrics}");
    assert!(get("/healthz?a=b").ends_with("Health\n"));
    assert!(get("/").starts_with("HTTP/1.1 404 "));
    assert!(asked("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    assert!(asked("POST /metrics HTTP/1.1\r\n\r\n").contains("Allow: GET"));
    assert!(asked("\x01\x02\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "x".repeat(REQUEST_MAX));
    assert!(asked(&long).starts_with("HTTP/1.1 431 "));
}

#[test]
fn clients_are_bounded() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("its address");
    let mut server = Server::new(listener.into()).expect("a socket");
    let clients: Vec<_> = (0..CLIENTS_MAX + 3).map(|_| TcpStream::connect(to)).collect();
    for _ in 0..100 {
        server.turn(page);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((server.clients.len(), server.refused()), (CLIENTS_MAX, 3));
    drop(clients);
    server.turn(page);
    assert!(server.clients.is_empty());
}
