//! Memory of the caller, read and written with care: null pointers and impossible lengths are
//! errors, and structures of other sizes are understood.
//!
//! Called by: all functions that take pointers. What cannot be checked is the caller's promise: a
//! pointer that is not null points to as many valid bytes as the length says.

use core::ffi::{CStr, c_char};
use core::mem::{MaybeUninit, size_of};
use core::{ptr, slice};

use crate::error::{Call, Error};

/// No object is longer: a length above this is an error of the caller.
const LENGTH_MAX: usize = isize::MAX as usize;
/// A structure of the header is never longer.
const STRUCTURE_MAX: usize = 4096;

fn checked(is_null: bool, length: usize, what: &str) -> Call<()> {
    if length > LENGTH_MAX {
        return Err(Error::invalid(format!("{length} bytes of {what} are more than memory has")));
    }
    if is_null && length > 0 {
        return Err(Error::null(what));
    }
    Ok(())
}

/// Bytes that the call reads. With length 0 the pointer may be null.
///
/// # Safety
/// `data` is null, or `length` bytes there are valid for reads during the call.
pub(crate) unsafe fn bytes<'a>(data: *const u8, length: usize, what: &str) -> Call<&'a [u8]> {
    checked(data.is_null(), length, what)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: it is not null and not longer than an object can be; the rest is the caller's
    // promise.
    Ok(unsafe { slice::from_raw_parts(data, length) })
}

/// Bytes that the call writes; they are not read. With length 0 the pointer may be null.
///
/// # Safety
/// `data` is null, or `length` bytes there are valid for writes during the call, and for no one
/// else.
pub(crate) unsafe fn room<'a>(data: *mut u8, length: usize, what: &str) -> Call<&'a mut [u8]> {
    checked(data.is_null(), length, what)?;
    if length == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `bytes`. The bytes may have no value yet; nothing reads them before it wrote.
    Ok(unsafe { slice::from_raw_parts_mut(data, length) })
}

/// Entries of an array.
///
/// # Safety
/// `data` is null, or `count` aligned, valid entries are there, for the call alone.
pub(crate) unsafe fn entries<'a, T>(data: *mut T, count: usize, what: &str) -> Call<&'a mut [T]> {
    let bytes = count.saturating_mul(size_of::<T>());
    checked(data.is_null(), bytes, what)?;
    if count == 0 {
        return Ok(&mut []);
    }
    if !data.is_aligned() {
        return Err(Error::invalid(format!("the array of {what} is not aligned")));
    }
    // SAFETY: not null, aligned, not longer than an object can be; the rest is the caller's
    // promise.
    Ok(unsafe { slice::from_raw_parts_mut(data, count) })
}

/// A text that ends with a zero byte.
///
/// # Safety
/// `text` is null or ends with a zero byte, and stays valid during the call.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Call<&'a str> {
    // SAFETY: the same promise.
    unsafe { optional_text(text) }?.ok_or_else(|| Error::null(what))
}

/// [`text`], or `None` for a null pointer.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(text: *const c_char) -> Call<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the zero byte is the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str().map_err(|_| Error::invalid("the text is not UTF-8"))?;
    Ok(Some(text))
}

/// Store a result.
///
/// # Safety
/// `place` is null or valid for a write.
pub(crate) unsafe fn store<T>(place: *mut T, value: T, what: &str) -> Call<()> {
    if place.is_null() {
        return Err(Error::null(what));
    }
    // SAFETY: not null; it need not be aligned; the rest is the caller's promise.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// A type that is valid if all its bytes are zero, and whose first field is its size in bytes.
///
/// # Safety
/// That has to be so.
pub(crate) unsafe trait Sized0: Copy {}

// SAFETY: integers, pointers and optional functions may be zero; `size` comes first.
unsafe impl Sized0 for crate::ws_config {}
// SAFETY: as above.
unsafe impl Sized0 for crate::ws_device {}
// SAFETY: as above.
unsafe impl Sized0 for crate::ws_gateway_config {}

/// A structure that says its size first. A program with an older header passes a shorter one: the
/// rest counts as zeros. A longer one is accepted if its rest is zeros.
///
/// # Safety
/// `data` is null, or as many bytes as its first field says are valid for reads.
pub(crate) unsafe fn sized<T: Sized0>(data: *const T, what: &str) -> Call<T> {
    if data.is_null() {
        return Err(Error::null(what));
    }
    // SAFETY: the size is the first field.
    let size = unsafe { data.cast::<usize>().read_unaligned() };
    if !(size_of::<usize>()..=STRUCTURE_MAX).contains(&size) {
        let text = format!("the size of {what} is {size}: set it to sizeof the structure");
        return Err(Error::invalid(text));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: the caller promises `size` bytes.
    let rest = unsafe { slice::from_raw_parts(data.cast::<u8>().add(known), size - known) };
    if rest.iter().any(|&byte| byte != 0) {
        let text = format!("{what} has fields that this library does not know: update the library");
        return Err(Error::new(libc::E2BIG, text));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes are readable there and writable here; `T` may be zeros (`Sized0`).
    unsafe {
        ptr::copy_nonoverlapping(data.cast::<u8>(), value.as_mut_ptr().cast(), known);
        Ok(value.assume_init())
    }
}

/// Copy a text and a zero byte to the caller's buffer, cut to its size. Returns the length of the
/// whole text.
///
/// # Safety
/// `buffer` is null, or `size` bytes there are valid for writes.
pub(crate) unsafe fn write_text(text: &str, buffer: *mut c_char, size: usize) -> Call<i64> {
    // SAFETY: the same promise.
    let room = unsafe { room(buffer.cast(), size, "the buffer of the text") }?;
    if let Some(most) = room.len().checked_sub(1) {
        let cut = text.floor_char_boundary(most);
        room[..cut].copy_from_slice(&text.as_bytes()[..cut]);
        room[cut] = 0;
    }
    Ok(text.len() as i64)
}
