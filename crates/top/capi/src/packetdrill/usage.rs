//! How long a connection was sending, limited by the peer's window, or limited by its own send
//! buffer, and when data last arrived. `TCP_INFO` reports these times; the stack does not keep
//! them.
//!
//! Called by: `world.rs`, whenever time has moved; `info.rs` reads the times.

use base::{Duration, Instant};
use tcp::Info;

/// The times of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    looked: Option<Instant>,
    received: u64,
    kind: Kind,
    pub(super) data_at: Option<Instant>,
    pub(super) busy: Duration,
    pub(super) window_limited: Duration,
    pub(super) buffer_limited: Duration,
}

/// What the connection does between two calls of `look`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Idle,
    Busy,
    Window,
    Buffer,
}

impl Usage {
    /// Account for the time since the last call. `blocked` says whether a writer waits.
    pub(super) fn look(&mut self, now: Instant, info: &Info, blocked: bool) {
        let passed = now.since(self.looked.unwrap_or(now));
        match self.kind {
            Kind::Idle => {}
            Kind::Busy => self.busy = self.busy + passed,
            Kind::Window => {
                self.busy = self.busy + passed;
                self.window_limited = self.window_limited + passed;
            }
            Kind::Buffer => {
                self.busy = self.busy + passed;
                self.buffer_limited = self.buffer_limited + passed;
            }
        }
        if self.looked.is_none() || info.bytes_received > self.received {
            self.data_at = Some(now);
        }
        (self.looked, self.received) = (Some(now), info.bytes_received);
        let room = info.snd_wnd.saturating_sub(info.in_flight) as usize;
        self.kind = if info.unsent > 0 && room < info.snd_mss.min(info.unsent) {
            Kind::Window
        } else if blocked && info.unsent == 0 {
            Kind::Buffer
        } else if info.unsent > 0 || info.in_flight > 0 {
            Kind::Busy
        } else {
            Kind::Idle
        };
    }
}
