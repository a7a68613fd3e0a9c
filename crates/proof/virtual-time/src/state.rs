//! The state of a run: its hosts, its links, its clock. [`Core`] steps the stacks.
//!
//! Called by: all others of this crate; `pump.rs`, for steps. One thread runs all of it, so the
//! lock of the state is never waited for. It is not held while a program's code runs.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::task::Waker;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base::{Cidr, Instant, LinkKind};
use device::Device;
use device::capture::CaptureError;
use device::mem::{self, Mem};
use link::{Settings as Path, Shape};
use net::{Net, Next, Stepped};
use stack::{PortConfig, PortId, Stack, StackConfig, VirtualClock};
use tokio::task::AbortHandle;

use crate::idle::{Flag, Idle};
use crate::record::Record;

/// How often the stacks are stepped at one instant. More means that two of them never come to rest.
const ROUNDS_MAX: usize = 1_000_000;

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
    /// The other end of the port that has the host's address while there is no link.
    _unused: Mem,
}

/// A machine: what stays of a host while it is down.
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
    pub(crate) boots: u32,
    pub(crate) tasks: Vec<AbortHandle>,
}

impl Machine {
    /// The machine with this number: 0 has the addresses 10.0.0.1 and fd00::1.
    pub(crate) fn new(name: &str, number: u16) -> Machine {
        let last = number + 1;
        let [high, low] = last.to_be_bytes();
        Machine {
            name: name.to_owned(),
            v4: Ipv4Addr::new(10, 0, high, low),
            v6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last),
            boots: 0,
            tasks: Vec::new(),
        }
    }

    pub(crate) fn addresses(&self) -> [Cidr; 2] {
        [IpAddr::V4(self.v4), IpAddr::V6(self.v6)].map(Cidr::host)
    }
}

/// A link between two hosts.
pub(crate) struct Cable {
    pub(crate) ends: [usize; 2],
    /// The paths, for the time when the link is not cut.
    pub(crate) paths: [Path; 2],
    pub(crate) is_cut: bool,
    pub(crate) ports: [Option<PortId>; 2],
    /// The devices of ends that are down. They stay, so that the peers notice nothing.
    pub(crate) unplugged: [Option<Box<dyn Device>>; 2],
    pub(crate) shapes: [Shape; 2],
    /// How often the wire was made again.
    pub(crate) generation: u64,
}

impl Cable {
    /// The side at which this machine is.
    pub(crate) fn side_of(&self, machine: usize) -> Option<usize> {
        self.ends.iter().position(|&end| end == machine)
    }
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
        self.clock.advance_to(Instant::from_nanos(self.elapsed_ns() + 1));
    }

    /// A seed for one part of the world.
    pub(crate) fn seed_of(&self, part: u64) -> u64 {
        // splitmix64.
        let mut z = self.seed.wrapping_add((part + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A stack for the machine with this number.
    pub(crate) fn boot(&self, number: usize, machine: &Machine) -> Station {
        let part = (u64::from(machine.boots) << 32) | ((number as u64) << 2);
        let seed = [self.seed_of(part), self.seed_of(part + 1)];
        let config = StackConfig { solicited_node_reports: false, ..StackConfig::new(seed) };
        let mut stack = Stack::new(config);
        let ip = LinkKind::Ip;
        let (port, unused) = mem::pair(&mem::Config { link: ip, ..mem::Config::default() });
        let addresses = machine.addresses().to_vec();
        stack.add_port(Box::new(port), PortConfig { addresses, ..PortConfig::default() });
        let (net, steps) = Net::stepped(stack, self.clock.clone());
        let flag = self.idle.flag();
        let waker = Waker::from(flag.clone());
        Station { net, steps, waker, flag, next: Next::Again, _unused: unused }
    }

    /// Step all stacks until none has work at the present time. Returns whether any had work, and
    /// the time of the next event.
    ///
    /// # Panics
    /// If the stacks do not come to rest, which is a defect of a stack or device.
    pub(crate) fn settle(&self) -> (bool, Instant) {
        let mut state = self.state();
        let now = self.clock.now();
        for round in 0..ROUNDS_MAX {
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
                return (round > 0, next);
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
