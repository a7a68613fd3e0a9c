//! The calls of stacks: made, started or polled, and freed.
//!
//! Called by: programs. `stack_of_program.rs` has what they do.

use core::ffi::c_int;

use base::{Budget, Limit};
use stack::StackConfig;

use crate::error::{Call, Error};
use crate::hooks::Hooks;
use crate::stack_of_program::Stack;
use crate::types::{WS_POLLED, ws_config, ws_limit, ws_stack};
use crate::{entry, handles, memory};

fn new(config: Option<ws_config>) -> Call<ws_stack> {
    // SAFETY: zeros are valid for this structure, `memory::sized` relies on it too.
    let config = config.unwrap_or_else(|| unsafe { core::mem::zeroed() });
    if config.flags & !WS_POLLED != 0 {
        return Err(Error::invalid("config has flags that this library does not know"));
    }
    // SAFETY: the header asks for `limit_count` entries there.
    let limits = unsafe {
        memory::entries(config.limits.cast_mut(), config.limit_count as usize, "the limits")
    }?;
    let mut settings = StackConfig { budget: budget(limits)?, ..StackConfig::new(seed(&config)?) };
    settings.solicited_node_reports = true;
    let is_polled = config.flags & WS_POLLED != 0;
    let hooks = |clock| Hooks::new(config.log, config.trace, config.user, clock);
    let stack = Stack::new(stack::Stack::new(settings), is_polled, hooks)?;
    handles::add_stack(stack)
}

fn seed(config: &ws_config) -> Call<[u64; 2]> {
    if config.seed != [0, 0] {
        return Ok(config.seed);
    }
    let mut drawn = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    let count = rustix::rand::getrandom(&mut drawn, flags).map_err(std::io::Error::from)?;
    if count < drawn.len() {
        return Err(Error::new(libc::EIO, "the system gave too few random numbers: try again"));
    }
    let (low, high) = drawn.split_at(8);
    Ok([low, high].map(|half| u64::from_ne_bytes(half.try_into().unwrap_or_default())))
}

fn budget(limits: &[ws_limit]) -> Call<Budget> {
    let mut budget = Budget::default();
    for limit in limits {
        // SAFETY: the header asks for texts.
        let name = unsafe { memory::text(limit.name, "the name of a limit") }?;
        let value = usize::try_from(limit.value).unwrap_or(usize::MAX);
        budget.set(limit_of(name)?, value);
    }
    Ok(budget)
}

/// The limit of a name.
pub(crate) fn limit_of(name: &str) -> Call<Limit> {
    let found = Limit::ALL.iter().find(|limit| limit.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        let names = names.join(", ");
        Error::new(libc::ENOENT, format!("there is no limit '{name}'; there are: {names}"))
    })
}

/// Make a stack, which has no ports yet and does not run. config may be NULL, for the defaults.
///
/// Returns the stack; -EINVAL or -E2BIG if config is not understood, -ENOENT if a limit has no such
/// name, -EMFILE if the process has no descriptor left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_stack_new(config: *const ws_config) -> ws_stack {
    entry::call(|| {
        if config.is_null() {
            return new(None);
        }
        // SAFETY: the header asks for a structure that says its size.
        new(Some(unsafe { memory::sized(config, "the config") }?))
    })
}

/// Run the stack in a thread of the library, which blocks all signals. From now on calls may wait.
/// Ports, addresses and sockets may be made before and after.
///
/// Returns 0; -EALREADY if it runs, -EINVAL if it is polled; -EAGAIN if the system has no thread,
/// which ends the stack: free it.
#[unsafe(no_mangle)]
pub extern "C" fn ws_stack_start(stack: ws_stack) -> c_int {
    entry::status(|| handles::stack(stack)?.start())
}

/// Free a stack: its thread ends, its sockets become stale, calls that wait in other threads return
/// errors, and no callback of the stack is called any more, except for the release of devices: the
/// last call of another thread, if there is one, makes it when it returns. Data that was not sent
/// is lost: to send it, shut the connections down and wait for the peers' ends first.
///
/// Returns 0; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_stack_free(stack: ws_stack) -> c_int {
    entry::status(|| {
        let (stack, sockets) = handles::remove_stack(stack)?;
        sockets.iter().for_each(|socket| socket.close());
        stack.end();
        sockets.iter().for_each(|socket| socket.news.wake_all());
        Ok(())
    })
}

/// Poll a stack that was made with WS_POLLED: receive and send frames, run the timers that are due,
/// at the time now_ns. The time is in nanoseconds, from any beginning. It does not go back: an
/// earlier time, or one 2^63 ns later, counts as the last one. Between two polls it stands still.
/// The stack sends what calls write at once, without waiting for a poll.
///
/// Returns 0; -EINVAL if the stack was not made with WS_POLLED; -ESHUTDOWN if it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn ws_stack_poll(stack: ws_stack, now_ns: u64) -> c_int {
    entry::status(|| handles::stack(stack)?.poll(now_ns))
}

/// When to poll a stack again, in the time of ws_stack_poll(): stored in *at_ns. 0: at once.
/// UINT64_MAX: not before a frame comes or a call is made. A frame may come at any time: poll when
/// ws_stack_fd() is readable, or whenever your device has frames.
///
/// Returns 0; -EINVAL if the stack was not made with WS_POLLED; -EFAULT if at_ns is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_next_deadline(stack: ws_stack, at_ns: *mut u64) -> c_int {
    entry::status(|| {
        let next = handles::stack(stack)?.next_deadline()?;
        // SAFETY: the caller's pointer, checked for null.
        unsafe { memory::store(at_ns, next, "the deadline") }
    })
}
