//! The system calls of TAP and TUN that no library wraps: `ioctl`s, each in a safe function.
//!
//! Called by: `tap/open.rs`. Source: Linux `uapi/linux/if_tun.h`.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_short, c_uint};
use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl};

use crate::interface::{IfReq, request};

/// Make `fd` a queue of the interface `name` (`%d` stands for a number; empty: the kernel chooses);
/// returns the interface's name.
pub(super) fn set_iff(fd: impl AsFd, name: &str, flags: c_int) -> Result<String> {
    let mut req = IfReq::named(name)?;
    req.set_flags(flags as c_short);
    request::<{ libc::TUNSETIFF as Opcode }>(fd, &mut req)?;
    Ok(req.name())
}

/// The name and flags of the interface that `fd` is a queue of.
pub(super) fn iff(fd: impl AsFd) -> Result<(String, c_int)> {
    let mut req = IfReq::named("")?;
    request::<{ libc::TUNGETIFF as Opcode }>(fd, &mut req)?;
    Ok((req.name(), c_int::from(req.flags())))
}

/// Set which offloads the kernel may use in frames for us: `TUN_F_` bits.
pub(super) fn set_offload(fd: impl AsFd, features: c_uint) -> Result<()> {
    const OPCODE: Opcode = libc::TUNSETOFFLOAD as Opcode;
    // SAFETY: TUNSETOFFLOAD takes an integer, no pointer.
    unsafe { ioctl(fd, IntegerSetter::<OPCODE>::new_usize(features as usize)) }
}

/// Keep the interface when its last descriptor closes, or no longer.
pub(super) fn set_persistent(fd: impl AsFd, on: bool) -> Result<()> {
    const OPCODE: Opcode = libc::TUNSETPERSIST as Opcode;
    // SAFETY: TUNSETPERSIST takes an integer, no pointer.
    unsafe { ioctl(fd, IntegerSetter::<OPCODE>::new_usize(usize::from(on))) }
}

/// Give the interface a carrier, or take it away.
pub(super) fn set_carrier(fd: impl AsFd, on: bool) -> Result<()> {
    const OPCODE: Opcode = libc::TUNSETCARRIER as Opcode;
    // SAFETY: TUNSETCARRIER reads an int.
    unsafe { ioctl(fd, Setter::<OPCODE, c_int>::new(on.into())) }
}

/// Set the length of the virtio header before each frame, in bytes.
pub(super) fn set_vnet_header_len(fd: impl AsFd, len: c_int) -> Result<()> {
    const OPCODE: Opcode = libc::TUNSETVNETHDRSZ as Opcode;
    // SAFETY: TUNSETVNETHDRSZ reads an int.
    unsafe { ioctl(fd, Setter::<OPCODE, c_int>::new(len)) }
}

/// The length of the virtio header before each frame, in bytes.
pub(super) fn vnet_header_len(fd: impl AsFd) -> Result<c_int> {
    const OPCODE: Opcode = libc::TUNGETVNETHDRSZ as Opcode;
    let mut len = 0;
    // SAFETY: TUNGETVNETHDRSZ writes an int.
    unsafe { ioctl(fd, Updater::<OPCODE, c_int>::new(&mut len)) }?;
    Ok(len)
}
