//! How interfaces fail, and that each error tells what to do.

use base::DropReason;
use mbuf::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use testbed::{Case, ip, until};
use wirespeed_device::packet::{Config, Fanout, PacketError, PacketSocket, Receive};
use wirespeed_device::{Burst, Device};

use crate::pair::{KINDS, dropped, frame, open, passes, send, veth};

const LIMIT: core::time::Duration = core::time::Duration::from_secs(10);

pub(crate) const CASES: &[Case] = &[
    ("what_cannot_be_opened_says_why", &[], refusals),
    ("without_the_privilege_the_error_names_the_command", &[], privilege),
    ("an_interface_that_is_down_loses_frames_until_it_is_up", &[], down),
    ("a_carrier_that_is_lost_is_noticed_by_asking", &[], unplugged),
    ("an_interface_that_was_deleted_is_used_when_it_returns", &[], deleted),
    ("a_queue_of_a_group_whose_interface_is_deleted_is_gone", &[], grouped),
];

fn refusals() {
    veth();
    let open = |name: &str| PacketSocket::open(&Config::of(name)).err().map(|e| e.to_string());
    for name in ["none", "a-name-of-more-than-15-bytes", ""] {
        let error = open(name).expect("there is none");
        assert!(error.contains("no interface") && error.contains("`ip link`"), "{error}");
    }
    for receive in [
        Receive::Slots { count: 1 },
        Receive::Slots { count: 100_000 },
        Receive::Blocks { count: 1, bytes: 128 << 10, wait_ms: 1 },
        Receive::Blocks { count: 4, bytes: 64 << 10, wait_ms: 1 },
        Receive::Blocks { count: 4, bytes: 130 << 10, wait_ms: 1 },
        Receive::Blocks { count: 4, bytes: 128 << 10, wait_ms: 0 },
    ] {
        let config = Config { receive, ..Config::of("va") };
        let error = PacketSocket::open(&config).err().expect("no such ring");
        assert!(matches!(error, PacketError::BadRing { .. }), "{receive:?}: {error}");
    }
    for count in [2, 3, 13, 15, 100] {
        let receive = Receive::Slots { count };
        PacketSocket::open(&Config { receive, ..Config::of("va") }).expect("a good ring");
    }
    assert!(ip("link set va down"));
    let error = PacketSocket::open_queues(&Config::of("va"), Fanout::Hash, 2).err();
    assert_eq!(error, Some(PacketError::Down { name: "va".to_owned() }));
}

fn privilege() {
    veth();
    // Only this thread gives up its privileges.
    let mut sets = capabilities(None).expect("they can be read");
    sets.effective.remove(CapabilitySet::NET_RAW);
    set_capabilities(None, sets).expect("less is always allowed");
    let error = PacketSocket::open(&Config::of("va")).err().expect("it takes a privilege");
    assert_eq!(error, PacketError::NoPrivilege);
    assert!(error.to_string().contains("setcap cap_net_raw+ep"), "{error}");
}

/// Does the device's descriptor have no event?
fn quiet(device: &impl Device) -> bool {
    let fd = device.as_fd().expect("it has one");
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)) == Ok(0)
}

/// Let the device find out the state of the interface.
fn look(device: &mut PacketSocket, pool: &mut Pool) {
    let mut burst = Burst::new();
    device.rx_burst(pool, &mut burst);
    burst.drain(..).for_each(|frame| pool.free(frame));
}

fn down() {
    veth();
    let mut pool = Pool::new(16 << 20);
    for receive in KINDS {
        let (mut a, mut b) = (open("va", receive), open("vb", receive));
        passes(&mut a, &mut b, &mut pool);
        for send_first in [true, false] {
            let before = dropped(&a, DropReason::DeviceLinkDown);
            assert!(ip("link set va down"));
            if !send_first {
                look(&mut a, &mut pool);
            }
            let burst = (0..3).map(|n| frame(&mut pool, n, 100)).collect();
            send(&mut a, &mut pool, burst);
            assert_eq!(dropped(&a, DropReason::DeviceLinkDown), before + 3);
            assert!(!a.link_up() && !a.is_gone());
            let why = a.failure().expect("a reason").to_string();
            assert!(why.contains("sudo ip link set va up"), "{why}");
            look(&mut a, &mut pool);
            assert!(quiet(&a), "nobody spins on a dead device");
            assert!(ip("link set va up"));
            assert!(a.rx_ready() && !quiet(&a), "its return is news");
            look(&mut a, &mut pool);
            assert!(a.link_up() && a.failure().is_none());
            passes(&mut a, &mut b, &mut pool);
            passes(&mut b, &mut a, &mut pool);
        }
    }
    assert_eq!(pool.outstanding(), 0);
    assert!(ip("link set va down"));
    let mut a = open("va", KINDS[0]);
    assert!(!a.link_up(), "opened while it is down");
    let mut b = open("vb", KINDS[0]);
    assert!(ip("link set va up"));
    look(&mut a, &mut pool);
    passes(&mut b, &mut a, &mut pool);
}

fn unplugged() {
    veth();
    let mut pool = Pool::new(16 << 20);
    let (mut a, mut b) = (open("va", KINDS[0]), open("vb", KINDS[0]));
    assert!(a.check_link());
    for _ in 0..2 {
        assert!(ip("link set vb down"));
        assert!(until(LIMIT, || !a.check_link()) && !a.link_up() && !a.is_gone());
        let why = a.failure().expect("a reason").to_string();
        assert!(why.contains("'va' has no carrier"), "{why}");
        assert!(ip("link set vb up"));
        assert!(until(LIMIT, || a.check_link()) && a.failure().is_none());
    }
    look(&mut b, &mut pool);
    passes(&mut a, &mut b, &mut pool);
}

fn deleted() {
    veth();
    let mut pool = Pool::new(16 << 20);
    for receive in KINDS {
        let mut a = open("va", receive);
        let mut b = open("vb", receive);
        passes(&mut a, &mut b, &mut pool);
        assert!(ip("link delete dev va"));
        look(&mut a, &mut pool);
        assert!(!a.link_up() && !a.is_gone());
        let why = a.failure().expect("a reason").to_string();
        assert!(why.contains("interface 'va' is not there"), "{why}");
        let burst = Burst::from_iter([frame(&mut pool, 1, 100)]);
        send(&mut a, &mut pool, burst);
        assert_eq!(dropped(&a, DropReason::DeviceLinkDown), 1);
        assert!(quiet(&a));
        veth();
        assert!(a.rx_ready() && !quiet(&a), "its return is news");
        look(&mut a, &mut pool);
        look(&mut b, &mut pool);
        passes(&mut a, &mut b, &mut pool);
        passes(&mut b, &mut a, &mut pool);
        assert_eq!(pool.outstanding(), 0);
    }
}

fn grouped() {
    veth();
    let mut pool = Pool::new(16 << 20);
    let mut queues =
        PacketSocket::open_queues(&Config::of("va"), Fanout::RoundRobin, 2).expect("root may");
    assert!(ip("link delete dev va"));
    look(&mut queues[0], &mut pool);
    assert!(queues[0].is_gone() && queues[0].as_fd().is_none() && !queues[0].rx_ready());
    let why = queues[0].failure().expect("a reason").to_string();
    assert!(why.contains("Open it again"), "{why}");
    veth();
    look(&mut queues[0], &mut pool);
    assert!(queues[0].is_gone());
}
