//! Coalescing in `mem`: thresholds in frames and bytes, and what wakes an end in any case.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;
use std::thread;
use std::time::Instant;

use mbuf::Pool;
use wirespeed_device::mem::{self, Config, Mem};
use wirespeed_device::mitigation::{Level, Threshold};
use wirespeed_device::{Burst, Device};

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn send(from: &mut Mem, pool: &mut Pool, count: usize, len: usize) {
    let mut burst = Burst::new();
    for _ in 0..count {
        let mut frame = pool.alloc(len).expect("the test's pool is large enough");
        frame.extend(len);
        burst.push(frame);
    }
    from.tx_burst(pool, &mut burst);
    burst.drain(..).for_each(|frame| pool.free(frame));
}

fn take_all(from: &mut Mem, pool: &mut Pool) -> usize {
    let mut burst = Burst::new();
    let count = from.rx_burst(pool, &mut burst);
    burst.drain(..).for_each(|frame| pool.free(frame));
    count
}

const FOUR: Threshold = Threshold { frames: 4, bytes: 3_028, within: base::Duration::ZERO };

#[test]
fn the_frame_that_reaches_either_figure_wakes() {
    let mut pool = Pool::new(1 << 20);
    let (mut a, mut b) = mem::pair(&Config::default());
    let woken = Arc::new(Woken::default());
    assert!(b.coalesce(FOUR));
    for (len, expected) in [(60, [0, 0, 0, 1]), (1_000, [0, 0, 0, 1]), (1_514, [0, 1, 0, 0])] {
        assert!(b.arm(&woken.clone().into()), "nothing waits");
        for wakes in expected {
            send(&mut a, &mut pool, 1, len);
            assert_eq!(woken.take(), wakes, "frames of {len} bytes");
        }
        assert_eq!(take_all(&mut b, &mut pool), 4);
    }
}

#[test]
fn who_arms_with_enough_there_stays_awake_and_with_fewer_does_not() {
    let mut pool = Pool::new(1 << 20);
    let (mut a, mut b) = mem::pair(&Config::default());
    let woken = Arc::new(Woken::default());
    b.coalesce(FOUR);
    send(&mut a, &mut pool, 3, 60);
    assert!(b.arm(&woken.clone().into()), "three frames kept the end awake");
    assert!(b.rx_ready(), "three frames are not reported as ready");
    send(&mut a, &mut pool, 1, 60);
    assert_eq!(woken.take(), 1, "frames that waited before count");
    assert!(!b.arm(&woken.clone().into()), "four are enough");
    take_all(&mut b, &mut pool);
    send(&mut a, &mut pool, 2, 1_514);
    assert!(!b.arm(&woken.clone().into()), "so are two large ones");
    take_all(&mut b, &mut pool);
    b.coalesce(Threshold::EACH);
    assert!(b.arm(&woken.clone().into()));
    send(&mut a, &mut pool, 1, 60);
    assert_eq!(woken.take(), 1, "each wakes again");
    take_all(&mut b, &mut pool);
}

#[test]
fn room_and_a_lost_peer_wake_whatever_gathers() {
    let mut pool = Pool::new(1 << 20);
    let config = Config { depth: 2, ..Config::default() };
    let (mut a, mut b) = mem::pair(&config);
    let woken = Arc::new(Woken::default());
    b.coalesce(FOUR);
    send(&mut b, &mut pool, 3, 60);
    assert!(b.arm(&woken.clone().into()), "no room for the third");
    take_all(&mut a, &mut pool);
    assert!(!a.rx_ready(), "now it reports that there is room");
    assert_eq!(woken.take(), 1);
    // The notification of room is sent together with a frame from the peer.
    send(&mut b, &mut pool, 3, 60);
    assert!(b.arm(&woken.clone().into()));
    let mut burst = Burst::new();
    a.rx_burst(&mut pool, &mut burst);
    send(&mut a, &mut pool, 1, 60);
    assert_eq!(woken.take(), 1);
    burst.drain(..).for_each(|frame| pool.free(frame));
    take_all(&mut b, &mut pool);
    send(&mut b, &mut pool, 0, 60);
    assert!(b.arm(&woken.clone().into()));
    drop(a);
    assert_eq!(woken.take(), 1);
}

/// Two threads at every level: all frames arrive, and a receiver sleeps no longer than the level's
/// time plus the latency of the system.
#[test]
fn nothing_stays_between_two_threads() {
    const FRAMES: usize = if cfg!(wirespeed_unpooled) { 2_000 } else { 50_000 };
    for n in 0..=Level::MAX.number() {
        let threshold = Level::new(n).expect("a level").threshold();
        let (mut a, mut b) = mem::pair(&Config { depth: 600, ..Config::default() });
        let sender = thread::spawn(move || {
            let mut pool = Pool::new(4 << 20);
            let mut burst = Burst::new();
            let mut sent = 0;
            while sent < FRAMES {
                while burst.len() < 1 + sent % 7 && sent + burst.len() < FRAMES {
                    let mut frame = pool.alloc(60).expect("the test's pool is large enough");
                    frame.extend(60);
                    burst.push(frame);
                }
                match a.tx_burst(&mut pool, &mut burst) {
                    0 => a.wait(Some(Duration::from_millis(100))),
                    n => sent += n,
                }
                pool.collect();
            }
            a
        });
        let mut pool = Pool::new(1 << 20);
        b.coalesce(threshold);
        let within = Duration::from(threshold.within).max(Duration::from_millis(1));
        let (mut received, start) = (0, Instant::now());
        while received < FRAMES {
            let count = take_all(&mut b, &mut pool);
            received += count;
            pool.flush();
            if count == 0 {
                b.wait(Some(within));
            }
            assert!(start.elapsed() < Duration::from_secs(60), "level {n}: {received} arrived");
        }
        drop(sender.join().expect("no panic"));
    }
}
