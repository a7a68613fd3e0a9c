//! Measures the cost of one frame through `mem`: with both ends on one thread, and with one thread
//! for each end.
//!
//! `cargo run --release -p wirespeed-device --example mem_burst`; pin it with `taskset -c 0,1`. In
//! the one-thread rows nothing reads the data, and frames are used again. The two-thread row
//! allocates, sends, receives and frees; freed buffers return to the sender's pool.

use std::time::Instant;

use mbuf::Pool;
use wirespeed_device::mem::{self, Config};
use wirespeed_device::{BURST, Burst, Device};

fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

fn one_thread(burst: usize) -> f64 {
    let mut pool = Pool::new(64 << 20);
    let (mut a, mut b) = mem::pair(&Config::default());
    let mut frames = Burst::new();
    for _ in 0..burst {
        frames.push(pool.copy_of(&[0; 64]).expect("the pool is large enough"));
    }
    let mut run = |bursts: usize| {
        let start = Instant::now();
        for _ in 0..bursts {
            a.tx_burst(&mut pool, &mut frames);
            b.rx_burst(&mut pool, &mut frames);
        }
        start.elapsed().as_nanos() as f64 / (bursts * burst) as f64
    };
    run(100_000);
    median((0..9).map(|_| run(200_000)).collect())
}

fn two_threads(total: usize) -> f64 {
    let (mut a, mut b) = mem::pair(&Config { depth_bytes: 1 << 20, ..Config::default() });
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut pool = Pool::new(64 << 20);
            let mut frames = Burst::new();
            let mut sent = 0;
            while sent < total {
                pool.collect();
                while frames.len() < BURST {
                    let Some(mut frame) = pool.alloc(64) else { break };
                    frame.extend(64);
                    frames.push(frame);
                }
                sent += a.tx_burst(&mut pool, &mut frames);
            }
        });
        scope.spawn(move || {
            let mut pool = Pool::new(0);
            let mut frames = Burst::new();
            let mut received = 0;
            while received < total {
                received += b.rx_burst(&mut pool, &mut frames);
                frames.drain(..).for_each(|frame| pool.free(frame));
            }
        });
    });
    start.elapsed().as_nanos() as f64 / total as f64
}

fn main() {
    for burst in [1, 8, BURST] {
        println!("one thread, bursts of {burst}: {:.2} ns a frame", one_thread(burst));
    }
    two_threads(1_000_000);
    let runs = (0..7).map(|_| two_threads(4_000_000)).collect();
    println!("two threads, bursts of {BURST}: {:.2} ns a frame, pool included", median(runs));
}
