//! Addresses, routes, neighbours, and the numbers that a stack counts.
//!
//! Called by: programs.

use core::ffi::{c_char, c_int};

use base::{Counter, DropReason, MacAddr};
use stack::{Address, Route};

use crate::error::{Call, Error};
use crate::stack_calls::limit_of;
use crate::types::ws_stack;
use crate::{address, entry, handles, memory, ports};

/// Give an address to a port, for example "192.0.2.1/24" or "2001:db8::1/64". Its network becomes a
/// route. It is used at once: nobody is asked whether another host has it.
///
/// Returns 0; -EINVAL if the text is no such address, or it cannot be a host's; -ENODEV if there is
/// no such port, -ENOBUFS at a limit; -EFAULT, -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_address_add(
    stack: ws_stack,
    port: c_int,
    address: *const c_char,
) -> c_int {
    entry::status(|| {
        let stack = handles::stack(stack)?;
        let id = ports::number(port)?;
        // SAFETY: the caller's text.
        let cidr = address::cidr(unsafe { memory::text(address, "the address") }?)?;
        let added = stack.net.with_stack(|core| core.add_address(id, Address::fixed(cidr)))?;
        added.map_err(|why| {
            let number = match why {
                stack::AddressError::NoPort => libc::ENODEV,
                stack::AddressError::LimitReached => libc::ENOBUFS,
                _ => libc::EINVAL,
            };
            Error::new(number, format!("{cidr}: {why}"))
        })
    })
}

/// Take an address from a port, for example "192.0.2.1". Its connections go on only if it comes
/// back.
///
/// Returns 0; -EADDRNOTAVAIL if the port does not have it; -EINVAL, -ENODEV, -EFAULT, -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_address_remove(
    stack: ws_stack,
    port: c_int,
    address: *const c_char,
) -> c_int {
    entry::status(|| {
        let stack = handles::stack(stack)?;
        let id = ports::number(port)?;
        // SAFETY: the caller's text.
        let ip = address::ip(unsafe { memory::text(address, "the address") }?)?;
        let had = stack.net.with_stack(|core| {
            let had = core.addresses(id).iter().any(|ours| ours.ip() == ip);
            core.remove_address(id, ip);
            had
        })?;
        match had {
            true => Ok(()),
            false => {
                let text = format!("port {port} does not have {ip}");
                Err(Error::new(libc::EADDRNOTAVAIL, text))
            }
        }
    })
}

/// Add a route: packets to destination, for example "0.0.0.0/0", leave by the port, to the gateway
/// via, for example "192.0.2.254"; with NULL they go to their destinations directly. Of several
/// routes the one with the longest prefix counts.
///
/// Returns 0; -EINVAL if a text is not understood, -ENODEV if there is no such port, -ENOBUFS at
/// the limit of routes or if the route is there already; -EFAULT, -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_route_add(
    stack: ws_stack,
    destination: *const c_char,
    via: *const c_char,
    port: c_int,
) -> c_int {
    entry::status(|| {
        let stack = handles::stack(stack)?;
        let id = ports::number(port)?;
        // SAFETY: the caller's texts.
        let (to, via) =
            unsafe { (memory::text(destination, "the destination")?, memory::optional_text(via)?) };
        let (to, via) = (address::cidr(to)?.network(), via.map(address::ip).transpose()?);
        let added = stack.net.with_stack(|core| {
            let is_there = core.device(id).is_some();
            is_there.then(|| core.add_route(Route::new(to, via, id.0)))
        })?;
        match added {
            Some(true) => Ok(()),
            Some(false) => {
                let text = format!("the route to {to} is there already, or the limit is reached");
                Err(Error::new(libc::ENOBUFS, text))
            }
            None => Err(ports::no_port(port)),
        }
    })
}

