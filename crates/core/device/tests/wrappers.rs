//! Wrappers around `mem`: counters, faults, captures; and whether they forward limits and
//! pushed-back frames.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::Wake;

use base::{DropReason, Duration};
use mbuf::{Flags, Mbuf, Pool};
use wirespeed_device::counted::{Counted, DirectionTotals};
use wirespeed_device::fault::{Config, Done, Fault, Odds, Rng};
use wirespeed_device::mem::{self, Mem};
use wirespeed_device::mitigation::Threshold;
use wirespeed_device::{BURST, Burst, Device};

fn numbered(pool: &mut Pool, number: u32) -> Mbuf {
    // Broadcast, IPv4, then the number.
    let mut bytes = vec![0xff; 12];
    bytes.extend([0x08, 0x00]);
    bytes.extend(number.to_be_bytes());
    bytes.resize(60, 0);
    pool.copy_of(&bytes).expect("room")
}

fn number(frame: &Mbuf) -> u32 {
    u32::from_be_bytes(frame.as_slice()[14..18].try_into().expect("four bytes"))
}

/// Sends frames 0 to `count` into `device`. Returns what the other end receives, in order.
fn through(pool: &mut Pool, device: &mut impl Device, far: &mut Mem, count: u32) -> Vec<Vec<u8>> {
    let (mut burst, mut into, mut out) = (Burst::new(), Burst::new(), Vec::new());
    let mut next = 0;
    let mut idle = 0;
    while idle < 200 {
        while !burst.is_full() && next < count {
            burst.push(numbered(pool, next));
            next += 1;
        }
        device.tx_burst(pool, &mut burst);
        device.rx_burst(pool, &mut into);
        idle = if far.rx_burst(pool, &mut into) == 0 { idle + 1 } else { 0 };
        into.drain(..).for_each(|frame| {
            out.push(frame.as_slice().to_vec());
            pool.free(frame);
        });
    }
    assert!(burst.is_empty());
    out
}

fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    frames.iter().map(|f| u32::from_be_bytes(f[14..18].try_into().expect("four"))).collect()
}

#[test]
fn frames_bytes_and_bursts_are_counted_both_ways() {
    let mut pool = Pool::new(1 << 20);
    let (near, mut far) = mem::pair(&mem::Config { depth: 3, ..Default::default() });
    let limits = near.limits();
    let (mut device, counts) = Counted::new(near);
    assert_eq!(device.limits(), limits);
    let mut burst: Burst = (0..5).map(|n| numbered(&mut pool, n)).collect();
    assert_eq!(device.tx_burst(&mut pool, &mut burst), 3);
    assert_eq!(device.tx_burst(&mut pool, &mut burst), 0);
    let mut into = Burst::new();
    assert_eq!(device.rx_burst(&mut pool, &mut into), 0);
    far.rx_burst(&mut pool, &mut into);
    far.tx_burst(&mut pool, &mut into);
    // Frames that are in the burst before the call are not counted again.
    into.push(numbered(&mut pool, 9));
    assert_eq!(device.rx_burst(&mut pool, &mut into), 3);
    let expected = DirectionTotals { frames: 3, bytes: 180, bursts: 1 };
    assert_eq!((counts.totals().rx, counts.totals().tx), (expected, expected));
    drop(far);
    assert!(!device.link_up());
}

fn faulty(odds: Odds, seed: u64, count: u32) -> (Vec<Vec<u8>>, Done, u64) {
    let mut pool = Pool::new(8 << 20);
    // A link that is often full.
    let (near, mut far) = mem::pair(&mem::Config { depth: 20, ..Default::default() });
    let config = Config { tx: odds, ..Config::default() };
    let (mut device, counts) = Fault::new(near, &config, Rng::new(seed));
    let out = through(&mut pool, &mut device, &mut far, count);
    let lost = device.drops().map_or(0, |drops| drops.of(DropReason::FaultInjected));
    assert_eq!(counts.rx(), Done::default());
    drop((device, far));
    assert_eq!(pool.outstanding(), 0);
    (out, counts.tx(), lost)
}

