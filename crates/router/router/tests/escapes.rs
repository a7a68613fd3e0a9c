//! The attempts of an attacker who has taken over the worker: each way out of the locked process is
//! tried by its system call, with the sockets that the worker of a router has, and is refused.
//!
//! The test starts itself again, because a filter cannot be taken off. System calls are made by
//! number: libraries refuse some of these arguments themselves. seccomp(2), packet(7), fcntl(2).
#![allow(unsafe_code)]

use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use device::packet::{Config, Fanout, PacketSocket};
use jail::privileges::{self, Calls};
use wirespeed_router::links;

const AGAIN: &str = "WIRESPEED_ROUTER_ESCAPES";
const NAME: &str = "no_system_call_leads_out_of_the_locked_process";

#[test]
fn no_system_call_leads_out_of_the_locked_process() {
    if std::env::var_os(AGAIN).is_some() {
        return locked();
    }
    let mut command = Command::new(std::env::current_exe().expect("a file"));
    command.args([NAME, "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(AGAIN, "1").stdin(Stdio::null()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("all refused"), "{text}{errors}");
}

/// The descriptors of the process when it is taken over.
struct Held {
    /// A listener like that of `/metrics`.
    listener: TcpListener,
    /// A service on loopback; the process did not get its socket.
    service: TcpListener,
    /// A connection to the first process, or to a client of the control socket.
    unix: UnixStream,
    /// The packet socket of a port `packet:lo`, if the test may open one.
    packet: Option<OwnedFd>,
    bell: OwnedFd,
    victim: Child,
}

/// A system call: what it attempts, its number and its arguments.
struct Call(&'static str, i64, [i64; 6]);

impl Call {
    fn is_refused(&self) {
        let Call(what, number, [a, b, c, d, e, f]) = *self;
        // SAFETY: every pointer among the arguments is null or of a local that outlives the call;
        // a call that is let through does what the kernel documents, and fails the test.
        let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        let why = std::io::Error::last_os_error();
        assert_eq!((result, why.raw_os_error()), (-1, Some(libc::EPERM)), "{what}");
    }
}

fn locked() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let service = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (unix, _theirs) = UnixStream::pair().expect("a pair");
    let packet = PacketSocket::open_for_another(&Config::of("lo"), Fanout::Hash, 1);
    let packet = packet.ok().and_then(|mut sockets| sockets.pop());
    // It ends with our end of its input.
    let mut victim = Command::new("cat");
    victim.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let victim = victim.spawn().expect("it starts");
    let bell = links::bell().expect("a descriptor");
    let mut held = Held { listener, service, unix, packet, bell, victim };
    if rustix::process::geteuid().is_root() {
        let uid = privileges::change_user(None).expect("root may");
        assert!(uid > 60_000 && rustix::process::geteuid().as_raw() == uid, "{uid}");
    }
    let was_root = rustix::process::geteuid().as_raw() > 60_000;
    privileges::drop_capabilities().expect("that needs no privilege");
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("it is there");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        let line = status.lines().find_map(|line| line.strip_prefix(set)).expect("a set");
        // Only root can take from the bounding set.
        assert!(line.trim() == "0000000000000000" || set == "CapBnd:" && !was_root, "{set} {line}");
    }
    privileges::lock_down(Calls::Stack).expect("this kernel has seccomp");
    signals(&held);
    descriptors(&held);
    sockets(&held);
    sends(&held);
    if let Some(packet) = &held.packet {
        packets(packet);
    }
    programs();
    processes(&held);
    files();
    // Calls that the worker needs still work.
    links::ring(std::os::fd::AsFd::as_fd(&held.bell));
    assert!(links::was_rung(std::os::fd::AsFd::as_fd(&held.bell)));
    std::io::Write::write_all(&mut held.unix, b"x").expect("its peer is there");
    if let Some(packet) = held.packet.take() {
        PacketSocket::adopt(packet, &Config::of("lo")).expect("it came complete");
    }
    println!("all refused");
    // The victim is alive, so it got no signal.
    std::process::exit(0);
}

fn signals(held: &Held) {
    let (victim, me) = (i64::from(held.victim.id()), i64::from(std::process::id()));
    for call in [
        Call("kill", libc::SYS_kill, [victim, 9, 0, 0, 0, 0]),
        Call("kill all", libc::SYS_kill, [-1, 9, 0, 0, 0, 0]),
        Call("tgkill", libc::SYS_tgkill, [victim, victim, 9, 0, 0, 0]),
        Call("tkill", libc::SYS_tkill, [victim, 9, 0, 0, 0, 0]),
        Call("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, [victim, 9, 0, 0, 0, 0]),
        Call("pidfd_open", libc::SYS_pidfd_open, [victim, 0, 0, 0, 0, 0]),
        Call("pidfd_send_signal", libc::SYS_pidfd_send_signal, [0, 9, 0, 0, 0, 0]),
        Call("setpriority", libc::SYS_setpriority, [0, victim, 19, 0, 0, 0]),
        Call("prlimit of another", libc::SYS_prlimit64, [victim, 0, 0, 0, 0, 0]),
        Call("timer_create", libc::SYS_timer_create, [0, 0, 0, 0, 0, 0]),
        Call("kill ourselves", libc::SYS_kill, [me, 0, 0, 0, 0, 0]),
    ] {
        call.is_refused();
    }
}

/// O_ASYNC and the like: the kernel would send a signal for us, with the rights of the process that
/// made the descriptor.
fn descriptors(held: &Held) {
    let victim = i64::from(held.victim.id());
    // F_OWNER_PID.
    let owner = [1, held.victim.id() as i32];
    let (owner, on) = ((&raw const owner) as i64, 1_i32);
    let on = (&raw const on) as i64;
    let flags = i64::from(libc::O_ASYNC | libc::O_NONBLOCK);
    let descriptors = [held.unix.as_raw_fd(), held.listener.as_raw_fd(), held.bell.as_raw_fd()];
    for fd in descriptors.map(i64::from) {
        for (what, command, argument) in [
            ("F_SETOWN", libc::F_SETOWN, victim),
            // F_SETOWN_EX, F_SETSIG.
            ("F_SETOWN_EX", 15, owner),
            ("F_SETSIG", 10, 9),
            ("O_ASYNC", libc::F_SETFL, flags),
            ("F_SETLEASE", libc::F_SETLEASE, 0),
            ("F_NOTIFY", libc::F_NOTIFY, 1),
            ("F_SETLK", libc::F_SETLK, 0),
        ] {
            let command = i64::from(command);
            Call(what, libc::SYS_fcntl, [fd, command, argument, 0, 0, 0]).is_refused();
        }
        for (what, request) in [
            ("FIOASYNC", libc::FIOASYNC as i64),
            ("FIOSETOWN", 0x8901),
            ("SIOCSPGRP", 0x8902),
            ("TIOCSTI", libc::TIOCSTI as i64),
            ("SIOCSIFFLAGS", libc::SIOCSIFFLAGS as i64),
            ("SIOCSIFADDR", libc::SIOCSIFADDR as i64),
            ("TUNSETIFF", libc::TUNSETIFF as i64),
            ("TUNSETOWNER", libc::TUNSETOWNER as i64),
        ] {
            Call(what, libc::SYS_ioctl, [fd, request, on, 0, 0, 0]).is_refused();
        }
    }
}

fn sockets(held: &Held) {
    // IPPROTO_MPTCP, NETLINK_ROUTE, NETLINK_SOCK_DIAG.
    for (what, family, kind, protocol) in [
        ("TCP", libc::AF_INET, libc::SOCK_STREAM, 0),
        ("TCP over IPv6", libc::AF_INET6, libc::SOCK_STREAM, 0),
        ("MPTCP", libc::AF_INET, libc::SOCK_STREAM, 262),
        ("UDP", libc::AF_INET, libc::SOCK_DGRAM, 0),
        ("raw", libc::AF_INET, libc::SOCK_RAW, 1),
        ("netlink", libc::AF_NETLINK, libc::SOCK_RAW, 0),
        ("socket diagnosis", libc::AF_NETLINK, libc::SOCK_RAW, 4),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0),
        ("Unix", libc::AF_UNIX, libc::SOCK_DGRAM, 0),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ("kernel's ciphers", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
    ] {
        let arguments = [family, kind, protocol, 0, 0, 0].map(i64::from);
        Call(what, libc::SYS_socket, arguments).is_refused();
    }
    let mut pair = [0_i32; 2];
    let pair = (&raw mut pair) as i64;
    let (unix, datagram) = (i64::from(libc::AF_UNIX), i64::from(libc::SOCK_DGRAM));
    Call("socketpair", libc::SYS_socketpair, [unix, datagram, 0, pair, 0, 0]).is_refused();
    let (address, len) = address(&held.service);
    let to = (&raw const address) as i64;
    let listener = i64::from(held.listener.as_raw_fd());
    Call("connect", libc::SYS_connect, [listener, to, len, 0, 0, 0]).is_refused();
    Call("bind", libc::SYS_bind, [listener, to, len, 0, 0, 0]).is_refused();
    Call("listen", libc::SYS_listen, [listener, 1, 0, 0, 0, 0]).is_refused();
    let on = 1_i32;
    let on = (&raw const on) as i64;
    // TCP_FASTOPEN_CONNECT, TCP_REPAIR, TCP_ULP; SO_BINDTODEVICE, SO_ATTACH_FILTER, SO_MARK.
    let tcp = libc::IPPROTO_TCP;
    let sol = libc::SOL_SOCKET;
    for (level, option) in [(tcp, 30), (tcp, 19), (tcp, 31), (sol, 25), (sol, 26), (sol, 36)] {
        let arguments = [listener, i64::from(level), i64::from(option), on, 4, 0];
        Call("setsockopt", libc::SYS_setsockopt, arguments).is_refused();
    }
}

fn address(of: &TcpListener) -> (libc::sockaddr_in, i64) {
    let port = of.local_addr().expect("its address").port();
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    (address, size_of::<libc::sockaddr_in>() as i64)
}

/// A listener that is shut down is a closed socket, which TCP Fast Open would connect.
fn sends(held: &Held) {
    let (address, len) = address(&held.service);
    let (to, text) = ((&raw const address) as i64, b"GET / HTTP/1.0\r\n\r\n");
    let fd = i64::from(held.listener.as_raw_fd());
    // SAFETY: the descriptor is open, and the call has no pointer.
    unsafe { libc::shutdown(held.listener.as_raw_fd(), libc::SHUT_RDWR) };
    let mut part = libc::iovec { iov_base: text.as_ptr() as *mut _, iov_len: text.len() };
    // SAFETY: all zeros are a msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw const address) as *mut _;
    message.msg_namelen = len as u32;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    let mut messages = libc::mmsghdr { msg_hdr: message, msg_len: 0 };
    let (one, many) = ((&raw mut messages.msg_hdr) as i64, (&raw mut messages) as i64);
    let (bytes, count) = (text.as_ptr() as i64, text.len() as i64);
    let fast = i64::from(libc::MSG_FASTOPEN);
    for call in [
        Call("fast open", libc::SYS_sendto, [fd, bytes, count, fast, to, len]),
        Call("fast open to nobody", libc::SYS_sendto, [fd, bytes, count, fast, 0, 0]),
        Call("sendto an address", libc::SYS_sendto, [fd, bytes, count, 0, to, len]),
        Call("sendmsg", libc::SYS_sendmsg, [fd, one, fast, 0, 0, 0]),
        Call("sendmmsg", libc::SYS_sendmmsg, [fd, many, 1, fast, 0, 0]),
    ] {
        call.is_refused();
    }
    held.service.set_nonblocking(true).expect("FIONBIO is allowed");
    assert!(held.service.accept().is_err(), "nobody reached the service");
}

/// A packet socket sends on the interface that it was given with, and nowhere else.
fn packets(packet: &OwnedFd) {
    let fd = i64::from(packet.as_raw_fd());
    // SAFETY: all zeros are a sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = 2;
    let (to, len) = ((&raw const address) as i64, size_of::<libc::sockaddr_ll>() as i64);
    let frame = [0_u8; 64];
    let (bytes, count) = (frame.as_ptr() as i64, frame.len() as i64);
    Call("rebind", libc::SYS_bind, [fd, to, len, 0, 0, 0]).is_refused();
    Call("elsewhere", libc::SYS_sendto, [fd, bytes, count, 0, to, len]).is_refused();
    let packet = i64::from(libc::SOL_PACKET);
    for option in [libc::PACKET_ADD_MEMBERSHIP, libc::PACKET_TX_RING, libc::PACKET_FANOUT] {
        let arguments = [fd, packet, i64::from(option), bytes, 16, 0];
        Call("option of a packet socket", libc::SYS_setsockopt, arguments).is_refused();
    }
}

fn programs() {
    let (path, name) = (c"/bin/sh".as_ptr() as i64, c"x".as_ptr() as i64);
    let thread = i64::from(libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND);
    let (read_write, code) = (3, 7);
    let shared = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    for call in [
        Call("execve", libc::SYS_execve, [path, 0, 0, 0, 0, 0]),
        Call("execveat of a descriptor", libc::SYS_execveat, [0, name, 0, 0, 0x1000, 0]),
        Call("memfd_create", libc::SYS_memfd_create, [name, 0, 0, 0, 0, 0]),
        Call("clone of a process", libc::SYS_clone, [17, 0, 0, 0, 0, 0]),
        Call("clone of a thread", libc::SYS_clone, [thread, 0, 0, 0, 0, 0]),
        Call("clone3", libc::SYS_clone3, [0, 0, 0, 0, 0, 0]),
        Call("io_uring_setup", libc::SYS_io_uring_setup, [8, 0, 0, 0, 0, 0]),
        Call("bpf", libc::SYS_bpf, [0, 0, 0, 0, 0, 0]),
        Call("perf_event_open", libc::SYS_perf_event_open, [0, 0, -1, -1, 0, 0]),
        Call("userfaultfd", libc::SYS_userfaultfd, [0, 0, 0, 0, 0, 0]),
        Call("code", libc::SYS_mmap, [0, 4096, code, shared, -1, 0]),
        Call("code out of data", libc::SYS_mprotect, [0, 4096, code, 0, 0, 0]),
        Call("personality", libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0, 0]),
        Call("shmat", libc::SYS_shmat, [0, 0, read_write, 0, 0, 0]),
    ] {
        call.is_refused();
    }
}

fn processes(held: &Held) {
    let victim = i64::from(held.victim.id());
    for call in [
        Call("ptrace", libc::SYS_ptrace, [16, victim, 0, 0, 0, 0]),
        Call("process_vm_readv", libc::SYS_process_vm_readv, [victim, 0, 0, 0, 0, 0]),
        Call("process_vm_writev", libc::SYS_process_vm_writev, [victim, 0, 0, 0, 0, 0]),
        Call("pidfd_getfd", libc::SYS_pidfd_getfd, [0, 0, 0, 0, 0, 0]),
        Call("kcmp", libc::SYS_kcmp, [victim, victim, 0, 0, 0, 0]),
        Call("unshare", libc::SYS_unshare, [0x1000_0000, 0, 0, 0, 0, 0]),
        Call("setns", libc::SYS_setns, [0, 0, 0, 0, 0, 0]),
        Call("setresuid", libc::SYS_setresuid, [0, 0, 0, 0, 0, 0]),
        Call("setgroups", libc::SYS_setgroups, [0, 0, 0, 0, 0, 0]),
        Call("capset", libc::SYS_capset, [0, 0, 0, 0, 0, 0]),
        Call("keyctl", libc::SYS_keyctl, [0, 0, 0, 0, 0, 0]),
        Call("seccomp", libc::SYS_seccomp, [0, 0, 0, 0, 0, 0]),
        Call("PR_SET_DUMPABLE", libc::SYS_prctl, [4, 1, 0, 0, 0, 0]),
        Call("PR_SET_PDEATHSIG", libc::SYS_prctl, [1, 9, 0, 0, 0, 0]),
        Call("PR_SET_MM", libc::SYS_prctl, [35, 0, 0, 0, 0, 0]),
        Call("PR_SET_PTRACER", libc::SYS_prctl, [0x5961_6d61, -1, 0, 0, 0, 0]),
    ] {
        call.is_refused();
    }
}

fn files() {
    let (path, other) = (c"/etc/passwd".as_ptr() as i64, c"/tmp/ws-escape".as_ptr() as i64);
    let here = i64::from(libc::AT_FDCWD);
    for call in [
        Call("openat", libc::SYS_openat, [here, path, 0, 0, 0, 0]),
        Call("openat2", libc::SYS_openat2, [here, path, 0, 0, 0, 0]),
        Call("open_by_handle_at", libc::SYS_open_by_handle_at, [here, 0, 0, 0, 0, 0]),
        Call("unlinkat", libc::SYS_unlinkat, [here, other, 0, 0, 0, 0]),
        Call("renameat2", libc::SYS_renameat2, [here, path, here, other, 0, 0]),
        Call("linkat", libc::SYS_linkat, [here, path, here, other, 0, 0]),
        Call("symlinkat", libc::SYS_symlinkat, [path, here, other, 0, 0, 0]),
        Call("mknodat", libc::SYS_mknodat, [here, other, 0o140_600, 0, 0, 0]),
        Call("fchmod", libc::SYS_fchmod, [0, 0o777, 0, 0, 0, 0]),
        Call("fchown", libc::SYS_fchown, [0, 0, 0, 0, 0, 0]),
        Call("ftruncate", libc::SYS_ftruncate, [2, 0, 0, 0, 0, 0]),
        Call("chroot", libc::SYS_chroot, [other, 0, 0, 0, 0, 0]),
        Call("mount", libc::SYS_mount, [0, other, 0, 0, 0, 0]),
        Call("inotify_init1", libc::SYS_inotify_init1, [0, 0, 0, 0, 0, 0]),
        Call("splice", libc::SYS_splice, [0, 0, 1, 0, 1, 0]),
        Call("sendfile", libc::SYS_sendfile, [1, 0, 0, 1, 0, 0]),
    ] {
        call.is_refused();
    }
}
