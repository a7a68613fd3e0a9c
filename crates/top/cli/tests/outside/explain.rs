//! `wirespeed explain` of transfers that are limited on purpose, each in another way: by the
//! program that writes, the one that reads, the window, the path, and pacing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Namespace, Running, ip, until};

use crate::up::{CONFIG, TIMEOUT, World};
use crate::wire::joined;

pub(crate) const CASES: &[Case] = &[
    ("a_slow_writer_is_explained", &[], slow_writer),
    ("a_slow_reader_at_the_peer_is_explained", &[], slow_reader),
    ("our_slow_reader_is_explained", &[], our_reader),
    ("a_small_window_is_explained", &[], small_window),
    ("a_slow_path_is_explained_by_the_congestion_window_or_pacing", &[], slow_path),
    ("a_full_send_buffer_is_explained", &[], send_buffer),
    ("a_path_that_loses_packets_is_explained", &[], lossy_path),
    ("a_port_that_lost_its_carrier_is_explained", &[], without_carrier),
    ("situations_over_a_wire_are_named", &[], over_wire),
    ("situations_over_a_wire_leave_nothing_after_ctrl_c", &[], interrupted),
    ("explain_says_what_is_wrong", &[], wrong),
];

/// How long a machine may be busy with other things; transfers last a little longer.
const QUIET: Duration = Duration::from_secs(50);

/// A transfer, and the folder of its control socket.
struct Transfer {
    running: Running,
    folder: PathBuf,
}

impl Transfer {
    /// Start it in this namespace, or in the given one.
    fn start(namespace: Option<&Namespace>, options: &[&str]) -> Transfer {
        let name = format!("wsexplain-{}-{}", std::process::id(), next_number());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("room for a folder");
        let program = env!("CARGO_BIN_EXE_wirespeed");
        let mut ttcp = match namespace {
            Some(namespace) => namespace.command(program),
            None => Command::new(program),
        };
        ttcp.arg("ttcp").args(options).env("WIRESPEED_RUNTIME_DIR", &folder);
        // Its errors are shown if the test fails.
        ttcp.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::inherit());
        Transfer { running: Running(ttcp.spawn().expect("it starts")), folder }
    }

    /// The answer of `explain`, and its errors.
    fn ask(&self, seconds: &str) -> (Value, String) {
        let mut explain = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        explain.args(["explain", "--json", "--seconds", seconds]);
        let output = explain.env("WIRESPEED_RUNTIME_DIR", &self.folder).output();
        let output = output.expect("the program starts");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (document["connections"][0].clone(), said)
    }

    /// Wait until bytes move.
    fn moves(&self) {
        let mut last = Default::default();
        let moves = until(TIMEOUT, || {
            last = self.ask("0.5");
            last.0["bytes_per_s"].as_f64() > Some(0.0)
        });
        assert!(moves, "{last:?}");
    }

    /// The answer of `explain` once it names one of these limits. A machine that is busy with other
    /// things is a limit too, for a while.
    fn explained(&self, limits: &[&str]) -> Value {
        self.moves();
        // The test does not ask about the first seconds.
        thread::sleep(Duration::from_secs(2));
        let mut said = Value::Null;
        let is_named = until(QUIET, || {
            said = self.ask("3").0;
            said["limit"].as_str().is_some_and(|limit| limits.contains(&limit))
        });
        assert!(is_named, "not of {limits:?}: {said}");
        said
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let _ = self.running.0.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A number that another transfer of this process does not have.
fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Accept one connection here, and let `read` have it, on a thread of this namespace.
fn sink(
    at: SocketAddr,
    buffer: Option<usize>,
    read: impl Fn(&mut TcpStream) -> bool + Send + 'static,
) {
    let (tell, listens) = mpsc::channel();
    thread::spawn(move || {
        let listener = TcpListener::bind(at).expect("the address is here");
        if let Some(bytes) = buffer {
            rustix::net::sockopt::set_socket_recv_buffer_size(&listener, bytes).expect("a size");
        }
        tell.send(()).expect("it waits");
        let (mut stream, _) = listener.accept().expect("a connection");
        while read(&mut stream) {}
    });
    listens.recv().expect("it listens");
}

fn everything(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0; 1 << 16]).is_ok_and(|count| count > 0)
}

