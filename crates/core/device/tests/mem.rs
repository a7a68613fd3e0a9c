//! `mem`: order, content, both limits, refused frames, two threads, a dropped peer.

use core::time::Duration;
use std::collections::VecDeque;
use std::thread;

use base::{LinkKind, Mtu};
use mbuf::{Flags, Mbuf, Pool};
use proptest::prelude::*;
use wirespeed_device::mem::{self, Config};
use wirespeed_device::{BURST, Burst, Device, Doorbell, Offloads};

/// Sanitizers and valgrind run the same tests with fewer frames, because they are slow.
const FEW: bool = cfg!(wirespeed_unpooled);

fn frame(pool: &mut Pool, number: u64, len: usize) -> Mbuf {
    let mut mbuf = pool.alloc(len.max(8)).expect("the test's pool is large enough");
    mbuf.append(&number.to_le_bytes());
    mbuf.extend(len.saturating_sub(8));
    mbuf
}

fn number(mbuf: &Mbuf) -> u64 {
    u64::from_le_bytes(mbuf.as_slice()[..8].try_into().expect("eight bytes"))
}

fn pool() -> Pool {
    Pool::new(64 << 20)
}

proptest! {
    /// Any mix of bursts in and out, compared with a queue: taken frames come out in order, and no
    /// more is in flight than the limits allow, except a single frame.
    #[test]
    fn order_content_and_limits(
        depth in 1..70usize,
        depth_bytes in 0..20_000usize,
        steps in prop::collection::vec((0..=BURST, 8..1_500usize, 0..=BURST), 1..60),
    ) {
        let mut pool = pool();
        let (mut a, mut b) = mem::pair(&Config { depth, depth_bytes, ..Config::default() });
        let mut model = VecDeque::<(u64, usize)>::new();
        let mut next = 0;
        let mut from = Burst::new();
        for (push, len, take) in steps {
            while from.len() < push {
                from.push(frame(&mut pool, next, len));
                next += 1;
            }
            let before: Vec<_> = from.iter().map(|f| (number(f), f.len())).collect();
            let taken = a.tx_burst(&mut pool, &mut from);
            prop_assert_eq!(taken + from.len(), before.len());
            model.extend(&before[..taken]);
            let bytes: usize = model.iter().map(|m| m.1).sum();
            prop_assert!(model.len() <= depth);
            prop_assert!(bytes <= depth_bytes || model.len() == 1);
            if let Some(first) = from.first() {
                prop_assert_eq!(number(first), before[taken].0);
                prop_assert!(model.len() == depth || bytes + first.len() > depth_bytes);
                prop_assert!(!a.tx_ready(), "pushed back means no room");
            }
            prop_assert_eq!(b.rx_ready(), !model.is_empty());
            let mut into = Burst::new();
            (0..BURST - take).for_each(|_| into.push(pool.alloc(0).expect("room")));
            let got = b.rx_burst(&mut pool, &mut into);
            prop_assert_eq!(got, take.min(model.len()));
            for f in &into[BURST - take..] {
                prop_assert_eq!(model.pop_front(), Some((number(f), f.len())));
            }
        }
        prop_assert_eq!((a.refused(), a.undeliverable()), (0, 0));
        drop((a, b, from));
        prop_assert_eq!(pool.outstanding(), 0);
    }
}

#[test]
fn a_frame_larger_than_the_byte_depth_passes_alone() {
    let mut pool = pool();
    let config = Config { depth_bytes: 1_000, mtu: Mtu::MAX, ..Config::default() };
    let (mut a, mut b) = mem::pair(&config);
    let mut burst = Burst::new();
    (0..3).for_each(|i| burst.push(frame(&mut pool, i, 60_000)));
    for i in 0..3 {
        assert!(a.tx_ready());
        assert_eq!(a.tx_burst(&mut pool, &mut burst), 1, "one at a time");
        assert_eq!(a.tx_burst(&mut pool, &mut burst), 0);
        assert!(!a.tx_ready());
        let mut got = Burst::new();
        assert_eq!(b.rx_burst(&mut pool, &mut got), 1);
        assert_eq!((number(&got[0]), got[0].len()), (i, 60_000));
    }
    assert_eq!(a.refused(), 0);
}

