//! Measures 512-bit against 256-bit sums, and scalar code between them.
//!
//! Called by: `choice`, at most once in a process. It reads the cycle counter, which runs at a
//! constant speed whatever the clock of the core is, so that a lower clock shows. The number of
//! rounds is fixed.

use core::arch::x86_64::_rdtsc;
use core::hint::black_box;

use super::{Ladder, Measured};

/// Number of rounds. With a quarter of them, half of the measurements on a Xeon chose 512 bits,
/// because something else ran at the same time.
const ROUNDS: usize = 96;
/// Number of sums in a round.
const REPEATS: usize = 32;

/// A segment of 1448 bytes with its header, which begins in the middle of a cache line.
#[repr(C, align(64))]
struct Segment([u8; 32], [u8; 1480]);

/// Measure both rungs. All rounds with the narrow rung come first, because a lowered clock does not
/// rise again within the time that the measurement takes. The core gets `warm_ups` sets of rounds
/// in which to lower its clock.
pub(super) fn measure(warm_ups: usize) -> Measured {
    let Segment(_, segment) = &Segment([0; 32], [0x5a; 1480]);
    // Warms the caches.
    rounds(Ladder::Avx2, segment);
    let (narrow, beside_narrow) = rounds(Ladder::Avx2, segment);
    // A core takes a while to power its upper lanes.
    for _ in 0..warm_ups {
        rounds(Ladder::Avx512, segment);
    }
    let (wide, beside_wide) = rounds(Ladder::Avx512, segment);
    Measured { sums: [wide, narrow], scalar: [beside_wide, beside_narrow] }
}

/// Lower quartiles of the time for the sums of a round, and for the scalar code after them.
fn rounds(rung: Ladder, segment: &[u8; 1480]) -> (u64, u64) {
    let (mut sums, mut scalar) = ([0; ROUNDS], [0; ROUNDS]);
    for (sums, scalar) in sums.iter_mut().zip(&mut scalar) {
        let start = now();
        for _ in 0..REPEATS {
            black_box(rung.sum(black_box(segment)));
        }
        let middle = now();
        for _ in 0..REPEATS / 4 {
            black_box(Ladder::Word64.sum(black_box(segment)));
        }
        let end = now();
        (*sums, *scalar) = (middle.wrapping_sub(start), end.wrapping_sub(middle));
    }
    (lower_quartile(sums), lower_quartile(scalar))
}

fn lower_quartile(mut of: [u64; ROUNDS]) -> u64 {
    of.sort_unstable();
    of[ROUNDS / 4]
}

fn now() -> u64 {
    // SAFETY: every x86-64 has the instruction, and it only reads the counter.
    unsafe { _rdtsc() }
}
