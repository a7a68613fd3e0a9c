//! [`Network`]: the hosts and links of a run, and [`Core`], which holds their state and steps their
//! stacks.
//!
//! Called by: the main future, for hosts and links; `pump.rs`, for steps. One thread runs all of it,
//! so the lock of the state is never waited for. It is not held while a program's code runs.

use core::net::{IpAddr, Ipv4Addr};
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base::Instant;
use device::capture::CaptureError;
use net::{Net, Next, Stepped};
use stack::{Stack, StackConfig, VirtualClock};

use crate::host::{Host, Machine};
use crate::idle::{Flag, Idle};
use crate::link::{Cable, Link, Path};
use crate::record::Record;

/// The most hosts of a world: their addresses are 10.0.0.1 and so on.
pub(crate) const HOSTS_MAX: usize = 1 << 16;

/// How often the stacks are stepped at one instant. More means that two of them never come to rest.
const ROUNDS_MAX: usize = 1_000_000;

/// The hosts and links of a run. Cheap to clone.
#[derive(Clone)]
pub struct Network(Arc<Core>);

impl Network {
    pub(crate) fn new(core: Arc<Core>) -> Network {
        Network(core)
    }

    /// A new host, without a link.
    ///
    /// # Errors
    /// There are 65,535 hosts.
    pub fn host(&self, name: &str) -> io::Result<Host> {
        let mut state = self.0.state();
        let number = state.machines.len();
        if number + 1 >= HOSTS_MAX {
            let text = "a world has at most 65,535 hosts: divide them into several worlds";
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        let [high, low] = ((number + 1) as u16).to_be_bytes();
        let addr = IpAddr::V4(Ipv4Addr::new(10, 0, high, low));
        state.machines.push(Machine::new(name, addr));
        let station = self.0.boot(number, 0);
        state.stations.push(Some(station));
        drop(state);
        self.0.idle.wake();
        Ok(Host::new(self.0.clone(), number))
    }

    /// Join two hosts by a link: `path` is a [`Path`] for both directions, or one for each.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: the hosts are one host, are joined already, or one of them
    /// has crashed. A capture file cannot be made.
    pub fn link(&self, a: &Host, b: &Host, path: impl Into<Paths>) -> io::Result<Link> {
        let number = Cable::join(&self.0, [a.number(), b.number()], path.into())?;
        Ok(Link::new(self.0.clone(), number))
    }

    /// Two new hosts, called `client` and `server`, and a link between them.
    ///
    /// # Errors
    /// As [`Network::host`] and [`Network::link`].
    pub fn pair(&self, path: impl Into<Paths>) -> io::Result<(Host, Host)> {
        let (client, server) = (self.host("client")?, self.host("server")?);
        self.link(&client, &server, path)?;
        Ok((client, server))
    }

    /// New hosts with these names, each joined to each other one by a link of its own.
    ///
    /// # Errors
    /// As [`Network::host`] and [`Network::link`].
    pub fn mesh(&self, names: &[&str], path: impl Into<Paths>) -> io::Result<Vec<Host>> {
        let path = path.into();
        let hosts: Vec<Host> =
            names.iter().map(|name| self.host(name)).collect::<Result<_, _>>()?;
        for (index, a) in hosts.iter().enumerate() {
            for b in &hosts[index + 1..] {
                self.link(a, b, path.clone())?;
            }
        }
        Ok(hosts)
    }

    /// The link between two hosts.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: there is none.
    pub fn between(&self, a: &Host, b: &Host) -> io::Result<Link> {
        let number = self.0.state().cable_between([a.number(), b.number()]);
        let text = "no link between these hosts: call `Network::link` first";
        let number = number.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, text))?;
        Ok(Link::new(self.0.clone(), number))
    }

    /// The virtual time since the run began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.clock.now().as_nanos() - 1)
    }
}

/// The two directions of a link: from its first host to the second one, and back.
#[derive(Clone, Debug)]
pub struct Paths(pub(crate) [Path; 2]);

impl From<Path> for Paths {
    fn from(both: Path) -> Paths {
        Paths([both.clone(), both])
    }
}

impl From<[Path; 2]> for Paths {
    fn from(each: [Path; 2]) -> Paths {
        Paths(each)
    }
}

/// A stack that runs.
pub(crate) struct Station {
    pub(crate) net: Net,
    steps: Stepped,
    flag: Arc<Flag>,
    waker: Waker,
    next: Next,
}

