//! Ports: the devices of a stack.
//!
//! Called by: programs. Every device is wrapped for the log and for traces (`hooks.rs`). A port's
//! number may be used again after the port was removed.

use core::ffi::{c_char, c_int};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use base::{LinkKind, MacAddr};
use device::tap::{Config, Declared, Setup, Tap, TapError};
use device::vm::{Dgram, Stream, VmError};
use device::{Device, mem};
use stack::{PortConfig, PortId};

use crate::device_of_program::{OfProgram, mtu};
use crate::error::{Call, Error};
use crate::hooks::{Hooks, PortNumber};
use crate::stack_of_program::Stack;
use crate::types::{
    WS_FD_PACKETS, WS_FD_VM_DGRAM, WS_FD_VM_STREAM, WS_LOG_INFO, ws_device, ws_stack,
};
use crate::{address, entry, handles, memory};

/// Makes link addresses differ from other numbers that are drawn with the stack's seed.
const MACS: u64 = 0x6d61_6373;

/// Give a device to the stack. `what` is for the log.
pub(crate) fn add(stack: &Stack, device: Box<dyn Device>, what: &str) -> Call<c_int> {
    let (limits, number) = (device.limits(), PortNumber::default());
    let device = Hooks::wrap(&stack.hooks, device, number.clone());
    let port = stack.net.with_stack(|core| {
        // Drawn with a counter of the stack, so that no two ports have the same address.
        let counted = u64::from(core.ports_to_try().next().unwrap_or(0));
        let drawn = core.derived_secret(MACS ^ counted);
        let [a, b, c, d, e, ..] = drawn[0].to_ne_bytes();
        // Administered locally, of one host.
        let mac = MacAddr([2, a, b, c, d, e]);
        core.add_port(device, PortConfig { mac, ..PortConfig::default() })
    })?;
    let port = c_int::from(port.0);
    // The number is empty: this is its only setter.
    let _ = number.set(port);
    let link = match limits.link {
        LinkKind::Ethernet => "Ethernet frames",
        LinkKind::Ip => "bare IP packets",
    };
    let text = format!("port {port}: {what}, {link}, MTU {} bytes", limits.mtu.bytes());
    stack.hooks.log(WS_LOG_INFO, &text);
    Ok(port)
}

/// The number of a port, from the program.
pub(crate) fn number(port: c_int) -> Call<PortId> {
    u16::try_from(port).map(PortId).map_err(|_| no_port(port))
}

pub(crate) fn no_port(port: c_int) -> Error {
    Error::new(
        libc::ENODEV,
        format!("the stack has no port {port}: it was removed, or never added"),
    )
}

fn kernel(
    stack: ws_stack,
    name: Option<&str>,
    kernel_address: Option<&str>,
    link: LinkKind,
) -> Call<c_int> {
    let stack = handles::stack(stack)?;
    let addresses = kernel_address.map(address::cidr).transpose()?;
    let mut tap = Tap::open(&Config { name: name.map(str::to_owned), link, ..Config::default() })?;
    if let Some(address) = addresses {
        let setup = Setup { addresses: vec![address], up: true, ..Setup::default() };
        tap.configure(&setup)?;
    }
    let what = tap.name().to_owned();
    add(&stack, Box::new(tap), &what)
}

impl From<TapError> for Error {
    fn from(error: TapError) -> Error {
        Error::new(error.raw_os_error(), error.to_string())
    }
}

impl From<VmError> for Error {
    fn from(error: VmError) -> Error {
        Error::new(error.raw_os_error(), error.to_string())
    }
}

fn descriptor(stack: ws_stack, fd: c_int, kind: c_int, mtu_bytes: u32) -> Call<c_int> {
    let stack = handles::stack(stack)?;
    let mtu = mtu(mtu_bytes)?;
    if fd < 0 {
        return Err(Error::new(libc::EBADF, "the descriptor is negative: open it first"));
    }
    // SAFETY: it is not -1; a number that is not open is an error of the next call.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let owned: OwnedFd = borrowed.try_clone_to_owned()?;
    let device: Box<dyn Device> = match kind {
        WS_FD_PACKETS => {
            let declared = Declared { mtu, ..Declared::default() };
            Box::new(Tap::adopt(owned, &declared)?)
        }
        WS_FD_VM_STREAM => {
            let socket = UnixStream::from(owned);
            let stream = Stream::from_socket(socket, "a socket of the program".as_ref());
            Box::new(stream?.with_mtu(mtu))
        }
        WS_FD_VM_DGRAM => {
            let machine = Dgram::adopt(UnixDatagram::from(owned));
            Box::new(machine?.with_mtu(mtu))
        }
        _ => {
            let text = "kind is WS_FD_PACKETS, WS_FD_VM_STREAM or WS_FD_VM_DGRAM";
            return Err(Error::invalid(text));
        }
    };
    add(&stack, device, &format!("descriptor {fd}"))
}

fn wake(stack: ws_stack, port: c_int) -> Call<()> {
    let stack = handles::stack(stack)?;
    let bell = stack.bells().get(&port).cloned();
    bell.ok_or_else(|| no_port(port))?.ring();
    Ok(())
}

