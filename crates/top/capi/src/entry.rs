//! The edge to C: every call goes through [`call`], and every callback through [`callback`].
//!
//! Called by: all functions of the header. A panic stops here and becomes an error number; a call
//! from inside of a callback is refused, because the thread may hold the stack's lock.

use core::cell::{Cell, RefCell};
use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Call, Error};
use crate::memory;

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// One call from C: its result, or the negative error number.
pub(crate) fn call(body: impl FnOnce() -> Call<i64>) -> i64 {
    anywhere(|| match IN_CALLBACK.get() {
        true => {
            let text = "a callback may not call the library: note it, and call after it returned";
            Err(Error::new(libc::EDEADLK, text))
        }
        false => body(),
    })
}

/// [`status`] for a call that a callback may make: it takes no lock of a stack.
pub(crate) fn in_callback_too(body: impl FnOnce() -> Call<()>) -> c_int {
    anywhere(|| body().map(|()| 0)) as c_int
}

fn anywhere(body: impl FnOnce() -> Call<i64>) -> i64 {
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => return result,
        Ok(Err(error)) => error,
        Err(_) => {
            let text = "the library has a defect, and the call panicked: free its stack; report it";
            Error::new(libc::ENOTRECOVERABLE, text)
        }
    };
    let number = -i64::from(error.number);
    // The thread may be at its end, and its variables gone.
    let _ = LAST.try_with(|last| last.replace(Some(error)));
    number
}

/// [`call`] for functions that return an `int`.
pub(crate) fn status(body: impl FnOnce() -> Call<()>) -> c_int {
    call(|| body().map(|()| 0)) as c_int
}

/// [`call`] for functions that return a small number.
pub(crate) fn number(body: impl FnOnce() -> Call<c_int>) -> c_int {
    call(|| body().map(i64::from)) as c_int
}

/// One callback to the program. `None`: it panicked.
pub(crate) fn callback<T>(body: impl FnOnce() -> T) -> Option<T> {
    struct Guard(bool);
    impl Drop for Guard {
        fn drop(&mut self) {
            IN_CALLBACK.set(self.0);
        }
    }
    let _guard = Guard(IN_CALLBACK.replace(true));
    catch_unwind(AssertUnwindSafe(body)).ok()
}

/// The version of the library, for example "0.1.0". The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn ws_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Copy the text of the last error of the calling thread to buffer, with a zero byte behind it, cut
/// to size bytes. It says what went wrong and what to do, for people. Callbacks may call it too.
///
/// Returns the length of the whole text in bytes, without the zero byte; 0 if no call of this
/// thread has failed; -EFAULT if buffer is NULL and size is not 0; -EINVAL if size is beyond the
/// address space.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_last_error(buffer: *mut c_char, size: usize) -> i64 {
    // At the end of a thread its variables may be gone.
    let text = LAST.try_with(|last| last.borrow().as_ref().map(|error| error.text.to_string()));
    let text = text.ok().flatten().unwrap_or_default();
    // SAFETY: the caller's promise about `buffer` and `size`.
    match unsafe { memory::write_text(&text, buffer, size) } {
        Ok(length) => length,
        Err(error) => -i64::from(error.number),
    }
}

/// Copy the system's text for an error number to buffer, with a zero byte behind it, cut to size
/// bytes. The number may have either sign. Callbacks may call it too.
///
/// Returns the length of the whole text; -EFAULT and -EINVAL as ws_last_error().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_strerror(number: c_int, buffer: *mut c_char, size: usize) -> i64 {
    let text = std::io::Error::from_raw_os_error(number.saturating_abs()).to_string();
    // SAFETY: the caller's promise about `buffer` and `size`.
    match unsafe { memory::write_text(&text, buffer, size) } {
        Ok(length) => length,
        Err(error) => -i64::from(error.number),
    }
}

/// A text for C; zero bytes inside of it are left out.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_number() {
        let result = call(|| panic!("a defect, made by hand"));
        assert_eq!(result, -i64::from(libc::ENOTRECOVERABLE));
    }

    #[test]
    fn a_callback_cannot_call_the_library() {
        let inner = callback(|| call(|| Ok(1)));
        assert_eq!(inner, Some(-i64::from(libc::EDEADLK)));
        assert_eq!(call(|| Ok(1)), 1, "the callback is over");
    }

    #[test]
    fn a_panic_of_a_callback_ends_at_the_callback() {
        assert_eq!(callback(|| -> i32 { panic!("a callback, made by hand") }), None);
        assert_eq!(call(|| Ok(7)), 7);
    }
}
