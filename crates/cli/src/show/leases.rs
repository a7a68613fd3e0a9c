//! Taps that other programs asked for: each is theirs as long as they come for what it keeps.
//!
//! Called by: `desk.rs`. Must not know: filter text; instructions come from outside and are looked
//! at here like any. Bounded: taps at a time, bytes of each, time between two questions.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bpf::{Filter, Insn, Program, Settings, Tap};
use serde_json::json;
use wirespeed::{Duration, Instant, PortId, Stack, TapId, WallTime};

use super::desk::{self, refusal};
use crate::running::{Answer, Kept, Refusal};

/// Bytes of a buffer: in base64 it goes into a frame of the control socket, which has a megabyte.
const BUFFER_BYTES: usize = 640 << 10;

/// Who does not ask for so long has gone away.
const LEASE: Duration = Duration::from_secs(10);

/// What is wanted of a stack.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Add {
        port: u16,
        insns: Vec<(u16, u8, u8, u32)>,
        snaplen: u32,
        /// The stacks' time, all by one clock, and the time of day then.
        at: Instant,
        wall: WallTime,
    },
    Kept(u64),
    Remove(u64),
}

/// The time of day.
pub(super) fn wall_now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

struct Lease {
    stack: usize,
    tap: u64,
    until: Instant,
    /// Of a program that ends: it has nothing more that its owner has not got.
    has_all: bool,
}

/// All taps of a program.
#[derive(Default)]
pub(super) struct Leases(Vec<Lease>);

impl Leases {
    /// May that be asked of the stack?
    pub(super) fn ask(
        &mut self,
        stack: usize,
        wanted: Wanted,
        now: Instant,
        most: usize,
    ) -> Result<Wanted, (Refusal, String)> {
        let is_there = match &wanted {
            Wanted::Add { .. } if self.0.len() >= most => {
                let why = format!(
                    "{most} taps watch already (limit control_taps). End another `wirespeed dump` \
                     or `top` first"
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

    /// Does nobody watch?
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing more will come.
    pub(super) fn begin_last(&mut self) {
        self.0.iter_mut().for_each(|lease| lease.has_all = false);
    }

    /// Has everybody got what there was since [`Leases::begin_last`]?
    pub(super) fn have_all(&self) -> bool {
        self.0.iter().all(|lease| lease.has_all)
    }

    /// What became of it.
    pub(super) fn note(
        &mut self,
        stack: usize,
        wanted: &desk::Wanted,
        answer: &Answer,
        now: Instant,
    ) {
        match wanted {
            desk::Wanted::Tap(Wanted::Add { .. }) => {
                if let Some(tap) = answer.body["tap"].as_u64() {
                    self.0.push(Lease { stack, tap, until: now + LEASE, has_all: false });
                }
            }
            desk::Wanted::Tap(Wanted::Kept(tap)) => {
                let is_dry = answer.body["records"].as_str().is_none_or(str::is_empty);
                if let Some(lease) = self.of(stack, *tap) {
                    lease.has_all = is_dry;
                }
            }
            desk::Wanted::Tap(Wanted::Remove(tap)) if answer.refusal == Refusal::Busy => {
                // It is there, and looks at every packet: again, later.
                if let Some(lease) = self.of(stack, *tap) {
                    lease.until = now + LEASE;
                }
            }
            desk::Wanted::Tap(Wanted::Remove(tap)) => {
                self.0.retain(|lease| lease.stack != stack || lease.tap != *tap);
            }
            desk::Wanted::Page(..) => {}
        }
    }

    fn of(&mut self, stack: usize, tap: u64) -> Option<&mut Lease> {
        self.0.iter_mut().find(|lease| lease.stack == stack && lease.tap == tap)
    }

    /// Those that nobody comes for any more, each with what is to be done.
    pub(super) fn expired(&self, now: Instant) -> Vec<(usize, Wanted)> {
        let gone = self.0.iter().filter(|lease| lease.until < now);
        gone.map(|lease| (lease.stack, Wanted::Remove(lease.tap))).collect()
    }
}

/// By the thread that has the stack.
pub(super) fn answer(stack: &mut Stack, wanted: &Wanted) -> Answer {
    match wanted {
        Wanted::Add { port, insns, snaplen, at, wall } => {
            // What the time of day was when the stack last heard the time.
            let ago = at.as_nanos().wrapping_sub(stack.now().as_nanos());
            match add(stack, *port, insns, *snaplen, WallTime(wall.0.wrapping_sub(ago))) {
                Ok(tap) => Answer { body: json!({ "tap": tap.number() }), ..Answer::default() },
                Err(why) => refusal(Refusal::Wrong, why),
            }
        }
        Wanted::Kept(tap) => kept(stack, *tap),
        Wanted::Remove(tap) => {
            stack.remove_tap(TapId::of_number(*tap));
            Answer::default()
        }
    }
}

fn add(
    stack: &mut Stack,
    port: u16,
    insns: &[(u16, u8, u8, u32)],
    snaplen: u32,
    wall: WallTime,
) -> Result<TapId, String> {
    let insns: Vec<Insn> =
        insns.iter().map(|&(code, jt, jf, k)| Insn::new(code, jt, jf, k)).collect();
    let program = Program::new(&insns).map_err(|e| format!("the filter is refused: {e}"))?;
    // A packet that is larger than the buffer holds is kept as far as it holds.
    let snaplen = snaplen.min(BUFFER_BYTES as u32 / 2);
    let settings = Settings { buffer_bytes: BUFFER_BYTES, snaplen, only: None };
    let tap = Tap::new(Filter::new(program), settings).map_err(|e| e.to_string())?;
    stack.add_tap(PortId(port), tap, wall).ok_or_else(|| format!("there is no port {port}"))
}

fn kept(stack: &mut Stack, tap: u64) -> Answer {
    let Some(tap) = stack.tap(TapId::of_number(tap)) else {
        return refusal(Refusal::Gone, "the tap's port is gone".to_owned());
    };
    let mut kept = Kept::default();
    if let Some(buffer) = tap.take() {
        kept.records = STANDARD.encode(buffer.as_bytes());
        tap.give_back(buffer);
    }
    let counters = tap.counters();
    (kept.seen, kept.matched, kept.dropped) = (counters.seen, counters.matched, counters.dropped);
    Answer { body: json!(kept), ..Answer::default() }
}
