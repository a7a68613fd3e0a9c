//! The initiators of IKE exchanges, by which the printer tells an initiator's packet from a
//! responder's.
//!
//! Called by: `isakmp`; the printer keeps the list. The list is bounded: the oldest entry is
//! forgotten.

use core::net::IpAddr;
use std::collections::VecDeque;

/// Maximum number of exchanges whose initiator is remembered.
const INITIATORS_MAX: usize = 20;

/// The initiators of exchanges: cookie, source, destination.
#[derive(Default)]
pub(crate) struct Initiators(VecDeque<(u64, IpAddr, IpAddr)>);

impl Initiators {
    pub(super) fn role(&mut self, cookies: (u64, u64), src: IpAddr, dst: IpAddr) -> &'static str {
        match self.0.iter().find(|(cookie, ..)| *cookie == cookies.0) {
            Some((_, from, to)) if (*from, *to) == (src, dst) => " I",
            Some((_, from, to)) if (*from, *to) == (dst, src) => " R",
            Some(_) => " ?",
            None if cookies.1 != 0 => " ?",
            None => {
                if self.0.len() >= INITIATORS_MAX {
                    self.0.pop_front();
                }
                self.0.push_back((cookies.0, src, dst));
                " I"
            }
        }
    }
}
