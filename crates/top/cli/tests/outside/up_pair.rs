//! Two routers that are a pair, between this kernel and a host behind them. The first one is killed
//! in the middle of a connection that it translates; its addresses move to the second one, and the
//! connection goes on. Then the first one comes back, and has the state again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testbed::{Case, Namespace, Running, ip, until};

use crate::up::TIMEOUT;

pub(crate) const CASES: &[Case] =
    &[("a_connection_outlives_the_router_that_translated_it", &[], outlives)];

/// The addresses that move: the outside one of NAT, and the gateway of the host behind.
const VIRTUAL: [&str; 2] = ["192.0.2.2/24", "198.51.100.1/24"];

/// Router `a`, number 1, or `b`, number 2, with or without the addresses that move.
fn config(name: char, number: u8, is_active: bool) -> String {
    let [wan, lan] = VIRTUAL.map(|addr| match is_active {
        true => format!(", \"{addr}\""),
        false => String::new(),
    });
    let peer = 3 - number;
    format!(
        r#"
[[port]]
name = "wan"
device = "tap:w{name}"
addresses = ["192.0.2.1{number}/24"{wan}]
[[port]]
name = "lan"
device = "tap:l{name}"
addresses = ["198.51.100.1{number}/24"{lan}]
[[port]]
name = "sync"
device = "tap:s{name}"
addresses = ["10.9.0.{number}/24"]
[filter]
rules = 'pass in lan out wan'
[nat]
rules = 'source out wan from 198.51.100.0/24 to 192.0.2.2'
[pair]
local = "10.9.0.{number}"
peer = "10.9.0.{peer}"
key = "pair.key"
"#
    )
}

/// A router with its files.
struct One {
    name: char,
    number: u8,
    running: Running,
    directory: PathBuf,
}

impl One {
    fn start(name: char, number: u8, is_active: bool) -> One {
        let directory =
            std::env::temp_dir().join(format!("wstest-pair-{}-{name}", std::process::id()));
        std::fs::create_dir_all(directory.join("run")).expect("a directory");
        let key = directory.join("pair.key");
        std::fs::write(&key, "5a".repeat(32)).expect("room");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).expect("it is ours");
        std::fs::write(directory.join("router.toml"), config(name, number, is_active))
            .expect("room");
        let log = std::fs::File::create(directory.join("log")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        command.arg("up").arg(directory.join("router.toml"));
        command.env("WIRESPEED_RUNTIME_DIR", directory.join("run"));
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        let one = One { name, number, running: Running(child.expect("it starts")), directory };
        one.says("forwarding; SIGHUP reads");
        for kind in ['w', 'l', 's'] {
            assert!(ip(&format!("link set {kind}{name} master br{kind}")));
            assert!(ip(&format!("link set {kind}{name} up")));
        }
        one
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).expect("a log")
    }

    fn says(&self, text: &str) {
        assert!(until(TIMEOUT, || self.log().contains(text)), "no '{text}' in: {}", self.log());
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.running.0), signal).expect("it runs");
    }

    /// The rows of a section.
    fn rows(&self, section: &str) -> Vec<Value> {
        let mut show = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        show.args(["show", section, "--json"]);
        let shown = show.env("WIRESPEED_RUNTIME_DIR", self.directory.join("run")).output();
        let text = shown.expect("it starts").stdout;
        let document: Value = serde_json::from_slice(&text).unwrap_or_default();
        document["stacks"][0][section].as_array().cloned().unwrap_or_default()
    }

    fn has_state(&self) -> bool {
        let is_it = |row: &Value| row["phase"] == "established" && row["reply_dst"] != row["src"];
        self.rows("states").iter().any(is_it)
    }

    /// The addresses move here.
    fn take_over(&self) {
        std::fs::write(self.directory.join("router.toml"), config(self.name, self.number, true))
            .expect("room");
        self.signal(Signal::HUP);
        self.says("changes took effect, 0 failed");
    }
}

impl Drop for One {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Echo what comes over one connection, whose other end is told.
fn echo(listener: &TcpListener) -> String {
    let (mut stream, peer) = listener.accept().expect("a connection");
    let mut room = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut room) {
        if stream.write_all(&room[..count]).is_err() {
            break;
        }
    }
    peer.to_string()
}

fn says(stream: &mut TcpStream, what: &[u8]) -> std::io::Result<()> {
    stream.write_all(what)?;
    let mut back = vec![0; what.len()];
    stream.read_exact(&mut back)?;
    assert_eq!(back, what);
    Ok(())
}

fn outlives() {
    let behind = Namespace::new().expect("root may");
    for kind in ['w', 'l', 's'] {
        assert!(ip(&format!("link add br{kind} type bridge")));
        assert!(ip(&format!("link set br{kind} up")));
    }
    assert!(ip("link set lo up") && ip("addr add 192.0.2.1/24 dev brw"));
    assert!(ip("link add vl type veth peer name ve") && ip("link set vl master brl"));
    assert!(ip("link set vl up") && ip(&format!("link set ve netns {}", behind.name())));
    assert!(behind.ip("addr add 198.51.100.2/24 dev ve") && behind.ip("link set ve up"));
    assert!(behind.ip("route add default via 198.51.100.1"));
    let (first, second) = (One::start('a', 1, true), One::start('b', 2, false));
    first.says("pair: 10.9.0.2:3780 is there");
    second.says("pair: 10.9.0.1:3780 is there");

    let listener = TcpListener::bind("192.0.2.1:7007").expect("the port is free");
    std::thread::scope(|scope| {
        let server = scope.spawn(|| echo(&listener));
        let connect = || TcpStream::connect("192.0.2.1:7007");
        let mut stream = behind.inside(connect).expect("it ran").expect("it is forwarded");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
        says(&mut stream, &[7; 100_000]).expect("the first router forwards");
        assert!(until(TIMEOUT, || second.has_state()), "{:?}", second.rows("pair"));

        // The first router is gone with all that it knew.
        first.signal(Signal::KILL);
        drop(first);
        assert!(until(TIMEOUT, || !ip("link show wa")));
        second.take_over();
        // What VRRP does by its MAC address.
        assert!(ip("neigh flush all") && behind.ip("neigh flush all"));
        says(&mut stream, &[8; 100_000]).expect("the second router forwards");
        second.says("10.9.0.1:3780 does not answer");

        // It comes back, and has what the other one has.
        let first = One::start('a', 1, false);
        assert!(until(TIMEOUT, || first.has_state()), "{:?}", first.rows("pair"));
        says(&mut stream, &[9; 1_000]).expect("the second router still forwards");
        drop(stream);
        let peer = server.join().expect("no panic");
        assert!(peer.starts_with("192.0.2.2:"), "{peer}");
    });
}
