//! The XDP program that redirects frames to our sockets, loaded by bpf(2): six instructions.
//!
//! Called by: `xdp.rs`. Sources: bpf(2), Linux `uapi/linux/bpf.h`, RFC 9669 for the instructions.
//! The instructions are assembled here, because building an object file would need a BPF compiler
//! (docs/decisions/0049-packet-sockets.md).
//!
//! A frame goes to the socket that the map contains for its receive queue. If the map contains
//! none, the frame goes to the kernel's own stack. The program is attached by a BPF link: when the
//! link's last descriptor is closed, the program is detached, however the process ends.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_long};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};

// Commands, types and flags of `uapi/linux/bpf.h` and `uapi/linux/if_link.h`.
const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 2;
const XDP_PASS: i32 = 2;
const FUNC_REDIRECT_MAP: i32 = 51;
/// The offset of the receive queue in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;

/// Entries of the map.
pub(super) const QUEUES_MAX: u32 = 64;

/// Our program, attached to an interface until this is dropped.
pub(super) struct Program {
    map: OwnedFd,
    _link: OwnedFd,
}

/// `union bpf_attr`, as far as the commands here use it.
#[repr(C, align(8))]
struct Attr([u8; 72]);

impl Attr {
    fn new() -> Attr {
        Attr([0; 72])
    }

    fn with(mut self, at: usize, value: u32) -> Attr {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn with_u64(mut self, at: usize, value: u64) -> Attr {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd() as u32
}

/// bpf(2). The memory that the attribute points at must live until it returns.
fn bpf(command: c_int, attr: &Attr) -> Result<c_long> {
    let len = size_of::<Attr>();
    // SAFETY: the kernel reads `len` bytes, which `attr` has; pointers in it refer to locals of the
    // callers below, which are alive for the call and only read.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, (&raw const *attr), len) };
    if result >= 0 {
        return Ok(result);
    }
    let raw = std::io::Error::last_os_error().raw_os_error();
    Err(raw.map_or(Errno::IO, Errno::from_raw_os_error))
}

/// Run a command that returns a new descriptor.
fn made(command: c_int, attr: &Attr) -> Result<OwnedFd> {
    let fd = bpf(command, attr)? as c_int;
    // SAFETY: these commands return a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One instruction: operation, destination and source registers, offset, immediate value.
fn instruction(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let registers = if cfg!(target_endian = "little") { dst | src << 4 } else { dst << 4 | src };
    let [o0, o1] = offset.to_ne_bytes();
    let [i0, i1, i2, i3] = immediate.to_ne_bytes();
    [code, registers, o0, o1, i0, i1, i2, i3]
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`.
fn instructions(map: &OwnedFd) -> [[u8; 8]; 6] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_MAP: u8 = 0x18;
    const SET: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    [
        instruction(LOAD_WORD, 2, 1, RX_QUEUE_INDEX, 0),
        // A 64-bit constant takes two instructions; source register 1 marks it as a map.
        instruction(LOAD_MAP, 1, 1, 0, map.as_raw_fd()),
        instruction(0, 0, 0, 0, 0),
        instruction(SET, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, FUNC_REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

impl Program {
    /// Load the program and attach it to the interface with this index: native XDP if the driver
    /// has it, or generic XDP.
    pub(super) fn attach(index: c_int, generic: bool) -> Result<Program> {
        let map = Attr::new().with(0, MAP_TYPE_XSKMAP).with(4, 4).with(8, 4).with(12, QUEUES_MAX);
        let map = made(MAP_CREATE, &map)?;
        let (program, licence) = (instructions(&map), c"MIT OR Apache-2.0");
        let load = Attr::new()
            .with(0, PROG_TYPE_XDP)
            .with(4, program.len() as u32)
            .with_u64(8, program.as_ptr() as u64)
            .with_u64(16, licence.as_ptr() as u64)
            .with(68, ATTACH_XDP);
        let program = made(PROG_LOAD, &load)?;
        let link = Attr::new()
            .with(0, number(&program))
            .with(4, index as u32)
            .with(8, ATTACH_XDP)
            .with(12, if generic { XDP_FLAGS_SKB_MODE } else { 0 });
        Ok(Program { map, _link: made(LINK_CREATE, &link)? })
    }

    /// Redirect frames of this queue to this socket.
    pub(super) fn give(&self, queue: u32, socket: impl AsFd) -> Result<()> {
        let value = socket.as_fd().as_raw_fd() as u32;
        let update = Attr::new()
            .with(0, number(&self.map))
            .with_u64(8, (&raw const queue) as u64)
            .with_u64(16, (&raw const value) as u64);
        bpf(MAP_UPDATE_ELEM, &update).map(drop)
    }
}
