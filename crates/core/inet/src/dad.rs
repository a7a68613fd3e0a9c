//! Duplicate address detection: the addresses that are being checked, and what is due for each.
//!
//! Called by: `stack/autoconf/dad.rs`, which sends the probes and passes on the answers. RFC 4862
//! section 5.4 with one probe (DupAddrDetectTransmits), RFC 7527 (our own probe, looped back). The
//! table has an entry for each tentative address, so the limit `addresses` bounds it.

use std::collections::BTreeMap;

use base::{Duration, Instant};
use wire::nd::Nonce;

use crate::neighbour::Key;

/// The first probe is sent after a random part of this time: MAX_RTR_SOLICITATION_DELAY of RFC 4861
/// section 10, as RFC 4862 section 5.4.2 requires.
pub const DELAY_MAX: Duration = Duration::from_secs(1);

/// The check of one address.
#[derive(Clone, Copy, Debug)]
struct Check {
    /// When the probe is due or, after the probe, when the address passes if nobody has answered.
    due: Instant,
    nonce: Nonce,
    is_sent: bool,
}

/// What is due for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Send a probe with this nonce.
    Probe(Key, Nonce),
    /// Nobody answered: the address is ours.
    Passed(Key),
}

/// Addresses that are being checked.
#[derive(Debug, Default)]
pub struct Dad {
    checks: BTreeMap<Key, Check>,
}

impl Dad {
    /// Begin, or begin again, to check an address: its probe is sent at `at`.
    pub fn begin(&mut self, key: Key, at: Instant, nonce: Nonce) {
        self.checks.insert(key, Check { due: at, nonce, is_sent: false });
    }

    /// Is the address being checked?
    pub fn is_checking(&self, key: Key) -> bool {
        self.checks.contains_key(&key)
    }

    /// Is this the nonce of the probe that we sent for the address? Then the probe was looped back,
    /// and does not come from another host.
    pub fn is_own(&self, key: Key, nonce: Option<Nonce>) -> bool {
        let check = self.checks.get(&key);
        check.is_some_and(|check| check.is_sent && Some(check.nonce) == nonce)
    }

    /// Stop checking an address.
    pub fn forget(&mut self, key: Key) {
        self.checks.remove(&key);
    }

    /// Stop checking the addresses of a port that was removed.
    pub fn forget_port(&mut self, port: u16) {
        self.checks.retain(|&(p, _), _| p != port);
    }

    /// Returns what is due at `now`. If that is a probe, its address passes the check `retransmit`
    /// later, unless another host answers.
    pub fn next(&mut self, now: Instant, retransmit: Duration) -> Option<Due> {
        let (&key, check) = self.checks.iter_mut().find(|(_, check)| check.due <= now)?;
        if check.is_sent {
            self.checks.remove(&key);
            return Some(Due::Passed(key));
        }
        check.is_sent = true;
        check.due = now + retransmit;
        Some(Due::Probe(key, check.nonce))
    }

    /// The probe that [`Dad::next`] returned could not be sent: it is due again at `at`.
    pub fn postpone(&mut self, key: Key, at: Instant) {
        if let Some(check) = self.checks.get_mut(&key) {
            check.is_sent = false;
            check.due = at;
        }
    }

    /// When [`Dad::next`] has something to return.
    pub fn next_deadline(&self) -> Instant {
        self.checks.values().map(|check| check.due).min().unwrap_or(Instant::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{IpAddr, Ipv6Addr};

    #[test]
    fn one_probe_and_silence_pass() {
        let key = (0, IpAddr::V6(Ipv6Addr::LOCALHOST));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let second = Duration::from_secs(1);
        let mut dad = Dad::default();
        dad.begin(key, at(300), [7; 6]);
        assert!(!dad.is_own(key, Some([7; 6])), "nothing was sent");
        assert_eq!(dad.next(at(299), second), None);
        assert_eq!(dad.next(at(300), second), Some(Due::Probe(key, [7; 6])));
        assert!(dad.is_own(key, Some([7; 6])));
        assert!(!dad.is_own(key, Some([8; 6])) && !dad.is_own(key, None));
        assert_eq!(dad.next(at(300), second), None);
        assert_eq!(dad.next_deadline(), at(1_300));
        dad.postpone(key, at(400));
        assert_eq!(dad.next(at(400), second), Some(Due::Probe(key, [7; 6])));
        assert_eq!(dad.next(at(1_400), second), Some(Due::Passed(key)));
        assert!(!dad.is_checking(key));
        assert_eq!(dad.next_deadline(), Instant::NEVER);
    }
}
