//! A router between two kernels that reach each other by IPv4 with IPv6 next hops alone, in both
//! directions: the port between this kernel and the router has no IPv4 address. RFC 8950.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Need, ip, until};

use crate::up::{TIMEOUT, World};

pub(crate) const CASES: &[Case] =
    &[("ipv4_goes_by_ipv6_next_hops_as_the_kernel_does_it", &[Need::PING], both_ways)];

const CONFIG: &str = r#"
[[port]]
name = "wan"
device = "tap:ws0"
addresses = ["fe80::2/64"]
[[port]]
name = "lan"
device = "tap:ws1"
addresses = "198.51.100.1/24"
[[route]]
to = "10.77.0.0/16"
via = "fe80::5"
port = "wan"
"#;

/// An address of this kernel, and one of the host behind the router.
const NEAR: &str = "10.77.0.1";
const FAR: &str = "198.51.100.2";
/// What each sends to the other.
const BYTES: usize = 1 << 20;

fn ping(words: &str) -> String {
    let done = Command::new("ping").args(["-n", "-I", NEAR]).args(words.split(' ')).output();
    String::from_utf8_lossy(&done.expect("it starts").stdout).into_owned()
}

/// A sum over all stacks.
fn counted(world: &World, name: &str) -> u64 {
    let document: Value = serde_json::from_str(&world.show_json("counters")).expect("JSON");
    let stacks = document["stacks"].as_array().cloned().unwrap_or_default();
    stacks.iter().filter_map(|stack| stack["counters"][name].as_u64()).sum()
}

/// Send and receive [`BYTES`] at once.
fn exchange(stream: &TcpStream) -> usize {
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut stream = stream;
            stream.write_all(&vec![7; BYTES]).expect("the other end reads");
            stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        });
        let mut all = Vec::new();
        let mut stream = stream;
        stream.read_to_end(&mut all).expect("the other end writes");
        sender.join().expect("no panic");
        all.len()
    })
}

fn both_ways() {
    let world = World::new(CONFIG);
    assert!(ip(&format!("addr add {NEAR}/32 dev lo")));
    assert!(ip("addr add fe80::5/64 dev ws0 nodad"));
    assert!(ip("addr del 192.0.2.1/24 dev ws0"));
    assert!(ip(&format!("route replace 198.51.100.0/24 via inet6 fe80::2 dev ws0 src {NEAR}")));

    // Packets of the router's own: echo replies, and errors from the only address it has.
    assert!(until(TIMEOUT, || ping("-c 1 -W 1 198.51.100.1").contains(" 0% packet loss")));
    let said = ping(&format!("-c 1 -W 2 -t 1 {FAR}"));
    assert!(said.contains("From 198.51.100.1 ") && said.contains("Time to live"), "{said}");
    assert!(ping(&format!("-c 3 -i 0.2 -W 2 {FAR}")).contains(" 0% packet loss"));

    let listener = TcpListener::bind((NEAR, 0)).expect("it is on lo");
    let to = listener.local_addr().expect("bound");
    let connect = move || {
        let stream = TcpStream::connect(to).expect("a route leads there");
        exchange(&stream)
    };
    let received = std::thread::scope(|scope| {
        let far = scope.spawn(|| world.behind.inside(connect).expect("no panic"));
        let (stream, from) = listener.accept().expect("a connection");
        assert_eq!(from.ip().to_string(), FAR);
        (exchange(&stream), far.join().expect("no panic"))
    });
    assert_eq!(received, (BYTES, BYTES));
    let [all, in_bursts] = ["forwarded", "forwarded_in_bursts"].map(|name| counted(&world, name));
    assert!(in_bursts * 2 > all && all > 40, "{in_bursts} of {all} in bursts");

    // A gateway that nobody has: the source is told that the host is unreachable.
    world.write(&CONFIG.replace("fe80::5", "fe80::77"));
    world.signal(Signal::HUP);
    assert!(until(TIMEOUT, || world.show("routes").contains("fe80::77")), "{}", world.log());
    let unreachable = || {
        let probe = ["-n", "-c", "1", "-W", "5", NEAR];
        let done = world.behind.command("ping").args(probe).output().expect("it starts");
        String::from_utf8_lossy(&done.stdout).contains("Destination Host Unreachable")
    };
    assert!(until(TIMEOUT, unreachable), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}
