//! SYNs that came before. A device that brings SYNs faster than they can be answered loses what it
//! cannot hold, and with it segments of open connections. Then a SYN is answered when it comes for
//! the second time: a peer that means it sends it again after a second (RFC 6298 section 2.1), and
//! who forges addresses would have to send each twice. To know a SYN again takes one bit.
//!
//! Called by: `cookies.rs`. What is remembered is bounded: two fields of [`BITS`], made by the
//! first flood. A bit that another SYN has set answers one too early, which is what is done anyway
//! while there is no flood.

use base::{Duration, Instant};

/// Bits of a field, which takes a megabyte; a tenth are set by 400,000 SYNs a second.
const BITS: usize = 1 << 23;
/// A SYN is remembered for so long, and for twice as long at most.
const SPAN: Duration = Duration::from_secs(2);

/// The SYNs of the last seconds.
#[derive(Default)]
pub(crate) struct Repeated {
    /// This span's and the last one's, one bit a SYN; empty before the first flood.
    fields: [Box<[u64]>; 2],
    /// When the next span begins.
    turns: Option<Instant>,
}

impl Repeated {
    /// Did the SYN with this hash come within the last seconds? From now on it did.
    pub(crate) fn came_before(&mut self, hash: u64, now: Instant) -> bool {
        if self.turns.is_none_or(|turns| turns <= now) {
            self.turn(now);
        }
        let at = hash as usize % BITS;
        let (word, bit) = (at / 64, 1 << (at % 64));
        let came = self.fields.iter().any(|field| field[word] & bit != 0);
        self.fields[0][word] |= bit;
        came
    }

    #[cold]
    fn turn(&mut self, now: Instant) {
        let is_next = self.turns.is_some_and(|turns| now < turns + SPAN);
        self.fields.swap(0, 1);
        let first = if is_next { 0..1 } else { 0..2 };
        for field in &mut self.fields[first] {
            if field.is_empty() {
                *field = vec![0; BITS / 64].into_boxed_slice();
            } else {
                field.fill(0);
            }
        }
        self.turns = Some(now + SPAN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_is_known_again_for_one_span_and_forgotten_after_two() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut repeated = Repeated::default();
        assert!(!repeated.came_before(77, at(3)));
        assert!(repeated.came_before(77, at(4)));
        assert!(!repeated.came_before(78, at(4)));
        assert!(repeated.came_before(78, at(6)), "in the next span");
        assert!(!repeated.came_before(77, at(8)), "two spans on");
        assert!(!repeated.came_before(79, at(8)));
        assert!(!repeated.came_before(79, at(60)), "all is old");
    }

    #[test]
    fn a_million_leave_most_newcomers_unknown() {
        let mut repeated = Repeated::default();
        let hash = |n: u64| base::KeyedHash::new(1, 2).hash([n]);
        for n in 0..1_000_000 {
            repeated.came_before(hash(n), Instant::ZERO);
        }
        let known =
            (1_000_000..1_010_000).filter(|&n| repeated.came_before(hash(n), Instant::ZERO));
        assert!((700..1700).contains(&known.count()));
    }
}
