//! A veth pair with our packet sockets on one end or on both.

use std::process::Command;
use std::time::{Duration, Instant};

use base::DropReason;
use mbuf::{Mbuf, Pool};
use testbed::ip;
use wirespeed_device::packet::{Config, PacketSocket, Receive};
use wirespeed_device::{Burst, Device};

/// The timeout of a case. It is generous, because it passes only if the case fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The EtherType of our frames, because the kernel also sends frames on a veth.
pub(crate) const OURS: [u8; 2] = [0x88, 0xb5];

/// Both kinds of ring.
pub(crate) const KINDS: [Receive; 2] = [Receive::Slots { count: 32 }, Receive::BLOCKS];

/// `va` and `vb`, both up.
pub(crate) fn veth() {
    assert!(ip("link add va type veth peer name vb"));
    up();
}

/// Bring both ends up, and wait until they carry frames. That takes the kernel a moment, and frames
/// that are sent before are lost.
pub(crate) fn up() {
    assert!(ip("link set va up") && ip("link set vb up"));
    let start = Instant::now();
    let is_up = |name| {
        let shown = Command::new("ip").args(["link", "show", name]).output();
        shown.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("state UP"))
    };
    while !(is_up("va") && is_up("vb")) && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Wait until a frame passes from one device to the other. The frame is sent again until one
/// arrives.
pub(crate) fn passes(from: &mut impl Device, to: &mut impl Device, pool: &mut Pool) {
    let (start, mut burst) = (Instant::now(), Burst::new());
    let mut came = false;
    while !came && start.elapsed() < PATIENCE {
        let sent = Burst::from_iter([frame(pool, 1, 100)]);
        send(from, pool, sent);
        for _ in 0..20 {
            to.rx_burst(pool, &mut burst);
            came |= burst.drain(..).any(|frame| ours(frame.as_slice()));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(came, "{:?} {:?}", from.failure(), to.failure());
}

pub(crate) fn open(name: &str, receive: Receive) -> PacketSocket {
    let config = Config { receive, promiscuous: true, ..Config::of(name) };
    PacketSocket::open(&config).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A frame with this number, marked as ours.
pub(crate) fn frame(pool: &mut Pool, number: u16, len: usize) -> Mbuf {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    bytes.extend(OURS);
    bytes.extend(number.to_be_bytes());
    bytes.resize(len, number as u8);
    pool.copy_of(&bytes).expect("room for a frame")
}

/// Send the whole burst, however often the device pushes back.
pub(crate) fn send(device: &mut impl Device, pool: &mut Pool, mut burst: Burst) {
    let start = Instant::now();
    while !burst.is_empty() && start.elapsed() < PATIENCE {
        device.tx_burst(pool, &mut burst);
    }
    assert!(burst.is_empty(), "{:?}", device.failure());
}

/// The next `count` frames that `wanted` accepts; fewer if they did not come in time.
pub(crate) fn receive_all(
    device: &mut impl Device,
    pool: &mut Pool,
    count: usize,
    wanted: impl Fn(&[u8]) -> bool,
) -> Vec<Mbuf> {
    let (start, mut got) = (Instant::now(), Vec::new());
    let mut burst = Burst::new();
    while got.len() < count && start.elapsed() < PATIENCE {
        if device.rx_burst(pool, &mut burst) == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
        got.extend(burst.drain(..).filter(|frame| wanted(frame.as_slice())));
    }
    got
}

/// Was it made by [`frame`]?
pub(crate) fn ours(bytes: &[u8]) -> bool {
    bytes.get(12..14) == Some(&OURS)
}

pub(crate) fn number(frame: &Mbuf) -> u16 {
    u16::from_be_bytes([frame.as_slice()[14], frame.as_slice()[15]])
}

pub(crate) fn dropped(device: &impl Device, reason: DropReason) -> u64 {
    device.drops().map_or(0, |drops| drops.of(reason))
}
