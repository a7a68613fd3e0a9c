//! The host out of descriptors.

use std::fs::File;
use std::net::TcpListener;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tcp::State;
use wirespeed_outside::{RESERVED, descriptors};

use crate::world::{SERVER, World, at, set_up};

pub(crate) const CASES: &[testbed::Case] = &[
    ("beyond its sockets a host answers no SYN until there is room", &[], own_limit),
    ("without descriptors of the kernel a SYN has no answer until there is one", &[], kernel_limit),
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

fn kernel_limit() {
    set_up();
    let before = getrlimit(Resource::Nofile);
    let world = World::new();
    let used = std::cell::RefCell::new(Vec::new());
    let run_out = || {
        setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..before }).expect("it is less");
        used.borrow_mut().extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    };
    let recover = || {
        setrlimit(Resource::Nofile, before).expect("it was so");
        used.borrow_mut().clear();
    };
    let world = third_waits(world, run_out, recover);
    assert_eq!(world.host.counts().without_descriptor, 1);
}

fn raised() {
    let before = getrlimit(Resource::Nofile);
    let lower = Rlimit { current: Some(256), ..before };
    setrlimit(Resource::Nofile, lower).expect("it is less");
    let sockets = descriptors();
    let after = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, before).expect("it was so");
    assert_eq!(after.current, before.maximum);
    let expected = before.maximum.map_or(usize::MAX, |limit| limit as usize);
    assert_eq!(sockets, expected - RESERVED);
}
