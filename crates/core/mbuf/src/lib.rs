//! Packet buffers: [`Mbuf`]; the [`Pool`] from which mbufs are allocated; the [`MbufQueue`], which
//! links mbufs; and the [`SockBuf`] of a socket.
//!
//! Called by: all code that keeps a packet. This crate depends on no protocol. Sources: the 4.3BSD
//! mbuf with clusters; the array, run and size cache of the 1989 Cray paper.
//!
//! # Ownership
//! - An [`Mbuf`] is a unique handle; its metadata belongs to the holder, on any thread.
//! - The cluster may be shared; shared bytes are read-only. But a share made for sending owns the
//!   bytes in front of the shared data, for headers.
//! - Only the pool reads and writes reference counts, so they are plain integers. A handle that is
//!   dropped elsewhere goes to its pool's return list and is counted when the pool takes it.
//! - A count is in the header of the cluster's first handle, which another thread may be using. So
//!   no `&mut` to a header is ever made: the fields are cells. The count belongs to the pool, all
//!   others to the holder of the handle. `tests/loom_count.rs` checks that the two never access the
//!   same field.
//! - [`Pool::free`] is the fast way to return a handle; plain `drop` is always correct.

mod class;
mod copy;
mod field;
mod frames;
mod front;
mod lanes;
mod mbuf;
mod memory;
mod pages;
mod pool;
mod prefetch;
mod queue;
mod reclaim;
mod share;
mod sockbuf;
mod store;
mod words;

pub use class::{Class, HEADROOM};
pub use copy::copy;
pub use frames::{FrameLayout, Frames};
pub use front::{FRONT_MAX, Front, Shares};
pub use lanes::equal_lanes;
pub use mbuf::{Flags, Mbuf};
pub use memory::Memory;
pub use pool::Pool;
pub use prefetch::{prefetch, prefetch_line};
pub use queue::MbufQueue;
pub use sockbuf::SockBuf;
pub use words::zeroed_words;

#[cfg(test)]
mod tests;
