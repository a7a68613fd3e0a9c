//! Leases of the taps that clients asked for: a tap is removed if its packets are not collected.
//!
//! Called by: `service.rs`. The number of taps and the time between two requests are
//! bounded.

use base::Limit;
use base::{Budget, Duration, Instant};

use super::answer;
use super::taps::Wanted;
use control::protocol::{Answer, Refusal};

/// A client that makes no request for this long is taken to be gone.
const LEASE: Duration = Duration::from_secs(10);

struct Lease {
    stack: usize,
    tap: u64,
    until: Instant,
    /// The client has collected everything since the program began to end.
    has_all: bool,
}

/// The leases of all taps of a program.
#[derive(Default)]
pub(super) struct Leases(Vec<Lease>);

impl Leases {
    /// Check whether the stack may be asked for the tap, and renew the tap's lease.
    pub(super) fn ask(
        &mut self,
        stack: usize,
        wanted: Wanted,
        now: Instant,
        control: &mut Budget,
    ) -> Result<Wanted, (Refusal, String)> {
        let is_there = match &wanted {
            Wanted::Add { .. } if !control.admits(Limit::ControlTaps, self.0.len()) => {
                let most = control.of(Limit::ControlTaps);
                let why = format!(
                    "there are {most} taps already (limit control_taps). End another `wirespeed \
                     dump` or `top` first"
                );
                return Err((Refusal::Full, why));
            }
            Wanted::Add { .. } => Some(()),
            Wanted::Kept(tap) | Wanted::Remove(tap) => {
                self.of(stack, *tap).map(|lease| lease.until = now + LEASE)
            }
        };
        let lapsed = || (Refusal::Lapsed, "there is no such tap".to_owned());
        is_there.map(|()| wanted).ok_or_else(lapsed)
    }

    /// Are there no leases?
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first lease expires.
    pub(super) fn next_deadline(&self) -> Instant {
        self.0.iter().map(|lease| lease.until).min().unwrap_or(Instant::NEVER)
    }

    /// The program is ending, and no more packets come.
    pub(super) fn begin_last(&mut self) {
        self.0.iter_mut().for_each(|lease| lease.has_all = false);
    }

    /// Has every client collected everything since [`Leases::begin_last`]?
    pub(super) fn have_all(&self) -> bool {
        self.0.iter().all(|lease| lease.has_all)
    }

    /// Note the stack's answer to a request.
    pub(super) fn note(
        &mut self,
        stack: usize,
        wanted: &answer::Wanted,
        answer: &Answer,
        now: Instant,
    ) {
        match wanted {
            answer::Wanted::Tap(Wanted::Add { .. }) => {
                if let Some(tap) = answer.body["tap"].as_u64() {
                    self.0.push(Lease { stack, tap, until: now + LEASE, has_all: false });
                }
            }
            answer::Wanted::Tap(Wanted::Kept(tap)) => {
                let is_dry = answer.body["records"].as_str().is_none_or(str::is_empty);
                if let Some(lease) = self.of(stack, *tap) {
                    lease.has_all = is_dry;
                }
            }
            answer::Wanted::Tap(Wanted::Remove(tap)) if answer.refusal == Refusal::Busy => {
                // The tap still exists, and sees every packet: renew its lease, and try again
                // later.
                if let Some(lease) = self.of(stack, *tap) {
                    lease.until = now + LEASE;
                }
            }
            answer::Wanted::Tap(Wanted::Remove(tap)) => {
                self.0.retain(|lease| lease.stack != stack || lease.tap != *tap);
            }
            answer::Wanted::Page(..)
            | answer::Wanted::Connections(_)
            | answer::Wanted::Sample(_)
            | answer::Wanted::Lookup(_)
            | answer::Wanted::Change(_)
            | answer::Wanted::Filter(_) => {}
        }
    }

    fn of(&mut self, stack: usize, tap: u64) -> Option<&mut Lease> {
        self.0.iter_mut().find(|lease| lease.stack == stack && lease.tap == tap)
    }

    /// The expired leases, as requests to remove their taps.
    pub(super) fn expired(&self, now: Instant) -> Vec<(usize, Wanted)> {
        let gone = self.0.iter().filter(|lease| lease.until < now);
        gone.map(|lease| (lease.stack, Wanted::Remove(lease.tap))).collect()
    }
}
