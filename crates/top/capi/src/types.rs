//! The types and constants of the header.
//!
//! Called by: all files of this crate. Structures that may grow begin with their size, so that
//! programs that were built with an older header go on working (`memory::sized`).

use core::ffi::{c_char, c_int, c_short, c_void};

/// A stack: a host of its own on the network, inside of this process. Never 0 and never negative.
pub type ws_stack = i64;

/// A socket: a connection, a listener, a datagram socket or a forwarder. Never 0 and never
/// negative. A handle is used once: after ws_close() it is stale for ever, and calls with it
/// return -EBADF.
pub type ws_sock = i64;

/// A gateway: the network of virtual machines, in a thread of this process. Never 0 and never
/// negative. A handle is used once: after ws_gateway_stop() it is stale for ever.
pub type ws_gateway = i64;

/// Flag of ws_config: nothing runs outside of this program's calls. The program calls
/// ws_stack_poll(), no call waits, and the stack's clock is the program's.
pub const WS_POLLED: u32 = 1;

/// Frames begin with an Ethernet header.
pub const WS_LINK_ETHERNET: u32 = 0;
/// Frames are bare IP packets.
pub const WS_LINK_IP: u32 = 1;

/// A descriptor of a TAP or TUN, or a datagram or seqpacket socket that carries a bare IP packet in
/// each message (a VPN service's).
pub const WS_FD_PACKETS: c_int = 0;
/// A connected stream socket of a virtual machine: each Ethernet frame behind its length in 32
/// bits, big-endian (QEMU's `-netdev stream`, passt).
pub const WS_FD_VM_STREAM: c_int = 1;
/// A connected datagram socket of a virtual machine: an Ethernet frame in each message (QEMU's
/// `-netdev dgram`, vfkit, libkrun).
pub const WS_FD_VM_DGRAM: c_int = 2;
/// For gateways only: a listening Unix socket of vhost-user; the machine's memory is shared.
pub const WS_FD_VM_VHOST: c_int = 3;
/// For gateways only: a TAP interface, opened with IFF_TAP | IFF_NO_PI | IFF_VNET_HDR.
pub const WS_FD_VM_TAP: c_int = 4;

/// Flag of ws_gateway_config: a switch joins the machines. They are in one network and reach each
/// other. Without it each machine has a network of its own.
pub const WS_SWITCHED: u32 = 1;

/// Level of a log message: something failed, and the message says what to do.
pub const WS_LOG_ERROR: c_int = 3;
/// Level of a log message: something may be wrong.
pub const WS_LOG_WARNING: c_int = 4;
/// Level of a log message: what the stack does.
pub const WS_LOG_INFO: c_int = 6;

/// Data, a connection to accept, the end of the stream, or an error: the next call to receive or
/// accept does not wait. Equal to the system's POLLIN.
pub const WS_IN: c_short = 1;
/// Room to send, the end of a connect, or an error. Equal to the system's POLLOUT.
pub const WS_OUT: c_short = 4;
/// In results only: the handle is stale. Equal to the system's POLLNVAL.
pub const WS_STALE: c_short = 32;

const _: () =
    assert!(WS_IN == libc::POLLIN && WS_OUT == libc::POLLOUT && WS_STALE == libc::POLLNVAL);

/// A limit of a stack, by its name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ws_limit {
    /// The name, for example "mbuf_bytes" (bytes of buffers that the stack may hold, 256 MiB by
    /// default), "connections" or "udp_queue_bytes". The error of an unknown name lists all.
    pub name: *const c_char,
    /// The value: bytes if the name ends in "bytes", else a number.
    pub value: u64,
}

/// A frame that a port received or sent, for ws_trace_callback. It is valid during the call.
#[repr(C)]
pub struct ws_frame {
    /// Time on the stack's clock in nanoseconds.
    pub time_ns: u64,
    /// The frame, with its link header if the port has them.
    pub bytes: *const u8,
    /// Its length in bytes. A super-segment of a TUN or TAP with offloads is one frame.
    pub length: usize,
    /// The port.
    pub port: c_int,
    /// 0: the port received the frame; 1: the port sent it.
    pub is_sent: c_int,
}

/// Called for each message of the log: level is WS_LOG_ERROR, WS_LOG_WARNING or WS_LOG_INFO,
/// message ends with a zero byte and is valid during the call. Any thread may call it, several at
/// once too. It may call nothing of this library (-EDEADLK), and must not throw.
pub type ws_log_callback =
    Option<unsafe extern "C-unwind" fn(user: *mut c_void, level: c_int, message: *const c_char)>;

/// Called for each frame of each port of the stack, in order. One thread at a time calls it for a
/// stack. It may call nothing of this library (-EDEADLK), and must not throw.
pub type ws_trace_callback =
    Option<unsafe extern "C-unwind" fn(user: *mut c_void, frame: *const ws_frame)>;

