//! The calls that a process can and cannot make after it gave up its privileges. The test starts
//! itself again, because a filter cannot be taken off.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use profile::Recent;
use wirespeed_jail::privileges::{self, Calls};

const AGAIN: &str = "WIRESPEED_ROUTER_PRIVILEGES";

#[test]
fn what_a_locked_process_cannot_do() {
    again("what_a_locked_process_cannot_do", locked);
}

#[test]
fn a_gateway_can_make_sockets_for_ip_alone() {
    again("a_gateway_can_make_sockets_for_ip_alone", gateway);
}

/// Start the test again, for `what` to be done in a process of its own.
fn again(test: &str, what: fn()) {
    if std::env::var_os(AGAIN).is_some() {
        return what();
    }
    let myself = std::env::current_exe().expect("a file");
    let mut command = Command::new(myself);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
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
    privileges::lock_down(Calls::Stack).expect("this kernel has seccomp");
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

fn gateway() {
    use rustix::net::{AddressFamily as Family, Protocol, SocketType as Type, ipproto, socket};
    privileges::drop_capabilities().expect("that needs no privilege");
    privileges::lock_down(Calls::Gateway).expect("this kernel has seccomp");
    let refused = |what: &str, error: Option<std::io::Error>| {
        let kind = error.map(|why| why.kind());
        assert_eq!(kind, Some(ErrorKind::PermissionDenied), "{what}");
    };
    refused("open", std::fs::File::open("/etc/hostname").err());
    refused("program", Command::new("/bin/true").status().err());
    refused("thread", std::thread::Builder::new().spawn(|| ()).err());
    let mptcp = Protocol::from_raw(262.try_into().expect("not 0"));
    for (family, kind, protocol) in [
        (Family::UNIX, Type::STREAM, None),
        (Family::NETLINK, Type::RAW, None),
        (Family::PACKET, Type::DGRAM, None),
        (Family::INET, Type::RAW, Some(ipproto::ICMP)),
        (Family::INET, Type::STREAM, Some(mptcp)),
        (Family::INET6, Type::DGRAM, Some(ipproto::UDPLITE)),
    ] {
        let made = socket(family, kind, protocol).err().map(Into::into);
        refused(&format!("{family:?} {kind:?} {protocol:?}"), made);
    }
    // What it is for.
    let server = UdpSocket::bind("127.0.0.1:0").expect("a gateway makes sockets");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a gateway makes sockets");
    let to = server.local_addr().expect("its address");
    client.send_to(b"one", to).expect("a datagram to any address");
    client.connect(to).expect("a connected socket");
    let mut bytes = [0; 8];
    assert_eq!(server.recv(&mut bytes).expect("it came"), 3);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stream = TcpStream::connect(listener.local_addr().expect("one")).expect("it listens");
    stream.set_nodelay(true).expect("an option of TCP");
    // With ping_group_range it is made; the filter lets the question through in any case.
    let ping = socket(Family::INET, Type::DGRAM, Some(ipproto::ICMP));
    assert_ne!(ping.err(), Some(rustix::io::Errno::PERM));
    println!("all refused");
    std::process::exit(0);
}
