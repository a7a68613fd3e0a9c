//! Both tools over our stack on a TAP, with the kernel's sockets at the other end.

use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;
use testbed::{Case, ip, until};

use crate::fixture::{TIMEOUT, daemon, edits_lines, started, wirespeed};
use crate::terminal::Terminal;

pub(crate) const CASES: &[Case] = &[
    ("our_stack_serves_the_kernels_client", &[], served),
    ("our_stack_has_the_client", &[], client_of_ours),
];

const TAP: [&str; 4] = ["--dev", "tap:ws0", "--addr", "192.0.2.2/24"];

fn set_up() {
    assert!(ip("tuntap add dev ws0 mode tap vnet_hdr"));
    assert!(ip("addr add 192.0.2.1/24 dev ws0") && ip("link set dev ws0 up"));
}

fn served() {
    set_up();
    let mut command = wirespeed();
    let running = started(command.arg("telnetd").args(TAP).args(["--", "cat"]));
    let answers = || std::net::TcpStream::connect(("192.0.2.2", 23)).is_ok();
    assert!(until(TIMEOUT, answers), "it does not answer");
    let mut command = wirespeed();
    command.args(["telnet", "192.0.2.2"]);
    let mut user = Terminal::new(&command);
    user.shows("Escape", TIMEOUT);
    edits_lines(&mut user);
    user.types(b"hexx\x7f\x7fllo\r");
    user.shows("llo\r\nhello\r\n", TIMEOUT);
    // A Synch, and output that is dropped.
    user.types(b"half\x03");
    user.shows("closed by foreign host", TIMEOUT);
    assert_eq!(user.ends(TIMEOUT).and_then(|status| status.code()), Some(0));
    let (code, text, errors) = running.end_by(Signal::INT);
    assert_eq!(code, 0, "{text}{errors}");
}

fn client_of_ours() {
    set_up();
    let _daemon = daemon(&["--listen", "0.0.0.0:2323"], &["cat"]);
    let mut command = wirespeed();
    command.args(["telnet", "192.0.2.1", "2323"]).args(TAP);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let lines: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    assert!(text == lines, "{} bytes instead of {}", text.len(), lines.len());
}
