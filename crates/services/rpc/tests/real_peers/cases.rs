//! The test cases.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration as Time;

use base::{Instant, KeyedHash};
use testbed::{Case, Need, Running, ip, until};
use wirespeed_rpc::blocking::{Caller, Tcp, Udp, serve};
use wirespeed_rpc::client::{CallError, Config};
use wirespeed_rpc::portmap::{
    Mapping, MappingList, PORT, PROGRAM, PortMapper, Rpcb, RpcbList, TCP, UDP, procedure,
};
use wirespeed_rpc::server::Server;

const RPCBIND: Need = Need::Program("rpcbind", "rpcbind");
const RPCINFO: Need = Need::Program("rpcinfo", "rpcbind");

pub(crate) const CASES: &[Case] = &[
    ("debians_rpcbind_is_asked_over_tcp_and_udp", &[RPCBIND], their_rpcbind),
    ("a_program_is_set_at_debians_rpcbind_and_removed", &[RPCBIND], set_at_theirs),
    ("debians_rpcinfo_asks_our_port_mapper", &[RPCINFO], their_rpcinfo),
];

const TIMEOUT: Time = Time::from_secs(10);

fn clock() -> Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    Instant::from_nanos(START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64 + 1)
}

fn mapper() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], PORT))
}

fn tcp(version: u32) -> impl Caller {
    let connect = || {
        let stream = TcpStream::connect(mapper())?;
        stream.set_read_timeout(Some(Time::from_millis(100)))?;
        io::Result::Ok(stream)
    };
    Tcp::connect(Config::new(PROGRAM, version), 1, clock, connect).expect("it listens")
}

fn udp(version: u32) -> impl Caller {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(mapper()).expect("it is there");
    Udp::new(Config::new(PROGRAM, version), KeyedHash::new(7, 8), clock, socket)
}

/// Starts Debian's rpcbind and waits until it listens. `-i` lets it accept mappings from loopback.
fn rpcbind() -> Running {
    assert!(ip("link set lo up"));
    let child = Command::new("rpcbind").args(["-f", "-i"]).stderr(Stdio::null()).spawn();
    let running = Running(child.expect("it starts"));
    assert!(until(TIMEOUT, || TcpStream::connect(mapper()).is_ok()), "it does not listen");
    running
}

fn get(client: &mut impl Caller, mapping: &Mapping) -> u32 {
    client.call(procedure::GET, mapping).expect("a port")
}

fn their_rpcbind() {
    let _running = rpcbind();
    let itself = Mapping { program: PROGRAM, version: 2, protocol: TCP, port: 0 };
    let none = Mapping { program: 400_002, ..itself };
    for n in 0..2 {
        let port = if n == 0 { get(&mut tcp(2), &itself) } else { get(&mut udp(2), &itself) };
        assert_eq!(port, u32::from(PORT));
        let port = if n == 0 { get(&mut tcp(2), &none) } else { get(&mut udp(2), &none) };
        assert_eq!(port, 0);
    }
    let list: MappingList = tcp(2).call(procedure::DUMP, &()).expect("a list");
    assert!(list.0.contains(&Mapping { port: 111, ..itself }), "{list:?}");
    for version in [3, 4] {
        let list: RpcbList = tcp(version).call(procedure::DUMP, &()).expect("a list");
        assert!(list.0.iter().any(|m| m.netid == "udp6"), "{list:?}");
    }
    assert!(matches!(tcp(9).call::<_, ()>(0, &()), Err(CallError::ProgramMismatch(2, 4))));
    assert!(matches!(udp(2).call::<_, ()>(77, &()), Err(CallError::ProcedureUnavailable)));
}

fn set_at_theirs() {
    let _running = rpcbind();
    let mapping = Mapping { program: 400_003, version: 1, protocol: UDP, port: 2_049 };
    assert!(udp(2).call::<_, bool>(procedure::SET, &mapping).expect("a reply"));
    assert_eq!(get(&mut udp(2), &mapping), 2_049);
    let netid = "udp".to_owned();
    let rpcb = Rpcb { program: 400_003, version: 1, netid, ..Rpcb::default() };
    let address: String = udp(4).call(procedure::GET, &rpcb).expect("an address");
    assert!(address.ends_with(".8.1"), "{address}");
    assert!(udp(2).call::<_, bool>(procedure::UNSET, &mapping).expect("a reply"));
    assert_eq!(get(&mut udp(2), &mapping), 0);
}

/// Runs our port mapper at port 111 of the namespace, until the process ends.
fn ours() {
    assert!(ip("link set lo up"));
    let mut server = Server::new(KeyedHash::new(1, 2));
    server.add(PortMapper::new(&["udp", "tcp"], || 1_000_000_000));
    let server = Arc::new(Mutex::new(server));
    let socket = UdpSocket::bind(("0.0.0.0", PORT)).expect("the port");
    let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("the port");
    let shared = Arc::clone(&server);
    thread::spawn(move || {
        let mut room = [0; 9_000];
        loop {
            let (bytes, from) = socket.recv_from(&mut room).expect("a datagram");
            let mut reply = Vec::new();
            let mut server = shared.lock().expect("nobody panics");
            if server.answer_datagram(&room[..bytes], from, clock(), &mut reply) {
                socket.send_to(&reply, from).expect("it leaves");
            }
        }
    });
    thread::spawn(move || {
        loop {
            let (mut stream, from) = listener.accept().expect("a connection");
            let mut server = server.lock().expect("nobody panics");
            let _ = serve(&mut server, &mut stream, from, 65_536, clock);
        }
    });
}

fn rpcinfo(words: &str) -> String {
    let output = Command::new("rpcinfo").args(words.split(' ')).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rpcinfo {words}: {text}{error}");
    text
}

fn their_rpcinfo() {
    ours();
    let mapping = Mapping { program: 400_004, version: 5, protocol: TCP, port: 2_050 };
    assert!(udp(2).call::<_, bool>(procedure::SET, &mapping).expect("a reply"));
    let text = rpcinfo("-p 127.0.0.1");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(text.lines().any(|l| words(l).starts_with(&words("400004 5 tcp 2050"))), "{text}");
    assert!(text.contains("portmapper"), "{text}");
    let text = rpcinfo("-s 127.0.0.1");
    assert!(text.contains("2,3,4") || text.contains("4,3,2"), "{text}");
    let text = rpcinfo("127.0.0.1");
    assert!(text.contains("0.0.0.0.8.2"), "{text}");
    for version in [2, 3, 4] {
        for transport in ["-u", "-t"] {
            let text = rpcinfo(&format!("{transport} 127.0.0.1 {PROGRAM} {version}"));
            assert!(text.contains("ready and waiting"), "{text}");
        }
    }
    let text = rpcinfo("-T udp 127.0.0.1 100000 2");
    assert!(text.contains("ready and waiting"), "{text}");
}
