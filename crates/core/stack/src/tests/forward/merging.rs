//! Segments that are merged for a device, and cut again, are the same packets that would leave
//! without merging: the same bytes in the same order.

use base::Switch;
use inet::forward::{SuperSegment, finish_checksum};
use mbuf::Flags;
use wire::checksum::Ladder;

use super::*;
use crate::tests::craft::{self, Rng};

/// The offloads of a device for which each frame costs more than copying its bytes, so that merging
/// pays.
const GRO: Offloads = Offloads {
    tx_checksum: true,
    rx_checksum: false,
    tso_max_bytes: 20_000,
    uso_max_bytes: 0,
    gro: true,
};

const ACK: u8 = 0x10;

/// The sender of one flow.
#[derive(Clone, Copy)]
struct Flow {
    v6: bool,
    port: u16,
    seq: u32,
    id: u16,
    numbered: bool,
}

impl Flow {
    /// The next segment: `len` bytes of payload, and these flags.
    fn next(&mut self, len: usize, flags: u8) -> Vec<u8> {
        let mut segment = self.port.to_be_bytes().to_vec();
        segment.extend([0, 80]);
        segment.extend(self.seq.to_be_bytes());
        segment.extend([0, 0, 0, 1, 0x50, flags, 9, 9, 0, 0, 0, 0]);
        segment.extend((0..len).map(|n| (n as u32 ^ self.seq) as u8));
        let (src, dst) = if self.v6 { (A6, B6) } else { (A, B) };
        let mut bytes = frame(src, dst, 9, &segment);
        if self.v6 {
            bytes[20] = 6;
        } else {
            bytes[23] = 6;
            bytes[20] = 0x40;
            craft::number(&mut bytes, if self.numbered { self.id } else { 0 });
        }
        finish_checksum(&mut bytes[14..], Ladder::Word64);
        self.seq = self.seq.wrapping_add(len as u32);
        self.id = self.id.wrapping_add(1);
        bytes
    }
}

/// The frames that left by port 1 as they are on the wire (super-segments cut), and how many frames
/// the device got.
fn on_the_wire(router: &mut Router) -> (Vec<Vec<u8>>, usize) {
    router.stack.poll(NOW);
    router.stack.flush();
    let (mut all, mut count, mut burst) = (Vec::new(), 0, Burst::new());
    while router.wires[1].rx_burst(&mut router.pool, &mut burst) > 0 {
        for m in burst.drain(..) {
            count += 1;
            let bytes = m.as_slice();
            match SuperSegment::new(&bytes[14..], m.segment_size()) {
                Some(whole) => {
                    assert!(m.has(Flags::CSUM_PARTIAL) && bytes.len() <= GRO.tso_max_bytes);
                    assert_eq!(m.csum(), if bytes[14] >> 4 == 6 { 54 } else { 34 });
                    for number in 0..whole.count() {
                        let mut piece = bytes[..14].to_vec();
                        piece.resize(14 + whole.len_of(number), 0);
                        whole.write(number, Ladder::Word64, &mut piece[14..]);
                        all.push(piece);
                    }
                }
                None => all.push(bytes.to_vec()),
            }
            router.pool.free(m);
        }
    }
    (all, count)
}

fn offer(router: &mut Router, frames: &[Vec<u8>]) {
    let mut burst: Burst = frames.iter().map(|f| router.pool.copy_of(f).expect("room")).collect();
    router.wires[0].tx_burst(&mut router.pool, &mut burst);
    assert!(burst.is_empty(), "the wire did not take all frames");
}

/// A router that merges and one that does not; each has forwarded one packet of either IP version.
fn twins() -> [Router; 2] {
    [true, false].map(|merges| {
        let mut router = Router::between(1_500, [Offloads::default(), GRO]);
        router.stack.set_switch(Switch::ForwardMerge, merges);
        router.exchange(&frame(A, B, 9, b"x"));
        router.exchange(&frame(A6, B6, 9, b"x"));
        router
    })
}