#[test]
fn a_good_wire_changes_nothing() {
    let (out, done, lost) = faulty(Odds::default(), 1, 5_000);
    assert!(numbers(&out).into_iter().eq(0..5_000));
    assert_eq!((done, lost), (Done { seen: 5_000, ..Done::default() }, 0));
}

#[test]
fn each_fault_happens_as_often_as_asked() {
    let about = |n: u64, of: u64| assert!(n.abs_diff(of) < of / 4, "{n}, expected about {of}");
    let (out, done, lost) = faulty(Odds { drop: 0.1, ..Odds::default() }, 2, 10_000);
    about(done.dropped, 1_000);
    assert_eq!((out.len() as u64, lost), (10_000 - done.dropped, done.dropped));

    let (out, done, _) = faulty(Odds { duplicate: 0.1, ..Odds::default() }, 3, 10_000);
    about(done.duplicated, 1_000);
    assert_eq!(out.len() as u64, 10_000 + done.duplicated);

    let (out, done, _) = faulty(Odds { reorder: 0.05, ..Odds::default() }, 4, 10_000);
    about(done.reordered, 500);
    let mut got = numbers(&out);
    let late = got.windows(2).filter(|w| w[0] > w[1]).count() as u64;
    assert!(late > done.reordered / 2 && late <= done.reordered, "{late} of {}", done.reordered);
    let farthest = got.iter().zip(0..).map(|(&n, at): (&u32, u32)| at.saturating_sub(n)).max();
    assert!(farthest.is_some_and(|places| (1..=6).contains(&places)), "{farthest:?}");
    got.sort_unstable();
    assert!(got.into_iter().eq(0..10_000), "nothing is lost");

    let (out, done, _) = faulty(Odds { corrupt: 0.05, ..Odds::default() }, 5, 10_000);
    about(done.corrupted, 500);
    let mut pool = Pool::new(1 << 20);
    let differ = |(n, bytes): (u32, &Vec<u8>)| {
        let right = numbered(&mut pool, n);
        let bits = right.as_slice().iter().zip(bytes).map(|(a, b)| (a ^ b).count_ones());
        assert_eq!(right.as_slice()[..14], bytes[..14], "the link header is exempt");
        bits.sum::<u32>()
    };
    let flipped: Vec<u32> = (0..).zip(&out).map(differ).collect();
    assert!(flipped.iter().all(|&bits| bits <= 1));
    assert_eq!(u64::from(flipped.iter().sum::<u32>()), done.corrupted);
}

#[test]
fn the_same_seed_does_the_same_and_another_does_not() {
    let odds = Odds { drop: 0.1, duplicate: 0.1, reorder: 0.1, corrupt: 0.1 };
    let [first, again, other] = [7, 7, 8].map(|seed| faulty(odds, seed, 3_000));
    assert!(first == again);
    assert!(first.0 != other.0);
}

#[test]
fn a_received_frame_is_broken_so_that_its_checksum_shows_it() {
    let mut pool = Pool::new(1 << 20);
    let offloads = wirespeed_device::Offloads { rx_checksum: true, ..Default::default() };
    let (near, mut far) = mem::pair(&mem::Config { offloads, ..Default::default() });
    let always = Odds { corrupt: 1.0, ..Odds::default() };
    let config = Config { rx: always, tx: always, ..Config::default() };
    let (mut device, counts) = Fault::new(near, &config, Rng::new(1));
    let mut frame = numbered(&mut pool, 1);
    frame.set(Flags::CSUM_PARTIAL);
    let mut burst = Burst::from_iter([frame]);
    far.tx_burst(&mut pool, &mut burst);
    device.rx_burst(&mut pool, &mut burst);
    assert!(!burst[0].has(Flags::CSUM_VERIFIED) && !burst[0].has(Flags::CSUM_PARTIAL));

    // The sender's bytes, which are shared for a retransmission, stay unchanged.
    let mut kept = numbered(&mut pool, 2);
    let sent = pool.share(&mut kept).expect("room");
    let before = kept.as_slice().to_vec();
    let mut arp = numbered(&mut pool, 3);
    arp.as_mut_slice().expect("exclusive")[13] = 0x06;
    let mut long = numbered(&mut pool, 4);
    long.set_segment_size(20);
    let mut burst = Burst::from_iter([sent, arp, long]);
    assert_eq!(device.tx_burst(&mut pool, &mut burst), 3);
    far.rx_burst(&mut pool, &mut burst);
    assert_eq!(kept.as_slice(), before);
    assert_eq!(burst.len(), 2, "a super-segment is lost instead");
    assert_ne!(burst[0].as_slice(), before);
    assert_eq!(number(&burst[1]), 3, "ARP is exempt");
    assert_eq!((counts.rx().corrupted, counts.tx().corrupted), (1, 2));
}

