//! Properties of the queues: the reassembly queue, its SACK reports, and the send queue.

use base::{Duration, Instant, SeqNumber};
use mbuf::Pool;
use proptest::prelude::*;

use crate::rare::Clean;
use crate::receive::ReceivedBlocks;
use crate::receive::reass::Reassembly;
use crate::sendq::{Piece, SendQueue};

const LEN: usize = 600;

fn stream(i: usize) -> u8 {
    (i * 31 + i / 256 * 7) as u8
}

/// Ranges of the stream that overlap at random.
fn ranges() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..LEN, 1..80usize), 1..60)
        .prop_map(|v| v.into_iter().map(|(at, len)| (at, len.min(LEN - at))).collect())
}

fn insert(r: &mut Reassembly, pool: &mut Pool, at: usize, bytes: &[u8]) -> bool {
    let m = pool.copy_of(bytes).expect("memory");
    r.insert(at as u64, m, pool)
}

/// Takes everything that continues the stream at `next`, as a receiver does.
fn drain(r: &mut Reassembly, pool: &mut Pool, next: &mut usize, out: &mut Vec<u8>) {
    while let Some(m) = r.take(*next as u64, pool) {
        *next += m.len();
        out.extend_from_slice(m.as_slice());
        pool.free(m);
    }
}

