//! The one world whose sockets the preloaded libc functions serve.
//!
//! Called by: `interface.rs` when a world begins, `entry/mod.rs` when it ends; `preload.rs`.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::world::World;

/// The served world, if any.
static SERVED: AtomicPtr<World> = AtomicPtr::new(core::ptr::null_mut());

/// Serve calls for this world's sockets from now on.
pub(super) fn serve(world: *mut World) {
    SERVED.store(world, Ordering::Release);
}

/// Serve no world any more.
pub(super) fn end() {
    SERVED.store(core::ptr::null_mut(), Ordering::Release);
}

/// The world, if the descriptor is one of its sockets.
pub(super) fn owner_of(fd: c_int) -> Option<&'static World> {
    // SAFETY: `serve` sets the pointer to a live world, and `end` resets it before the world is
    // freed. Packetdrill frees the world when its second thread has ended.
    let world = unsafe { SERVED.load(Ordering::Acquire).as_ref() }?;
    world.has(fd).then_some(world)
}
