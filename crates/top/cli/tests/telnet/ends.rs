//! The ends of sessions, and their limits.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Case, until};

use crate::fixture::{TIMEOUT, client, connected, daemon, daemon_by, file, started, wirespeed};
use crate::terminal::Terminal;

pub(crate) const CASES: &[Case] = &[
    ("a_file_is_input", &[], file_as_input),
    ("a_client_that_goes_hangs_the_program_up", &[], hangs_up),
    ("there_are_so_many_sessions_and_no_more", &[], most),
    ("a_client_that_reads_nothing_is_not_written_to_without_end", &[], back_pressure),
    ("a_program_that_reads_nothing_is_not_sent_to_without_end", &[], unread),
    ("a_client_that_asks_and_does_not_read_is_not_answered_without_end", &[], asks_only),
    ("a_server_that_asks_and_does_not_read_is_not_answered_without_end", &[], server_asks_only),
    ("a_client_that_says_nothing_loses_its_session", &[], silent),
    ("an_address_has_so_many_sessions_and_no_more", &[], per_address),
    ("a_program_sees_nothing_of_the_daemons_environment", &[], environment),
    ("the_users_terminal_is_as_it_was", &[], restored),
    ("a_terminal_that_dies_ends_client_and_program", &[], dies),
    ("a_program_that_leaves_its_terminal_ends_the_session", &[], left),
    ("a_log_has_what_was_negotiated", &[], logged),
    ("no_server_is_an_error_that_says_so", &[], refused),
    ("a_large_output_arrives_whole", &[], whole),
];

/// The client with this on standard input: exit code and standard output.
fn piped(input: &[u8], options: &[&str]) -> (i32, String) {
    let mut command = wirespeed();
    command.args(["telnet", "127.0.0.1", "2323"]).args(options);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("piped").write_all(input).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn file_as_input() {
    let _daemon = daemon(&[], &["cat", "-A"]);
    for options in [&[][..], &["--no-linemode"]] {
        let (code, text) = piped(b"one\ntwo\xff\n", options);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("one$\r\ntwoM-^?$\r\n"), "{options:?}: {text:?}");
    }
    let (code, text) = piped(b"", &[]);
    assert_eq!((code, text.as_str()), (0, ""));
}

fn hangs_up() {
    let path = file("hung-up");
    let script =
        format!("trap 'echo hup >{}; exit' HUP; while :; do sleep 0.1; done", path.display());
    let running = daemon(&["--most", "1"], &["sh", "-c", &script]);
    let mut user = client(&[]);
    user.shows("Escape", TIMEOUT);
    std::thread::sleep(Duration::from_millis(500));
    user.types(b"\x1dquit\r");
    assert_eq!(user.ends(TIMEOUT).and_then(|status| status.code()), Some(0));
    assert!(until(TIMEOUT, || path.exists()), "no SIGHUP");
    let (code, text, _) = running.end_by(Signal::INT);
    assert_eq!(code, 0);
    assert!(text.contains("1 sessions"), "{text}");
}

fn most() {
    let running = daemon(&["--most", "2"], &["cat"]);
    let (mut one, mut two) = (connected(), connected());
    let mut room = [0; 16];
    assert!(one.read(&mut room).expect("options") > 0 && two.read(&mut room).expect("options") > 0);
    assert_eq!(connected().read(&mut room).expect("closed"), 0);
    drop(one);
    let again = || connected().read(&mut [0; 16]).is_ok_and(|len| len > 0);
    assert!(until(TIMEOUT, again), "no session is free");
    let (_, text, _) = running.end_by(Signal::INT);
    assert!(text.contains("connections over the limits"), "{text}");
}

