//! A field of a header, read and written through a shared reference.
//!
//! Called by: the holder of a handle, and the pool for the reference count. Two threads may have
//! references to one header: the holder's and the pool's. They access different fields (see
//! `lib.rs`). With `--cfg loom`, loom detects a violation.
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

    /// Change the value in place.
    #[inline(always)]
    pub(crate) fn update(&self, change: impl FnOnce(&mut T)) {
        #[cfg(not(loom))]
        // SAFETY: only one thread accesses a field at a time (see above), and `change` is code of
        // this crate that does not access the field in another way.
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