/// Large buffers with few bytes each: sixty of them at once would exhaust the pool of 4 MB.
#[test]
fn reassembly_does_not_hold_large_buffers_for_few_bytes() {
    let mut pool = Pool::new(4 << 20);
    let mut r = Reassembly::default();
    for i in 0..500 {
        for (at, len) in [(2 * i, 1), (100_000 + 1000 * i, 500)] {
            let mut m = pool.alloc(60_000).expect("the one before came back");
            assert_eq!(m.append(&vec![i as u8; len]), len);
            assert!(r.insert(at as u64, m, &mut pool));
        }
    }
    assert_eq!((r.pieces(), r.bytes()), (1000, 500 * 501));
    r.clear(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

/// The result of a needed cut differs from the result of a cut that was not needed.
#[test]
fn a_cut_without_a_buffer_fails() {
    let mut pool = Pool::new(1 << 20);
    let mut q = SendQueue::default();
    q.append_mbuf(pool.copy_of(&[1; 1000]).expect("a buffer"), None, None);
    q.send_front().expect("waits").seq = SeqNumber(0);
    let mut other = pool.alloc(100).expect("a buffer");
    let mut all = Vec::new();
    while let Some(share) = pool.share(&mut other) {
        all.push(share);
    }
    assert_eq!(q.cut(0, SeqNumber(500), &mut pool), None);
    assert_eq!(q.in_flight(0).map(|piece| piece.len), Some(1000));
    assert_eq!(q.cut(0, SeqNumber(0), &mut pool), Some(0));
    assert_eq!(q.cut(0, SeqNumber(1000), &mut pool), Some(0));
    all.into_iter().for_each(|share| pool.free(share));
    assert_eq!(q.cut(0, SeqNumber(500), &mut pool), Some(1));
    pool.free(other);
    q.clear(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

proptest! {
    /// Segments in any order and with any overlaps deliver exactly what a plain vector contains,
    /// and every buffer is freed.
    #[test]
    fn reassembly_delivers_exactly_the_stream(ranges in ranges()) {
        let mut pool = Pool::new(16 << 20);
        let mut r = Reassembly::default();
        let mut have = [false; LEN];
        let (mut next, mut out) = (0, Vec::new());
        for &(at, len) in &ranges {
            let data: Vec<u8> = (at..at + len).map(stream).collect();
            let news = have[at..at + len].iter().any(|h| !h);
            // The caller has cut off the bytes before `next`.
            let cut = next.max(at).min(at + len) - at;
            if cut < len {
                prop_assert_eq!(insert(&mut r, &mut pool, at + cut, &data[cut..]), news);
            }
            have[at..at + len].fill(true);
            drain(&mut r, &mut pool, &mut next, &mut out);
            prop_assert_eq!(next, have.iter().position(|h| !h).unwrap_or(LEN));
        }
        let wanted: Vec<u8> = (0..next).map(stream).collect();
        prop_assert_eq!(out, wanted);
        r.clear(&mut pool);
        prop_assert_eq!(pool.outstanding(), 0);
    }

    /// Compares the result of `insert`, and the bytes held, with a map of bytes; at most `LIMIT`
    /// pieces are held, and no byte twice.
    #[test]
    fn reassembly_says_new_exactly_when_a_byte_is_new(
        ranges in ranges(),
        grain in prop::sample::select(vec![1, 8]),
        takes in prop::collection::vec(0..LEN, 1..4),
    ) {
        const LIMIT: usize = 6;
        let mut pool = Pool::new(16 << 20);
        let mut r = Reassembly::default();
        let mut have = vec![false; LEN * grain];
        for (i, &(at, len)) in ranges.iter().enumerate() {
            let (at, len) = (at * grain, len * grain);
            if r.pieces() < LIMIT {
                let data: Vec<u8> = (at..at + len).map(stream).collect();
                let news = have[at..at + len].iter().any(|h| !h);
                prop_assert_eq!(insert(&mut r, &mut pool, at, &data), news, "{} {}", at, len);
                have[at..at + len].fill(true);
            }
            prop_assert!(r.pieces() <= LIMIT);
            prop_assert_eq!(r.bytes(), have.iter().filter(|h| **h).count());
            prop_assert_eq!(r.is_empty(), r.bytes() == 0);
            if i % 16 == 15 {
                // The gap before `next` is filled: older bytes are dropped, and the bytes that
                // continue the stream there are taken.
                let mut next = takes[i / 16 % takes.len()] * grain;
                drain(&mut r, &mut pool, &mut next, &mut Vec::new());
                have[..next].fill(false);
                prop_assert_eq!(r.bytes(), have.iter().filter(|h| **h).count());
            }
        }
        r.clear(&mut pool);
        prop_assert_eq!(pool.outstanding(), 0);
    }

    /// Overlaps with different data: the same arrivals always yield the same bytes; each byte is
    /// from an arrival that covered it, and no byte is missing or delivered twice.
    #[test]
    fn reassembly_of_different_data_is_deterministic(ranges in ranges()) {
        let run = || {
            let mut pool = Pool::new(16 << 20);
            let mut r = Reassembly::default();
            for (i, &(at, len)) in ranges.iter().enumerate() {
                insert(&mut r, &mut pool, at, &vec![i as u8; len]);
            }
            let mut pieces = Vec::new();
            for from in 0..LEN {
                let (mut next, mut out) = (from, Vec::new());
                drain(&mut r, &mut pool, &mut next, &mut out);
                pieces.extend(out.into_iter().enumerate().map(|(k, b)| (from + k, b)));
            }
            prop_assert_eq!(pool.outstanding(), 0);
            Ok(pieces)
        };
        let first = run()?;
        prop_assert_eq!(&first, &run()?);
        for &(at, by) in &first {
            let (start, len) = ranges[usize::from(by)];
            prop_assert!((start..start + len).contains(&at));
        }
        let covered = (0..LEN).filter(|i| ranges.iter().any(|&(a, l)| (a..a + l).contains(i)));
        let delivered: Vec<usize> = first.iter().map(|&(at, _)| at).collect();
        prop_assert_eq!(delivered, covered.collect::<Vec<_>>());
    }

    /// The reported blocks are ranges that are held, the newest first, and no two of them touch.
    /// RFC 2018 4-d.
    #[test]
    fn received_blocks_report_what_is_held(ranges in ranges(), base in any::<u32>()) {
        let base = SeqNumber(base);
        let mut blocks = *ReceivedBlocks::CLEAN;
        let mut have = [false; LEN + 1];
        for &(at, len) in &ranges {
            blocks.add(base + at as u32, base + (at + len) as u32);
            have[at..at + len].fill(true);
            let got: Vec<(usize, usize)> = blocks
                .iter()
                .map(|&(l, r)| (l.since(base) as usize, r.since(base) as usize))
                .collect();
            prop_assert!((1..=4).contains(&got.len()));
            prop_assert!(got[0].0 <= at && at + len <= got[0].1, "the newest block is not first");
            for (i, &(l, r)) in got.iter().enumerate() {
                prop_assert!(have[l..r].iter().all(|&h| h), "a block has a byte that is not held");
                for &(l2, r2) in &got[i + 1..] {
                    prop_assert!(r < l2 || r2 < l, "two blocks touch");
                }
            }
        }
        let next = LEN as u32 / 2;
        blocks.advance(base + next);
        for &(l, _) in blocks.iter() {
            prop_assert!(l.gt(base + next));
        }
        prop_assert!(blocks.report(true).len() <= 3);
    }

    /// After any cuts and ACKs the queue contains exactly the bytes from SND.UNA on, in order; at
    /// the end every buffer is freed.
    #[test]
    fn sendq_cut_and_acknowledged_at_random_keeps_the_stream(
        units in prop::collection::vec(1..90usize, 1..8),
        steps in prop::collection::vec((any::<bool>(), 0..LEN), 1..40),
        base in any::<u32>(),
    ) {
        let base = SeqNumber(base);
        let mut pool = Pool::new(16 << 20);
        let mut q = SendQueue::default();
        let mut end = 0;
        for &len in &units {
            let data: Vec<u8> = (end..end + len).map(stream).collect();
            q.append_mbuf(pool.copy_of(&data).expect("a buffer"), None, None);
            q.send_front().expect("just queued").seq = base + end as u32;
            end += len;
        }
        // An unsent piece has no sequence number and must not be mistaken for one in flight.
        q.append_mbuf(pool.copy_of(&[0; 9]).expect("a buffer"), None, None);
        let mut una = 0;
        for &(cut, at) in &steps {
            let at = at.min(end);
            let seq = base + at as u32;
            if cut {
                let index = q.find(seq);
                let inside = q.in_flight(index).is_some_and(|s| s.seq.lt(seq));
                let next = index + usize::from(inside && at >= una);
                prop_assert_eq!(q.cut(index, seq, &mut pool), Some(next));
            } else if at > una {
                q.acknowledge(seq, &mut pool);
                una = at;
            }
            let mut next = una;
            let mut index = 0;
            while let Some(sent) = q.in_flight(index) {
                index += 1;
                prop_assert_eq!(sent.seq, base + next as u32);
                let bytes = sent.mbuf.as_ref().expect("data").as_slice();
                prop_assert_eq!(bytes.len(), sent.len as usize);
                let wanted: Vec<u8> = (next..next + bytes.len()).map(stream).collect();
                prop_assert_eq!(bytes, &wanted[..]);
                next += bytes.len();
            }
            prop_assert_eq!(next, end);
            prop_assert_eq!((q.unsent_count(), q.unsent_bytes()), (1, 9));
        }
        q.clear(&mut pool);
        prop_assert_eq!(pool.outstanding(), 0);
    }

    /// After repeated writes, transmissions and ACKs of any number of bytes, while some shared
    /// buffers are not freed yet, the pieces in flight match the stream; at the end every buffer is
    /// freed.
    #[test]
    fn sendq_acknowledged_while_copies_are_out_keeps_the_stream(
        steps in prop::collection::vec((1..120usize, any::<u8>(), 0..100usize, 0..6usize), 1..60),
        unit in 8..20usize,
        base in any::<u32>(),
    ) {
        let base = SeqNumber(base);
        let mut pool = Pool::new(16 << 20);
        let mut q = SendQueue::default();
        let mut out = Vec::new();
        let (mut una, mut nxt, mut end) = (0, 0, 0);
        for &(write, again, acked, home) in &steps {
            let data: Vec<u8> = (end..end + write).map(stream).collect();
            prop_assert_eq!(q.append(&data, 0, (unit, unit), None, &mut pool), write);
            end += write;
            while q.unsent_count() > usize::from(again % 4) {
                let piece = q.send_front().expect("waits");
                piece.seq = base + nxt as u32;
                piece.sent_at = Instant::ZERO + Duration::from_nanos(nxt as u64);
                piece.marks |= if again & 4 == 0 { Piece::RETRANSMITTED } else { 0 };
                nxt += piece.len as usize;
                out.extend(pool.share(piece.mbuf.as_mut().expect("data")));
            }
            let ack = (una + acked).min(nxt);
            let mut newest = None;
            let mut index = 0;
            while let Some(sent) = q.in_flight(index).filter(|p| p.end().le(base + ack as u32)) {
                newest = if sent.has(Piece::RETRANSMITTED) { newest } else { Some(sent.sent_at) };
                index += 1;
            }
            prop_assert_eq!(q.acknowledge(base + ack as u32, &mut pool), newest);
            una = una.max(ack);
            let mut next = una;
            for index in 0..q.sent_count() {
                let sent = q.in_flight(index).expect("in flight");
                prop_assert_eq!(sent.seq, base + next as u32);
                let bytes = sent.mbuf.as_ref().expect("data").as_slice();
                let wanted: Vec<u8> = (next..next + sent.len as usize).map(stream).collect();
                prop_assert_eq!(bytes, &wanted[..]);
                next += bytes.len();
            }
            prop_assert_eq!((next, end - nxt), (nxt, q.unsent_bytes()));
            out.drain(..home.min(out.len())).for_each(|m| pool.free(m));
        }
        q.clear(&mut pool);
        out.into_iter().for_each(|m| pool.free(m));
        prop_assert_eq!(pool.outstanding(), 0);
    }

    /// Writes of any size become full units, in order, and each unit has the right checksum.
    #[test]
    fn sendq_append_cuts_units_and_keeps_sums(
        writes in prop::collection::vec(1..700usize, 1..12),
        unit in 8..300usize,
        fused in any::<bool>(),
    ) {
        let ladder = wire::checksum::Ladder::best();
        let mut pool = Pool::new(16 << 20);
        let mut q = SendQueue::default();
        let mut end = 0;
        for &len in &writes {
            let data: Vec<u8> = (end..end + len).map(stream).collect();
            let sums = Some((ladder, fused));
            prop_assert_eq!(q.append(&data, 0, (unit, unit), sums, &mut pool), len);
            end += len;
        }
        prop_assert_eq!(q.unsent_bytes(), end);
        prop_assert_eq!(q.unsent_count(), end.div_ceil(unit));
        let mut next = 0;
        while let Some(m) = q.send_front().and_then(|piece| piece.mbuf.take()) {
            let wanted: Vec<u8> = (next..next + m.len()).map(stream).collect();
            prop_assert_eq!(m.as_slice(), &wanted[..]);
            prop_assert_eq!(m.csum() % 0xffff, ladder.sum(&wanted).0 % 0xffff);
            next += m.len();
            pool.free(m);
        }
        prop_assert_eq!(next, end);
    }
}
