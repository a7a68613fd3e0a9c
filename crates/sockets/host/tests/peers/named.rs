//! Names by dig through our forwarder, with dnsmasq behind it. RFC 1035, RFC 6891, RFC 7766, RFC
//! 8914.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use base::{Instant, KeyedHash};
use testbed::{Case, Need, Running};
use wirespeed_host::dns::{
    Asked, Forwarder, ForwarderAction, ForwarderConfig, Framing, Hosts, Policy, QueryId, Send,
    Transport, Verdict, framed, limits,
};

use crate::link::{Link, SOON, Serving};

const DIG: Need = Need::Program("dig", "bind9-dnsutils");

pub(crate) const CASES: &[Case] =
    &[("dig_finds_names_of_dnsmasq_through_the_forwarder", &[DIG, Need::DNSMASQ], dig)];

/// More addresses than fit into 1,232 bytes.
const MANY: usize = 200;

/// The guest that asked: by datagram from an address, or over a connection by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guest {
    Udp(SocketAddr),
    Tcp(usize),
}

/// Names below `secret.test` are refused.
struct Fence;

impl Policy for Fence {
    fn question(&mut self, asked: &Asked<'_>) -> Verdict {
        let name = asked.name.to_string();
        if name.ends_with("secret.test") { Verdict::Refuse } else { Verdict::Pass }
    }
}

/// The forwarder with sockets of the kernel.
struct Served {
    forwarder: Forwarder<Guest>,
    udp: UdpSocket,
    tcp: TcpListener,
    guests: HashMap<usize, (TcpStream, Framing)>,
    next: usize,
    datagrams: HashMap<QueryId, UdpSocket>,
    connections: HashMap<QueryId, TcpStream>,
}

impl Served {
    fn new() -> Served {
        let mut hosts = Hosts::default();
        hosts.add("box.test", "10.0.2.2".parse().expect("an address")).expect("a name");
        // The first server is silent.
        let servers = ["127.0.0.9:53", "127.0.0.1:53"];
        let servers = servers.map(|server| server.parse().expect("an address"));
        let config = ForwarderConfig::new(servers.to_vec());
        let udp = UdpSocket::bind("10.0.2.3:53").expect("a free port");
        let tcp = TcpListener::bind("10.0.2.3:53").expect("a free port");
        udp.set_nonblocking(true).expect("a socket");
        tcp.set_nonblocking(true).expect("a socket");
        Served {
            forwarder: Forwarder::new(config, hosts, KeyedHash::new(1, 2)),
            udp,
            tcp,
            guests: HashMap::new(),
            next: 0,
            datagrams: HashMap::new(),
            connections: HashMap::new(),
        }
    }

