//! Whose turn it is in a world of virtual time. One thread runs at a time; when it waits, the next
//! one that the program started tries. Once all of them have tried and wait, time may pass. So a
//! program of several threads does the same in each run.
//!
//! Called by: `world.rs`, under its lock.

use std::thread::{self, ThreadId};

use pyo3::PyResult;
use pyo3::exceptions::PyRuntimeError;
use wirespeed::Instant;

/// The number of the program's first thread, which need not be started by the world.
const FIRST: u64 = 0;

/// A thread of the world.
struct Seat {
    number: u64,
    /// `None` until the thread has begun.
    thread: Option<ThreadId>,
    deadline: Option<Instant>,
}

/// The threads, in the order in which the program started them.
pub(crate) struct Turns {
    seats: Vec<Seat>,
    /// The index of the thread whose turn it is.
    turn: usize,
    /// How many threads in a row have tried without a result since time passed.
    idle: usize,
    /// The last number given to a thread.
    numbers: u64,
}

impl Default for Turns {
    fn default() -> Turns {
        let first = Seat { number: FIRST, thread: None, deadline: None };
        Turns { seats: vec![first], turn: 0, idle: 0, numbers: FIRST }
    }
}

impl Turns {
    /// The number of the calling thread.
    ///
    /// # Errors
    /// The program has several threads in the world, and this one was not started by it.
    pub(crate) fn me(&mut self) -> PyResult<u64> {
        let here = thread::current().id();
        if let Some(seat) = self.seats.iter().find(|seat| seat.thread == Some(here)) {
            return Ok(seat.number);
        }
        let alone = self.seats.len() == 1;
        match self.seats.first_mut() {
            Some(first) if first.number == FIRST && (alone || first.thread.is_none()) => {
                first.thread = Some(here);
                Ok(FIRST)
            }
            _ => Err(PyRuntimeError::new_err(
                "this thread is not one of the world's: start it by `spawn`, so that time does not \
                 pass while it runs",
            )),
        }
    }

    pub(crate) fn is_turn_of(&self, number: u64) -> bool {
        self.seats.get(self.turn).is_some_and(|seat| seat.number == number)
    }

    /// A thread has a result: the others may have one too before time passes.
    pub(crate) fn progress(&mut self) {
        self.idle = 0;
    }

    /// The thread waits: the next one has its turn. `true` if all of them wait, and none of them
    /// has a reason to try again.
    pub(crate) fn pass_on(
        &mut self,
        number: u64,
        deadline: Option<Instant>,
        tries_again: bool,
    ) -> bool {
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.number == number) {
            seat.deadline = deadline;
        }
        self.turn = (self.turn + 1) % self.seats.len().max(1);
        self.idle = if tries_again { 0 } else { self.idle + 1 };
        let all = self.idle >= self.seats.len();
        if all {
            self.idle = 0;
        }
        all
    }

    /// The first of the threads' deadlines.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.seats.iter().filter_map(|seat| seat.deadline).min()
    }

    /// Give the turn to this thread.
    pub(crate) fn take(&mut self, number: u64) {
        self.turn = self.seats.iter().position(|seat| seat.number == number).unwrap_or(0);
    }

    /// A thread that will begin.
    pub(crate) fn add(&mut self) -> u64 {
        self.numbers += 1;
        self.seats.push(Seat { number: self.numbers, thread: None, deadline: None });
        self.idle = 0;
        self.numbers
    }

    pub(crate) fn begin(&mut self, number: u64) {
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.number == number) {
            seat.thread = Some(thread::current().id());
        }
    }

    pub(crate) fn end(&mut self, number: u64) {
        let Some(index) = self.seats.iter().position(|seat| seat.number == number) else { return };
        self.seats.remove(index);
        if index < self.turn {
            self.turn -= 1;
        }
        if self.turn >= self.seats.len() {
            self.turn = 0;
        }
        self.idle = 0;
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.seats.iter().any(|seat| seat.number == number)
    }
}
