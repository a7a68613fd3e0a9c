//! A hint to the processor: these lines will be used soon.
//!
//! Called by: the stack, for a connection that was not used for a while: fetched one after the
//! other as they are needed, its lines take a dozen times as long.
#![allow(unsafe_code)]

use crate::class::LINE;

/// Fetch all lines of `value`. Changes nothing but time.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of::<T>()).step_by(LINE) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: inside `value`; a prefetch reads nothing that the program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast::<i8>().add(at)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, LINE);
}

/// Fetch the line at `at`, which may be anything: a prefetch never faults.
#[inline(always)]
pub fn prefetch_line<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
