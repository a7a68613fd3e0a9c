//! A daemon with a program, and a client on a terminal.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testbed::{Running, ip, until};

use crate::terminal::Terminal;

/// Long enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const PORT: u16 = 2323;

pub(crate) fn wirespeed() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    command.env("TERM", "xterm").env("WIRESPEED_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// A daemon on loopback that gives this program.
pub(crate) fn daemon(options: &[&str], program: &[&str]) -> Running {
    daemon_by(wirespeed(), options, program)
}

/// The same of a command that has its environment already.
pub(crate) fn daemon_by(mut command: Command, options: &[&str], program: &[&str]) -> Running {
    assert!(ip("link set lo up"));
    command.arg("telnetd").args(options).arg("--").args(program);
    let running = started(&mut command);
    let sockets = || std::fs::read_to_string("/proc/thread-self/net/tcp").expect("it is there");
    let listens = || sockets().contains(":0913 ");
    assert!(until(TIMEOUT, listens), "it does not listen");
    running
}

pub(crate) fn started(command: &mut Command) -> Running {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    Running(child.expect("the program starts"))
}

/// The client, on a terminal of its own.
pub(crate) fn client(options: &[&str]) -> Terminal {
    let mut command = wirespeed();
    command.args(["telnet", "127.0.0.1", "2323"]).args(options);
    Terminal::new(&command)
}

pub(crate) fn connected() -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", PORT)).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
    stream
}

/// A file of a case, which is not there yet.
pub(crate) fn file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// Wait until client and server have agreed that the client edits lines.
pub(crate) fn edits_lines(user: &mut Terminal) {
    let begun = Instant::now();
    while !user.shows_within("(LINEMODE)", Duration::from_millis(200)) {
        assert!(begun.elapsed() < TIMEOUT, "no LINEMODE: {:?}", user.shown());
        user.types(b"\x1dstatus\r");
    }
}
