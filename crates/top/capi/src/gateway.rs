//! Gateways: the network of virtual machines, in a thread of this process.
//!
//! Called by: programs that run virtual machines. Crate `machine` does it; here its settings come
//! from C, and its texts go there.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::str::FromStr;
use std::os::fd::BorrowedFd;

use machine::{Config, Gateway, Network, Vm, VmKind};

use crate::error::{Call, Error};
use crate::types::{
    WS_FD_VM_DGRAM, WS_FD_VM_STREAM, WS_FD_VM_TAP, WS_FD_VM_VHOST, WS_SWITCHED, ws_gateway,
    ws_gateway_config, ws_text_callback, ws_vm,
};
use crate::{entry, handles, memory};

/// A function of the program that takes texts.
struct Taker {
    take: unsafe extern "C-unwind" fn(user: *mut c_void, text: *const c_char),
    user: *mut c_void,
}

// SAFETY: `user` is only passed back to the function, which the header says another thread calls.
unsafe impl Send for Taker {}

impl Taker {
    fn of(callback: ws_text_callback, user: *mut c_void) -> Option<Taker> {
        callback.map(|take| Taker { take, user })
    }

    fn take(&self, text: &str) {
        let text = entry::c_text(text);
        // SAFETY: the program's function, called as the header says.
        entry::callback(|| unsafe { (self.take)(self.user, text.as_ptr()) });
    }
}

fn start(given: &ws_gateway_config) -> Call<ws_gateway> {
    if given.flags & !WS_SWITCHED != 0 {
        return Err(Error::invalid("config has flags that this library does not know"));
    }
    // SAFETY: the header asks for `vm_count` entries there.
    let vms = unsafe { memory::entries(given.vms.cast_mut(), given.vm_count, "vms") }?;
    // SAFETY: the header asks for texts or null pointers.
    let (policy, net4, net6, dns) = unsafe {
        (
            memory::optional_text(given.policy)?.unwrap_or_default(),
            memory::optional_text(given.net4)?,
            memory::optional_text(given.net6)?,
            memory::optional_text(given.dns)?,
        )
    };
    let usual = Config::default();
    let mtu = match given.mtu {
        0 => usual.mtu,
        mtu => u16::try_from(mtu)
            .map_err(|_| Error::invalid(format!("mtu is {mtu}: give 576 to 65520")))?,
    };
    let (log, say) = (Taker::of(given.log, given.user), Taker::of(given.say, given.user));
    let gateway = Gateway::start(Config {
        policy: policy.to_owned(),
        switched: given.flags & WS_SWITCHED != 0,
        net4: value(net4, "net4", usual.net4)?,
        net6: value(net6, "net6", usual.net6)?,
        dns: value(dns, "dns", usual.dns)?,
        mtu,
        vms: vms.iter().map(link).collect::<Call<_>>()?,
        log: log.map(|log| Box::new(move |line: &str| log.take(line)) as _),
        say: say.map(|say| Box::new(move |text: &str| say.take(text)) as _),
    });
    handles::add_gateway(gateway?)
}

/// The value of a text of the config, or the usual one.
fn value<T: FromStr<Err = String>>(text: Option<&str>, name: &str, usual: T) -> Call<T> {
    match text {
        None => Ok(usual),
        Some(text) => text.parse().map_err(|why| Error::invalid(format!("{name}: {why}"))),
    }
}

fn link(vm: &ws_vm) -> Call<Vm> {
    let kind = match vm.kind {
        WS_FD_VM_STREAM => VmKind::Stream,
        WS_FD_VM_DGRAM => VmKind::Datagram,
        WS_FD_VM_VHOST => VmKind::VhostUser,
        WS_FD_VM_TAP => VmKind::Tap,
        _ => {
            let text = "a machine's kind is WS_FD_VM_STREAM, _DGRAM, _VHOST or _TAP";
            return Err(Error::invalid(text));
        }
    };
    if vm.fd < 0 {
        return Err(Error::new(libc::EBADF, "a machine's descriptor is negative: open it first"));
    }
    // SAFETY: it is not -1; a number that is not open is an error of the next call.
    let borrowed = unsafe { BorrowedFd::borrow_raw(vm.fd) };
    Ok(Vm { kind, fd: borrowed.try_clone_to_owned()? })
}

