//! The one world whose sockets the preloaded functions of libc know.
//!
//! Called by: `interface.rs` and `entry`, when a world begins and ends; `preload.rs`.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::world::World;

/// The world whose sockets are known here, if any.
static SERVED: AtomicPtr<World> = AtomicPtr::new(core::ptr::null_mut());

/// From here on calls for this world's sockets are answered.
pub(super) fn serve(world: *mut World) {
    SERVED.store(world, Ordering::Release);
}

/// From here on they are not.
pub(super) fn end() {
    SERVED.store(core::ptr::null_mut(), Ordering::Release);
}

/// The world, if the descriptor is one of its sockets.
pub(super) fn owner_of(fd: c_int) -> Option<&'static World> {
    // SAFETY: set to a live world by `serve`, and reset by `end` before it is freed; packetdrill
    // frees it when its second thread has ended.
    let world = unsafe { SERVED.load(Ordering::Acquire).as_ref() }?;
    world.has(fd).then_some(world)
}