#[test]
fn frames_that_are_too_long_are_counted_and_do_not_stop_the_rest() {
    let mut pool = pool();
    let offloads = Offloads { tso_max_bytes: 30_000, ..Offloads::default() };
    let (mut a, mut b) = mem::pair(&Config { offloads, ..Config::default() });
    assert_eq!(a.limits().max_frame, 1_522);
    let mut burst = Burst::new();
    for (i, len) in [2_000, 100, 1_523, 1_522, 30_001, 30_000, 30_000].into_iter().enumerate() {
        burst.push(frame(&mut pool, i as u64, len));
        if i == 4 || i == 5 {
            burst[i].set_segment_size(1_448);
        }
    }
    assert_eq!(a.tx_burst(&mut pool, &mut burst), 7, "refused ones are taken");
    assert!(burst.is_empty());
    assert_eq!(a.refused(), 4);
    assert_eq!(b.rx_burst(&mut pool, &mut burst), 3);
    assert_eq!(burst.iter().map(number).collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(burst[2].segment_size(), 1_448);
    drop(burst);
    assert_eq!(pool.outstanding(), 0);
    let (raw, _) = mem::pair(&Config { link: LinkKind::Ip, ..Config::default() });
    assert_eq!(raw.limits().max_frame, 1_500);
}

#[test]
fn the_senders_notes_do_not_cross() {
    let mut pool = pool();
    for rx_checksum in [false, true] {
        let offloads = Offloads { tx_checksum: true, rx_checksum, ..Offloads::default() };
        let (mut a, mut b) = mem::pair(&Config { offloads, ..Config::default() });
        let mut burst = Burst::new();
        (0..2).for_each(|i| burst.push(frame(&mut pool, i, 60)));
        burst[0].set(Flags::CSUM_PARTIAL | Flags::LINK_GROUP);
        burst[1].set(Flags::CSUM_VERIFIED | Flags::SUMMED);
        burst[0].set_mark(7);
        a.tx_burst(&mut pool, &mut burst);
        b.rx_burst(&mut pool, &mut burst);
        assert_eq!(burst[0].has(Flags::CSUM_VERIFIED), rx_checksum);
        assert!(burst[0].has(Flags::CSUM_PARTIAL) && !burst[0].has(Flags::LINK_GROUP));
        assert!(!burst[1].has(Flags::CSUM_VERIFIED) && !burst[1].has(Flags::SUMMED));
        assert_eq!(burst[0].mark(), 0);
    }
}

#[test]
fn a_lost_peer_is_seen_and_nothing_leaks() {
    let mut pool = pool();
    let (mut a, mut b) = mem::pair(&Config::default());
    let mut burst = Burst::new();
    (0..4).for_each(|i| burst.push(frame(&mut pool, i, 60)));
    a.tx_burst(&mut pool, &mut burst);
    (0..3).for_each(|i| burst.push(frame(&mut pool, i, 60)));
    b.tx_burst(&mut pool, &mut burst);
    assert!(a.link_up() && b.link_up());
    drop(b);
    assert_eq!(pool.outstanding(), 3, "frames that nobody will receive were freed");
    assert!(!a.link_up());
    a.wait(None);
    burst.push(frame(&mut pool, 9, 60));
    assert_eq!(a.tx_burst(&mut pool, &mut burst), 1);
    assert_eq!(a.undeliverable(), 1);
    assert_eq!(a.rx_burst(&mut pool, &mut burst), 3, "frames sent before can still be received");
    burst.clear();
    drop(a);
    assert_eq!(pool.outstanding(), 0);
}

/// Both directions at once. The ends sleep whenever there is nothing to do, and the limits are
/// small enough to push back often. If a wake-up is lost, the test does not end.
#[test]
fn two_threads_move_a_million_frames() {
    let total: u64 = if cfg!(miri) {
        300
    } else if FEW {
        20_000
    } else {
        500_000
    };
    let config = Config { depth: 100, depth_bytes: 20_000, ..Config::default() };
    let (a, b) = mem::pair(&config);
    let run = move |mut end: mem::Mem| {
        let mut pool = pool();
        let (mut out, mut into) = (Burst::new(), Burst::new());
        let (mut made, mut sent, mut received) = (0, 0, 0);
        while sent < total || received < total {
            pool.collect();
            while made < total && !out.is_full() {
                out.push(frame(&mut pool, made, 60 + made as usize % 1_000));
                made += 1;
            }
            let done = end.tx_burst(&mut pool, &mut out);
            sent += done as u64;
            let got = end.rx_burst(&mut pool, &mut into);
            for mbuf in into.drain(..) {
                assert_eq!((number(&mbuf), mbuf.len()), (received, 60 + received as usize % 1_000));
                received += 1;
                pool.free(mbuf);
            }
            pool.flush();
            if done == 0 && got == 0 && received < total {
                end.wait(None);
            } else if done == 0 && got == 0 {
                // Everything was received, so only room can wake this end.
                end.wait(Some(Duration::from_secs(60)));
            }
        }
        // Wait until our frames have returned, so that the peer does not see our end gone before.
        while end.link_up() && !pool_home(&mut pool) {
            thread::yield_now();
        }
        (pool, end.refused() + end.undeliverable())
    };
    let far = thread::spawn(move || run(b));
    let (mut pool_a, lost_a) = run(a);
    let (mut pool_b, lost_b) = far.join().expect("no panic");
    assert_eq!((lost_a, lost_b), (0, 0));
    assert_eq!((pool_a.outstanding(), pool_b.outstanding()), (0, 0));
}

fn pool_home(pool: &mut Pool) -> bool {
    pool.outstanding() == 0
}

/// One direction only: the sender sleeps for room, the receiver for frames.
#[test]
fn one_way_with_sleepers_on_both_ends() {
    let total: u64 = if FEW { 20_000 } else { 500_000 };
    let (mut a, mut b) = mem::pair(&Config { depth: 64, ..Config::default() });
    let receiver = thread::spawn(move || {
        let (mut pool, mut into) = (Pool::new(0), Burst::new());
        let mut received = 0;
        while received < total {
            if b.rx_burst(&mut pool, &mut into) == 0 {
                b.wait(None);
            }
            for mbuf in into.drain(..) {
                assert_eq!(number(&mbuf), received);
                received += 1;
                pool.free(mbuf);
            }
        }
        pool.flush();
        b.wakeups()
    });
    let (mut pool, mut out, mut made) = (pool(), Burst::new(), 0);
    while made < total || !out.is_empty() {
        pool.collect();
        while made < total && !out.is_full() {
            out.push(frame(&mut pool, made, 8));
            made += 1;
        }
        if a.tx_burst(&mut pool, &mut out) == 0 {
            a.wait(None);
        }
    }
    let (sent, suppressed) = receiver.join().expect("no panic");
    assert!(sent + suppressed > 0);
    drop(a);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_sleeper_wakes_when_the_peer_goes_or_the_bell_is_rung() {
    let (a, b) = mem::pair(&Config::default());
    let sleeper = thread::spawn(move || {
        while a.link_up() {
            a.wait(None);
        }
    });
    drop(b);
    sleeper.join().expect("no panic");

    let (a, _b) = mem::pair(&Config::default());
    let waker = a.waker();
    let work = std::sync::Arc::new(core::sync::atomic::AtomicBool::new(false));
    let seen = work.clone();
    let ready = move || seen.load(core::sync::atomic::Ordering::Acquire);
    let sleeper = thread::spawn(move || {
        while !ready() {
            a.wait_unless(None, &ready);
        }
    });
    work.store(true, core::sync::atomic::Ordering::Release);
    waker.ring();
    sleeper.join().expect("no panic");
}

#[test]
fn only_a_sleeper_gets_a_wake_up() {
    let bell = Doorbell::new();
    let (mut a, b) = mem::pair_with(&Config::default(), Doorbell::new(), bell.clone());
    let mut pool = pool();
    let mut burst = Burst::new();
    for i in 0..10 {
        burst.push(frame(&mut pool, i, 60));
        a.tx_burst(&mut pool, &mut burst);
    }
    assert_eq!(b.wakeups(), (0, 10));
    bell.arm();
    assert!(bell.ring() && !bell.ring());
    assert_eq!(bell.wakeups(), (1, 11));
    bell.sleep(None);
    b.wait(None);
    drop(a);
    drop(b);
    bell.sleep(Some(Duration::ZERO));
}

#[test]
#[should_panic(expected = "carries nothing")]
fn a_wire_of_no_frames_is_refused() {
    drop(mem::pair(&Config { depth: 0, ..Config::default() }));
}

/// A port that coalesces needs the smaller of the two limits.
#[test]
fn a_queue_is_as_deep_as_its_frames_and_its_bytes_allow() {
    let depth = |depth, depth_bytes| {
        mem::pair(&Config { depth, depth_bytes, ..Config::default() }).0.rx_depth()
    };
    assert_eq!(depth(100, 1 << 20), 100);
    // The threshold of level 1 is 3,028 bytes or 8 frames: four times that.
    assert_eq!((depth(100, 12_112), depth(100, 12_111)), (32, 31));
    assert_eq!(depth(100, 0), 1, "one frame alone always passes");
    assert!(mem::pair(&Config::default()).0.rx_depth() >= 512, "every level, by default");
}

#[test]
fn without_a_carrier_nothing_passes_and_nobody_is_gone() {
    let (mut a, mut b) = mem::pair(&Config::default());
    let mut pool = pool();
    a.set_carrier(false);
    for end in [&mut a, &mut b] {
        let mut burst = Burst::from_iter([frame(&mut pool, 1, 60)]);
        assert!(!end.link_up() && !end.is_gone());
        assert_eq!(end.tx_burst(&mut pool, &mut burst), 1);
        assert_eq!(end.undeliverable(), 1);
        assert!(end.failure().is_some_and(|why| why.to_string().contains("no carrier")));
    }
    assert!(!a.rx_ready() && !b.rx_ready() && pool.outstanding() == 0);
    b.set_carrier(true);
    let mut burst = Burst::from_iter([frame(&mut pool, 7, 60)]);
    assert!(a.link_up() && a.failure().is_none() && a.tx_burst(&mut pool, &mut burst) == 1);
    assert!(b.rx_burst(&mut pool, &mut burst) == 1 && number(&burst[0]) == 7);
    burst.drain(..).for_each(|frame| pool.free(frame));
    drop(a);
    b.set_carrier(false);
    b.set_carrier(true);
    assert!(b.is_gone(), "an end that is gone stays gone");
}
