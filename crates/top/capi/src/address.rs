//! The system's socket addresses: `struct sockaddr_in` and `sockaddr_in6`.
//!
//! Called by: calls with addresses. Addresses are copied, so they need no alignment.

use core::ffi::c_int;
use core::mem::{MaybeUninit, size_of};
use core::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::ptr;

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::error::{Call, Error};
use crate::memory;

/// The address of the caller.
///
/// # Safety
/// `address` is null, or `length` bytes there are valid for reads.
pub(crate) unsafe fn read(address: *const sockaddr, length: socklen_t) -> Call<SocketAddr> {
    let length = length as usize;
    if address.is_null() {
        return Err(Error::null("the address"));
    }
    let too_short = || Error::invalid(format!("{length} bytes are too few for this address"));
    if length < size_of::<libc::sa_family_t>() {
        return Err(too_short());
    }
    // SAFETY: the family comes first, and there are enough bytes for it.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if length >= size_of::<sockaddr_in>() => {
            // SAFETY: there are enough bytes, and any bytes are valid for the type.
            let v4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = u32::from_be(v4.sin_addr.s_addr).into();
            Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if length >= size_of::<sockaddr_in6>() => {
            // SAFETY: as above.
            let v6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let (port, ip) = (u16::from_be(v6.sin6_port), v6.sin6_addr.s6_addr.into());
            Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        libc::AF_INET | libc::AF_INET6 => Err(too_short()),
        other => {
            let text = format!("address family {other} is neither AF_INET nor AF_INET6");
            Err(Error::new(libc::EAFNOSUPPORT, text))
        }
    }
}

/// Store an address for the caller as accept(2) does: cut to `*length` bytes, and `*length` becomes
/// its whole length. With a null address nothing is stored.
///
/// # Safety
/// `length` is null or valid for reads and writes; `address` is null, or `*length` bytes there are
/// valid for writes.
pub(crate) unsafe fn write(
    value: SocketAddr,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> Call<()> {
    if address.is_null() {
        return Ok(());
    }
    if length.is_null() {
        return Err(Error::null("the length of the address"));
    }
    // SAFETY: not null; the rest is the caller's promise.
    let room = unsafe { length.read_unaligned() } as usize;
    let (mut all, whole) = system(value);
    let cut = whole.min(room);
    // SAFETY: both places have `cut` bytes, and one of them is ours.
    unsafe { ptr::copy_nonoverlapping(all.as_mut_ptr().cast::<u8>(), address.cast::<u8>(), cut) };
    // SAFETY: as above.
    unsafe { memory::store(length, whole as socklen_t, "the length of the address") }
}

/// The system's structure of an address, and its length in bytes.
pub(crate) fn system(value: SocketAddr) -> (MaybeUninit<sockaddr_in6>, usize) {
    let mut all = MaybeUninit::<sockaddr_in6>::zeroed();
    let whole = match value {
        SocketAddr::V4(v4) => {
            // SAFETY: zeros are valid for the type.
            let mut place: sockaddr_in = unsafe { core::mem::zeroed() };
            place.sin_family = libc::AF_INET as libc::sa_family_t;
            place.sin_port = v4.port().to_be();
            place.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            // SAFETY: `sockaddr_in6` is longer than `sockaddr_in`.
            unsafe { all.as_mut_ptr().cast::<sockaddr_in>().write_unaligned(place) };
            size_of::<sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            // SAFETY: zeros are valid for the type.
            let mut place: sockaddr_in6 = unsafe { core::mem::zeroed() };
            place.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            place.sin6_port = v6.port().to_be();
            place.sin6_flowinfo = v6.flowinfo();
            place.sin6_addr.s6_addr = v6.ip().octets();
            place.sin6_scope_id = v6.scope_id();
            all.write(place);
            size_of::<sockaddr_in6>()
        }
    };
    (all, whole)
}

/// "192.0.2.1" or "2001:db8::1".
pub(crate) fn ip(text: &str) -> Call<IpAddr> {
    text.parse().map_err(|_| Error::invalid(format!("'{text}' is not an IP address")))
}

/// "192.0.2.1/24" or "2001:db8::1/64".
pub(crate) fn cidr(text: &str) -> Call<base::Cidr> {
    text.parse().map_err(|why| Error::invalid(format!("'{text}': {why}")))
}
