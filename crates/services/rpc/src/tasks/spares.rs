//! [`Spares`]: buffers of calls and replies that are used again. Memory that goes back to the
//! system and comes again for each call of 256 KB costs more than the copies into it.
//!
//! Called by: `client.rs`, `over_streams.rs`, `server.rs`, `streams.rs`. Limit: `SPARE_BYTES`; more
//! are freed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::{BUFFER_UNIT, SPARE_BYTES};

/// Buffers that nobody uses, and the bytes that they have room for.
#[derive(Debug, Default)]
pub(super) struct Spares(Mutex<(Vec<Vec<u8>>, usize)>);

impl Spares {
    fn inside(&self) -> MutexGuard<'_, (Vec<Vec<u8>>, usize)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty buffer.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut buffer = self.take_full();
        buffer.clear();
        buffer
    }

    /// A buffer with what it held when it was used last, which costs nothing to write over.
    pub(super) fn take_full(&self) -> Vec<u8> {
        let (buffers, bytes) = &mut *self.inside();
        let buffer = buffers.pop().unwrap_or_default();
        *bytes -= buffer.capacity();
        buffer
    }

    /// A buffer that is no longer used. Small ones are as quickly made anew.
    pub(super) fn put(&self, buffer: Vec<u8>) {
        let (buffers, bytes) = &mut *self.inside();
        let sum = *bytes + buffer.capacity();
        if buffer.capacity() >= BUFFER_UNIT && sum <= SPARE_BYTES {
            buffers.push(buffer);
            *bytes = sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_used_again_up_to_the_limit() {
        let spares = Spares::default();
        spares.put(vec![7; 100]);
        assert_eq!(spares.take().capacity(), 0);
        for _ in 0..100 {
            spares.put(vec![7; 1 << 20]);
            assert!(spares.inside().1 <= SPARE_BYTES);
        }
        let again = spares.take();
        assert!(again.is_empty() && again.capacity() >= 1 << 20);
        assert_eq!(spares.inside().0.len(), SPARE_BYTES / (1 << 20) - 1);
    }
}