/// A burst with segments of three flows; most follow the segment before them in their flow.
fn burst(rng: &mut Rng, flows: &mut [Flow; 3]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let len = rng.pick(&[1, 100, 536, 1_400, 1_460]).min(1_440);
    while frames.len() < 40 {
        let flow = &mut flows[rng.below(3) as usize];
        for _ in 0..rng.below(20) {
            let len = if rng.one_in(12) { rng.below(1_440) as usize } else { len };
            let flags = if rng.one_in(12) { rng.below(256) as u8 } else { ACK };
            let mut next = flow.next(len, flags);
            match rng.below(40) {
                // The segment is lost, late, sent twice, corrupt, or has another TTL.
                0 => continue,
                1 => flow.seq = flow.seq.wrapping_sub(len as u32),
                2 => frames.push(next.clone()),
                3 => *next.last_mut().expect("a byte") ^= 1,
                4 if !flow.v6 => {
                    next[22] -= 1;
                    let id = u16::from_be_bytes([next[18], next[19]]);
                    craft::number(&mut next, id);
                }
                5 => next.resize(next.len() + 7, 0),
                _ => {}
            }
            frames.push(next);
        }
    }
    frames.truncate(64);
    frames
}

#[test]
fn merged_segments_are_on_the_wire_what_they_were() {
    let (mut merged, mut frames_saved) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let mut routers = twins();
        let mut flows = [0, 1, 2].map(|n| Flow {
            v6: n == 1,
            port: 1_000 + n,
            seq: u32::MAX - 30_000,
            id: 0xffe0,
            numbered: n == 0,
        });
        for _ in 0..12 {
            let frames = burst(&mut rng, &mut flows);
            let [(on, fewer), (off, more)] = routers.each_mut().map(|router| {
                offer(router, &frames);
                on_the_wire(router)
            });
            assert_eq!(on.len(), off.len(), "seed {seed}");
            for (number, (on, off)) in on.iter().zip(&off).enumerate() {
                assert_eq!(on, off, "seed {seed}, frame {number}");
            }
            frames_saved += more - fewer;
        }
        let counts = routers.each_ref().map(|router| {
            let of = |counter| router.stack.counters().of(counter);
            let ports = [0, 1].map(|n| router.stack.forwarded(PortId(n)));
            let forwarded = [of(Counter::Forwarded), of(Counter::ForwardedInBursts)];
            (forwarded, ports, of(Counter::RxBytes), router.stack.drops().total())
        });
        assert_eq!(counts[0], counts[1], "seed {seed}");
        let of = |router: &Router| router.stack.counters().of(Counter::SegmentsMerged);
        assert_eq!(of(&routers[1]), 0);
        merged += of(&routers[0]);
    }
    assert!(merged > 10_000 && frames_saved > 8_000, "{merged} merged, {frames_saved} saved");
}

#[test]
fn a_segment_with_a_wrong_checksum_is_not_made_right() {
    let [mut router, _] = twins();
    let mut flow = Flow { v6: false, port: 7, seq: 1, id: 1, numbered: true };
    let mut frames: Vec<Vec<u8>> = (0..9).map(|_| flow.next(1_000, ACK)).collect();
    frames[4][60] ^= 1;
    offer(&mut router, &frames);
    let (on, count) = on_the_wire(&mut router);
    assert_eq!((on.len(), count), (9, 3), "not four merged, the wrong one, and four merged");
    assert_eq!(on[4][54..], frames[4][54..]);
    // The same with the wrong segment at the head of a run.
    let mut frames: Vec<Vec<u8>> = (0..9).map(|_| flow.next(1_000, ACK)).collect();
    frames[0][60] ^= 1;
    offer(&mut router, &frames);
    let (on, count) = on_the_wire(&mut router);
    assert_eq!((on.len(), count), (9, 2));
    assert_eq!(on[0][54..], frames[0][54..]);
}

#[test]
fn a_port_to_which_it_is_not_worth_a_copy_gets_segments_as_they_came() {
    let not_worth = Offloads { gro: false, ..GRO };
    let mut router = Router::between(1_500, [Offloads::default(), not_worth]);
    router.exchange(&frame(A, B, 9, b"x"));
    let mut flow = Flow { v6: false, port: 7, seq: 1, id: 1, numbered: true };
    let frames: Vec<Vec<u8>> = (0..9).map(|_| flow.next(1_000, ACK)).collect();
    offer(&mut router, &frames);
    assert_eq!(on_the_wire(&mut router).1, 9);
    assert_eq!(router.stack.counters().of(Counter::SegmentsMerged), 0);
}