    fn turn(&mut self, now: Instant) -> bool {
        let mut bytes = vec![0; 65_536];
        let mut is_busy = false;
        while let Ok((length, from)) = self.udp.recv_from(&mut bytes) {
            let (guest, by) = (Guest::Udp(from), Transport::Udp);
            self.forwarder.question(now, guest, by, &bytes[..length], &mut Fence);
            is_busy = true;
        }
        while let Ok((stream, _)) = self.tcp.accept() {
            stream.set_nonblocking(true).expect("a socket");
            let framing = Framing::new(limits::QUESTION_BYTES_MAX);
            self.guests.insert(self.next, (stream, framing));
            self.next += 1;
        }
        for (&number, (stream, framing)) in &mut self.guests {
            let Ok(length) = stream.read(&mut bytes) else { continue };
            let mut rest = &bytes[..length];
            while let Some(message) = framing.next(&mut rest).expect("short ones") {
                let guest = Guest::Tcp(number);
                self.forwarder.question(now, guest, Transport::Tcp, &message, &mut Fence);
            }
        }
        for (&id, socket) in &self.datagrams {
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                self.forwarder.on_datagram(now, id, from, &bytes[..length], &mut Fence);
            }
        }
        for (&id, stream) in &mut self.connections {
            if let Ok(length @ 1..) = stream.read(&mut bytes) {
                self.forwarder.on_bytes(now, id, &bytes[..length], &mut Fence);
            }
        }
        while let Some(action) = self.forwarder.poll(now) {
            self.act(now, action);
            is_busy = true;
        }
        is_busy
    }

    fn act(&mut self, now: Instant, action: ForwarderAction<Guest>) {
        match action {
            ForwarderAction::Send(id, Send::Udp(to, message)) => {
                let socket = self.datagrams.entry(id).or_insert_with(|| {
                    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
                    socket.set_nonblocking(true).expect("a socket");
                    socket
                });
                // The error of a closed port may be that of the server before.
                let _ = socket.send_to(&message, to);
            }
            ForwarderAction::Send(id, Send::Tcp(to, bytes)) => match TcpStream::connect(to) {
                Ok(mut stream) => {
                    stream.write_all(&bytes).expect("room");
                    stream.set_nonblocking(true).expect("a socket");
                    self.connections.insert(id, stream);
                }
                Err(_) => self.forwarder.on_failure(now, id),
            },
            ForwarderAction::Close(id) => {
                self.datagrams.remove(&id);
                self.connections.remove(&id);
            }
            ForwarderAction::Answer(Guest::Udp(to), _, message) => {
                self.udp.send_to(&message, to).expect("sent");
            }
            ForwarderAction::Answer(Guest::Tcp(number), _, message) => {
                let (stream, _) = self.guests.get_mut(&number).expect("open");
                stream.write_all(&framed(&message)).expect("room");
            }
        }
    }
}

fn dnsmasq() -> Running {
    let mut command = Command::new("dnsmasq");
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    command.args(["--pid-file=", "--user=root", "--bind-interfaces", "--local=/test/"]);
    command.args(["--listen-address=127.0.0.1", "--host-record=www.test,10.9.0.1,fd09::1"]);
    command.args(["--cname=alias.test,www.test", "--cname=two.test,alias.test"]);
    for last in 1..=MANY {
        command.arg(format!("--host-record=many.test,10.66.0.{last}"));
    }
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Running(child.expect("dnsmasq starts"))
}

fn dig() {
    let link = Link::new("dig");
    let _dnsmasq = dnsmasq();
    assert!(testbed::until(SOON, || TcpStream::connect("127.0.0.1:53").is_ok()));
    assert!(link.guest.ip("addr add 10.0.2.100/24 dev eth0"));
    let mut served = Served::new();
    let _serving = Serving::start(move |now| served.turn(now));
    let dig = |question: &str| link.run(&format!("dig @10.0.2.3 +tries=1 +time=8 {question}"));
    let short = |question: &str| {
        let printed = dig(&format!("+short {question}"));
        printed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(short("WWW.test A"), ["10.9.0.1"]);
    assert_eq!(short("www.test AAAA"), ["fd09::1"]);
    assert_eq!(short("two.test A"), ["alias.test.", "www.test.", "10.9.0.1"]);
    assert_eq!(short("+tcp www.test A"), ["10.9.0.1"]);
    assert_eq!(short("+noedns www.test A"), ["10.9.0.1"]);
    assert_eq!(short("-x 10.9.0.1"), ["www.test."]);
    // The hosts table.
    assert_eq!(short("box.test A"), ["10.0.2.2"]);
    assert_eq!(short("-x 10.0.2.2"), ["box.test."]);
    assert!(short("box.test AAAA").is_empty());
    // An answer that takes TCP: dig asks again, as the TC bit says.
    let many = dig("many.test A");
    assert!(many.contains("Truncated, retrying in TCP mode"), "{many}");
    assert!(many.contains(&format!("ANSWER: {MANY}")), "{many}");
    let cut = dig("+ignore many.test A");
    assert!(cut.contains("flags: qr aa tc rd"), "{cut}");
    let missing = dig("no.test A");
    assert!(missing.contains("status: NXDOMAIN"), "{missing}");
    let refused = dig("a.secret.test A");
    assert!(refused.contains("status: REFUSED") && refused.contains("EDE: 15"), "{refused}");
}
