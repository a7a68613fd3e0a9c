//! The calls that a process can and cannot make after it gave up its privileges. The test starts
//! itself again, because a filter cannot be taken off.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use profile::Recent;
use wirespeed_router::privileges;

const AGAIN: &str = "WIRESPEED_ROUTER_PRIVILEGES";

#[test]
fn what_a_locked_process_cannot_do() {
    if std::env::var_os(AGAIN).is_some() {
        return locked();
    }
    let myself = std::env::current_exe().expect("a file");
    let mut command = Command::new(myself);
    command.args(["what_a_locked_process_cannot_do", "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(AGAIN, "1").stdin(Stdio::null()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("all refused"), "{text}{errors}");
}

fn locked() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("its address");
    let mut client = TcpStream::connect(to).expect("it listens");
    let worker = std::thread::spawn({
        let listener = listener.try_clone().expect("a copy");
        move || {
            // Wait until the main thread has locked all threads.
            let (mut stream, _) = listener.accept().expect("a client");
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a byte");
            std::fs::File::open("/etc/hostname").map(drop).map_err(|why| why.kind())
        }
    });
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    privileges::drop_capabilities().expect("that needs no privilege");
    // There are no samples if they are not permitted, or if this program has no line tables.
    let prepared = Recent::prepare(&[]);
    privileges::lock_down().expect("this kernel has seccomp");
    let refused = |what: &str, result: Result<(), std::io::Error>| {
        let kind = result.map_err(|why| why.kind());
        assert_eq!(kind, Err(ErrorKind::PermissionDenied), "{what}");
    };
    refused("open", std::fs::File::open("/etc/hostname").map(drop));
    refused("create", std::fs::write("/tmp/wirespeed-privileges", "x"));
    refused("program", Command::new("/bin/true").status().map(drop));
    refused("thread", std::thread::Builder::new().spawn(|| ()).map(drop));
    refused("socket", UdpSocket::bind("127.0.0.1:0").map(drop));
    refused("connect", udp.connect("127.0.0.1:9"));
    let unix = std::os::unix::net::UnixStream::connect("/run/x").map(drop);
    refused("Unix socket", unix);
    // Other threads work, too.
    client.write_all(b"x").expect("an open socket is used");
    assert_eq!(worker.join().expect("no panic"), Err(ErrorKind::PermissionDenied));
    // The calls that a stack needs still work: memory, time, sleep, descriptors.
    let much = vec![1_u8; 64 << 20];
    std::thread::sleep(std::time::Duration::from_millis(2));
    let copy = client.try_clone().expect("a copy of a descriptor");
    drop((much, copy));
    // So do samples of its own threads that were opened before.
    if let Ok(mut recent) = prepared {
        recent.resume().expect("it is allowed to");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while recent.seen().samples == 0 && std::time::Instant::now() < until {
            recent.turn().expect("it opens nothing");
        }
        assert!(recent.seen().samples > 0, "it runs all the time");
        recent.pause().expect("it is allowed to");
        println!("and sampled");
    }
    println!("all refused");
    std::process::exit(0);
}
