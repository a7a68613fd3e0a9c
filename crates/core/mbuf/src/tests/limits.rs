//! Capacities and limits.

use super::assert_all_home;
use crate::{Class, HEADROOM, Pool};

#[test]
fn every_class_holds_what_it_says() {
    let mut pool = Pool::new(64 << 20);
    let expected = [
        (Class::K2, 1_920, 33),
        (Class::K4, 3_968, 65),
        (Class::K16, 16_256, 257),
        (Class::K64, 65_664, 1029),
    ];
    for (class, capacity, lines) in expected {
        assert_eq!((class.capacity(), class.stride()), (capacity, lines * 64));
        assert_eq!(Class::for_len(capacity), Some(class));
        assert_ne!(Class::for_len(capacity + 1), Some(class));
        let mut mbuf = pool.alloc(capacity).expect("room");
        assert_eq!((mbuf.headroom(), mbuf.tailroom()), (HEADROOM, capacity));
        assert_eq!(
            mbuf.tail_mut().as_ptr() as usize % 64,
            0,
            "the payload does not start on a cache line"
        );
        assert_eq!(mbuf.append(&vec![7; capacity + 1]), capacity);
        mbuf.prepend(HEADROOM).expect("all headroom").fill(8);
        assert!(mbuf.prepend(1).is_none());
        assert_eq!(mbuf.len(), capacity + HEADROOM);
        assert_eq!(mbuf.tailroom(), 0);
        pool.free(mbuf);
    }
    assert_eq!(Class::for_len(65_665), None);
    assert!(pool.alloc(65_665).is_none());
    assert_all_home(&mut pool);
}

#[test]
fn a_pool_never_takes_more_than_its_limit() {
    for limit in [0, 63, 64, Class::K2.stride(), 100_000, 1 << 20] {
        let mut pool = Pool::new(limit);
        assert_eq!(pool.limit_bytes(), limit);
        let mut held = Vec::new();
        for len in [1, 3_000, 10_000, 60_000].into_iter().cycle().take(400) {
            let before = pool.exhausted();
            match pool.alloc(len) {
                Some(mbuf) => held.push(mbuf),
                None => assert_eq!(pool.exhausted(), before + 1),
            }
            assert!(pool.held_bytes() <= limit);
        }
        assert!(pool.exhausted() > 0);
        held.into_iter().for_each(|mbuf| pool.free(mbuf));
        assert_all_home(&mut pool);
    }
}

#[test]
fn an_exhausted_pool_gives_again_what_comes_home() {
    let mut pool = Pool::new(Class::K2.stride());
    let mbuf = pool.alloc(1).expect("room for one");
    assert!(pool.alloc(1).is_none());
    drop(mbuf);
    let mut again = pool.alloc(1).expect("taken in when the list was empty");
    assert!(pool.share(&mut again).is_none(), "a share was made without memory for its header");
    assert!(again.is_exclusive(), "the buffer is shared although no share was made");
    pool.free(again);
    assert_eq!(pool.exhausted(), 2);
    assert_all_home(&mut pool);
}

#[test]
fn empty_buffers_can_be_placed_within_their_headroom() {
    let mut pool = Pool::new(1 << 20);
    let mut mbuf = pool.alloc(100).expect("room");
    mbuf.reserve_front(2);
    assert_eq!(mbuf.headroom(), 2);
    mbuf.reserve_front(HEADROOM + 1);
    assert_eq!(mbuf.headroom(), 2, "an offset past the headroom was used");
    mbuf.append(&[1]);
    mbuf.reserve_front(0);
    assert_eq!(mbuf.headroom(), 2, "the data of a buffer was moved");
    drop(mbuf);
    assert_all_home(&mut pool);
}

/// Allocate buffers for `len` bytes until the pool has none left.
fn all_of(pool: &mut Pool, len: usize) -> Vec<crate::Mbuf> {
    core::iter::from_fn(|| pool.alloc(len)).collect()
}

#[test]
#[cfg_attr(miri, ignore = "an interpreter takes an hour for megabytes of buffers")]
fn memory_moves_between_sizes_of_buffers() {
    const LIMIT: usize = 8 << 20;
    let mut pool = Pool::new(LIMIT);
    for len in [60_000, 1_500, 60_000, 3_000, 1, 16_000] {
        let held = all_of(&mut pool, len);
        let bytes: usize = held.iter().map(|m| m.tailroom()).sum();
        assert!(bytes > LIMIT / 8 * 7, "{len}: {bytes} bytes of {LIMIT}");
        assert!(pool.held_bytes() <= LIMIT);
        held.into_iter().for_each(|m| pool.free(m));
    }
    assert_all_home(&mut pool);
}