/// The state of a network; machines and stations have the same numbers.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) machines: Vec<Machine>,
    /// `None` while a machine is down.
    pub(crate) stations: Vec<Option<Station>>,
    pub(crate) cables: Vec<Cable>,
}

impl State {
    pub(crate) fn cable_between(&self, [a, b]: [usize; 2]) -> Option<usize> {
        self.cables.iter().position(|cable| cable.ends == [a, b] || cable.ends == [b, a])
    }
}

/// What a run consists of, besides its tasks.
pub(crate) struct Core {
    pub(crate) clock: VirtualClock,
    pub(crate) idle: Idle,
    pub(crate) record: Mutex<Record>,
    seed: u64,
    state: Mutex<State>,
    /// tokio's clock when the run began.
    epoch: OnceLock<tokio::time::Instant>,
    /// The time before tokio advanced its clock the last time.
    before_last_advance_ns: AtomicU64,
}

impl Core {
    pub(crate) fn new(seed: u64, digest: bool, captures: Option<PathBuf>) -> Core {
        let clock = VirtualClock::default();
        Core {
            record: Mutex::new(Record::new(digest, captures, clock.clone())),
            clock,
            idle: Idle::default(),
            seed,
            state: Mutex::default(),
            epoch: OnceLock::new(),
            before_last_advance_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remember tokio's clock; called inside the runtime.
    pub(crate) fn begin(&self) {
        self.epoch.get_or_init(tokio::time::Instant::now);
    }

    /// The time of tokio's clock since the run began; called inside the runtime.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.epoch.get().map_or(0, |epoch| epoch.elapsed().as_nanos() as u64)
    }

    /// Advance the virtual clock to the time of tokio's clock.
    pub(crate) fn follow_tokio(&self) {
        let (now_ns, before_ns) = (self.elapsed_ns(), self.clock.now().as_nanos() - 1);
        if now_ns > before_ns {
            self.before_last_advance_ns.store(before_ns, Ordering::Relaxed);
            self.clock.advance_to(Instant::from_nanos(now_ns + 1));
        }
    }

    pub(crate) fn before_last_advance(&self) -> Duration {
        Duration::from_nanos(self.before_last_advance_ns.load(Ordering::Relaxed))
    }

    /// A seed for one part of the world.
    pub(crate) fn seed_of(&self, part: u64) -> u64 {
        // splitmix64.
        let mut z = self.seed.wrapping_add((part + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The stack of a machine that has been started `boots` times before.
    pub(crate) fn boot(&self, machine: usize, boots: u32) -> Station {
        let part = (u64::from(boots) << 32) | ((machine as u64) << 2);
        let seed = [self.seed_of(part), self.seed_of(part + 1)];
        let config = StackConfig { solicited_node_reports: false, ..StackConfig::new(seed) };
        let (net, steps) = Net::stepped(Stack::new(config), self.clock.clone());
        let flag = self.idle.flag();
        Station { net, steps, waker: Waker::from(flag.clone()), flag, next: Next::Again }
    }

    /// Step all stacks until none has work at the present time. Returns the time of the next event.
    ///
    /// # Panics
    /// If the stacks do not come to rest, which is a defect of a stack or device.
    pub(crate) fn settle(&self) -> Instant {
        let mut state = self.state();
        let now = self.clock.now();
        for _ in 0..ROUNDS_MAX {
            let mut next = Instant::NEVER;
            let mut has_worked = false;
            for station in state.stations.iter_mut().flatten() {
                let is_due = match station.next {
                    Next::Again => true,
                    Next::At(at) => at <= now,
                    Next::WhenWoken | Next::Ended => false,
                };
                if station.flag.take() || is_due {
                    station.next = station.steps.step(&station.waker);
                    has_worked = true;
                }
                if let Next::At(at) = station.next {
                    next = next.min(at);
                }
            }
            if !has_worked {
                self.idle.take_woken();
                return next;
            }
        }
        panic!("the stacks do not come to rest at {now:?}: report this with the seed");
    }

    /// Complete the record at the end of a run: the number of frames, and their digest.
    ///
    /// # Errors
    /// A capture file could not be written.
    pub(crate) fn end(&self) -> Result<(u64, u64), CaptureError> {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.stop();
        for station in self.state().stations.iter().flatten() {
            // A stack that has ended has no frames to complete.
            let _ = station.net.with_stack(|stack| stack.poll(self.clock.now()));
        }
        record.total()
    }
}
