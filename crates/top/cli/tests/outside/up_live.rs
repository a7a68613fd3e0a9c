//! The live page of `wirespeed up`: its worker serves it without privileges, at an address of this
//! machine, and at the router's own addresses over our stack.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Need, Running, ip, until};

use crate::up::{CONFIG, TIMEOUT, World};

pub(crate) const CASES: &[Case] = &[
    ("up_shows_a_page_at_an_address_of_this_machine", &[], on_loopback),
    ("up_shows_a_page_over_its_own_stack", &[], over_the_stack),
    ("ttcp_shows_a_page_over_its_own_stack", &[], ttcp_over_the_stack),
    ("a_browser_shows_a_router", &[Need::CHROMIUM], browser),
];

/// The URL that the router printed, at this address.
fn url(world: &World, address: &str) -> String {
    let log = world.log();
    let line = log.lines().find_map(|line| line.strip_prefix("live page: "));
    let url = line.and_then(|line| line.split_whitespace().next());
    url.unwrap_or_else(|| panic!("{log}")).replace("ADDRESS", address)
}

/// A GET of a part of the page; the text until `enough` of it has come.
fn get(url: &str, part: &str, host: Option<&str>, enough: impl Fn(&str) -> bool) -> String {
    let rest = url.strip_prefix("http://").expect("a URL");
    let (at, query) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
    let host = host.unwrap_or(at);
    write!(stream, "GET /{part}{query} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it takes it");
    let (mut text, mut room) = (String::new(), vec![0; 1 << 16]);
    while !enough(&text) {
        match stream.read(&mut room).expect("it answers") {
            0 => break,
            count => text += &String::from_utf8_lossy(&room[..count]),
        }
    }
    text
}

/// The first `count` samples of the events.
fn samples(url: &str, count: usize) -> Vec<Value> {
    let text = get(url, "events", None, |text| text.matches("\n\n").count() >= count);
    let events = text.split("\n\n").filter_map(|event| event.split_once("data: "));
    let samples = events.filter_map(|(_, data)| serde_json::from_str(data).ok());
    let samples: Vec<_> = samples.take(count).collect();
    assert!(samples.len() >= count.min(1), "{text}");
    samples
}

fn on_loopback() {
    let world = World::with(CONFIG, |up| {
        up.args(["--http", "127.0.0.1:8099"]);
    });
    let url = url(&world, "127.0.0.1");
    assert_eq!(url, "http://127.0.0.1:8099/");
    let page = get(&url, "", None, |_| false);
    assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("</html>\n"), "{page}");
    let all = samples(&url, 3);
    assert_eq!(all[0]["program"]["command"], "up");
    assert_eq!(all[0]["stacks"][0]["name"], "router");
    let ports = all[0]["stacks"][0]["ports"].as_array().expect("a list");
    assert_eq!(ports.iter().filter(|port| port["name"] == "wan").count(), 1, "{ports:?}");
    // A reload changes the router and not the page.
    world.reload(
        &format!("{CONFIG}[[route]]\nto = \"10.9.0.0/16\"\nvia = \"192.0.2.1\"\n"),
        "1 changes",
    );
    samples(&url, 2);
    assert_eq!(world.end(Signal::TERM), 0);
}

fn over_the_stack() {
    let world = World::with(CONFIG, |up| {
        up.args(["--http", "stack:8098"]);
    });
    let url = url(&world, "192.0.2.2");
    assert!(url.starts_with("http://192.0.2.2:8098/?token="), "{url}");
    let (bare, _) = url.split_once('?').expect("a token");
    assert!(get(bare, "", None, |_| false).starts_with("HTTP/1.1 403"));
    let named = get(&url, "", Some("router.example"), |_| false);
    assert!(named.starts_with("HTTP/1.1 403"), "{named}");
    assert!(get(&url, "", None, |_| false).starts_with("HTTP/1.1 200"));
    // The page shows its own connection.
    let all = samples(&url, 4);
    let last = all.last().expect("samples");
    let own = last["connections"].as_array().expect("a list");
    assert!(own.iter().any(|row| row["local"] == "192.0.2.2:8098"), "{last}");
    budget_of_the_worker(&url);
    // The page's connections do not delay the router's end.
    assert_eq!(world.end(Signal::TERM), 0);
}

/// The worker samples its own threads, although its system calls are filtered. Where samples are
/// not permitted, or the test's program has no line tables, it says so.
fn budget_of_the_worker(url: &str) {
    let mut last = Value::Null;
    let is_known = until(TIMEOUT, || {
        // Work for the worker.
        (0..100).for_each(|_| drop(get(url, "", None, |_| false)));
        last = samples(url, 6).pop().expect("samples")["budget"].take();
        last["samples"].as_u64() > Some(0) || last["lacks"].is_string()
    });
    assert!(is_known, "{last}");
    match last["lacks"].as_str() {
        Some(why) => {
            assert!(
                why.contains("no samples can be taken") || why.contains("line tables"),
                "{why}"
            );
        }
        None => assert!(last["busiest"].as_f64() > Some(0.0), "{last}"),
    }
}

fn ttcp_over_the_stack() {
    assert!(ip("tuntap add dev ws0 mode tap vnet_hdr"));
    assert!(ip("addr add 192.0.2.1/24 dev ws0") && ip("link set ws0 up"));
    let folder = std::env::temp_dir().join(format!("wslive-stack-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("room for a folder");
    let mut ttcp = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    ttcp.args(["ttcp", "-r", "-s", "--dev", "tap:ws0", "--addr", "192.0.2.2/24"]);
    ttcp.args(["--http", "stack:8095"]).env("WIRESPEED_RUNTIME_DIR", &folder);
    ttcp.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running(ttcp.spawn().expect("it starts"));
    let mut line = String::new();
    BufReader::new(running.0.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("a URL");
    let url = url.replace("ADDRESS", "192.0.2.2");
    assert!(until(TIMEOUT, || TcpStream::connect("192.0.2.2:8095").is_ok()));
    let page = get(&url, "", None, |_| false);
    assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("</html>\n"), "{page}");
    let (bare, _) = url.split_once('?').expect("a token");
    assert!(get(bare, "", None, |_| false).starts_with("HTTP/1.1 403"));
    let all = samples(&url, 5);
    assert_eq!(all[4]["stacks"][0]["name"], "ttcp", "{}", all[4]);
    // Beside the page the transfer goes on.
    let mut stream = TcpStream::connect("192.0.2.2:5001").expect("it listens");
    stream.write_all(&[b'x'; 100_000]).expect("it takes it");
    drop(stream);
    assert!(running.succeeds());
    let _ = std::fs::remove_dir_all(&folder);
}

#[cfg(target_os = "linux")]
fn browser() {
    let world = World::with(CONFIG, |up| {
        up.args(["--http", "stack:8096"]);
    });
    let url = url(&world, "192.0.2.2");
    let mut browser = testbed::Browser::start();
    browser.open(&url);
    let samples = "Number(document.body.dataset.samples) >= 20";
    assert!(browser.until(Duration::from_secs(60), samples), "{:?}", browser.complaints());
    let folder = std::env::var_os("LIVE_PICTURES").map(std::path::PathBuf::from);
    let folder = folder.unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    browser.picture(&folder.join("live-router.png"));
    assert_eq!(browser.complaints(), &[] as &[String]);
}