/// After a bulk transfer the memory goes back to the system, but for slabs with buffers in use.
#[test]
#[cfg_attr(miri, ignore = "an interpreter takes an hour for megabytes of buffers")]
fn a_pool_gives_back_what_is_free() {
    let mut pool = Pool::new(64 << 20);
    let mut held: Vec<_> = (0..12_000).map(|_| pool.alloc(1_500).expect("room")).collect();
    held.extend((0..100).map(|_| pool.alloc(60_000).expect("room")));
    let most = pool.held_bytes();
    assert!(most > 30 << 20, "{most}");
    assert_eq!(pool.shrink(0), 0, "all of it is in use");
    // A buffer in use here and there keeps its slab, and no other.
    let kept: Vec<_> = [11_900, 6_000, 0].map(|n| held.swap_remove(n)).into_iter().collect();
    held.into_iter().for_each(|m| pool.free(m));
    assert_eq!(pool.held_bytes(), most, "nothing is given back by itself");
    let freed = pool.shrink(20 << 20);
    assert_eq!(pool.held_bytes(), most - freed);
    assert!((19 << 20..=20 << 20).contains(&pool.held_bytes()), "{}", pool.held_bytes());
    pool.shrink(0);
    let slab = Class::K2.stride() * 256;
    assert!(pool.held_bytes() <= 3 * slab, "{} is more than three slabs", pool.held_bytes());
    kept.into_iter().for_each(|m| pool.free(m));
    pool.shrink(0);
    assert_eq!(pool.held_bytes(), 0);
    assert!(pool.alloc(1_500).is_some(), "it takes memory again");
    assert_all_home(&mut pool);
}

/// Each slab is partly in use, so none is freed. But small requests get large buffers.
#[test]
#[cfg_attr(miri, ignore = "an interpreter takes an hour for megabytes of buffers")]
fn a_small_buffer_may_be_a_large_one_when_there_is_no_other() {
    let mut pool = Pool::new(4 << 20);
    let mut large = all_of(&mut pool, 60_000);
    let kept: Vec<_> = (0..large.len() / 4).map(|i| large.remove(3 * i)).collect();
    let free = large.len();
    large.into_iter().for_each(|m| pool.free(m));
    let small = all_of(&mut pool, 1_500);
    assert!(small.len() >= free, "{} of {free}", small.len());
    assert_eq!(pool.outstanding(), kept.len() + small.len());
    kept.into_iter().chain(small).for_each(|m| pool.free(m));
    assert_all_home(&mut pool);
}

/// A failed request does not always cause a search for free slabs, because a walk takes long.
#[test]
fn whole_free_slabs_are_looked_for_rarely() {
    let mut attempts = crate::reclaim::Attempts::default();
    let walks =
        (0..if cfg!(miri) { 5_000 } else { 100_000 }).filter(|_| attempts.admit(500)).count();
    assert!((2..=100).contains(&walks), "{walks}");
    assert!(attempts.admit(400), "no walk although a hundred handles have come back");
    assert!(!attempts.admit(399));
}

/// Megabytes of this process in memory.
#[cfg(all(target_os = "linux", not(miri)))]
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux 4.14");
    let line = statm.lines().find(|line| line.starts_with("Rss:")).expect("a line");
    let kilobytes = line.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok());
    kilobytes.expect("a number") >> 10
}

/// The system has the memory again, not the allocator, however often it is given back. Other tests
/// of this process take and free a few megabytes at the same time.
#[test]
#[cfg(all(target_os = "linux", not(any(miri, loom, wirespeed_unpooled))))]
fn memory_that_is_given_back_is_the_systems() {
    let mut pool = Pool::new(512 << 20);
    for _ in 0..3 {
        let before = resident();
        let held: Vec<_> = (0..100_000).map(|_| pool.alloc(1_500).expect("room")).collect();
        let between = resident();
        held.into_iter().for_each(|m| pool.free(m));
        assert!(between > before + 150, "{before} and {between} MB");
        pool.shrink(0);
        let after = resident();
        assert!(after < before + 50, "{before}, {between} and {after} MB");
    }
}
