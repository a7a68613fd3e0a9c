//! Clients and servers as tokio tasks, over any stream that implements `AsyncRead` and
//! `AsyncWrite`, and any datagram socket: the system's, or those of a stack of ours.
//!
//! Called by: programs. [`Client`] is a handle that may be cloned. Many calls may be in flight; if
//! a connection has ended, the next call makes another one. [`Servers`] carries out as many calls
//! at a time as it has servers; [`listen`] and [`serve_datagrams`] pass calls to it. Time is
//! tokio's.
//!
//! ```
//! use rpc::client::Config;
//! use rpc::server::{Refusal, Request, Server};
//! use rpc::tasks::{Client, Limits, Servers, serve_stream};
//! # use wirespeed_rpc as rpc;
//! rpc::program! {
//!     /// Sums.
//!     pub trait Sums, service SumsService, client SumsClient, program 0x2000_0101, version 1 {
//!         /// The sum of an array.
//!         fn sum(Vec<u32>) -> u64 = 1;
//!     }
//! }
//! struct Plain;
//! impl Sums for Plain {
//!     fn sum(&mut self, args: Vec<u32>, _: &Request<'_>) -> Result<u64, Refusal> {
//!         Ok(args.iter().copied().map(u64::from).sum())
//!     }
//! }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let secret = base::KeyedHash::new(1, 2);
//! let servers = Servers::new(4, || {
//!     let mut server = Server::new(secret);
//!     server.add(SumsService(Plain));
//!     server
//! });
//! let (near, far) = tokio::io::duplex(65_536);
//! let from = "192.0.2.1:1000".parse().unwrap();
//! tokio::spawn(serve_stream(servers, far, from, Limits::default()));
//! let mut once = Some(near);
//! let connect = move || {
//!     let stream = once.take().ok_or(std::io::ErrorKind::NotFound.into());
//!     core::future::ready(stream)
//! };
//! let client = Client::over_streams(Config::new(0x2000_0101, 1), 1, connect);
//! let sum: u64 = client.call(1, &vec![1_u32, 2, 3]).await.unwrap();
//! assert_eq!(sum, 6);
//! # });
//! ```