/// Settings of a stack. Fill it with zeros, set size to sizeof(ws_config), and then the fields that
/// you need: zero stands for the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ws_config {
    /// sizeof(ws_config).
    pub size: usize,
    /// 0 or WS_POLLED.
    pub flags: u32,
    /// How many entries limits has.
    pub limit_count: u32,
    /// Limits that differ from their defaults. The library copies them.
    pub limits: *const ws_limit,
    /// 128 secret bits, with which sequence numbers and ports are drawn. Zeros: the system's random
    /// numbers. In a polled stack equal seeds, calls and frames give equal frames.
    pub seed: [u64; 2],
    /// The log, or NULL.
    pub log: ws_log_callback,
    /// Sees each frame, or NULL.
    pub trace: ws_trace_callback,
    /// Passed to log and trace.
    pub user: *mut c_void,
}

/// Called with a text of a gateway, which ends with a zero byte and is valid during the call. The
/// gateway's thread calls it and waits for it. It may call nothing of this library (-EDEADLK), and
/// must not throw.
pub type ws_text_callback =
    Option<unsafe extern "C-unwind" fn(user: *mut c_void, text: *const c_char)>;

/// The link of a virtual machine.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ws_vm {
    /// The descriptor. The library makes a copy of it.
    pub fd: c_int,
    /// What it is. WS_FD_VM_STREAM: a connected socket serves one machine, a listening one serves
    /// one machine after the other. WS_FD_VM_DGRAM: a socket without a peer waits until the machine
    /// sends. WS_FD_VM_VHOST, WS_FD_VM_TAP.
    pub kind: c_int,
}

/// Settings of a gateway. Fill it with zeros, set size to sizeof(ws_gateway_config), add a machine,
/// and then set the fields that you need: zero stands for the default. The library copies them all.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ws_gateway_config {
    /// sizeof(ws_gateway_config).
    pub size: usize,
    /// How many entries vms has, at least 1.
    pub vm_count: usize,
    /// The links of the machines.
    pub vms: *const ws_vm,
    /// The rules, in the language of docs/gateway.md: what may be reached, published ports, limits,
    /// name servers. NULL and an empty text deny everything.
    pub policy: *const c_char,
    /// The private IPv4 network, or "off"; NULL: "10.0.2.0/24". The gateway is .2 and stands for
    /// the host, the resolver is .3, and the first machine gets .100 by DHCP.
    pub net4: *const c_char,
    /// The IPv6 network, or "off"; NULL: "ula", a random one.
    pub net6: *const c_char,
    /// The name servers behind the resolver, for example "9.9.9.9,2620:fe::fe", or "off"; NULL:
    /// "host", those of the host, also when they change.
    pub dns: *const c_char,
    /// Takes a line of JSON for each flow that ended or was refused, without its end of line; or
    /// NULL.
    pub log: ws_text_callback,
    /// Takes messages for people, or NULL.
    pub say: ws_text_callback,
    /// Passed to log and say.
    pub user: *mut c_void,
    /// 0 or WS_SWITCHED.
    pub flags: u32,
    /// The MTU that machines are told, 576 to 65,520 (1,280 at least with IPv6); 0: 65,520, which
    /// costs least.
    pub mtu: u32,
}

/// A device of the program's own: the other end of a port. One thread at a time calls its
/// functions, though not always the same one; they must not wait, may call nothing of this library
/// except ws_port_wake(), and must not throw.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ws_device {
    /// sizeof(ws_device).
    pub size: usize,
    /// Passed to the functions.
    pub user: *mut c_void,
    /// Copies the next frame for the stack to the front of frame, which has room for the largest
    /// one, and returns its length in bytes; 0: there is none now (call ws_port_wake() when there
    /// is); a negative error number: the device is gone for good.
    pub receive:
        Option<unsafe extern "C-unwind" fn(user: *mut c_void, frame: *mut u8, room: usize) -> i64>,
    /// Takes a frame from the stack and returns 0; -EAGAIN: there is no room now, and the same
    /// frame comes again later (after ws_port_wake()); another negative error number: the frame is
    /// lost.
    pub transmit: Option<
        unsafe extern "C-unwind" fn(user: *mut c_void, frame: *const u8, length: usize) -> c_int,
    >,
    /// Called once, after the last call of the others: the port was removed or the stack freed. May
    /// be NULL.
    pub release: Option<unsafe extern "C-unwind" fn(user: *mut c_void)>,
    /// WS_LINK_ETHERNET or WS_LINK_IP.
    pub link: u32,
    /// The largest packet in bytes, without link header; 0: 1,500.
    pub mtu: u32,
}

/// What ws_poll() asks and answers for one socket.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ws_pollfd {
    /// The socket. Entries with a negative number are skipped.
    pub socket: ws_sock,
    /// What the program waits for: WS_IN, WS_OUT or both.
    pub events: c_short,
    /// What there is: WS_IN, WS_OUT, WS_STALE, or 0.
    pub revents: c_short,
}

/// News of a watched socket, from ws_events().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ws_event {
    /// The socket.
    pub socket: ws_sock,
    /// What ws_watch() was called with.
    pub user: *mut c_void,
    /// WS_IN, WS_OUT or both.
    pub events: c_short,
}
