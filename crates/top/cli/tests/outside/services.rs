//! `wirespeed services` and the kernel of a namespace: the replies, and that the program sleeps
//! while there are no requests.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Running, until};

use crate::host::{KERNEL, OURS, TAP, addr, set_up_tap};

pub(crate) const CASES: &[Case] = &[
    ("services_answer_over_tcp_and_udp", &[], answers),
    ("services_answer_no_service_over_udp", &[], no_loop),
    ("services_sleep_while_nobody_asks", &[], sleeps),
];

const TIMEOUT: Duration = Duration::from_secs(10);

/// The program, once it answers.
fn started() -> Running {
    set_up_tap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    command.args(["services", "--dev", &format!("tap:{TAP}")]);
    command.args(["--addr", &format!("{}/24", OURS[0]), "--addr", &format!("{}/64", OURS[1])]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let running = Running(child.expect("the program starts"));
    assert!(until(TIMEOUT, || connected(OURS[0], 9).is_some()), "it does not answer");
    running
}

fn connected(host: &str, port: u16) -> Option<TcpStream> {
    let to = SocketAddr::new(addr(host), port);
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
    Some(stream)
}

/// The reply to a datagram from port `from`, 0 for any, within the time.
fn asked(from: u16, port: u16, to: &str, payload: &[u8], within: Duration) -> Option<Vec<u8>> {
    let to = SocketAddr::new(addr(to), port);
    let own: IpAddr = addr(KERNEL[usize::from(to.is_ipv6())]);
    let socket = UdpSocket::bind(SocketAddr::new(own, from)).expect("the port is free");
    socket.set_read_timeout(Some(within)).expect("a time");
    socket.send_to(payload, to).expect("it is sent");
    let mut room = [0; 2048];
    let (count, who) = socket.recv_from(&mut room).ok()?;
    assert_eq!(who, to);
    Some(room[..count].to_vec())
}

fn answers() {
    let running = started();
    for host in OURS {
        let mut text = String::new();
        let mut daytime = connected(host, 13).expect("daytime listens");
        daytime.read_to_string(&mut text).expect("it says the time and closes");
        assert!(text.ends_with("-UTC\r\n"), "{text:?}");
        let mut echo = connected(host, 7).expect("echo listens");
        echo.write_all(b"over TCP").expect("it takes it");
        let mut back = [0; 8];
        echo.read_exact(&mut back).expect("it comes back");
        assert_eq!(&back, b"over TCP");
        let echoed = asked(0, 7, host, b"over UDP", TIMEOUT);
        assert_eq!(echoed.as_deref(), Some(&b"over UDP"[..]), "{host}");
        let time = asked(0, 13, host, b"", TIMEOUT).expect("daytime answers");
        assert!(time.ends_with(b"-UTC\r\n"), "{time:?}");
        let characters = asked(0, 19, host, &[0; 600], TIMEOUT).expect("chargen answers");
        assert_eq!(characters.len(), 512);
    }
    let (code, text, errors) = running.end_by(Signal::INT);
    assert_eq!(code, 0, "{text}{errors}");
    assert!(text.contains("6 datagrams, 6 answered"), "{text}");
}

fn no_loop() {
    let running = started();
    for port in [7, 13, 19] {
        let soon = Duration::from_millis(300);
        assert_eq!(asked(7, port, OURS[0], b"loop", soon), None, "port {port} answers a service");
    }
    assert!(asked(0, 7, OURS[0], b"it is there", TIMEOUT).is_some());
    let (_, text, _) = running.end_by(Signal::INT);
    assert!(text.contains("4 datagrams, 1 answered, 3 from ports of services"), "{text}");
}

fn sleeps() {
    let running = started();
    assert!(asked(0, 7, OURS[0], b"it is there", TIMEOUT).is_some());
    // Let earlier work end.
    sleep(Duration::from_secs(1));
    let before = sleeps_ended(&running);
    sleep(Duration::from_secs(3));
    // The kernel may send something by itself; a periodic timer would wake it sixty times.
    let woken = sleeps_ended(&running) - before;
    assert!(woken <= 12, "{woken} times");
    assert!(asked(0, 7, OURS[0], b"it is there", TIMEOUT).is_some());
}

/// Number of voluntary context switches of the program's threads.
fn sleeps_ended(running: &Running) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", running.0.id())).expect("it runs");
    let of = |path: std::path::PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).expect("a thread's figures");
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).expect("a count")
    };
    threads.flatten().map(|thread| of(thread.path())).sum()
}
