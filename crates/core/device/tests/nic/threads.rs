//! Two threads and the system clock, at every level: all frames arrive in order, and no thread
//! sleeps for ever.

use core::time::Duration;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant as SystemTime;

use base::Instant;
use mbuf::Pool;
use wirespeed_device::mitigation::Level;
use wirespeed_device::nic::{Config, Nic, pair};
use wirespeed_device::{Burst, Device};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Sleep until the interface has something for its driver.
fn sleep(nic: &mut Nic, waker: &Waker, start: SystemTime) {
    if !nic.arm(waker) {
        return;
    }
    let now = start.elapsed().as_nanos() as u64;
    match nic.wakes_at() {
        Instant::NEVER => thread::park_timeout(Duration::from_secs(20)),
        at => thread::park_timeout(Duration::from_nanos(at.as_nanos().saturating_sub(now))),
    }
}

#[test]
fn all_frames_arrive_in_order_at_every_level() {
    const FRAMES: u32 = if cfg!(wirespeed_unpooled) { 500 } else { 5_000 };
    for n in 0..=Level::MAX.number() {
        let threshold = Level::new(n).expect("a level").threshold();
        let start = SystemTime::now();
        let clock = Arc::new(move || Instant::from_nanos(start.elapsed().as_nanos() as u64));
        let (mut a, mut b) = pair(&Config { rx_ring: FRAMES as usize, ..Config::default() }, clock)
            .expect("there is such a link");
        a.coalesce(threshold);
        b.coalesce(threshold);
        let sender = thread::spawn(move || {
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            let (mut pool, mut burst, mut made) = (Pool::new(64 << 20), Burst::new(), 0u32);
            while made < FRAMES || !burst.is_empty() {
                while burst.len() < 1 + made as usize % 7 && made < FRAMES {
                    let frame = pool.copy_of(&made.to_be_bytes());
                    burst.push(frame.expect("the test's pool is large enough"));
                    made += 1;
                }
                if a.tx_burst(&mut pool, &mut burst) == 0 {
                    sleep(&mut a, &waker, start);
                }
                pool.collect();
            }
            a
        });
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let (mut pool, mut burst, mut received) = (Pool::new(1 << 20), Burst::new(), 0u32);
        while received < FRAMES {
            b.rx_burst(&mut pool, &mut burst);
            for frame in burst.drain(..) {
                assert_eq!(frame.as_slice()[..4], received.to_be_bytes(), "level {n}");
                received += 1;
                pool.free(frame);
            }
            pool.flush();
            if received < FRAMES {
                sleep(&mut b, &waker, start);
            }
            assert!(start.elapsed() < Duration::from_secs(60), "level {n}: {received} arrived");
        }
        drop(sender.join().expect("no panic"));
    }
}
