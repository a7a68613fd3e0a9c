//! Addresses from which a MOUNT over TCP was completed: nobody does so from another's address.
//!
//! Called by: `service.rs`. A call over UDP may say to be from anywhere. To strangers a reply over
//! UDP is about as long as one packet, so that a server is of little use for a flood of somebody
//! else. Limit: `CALLERS_MAX`; the oldest is forgotten.

use core::net::IpAddr;
use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use super::tree::locked;
use crate::limits::CALLERS_MAX;

/// Addresses.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<(HashSet<IpAddr>, VecDeque<IpAddr>)>);

impl Callers {
    /// It has completed a MOUNT.
    pub(super) fn insert(&self, ip: IpAddr) {
        let (known, order) = &mut *locked(&self.0);
        let ip = ip.to_canonical();
        if !known.insert(ip) {
            return;
        }
        order.push_back(ip);
        if order.len() > CALLERS_MAX {
            order.pop_front().map(|oldest| known.remove(&oldest));
        }
    }

    /// Has it? Packets from a loopback address come from this machine alone.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_loopback() || locked(&self.0).0.contains(&ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_known_and_bounded() {
        let callers = Callers::default();
        let ip = |n: u32| IpAddr::from(n.to_be_bytes());
        (0..3 * CALLERS_MAX as u32).for_each(|n| callers.insert(ip(1 << 24 | n)));
        assert!(
            !callers.has(ip(1 << 24)) && callers.has(ip(1 << 24 | (3 * CALLERS_MAX as u32 - 1)))
        );
        assert_eq!(locked(&callers.0).0.len(), CALLERS_MAX);
        assert!(callers.has("::1".parse().expect("an address")));
        callers.insert("::ffff:192.0.2.1".parse().expect("an address"));
        assert!(callers.has("192.0.2.1".parse().expect("an address")));
    }
}
