//! Addresses as Python writes them: `(host, port)` for IPv4, `(host, port, flowinfo, scope_id)` for
//! IPv6. Hosts are addresses here; `python/wirespeed` looks names up first.
//!
//! Called by: sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error;

/// The address that a program gives to a call. An empty host is the unspecified address.
pub(crate) fn parse(address: &Bound<'_, PyAny>, v6: bool) -> PyResult<SocketAddr> {
    let tuple = address.cast::<PyTuple>().map_err(|_| shape(v6))?;
    let most = if v6 { 4 } else { 2 };
    if !(2..=most).contains(&tuple.len()) {
        return Err(shape(v6));
    }
    let host: String = tuple.get_item(0)?.extract().map_err(|_| shape(v6))?;
    let port: i64 = tuple.get_item(1)?.extract().map_err(|_| shape(v6))?;
    let port = u16::try_from(port)
        .map_err(|_| PyOverflowError::new_err("a port is a number from 0 to 65535"))?;
    let (host, zone) = match host.split_once('%') {
        Some((host, zone)) => (host.to_owned(), zone.parse().unwrap_or(0)),
        None => (host, 0),
    };
    let ip: IpAddr = match (host.as_str(), v6) {
        ("", false) => Ipv4Addr::UNSPECIFIED.into(),
        ("", true) => Ipv6Addr::UNSPECIFIED.into(),
        (text, _) => text.parse().map_err(|_| {
            error::numbered(libc::EINVAL, "the host is not an address: look it up first")
        })?,
    };
    match ip {
        IpAddr::V4(ip) if !v6 => Ok((ip, port).into()),
        IpAddr::V6(ip) if v6 => {
            let number = |index| tuple.get_item(index).and_then(|item| item.extract::<u32>());
            let flow = if tuple.len() > 2 { number(2)? } else { 0 };
            let scope = if tuple.len() > 3 { number(3)? } else { zone };
            Ok(SocketAddrV6::new(ip, port, flow, scope).into())
        }
        _ => Err(error::numbered(
            libc::EAFNOSUPPORT,
            "the address is of the other IP version: make a socket of that family",
        )),
    }
}

fn shape(v6: bool) -> PyErr {
    PyTypeError::new_err(match v6 {
        false => "an address is a tuple (host, port)",
        true => "an address is a tuple (host, port, flowinfo, scope_id)",
    })
}

/// The address as a tuple.
pub(crate) fn tuple(py: Python<'_>, address: SocketAddr) -> PyResult<Bound<'_, PyTuple>> {
    match address {
        SocketAddr::V4(v4) => (v4.ip().to_string(), v4.port()).into_pyobject(py),
        SocketAddr::V6(v6) => {
            (v6.ip().to_string(), v6.port(), v6.flowinfo(), v6.scope_id()).into_pyobject(py)
        }
    }
}

/// The address to which a socket is bound that the program did not bind.
pub(crate) fn unspecified(v6: bool) -> SocketAddr {
    match v6 {
        false => (Ipv4Addr::UNSPECIFIED, 0).into(),
        true => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
