//! TCP and UDP between the kernel's sockets and ours over a TAP, both ways, IPv4 and IPv6;
//! neighbours are discovered, and closed ports are reported.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use testbed::Case;
use wirespeed::tcp::{Config, Error};
use wirespeed::{CallError, ListenConfig, Owner, Unreachable};

use crate::host::{Host, KERNEL, OURS, addr};

pub(crate) const CASES: &[Case] = &[
    ("the_kernel_connects_to_us", &[], the_kernel_connects),
    ("we_connect_to_the_kernel", &[], we_connect),
    ("nobody_on_the_kernels_tcp_port_is_refused", &[], refused),
    ("the_kernels_udp_to_a_closed_port_of_ours_is_refused", &[], our_closed_port),
    ("our_udp_to_a_closed_port_of_the_kernel_is_told", &[], the_kernels_closed_port),
];

fn the_kernel_connects() {
    let mut host = Host::new();
    for ours in OURS {
        let local = SocketAddr::new(addr(ours), 80);
        let listener = host.stack.tcp_listen(local, ListenConfig::default()).expect("free");
        let client = std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                let limit = Duration::from_secs(15);
                let mut stream = TcpStream::connect_timeout(&local, limit).expect("connected");
                stream.write_all(b"from the kernel").expect("sent");
            });
            let mut got = Vec::new();
            let mut connection = None;
            host.until("the kernel's bytes", |host| {
                connection = connection.or_else(|| host.stack.tcp_accept(listener));
                let mut room = [0; 64];
                let Some(connection) = connection else { return false };
                if let Ok(n) = host.stack.tcp_read(connection, &mut room) {
                    got.extend_from_slice(&room[..n]);
                }
                got.len() == 15
            });
            assert_eq!(got, b"from the kernel");
            inside.join()
        });
        assert!(client.is_ok(), "{ours}");
    }
}

fn we_connect() {
    let mut host = Host::new();
    for kernel in KERNEL {
        let listener = TcpListener::bind((addr(kernel), 0)).expect("an address of the kernel's");
        let remote = listener.local_addr().expect("bound");
        let (owner, now) = (Owner::program(), host.now());
        let connection = host
            .stack
            .tcp_connect(remote, None, &Config::default(), owner, now)
            .expect("on our network");
        let mut sent = false;
        listener.set_nonblocking(true).expect("a socket");
        let mut accepted = None;
        host.until("the connection", |host| {
            sent = sent || host.stack.tcp_write(connection, b"from us").is_ok();
            accepted = accepted.take().or_else(|| listener.accept().ok());
            sent && accepted.is_some()
        });
        host.stack.tcp_shutdown_write(connection);
        let (mut stream, _) = accepted.expect("accepted");
        stream.set_nonblocking(true).expect("a socket");
        let mut got = Vec::new();
        host.until("our bytes", |_| {
            let mut room = [0; 64];
            if let Ok(n) = stream.read(&mut room) {
                got.extend_from_slice(&room[..n]);
            }
            got == b"from us"
        });
    }
}

fn refused() {
    let mut host = Host::new();
    for kernel in KERNEL {
        let (owner, now) = (Owner::program(), host.now());
        let remote = SocketAddr::new(addr(kernel), 81);
        let connection = host
            .stack
            .tcp_connect(remote, None, &Config::default(), owner, now)
            .expect("on our network");
        host.until("the refusal", |host| {
            let refused = Err(CallError::Failed(Error::Refused));
            host.stack.tcp_write(connection, b"x") == refused
        });
    }
}

fn our_closed_port() {
    let mut host = Host::new();
    for (ours, kernel) in OURS.into_iter().zip(KERNEL) {
        let socket = UdpSocket::bind((addr(kernel), 0)).expect("an address of the kernel's");
        socket.connect((addr(ours), 9)).expect("on its network");
        socket.set_nonblocking(true).expect("a socket");
        socket.send(b"hello").expect("sent");
        host.until("ECONNREFUSED", |_| {
            let mut room = [0; 8];
            let error = socket.recv(&mut room).expect_err("nobody sends").kind();
            error == ErrorKind::ConnectionRefused
        });
    }
}

fn the_kernels_closed_port() {
    let mut host = Host::new();
    for (ours, kernel) in OURS.into_iter().zip(KERNEL) {
        let local = SocketAddr::new(addr(ours), 9);
        let socket = host.stack.udp_bind(local, Owner::program()).expect("free");
        let (remote, now) = (SocketAddr::new(addr(kernel), 9), host.now());
        host.stack.udp_send(socket, remote, b"hello", now).expect("sent or held");
        let mut told = None;
        host.until("the kernel's error", |host| {
            told = host.stack.udp_take_error(socket);
            told.is_some()
        });
        assert_eq!(told, Some((remote, Unreachable::Port)));
    }
}
