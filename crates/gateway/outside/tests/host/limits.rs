//! The host out of descriptors.

use std::fs::File;
use std::net::{TcpListener, TcpStream};

use base::Instant;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tcp::State;
use wirespeed_outside::{Host, RESERVED, descriptors, raise_descriptors};

use crate::world::{SERVER, World, at, set_up};

pub(crate) const CASES: &[testbed::Case] = &[
    ("beyond its sockets a host answers no SYN until there is room", &[], own_limit),
    ("without descriptors of the kernel a SYN has no answer until there is one", &[], kernel_limit),
    ("a client that found no descriptor has its turn when there is one", &[], client_waits),
    ("the limit of descriptors is raised, and some are left", &[], raised),
];

/// Two flows fit; the third has its turn when one of them ends.
fn third_waits(mut world: World, run_out: impl FnOnce(), recover: impl FnOnce()) -> World {
    let listener = TcpListener::bind(at(SERVER, 0)).expect("a free port");
    let to = listener.local_addr().expect("it is bound");
    let first = world.open(to);
    let (there, _) = listener.accept().expect("the gateway is connected");
    let second = world.open(to);
    run_out();
    let third = world.connect(to);
    world.until(|w| w.engine.counts().outside_full == 1);
    assert_eq!(world.state(third), (State::SynSent, None));
    assert_eq!(world.state(second), (State::Established, None));
    recover();
    drop(there);
    world.guest.tcp_close(first);
    // Its SYN comes again after a second.
    world.until(|w| w.state(third) == (State::Established, None));
    world
}

fn own_limit() {
    set_up();
    let world = World::with(gateway::Config::default(), 2);
    let world = third_waits(world, || (), || ());
    assert_eq!(world.host.counts().without_descriptor, 1);
}

/// The process has no descriptor left, until this is dropped.
struct RunOut {
    used: Vec<File>,
    before: Rlimit,
}

impl RunOut {
    fn new() -> RunOut {
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..before }).expect("it is less");
        let used = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        RunOut { used, before }
    }
}

impl Drop for RunOut {
    fn drop(&mut self) {
        self.used.clear();
        setrlimit(Resource::Nofile, self.before).expect("it was so");
    }
}

fn kernel_limit() {
    set_up();
    let world = World::new();
    let used = std::cell::Cell::new(None);
    let run_out = || used.set(Some(RunOut::new()));
    let recover = || drop(used.take());
    let world = third_waits(world, run_out, recover);
    assert_eq!(world.host.counts().without_descriptor, 1);
}

fn client_waits() {
    set_up();
    let mut host = Host::new(8).expect("a descriptor");
    let id = host.listen(&format!("{SERVER}/0").parse().expect("a listener"));
    let to = host.listens_at(id.expect("a free port")).expect("it listens");
    let _client = TcpStream::connect(to).expect("the host listens");
    let run_out = RunOut::new();
    for turn in 0..3 {
        let (until, began) = (Instant::from_nanos(2_000_000), std::time::Instant::now());
        host.wait(Instant::ZERO, until).expect("the descriptors are ours");
        // The first wait hears of the client; the others are not cut short.
        assert!(turn == 0 || began.elapsed().as_nanos() >= 2_000_000, "turn {turn} is busy");
        assert_eq!(host.next_wake(), None);
        assert!(host.accept().is_none(), "in turn {turn}");
    }
    drop(run_out);
    host.wait(Instant::ZERO, Instant::ZERO).expect("the descriptors are ours");
    assert!(host.accept().is_some());
}

fn raised() {
    let before = getrlimit(Resource::Nofile);
    let lower = Rlimit { current: Some(256), ..before };
    setrlimit(Resource::Nofile, lower).expect("it is less");
    assert_eq!(descriptors(), 256 - RESERVED);
    raise_descriptors();
    let sockets = descriptors();
    let after = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, before).expect("it was so");
    assert_eq!(after.current, before.maximum);
    let expected = before.maximum.map_or(usize::MAX, |limit| limit as usize);
    assert_eq!(sockets, expected - RESERVED);
}
