//! Buffers that are lent, filled by the borrower, and returned as mbufs.
#![allow(unsafe_code)]

use std::thread;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::bytes;
use crate::{Class, FrameLayout, Frames, Memory, Pool};

const AT: u64 = 256;

/// Memory from the heap, aligned to a page.
struct Heap(NonNull<u8>, Layout);

// SAFETY: it belongs to this value alone.
unsafe impl Send for Heap {}

// SAFETY: allocated until it is dropped, and not known to anything else.
unsafe impl Memory for Heap {
    fn start(&self) -> NonNull<u8> {
        self.0
    }

    fn bytes(&self) -> usize {
        self.1.size()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), self.1) }
    }
}

fn heap(bytes: usize) -> Heap {
    let layout = Layout::from_size_align(bytes, 4096).expect("a layout");
    // SAFETY: not of zero size.
    Heap(NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory"), layout)
}

fn frames(layout: FrameLayout, count: usize) -> Frames {
    Frames::new(layout, heap(count * layout.stride)).expect("they fit")
}

/// Fill a lent buffer, as its borrower would.
fn fill(frames: &mut Frames, offset: u64, data: &[u8]) {
    // SAFETY: nothing else uses it in these tests.
    let room = unsafe { frames.room(offset, data.len()) };
    room.expect("lent, and long enough").copy_from_slice(data);
}

fn layouts() -> [FrameLayout; 3] {
    let spread = FrameLayout { class: Class::K2, stride: 4096 };
    [FrameLayout::of(Class::K2), FrameLayout::of(Class::K4), spread]
}

#[test]
fn what_was_filled_is_an_mbuf_like_any_other() {
    for layout in layouts() {
        let mut frames = frames(layout, 5);
        assert_eq!((frames.idle(), frames.address() % 4096), (5, 0));
        assert!(frames.bytes() >= 5 * layout.stride);
        let lent: Vec<u64> = std::iter::from_fn(|| frames.lend()).collect();
        assert_eq!((lent.len(), frames.idle(), frames.held()), (5, 0, 0));
        for (n, &offset) in lent.iter().enumerate() {
            fill(&mut frames, offset + AT, &bytes(n as u8, 1500));
        }
        let mut pool = Pool::new(1 << 20);
        for (n, &offset) in lent.iter().enumerate() {
            // SAFETY: the test itself has filled it above.
            let seen = unsafe { frames.look(offset + AT, 1500) };
            assert_eq!(seen, Some((bytes(n as u8, 1500).as_slice(), offset)));
            // SAFETY: as above.
            let mut m = unsafe { frames.filled(offset + AT, 1500) }.expect("it was lent");
            assert_eq!(m.as_slice(), bytes(n as u8, 1500));
            m.prepend(20).expect("what is in front is its own").fill(7);
            assert_eq!(m.append(&[9; 100]), 100);
            assert_eq!(m.as_slice()[20..1520], bytes(n as u8, 1500));
            let copy = pool.share(&mut m).expect("another pool's is copied");
            assert!(!pool.owns(&m) && pool.owns(&copy));
            match n {
                0 => frames.free(m),
                1 => drop(m),
                2 => pool.free(m),
                _ => thread::spawn(move || drop(m)).join().expect("no panic"),
            }
            pool.free(copy);
        }
        pool.flush();
        frames.collect();
        assert_eq!((frames.idle(), pool.outstanding()), (5, 0), "buffers are still in use");
    }
}

#[test]
fn the_last_mbuf_keeps_the_memory() {
    let mut frames = frames(FrameLayout::of(Class::K2), 3);
    let first = frames.lend().expect("one is free");
    fill(&mut frames, first + AT, b"still here");
    // SAFETY: as above.
    let m = unsafe { frames.filled(first + AT, 10) }.expect("it was lent");
    let _lent = frames.lend();
    drop(frames);
    assert_eq!(m.as_slice(), b"still here");
    drop(m);
}

#[test]
fn what_was_not_lent_or_does_not_fit_is_no_mbuf() {
    let layout = FrameLayout::of(Class::K2);
    let mut frames = frames(layout, 2);
    let (stride, past) = (layout.stride as u64, 2 * layout.stride as u64);
    // SAFETY: nothing else uses the memory.
    let none = |frames: &mut Frames, offset, len| unsafe { frames.filled(offset, len) }.is_none();
    assert!(none(&mut frames, AT, 10), "a frame that is not lent gives an mbuf");
    let offset = frames.lend().expect("one is free");
    for (at, len) in [(0, 10), (63, 1), (AT, 1857), (stride - 1, 2), (AT, usize::MAX)] {
        // SAFETY: as above.
        assert!(unsafe { frames.room(offset + at, len) }.is_none(), "{at} {len}");
    }
    assert!(
        none(&mut frames, past, 1) && none(&mut frames, u64::MAX, 1),
        "an offset outside of the memory gives an mbuf"
    );
    assert!(none(&mut frames, offset + AT, 1857), "bytes past the end of the buffer give an mbuf");
    assert_eq!(frames.idle(), 2, "the buffer was not freed");
    assert!(none(&mut frames, offset + AT, 10), "a returned frame gives an mbuf");
    assert!(
        Frames::new(layout, heap(layout.stride - 1)).is_none(),
        "frames were made in memory for none"
    );
    let narrow = FrameLayout { class: Class::K4, stride: 2112 };
    assert!(Frames::new(narrow, heap(1 << 20)).is_none());
}
