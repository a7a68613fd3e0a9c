//! [`Rooms`]: memory for calls and replies, one budget for all connections of a server.
//!
//! Called by: `server.rs`, `streams.rs`. Connections bound their calls, not the bytes: hundreds of
//! them, each with sixteen replies of a megabyte that nobody reads, would be gigabytes. A client
//! that reads is always answered: what others owe makes replies brief, and up to 256 connections no
//! call waits for a peer to read. Limits: `REPLIES_BYTES`, `BRIEF_BYTES`, `BRIEF_REPLIES_BYTES`,
//! `CALLS_BYTES`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{BRIEF_BYTES, BRIEF_REPLIES_BYTES, BUFFER_UNIT, CALLS_BYTES, REPLIES_BYTES};

/// What is left of the budgets.
pub(super) struct Rooms {
    replies: Arc<Semaphore>,
    briefs: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    brief: AtomicU64,
}

/// The right to the memory of a reply, until it is written.
pub(super) struct Room {
    permit: OwnedSemaphorePermit,
    /// Bytes that the reply should not exceed.
    pub(super) bytes: usize,
}

impl Room {
    /// The reply takes so many bytes: what is over is for others.
    pub(super) fn fit(mut self, bytes: usize) -> Room {
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
    /// Room for a reply of any length, if there is as much.
    pub(super) fn any(&self, reply_max: usize) -> Option<Room> {
        let bytes = reply_max.min(REPLIES_BYTES);
        let permit = self.replies.clone().try_acquire_many_owned(bytes as u32).ok()?;
        Some(Room { permit, bytes: reply_max })
    }

    /// Room for a brief one. It is waited for only if there are more than 256 connections.
    pub(super) async fn brief(&self, reply_max: usize) -> Option<Room> {
        let permit = self.briefs.clone().acquire_many_owned(BRIEF_BYTES as u32).await.ok()?;
        self.brief.fetch_add(1, Ordering::Relaxed);
        Some(Room { permit, bytes: reply_max.min(BRIEF_BYTES) })
    }

    /// Room for a call that waits for a server; none is needed for a short one.
    pub(super) async fn call(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if bytes < BUFFER_UNIT {
            return None;
        }
        self.calls.clone().acquire_many_owned(bytes.min(CALLS_BYTES) as u32).await.ok()
    }

    /// How many replies were to be brief.
    pub(super) fn briefs(&self) -> u64 {
        self.brief.load(Ordering::Relaxed)
    }
}