fn remove(stack: &Stack, port: c_int) -> Call<()> {
    let id = number(port)?;
    // A frame that is on its way may still ring the bell, which then nobody hears.
    stack.bells().remove(&port);
    let device = stack.net.with_stack(|core| core.remove_port(id))?;
    drop(device.ok_or_else(|| no_port(port))?);
    stack.hooks.log(WS_LOG_INFO, &format!("port {port} was removed"));
    Ok(())
}

/// Add a port to a TUN interface of the kernel: bare IP packets. name may be NULL, then the kernel
/// chooses one; an interface that does not exist is made, and goes with the stack. kernel_address,
/// for example "192.0.2.1/24", is given to the kernel's end, which is brought up; with NULL the
/// interface is left as it is. Give the stack's end an address with ws_address_add().
///
/// Returns the port's number; -EPERM without CAP_NET_ADMIN, -EINVAL for the name or the address,
/// -EBUSY if the interface is in use, -ENODEV if the kernel has no TUN; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_port_tun(
    stack: ws_stack,
    name: *const c_char,
    kernel_address: *const c_char,
) -> c_int {
    entry::number(|| {
        // SAFETY: the caller's texts.
        let (name, address) =
            unsafe { (memory::optional_text(name)?, memory::optional_text(kernel_address)?) };
        kernel(stack, name, address, LinkKind::Ip)
    })
}

/// As ws_port_tun(), for a TAP interface: Ethernet frames.
///
/// Returns as ws_port_tun().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_port_tap(
    stack: ws_stack,
    name: *const c_char,
    kernel_address: *const c_char,
) -> c_int {
    entry::number(|| {
        // SAFETY: the caller's texts.
        let (name, address) =
            unsafe { (memory::optional_text(name)?, memory::optional_text(kernel_address)?) };
        kernel(stack, name, address, LinkKind::Ethernet)
    })
}

/// Add a port over a descriptor, which kind says what it is: WS_FD_PACKETS, WS_FD_VM_STREAM or
/// WS_FD_VM_DGRAM. The library makes a copy of the descriptor, and makes it nonblocking; yours may
/// be closed. mtu is the largest packet in bytes, 0 for 1,500.
///
/// Returns the port's number; -EBADF if the stack or the descriptor is none, -EINVAL for kind and
/// mtu, -EINVAL or -ENOTSOCK if the descriptor is of another kind.
#[unsafe(no_mangle)]
pub extern "C" fn ws_port_descriptor(stack: ws_stack, fd: c_int, kind: c_int, mtu: u32) -> c_int {
    entry::number(|| descriptor(stack, fd, kind, mtu))
}

/// Add a port over a device of the program's own, which is copied. Its release is called in the
/// end, not if this call fails.
///
/// Returns the port's number; -EFAULT if device, its receive or its transmit is NULL; -EINVAL for
/// size, link and mtu; -E2BIG; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_port_device(stack: ws_stack, device: *const ws_device) -> c_int {
    entry::number(|| {
        let stack = handles::stack(stack)?;
        // SAFETY: the header asks for a structure that says its size.
        let calls = unsafe { memory::sized(device, "the device") }?;
        let (device, bell) = OfProgram::new(calls)?;
        let port = add(&stack, Box::new(device), "a device of the program")?;
        stack.bells().insert(port, bell);
        Ok(port)
    })
}

/// Say that a device of the program has a frame for the stack, or room again. Any thread may call
/// it, and so may the device's own functions. A polled stack then wants to be polled.
///
/// Returns 0; -ENODEV if the port is not one of ws_port_device(); -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_port_wake(stack: ws_stack, port: c_int) -> c_int {
    entry::in_callback_too(|| wake(stack, port))
}

/// Join two stacks by a wire in memory, with a port at each end: Ethernet, with an MTU of 1,500
/// bytes. The ports' numbers are stored in *port_a and *port_b, which may be NULL. Add addresses of
/// one network to both.
///
/// Returns 0; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pair(
    a: ws_stack,
    b: ws_stack,
    port_a: *mut c_int,
    port_b: *mut c_int,
) -> c_int {
    entry::status(|| {
        let stacks = [handles::stack(a)?, handles::stack(b)?];
        let (left, right) = mem::pair(&mem::Config::default());
        let first = add(&stacks[0], Box::new(left), "a wire in memory")?;
        let second = add(&stacks[1], Box::new(right), "a wire in memory");
        let second = second.inspect_err(|_| {
            // The first end leads nowhere. An error means that its stack has ended too.
            let _ = remove(&stacks[0], first);
        })?;
        for (place, port) in [(port_a, first), (port_b, second)] {
            if !place.is_null() {
                // SAFETY: the caller's pointer.
                unsafe { memory::store(place, port, "the port") }?;
            }
        }
        Ok(())
    })
}

/// Remove a port. Its connections fail with -ENETDOWN, its addresses and routes go, its device is
/// released.
///
/// Returns 0; -ENODEV if there is no such port; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_port_remove(stack: ws_stack, port: c_int) -> c_int {
    entry::status(|| {
        let stack = handles::stack(stack)?;
        remove(&stack, port)
    })
}
