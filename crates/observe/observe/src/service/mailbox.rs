//! A mailbox for requests: the control service's thread puts a question here, wakes the thread that
//! owns the stack, and waits for the answer. Only the owner may touch the stack.
//!
//! Called by: `service.rs`, which asks; the threads of `ttcp --threads 2`, which answer, and close
//! the mailbox when they end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Budget;
use control::Users;
use device::Doorbell;
use stack::Stack;

use super::answer::{self, Wanted, With};
use crate::beyond::Nothing;
use control::protocol::{Answer, Refusal};

/// How long an answer may take; the owner polls many times in that time.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Holds one question at a time.
pub struct Mailbox {
    /// The owner checks this flag before it takes the lock.
    asked: AtomicBool,
    slot: Mutex<Slot>,
    answered: Condvar,
    /// Wakes the owner.
    bell: Doorbell,
}

#[derive(Default)]
struct Slot {
    asked: Option<(Wanted, Box<Budget>)>,
    /// The answer stays here when the owner ends, because it may hold a tap's packets, which exist
    /// nowhere else.
    answer: Option<Answer>,
    /// The owner has ended.
    is_closed: bool,
}

impl Mailbox {
    /// A mailbox for a thread that sleeps on `bell`.
    pub fn new(bell: Doorbell) -> Mailbox {
        let (asked, slot, answered) = (AtomicBool::new(false), Mutex::default(), Condvar::new());
        Mailbox { asked, slot, answered, bell }
    }

    /// Does a question wait for the owner?
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Answer a waiting question. Called by the owner.
    pub fn serve(&self, stack: &mut Stack) {
        if !self.asked.swap(false, Ordering::Acquire) {
            return;
        }
        let mut slot = self.slot();
        if let Some((wanted, control)) = slot.asked.take() {
            slot.answer = Some({
                let (users, beyond) = (&Users::default(), &Nothing);
                let with = With { users, control: &control, beyond };
                answer::of(stack, &wanted, with)
            });
            self.answered.notify_one();
        }
    }

    /// Refuse further questions. Called by the owner before it ends.
    pub fn close(&self) {
        self.slot().is_closed = true;
        self.answered.notify_one();
    }

    /// Ask, and wait for the answer. Called by the control service.
    pub(super) fn ask(&self, number: usize, wanted: Wanted, control: &Budget) -> Answer {
        let mut slot = self.slot();
        if !slot.is_closed {
            slot.asked = Some((wanted.clone(), Box::new(control.clone())));
            self.asked.store(true, Ordering::Release);
            self.bell.ring();
            let waits = |slot: &mut Slot| slot.answer.is_none() && !slot.is_closed;
            let waited = self.answered.wait_timeout_while(slot, TIMEOUT, waits);
            (slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        slot.asked = None;
        match slot.answer.take() {
            Some(answer) => answer,
            None if slot.is_closed => closed(number, &wanted),
            None => {
                let why = "the stack's thread is busy; ask again".to_owned();
                Answer::refusal(Refusal::Busy, why)
            }
        }
    }

    /// Lock the slot. Even if a thread panicked while it held the lock, the value is complete.
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer when the owner has ended. The stack's taps keep their packets until the program ends.
fn closed(number: usize, wanted: &Wanted) -> Answer {
    match wanted {
        Wanted::Page(..)
        | Wanted::Connections(_)
        | Wanted::Sample(_)
        | Wanted::Lookup(_)
        | Wanted::Change(_)
        | Wanted::Filter(_) => answer::gone(number),
        Wanted::Tap(_) => {
            let why = "the transfer has ended; the last packets come when the program ends";
            Answer::refusal(Refusal::Busy, why.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use stack::StackConfig;

    use super::*;
    use control::protocol::Section;

    #[test]
    fn an_answer_is_not_lost_when_its_owner_ends_before_it_is_read() {
        let mut stack = Stack::new(StackConfig::new([1, 2]));
        let wanted = Wanted::Page(Section::Drops, 0);
        // The owner nearly always ends before the answer is read.
        for _ in 0..100 {
            let mailbox = Mailbox::new(Doorbell::new());
            let answer = std::thread::scope(|scope| {
                let asking = scope.spawn(|| mailbox.ask(0, wanted.clone(), &Budget::default()));
                while !mailbox.is_asked() {
                    std::thread::yield_now();
                }
                mailbox.serve(&mut stack);
                mailbox.close();
                asking.join().expect("the asking thread does not panic")
            });
            assert_eq!(answer.error, None);
            let later = mailbox.ask(0, wanted.clone(), &Budget::default());
            assert_eq!(later.refusal, Refusal::Gone);
        }
    }
}