/// Kilobytes of a process.
fn resident_kb(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn back_pressure() {
    let running = daemon(&[], &["yes"]);
    // The client answers nothing, so that the program begins after a while, and reads nothing.
    let stream = connected();
    let before = resident_kb(running.0.id());
    std::thread::sleep(Duration::from_secs(8));
    let after = resident_kb(running.0.id());
    assert!(after < before + 4_096, "{before} kB, then {after}");
    drop(stream);
}

fn unread() {
    let running = daemon(&["--most", "1"], &["sleep", "1000"]);
    let mut stream = connected();
    stream.set_nonblocking(true).expect("it is ours");
    let before = resident_kb(running.0.id());
    let full = || {
        while stream.write(&[b'x'; 64 << 10]).is_ok() {}
        false
    };
    until(Duration::from_secs(8), full);
    let after = resident_kb(running.0.id());
    assert!(after < before + 4_096, "{before} kB, then {after}");
    // A reset, because received data was not read.
    drop(stream);
    let again = || connected().read(&mut [0; 16]).is_ok_and(|len| len > 0);
    assert!(until(TIMEOUT, again), "the session did not end");
}

/// Send this for as long as it is taken, at most some seconds, and read nothing.
fn asks(stream: &mut TcpStream, unit: &[u8]) {
    stream.set_nonblocking(true).expect("it is ours");
    let all = unit.repeat((64 << 10) / unit.len());
    let (begun, mut at) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(4) {
        match stream.write(&all[at..]) {
            Ok(len) => at = (at + len) % all.len(),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

const TIMING_MARK: &[u8] = &[255, 253, 6];
const ARE_YOU_THERE: &[u8] = &[255, 246];
const UNKNOWN: &[u8] = &[255, 253, 99];

fn asks_only() {
    let running = daemon(&[], &["sleep", "1000"]);
    let before = resident_kb(running.0.id());
    for unit in [TIMING_MARK, ARE_YOU_THERE, UNKNOWN] {
        let mut stream = connected();
        asks(&mut stream, unit);
        let after = resident_kb(running.0.id());
        assert!(after < before + 4_096, "{unit:?}: {before} kB, then {after}");
        // The session ends with the connection, though it was not read to its end.
        drop(stream);
    }
    assert_eq!(running.end_by(Signal::INT).0, 0);
}

fn server_asks_only() {
    assert!(testbed::ip("link set lo up"));
    let listener = TcpListener::bind(("127.0.0.1", 2323)).expect("the port is free");
    let mut command = wirespeed();
    command.args(["telnet", "127.0.0.1", "2323"]).stdin(Stdio::piped());
    let running = started(&mut command);
    let (mut stream, _) = listener.accept().expect("it connects");
    asks(&mut stream, ARE_YOU_THERE);
    let before = resident_kb(running.0.id());
    asks(&mut stream, UNKNOWN);
    let after = resident_kb(running.0.id());
    assert!(after < before + 4_096, "{before} kB, then {after}");
}

fn silent() {
    let running = daemon(&["--most", "1", "--patience", "1"], &["cat"]);
    let mut quiet = connected();
    let mut room = Vec::new();
    quiet.read_to_end(&mut room).expect("options, and then the end");
    // A connection that sends something, whatever it is, stays.
    let mut stream = connected();
    stream.write_all(b"x\r\n").expect("it is taken");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(connected().read(&mut [0; 16]).expect("closed"), 0, "the session is in use");
    let (_, text, _) = running.end_by(Signal::INT);
    assert!(text.contains("1 ended because the client said or read nothing"), "{text}");
}

fn per_address() {
    let running = daemon(&["--per-address", "2"], &["cat"]);
    let mut held = [connected(), connected()];
    for stream in &mut held {
        assert!(stream.read(&mut [0; 16]).expect("options") > 0);
    }
    assert_eq!(connected().read(&mut [0; 16]).expect("closed"), 0);
    drop(held);
    let again = || connected().read(&mut [0; 16]).is_ok_and(|len| len > 0);
    assert!(until(TIMEOUT, again), "no session is free");
    assert_eq!(running.end_by(Signal::INT).0, 0);
}

fn environment() {
    let mut command = wirespeed();
    command.env("API_KEY", "secret").env("LD_LIBRARY_PATH", "/x").env("TZ", "UTC");
    let _daemon = daemon_by(command, &[], &["env"]);
    let (code, text) = piped(b"", &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("TERM=xterm\r\n") && text.contains("TZ=UTC\r\n"), "{text}");
    assert!(text.contains("PATH=/"), "{text}");
    for name in ["API_KEY", "LD_LIBRARY_PATH", "WIRESPEED_RUNTIME_DIR", "CARGO"] {
        assert!(!text.contains(name), "{name} in {text}");
    }
}

fn restored() {
    let _daemon = daemon(&[], &["cat"]);
    let program = env!("CARGO_BIN_EXE_wirespeed");
    let script = format!(
        "sh -c 'echo pid-$$-; exec {program} telnet 127.0.0.1 2323'; echo code-$?; stty -a"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    // Ended by a command, by the server, by signals.
    for (keys, signals, code) in [
        (&b"\x1dquit\r"[..], 0, "code-0"),
        (b"\x04", 0, "code-0"),
        (b"", 1, "code-130"),
        (b"", 2, "code-130"),
    ] {
        let mut user = Terminal::new(&command);
        user.shows("Escape", TIMEOUT);
        std::thread::sleep(Duration::from_millis(500));
        let pid = user.shown().split('-').nth(1).and_then(|pid| pid.parse().ok());
        let pid = Pid::from_raw(pid.expect("a number")).expect("a process");
        user.types(keys);
        for _ in 0..signals {
            // It may have ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        user.shows(code, TIMEOUT);
        user.shows(" icanon", TIMEOUT);
        user.shows(" echo ", TIMEOUT);
    }
}

fn dies() {
    let path = file("dead-terminal");
    let script = format!(
        "trap 'echo hup >{}; exit' HUP; echo ready; while :; do sleep 0.1; done",
        path.display()
    );
    let running = daemon(&["--most", "1"], &["sh", "-c", &script]);
    let mut user = client(&[]);
    user.shows("ready", TIMEOUT);
    user.vanishes();
    assert!(user.ends(TIMEOUT).is_some(), "the client goes on");
    assert!(until(TIMEOUT, || path.exists()), "no SIGHUP");
    let again = || connected().read(&mut [0; 16]).is_ok_and(|len| len > 0);
    assert!(until(TIMEOUT, again), "the session did not end");
    assert_eq!(running.end_by(Signal::INT).0, 0);
}

fn left() {
    let script = "echo last words; exec sleep 2 <&- >&- 2>&-";
    let running = daemon(&["--most", "1"], &["sh", "-c", script]);
    let (code, text) = piped(b"", &[]);
    assert_eq!((code, text.as_str()), (0, "last words\r\n"));
    // The program counts as a session until it ends.
    let again = || connected().read(&mut [0; 16]).is_ok_and(|len| len > 0);
    assert!(until(TIMEOUT, again), "no session is free");
    let (_, text, _) = running.end_by(Signal::INT);
    assert!(text.contains("sessions"), "{text}");
}

fn logged() {
    let _daemon = daemon(&[], &["cat"]);
    let path = file("log");
    let (code, text) = piped(b"not in it\n", &["--log", path.to_str().expect("a name")]);
    assert_eq!(code, 0, "{text}");
    let log = std::fs::read_to_string(&path).expect("it is there");
    for part in [
        " received DO LINEMODE [ff fd 22]\n",
        " sent WILL LINEMODE [ff fb 22]\n",
        " received SB LINEMODE MODE EDIT|TRAPSIG [ff fa 22 01 03 ff f0]\n",
        " sent SB TTYPE IS xterm [",
        " sent data, 11 bytes\n",
        " sent EOF [ff ec]\n",
    ] {
        assert!(log.contains(part), "{part:?} is not in {log}");
    }
    assert!(!log.contains("not in it"));
    let (code, text) = piped(b"", &["--log", "/no/such/folder/log"]);
    assert_eq!((code, text.as_str()), (1, ""));
}

fn refused() {
    assert!(testbed::ip("link set lo up"));
    let output = wirespeed().args(["telnet", "127.0.0.1", "2323"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("does a server listen there?") && said.contains("refused"), "{said}");
}

fn whole() {
    let _daemon = daemon(&[], &["seq", "200000"]);
    let (code, text) = piped(b"", &[]);
    assert_eq!(code, 0);
    let expected: String = (1..=200_000).map(|n| format!("{n}\r\n")).collect();
    assert!(text == expected, "{} bytes instead of {}", text.len(), expected.len());
}
