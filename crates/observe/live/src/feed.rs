//! Samples of the stacks, four times a second while a browser has the live page open: the busiest
//! connections, and the data that the page gets of them.
//!
//! Called by: the loop that answers the control socket, between the turns of the stacks. The page's
//! thread wakes the loop when the first browser comes, and takes the samples from a queue. If the
//! queue is full, a sample is dropped, because the stacks never wait.
//!
//! A stack may have a hundred thousand connections. Each sample counts the bytes of a part of them
//! ([`Sample::scan`]). After a pass over a stack's whole table, the busiest connections are chosen
//! again.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{Duration, Instant};
use rustix::event::{EventfdFlags, eventfd};
use serde::Serialize;
use serde_json::{Value, json};
use stack::Stack;
use tokio::sync::mpsc::Sender;

use super::carrier::Carrier;
use super::sample::Explained;
use super::{Error, Figures, Sample, Wanted};

/// The number of connections that the page shows.
const SHOWN: usize = 50;
/// The time between two samples.
const EVERY: Duration = Duration::from_millis(250);

/// The program whose stacks the page shows.
#[derive(Clone, Debug)]
pub struct Whose {
    /// The command that serves the page, such as `ttcp`.
    pub command: String,
    /// The version of the program.
    pub version: String,
    /// Prints errors that occur while the page is served.
    pub complain: fn(&str),
    /// The program starts no more threads, and gives up its right to open files, after
    /// [`super::Live::serve`].
    pub locks_down: bool,
}

/// How many browsers have the page open; set by the page's thread.
pub(super) struct Watched {
    count: AtomicUsize,
    /// An eventfd, which is readable when the first browser has come.
    rung: OwnedFd,
}

impl Watched {
    pub(super) fn new() -> Result<Watched, Error> {
        let rung = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let rung = rung.map_err(Error::of("cannot make an event descriptor"))?;
        Ok(Watched { count: AtomicUsize::new(0), rung })
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn come(&self) {
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            // The write fails only if the counter is full; then the descriptor is readable as well.
            let _ = rustix::io::write(&self.rung, &1_u64.to_ne_bytes());
        }
    }

    pub(super) fn leave(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes the samples.
pub struct Feed {
    whose: Whose,
    watched: Arc<Watched>,
    samples: Sender<Value>,
    due: Instant,
    stacks: Vec<Scan>,
    /// What limits each connection that is shown.
    explained: Explained,
    /// Carries the page's connections, if the page is at the stack's own address.
    carrier: Option<Carrier>,
}

/// What a scan has found out about a stack's connections.
#[derive(Default)]
struct Scan {
    /// Where the scan continues, and how often it has passed the whole table.
    cursor: u64,
    passes: u64,
    seen: HashMap<u64, Seen>,
    /// The connections that are shown, in order.
    chosen: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    moved: u64,
    at: Instant,
    /// The smoothed rate. At first it is all bytes that the connection ever moved, as if in one
    /// second.
    bytes_per_s: u64,
    pass: u64,
}

impl Feed {
    pub(super) fn new(whose: Whose, watched: Arc<Watched>, samples: Sender<Value>) -> Feed {
        let (due, stacks, explained) = (Instant::ZERO, Vec::new(), Explained::default());
        Feed { whose, watched, samples, due, stacks, explained, carrier: None }
    }

    /// Let `carrier` carry the page's connections, which are connections of the stack.
    pub(super) fn carry_by(&mut self, carrier: Carrier) {
        self.carrier = Some(carrier);
    }

    /// Carry the page's connections, if they are connections of the stack.
    pub fn carry(&mut self, stack: &mut Stack) {
        if let Some(carrier) = &mut self.carrier {
            carrier.turn(stack);
        }
    }

    /// Are there connections to carry?
    pub fn is_carrying(&self) -> bool {
        self.carrier.as_ref().is_some_and(Carrier::is_busy)
    }

    /// The descriptor for poll(2): readable when samples are wanted again.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.watched.rung.as_fd()
    }

    /// When the next sample is due.
    pub fn next_deadline(&self) -> Instant {
        if self.watched.count() > 0 { self.due } else { Instant::NEVER }
    }

    /// Make a sample, if one is due. `ask` passes a request to a stack, and returns `None` if the
    /// stack does not exist any more.
    pub fn turn(
        &mut self,
        now: Instant,
        names: &[String],
        ask: &mut impl FnMut(usize, Wanted) -> Option<Sample>,
    ) {
        // The read may find nothing to read, if nothing was written.
        let _ = rustix::io::read(&self.watched.rung, &mut [0; 8]);
        if self.watched.count() == 0 {
            // The first browser that comes gets a sample at once.
            (self.due, self.stacks) = (Instant::ZERO, Vec::new());
            self.explained = Explained::default();
            return;
        }
        if now < self.due {
            return;
        }
        self.due = now + EVERY;
        self.stacks.resize_with(names.len(), Scan::default);
        let (mut stacks, mut connections, mut total) = (Vec::new(), Vec::new(), 0);
        let mut has_passed = false;
        for (number, (name, scan)) in names.iter().zip(&mut self.stacks).enumerate() {
            let Some(sample) = ask(number, scan.wanted()) else { continue };
            has_passed |= scan.note(&sample, now);
            total += sample.figures.connections;
            let shown = sample.shown.into_iter();
            connections.extend(shown.map(|looked| self.explained.row(number, looked)));
            stacks.push(Named { name, figures: sample.figures });
        }
        self.explained.forget();
        if has_passed {
            self.choose();
        }
        let sample = json!({
            "program": {
                "pid": std::process::id(),
                "command": self.whose.command,
                "version": self.whose.version,
            },
            "at_ms": now.as_nanos() as f64 / 1e6,
            "stacks": stacks,
            "connections": connections,
            "connection_count": total,
            "shown_most": SHOWN,
        });
        // If the queue is full, the page's thread is behind, and this sample is dropped.
        let _ = self.samples.try_send(sample);
    }

    /// Choose the busiest connections of all stacks.
    fn choose(&mut self) {
        let of = |(stack, scan): (usize, &Scan)| {
            let all = scan.seen.iter().map(move |(&at, seen)| (stack, at, seen.bytes_per_s));
            all.collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.stacks.iter().enumerate().flat_map(of).collect();
        let busiest = |&(stack, at, rate): &(usize, u64, u64)| (Reverse(rate), stack, at);
        if all.len() > SHOWN {
            all.select_nth_unstable_by_key(SHOWN, busiest);
            all.truncate(SHOWN);
        }
        for (stack, scan) in self.stacks.iter_mut().enumerate() {
            let of_stack = all.iter().filter(|&&(of, ..)| of == stack);
            scan.chosen = of_stack.map(|&(_, at, _)| at).collect();
            scan.chosen.sort_unstable();
        }
    }
}

impl Scan {
    fn wanted(&self) -> Wanted {
        Wanted { cursor: self.cursor, chosen: self.chosen.clone() }
    }

    /// Take the counts of a sample. True if the sample reaches the end of the stack's table.
    fn note(&mut self, sample: &Sample, now: Instant) -> bool {
        for &(number, moved) in &sample.scan {
            let pass = self.passes;
            let seen = self.seen.entry(number).or_insert(Seen {
                moved,
                at: now,
                bytes_per_s: moved,
                pass,
            });
            if moved < seen.moved {
                // Another connection has this number now.
                *seen = Seen { moved, at: now, bytes_per_s: moved, pass };
            } else if now > seen.at {
                let seconds = now.since(seen.at).as_secs_f64();
                let rate = ((moved - seen.moved) as f64 / seconds) as u64;
                let bytes_per_s = seen.bytes_per_s / 2 + rate / 2;
                *seen = Seen { moved, at: now, bytes_per_s, pass };
            }
        }
        match sample.next.filter(|&next| next > self.cursor) {
            Some(next) => {
                self.cursor = next;
                false
            }
            None => {
                let pass = self.passes;
                self.seen.retain(|_, seen| seen.pass == pass);
                (self.cursor, self.passes) = (0, pass + 1);
                true
            }
        }
    }
}

/// A stack in the form that the page gets.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(flatten)]
    figures: Figures,
}

#[cfg(test)]
mod tests {
    use control::protocol::Connection;
    use explain::{Look, Looked};

