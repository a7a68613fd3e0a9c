//! Taps in a stack on behalf of clients: add, collect packets, remove.
//!
//! Called by: `answer.rs`, on the thread that owns the stack. Each tap's buffers are bounded.

use std::time::SystemTime;

use base::{Instant, WallTime};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bpf::{Filter, Insn, Program, Settings, Tap};
use stack::{PortId, Stack, TapId};

use control::protocol::{Answer, Kept, Refusal, Tapped};

/// The size of a tap's buffer: in base64 it has to fit into a frame of the control socket, which
/// holds 1 MB.
const BUFFER_BYTES: usize = 640 << 10;

/// A request about a tap.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Add {
        port: u16,
        insns: Vec<(u16, u8, u8, u32)>,
        snaplen: u32,
        /// The same moment on two clocks: `at` on the stack's clock, `wall` as time of day.
        at: Instant,
        wall: WallTime,
    },
    Kept(u64),
    Remove(u64),
}

/// The time of day.
pub(super) fn wall_now() -> WallTime {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallTime(u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX))
}

/// Answer a request about a tap, on the thread that owns the stack.
pub(super) fn answer(stack: &mut Stack, wanted: &Wanted) -> Answer {
    match wanted {
        Wanted::Add { port, insns, snaplen, at, wall } => {
            // Convert the stack's current time to time of day.
            let ago = at.as_nanos().wrapping_sub(stack.now().as_nanos());
            match add(stack, *port, insns, *snaplen, WallTime(wall.0.wrapping_sub(ago))) {
                Ok(tap) => Answer::of(Tapped { tap: tap.number() }),
                Err(why) => Answer::refusal(Refusal::Wrong, why),
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
    // At least two packets fit into the buffer; a longer packet is cut.
    let snaplen = snaplen.min(BUFFER_BYTES as u32 / 2);
    let settings = Settings { buffer_bytes: BUFFER_BYTES, snaplen, only: None };
    let tap = Tap::new(Filter::new(program), settings).map_err(|e| e.to_string())?;
    stack.add_tap(PortId(port), tap, wall).ok_or_else(|| format!("there is no port {port}"))
}

fn kept(stack: &mut Stack, tap: u64) -> Answer {
    let Some(tap) = stack.tap(TapId::of_number(tap)) else {
        return Answer::refusal(Refusal::Gone, "the tap's port is gone".to_owned());
    };
    let mut kept = Kept::default();
    if let Some(buffer) = tap.take() {
        kept.records = STANDARD.encode(buffer.as_bytes());
        tap.give_back(buffer);
    }
    let counters = tap.counters();
    (kept.seen, kept.matched, kept.dropped) = (counters.seen, counters.matched, counters.dropped);
    Answer::of(kept)
}
