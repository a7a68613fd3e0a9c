//! The page's server: its answers, its refusals, and its limits.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Case, until};

use crate::fixture::{Live, PATIENCE};

pub(crate) const CASES: &[Case] = &[
    ("the_page_and_its_events_come", &[], answers),
    ("everything_else_is_refused", &[], refusals),
    ("beyond_loopback_a_token_is_needed", &[], token),
    ("both_threads_are_shown", &[], threads),
    ("samples_have_the_budget_or_what_it_lacks", &[], budget),
    ("connections_streams_and_requests_are_bounded", &[], bounds),
    ("a_client_that_takes_nothing_hinders_nobody", &[], slow),
    ("an_address_that_is_taken_is_said", &[], taken),
];

const HOST: &str = "Host: 127.0.0.1\r\n";

/// A stream of events, open; reads them.
struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    fn open(live: &Live, query: &str) -> Events {
        let mut stream = live.connect();
        write!(stream, "GET /events{query} HTTP/1.1\r\n{HOST}\r\n").expect("it takes it");
        Events { stream, text: String::new() }
    }

    /// The next sample.
    fn next(&mut self) -> Value {
        let mut room = [0; 65536];
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                // The received text may begin with a head, and sizes of chunks.
                let data = event.split_once("data: ").expect("an event").1;
                let sample =
                    serde_json::from_str(data).unwrap_or_else(|why| panic!("{why}: {data}"));
                self.text = rest.to_owned();
                return sample;
            }
            let count = self.stream.read(&mut room).expect("events come");
            assert!(count > 0, "they ended: {}", self.text);
            self.text += &String::from_utf8_lossy(&room[..count]);
        }
    }
}

fn answers() {
    let live = Live::start("127.0.0.1:0", &[]);
    let (head, body) = live.ask(&format!("GET / HTTP/1.1\r\n{HOST}\r\n"));
    let head = head.to_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    for field in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "x-frame-options: deny",
    ] {
        assert!(head.contains(field), "{field}: {head}");
    }
    assert!(!head.contains("access-control"), "{head}");
    assert!(body.starts_with("<!doctype html>") && body.trim_end().ends_with("</html>"));
    let mut events = Events::open(&live, "");
    let first = events.next();
    assert_eq!(first["program"]["command"], "ttcp");
    assert_eq!(first["stacks"][0]["name"], "sender");
    assert_eq!(first["stacks"][1]["name"], "receiver");
    let grows = |key: &str, a: &Value, b: &Value| {
        let of = |sample: &Value| sample["stacks"][1][key].as_u64().expect("a number");
        assert!(of(b) > of(a), "{key}");
    };
    let second = events.next();
    for key in ["rx_bytes", "rx_frames", "tx_bytes"] {
        grows(key, &first, &second);
    }
    let third = events.next();
    assert_eq!(third["connection_count"], 2);
    let sends = third["connections"].as_array().expect("a list");
    let sends = sends.iter().find(|row| row["stack"] == 0).expect("the sender's");
    assert!(sends["bytes_acked"].as_u64() > Some(0) && sends["state"] == "ESTABLISHED", "{sends}");
    assert_eq!(third["page"]["watched_by"], 1);
}

fn refusals() {
    let live = Live::start("127.0.0.1:0", &[]);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"] {
        for path in ["/", "/events"] {
            let request = format!("{method} {path} HTTP/1.1\r\n{HOST}Content-Length: 0\r\n\r\n");
            let mut stream = live.connect();
            stream.write_all(request.as_bytes()).expect("it takes it");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("it answers");
            assert!(text.starts_with("HTTP/1.1 405"), "{method} {path}: {text}");
            assert!(text.to_lowercase().contains("allow: get"), "{text}");
        }
    }
    let get =
        |path: &str, fields: &str| live.status(&format!("GET {path} HTTP/1.1\r\n{fields}\r\n"));
    assert_eq!(get("/", HOST), 200);
    assert_eq!(get("/", "Host: evil.example\r\n"), 403, "a name that points here");
    assert_eq!(get("/events", "Host: evil.example:8080\r\n"), 403);
    assert_eq!(get("/", ""), 400, "no host");
    assert_eq!(get("/etc/passwd", HOST), 404);
    assert_eq!(get("/../", HOST), 404);
    let foreign = format!("{HOST}Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n");
    assert_eq!(get("/events", &foreign), 403);
    assert_eq!(live.status("nonsense\r\n\r\n"), 400);
}

fn token() {
    let live = Live::start("0.0.0.0:0", &[]);
    let (_, token) = live.url.split_once("/?token=").expect("a token");
    let get = |path: &str| live.status(&format!("GET {path} HTTP/1.1\r\n{HOST}\r\n"));
    assert_eq!(get(&format!("/?token={token}")), 200);
    let wrong = token.chars().rev().collect::<String>();
    for path in ["/", "/events", "/?token=", &format!("/?token={wrong}"), "/other"] {
        assert_eq!(get(path), 403, "{path}");
    }
    Events::open(&live, &format!("?token={token}")).next();
}

