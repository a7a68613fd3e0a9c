//! The sleeper is a task: it may be woken at any time, and it is polled again after each wake-up.

use std::task::{Wake, Waker};

use super::*;

/// A task and its executor. The task may be woken at any time, and is polled again after each
/// wake-up.
struct Task {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Task {
    fn new() -> Arc<Task> {
        Arc::new(Task { woken: Mutex::new(false), changed: Condvar::new() })
    }

    /// Wait for the next wake-up.
    fn pending(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

/// A driver that is a future: look, arm with the waker, look again, return.
fn poll_all(news: &AtomicUsize, total: usize, bell: &Doorbell, second_look: bool) {
    let task = Task::new();
    let waker = Waker::from(task.clone());
    loop {
        let seen = news.load(Ordering::Acquire);
        if seen == total {
            break;
        }
        bell.arm_waker(&waker);
        if second_look && news.load(Ordering::Acquire) > seen {
            bell.disarm();
        } else {
            task.pending();
        }
    }
}

fn ringers_and_a_task(ringers: usize, second_look: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let bell = Doorbell::new();
        let news = Arc::new(AtomicUsize::new(0));
        let ringers: Vec<_> = (0..ringers)
            .map(|_| {
                let (bell, news) = (bell.clone(), news.clone());
                thread::spawn(move || {
                    news.fetch_add(1, Ordering::Release);
                    bell.ring();
                })
            })
            .collect();
        poll_all(&news, ringers.len(), &bell, second_look);
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
    });
}

#[test]
fn a_ring_before_the_waker_is_left_or_after_it_is_not_lost() {
    ringers_and_a_task(1, true);
}

#[test]
fn a_late_ring_that_takes_the_waker_of_the_next_arming_still_wakes_it() {
    ringers_and_a_task(2, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_task_without_the_second_look_waits_for_ever() {
    ringers_and_a_task(1, false);
}