#[test]
fn no_frame_waits_for_ever_on_a_silent_wire() {
    let mut pool = Pool::new(1 << 20);
    let (near, mut far) = mem::pair(&mem::Config::default());
    let odds = Odds { reorder: 1.0, ..Odds::default() };
    let config = Config { tx: odds, rx: odds, ..Config::default() };
    let (mut device, _) = Fault::new(near, &config, Rng::new(1));
    let mut burst = Burst::from_iter([numbered(&mut pool, 1)]);
    device.tx_burst(&mut pool, &mut burst);
    assert!(!far.rx_ready() && device.rx_ready(), "held back, and the driver is to poll");
    let polls = (0..BURST * 2).find(|_| {
        device.rx_burst(&mut pool, &mut burst);
        far.rx_ready()
    });
    assert_eq!(polls, Some(usize::from(config.idle_polls_max) - 1));
    far.rx_burst(&mut pool, &mut burst);
    far.tx_burst(&mut pool, &mut burst);
    let polls = (0..BURST * 2).find(|_| device.rx_burst(&mut pool, &mut burst) > 0);
    assert_eq!(polls, Some(usize::from(config.idle_polls_max)));
    assert!(!device.rx_ready());
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// With a threshold of four frames the fourth frame wakes the receiver, whatever the frames' size.
fn frames_gather(device: &mut impl Device, far: &mut Mem) {
    let mut pool = Pool::new(1 << 20);
    let woken = Arc::new(Woken::default());
    let mut send = |count: u32, pool: &mut Pool| {
        let mut burst: Burst = (0..count).map(|n| numbered(pool, n)).collect();
        far.tx_burst(pool, &mut burst);
        woken.0.swap(0, Ordering::Relaxed)
    };
    assert!(device.coalesce(Threshold { frames: 4, bytes: 3_028, within: Duration::ZERO }));
    assert_eq!(send(2, &mut pool), 0);
    assert!(device.arm(&woken.clone().into()), "two are too few");
    assert_eq!(send(1, &mut pool), 0);
    assert_eq!(send(1, &mut pool), 1);
    assert!(!device.arm(&woken.clone().into()), "four are enough");
    let mut burst = Burst::new();
    device.rx_burst(&mut pool, &mut burst);
    assert_eq!(burst.len(), 4);
}

#[test]
fn frames_gather_behind_a_wrapper_as_they_do_without() {
    let (near, mut far) = mem::pair(&mem::Config::default());
    frames_gather(&mut Counted::new(near).0, &mut far);
    let (near, mut far) = mem::pair(&mem::Config::default());
    frames_gather(&mut Fault::new(near, &Config::default(), Rng::new(1)).0, &mut far);
}

/// Polls release held-back frames, so the driver must not sleep until other frames have gathered.
#[test]
fn who_has_frames_held_back_stays_awake_while_others_gather() {
    let mut pool = Pool::new(1 << 20);
    let (near, mut far) = mem::pair(&mem::Config::default());
    let rx = Odds { reorder: 1.0, ..Odds::default() };
    let (mut device, _) = Fault::new(near, &Config { rx, ..Config::default() }, Rng::new(1));
    let waker = std::task::Waker::noop();
    device.coalesce(Threshold { frames: 4, bytes: 3_028, within: Duration::ZERO });
    assert!(device.arm(waker));
    let mut burst = Burst::from_iter([numbered(&mut pool, 1)]);
    far.tx_burst(&mut pool, &mut burst);
    assert!(device.arm(waker), "one frame alone gathers");
    assert_eq!(device.rx_burst(&mut pool, &mut burst), 0);
    assert!(!device.arm(waker), "and is held back");
}
