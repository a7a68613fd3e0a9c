//! A handle on one thread and its pool on another, in every interleaving: they access different
//! fields of the header that both point at.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p wirespeed-mbuf --test loom_count --release
//! --target-dir target/loom`. Every field of a header is a loom cell, which panics if one thread
//! writes it while another may read or write it.
#![cfg(loom)]

use loom::thread;
use wirespeed_mbuf::{Flags, Mbuf, Pool};

/// What the holder of a handle with shared bytes may do.
fn use_handle(mbuf: &mut Mbuf) {
    mbuf.set_mark(7);
    mbuf.set(Flags::PUSH);
    mbuf.trim_front(1);
    assert!(!mbuf.is_exclusive());
    assert_eq!(mbuf.len(), 3);
    assert_eq!((mbuf.mark(), mbuf.as_slice()), (7, &[2, 3, 4][..]));
}

#[test]
fn the_pool_counts_while_the_clusters_own_handle_is_used_elsewhere() {
    loom::model(|| {
        let mut pool = Pool::new(1 << 24);
        let mut mbuf = pool.copy_of(&[1, 2, 3, 4]).expect("room");
        let share = pool.share(&mut mbuf).expect("room");
        let far = thread::spawn(move || {
            use_handle(&mut mbuf);
            drop(mbuf);
        });
        // This changes the count in the header that the other thread uses; so does the return of
        // its handle.
        pool.free(share);
        pool.collect();
        far.join().unwrap();
        assert_eq!(pool.outstanding(), 0);
    });
}

#[test]
fn the_pool_counts_while_a_share_is_used_elsewhere() {
    loom::model(|| {
        let mut pool = Pool::new(1 << 24);
        let mut mbuf = pool.copy_of(&[1, 2, 3, 4]).expect("room");
        let mut share = pool.share_for_send(&mut mbuf).expect("room");
        let far = thread::spawn(move || {
            let front = share.prepend(2).expect("headroom of its own");
            front.copy_from_slice(&[8, 9]);
            share.trim_front(2);
            use_handle(&mut share);
            drop(share);
        });
        let other = pool.share(&mut mbuf);
        if pool.reclaim(&mut mbuf) {
            assert!(other.is_none(), "it came home, and there is no other");
        }
        drop(other);
        pool.free(mbuf);
        far.join().unwrap();
        assert_eq!(pool.outstanding(), 0);
    });
}

#[test]
fn a_pool_goes_while_its_handles_are_used_elsewhere() {
    loom::model(|| {
        let mut pool = Pool::new(1 << 24);
        let mut mbuf = pool.copy_of(&[1, 2, 3, 4]).expect("room");
        let mut share = pool.share(&mut mbuf).expect("room");
        let far = thread::spawn(move || {
            use_handle(&mut mbuf);
            drop(mbuf);
        });
        use_handle(&mut share);
        drop(pool);
        drop(share);
        far.join().unwrap();
    });
}
