//! A field of a header: read and written through a shared reference.
//!
//! Called by: whoever holds the header that it is in, or the pool for the count. Two threads may
//! hold references to one header at a time, that of a handle and that of its pool; they touch
//! different fields (`lib.rs` says which). Built with `--cfg loom`, loom sees it if they do not.
#![allow(unsafe_code)]

#[cfg(not(loom))]
use core::cell::Cell;
#[cfg(loom)]
use loom::cell::Cell;

#[repr(transparent)]
pub(crate) struct Field<T>(Cell<T>);

impl<T: Copy> Field<T> {
    #[inline(always)]
    pub(crate) fn new(value: T) -> Field<T> {
        Field(Cell::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        self.0.get()
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: T) {
        self.0.set(value);
    }

    /// Change part of it in place.
    #[inline(always)]
    pub(crate) fn update(&self, change: impl FnOnce(&mut T)) {
        #[cfg(not(loom))]
        // SAFETY: whoever may set the field has it alone, and `change` is code of this crate that
        // does not look at it by another way.
        unsafe {
            change(&mut *self.0.as_ptr());
        }
        #[cfg(loom)]
        {
            let mut value = self.0.get();
            change(&mut value);
            self.0.set(value);
        }
    }
}
