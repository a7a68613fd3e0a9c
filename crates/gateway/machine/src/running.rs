//! A gateway in a thread of the caller's process.
//!
//! Called by: programs that give virtual machines a network. There is no jail: the gateway has the
//! privileges of the process. It changes nothing that the process shares: no signal handler, no
//! working directory, no limit. Its threads block the signals that other threads can take.

use core::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};
use base::Duration;
use device::tap::TapError;
use device::vm::VmError;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use policy::{Action, Rules};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::config::{Config, Log, Say};
use super::ends::When;
use super::machine::{Machine, Opened, Owner};
use super::messages::Messages;
use super::networks::Network;
use super::publish::Publish;
use super::rules::Texts;
use super::servers;
use super::settings::{Given, Settings};
use super::taken::in_memory;
use super::values::Dns;
use super::watch::Lines;

const NO_DESCRIPTOR: &str = "no descriptor is left: raise `ulimit -n`";

/// Why a gateway does not run. The text says what to do.
#[derive(Debug)]
pub enum Error {
    /// The configuration has a mistake. Nothing was begun.
    Config(String),
    /// The system refused something, or a link is not what it is said to be.
    Begin {
        /// What happened, and what to do.
        why: String,
        /// The system's error number, if it is the system that refused something.
        errno: Option<i32>,
    },
    /// The gateway ran, and failed.
    Ended(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Config(why) | Error::Begin { why, .. } | Error::Ended(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Error {}

/// A running gateway. It ends with [`Gateway::stop`], or when it is dropped. Several may run in one
/// process.
///
/// ```no_run
/// use std::os::unix::net::UnixListener;
/// use wirespeed_machine::{Config, Gateway, Vm, VmKind};
///
/// let socket = UnixListener::bind("/run/user/1000/vm.sock")?; // QEMU: -netdev stream,server=off
/// let gateway = Gateway::start(Config {
///     policy: "[[rule]]\nallow = ['*.debian.org']\nports = ['80', '443']\n".to_owned(),
///     vms: vec![Vm { kind: VmKind::Stream, fd: socket.into() }],
///     log: Some(Box::new(|line| println!("{line}"))),
///     ..Config::default()
/// })?;
/// // The machine runs.
/// gateway.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gateway {
    networks: Vec<Network>,
    /// An eventfd that ends it.
    end: OwnedFd,
    thread: Option<JoinHandle<Result<()>>>,
}

/// What the thread gets.
struct Order {
    settings: Settings,
    descriptors: Vec<OwnedFd>,
    follows: bool,
    log: Option<Log>,
    say: Option<Say>,
}

impl Gateway {
    /// Start a gateway. It takes packets when this returns.
    ///
    /// # Errors
    /// [`Error::Config`] and [`Error::Begin`]; nothing is left then.
    pub fn start(config: Config) -> Result<Gateway, Error> {
        let settings = config.settings().map_err(invalid)?;
        let texts = Texts::of_text(&config.policy).map_err(invalid)?;
        let rules = texts.known_rules().and_then(asks_nobody).map_err(invalid)?;
        let networks = settings.networks.clone();
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let end = end.context(NO_DESCRIPTOR).map_err(refused)?;
        let order = order(config, settings, &texts, &rules, &end).map_err(refused)?;
        let (begun, has_begun) = sync_channel(1);
        let thread = spawned(move || run(order, &begun)).map_err(refused)?;
        match has_begun.recv() {
            Ok(Ok(())) => Ok(Gateway { networks, end, thread: Some(thread) }),
            Ok(Err(why)) => {
                let _ = thread.join();
                Err(refused(why))
            }
            Err(_) => Err(match ended(thread) {
                Err(why) => did_not_begin(why.to_string()),
                Ok(()) => did_not_begin("the gateway did not begin: start another one".to_owned()),
            }),
        }
    }

    /// The addresses of its networks: the gateway's, the resolver's, the first machine's.
    pub fn networks(&self) -> &[Network] {
        &self.networks
    }

    /// Has it ended by itself? [`Gateway::stop`] says why.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// End it. Its connections and descriptors are closed when this returns.
    ///
    /// # Errors
    /// [`Error::Ended`]: it had failed before.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // A counter that is full is readable all the same.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        if thread.thread().id() == thread::current().id() {
            // A callback of ours drops the gateway, whose thread cannot wait for itself.
            return Ok(());
        }
        ended(thread)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Nobody is left who could be told.
        let _ = self.end();
    }
}

fn invalid(why: anyhow::Error) -> Error {
    Error::Config(format!("{why:#}"))
}

fn refused(why: anyhow::Error) -> Error {
    Error::Begin { errno: errno(&why), why: format!("the gateway cannot begin: {why:#}") }
}

