//! Packet buffers: [`Mbuf`], the [`Pool`] they come from, the [`MbufQueue`] that links them and
//! the [`SockBuf`] a socket keeps.
//!
//! Called by: everything that holds a packet. It knows no protocol. Sources: the 4.3BSD mbuf with
//! clusters; the array, run and size cache of the 1989 Cray paper.
//!
//! # The ownership law
//! - An [`Mbuf`] is a unique handle; its metadata belongs to whoever holds it, on any thread.
//! - The bytes behind it may be shared; shared bytes are read-only, except that a share made for
//!   sending owns the bytes in front of the data it shares (that is where headers go).
//! - Reference counts are touched by the pool alone, so they are plain integers. A handle that is
//!   dropped elsewhere travels home on the pool's return list and is counted there.
//! - A count lies in the header of the cluster's first handle, which may be in use on another
//!   thread. So no `&mut` to a header is ever made: its fields are cells, all but the count belong
//!   to whoever holds the handle, and the count to the pool. `tests/loom_count.rs` shows that the
//!   two never meet in one field.
//! - [`Pool::free`] is the fast way to give a handle back; plain `drop` is always correct.

mod class;
mod copy;
mod field;
mod frames;
mod front;
mod mbuf;
mod memory;
mod pool;
mod prefetch;
mod queue;
mod reclaim;
mod share;
mod sockbuf;
mod store;

pub use class::{Class, HEADROOM};
pub use copy::copy;
pub use frames::{FrameLayout, Frames};
pub use front::{FRONT_MAX, Front, Shares};
pub use mbuf::{Flags, Mbuf};
pub use memory::Memory;
pub use pool::Pool;
pub use prefetch::{prefetch, prefetch_line};
pub use queue::MbufQueue;
pub use sockbuf::SockBuf;

#[cfg(test)]
mod tests;
