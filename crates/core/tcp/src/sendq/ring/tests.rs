use std::collections::VecDeque;

use proptest::prelude::*;

use super::{Ring, occupy};
use crate::sendq::Piece;

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    PopFront,
    Drop(usize),
    Insert(usize),
    Remove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..9usize).prop_map(Step::Push),
        1 => Just(Step::PopFront),
        2 => (0..9usize).prop_map(Step::Drop),
        2 => (0..40usize).prop_map(Step::Insert),
        1 => (0..40usize).prop_map(Step::Remove),
    ]
}

/// A piece that is identified by its length `n`.
fn piece(len: u32) -> Piece {
    Piece::waiting(None, len)
}

/// Pushes `count` pieces as a write does: fills all contiguous vacant slots, then asks the ring for
/// more.
fn push(ring: &mut Ring, first: u32, mut count: usize) {
    let mut next = first;
    while count > 0 {
        let mut filled = 0;
        for slot in ring.vacant().iter_mut().take(count) {
            occupy(slot, piece(next));
            next += 1;
            filled += 1;
        }
        assert!(filled > 0, "the ring had no vacant slot");
        ring.grown_by(filled);
        count -= filled;
    }
}

fn lens(ring: &Ring, from: usize, to: usize) -> Vec<u32> {
    let first = ring.run(from, to);
    let rest = ring.run(from + first.len(), to);
    first.iter().chain(rest).map(|piece| piece.len).collect()
}

proptest! {
    /// After any operations the ring contains the same pieces as a plain queue, and any part of it
    /// is in at most two contiguous slices.
    #[test]
    fn a_ring_is_a_queue(
        steps in prop::collection::vec(step(), 1..80),
        ends in prop::collection::vec((0..50usize, 0..50usize), 80),
    ) {
        let (mut ring, mut model) = (Ring::default(), VecDeque::new());
        let mut next = 0;
        for (step, &(from, to)) in steps.iter().zip(&ends) {
            match *step {
                Step::Push(count) => {
                    push(&mut ring, next, count);
                    model.extend(next..next + count as u32);
                }
                Step::PopFront => {
                    prop_assert_eq!(ring.pop_front().map(|piece| piece.len), model.pop_front());
                }
                Step::Drop(count) => {
                    let count = count.min(model.len());
                    ring.drop_front(count);
                    model.drain(..count);
                }
                Step::Insert(index) => {
                    let index = index.min(model.len());
                    ring.insert(index, piece(next));
                    model.insert(index, next);
                }
                Step::Remove(index) => {
                    prop_assert_eq!(ring.remove(index).map(|piece| piece.len), model.remove(index));
                }
            }
            next += 10;
            prop_assert_eq!(ring.len(), model.len());
            prop_assert!(ring.slots.len().is_power_of_two() || ring.slots.is_empty());
            let all: Vec<u32> = model.iter().copied().collect();
            prop_assert_eq!(lens(&ring, 0, usize::MAX), &all[..]);
            let to = to.min(all.len());
            let part = all.get(from..to).unwrap_or_default();
            prop_assert_eq!(lens(&ring, from, to), part);
            prop_assert_eq!(ring.run_mut(from, to).len(), ring.run(from, to).len());
            prop_assert_eq!(ring.get(from).map(|piece| piece.len), all.get(from).copied());
            prop_assert_eq!(ring.get_mut(to).map(|piece| piece.len), all.get(to).copied());
            prop_assert_eq!(ring.back_mut().map(|piece| piece.len), all.last().copied());
        }
    }
}

/// The ring of a connection that never has two pieces stays small.
#[test]
fn the_first_piece_has_a_ring_of_one() {
    let mut ring = Ring::default();
    assert_eq!(ring.slots.len(), 0);
    ring.push_back(piece(1));
    assert_eq!(ring.slots.len(), 1);
    ring.drop_front(1);
    ring.push_back(piece(2));
    assert_eq!(ring.slots.len(), 1);
    ring.push_back(piece(3));
    assert_eq!((ring.slots.len(), size_of::<Piece>()), (4, 32));
}
