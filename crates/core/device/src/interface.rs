//! Reads and sets properties of a kernel interface, by `ioctl`s that no library wraps, each in a
//! safe function.
//!
//! Called by: `tap`, `packet`. Sources: netdevice(7), Linux `uapi/linux/if.h`, `uapi/linux/ipv6.h`.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_short};
use core::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use base::MacAddr;
use rustix::io::{Errno, Result};
use rustix::ioctl::{Opcode, Setter, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Bytes of an interface's name, including its final zero.
const NAME_LEN: usize = libc::IFNAMSIZ;

/// `struct ifreq`: a name, and 24 bytes whose meaning depends on the request.
#[repr(C, align(8))]
pub(crate) struct IfReq {
    name: [u8; NAME_LEN],
    value: [u8; 24],
}

/// `struct in6_ifreq`.
#[repr(C)]
struct In6IfReq {
    addr: [u8; 16],
    prefix_len: u32,
    index: c_int,
}

const _: () = assert!(size_of::<IfReq>() == size_of::<libc::ifreq>());
const _: () = assert!(size_of::<In6IfReq>() == size_of::<libc::in6_ifreq>());

impl IfReq {
    /// A request about the interface `name`.
    ///
    /// # Errors
    /// `NAMETOOLONG` for a name of more than 15 bytes.
    pub(crate) fn named(name: &str) -> Result<IfReq> {
        let mut request = IfReq { name: [0; NAME_LEN], value: [0; 24] };
        if name.len() >= NAME_LEN {
            return Err(Errno::NAMETOOLONG);
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        Ok(request)
    }

    pub(crate) fn name(&self) -> String {
        let len = self.name.iter().position(|&b| b == 0).unwrap_or(NAME_LEN);
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }

    pub(crate) fn flags(&self) -> c_short {
        c_short::from_ne_bytes([self.value[0], self.value[1]])
    }

    pub(crate) fn set_flags(&mut self, flags: c_short) {
        self.value[..2].copy_from_slice(&flags.to_ne_bytes());
    }

    pub(crate) fn int(&self) -> c_int {
        c_int::from_ne_bytes([self.value[0], self.value[1], self.value[2], self.value[3]])
    }

    pub(crate) fn set_int(&mut self, value: c_int) {
        self.value[..4].copy_from_slice(&value.to_ne_bytes());
    }

    /// A `sockaddr_in` without port.
    pub(crate) fn set_v4(&mut self, addr: Ipv4Addr) {
        self.value[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        self.value[4..8].copy_from_slice(&addr.octets());
    }
}

/// A request whose argument is an [`IfReq`] that the kernel reads and may write.
pub(crate) fn request<const OPCODE: Opcode>(fd: impl AsFd, request: &mut IfReq) -> Result<()> {
    // SAFETY: every OPCODE used in this crate takes a `struct ifreq`, whose layout IfReq has, and
    // touches nothing else.
    unsafe { ioctl(fd, Updater::<OPCODE, IfReq>::new(request)) }
}

/// The hardware address of the kernel's end, from the TAP's own descriptor.
pub(crate) fn mac(fd: impl AsFd) -> Result<MacAddr> {
    hardware(fd, "").map(|(_, mac)| mac)
}

/// The hardware type of an interface (`ARPHRD_`), and its address.
pub(crate) fn hardware(asked: impl AsFd, name: &str) -> Result<(u16, MacAddr)> {
    let mut req = IfReq::named(name)?;
    request::<{ libc::SIOCGIFHWADDR as Opcode }>(asked, &mut req)?;
    let mut mac = [0; 6];
    mac.copy_from_slice(&req.value[2..8]);
    Ok((u16::from_ne_bytes([req.value[0], req.value[1]]), MacAddr(mac)))
}

/// The index of an interface.
pub(crate) fn index(asked: impl AsFd, name: &str) -> Result<c_int> {
    let mut req = IfReq::named(name)?;
    request::<{ libc::SIOCGIFINDEX as Opcode }>(asked, &mut req)?;
    Ok(req.int())
}

/// Is an interface up?
pub(crate) fn is_up(asked: impl AsFd, name: &str) -> Result<bool> {
    let mut req = IfReq::named(name)?;
    request::<{ libc::SIOCGIFFLAGS as Opcode }>(asked, &mut req)?;
    Ok(c_int::from(req.flags()) & libc::IFF_UP != 0)
}

/// Is the link of an interface up? The interface itself must be up.
pub(crate) fn has_carrier(asked: impl AsFd, name: &str) -> Result<bool> {
    let mut req = IfReq::named(name)?;
    request::<{ libc::SIOCGIFFLAGS as Opcode }>(asked, &mut req)?;
    Ok(c_int::from(req.flags()) & libc::IFF_RUNNING != 0)
}

/// Set the hardware address of the kernel's end.
pub(crate) fn set_mac(fd: impl AsFd, mac: MacAddr) -> Result<()> {
    let mut req = IfReq::named("")?;
    req.value[..2].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
    req.value[2..8].copy_from_slice(&mac.0);
    request::<{ libc::SIOCSIFHWADDR as Opcode }>(fd, &mut req)
}

/// A socket for requests about interfaces in this thread's network namespace.
pub(crate) fn inquirer(family: AddressFamily) -> Result<OwnedFd> {
    socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// The MTU of an interface, in bytes.
pub(crate) fn mtu(asked: impl AsFd, name: &str) -> Result<usize> {
    let mut req = IfReq::named(name)?;
    request::<{ libc::SIOCGIFMTU as Opcode }>(asked, &mut req)?;
    Ok(req.int().max(0) as usize)
}

/// Set the MTU of an interface, in bytes.
pub(crate) fn set_mtu(asked: &OwnedFd, name: &str, bytes: usize) -> Result<()> {
    let mut req = IfReq::named(name)?;
    req.set_int(bytes as c_int);
    request::<{ libc::SIOCSIFMTU as Opcode }>(asked, &mut req)
}

/// Set the length of an interface's transmit queue, in frames.
pub(crate) fn set_queue(asked: &OwnedFd, name: &str, frames: u32) -> Result<()> {
    let mut req = IfReq::named(name)?;
    req.set_int(frames.min(c_int::MAX as u32) as c_int);
    request::<{ libc::SIOCSIFTXQLEN as Opcode }>(asked, &mut req)
}

/// Bring an interface up. If the interface is up already, no call that needs a privilege is made:
/// the interface's owner may have no privilege.
pub(crate) fn set_up(asked: &OwnedFd, name: &str) -> Result<()> {
    let mut req = IfReq::named(name)?;
    request::<{ libc::SIOCGIFFLAGS as Opcode }>(asked, &mut req)?;
    if req.flags() & libc::IFF_UP as c_short != 0 {
        return Ok(());
    }
    req.set_flags(req.flags() | libc::IFF_UP as c_short);
    request::<{ libc::SIOCSIFFLAGS as Opcode }>(asked, &mut req)
}

/// Set the IPv4 address and netmask of an interface.
pub(crate) fn set_v4(asked: &OwnedFd, name: &str, addr: Ipv4Addr, prefix_len: u8) -> Result<()> {
    let mut req = IfReq::named(name)?;
    req.set_v4(addr);
    request::<{ libc::SIOCSIFADDR as Opcode }>(asked, &mut req)?;
    let mut req = IfReq::named(name)?;
    let host_bits = 32u32.saturating_sub(prefix_len.into());
    req.set_v4(Ipv4Addr::from_bits(u32::MAX.checked_shl(host_bits).unwrap_or(0)));
    request::<{ libc::SIOCSIFNETMASK as Opcode }>(asked, &mut req)
}

/// Add an IPv6 address to an interface. `asked` has to be an IPv6 socket.
pub(crate) fn add_v6(asked: &OwnedFd, name: &str, addr: Ipv6Addr, prefix_len: u8) -> Result<()> {
    const OPCODE: Opcode = libc::SIOCSIFADDR as Opcode;
    let mut req = IfReq::named(name)?;
    request::<{ libc::SIOCGIFINDEX as Opcode }>(asked, &mut req)?;
    let add = In6IfReq { addr: addr.octets(), prefix_len: prefix_len.into(), index: req.int() };
    // SAFETY: on an IPv6 socket SIOCSIFADDR reads a `struct in6_ifreq`, whose layout this is.
    unsafe { ioctl(asked, Setter::<OPCODE, In6IfReq>::new(add)) }
}
