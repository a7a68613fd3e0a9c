//! Tests of buffers: properties against plain vectors, sharing, limits, threads.
//!
//! Every test ends with no handle in use. With sanitizers, use `--cfg wirespeed_unpooled`, so that
//! each buffer is an allocation of its own.

mod frames;
mod limits;
mod model;
mod queues;
mod sharing;
mod threads;

use crate::{Mbuf, Pool};

/// `n` bytes that differ from each other and from those of another `seed`.
fn bytes(seed: u8, n: usize) -> Vec<u8> {
    (0..n).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn mbuf_of(pool: &mut Pool, data: &[u8]) -> Mbuf {
    pool.copy_of(data).expect("the test's pool is large enough")
}

fn assert_all_home(pool: &mut Pool) {
    assert_eq!(pool.outstanding(), 0, "handles are still in use");
}
