//! A stack of the program: made, started or polled, and freed.
//!
//! Called by: programs. A stack has a driver thread (`ws_stack_start`) or is polled by the program
//! (`WS_POLLED`), in the program's time.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant as SystemTime;

use base::{Budget, Instant, Limit};
use net::{Driver, DriverThread, Net, Next, Stepped};
use stack::{StackConfig, VirtualClock};

use crate::error::{Call, Error};
use crate::events::Events;
use crate::handles::{self, Entry};
use crate::hooks::{FrameClock, Hooks};
use crate::ports::Bells;
use crate::resolve::Lookups;
use crate::types::{WS_LOG_ERROR, WS_LOG_INFO, WS_POLLED, ws_config, ws_limit, ws_stack};
use crate::{entry, memory};

/// The most rounds of one poll: the program's loop runs again in between.
const ROUNDS_MAX: usize = 64;

/// A stack, with what runs it.
pub(crate) struct Stack {
    pub(crate) net: Net,
    pub(crate) events: Events,
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) lookups: Lookups,
    clock: Option<(VirtualClock, Arc<Offset>)>,
    /// A driver thread runs: calls may wait.
    has_thread: AtomicBool,
    /// When a polled stack has to be polled again, in nanoseconds of its clock.
    next: AtomicU64,
    runs: Mutex<Runs>,
    bells: Mutex<Bells>,
}

/// What runs a stack.
enum Runs {
    /// Nothing yet.
    Nothing(Driver),
    Thread(DriverThread),
    Polls(Stepped),
    Ended,
}

/// The difference between the program's time and the clock of a polled stack. The first poll sets
/// it, so that the program's time may begin anywhere.
#[derive(Default)]
pub(crate) struct Offset(std::sync::OnceLock<u64>);

impl Offset {
    fn of_stack(&self, now_ns: u64, clock: &VirtualClock) -> Instant {
        let offset = *self.0.get_or_init(|| now_ns.wrapping_sub(clock.now().as_nanos()));
        Instant::from_nanos(now_ns.wrapping_sub(offset))
    }

    pub(crate) fn to_program(&self, at: Instant) -> u64 {
        at.as_nanos().wrapping_add(self.0.get().copied().unwrap_or(0))
    }
}

impl Stack {
    fn runs(&self) -> MutexGuard<'_, Runs> {
        // Nothing panics while it holds this lock, so poisoning can be ignored.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bells of the program's own devices, by port.
    pub(crate) fn bells(&self) -> MutexGuard<'_, Bells> {
        // As above.
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May a call wait? Only while a driver thread runs.
    pub(crate) fn may_wait(&self) -> bool {
        self.has_thread.load(Ordering::Acquire)
    }

    pub(crate) fn is_polled(&self) -> bool {
        self.clock.is_some()
    }

    fn start(&self) -> Call<()> {
        let mut runs = self.runs();
        match core::mem::replace(&mut *runs, Runs::Ended) {
            Runs::Nothing(driver) => {
                *runs = Runs::Thread(driver.spawn_thread()?);
                self.has_thread.store(true, Ordering::Release);
                self.hooks.log(WS_LOG_INFO, "the stack runs in a thread");
                Ok(())
            }
            other => {
                let error = match &other {
                    Runs::Thread(_) => Error::new(libc::EALREADY, "the stack runs already"),
                    Runs::Polls(_) => {
                        Error::invalid("the stack is polled: call ws_stack_poll() instead")
                    }
                    _ => Error::ended(),
                };
                *runs = other;
                Err(error)
            }
        }
    }

    fn poll(&self, now_ns: u64) -> Call<()> {
        let Some((clock, offset)) = &self.clock else {
            return Err(Error::invalid(
                "the stack has a thread: make it with WS_POLLED to poll it",
            ));
        };
        let mut runs = self.runs();
        let Runs::Polls(stepped) = &mut *runs else { return Err(Error::ended()) };
        clock.advance_to(offset.of_stack(now_ns, clock));
        self.events.silence_driver();
        let mut next = Instant::ZERO;
        for _ in 0..ROUNDS_MAX {
            next = match stepped.step(self.events.waker_of_driver()) {
                Next::Again => Instant::ZERO,
                Next::At(at) => at,
                Next::WhenWoken => Instant::NEVER,
                Next::Ended => return Err(Error::ended()),
            };
            if next != Instant::ZERO {
                break;
            }
        }
        if next == Instant::ZERO {
            self.events.waker_of_driver().wake_by_ref();
        }
        self.events.follow(stepped.descriptor());
        self.next.store(next.as_nanos(), Ordering::Relaxed);
        Ok(())
    }

    fn next_deadline(&self) -> Call<u64> {
        let Some((_, offset)) = &self.clock else {
            return Err(Error::invalid("the stack has a thread, which keeps its deadlines"));
        };
        if self.events.driver_is_woken() {
            return Ok(0);
        }
        match Instant::from_nanos(self.next.load(Ordering::Relaxed)) {
            Instant::NEVER => Ok(u64::MAX),
            Instant::ZERO => Ok(0),
            at => Ok(offset.to_program(at)),
        }
    }

    /// End the stack: waiting calls return, and its sockets fail.
    fn end(&self) {
        self.net.shut_down();
        self.has_thread.store(false, Ordering::Release);
        let runs = core::mem::replace(&mut *self.runs(), Runs::Ended);
        if let Runs::Thread(thread) = runs
            && let Err(error) = thread.stop()
        {
            self.hooks.log(WS_LOG_ERROR, &format!("the stack's thread ended badly: {error}"));
        }
        self.lookups.clear();
    }
}

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
    let core = stack::Stack::new(settings);
    let (net, runs, clock) = if is_polled {
        let clock = VirtualClock::default();
        let (net, stepped) = Net::stepped(core, clock.clone());
        (net, Runs::Polls(stepped), Some((clock, Arc::new(Offset::default()))))
    } else {
        let (net, driver) = Net::new(core);
        (net, Runs::Nothing(driver), None)
    };
    let time = match &clock {
        Some((clock, offset)) => FrameClock::Virtual(clock.clone(), offset.clone()),
        None => FrameClock::System(SystemTime::now()),
    };
    let stack = Arc::new(Stack {
        net,
        events: Events::new(is_polled)?,
        hooks: Arc::new(Hooks::new(config.log, config.trace, config.user, time)),
        lookups: Lookups::default(),
        clock,
        has_thread: AtomicBool::new(false),
        next: AtomicU64::new(0),
        runs: Mutex::new(runs),
        bells: Mutex::default(),
    });
    handles::add(|_| Entry::Stack(stack))
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

/// Run the stack in a thread of the library. From now on calls may wait. Ports, addresses and
/// sockets may be made before and after.
///
/// Returns 0; -EALREADY if it runs, -EINVAL if it is polled, -EAGAIN if the system has no thread.
#[unsafe(no_mangle)]
pub extern "C" fn ws_stack_start(stack: ws_stack) -> c_int {
    entry::status(|| handles::stack(stack)?.start())
}

/// Free a stack: its thread ends, its sockets become stale, calls that wait in other threads return
/// errors, devices are released. Data that was not sent is lost: to send it, shut the connections
/// down and wait for the peers' ends first.
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
/// at the time now_ns. The time is in nanoseconds, from any beginning, and never goes back; between
/// two polls it stands still. The stack sends what calls write at once, without waiting for a poll.
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