impl From<machine::Error> for Error {
    fn from(error: machine::Error) -> Error {
        let number = match &error {
            // Without a number of the system, a link is of another kind than its VmKind.
            machine::Error::Begin { errno, .. } => errno.unwrap_or(libc::EINVAL),
            machine::Error::Config(_) => libc::EINVAL,
            machine::Error::Ended(_) => libc::EIO,
        };
        Error::new(number, error.to_string())
    }
}

/// The networks, a line for each.
fn lines(networks: &[Network]) -> String {
    let mut text = String::new();
    for network in networks {
        let Network { program, gateway, names, link, .. } = network;
        let net = network.network();
        // A string takes everything.
        let _ = writeln!(
            text,
            "link {link} network {net} gateway {gateway} resolver {names} machine {program}"
        );
    }
    text
}

/// Start a gateway: it gives virtual machines addresses, resolves names for them, and carries their
/// connections over the sockets of this process, as far as the policy allows. It takes packets when
/// this returns. It runs in a thread of the library, and in a second one while it follows the
/// host's name servers; both block all signals. There is no jail: the gateway has the privileges of
/// the process. Several gateways may run.
///
/// The library makes copies of the descriptors, and makes them nonblocking; yours may be closed. If
/// you keep one, the machine does not see the end of the gateway, and you can start another one.
///
/// Returns the gateway; -EFAULT if config, or vms with a vm_count above 0, is NULL; -E2BIG; -EINVAL
/// if a value is not understood (of the policy: ws_last_error() names the line), or a machine's
/// socket is not of the kind, -ENOTSOCK if it is no socket; -EBADF if a descriptor is none, -EMFILE
/// if none is left; of published ports -EADDRINUSE, -EADDRNOTAVAIL, and -EACCES below 1024 without
/// privilege; the system's number if it refuses something else, as -EAGAIN for a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_gateway_start(config: *const ws_gateway_config) -> ws_gateway {
    entry::call(|| {
        // SAFETY: the header asks for a structure that says its size.
        start(&unsafe { memory::sized(config, "the config") }?)
    })
}

/// Copy the addresses of a gateway's networks to buffer, with a zero byte behind them, cut to size
/// bytes. Each network is one line, for example "link 0 network 10.0.2.0/24 gateway 10.0.2.2
/// resolver 10.0.2.3 machine 10.0.2.100", where the last one is what its first machine gets. A link
/// is the index of its machine in vms, or 0 for all with WS_SWITCHED.
///
/// Returns the length of the whole text in bytes, without the zero byte; -EFAULT if buffer is NULL
/// and size is not 0; -EINVAL if size is beyond the address space; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_gateway_networks(
    gateway: ws_gateway,
    buffer: *mut c_char,
    size: usize,
) -> i64 {
    entry::call(|| {
        let networks = handles::gateway(gateway, |gateway| gateway.networks().to_vec())?;
        // SAFETY: the caller's promise about `buffer` and `size`.
        unsafe { memory::write_text(&lines(&networks), buffer, size) }
    })
}

/// Has a gateway ended by itself? ws_gateway_stop() says why.
///
/// Returns 1 or 0; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_gateway_has_ended(gateway: ws_gateway) -> c_int {
    entry::number(|| handles::gateway(gateway, Gateway::has_ended).map(c_int::from))
}

/// Stop a gateway. When this returns, its connections and its copies of descriptors are closed, and
/// its callbacks are not called any more: it waits for one that runs. The handle is stale then,
/// also after an error.
///
/// Returns 0; -EIO if the gateway had ended by itself, ws_last_error() says why; -EDEADLK in a
/// callback, where the gateway runs on; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_gateway_stop(gateway: ws_gateway) -> c_int {
    entry::status(|| Ok(handles::remove_gateway(gateway)?.stop()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C-unwind" fn panics(user: *mut c_void, _: *const c_char) {
        // SAFETY: the test's number.
        unsafe { *user.cast::<c_int>() += 1 };
        panic!("a callback, made by hand");
    }

    #[test]
    fn a_callback_that_panics_does_not_end_the_gateway() {
        let mut calls: c_int = 0;
        let taker = Taker::of(Some(panics), (&raw mut calls).cast()).expect("a function");
        taker.take("one");
        taker.take("two");
        assert_eq!(calls, 2);
    }
}
