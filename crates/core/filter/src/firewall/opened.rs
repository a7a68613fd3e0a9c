//! Mappings that packets have opened which were refused: they stay for a while, as if the packets
//! had left.
//!
//! Called by: `reflect.rs`, which adds them; the firewall's turn, which closes them. RFC 4787
//! section 6.

use core::net::IpAddr;
use std::collections::VecDeque;

use base::{Duration, Instant};

use crate::nat::{MappingId, Mappings};

/// How long a refused packet opens the mapping of its sender: RFC 4787 REQ-5.
const OPEN: Duration = Duration::from_secs(120);
/// Mappings that are open for refused packets, at most: the oldest one closes for another.
const OPENED_MAX: usize = 4_096;

/// Mappings that are open for the answers to refused packets, the oldest first.
#[derive(Default)]
pub(super) struct Opened(VecDeque<(MappingId, IpAddr, Instant)>);

impl Opened {
    /// Keep a flow of a mapping with a remote address, which the caller has acquired.
    pub(super) fn add(
        &mut self,
        id: MappingId,
        remote: IpAddr,
        mappings: &mut Mappings,
        now: Instant,
    ) {
        if self.0.len() >= OPENED_MAX {
            self.close_first(mappings, now);
        }
        self.0.push_back((id, remote, now + OPEN));
    }

    /// Close those whose time is up.
    pub(super) fn expire(&mut self, mappings: &mut Mappings, now: Instant) {
        while self.next_deadline() <= now {
            self.close_first(mappings, now);
        }
    }

    /// When the first one closes.
    pub(super) fn next_deadline(&self) -> Instant {
        self.0.front().map_or(Instant::NEVER, |(.., until)| *until)
    }

    fn close_first(&mut self, mappings: &mut Mappings, now: Instant) {
        if let Some((id, remote, _)) = self.0.pop_front() {
            mappings.release(id, remote, now);
        }
    }
}