/// The gateway's thread ended without a word, by a defect.
fn did_not_begin(why: String) -> Error {
    Error::Begin { why, errno: Some(Errno::NOTRECOVERABLE.raw_os_error()) }
}

/// The system's error number that is the reason for an error.
fn errno(why: &anyhow::Error) -> Option<i32> {
    why.chain().find_map(|cause| {
        let of_system = || cause.downcast_ref().and_then(io::Error::raw_os_error);
        let of_call = || cause.downcast_ref::<Errno>().map(|errno| errno.raw_os_error());
        let of_tap = || cause.downcast_ref::<TapError>().map(TapError::raw_os_error);
        let of_vm = || cause.downcast_ref::<VmError>().map(VmError::raw_os_error);
        of_system().or_else(of_call).or_else(of_tap).or_else(of_vm)
    })
}

/// The rules, if none of them asks people: `wirespeed policy ask` knows the gateways of tools
/// alone.
fn asks_nobody(rules: Rules) -> Result<Rules> {
    let number = rules.rules.iter().position(|rule| rule.action == Action::Ask);
    if let Some(number) = number {
        let place = rules.place(u16::try_from(number).ok());
        bail!("{place}: nobody can be asked: write allow or deny in place of ask");
    }
    if rules.default == Action::Ask {
        bail!("policy: nobody can be asked: write default = \"allow\" or \"deny\"");
    }
    Ok(rules)
}

/// A thread that gets none of the signals that another thread can take. Those of its own mistakes
/// stay: a handler of the program, such as the one that reports an overflow of a thread's memory,
/// would not be called for a blocked one.
fn spawned(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<JoinHandle<Result<()>>> {
    let mut blocked = SigSet::all();
    for own in [
        Signal::SIGABRT,
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGILL,
        Signal::SIGSEGV,
        Signal::SIGSYS,
        Signal::SIGTRAP,
    ] {
        blocked.remove(own);
    }
    // A thread begins with the mask of the one that starts it.
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let before = before.context("signals cannot be blocked")?;
    let thread = thread::Builder::new().name("gateway".to_owned()).spawn(work);
    before.thread_set_mask().context("signals cannot be unblocked")?;
    thread.context("no thread can be started: raise `ulimit -u`, or stop other gateways")
}

/// Open what the gateway uses.
fn order(
    config: Config,
    settings: Settings,
    texts: &Texts,
    rules: &Rules,
    end: &OwnedFd,
) -> Result<Order> {
    let mut given = vec![(Given::Policy, in_memory(&serde_json::to_vec(texts)?)?)];
    given.push((Given::End(When::Ready), end.try_clone().context(NO_DESCRIPTOR)?));
    for publish in &rules.publish {
        let sockets = Publish::from(publish).sockets()?.into_iter();
        given.extend(sockets.map(|(what, fd)| (Given::Published(what), fd)));
    }
    for vm in config.vms {
        given.push((Given::Machine(vm.connection()?), vm.fd));
    }
    let (given, descriptors) = given.into_iter().unzip();
    let settings = Settings { given, ..settings };
    let follows = config.dns == Dns::Host;
    Ok(Order { settings, descriptors, follows, log: config.log, say: config.say })
}

/// Be the gateway, in its thread.
fn run(order: Order, begun: &SyncSender<Result<()>>) -> Result<()> {
    let Order { mut settings, mut descriptors, follows, log, say } = order;
    let say: Rc<dyn Fn(&str)> = match say {
        Some(say) => Rc::from(say as Box<dyn Fn(&str)>),
        None => Rc::new(|_| {}),
    };
    let mut resolv_conf = None;
    let made = (|| {
        if follows {
            let followed = servers::follow()?;
            resolv_conf = Some(followed.thread);
            settings.given.push(Given::Servers);
            descriptors.push(followed.news);
        }
        let lines = log.map(|lines| lines as Lines);
        let opened = Opened { descriptors, lines, ..Opened::default() };
        Machine::begin(&settings, opened, Messages { say, program: None })
    })();
    let ended = match made {
        Ok(mut machine) => {
            let _ = begun.send(Ok(()));
            let owner = Owner { fd: None, has_ended: &|| false, last: Duration::ZERO };
            machine.run(&owner)
        }
        Err(why) => {
            let _ = begun.send(Err(why));
            Ok(())
        }
    };
    // The machine has closed the other end of this thread's pipe.
    resolv_conf.map(JoinHandle::join);
    ended
}

/// Wait for a thread that has to end.
fn ended(thread: JoinHandle<Result<()>>) -> Result<(), Error> {
    match thread.join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why)) => Err(Error::Ended(format!("the gateway ended: {why:#}; start another one"))),
        Err(_) => Err(Error::Ended(
            "the gateway ended by a panic, of a callback or of its own: report the latter, with \
             the message on standard error"
                .to_owned(),
        )),
    }
}
