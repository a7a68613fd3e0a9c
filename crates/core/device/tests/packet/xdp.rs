//! AF_XDP sockets on the ends of a veth pair, in copy mode, the only one that a veth has.

use base::DropReason;
use mbuf::Pool;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use testbed::{Case, ip};
use wirespeed_device::xdp::{Config, XdpError, XdpSocket};
use wirespeed_device::{Burst, Device};

use crate::pair::{
    KINDS, PATIENCE, dropped, frame, number, open as open_packet, ours, receive_all, send, up, veth,
};

pub(crate) const CASES: &[Case] = &[
    ("xdp_frames_of_every_size_arrive_whole_and_in_order", &[], sizes),
    ("xdp_what_programs_hold_leaves_the_kernel_its_frames", &[], held),
    ("xdp_queues_have_their_own_frames", &[], queues),
    ("xdp_frames_that_find_no_room_are_counted", &[], losses),
    ("xdp_what_cannot_be_opened_says_why", &[], refusals),
    ("xdp_without_the_privilege_the_error_names_the_command", &[], privilege),
    ("xdp_an_interface_that_is_down_or_deleted_is_told_of", &[], troubles),
    ("xdp_the_program_goes_with_its_socket", &[], program),
];

fn config(name: &str, generic: bool) -> Config {
    Config { generic, ..Config::of(name) }
}

