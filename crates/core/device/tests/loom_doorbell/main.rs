//! The doorbell in every interleaving: no thread sleeps while there is news.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p wirespeed-device --test loom_doorbell --release
//! --target-dir target/loom`. A counter models the ring of frames. If a wake-up is lost, loom finds
//! a deadlock and reports it by a panic. The mutants, which are wrong on purpose, must cause one.
#![cfg(loom)]

mod task;

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::sync::{Condvar, Mutex};
use loom::thread;
// This is not loom's `Arc`, which panics when it is dropped during a panic, because the mutants
// must unwind.
use std::sync::Arc;
use wirespeed_device::Doorbell;

/// The sleeper of every test: takes `total` pieces of news, sleeping between them.
fn take_all(news: &AtomicUsize, total: usize, bell: &Doorbell) {
    loop {
        let seen = news.load(Ordering::Acquire);
        if seen == total {
            break;
        }
        bell.arm();
        if news.load(Ordering::Acquire) > seen {
            bell.disarm();
        } else {
            bell.sleep(None);
        }
    }
}

#[test]
fn a_ring_between_looking_and_sleeping_is_not_lost() {
    loom::model(|| {
        let bell = Doorbell::new();
        let news = Arc::new(AtomicUsize::new(0));
        let ringer = thread::spawn({
            let (bell, news) = (bell.clone(), news.clone());
            move || {
                news.store(1, Ordering::Release);
                bell.ring()
            }
        });
        take_all(&news, 1, &bell);
        let woken = ringer.join().unwrap();
        assert_eq!(bell.wakeups(), (u64::from(woken), u64::from(!woken)));
    });
}

#[test]
fn two_pieces_of_news_wake_as_often_as_needed() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let bell = Doorbell::new();
        let news = Arc::new(AtomicUsize::new(0));
        let ringer = thread::spawn({
            let (bell, news) = (bell.clone(), news.clone());
            move || {
                for n in 1..=2 {
                    news.store(n, Ordering::Release);
                    bell.ring();
                }
            }
        });
        take_all(&news, 2, &bell);
        ringer.join().unwrap();
    });
}

#[test]
fn two_ringers_and_one_sleeper() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let bell = Doorbell::new();
        let news = Arc::new(AtomicUsize::new(0));
        let ring = |bell: Doorbell, news: Arc<AtomicUsize>| {
            thread::spawn(move || {
                news.fetch_add(1, Ordering::Release);
                bell.ring();
            })
        };
        let ringers = [ring(bell.clone(), news.clone()), ring(bell.clone(), news.clone())];
        take_all(&news, 2, &bell);
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
        let (sent, suppressed) = bell.wakeups();
        assert_eq!(sent + suppressed, 2);
    });
}

