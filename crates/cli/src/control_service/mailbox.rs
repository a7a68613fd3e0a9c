//! The control service's thread puts a question here for the thread that owns a stack, wakes it and
//! takes the answer: a stack belongs to one thread, and no other looks into it.
//!
//! Called by: `control_service.rs` asks; the threads of `ttcp --threads 2` serve, and close when
//! they end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wirespeed::device::Doorbell;
use wirespeed::{Budget, Stack};

use super::answer::{self, Wanted};
use crate::running::{Answer, Refusal};

/// How long an answer may take: many ticks.
const TIMEOUT: Duration = Duration::from_secs(1);

/// One question at a time.
pub(crate) struct Mailbox {
    /// Looked at by the owner before it takes the lock.
    asked: AtomicBool,
    slot: Mutex<Slot>,
    answered: Condvar,
    /// Wakes the owner.
    bell: Doorbell,
}

#[derive(Default)]
struct Slot {
    asked: Option<(Wanted, Box<Budget>)>,
    /// Packets that are in it are nowhere else: it stays here when the owner ends.
    answer: Option<Answer>,
    /// The owner is not there any more.
    is_closed: bool,
}

impl Mailbox {
    /// At which a thread serves that sleeps at `bell`.
    pub(crate) fn new(bell: Doorbell) -> Mailbox {
        let (asked, slot, answered) = (AtomicBool::new(false), Mutex::default(), Condvar::new());
        Mailbox { asked, slot, answered, bell }
    }

    /// Does the control service wait for the owner?
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// By the stack's owner, now and then.
    pub(crate) fn serve(&self, stack: &mut Stack) {
        if !self.asked.swap(false, Ordering::Acquire) {
            return;
        }
        let mut slot = self.slot();
        if let Some((wanted, control)) = slot.asked.take() {
            slot.answer = Some(answer::of(stack, &wanted, &control));
            self.answered.notify_one();
        }
    }

    /// By the stack's owner, when it serves no more.
    pub(crate) fn close(&self) {
        self.slot().is_closed = true;
        self.answered.notify_one();
    }

    /// By the control service: waits for the owner.
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

    /// A thread that panicked at it left a whole value.
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owner has ended; what its taps have kept is there until the program ends.
fn closed(number: usize, wanted: &Wanted) -> Answer {
    match wanted {
        Wanted::Page(..) => answer::gone(number),
        Wanted::Tap(_) => {
            let why = "the transfer has ended; the last packets come with the program's end";
            Answer::refusal(Refusal::Busy, why.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use wirespeed::StackConfig;

    use super::*;
    use crate::running::Section;

    #[test]
    fn an_answer_is_not_lost_when_its_owner_ends_before_it_is_read() {
        let mut stack = Stack::new(StackConfig::new([1, 2]));
        let wanted = Wanted::Page(Section::Drops, 0);
        // The owner is nearly always the faster one.
        for _ in 0..100 {
            let mailbox = Mailbox::new(Doorbell::new());
            let answer = std::thread::scope(|scope| {
                let asking = scope.spawn(|| mailbox.ask(0, wanted.clone(), &Budget::default()));
                while !mailbox.is_asked() {
                    std::thread::yield_now();
                }
                mailbox.serve(&mut stack);
                mailbox.close();
                asking.join().expect("no panic")
            });
            assert_eq!(answer.error, None);
            let later = mailbox.ask(0, wanted.clone(), &Budget::default());
            assert_eq!(later.refusal, Refusal::Gone);
        }
    }
}
