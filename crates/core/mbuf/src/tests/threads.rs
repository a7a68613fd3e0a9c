//! Handles dropped on other threads, and pools dropped before their handles.

use std::sync::mpsc;
use std::thread;

use super::{assert_all_home, bytes, mbuf_of};
use crate::{Mbuf, Pool};

#[test]
fn handles_dropped_on_another_thread_come_home() {
    let mut pool = Pool::new(4 << 20);
    let mut mbufs: Vec<Mbuf> =
        (0..100).map(|i| mbuf_of(&mut pool, &bytes(i, 100 * usize::from(i)))).collect();
    let shares: Vec<Mbuf> = mbufs.iter_mut().map(|m| pool.share(m).expect("room")).collect();
    thread::spawn(move || drop(shares)).join().expect("no panic");
    assert_eq!(pool.collect(), 100);
    assert!(mbufs.iter_mut().all(|m| pool.reclaim(m)));
    thread::spawn(move || drop(mbufs)).join().expect("no panic");
    assert_all_home(&mut pool);
}

#[test]
fn another_pool_sends_handles_home_in_batches() {
    let (mut first, mut second) = (Pool::new(1 << 20), Pool::new(1 << 20));
    let mut other = Pool::new(0);
    for i in 0..200 {
        let from = if i % 3 == 0 { &mut first } else { &mut second };
        other.free(mbuf_of(from, &[1; 10]));
    }
    other.flush();
    other.flush();
    assert_all_home(&mut first);
    assert_all_home(&mut second);
    (0..40).for_each(|_| other.free(mbuf_of(&mut first, &[1; 10])));
    drop(other);
    assert_all_home(&mut first);
}

/// Buffers go to another thread and back: the near end does not see what the far end writes in
/// front of a share, and may write a buffer once it has come back.
#[test]
fn buffers_go_round_between_two_threads() {
    const FRAMES: u32 = if cfg!(miri) {
        300
    } else if cfg!(wirespeed_unpooled) {
        2_000
    } else {
        100_000
    };
    let (send, receive) = mpsc::sync_channel::<Mbuf>(64);
    let far = thread::spawn(move || {
        let mut pool = Pool::new(0);
        for (i, mut mbuf) in (0..FRAMES).zip(receive) {
            mbuf.prepend(20).expect("a share's headroom is its own").fill(1);
            assert_eq!(mbuf.as_slice()[20..24], i.to_le_bytes());
            match i % 2 {
                0 => pool.free(mbuf),
                _ => drop(mbuf),
            }
        }
    });
    let mut pool = Pool::new(1 << 20);
    let mut kept = std::collections::VecDeque::new();
    for i in 0..FRAMES {
        let mut mbuf = mbuf_of(&mut pool, &i.to_le_bytes());
        let share = pool.share_for_send(&mut mbuf).expect("fresh");
        send.send(share).expect("the far end reads all");
        kept.push_back((i, mbuf));
        if kept.len() > 100 {
            pool.collect();
            let (i, mut mbuf) = kept.pop_front().expect("not empty");
            assert_eq!(mbuf.as_slice(), i.to_le_bytes());
            if pool.reclaim(&mut mbuf) {
                mbuf.as_mut_slice().expect("reclaimed").fill(0xff);
            }
            pool.free(mbuf);
        }
    }
    drop(send);
    far.join().expect("no panic");
    kept.clear();
    assert_all_home(&mut pool);
}

#[test]
fn a_pool_may_go_before_its_handles() {
    let mut pool = Pool::new(4 << 20);
    let mut mbuf = mbuf_of(&mut pool, &bytes(1, 3_000));
    let tail = pool.split(&mut mbuf, 1_000).expect("room");
    drop(pool);
    assert_eq!(mbuf.as_slice(), &bytes(1, 3_000)[..1_000]);
    drop(mbuf);
    assert_eq!(tail.as_slice(), &bytes(1, 3_000)[1_000..]);
    drop(tail);

    let mut pool = Pool::new(1 << 20);
    let mbuf = mbuf_of(&mut pool, &[1; 5]);
    drop(pool);
    let mut other = Pool::new(0);
    other.free(mbuf);
    drop(other);
}

#[test]
fn many_threads_and_the_pool_end_at_once() {
    let rounds = if cfg!(miri) {
        2
    } else if cfg!(wirespeed_unpooled) {
        20
    } else {
        300
    };
    for _ in 0..rounds {
        let mut pool = Pool::new(4 << 20);
        let barrier = std::sync::Barrier::new(5);
        let mut hands: Vec<Vec<Mbuf>> = (0..4).map(|_| Vec::new()).collect();
        for i in 0..80 {
            let mut mbuf = mbuf_of(&mut pool, &bytes(i, 64));
            hands[usize::from(i) % 4].push(pool.share(&mut mbuf).expect("room"));
            hands[usize::from(i + 1) % 4].push(mbuf);
        }
        thread::scope(|scope| {
            for hand in hands {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    drop(hand);
                });
            }
            barrier.wait();
            drop(pool);
        });
    }
}