fn threads() {
    let live = Live::start("127.0.0.1:0", &["--threads", "2"]);
    let mut events = Events::open(&live, "");
    let sample = (0..20).map(|_| events.next()).find(|sample| {
        sample["stacks"].as_array().is_some_and(|stacks| stacks.len() == 2)
            && sample["connections"].as_array().is_some_and(|all| all.len() == 2)
    });
    assert!(sample.is_some(), "both stacks have a connection");
}

/// Where samples are not permitted, or the test's program has no line tables, it says so.
fn budget() {
    let live = Live::start("127.0.0.1:0", &[]);
    let mut events = Events::open(&live, "");
    let mut seen = Value::Null;
    let has_come = until(PATIENCE, || {
        seen = events.next()["budget"].take();
        seen["samples"].as_u64() > Some(20) || seen["lacks"].is_string()
    });
    assert!(has_come, "{seen}");
    if let Some(said) = seen["lacks"].as_str() {
        assert!(said.contains("no samples can be taken") || said.contains("line tables"), "{said}");
        return;
    }
    let stages = seen["stages"].as_array().expect("a list");
    let names: Vec<_> = stages.iter().filter_map(|row| row["stage"].as_str()).collect();
    assert!(["driver", "tcp", "wake-ups", "rest"].iter().all(|name| names.contains(name)));
    let shares: f64 = stages.iter().filter_map(|row| row["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-6, "{seen}");
    let cores = seen["cores"].as_f64().expect("a number");
    assert!(cores > 0.0 && seen["busiest"].as_f64() <= Some(1.0), "{seen}");
}

fn bounds() {
    let live = Live::start("127.0.0.1:0", &[]);
    let mut streams: Vec<Events> = (0..8).map(|_| Events::open(&live, "")).collect();
    streams.iter_mut().for_each(|events| drop(events.next()));
    let ninth = live.status(&format!("GET /events HTTP/1.1\r\n{HOST}\r\n"));
    assert_eq!(ninth, 503);
    assert_eq!(live.status(&format!("GET / HTTP/1.1\r\n{HOST}\r\n")), 200);
    // When one client leaves, another one may come.
    drop(streams.pop());
    let has_room = until(PATIENCE, || {
        let mut stream = live.connect();
        write!(stream, "GET /events HTTP/1.1\r\n{HOST}\r\n").expect("it takes it");
        let mut room = [0; 12];
        stream.read_exact(&mut room).is_ok() && &room == b"HTTP/1.1 200"
    });
    assert!(has_room);
    // A head that is too long, and one that does not end.
    let mut stream = live.connect();
    let long = format!("GET / HTTP/1.1\r\n{HOST}X: {}\r\n\r\n", "x".repeat(100_000));
    // The server may refuse before it has all.
    let _ = stream.write_all(long.as_bytes());
    let mut text = String::new();
    let read = stream.read_to_string(&mut text);
    assert!(text.starts_with("HTTP/1.1 431") || read.is_err(), "{text}");
    let mut stream = live.connect();
    write!(stream, "GET / HTTP/1.1\r\n").expect("it takes it");
    let (began, mut text) = (Instant::now(), String::new());
    let _ = stream.read_to_string(&mut text);
    assert!(!text.contains("200 OK") && began.elapsed() < PATIENCE, "{text}");
    // More connections than there may be: the excess connections are closed, and the server goes
    // on.
    let many: Vec<TcpStream> = (0..60).map(|_| live.connect()).collect();
    let closed = || {
        let is_closed = |mut stream: &TcpStream| {
            stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a time");
            match stream.read_exact(&mut [0]) {
                Ok(()) => true,
                Err(why) => !matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            }
        };
        many.iter().filter(|stream| is_closed(stream)).count() >= 20
    };
    assert!(until(PATIENCE, closed));
    drop(many);
    let goes_on = until(PATIENCE, || streams[0].next()["page"]["refused"].as_u64() >= Some(20));
    assert!(goes_on);
}

fn slow() {
    let live = Live::start("127.0.0.1:0", &[]);
    // One client reads nothing, while another one reads everything.
    let _slow = Events::open(&live, "");
    let mut events = Events::open(&live, "");
    let mut last = 0.0;
    for _ in 0..40 {
        let sample = events.next();
        let at = sample["at_ms"].as_f64().expect("a time");
        assert!(at > last);
        last = at;
    }
}

fn taken() {
    let live = Live::start("127.0.0.1:0", &[]);
    let at = format!("127.0.0.1:{}", live.port());
    let mut second = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    let output = second.args(["ttcp", "--http", &at]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot listen at") && said.contains("give another"), "{said}");
}