/// Remove the routes to destination that leave by the port.
///
/// Returns how many were removed; -EINVAL, -EFAULT, -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_route_remove(
    stack: ws_stack,
    destination: *const c_char,
    port: c_int,
) -> c_int {
    entry::number(|| {
        let stack = handles::stack(stack)?;
        let id = ports::number(port)?;
        // SAFETY: the caller's text.
        let to = address::cidr(unsafe { memory::text(destination, "the destination") }?)?;
        let removed = stack.net.with_stack(|core| core.remove_route(to.network(), id))?;
        Ok(c_int::try_from(removed).unwrap_or(c_int::MAX))
    })
}

/// Say which link address a neighbour has, for example "192.0.2.9" and "02:00:00:00:00:09": nobody
/// is asked by ARP or neighbour discovery then.
///
/// Returns 0; -EINVAL if a text is not understood, -ENOBUFS at the limit of neighbours; -ENODEV,
/// -EFAULT, -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_neighbour_add(
    stack: ws_stack,
    port: c_int,
    address: *const c_char,
    mac: *const c_char,
) -> c_int {
    entry::status(|| {
        let stack = handles::stack(stack)?;
        let id = ports::number(port)?;
        // SAFETY: the caller's texts.
        let (ip, mac) = unsafe {
            (memory::text(address, "the address")?, memory::text(mac, "the link address")?)
        };
        let ip = address::ip(ip)?;
        let no_mac = |_| Error::invalid(format!("'{mac}' is not like 02:00:00:00:00:01"));
        let mac: MacAddr = mac.parse().map_err(no_mac)?;
        match stack.net.with_stack(|core| core.add_neighbour(id, ip, mac))? {
            true => Ok(()),
            false => Err(Error::new(libc::ENOBUFS, "the limit of neighbours is reached")),
        }
    })
}

/// Store the value of a counter in *value, by name: a counter of docs/counters.md, for example
/// "tcp_retransmits", or a reason to drop packets, for example "ip_no_route".
///
/// Returns 0; -ENOENT if there is no such counter; -EFAULT, -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_counter(
    stack: ws_stack,
    name: *const c_char,
    value: *mut u64,
) -> c_int {
    entry::status(|| {
        let stack = handles::stack(stack)?;
        // SAFETY: the caller's text.
        let name = unsafe { memory::text(name, "the name") }?;
        let counter = counter(name)?;
        let found = stack.net.with_stack(|core| match counter {
            Counted::Event(counter) => core.counters().of(counter),
            Counted::Drop(reason) => core.drops().of(reason),
        })?;
        // SAFETY: the caller's pointer.
        unsafe { memory::store(value, found, "the value") }
    })
}

enum Counted {
    Event(Counter),
    Drop(DropReason),
}

fn counter(name: &str) -> Call<Counted> {
    if let Some(&counter) = Counter::ALL.iter().find(|counter| counter.name() == name) {
        return Ok(Counted::Event(counter));
    }
    if let Some(&reason) = DropReason::ALL.iter().find(|reason| reason.name() == name) {
        return Ok(Counted::Drop(reason));
    }
    let text = format!("there is no counter '{name}': docs/counters.md has their names");
    Err(Error::new(libc::ENOENT, text))
}

/// Store the value of a limit in *value, and in *hits how often it was hit; either may be NULL.
///
/// Returns 0; -ENOENT if there is no such limit; -EFAULT if name is NULL; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_limit_of(
    stack: ws_stack,
    name: *const c_char,
    value: *mut u64,
    hits: *mut u64,
) -> c_int {
    entry::status(|| {
        let stack = handles::stack(stack)?;
        // SAFETY: the caller's text.
        let limit = limit_of(unsafe { memory::text(name, "the name") }?)?;
        let found = stack
            .net
            .with_stack(|core| (core.budget().of(limit) as u64, core.budget().hits(limit)))?;
        for (place, found) in [(value, found.0), (hits, found.1)] {
            if !place.is_null() {
                // SAFETY: the caller's pointer.
                unsafe { memory::store(place, found, "the value") }?;
            }
        }
        Ok(())
    })
}
