//! System calls on packet sockets and netlink sockets, each in a safe function. Most of them have
//! no wrapper in a library.
//!
//! Called by: `packet.rs`, `packet/open.rs`. Sources: packet(7), netlink(7), Linux
//! `uapi/linux/if_packet.h`.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};
use core::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::{Errno, Result, read};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Every protocol: `ETH_P_ALL` in network byte order, as packet sockets need it.
const EVERYTHING: u16 = (libc::ETH_P_ALL as u16).to_be();

/// Maximum messages that [`drain`] reads.
const MESSAGES: usize = 64;

/// A packet socket with protocol 0: it receives nothing until [`bind`] sets the protocol.
pub(super) fn socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
}

/// A netlink socket for changes of interfaces in this thread's namespace; see [`listen`].
pub(super) fn listener() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0 is NETLINK_ROUTE.
    let listener = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    // SAFETY: a sockaddr_nl of zeros is valid.
    let mut address: libc::sockaddr_nl = unsafe { core::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    // An unbound socket receives nothing. Port ID 0 makes the kernel choose one (netlink(7)).
    bind_to(&listener, &address)?;
    Ok(listener)
}

/// Start or stop receiving changes of interfaces.
pub(super) fn listen(listener: impl AsFd, on: bool) -> Result<()> {
    let option = if on { libc::NETLINK_ADD_MEMBERSHIP } else { libc::NETLINK_DROP_MEMBERSHIP };
    set(listener, libc::SOL_NETLINK, option, &libc::RTNLGRP_LINK)
}

/// Discard pending messages.
pub(super) fn drain(listener: impl AsFd) {
    let mut message = [0u8; 64];
    for _ in 0..MESSAGES {
        // A long message is truncated; ENOBUFS reports messages lost for lack of room.
        match read(&listener, &mut message) {
            Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Set an option that takes an integer.
pub(super) fn set_number(fd: impl AsFd, option: c_int, value: c_int) -> Result<()> {
    set(fd, libc::SOL_PACKET, option, &value)
}

/// Make the receive ring; `T` is `tpacket_req` or `tpacket_req3`.
pub(super) fn set_ring<T: Copy>(fd: impl AsFd, shape: &T) -> Result<()> {
    set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, shape)
}

fn set<T: Copy>(fd: impl AsFd, level: c_int, option: c_int, value: &T) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed, hence open; the kernel reads at most `len` bytes, the
    // size of `value`.
    let result = unsafe { libc::setsockopt(fd, level, option, (&raw const *value).cast(), len) };
    done(result)
}

/// Read an option of `N` 32-bit words.
fn words<const N: usize>(fd: impl AsFd, option: c_int) -> Result<[u32; N]> {
    let mut words = [0u32; N];
    let mut len = size_of_val(&words) as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed, hence open; the kernel writes at most `len` bytes, the
    // size of `words`, for which any bit pattern is valid.
    let result = unsafe {
        let to = words.as_mut_ptr().cast();
        libc::getsockopt(fd, libc::SOL_PACKET, option, to, &raw mut len)
    };
    done(result).map(|()| words)
}

/// Frames lost in the kernel since the last call.
pub(super) fn lost(fd: impl AsFd) -> Result<u32> {
    // Packets, drops, and with TPACKET_V3 the freeze count.
    words::<3>(fd, libc::PACKET_STATISTICS).map(|[_, drops, _]| drops)
}

/// The ID of a socket's fanout group.
pub(super) fn fanout(fd: impl AsFd) -> Result<u16> {
    words::<1>(fd, libc::PACKET_FANOUT).map(|[group]| group as u16)
}

/// Bind to the interface with this index.
pub(super) fn bind(fd: impl AsFd, index: c_int) -> Result<()> {
    // SAFETY: a sockaddr_ll of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = EVERYTHING;
    address.sll_ifindex = index;
    bind_to(fd, &address)
}

/// bind(2) with an address of any family.
fn bind_to<T: Copy>(fd: impl AsFd, address: &T) -> Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open; the kernel reads `len` bytes, the size of `address`.
    done(unsafe { libc::bind(fd, (&raw const *address).cast(), len) })
}

/// The index of the interface that a socket is bound to; negative if the interface was deleted.
pub(super) fn bound_to(fd: impl AsFd) -> Result<c_int> {
    // SAFETY: a sockaddr_ll of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open; the kernel writes at most `len` bytes into `address`, for
    // which any bit pattern is valid.
    done(unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) })?;
    let known = len as usize >= offset_of!(libc::sockaddr_ll, sll_hatype);
    Ok(if known { address.sll_ifindex } else { -1 })
}

/// Receive frames for other stations too.
pub(super) fn join_promiscuous(fd: impl AsFd, index: c_int) -> Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Join a fanout group, whose sockets share an interface's frames.
pub(super) fn join_group(fd: impl AsFd, group: u16, kind_and_flags: c_uint) -> Result<()> {
    set(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &(u32::from(group) | kind_and_flags << 16))
}

fn done(result: c_int) -> Result<()> {
    if result == 0 {
        return Ok(());
    }
    let raw = std::io::Error::last_os_error().raw_os_error();
    Err(raw.map_or(Errno::IO, Errno::from_raw_os_error))
}
