//! Prefetch hints.
//!
//! Called by: the stack, for a connection that was idle (without prefetching, its cache lines would
//! be missed one after the other, which takes a dozen times as long); and the free lists.
#![allow(unsafe_code)]

use crate::class::LINE;

/// Prefetch all cache lines of `value`. This only affects time.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of::<T>()).step_by(LINE) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: inside `value`; a prefetch has no effect that the program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast::<i8>().add(at)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, LINE);
}

/// Prefetch the cache line at `at`, which may be any address: a prefetch never faults.
#[inline(always)]
pub fn prefetch_line<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect that the program can see, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
