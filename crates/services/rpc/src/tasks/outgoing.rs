//! [`Outgoing`]: bytes of calls that are to be written, and data between them that is not copied.
//!
//! Called by: `over_streams.rs`.

use core::ops::{Deref, Range};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

/// The last argument of a call, an opaque. Its memory is shared until it is written.
#[derive(Clone, Debug)]
pub struct Data {
    bytes: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Data {
    /// The part `range` of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than that.
    pub fn new(bytes: Arc<Vec<u8>>, range: Range<usize>) -> Data {
        assert!(
            range.start <= range.end && range.end <= bytes.len(),
            "the range exceeds the bytes"
        );
        Data { bytes, range }
    }
}

/// Copies the bytes.
impl<T: AsRef<[u8]> + ?Sized> From<&T> for Data {
    fn from(bytes: &T) -> Data {
        let bytes = bytes.as_ref().to_vec();
        Data { range: 0..bytes.len(), bytes: Arc::new(bytes) }
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

/// The most parts that one write takes.
const PARTS: usize = 16;

/// Bytes of calls and their data, to be written.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// The bytes of calls without their data.
    pub(super) bytes: Vec<u8>,
    /// The data, each with its place: it is written in front of this position of `bytes`.
    pub(super) data: VecDeque<(usize, Data)>,
    /// How many of the bytes, and of the first data's bytes, were written.
    written: usize,
    data_written: usize,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.written == self.bytes.len() && self.data.is_empty()
    }

    /// Drop everything, because all of it was written.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.written = 0;
    }

    /// The next parts to write, and their number; none of them is empty.
    pub(super) fn parts(&self) -> ([IoSlice<'_>; PARTS], usize) {
        let (mut parts, mut count) = ([IoSlice::new(&[]); PARTS], 0);
        let mut add = |part| {
            if !<[u8]>::is_empty(part) && count < PARTS {
                parts[count] = IoSlice::new(part);
                count += 1;
            }
        };
        let (mut at, mut skip) = (self.written, self.data_written);
        for (place, data) in self.data.iter().take(PARTS) {
            add(&self.bytes[at..*place]);
            add(&data[skip..]);
            (at, skip) = (*place, 0);
        }
        if self.data.len() < PARTS {
            add(&self.bytes[at..]);
        }
        (parts, count)
    }

    /// Note that `bytes` bytes of the parts were written.
    pub(super) fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let until = self.data.front().map_or(self.bytes.len(), |(place, _)| *place);
            let step = bytes.min(until - self.written);
            self.written += step;
            bytes -= step;
            let Some((_, data)) = self.data.front() else { return };
            let step = bytes.min(data.len() - self.data_written);
            self.data_written += step;
            bytes -= step;
            if self.data_written == data.len() {
                self.data_written = 0;
                self.data.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_written_in_its_order_however_much_of_it_is_taken(
            calls in prop::collection::vec((1_usize..9, 0_usize..9), 0..40),
            rest in 0_usize..5,
            takes in prop::collection::vec(1_usize..30, 1..9),
        ) {
            let (mut outgoing, mut expected, mut next) = (Outgoing::default(), Vec::new(), 0..);
            for (head, data) in calls {
                outgoing.bytes.extend(next.by_ref().take(head).map(|n: u32| n as u8));
                expected.extend_from_slice(&outgoing.bytes[outgoing.bytes.len() - head..]);
                let held: Vec<u8> = next.by_ref().take(data + 2).map(|n| n as u8).collect();
                expected.extend_from_slice(&held[1..=data]);
                let data = Data::new(Arc::new(held), 1..data + 1);
                outgoing.data.push_back((outgoing.bytes.len(), data));
            }
            outgoing.bytes.extend(vec![9; rest]);
            expected.extend(vec![9; rest]);
            let (mut written, mut takes) = (Vec::new(), takes.into_iter().cycle());
            while !outgoing.is_empty() {
                let (parts, count) = outgoing.parts();
                let parts: Vec<u8> = parts[..count].concat_bytes();
                prop_assert!(!parts.is_empty());
                let take = parts.len().min(takes.next().expect("it cycles"));
                written.extend_from_slice(&parts[..take]);
                outgoing.advance(take);
            }
            prop_assert_eq!(written, expected);
        }
    }

    trait Concat {
        fn concat_bytes(&self) -> Vec<u8>;
    }

    impl Concat for [IoSlice<'_>] {
        fn concat_bytes(&self) -> Vec<u8> {
            self.iter().flat_map(|part| part.iter().copied()).collect()
        }
    }
}