mod client;
mod datagrams;
mod outgoing;
mod over_datagrams;
mod over_streams;
mod server;
#[cfg(feature = "net")]
mod stack_sockets;
mod streams;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Instant;
pub use client::{Client, Results};
pub use datagrams::{Datagrams, serve_datagrams};
pub use outgoing::Data;
pub use server::{Servers, Totals};
#[cfg(feature = "net")]
pub use stack_sockets::Lending;
pub use streams::{
    Arrived, AtOnce, Connection, Lender, Lent, Limits, listen, serve_lending, serve_stream,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant as Monotone;

use crate::limits::{
    BRIEF_BYTES, BRIEF_REPLIES_BYTES, BUFFER_UNIT, CALLS_BYTES, REPLIES_BYTES, SPARE_BYTES,
};

/// Converts tokio's time to the time of clients and servers.
#[derive(Clone, Copy, Debug)]
struct Clock(Monotone);

/// A task checks its deadline after this time at the latest, which keeps sums of times in range.
const SLEEP_MAX: core::time::Duration = core::time::Duration::from_secs(3_600);

impl Clock {
    fn start() -> Clock {
        Clock(Monotone::now())
    }

    fn now(self) -> Instant {
        Instant::from_nanos(self.0.elapsed().as_nanos() as u64 + 1)
    }

    /// The time `time` as tokio's; in an hour if `time` is later than that.
    fn at(self, time: Instant) -> Monotone {
        let within: core::time::Duration = time.since(self.now()).into();
        Monotone::now() + within.min(SLEEP_MAX)
    }
}

// [`Spares`]: buffers of calls and replies that are used again. To return the memory of each call
// of 256 KB to the system, and to get it again, would cost more than copying the data.
//
// Limit: `SPARE_BYTES`; further buffers are freed.

/// The unused buffers, and the sum of their capacities in bytes.
#[derive(Debug, Default)]
struct Spares(Mutex<(Vec<Vec<u8>>, usize)>);

impl Spares {
    fn inside(&self) -> MutexGuard<'_, (Vec<Vec<u8>>, usize)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty buffer.
    fn take(&self) -> Vec<u8> {
        let mut buffer = self.take_full();
        buffer.clear();
        buffer
    }

    /// A buffer with its old content, to be overwritten.
    fn take_full(&self) -> Vec<u8> {
        let (buffers, bytes) = &mut *self.inside();
        let buffer = buffers.pop().unwrap_or_default();
        *bytes -= buffer.capacity();
        buffer
    }

    /// Keep a buffer that is no longer used. Small buffers are freed, because allocating one is as
    /// fast.
    fn put(&self, buffer: Vec<u8>) {
        let (buffers, bytes) = &mut *self.inside();
        let sum = *bytes + buffer.capacity();
        if buffer.capacity() >= BUFFER_UNIT && sum <= SPARE_BYTES {
            buffers.push(buffer);
            *bytes = sum;
        }
    }
}

// [`Rooms`]: the budgets of memory for calls and replies, shared by all connections of a server.
//
// Each connection limits the number of its calls, not their bytes. Hundreds of connections, each
// with sixteen unread replies of a megabyte, would need gigabytes. A client that reads its replies
// is always answered: if other clients do not read theirs, its replies become brief, and with up to
// 256 connections no call waits for another client to read. Limits: `REPLIES_BYTES`, `BRIEF_BYTES`,
// `BRIEF_REPLIES_BYTES`, `CALLS_BYTES`.

/// What is left of the budgets.
struct Rooms {
    replies: Arc<Semaphore>,
    briefs: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    brief: AtomicU64,
}

/// The right to the memory of a reply, until the reply is written.
struct Room {
    permit: OwnedSemaphorePermit,
    /// How many bytes the reply should have at most.
    bytes: usize,
}

impl Room {
    /// The reply has `bytes` bytes: give back the rest of the reserved memory.
    fn fit(mut self, bytes: usize) -> Room {
        let over = self.permit.num_permits().saturating_sub(bytes);
        drop(self.permit.split(over));
        self
    }
}

impl Default for Rooms {
    fn default() -> Rooms {
        let semaphore = |bytes| Arc::new(Semaphore::new(bytes));
        Rooms {
            replies: semaphore(REPLIES_BYTES),
            briefs: semaphore(BRIEF_REPLIES_BYTES),
            calls: semaphore(CALLS_BYTES),
            brief: AtomicU64::new(0),
        }
    }
}

impl Rooms {
    /// Reserve memory for a reply of any length, if there is enough.
    fn any(&self, reply_max: usize) -> Option<Room> {
        let bytes = reply_max.min(REPLIES_BYTES);
        let permit = self.replies.clone().try_acquire_many_owned(bytes as u32).ok()?;
        Some(Room { permit, bytes: reply_max })
    }

    /// Reserve memory for a brief reply. This waits only if there are more than 256 connections.
    async fn brief(&self, reply_max: usize) -> Option<Room> {
        let permit = self.briefs.clone().acquire_many_owned(BRIEF_BYTES as u32).await.ok()?;
        self.brief.fetch_add(1, Ordering::Relaxed);
        Some(Room { permit, bytes: reply_max.min(BRIEF_BYTES) })
    }

    /// Reserve memory for a call that waits for a free server. A short call needs none.
    async fn call(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if bytes < BUFFER_UNIT {
            return None;
        }
        self.calls.clone().acquire_many_owned(bytes.min(CALLS_BYTES) as u32).await.ok()
    }

    /// How many replies had to be brief.
    fn briefs(&self) -> u64 {
        self.brief.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_used_again_up_to_the_limit() {
        let spares = Spares::default();
        spares.put(vec![7; 100]);
        assert_eq!(spares.take().capacity(), 0);
        for _ in 0..100 {
            spares.put(vec![7; 1 << 20]);
            assert!(spares.inside().1 <= SPARE_BYTES);
        }
        let again = spares.take();
        assert!(again.is_empty() && again.capacity() >= 1 << 20);
        assert_eq!(spares.inside().0.len(), SPARE_BYTES / (1 << 20) - 1);
    }
}