/// As in `mem` for room: the ringer wakes a sleeper only if the sleeper set a flag before it armed
/// the bell.
#[test]
fn a_wish_made_before_arming_is_seen() {
    loom::model(|| {
        let bell = Doorbell::new();
        let room = Arc::new(AtomicUsize::new(0));
        let wanted = Arc::new(AtomicBool::new(false));
        let ringer = thread::spawn({
            let (bell, room, wanted) = (bell.clone(), room.clone(), wanted.clone());
            move || {
                room.store(1, Ordering::Release);
                bell.ring_if(|| wanted.load(Ordering::Relaxed));
            }
        });
        wanted.store(true, Ordering::Relaxed);
        take_all(&room, 1, &bell);
        ringer.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_without_the_second_look_sleeps_for_ever() {
    loom::model(|| {
        let bell = Doorbell::new();
        let news = Arc::new(AtomicUsize::new(0));
        let ringer = thread::spawn({
            let (bell, news) = (bell.clone(), news.clone());
            move || {
                news.store(1, Ordering::Release);
                bell.ring();
            }
        });
        if news.load(Ordering::Acquire) == 0 {
            bell.arm();
            bell.sleep(None);
        }
        ringer.join().unwrap();
    });
}

/// A doorbell whose ringer uses a load instead of the atomic addition, with or without a fence
/// before it.
struct Split {
    armed: AtomicBool,
    sleeper: Mutex<()>,
    rung: Condvar,
    fenced: bool,
}

impl Split {
    fn fence(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }

    fn ring(&self) {
        self.fence();
        if self.armed.load(Ordering::Acquire) && self.armed.swap(false, Ordering::AcqRel) {
            drop(self.sleeper.lock().unwrap());
            self.rung.notify_all();
        }
    }

    fn sleep_unless(&self, ready: impl Fn() -> bool) {
        self.armed.store(true, Ordering::Release);
        self.fence();
        if !ready() {
            let guard = self.sleeper.lock().unwrap();
            if self.armed.load(Ordering::Acquire) {
                drop(self.rung.wait(guard).unwrap());
            }
        }
        self.armed.store(false, Ordering::Release);
    }
}

fn split(fenced: bool) {
    loom::model(move || {
        let (armed, sleeper) = (AtomicBool::new(false), Mutex::new(()));
        let bell = Arc::new(Split { armed, sleeper, rung: Condvar::new(), fenced });
        let news = Arc::new(AtomicUsize::new(0));
        let ringer = thread::spawn({
            let (bell, news) = (bell.clone(), news.clone());
            move || {
                news.store(1, Ordering::Release);
                bell.ring();
            }
        });
        while news.load(Ordering::Acquire) == 0 {
            bell.sleep_unless(|| news.load(Ordering::Acquire) == 1);
        }
        ringer.join().unwrap();
    });
}

#[test]
fn a_plain_load_behind_a_fence_would_do_too() {
    split(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_with_a_plain_load_and_no_fence_loses_a_ring() {
    split(false);
}

/// As in `mem` with coalescing: one frame alone wakes no one, two always do.
#[test]
fn what_has_gathered_between_looking_and_sleeping_is_not_lost() {
    loom::model(|| {
        let bell = Doorbell::new();
        let frames = Arc::new(AtomicUsize::new(0));
        let threshold = Arc::new(AtomicUsize::new(1));
        let ringer = thread::spawn({
            let (bell, frames, threshold) = (bell.clone(), frames.clone(), threshold.clone());
            move || {
                for n in 1..=2 {
                    frames.store(n, Ordering::Release);
                    bell.ring_if(|| n >= threshold.load(Ordering::Relaxed));
                }
            }
        });
        // The receiver writes its new threshold before it arms; both looks use it.
        threshold.store(2, Ordering::Relaxed);
        while frames.load(Ordering::Acquire) < 2 {
            bell.arm();
            if frames.load(Ordering::Acquire) >= 2 {
                bell.disarm();
            } else {
                bell.sleep(None);
            }
        }
        ringer.join().unwrap();
    });
}

/// As in `nic`: before it sleeps, the sleeper stores its wake-up time, under the lock that offers
/// take too, and a ringer rings only if its frame arrives sooner. There are no timers here, so a
/// sleep that nobody interrupts is a deadlock.
fn until(armed_first: bool) {
    const NEVER: usize = usize::MAX;
    #[derive(Default)]
    struct Wire {
        arrival: Option<usize>,
        sleeps_until: usize,
    }
    loom::model(move || {
        let bell = Doorbell::new();
        let wire = Arc::new(Mutex::new(Wire::default()));
        let ringer = thread::spawn({
            let (bell, wire) = (bell.clone(), wire.clone());
            move || {
                let mut wire = wire.lock().unwrap();
                wire.arrival = Some(5);
                let is_sooner = wire.sleeps_until > 5;
                drop(wire);
                if is_sooner {
                    bell.ring();
                }
            }
        });
        loop {
            if armed_first {
                bell.arm();
            }
            let known = {
                let mut wire = wire.lock().unwrap();
                wire.sleeps_until = wire.arrival.unwrap_or(NEVER);
                wire.arrival
            };
            if known.is_some() {
                bell.disarm();
                break;
            }
            if !armed_first {
                bell.arm();
            }
            bell.sleep(None);
        }
        ringer.join().unwrap();
    });
}

#[test]
fn an_arrival_sooner_than_the_sleep_is_not_lost() {
    until(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_that_arms_after_it_has_looked_loses_an_arrival() {
    until(false);
}

/// As in a stack's port: the end of the peer is not a frame, so the second look has to check for
/// both.
fn until_the_end(looks_for_the_end: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let bell = Doorbell::new();
        let (frames, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let peer = thread::spawn({
            let (bell, frames, gone) = (bell.clone(), frames.clone(), gone.clone());
            move || {
                frames.store(1, Ordering::Release);
                bell.ring();
                gone.store(true, Ordering::Release);
                bell.ring();
            }
        });
        loop {
            let taken = frames.load(Ordering::Acquire);
            if gone.load(Ordering::Acquire) {
                break;
            }
            bell.arm();
            let is_news = frames.load(Ordering::Acquire) > taken;
            if is_news || looks_for_the_end && gone.load(Ordering::Acquire) {
                bell.disarm();
            } else {
                bell.sleep(None);
            }
        }
        peer.join().unwrap();
    });
}

#[test]
fn an_end_between_looking_and_sleeping_is_not_lost() {
    until_the_end(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_that_looks_for_frames_alone_sleeps_through_the_end() {
    until_the_end(false);
}
