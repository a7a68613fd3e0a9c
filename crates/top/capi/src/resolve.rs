//! Names: the resolver of the stack, which asks name servers over the stack's own sockets.
//!
//! Called by: programs. In a stack that must not wait, a lookup goes on between calls, and the
//! program asks again (`lookups.rs`).

use core::ffi::{c_char, c_int};
use core::net::{IpAddr, SocketAddr};

use libc::sockaddr_storage;
use net::{blocking, dns};

use crate::error::Call;
use crate::stack_of_program::Stack;
use crate::types::{WS_LOG_WARNING, ws_stack};
use crate::{address, entry, handles, memory};

fn resolve(stack: &Stack, host: &str) -> Call<Vec<IpAddr>> {
    if stack.may_wait() {
        return Ok(blocking::lookup_host(&stack.net, host)?);
    }
    stack.lookups.poll(&stack.net, host)
}

/// Look up the addresses of host, which is a name or an address as text. At most count of them are
/// stored in addresses, IPv6 first, each with the given port: a sockaddr_in6 or sockaddr_in. Names
/// need servers: ws_set_resolver().
///
/// In a stack that has no thread the call does not wait: it returns -EAGAIN while the lookup is
/// under way, and the program calls it again after ws_stack_poll().
///
/// Returns how many were stored; -ENOENT if the name does not exist or has no address, -ETIMEDOUT,
/// -EINVAL if host is not a name; -EIO if there are no servers, or they fail; -EFAULT if host is
/// NULL, or addresses is and count is not 0; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_resolve(
    stack: ws_stack,
    host: *const c_char,
    port: u16,
    addresses: *mut sockaddr_storage,
    count: usize,
) -> c_int {
    entry::number(|| {
        let stack = handles::stack(stack)?;
        // SAFETY: the caller's text.
        let host = unsafe { memory::text(host, "the name") }?;
        // SAFETY: the caller's array.
        let room = unsafe { memory::entries(addresses, count, "the addresses") }?;
        let found = resolve(&stack, host)?;
        let mut stored = 0;
        for (place, ip) in room.iter_mut().zip(found) {
            let (value, _) = address::system(SocketAddr::new(ip, port));
            // SAFETY: zeros are valid for both types.
            *place = unsafe { core::mem::zeroed() };
            // SAFETY: a `sockaddr_storage` has room for every address, and the value has bytes
            // everywhere.
            unsafe { (&raw mut *place).cast::<libc::sockaddr_in6>().write(value.assume_init()) };
            stored += 1;
        }
        Ok(stored)
    })
}

/// Set the name servers to ask, in the text of resolv.conf(5), and names that need no server, in
/// the text of hosts(5); either may be NULL. Answers that were remembered are forgotten. Lines that
/// are not understood are skipped, and the log says which.
///
/// Returns 0; -EINVAL if a text is not UTF-8; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_set_resolver(
    stack: ws_stack,
    resolv_conf: *const c_char,
    hosts: *const c_char,
) -> c_int {
    entry::status(|| {
        let stack = handles::stack(stack)?;
        // SAFETY: the caller's texts.
        let (conf, hosts) =
            unsafe { (memory::optional_text(resolv_conf)?, memory::optional_text(hosts)?) };
        let (config, notes) = conf.map(dns::Config::from_resolv_conf).unwrap_or_default();
        let (hosts, more) = hosts.map(dns::Hosts::from_text).unwrap_or_default();
        for (file, notes) in [("resolv.conf", notes), ("hosts", more)] {
            for note in notes {
                let text = format!("{file}, line {}: {}", note.line, note.text);
                stack.hooks.log(WS_LOG_WARNING, &text);
            }
        }
        Ok(stack.net.set_resolver(config, hosts)?)
    })
}