fn open(name: &str, generic: bool) -> XdpSocket {
    XdpSocket::open(&config(name, generic)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Frames of every length, to another AF_XDP socket and to a packet socket.
fn sizes() {
    veth();
    for generic in [true, false] {
        let mut pool = Pool::new(64 << 20);
        let (mut a, mut b) = (open("va", generic), open("vb", generic));
        every_length(&mut a, &mut b, &mut pool);
        drop(b);
        let mut b = open_packet("vb", KINDS[0]);
        every_length(&mut a, &mut b, &mut pool);
        every_length(&mut b, &mut a, &mut pool);
        let long = frame(&mut pool, 0, 1_600);
        send(&mut a, &mut pool, Burst::from_iter([long]));
        assert_eq!(dropped(&a, DropReason::DeviceFrameTooBig), 1);
        assert_eq!(pool.outstanding(), 0);
    }
}

/// Send more frames in all than the rings hold, in parts that fit.
fn every_length(a: &mut impl Device, b: &mut impl Device, pool: &mut Pool) {
    let len = |n: u16| 60 + usize::from(n % 160) * 9;
    for part in 0..150u16 {
        let numbers = part * 20..part * 20 + 20;
        let burst: Burst = numbers.clone().map(|n| frame(pool, n, len(n))).collect();
        send(a, pool, burst);
        let got = receive_all(b, pool, 20, ours);
        assert!(got.iter().map(number).eq(numbers), "{:?} {:?}", a.drops(), b.drops());
        for frame in got {
            let n = number(&frame);
            assert_eq!(frame.len(), len(n));
            assert!(frame.as_slice()[16..].iter().all(|&byte| byte == n as u8));
            pool.free(frame);
        }
    }
}

/// The test keeps more frames than the shared memory has, and still receives more.
fn held() {
    const HELD: u16 = 6_000;
    veth();
    let mut pool = Pool::new(64 << 20);
    let (mut a, mut b) = (open("va", false), open("vb", false));
    let mut kept = Vec::new();
    for part in 0..HELD / 20 {
        let numbers = part * 20..part * 20 + 20;
        let burst: Burst = numbers.clone().map(|n| frame(&mut pool, n, 300)).collect();
        send(&mut a, &mut pool, burst);
        kept.extend(receive_all(&mut b, &mut pool, 20, ours));
        assert_eq!(kept.len(), usize::from(numbers.end), "{:?} {:?}", a.drops(), b.drops());
    }
    let copied = kept.iter().filter(|frame| pool.owns(frame)).count();
    assert!((1..kept.len()).contains(&copied), "{copied} of {}: first in place", kept.len());
    drop((a, b));
    for (n, frame) in (0..).zip(&kept) {
        assert_eq!((number(frame), frame.len()), (n, 300), "kept frames outlive the socket");
        assert!(frame.as_slice()[16..].iter().all(|&byte| byte == n as u8));
    }
    kept.into_iter().for_each(|frame| pool.free(frame));
    pool.flush();
    assert_eq!(pool.outstanding(), 0);
}

fn queues() {
    let queues = "numrxqueues 4 numtxqueues 4";
    assert!(ip(&format!("link add va {queues} type veth peer name vb {queues}")));
    up();
    let mut pool = Pool::new(64 << 20);
    // With generic XDP a veth does not know the queue any more, so use native XDP.
    let open = |name| XdpSocket::open_queues(&config(name, false), 4).expect("root may");
    let (mut a, mut b) = (open("va"), open("vb"));
    for (n, queue) in a.iter_mut().enumerate() {
        assert_eq!(queue.queue(), n as u32);
        let burst = (0..10).map(|_| frame(&mut pool, n as u16, 100)).collect();
        send(queue, &mut pool, burst);
    }
    for (n, queue) in b.iter_mut().enumerate() {
        let got = receive_all(queue, &mut pool, 10, ours);
        assert_eq!(got.len(), 10, "{:?}", queue.drops());
        assert!(got.iter().all(|frame| number(frame) == n as u16), "its own alone");
    }
}

fn losses() {
    veth();
    let mut pool = Pool::new(64 << 20);
    let (mut a, mut b) = (open("va", true), open("vb", true));
    for part in 0..50 {
        let burst = (0..60).map(|n| frame(&mut pool, part * 60 + n, 100)).collect();
        send(&mut a, &mut pool, burst);
    }
    // The last frames are sent only when further calls are made.
    let (start, mut into, mut seen) = (std::time::Instant::now(), Burst::new(), 0);
    while seen + dropped(&b, DropReason::DeviceRingFull) + dropped(&a, DropReason::DeviceQueueFull)
        < 3_000
        && start.elapsed() < PATIENCE
    {
        a.rx_burst(&mut pool, &mut into);
        into.drain(..).for_each(|frame| pool.free(frame));
        b.rx_burst(&mut pool, &mut into);
        seen += into.iter().filter(|frame| ours(frame.as_slice())).count() as u64;
        into.drain(..).for_each(|frame| pool.free(frame));
    }
    let lost = dropped(&b, DropReason::DeviceRingFull);
    assert!(lost > 0 && seen < 3_000, "{seen} came, {:?} {:?}", a.drops(), b.drops());
    assert!(
        seen + lost + dropped(&a, DropReason::DeviceQueueFull) >= 3_000,
        "{seen} {:?}",
        b.drops()
    );
}

fn refusals() {
    veth();
    let refused = |config: &Config, count| {
        XdpSocket::open_queues(config, count).err().expect("it is refused")
    };
    let error = refused(&config("none", true), 1);
    assert_eq!(error, XdpError::NoInterface { name: "none".to_owned() });
    for count in [2, 1000] {
        let error = refused(&config("va", true), count);
        assert!(matches!(error, XdpError::NoQueue { .. }), "{error}");
    }
    let error = refused(&config("lo", true), 1);
    assert_eq!(error, XdpError::NotEthernet { name: "lo".to_owned() });
    let error = refused(&Config { zero_copy: true, ..config("va", true) }, 1);
    assert!(matches!(error, XdpError::NoQueue { .. }), "a veth has no zero copy: {error}");
    let first = open("va", true);
    let error = refused(&config("va", true), 1);
    assert!(error.to_string().contains("ip link set va xdp off"), "{error}");
    drop(first);
    assert!(ip("link set va mtu 9000"));
    let error = refused(&config("va", true), 1);
    assert!(error.to_string().contains("ip link set va mtu 3818"), "{error}");
    assert!(ip("link set va mtu 3818"));
    open("va", true);
}

fn privilege() {
    veth();
    // Only this thread gives up its privileges.
    let mut sets = capabilities(None).expect("they can be read");
    sets.effective.remove(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN);
    sets.effective.remove(CapabilitySet::BPF | CapabilitySet::NET_RAW);
    set_capabilities(None, sets).expect("less is always allowed");
    let error = XdpSocket::open(&config("va", true)).err().expect("it takes privileges");
    assert_eq!(error, XdpError::NoPrivilege);
    assert!(error.to_string().contains("cap_bpf"), "{error}");
}

fn troubles() {
    veth();
    let mut pool = Pool::new(16 << 20);
    let (mut a, mut b) = (open("va", true), open("vb", true));
    let one = |a: &mut XdpSocket, pool: &mut Pool| {
        let burst = Burst::from_iter([frame(pool, 1, 100)]);
        send(a, pool, burst);
    };
    let mut burst = Burst::new();
    crate::pair::passes(&mut a, &mut b, &mut pool);
    assert!(ip("link set va down"));
    a.rx_burst(&mut pool, &mut burst);
    one(&mut a, &mut pool);
    one(&mut a, &mut pool);
    assert!(!a.link_up() && !a.is_gone(), "{:?}", a.drops());
    assert!(dropped(&a, DropReason::DeviceLinkDown) > 0);
    let why = a.failure().expect("a reason").to_string();
    assert!(why.contains("sudo ip link set va up"), "{why}");
    assert!(!a.rx_ready(), "nobody spins on a dead device");
    assert!(ip("link set va up"));
    crate::pair::passes(&mut a, &mut b, &mut pool);
    assert!(a.link_up());
    assert!(ip("link delete dev va"));
    a.rx_burst(&mut pool, &mut burst);
    one(&mut a, &mut pool);
    assert!(a.is_gone() && a.as_fd().is_none() && !a.rx_ready() && a.tx_ready());
    let why = a.failure().expect("a reason").to_string();
    assert!(why.contains("interface 'va' was deleted"), "{why}");
    burst.clear();
    assert_eq!(pool.outstanding(), 0);
}

fn program() {
    veth();
    let has = || {
        let shown = std::process::Command::new("ip").args(["link", "show", "va"]).output();
        String::from_utf8_lossy(&shown.expect("it was found").stdout).contains("prog/xdp")
    };
    let port = open("va", true);
    assert!(has());
    assert_eq!(port.mac(), open_packet("va", KINDS[0]).mac());
    drop(port);
    assert!(!has());
}