const OVER_TAP: [&str; 6] = ["-t", "192.0.2.1", "--dev", "tap:ws0", "--addr", "192.0.2.2/24"];

/// The kernel's end of the TAP, at this host.
fn tap() {
    assert!(ip("tuntap add dev ws0 mode tap vnet_hdr"));
    assert!(ip("addr add 192.0.2.1/24 dev ws0") && ip("link set ws0 up"));
}

fn slow_writer() {
    tap();
    sink("192.0.2.1:5001".parse().expect("an address"), None, everything);
    // Standard input, for as long as it lasts.
    let mut transfer = Transfer::start(None, &OVER_TAP);
    let mut input = transfer.running.0.stdin.take().expect("piped");
    let writes = thread::spawn(move || {
        while input.write_all(&[b'x'; 1000]).is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    transfer.explained(&["application"]);
    drop(transfer);
    writes.join().expect("no panic");
}

fn slow_reader() {
    tap();
    sink("192.0.2.1:5001".parse().expect("an address"), None, |stream| {
        thread::sleep(Duration::from_millis(100));
        stream.read(&mut [0; 20_000]).is_ok_and(|count| count > 0)
    });
    let options = [&OVER_TAP[..], &["-s", "--seconds", "60"]].concat();
    let said = Transfer::start(None, &options).explained(&["peer-reader"]);
    let words = said["words"].as_str().expect("text");
    assert!(words.contains("the peer's program reads more slowly"), "{words}");
}

fn our_reader() {
    let world = World::new(CONFIG);
    let mut nc = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    nc.args(["nc", "-l", "7070", "--pid", &world.worker().to_string()]);
    nc.env("WIRESPEED_RUNTIME_DIR", world.path("run"));
    // Nobody reads what it prints.
    nc.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let _nc = Running(nc.spawn().expect("it starts"));
    let mut stream = None;
    let at = "192.0.2.2:7070";
    assert!(until(TIMEOUT, || (stream = TcpStream::connect(at).ok(), stream.is_some()).1));
    let mut stream = stream.expect("connected");
    thread::spawn(move || while stream.write_all(&[b'x'; 16384]).is_ok() {});
    let explain = || {
        let mut explain = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        explain.args(["explain", "--json", "--seconds", "1", at]);
        explain.args(["--pid", &world.worker().to_string()]);
        let output = explain.env("WIRESPEED_RUNTIME_DIR", world.path("run")).output();
        let document: Value = serde_json::from_slice(&output.expect("it starts").stdout).ok()?;
        Some(document["connections"][0].clone())
    };
    let mut said = Value::Null;
    let is_found = until(TIMEOUT, || {
        said = explain().unwrap_or_default();
        said["limit"] == "reader"
    });
    assert!(is_found, "{said}");
}

/// A transfer of ours to the kernel over a wire, which has one of these limits.
fn over_a_wire(wire: &[&str], window: Option<usize>, options: &[&str], limits: &[&str]) -> Value {
    let joined = joined(wire);
    let at = "10.9.0.2:5001".parse().expect("an address");
    joined.hosts[1].inside(|| sink(at, window, everything)).expect("no panic");
    let over = ["-t", "10.9.0.2", "--dev", "packet:w0", "--addr", "10.9.0.3/24", "-s"];
    let options = [&over[..], &["--seconds", "60"], options].concat();
    Transfer::start(Some(&joined.hosts[0]), &options).explained(limits)
}

fn small_window() {
    let said = over_a_wire(&["--delay", "20ms"], Some(8192), &[], &["receive-window"]);
    let words = said["words"].as_str().expect("text");
    assert!(words.contains("the peer's window is"), "{words}");
}

fn slow_path() {
    let wire = ["--rate", "10Mbit", "--delay", "10ms", "--queue", "50000"];
    // The queue of two round trips is full or not, when it is looked at.
    let said = over_a_wire(&wire, None, &[], &["queue", "link-rate"]);
    let rate = said["bytes_per_s"].as_f64().map(|bytes| bytes * 8.0);
    assert!(rate > Some(3e6) && rate < Some(11e6), "{said}");
    over_a_wire(&wire, None, &["--cc", "bbr"], &["pacing"]);
}

fn send_buffer() {
    over_a_wire(&["--delay", "10ms"], None, &["-b", "16K"], &["send-buffer"]);
}

fn lossy_path() {
    // A round trip far longer than the delay that a busy machine adds to it, which would look like
    // a queue.
    let wire = ["--delay", "40ms", "--loss", "2%"];
    let said = over_a_wire(&wire, None, &[], &["loss"]);
    assert!(said["advice"].as_str().is_some_and(|advice| advice.contains("--cc bbr")), "{said}");
}

fn without_carrier() {
    assert!(ip("link add va type veth peer name vb"));
    assert!(ip("addr add 192.0.2.1/24 dev vb") && ip("link set va up") && ip("link set vb up"));
    sink("192.0.2.1:5001".parse().expect("an address"), None, everything);
    let over = ["-t", "192.0.2.1", "--dev", "packet:va", "--addr", "192.0.2.2/24"];
    let transfer = Transfer::start(None, &[&over[..], &["-s", "--seconds", "60"]].concat());
    transfer.moves();
    // The interface stays up, and takes frames all the same.
    assert!(ip("link set vb down"));
    let mut said = Value::Null;
    let is_found = until(TIMEOUT, || {
        said = transfer.ask("0.5").0;
        said["limit"] == "link-down"
    });
    assert!(is_found, "{said}");
    let mut show = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    show.args(["show", "ports", "--json"]).env("WIRESPEED_RUNTIME_DIR", &transfer.folder);
    let shown = String::from_utf8(show.output().expect("it starts").stdout).expect("text");
    assert!(shown.contains("'va' has no carrier"), "{shown}");
    assert!(ip("link set vb up"));
    let is_gone = || transfer.ask("0.5").0["limit"] != "link-down";
    assert!(until(TIMEOUT, is_gone));
}

fn over_wire() {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    lab.args(["lab", "explain", "--over", "wire", "--seeds", "1", "--json"]);
    lab.args(["--situation", "send-buffer,link-down"]);
    let mut samples = Value::Null;
    // A machine that is busy with other things may be the limit, for a while.
    let are_named = until(QUIET, || {
        let output = lab.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(document["settings"]["over"], "wire");
        let rows = document["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 2);
        samples = document["samples"].clone();
        rows.iter().all(|row| row["share"] == 1.0)
    });
    assert!(are_named, "{samples}");
}

/// Other processes of a process group.
fn others_of(group: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("it is mounted").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_of = |pid: &u32| {
        // A process that has ended meanwhile is in no group.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        *pid != group && behind_name.split(' ').nth(3) == Some(&group.to_string())
    };
    pids.filter(is_of).collect()
}

fn interrupted() {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    lab.args(["lab", "explain", "--over", "wire", "--seeds", "1", "--situation", "idle"]);
    lab.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let lab = Running(lab.spawn().expect("it starts"));
    let group = lab.0.id();
    // `wire` and `ttcp`.
    assert!(until(TIMEOUT, || others_of(group).len() >= 2));
    let (code, out, err) = lab.end_by(Signal::INT);
    assert_eq!(code, 130, "{err}");
    assert!(out.contains("Stopped before its end"), "{out}");
    assert!(others_of(group).is_empty());
}

fn wrong() {
    let says = |arguments: &[&str]| {
        let mut explain = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        let output = explain.arg("explain").args(arguments).output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = says(&["--seconds", "0"]);
    assert!(code == Some(2) && text.contains("0.2 to 60"), "{text}");
    let (code, text) = says(&["nonsense"]);
    assert!(code == Some(2) && text.contains("CONN: "), "{text}");
    tap();
    sink("192.0.2.1:5001".parse().expect("an address"), None, everything);
    let options = [&OVER_TAP[..], &["-s", "--seconds", "60"]].concat();
    let transfer = Transfer::start(None, &options);
    transfer.moves();
    let mut explain = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    explain.args(["explain", "192.0.2.9:1"]).env("WIRESPEED_RUNTIME_DIR", &transfer.folder);
    let output = explain.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("there is no such connection"), "{text}");
}
