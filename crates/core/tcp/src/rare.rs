//! State that few connections need: a pointer that is null until the first write and reads as a
//! default until then. So an idle connection is small, and the hot fields of a busy one are close
//! together.
//!
//! Called by: tcb and cc, for fields. Plain data.

use core::ops::{Deref, DerefMut};

use base::SeqNumber;

use crate::state::Error;

/// The default value that is read before the first write.
pub(crate) trait Clean: Clone + 'static {
    const CLEAN: &'static Self;
}

/// A `T` that is allocated on the first write and kept until the connection ends.
#[derive(Clone, Debug)]
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T: Clean> Default for Rare<T> {
    fn default() -> Rare<T> {
        Rare(None)
    }
}

impl<T> Rare<T> {
    /// The value, if it was ever written.
    #[inline(always)]
    pub(crate) fn written(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

impl<T: Clean> Deref for Rare<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(own) => own,
            None => T::CLEAN,
        }
    }
}

impl<T: Clean> DerefMut for Rare<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(first)
    }
}

#[cold]
#[inline(never)]
fn first<T: Clean>() -> Box<T> {
    Box::new(T::CLEAN.clone())
}

/// State that hardly any connection needs: urgent data, an ICMP error, the user timeout option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RareState {
    /// SND.UP: just past the last urgent byte we wrote, while [`crate::Todo::URGENT`] is set.
    pub(crate) snd_up: SeqNumber,
    /// RCV.UP: just past the last urgent byte announced, as an offset in the stream, which does not
    /// wrap.
    pub(crate) rcv_up: u64,
    /// The peer's user timeout option, in seconds; 0 if it sent none (RFC 5482).
    pub(crate) peer_timeout_s: u32,
    /// The last soft error, and SND.UNA at that time.
    pub(crate) soft_error: Option<(Error, SeqNumber)>,
}

impl Clean for RareState {
    const CLEAN: &'static RareState =
        &RareState { snd_up: SeqNumber(0), rcv_up: 0, peer_timeout_s: 0, soft_error: None };
}
