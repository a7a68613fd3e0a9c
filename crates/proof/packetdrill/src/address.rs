//! Conversion between `struct sockaddr` and socket addresses. For an IPv6 socket an IPv4 address is
//! written as an IPv4-mapped one (RFC 4291 section 2.5.5.2); a mapped address is read as the IPv4
//! address.
//!
//! Called by: `entry/`.
#![allow(unsafe_code)]

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use rustix::io::Errno;

use super::Call;

/// Read an address.
///
/// # Safety
/// `addr` points to `len` readable bytes, or is null.
pub(super) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> Call<SocketAddr> {
    if addr.is_null() {
        return Err(Errno::FAULT);
    }
    if (len as usize) < size_of::<sa_family_t>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: `len` covers the family field, and the caller guarantees `len` bytes.
    let family = i32::from(unsafe { addr.cast::<sa_family_t>().read_unaligned() });
    match family {
        AF_INET if len as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: `len` covers the structure.
            let raw = unsafe { addr.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
            Ok(SocketAddr::new(ip.into(), u16::from_be(raw.sin_port)))
        }
        AF_INET6 if len as usize >= size_of::<sockaddr_in6>() => {
            // SAFETY: `len` covers the structure.
            let raw = unsafe { addr.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr).to_canonical();
            Ok(SocketAddr::new(ip, u16::from_be(raw.sin6_port)))
        }
        AF_INET | AF_INET6 => Err(Errno::INVAL),
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// Is this an address of the family `AF_UNSPEC`, with which `connect` ends a connection?
///
/// # Safety
/// As [`read`].
pub(super) unsafe fn is_unspecified(addr: *const sockaddr, len: socklen_t) -> bool {
    if addr.is_null() || (len as usize) < size_of::<sa_family_t>() {
        return false;
    }
    // SAFETY: `len` covers the family field, and the caller guarantees `len` bytes.
    let family = unsafe { addr.cast::<sa_family_t>().read_unaligned() };
    i32::from(family) == libc::AF_UNSPEC
}

/// Write `address` in the form that a socket of `domain` uses: as many bytes as fit into `addr`,
/// and the full length into `len`. If either pointer is null, nothing is written.
///
/// # Safety
/// `len`, if not null, points to a length; `addr`, if not null, points to that many writable bytes.
pub(super) unsafe fn write(
    address: SocketAddr,
    domain: i32,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) {
    if addr.is_null() || len.is_null() {
        return;
    }
    // SAFETY: the caller guarantees the pointer.
    let room = unsafe { *len } as usize;
    let bytes = encode(address, domain);
    // SAFETY: at most `room` bytes are written, which the caller guarantees to be there; `len` is
    // valid as above.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast::<u8>(), room.min(bytes.len()));
        *len = bytes.len() as socklen_t;
    }
}

/// The bytes of a `sockaddr_in` or `sockaddr_in6`: family in host byte order, port and address in
/// network byte order.
fn encode(address: SocketAddr, domain: i32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of::<sockaddr_in6>());
    let port = address.port().to_be_bytes();
    if domain == AF_INET6 {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        bytes.extend((AF_INET6 as sa_family_t).to_ne_bytes());
        bytes.extend(port);
        bytes.extend([0; 4]);
        bytes.extend(ip.octets());
        bytes.extend([0; 4]);
    } else {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        bytes.extend((AF_INET as sa_family_t).to_ne_bytes());
        bytes.extend(port);
        bytes.extend(ip.octets());
        bytes.extend([0; 8]);
    }
    bytes
}

const _: () = assert!(size_of::<sockaddr_in>() == 16 && size_of::<sockaddr_in6>() == 28);

#[cfg(test)]
mod tests {
    use super::*;

    fn round(address: SocketAddr, domain: i32) -> Call<SocketAddr> {
        let mut bytes = [0u8; 28];
        let mut len = 28;
        let addr = bytes.as_mut_ptr().cast::<sockaddr>();
        // SAFETY: 28 bytes are there.
        unsafe {
            write(address, domain, addr, &mut len);
            read(addr, len)
        }
    }

    #[test]
    fn addresses_come_back_as_they_were() {
        let v4 = SocketAddr::from(([192, 0, 2, 1], 8080));
        let v6: SocketAddr = "[fd3d:fa7b:d17d::1]:65535".parse().unwrap();
        assert_eq!(round(v4, AF_INET), Ok(v4));
        assert_eq!(round(v6, AF_INET6), Ok(v6));
        assert_eq!(
            round(v4, AF_INET6),
            Ok(v4),
            "an IPv4 address changed when it was mapped and read back"
        );
    }

    #[test]
    fn a_short_or_missing_address_is_refused() {
        let bytes = [AF_INET as u8, 0, 0, 0];
        // SAFETY: four bytes are there, and null is allowed.
        unsafe {
            assert_eq!(read(bytes.as_ptr().cast(), 4), Err(Errno::INVAL));
            assert_eq!(read(bytes.as_ptr().cast(), 1), Err(Errno::INVAL));
            assert_eq!(read(core::ptr::null(), 16), Err(Errno::FAULT));
        }
    }
}
