//! A gateway in a thread of the caller's process.
//!
//! Called by: programs that give virtual machines a network. There is no jail: the gateway has the
//! privileges of the process. It changes nothing that the process shares: no signal handler, no
//! working directory, no limit. Its threads block all signals, which the other threads get.

use core::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use base::Duration;
use nix::sys::signal::SigSet;
use rustix::event::{EventfdFlags, eventfd};

use super::config::{Config, Log, Say};
use super::ends::When;
use super::machine::{Given, Machine, Owner};
use super::memory::in_memory;
use super::messages::Messages;
use super::networks::Network;
use super::publish::Publish;
use super::rules::Texts;
use super::servers;
use super::settings::{Given as What, Settings};
use super::values::Dns;
use super::watch::Lines;

/// Why a gateway does not run. The text says what to do.
#[derive(Debug)]
pub enum Error {
    /// The configuration has a mistake. Nothing was begun.
    Config(String),
    /// The system refused something, or a link is not what it is said to be.
    Begin(String),
    /// The gateway ran, and failed.
    Ended(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Config(why) | Error::Begin(why) | Error::Ended(why)) = self;
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
        let networks = settings.networks.clone();
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let end = end.context("no descriptor is left: raise `ulimit -n`").map_err(refused)?;
        let order = order(config, settings, &texts, &end).map_err(refused)?;
        let (begun, has_begun) = sync_channel(1);
        let thread = thread::Builder::new().name("gateway".to_owned());
        let thread = thread.spawn(move || run(order, &begun));
        let thread = thread.context("no thread can be started").map_err(refused)?;
        match has_begun.recv() {
            Ok(Ok(())) => Ok(Gateway { networks, end, thread: Some(thread) }),
            Ok(Err(why)) => {
                let _ = thread.join();
                Err(refused(why))
            }
            Err(_) => Err(match ended(thread) {
                Err(why) => Error::Begin(why.to_string()),
                Ok(()) => Error::Begin("the gateway did not begin: start another one".to_owned()),
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
    Error::Begin(format!("the gateway cannot begin: {why:#}"))
}

/// Open what the gateway uses.
fn order(config: Config, settings: Settings, texts: &Texts, end: &OwnedFd) -> Result<Order> {
    let rules = texts.known_rules()?;
    let mut given = vec![(What::Policy, in_memory(&serde_json::to_vec(texts)?)?)];
    given.push((What::End(When::Ready), end.try_clone().context("no descriptor is left")?));
    for publish in &rules.publish {
        let sockets = Publish::from(publish).sockets()?.into_iter();
        given.extend(sockets.map(|(what, fd)| (What::Published(what), fd)));
    }
    for vm in config.vms {
        given.push((What::Machine(vm.connection()?), vm.fd));
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
        SigSet::all().thread_block().context("signals cannot be blocked")?;
        if follows {
            let followed = servers::follow()?;
            resolv_conf = Some(followed.thread);
            settings.given.push(What::Servers);
            descriptors.push(followed.news);
        }
        let lines = log.map(|lines| lines as Lines);
        let nothing = (None, Vec::new(), Vec::new());
        let (link, inside, tables) = nothing;
        let given = Given { link, descriptors, inside, tables, lines };
        Machine::begin(&settings, given, Messages { say, program: None })
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
