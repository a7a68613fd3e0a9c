//! [`Bulk`]: buffers for the end of results, long data that is not copied after it was put there.
//!
//! Called by: services that are called at once. `tasks` fills the buffers of a stack's stream.

/// Where long data goes.
pub trait Bulk {
    /// Let `fill` write into the next free memory and say how many bytes it wrote; these are
    /// returned. In front of the first of them there will be `head` bytes: all of the reply so far,
    /// which must not grow any more. `None`: there is no memory, and what was filled is of no use.
    fn fill(&mut self, head: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<usize>;
    /// Bytes that were filled.
    fn bytes(&self) -> usize;
    /// Give everything back.
    fn clear(&mut self);
}

/// None: services append all of their results.
#[derive(Clone, Copy, Debug)]
pub struct NoBulk;

impl Bulk for NoBulk {
    fn fill(&mut self, _: usize, _: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<usize> {
        None
    }

    fn bytes(&self) -> usize {
        0
    }

    fn clear(&mut self) {}
}
