//! A ring in anonymous memory; the test acts as the kernel. Miri runs these tests.

use super::*;

const SIZE: u32 = 4;

/// An empty ring whose indices begin shortly before they wrap.
fn ring() -> Ring<u64> {
    let offsets = XdpRingOffset { producer: 0, consumer: 64, desc: 128, flags: Some(4) };
    let len = 128 + SIZE as usize * size_of::<u64>();
    let memory = Mapping::anonymous(len).expect("room for a page");
    let start = u32::MAX - 5;
    let ring =
        Ring { memory, offsets, size: SIZE, ours: start, theirs: start, _entries: PhantomData };
    for index in [offsets.producer, offsets.consumer] {
        ring.word(index).store(start, Ordering::Release);
    }
    ring
}

#[test]
fn a_producer_writes_as_much_as_there_is_room_for() {
    let mut ring = ring();
    let mut kernel = ring.ours;
    for round in 0..5_u64 {
        assert_eq!(ring.room(), SIZE);
        for n in 0..u64::from(SIZE) {
            ring.put(round * 10 + n);
        }
        assert_eq!(ring.word(ring.offsets.producer).load(Ordering::Acquire), kernel);
        ring.publish();
        assert_eq!((ring.room(), ring.untaken()), (0, SIZE));
        for n in 0..u64::from(SIZE) {
            // SAFETY: published, and not yet given back.
            assert_eq!(unsafe { ring.entry(kernel).read() }, round * 10 + n);
            kernel = kernel.wrapping_add(1);
            ring.word(ring.offsets.consumer).store(kernel, Ordering::Release);
            assert_eq!((ring.room(), ring.untaken()), (n as u32 + 1, SIZE - n as u32 - 1));
        }
    }
}

#[test]
fn a_consumer_takes_what_was_produced_and_gives_it_back() {
    let mut ring = ring();
    let mut kernel = ring.ours;
    assert_eq!((ring.has_entry(), ring.take()), (false, None));
    for round in 0..5_u64 {
        for n in 0..u64::from(SIZE) {
            // SAFETY: the consumer has given it back, or it was never written.
            unsafe { ring.entry(kernel).write(round * 10 + n) };
            kernel = kernel.wrapping_add(1);
        }
        assert!(!ring.has_entry(), "not published yet");
        ring.word(ring.offsets.producer).store(kernel, Ordering::Release);
        for n in 0..u64::from(SIZE) {
            assert!(ring.has_entry());
            assert_eq!(ring.take(), Some(round * 10 + n));
        }
        assert_eq!((ring.has_entry(), ring.take()), (false, None));
        ring.release();
        assert_eq!(ring.word(ring.offsets.consumer).load(Ordering::Acquire), kernel);
    }
}

#[test]
fn a_call_is_needed_while_the_kernel_says_so() {
    let mut ring = ring();
    assert!(!ring.wants_waking());
    let flag = XdpRingFlags::XDP_RING_NEED_WAKEUP.bits();
    ring.word(4).store(flag, Ordering::Relaxed);
    assert!(ring.wants_waking());
    // A kernel before 5.4 has no flags.
    ring.offsets.flags = None;
    assert!(ring.wants_waking());
}

/// A senseless index from the kernel leaves the producer inside the ring.
#[test]
fn an_impossible_index_makes_no_room() {
    let mut ring = ring();
    let beyond = ring.ours.wrapping_add(100);
    ring.word(ring.offsets.consumer).store(beyond, Ordering::Release);
    assert_eq!(ring.room(), 0);
}