    use super::*;

    /// A stack with 1,200 connections. Those from number 700 on move data, and higher numbers are
    /// faster.
    fn stack(wanted: &Wanted, round: u64) -> Sample {
        let scan: Vec<_> = (wanted.cursor..1200).take(500).collect();
        let next = scan.last().map(|last| last + 1).filter(|&next| next < 1200);
        let moved = |&number: &u64| (number, 50_000 + number.saturating_sub(700) * round);
        let shown = |&number: &u64| {
            let connection = Connection { number, ..Connection::default() };
            Looked { connection, look: Look::default() }
        };
        Sample {
            figures: Figures { connections: 1200, ..Figures::default() },
            scan: scan.iter().map(moved).collect(),
            next,
            shown: wanted.chosen.iter().map(shown).collect(),
        }
    }

    #[test]
    fn the_busiest_of_many_connections_are_shown() {
        let watched = Arc::new(Watched::new().expect("a descriptor"));
        let (samples, mut taken) = tokio::sync::mpsc::channel(100);
        let whose = Whose {
            command: "test".to_owned(),
            version: "0".to_owned(),
            complain: |_| {},
            locks_down: false,
        };
        let mut feed = Feed::new(whose, watched.clone(), samples);
        let names = ["one".to_owned()];
        let at = |n: u64| Instant::from_nanos(n * 250_000_000 + 1);
        feed.turn(at(0), &names, &mut |_, _| panic!("nobody looks"));
        assert_eq!(feed.next_deadline(), Instant::NEVER);
        watched.come();
        for round in 1..40 {
            assert!(feed.next_deadline() <= at(round));
            feed.turn(at(round), &names, &mut |_, wanted| Some(stack(&wanted, round)));
            feed.turn(at(round), &names, &mut |_, _| panic!("not due yet"));
        }
        let mut last = Value::Null;
        while let Ok(sample) = taken.try_recv() {
            last = sample;
        }
        assert_eq!(last["connection_count"], 1200);
        let shown = last["connections"].as_array().expect("a list");
        let shown: Vec<_> = shown.iter().filter_map(|row| row["number"].as_u64()).collect();
        assert_eq!(shown, (1150..1200).collect::<Vec<_>>());
        // The last browser leaves: nothing is kept, and nothing is due.
        watched.leave();
        feed.turn(at(41), &names, &mut |_, _| panic!("nobody looks"));
        assert!(feed.stacks.is_empty());
    }

    #[test]
    fn connections_that_are_gone_are_forgotten() {
        let mut scan = Scan::default();
        let body = |numbers: &[u64]| {
            let scan = numbers.iter().map(|&n| (n, 5)).collect();
            Sample { scan, ..Sample::default() }
        };
        let at = |n| Instant::from_nanos(n);
        assert!(scan.note(&body(&[1, 2, 3]), at(1)));
        assert!(scan.note(&body(&[1, 3]), at(2)));
        assert_eq!(scan.seen.len(), 2);
    }
}
