//! Rows of atomic words that take memory only where they are written to.
//!
//! Called by: the route table, for arrays of millions of words of which few are used.
#![allow(unsafe_code)]

use core::sync::atomic::AtomicU32;

/// A row of so many words, all zero. The system provides a page of it with the first write to it.
pub fn zeroed_words(count: usize) -> Box<[AtomicU32]> {
    let row: Box<[u32]> = vec![0; count].into_boxed_slice();
    // SAFETY: an atomic word has the size, the alignment and the values of a plain one, so that
    // the row is a valid one of either; nobody else has it, and it is freed with the same layout.
    unsafe { Box::from_raw(Box::into_raw(row) as *mut [AtomicU32]) }
}

const _: () = assert!(align_of::<AtomicU32>() == align_of::<u32>());

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_row_is_zero_and_can_be_written() {
        let row = zeroed_words(1_000);
        assert!(row.iter().all(|word| word.load(Ordering::Relaxed) == 0) && row.len() == 1_000);
        row[999].store(7, Ordering::Relaxed);
        assert_eq!(row[999].load(Ordering::Relaxed), 7);
        assert!(zeroed_words(0).is_empty());
    }
}
