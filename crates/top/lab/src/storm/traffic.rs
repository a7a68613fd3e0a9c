//! What programs send to all: routes and the state of their host, and by which address.
//!
//! Called by: `legacy.rs`, `ours.rs`, `cases.rs`. RFC 1058 (RIP: every 30 s to UDP port 520);
//! rwhod(8): every minute to UDP port 513.

use std::net::Ipv4Addr;

use base::{Duration, Instant};
use device::fault::Rng;

/// The programs' UDP ports.
pub(super) const PORTS: [u16; 2] = [520, 513];
const PERIODS: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(60)];
/// A response with four routes, and an rwho packet of two users.
const PAYLOADS: [&[u8]; 2] = [&[2; 84], &[1; 108]];
/// Hops that a datagram may take: 4.3BSD's.
pub(super) const HOPS: u8 = 30;

/// A host's form of the broadcast address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The host part is zeros: 4.2BSD.
    Zeros,
    /// The host part is ones: RFC 919, 4.3BSD.
    Ones,
}

impl Form {
    pub(super) const BOTH: [Form; 2] = [Form::Zeros, Form::Ones];

    /// Of this host: every second one has the old form.
    pub(super) fn of(host: usize) -> Form {
        Form::BOTH[host % 2]
    }

    /// The broadcast address of a network of 24 bits.
    pub(super) fn address(self, of: Ipv4Addr) -> Ipv4Addr {
        let bits = of.to_bits() & !0xff;
        Ipv4Addr::from(if self == Form::Ones { bits | 0xff } else { bits })
    }
}

/// The network of an address.
pub(super) fn prefix(addr: Ipv4Addr) -> u32 {
    addr.to_bits() >> 8
}

/// When a host's programs send next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    due: [Instant; 2],
}

impl Clock {
    /// Programs that were started at different times, from `from` on.
    pub(super) fn new(from: Instant, rng: &mut Rng) -> Clock {
        let due = PERIODS.map(|period| {
            from + Duration::from_nanos(rng.below(period.as_nanos() as usize) as u64)
        });
        Clock { due }
    }

    /// Programs that send nothing.
    pub(super) const SILENT: Clock = Clock { due: [Instant::NEVER; 2] };

    /// What is due: its port and payload.
    pub(super) fn next(&mut self, now: Instant) -> Option<(u16, &'static [u8])> {
        let program = self.due.iter().position(|&at| at <= now)?;
        self.due[program] += PERIODS[program];
        Some((PORTS[program], PAYLOADS[program]))
    }

    pub(super) fn next_deadline(&self) -> Instant {
        self.due[0].min(self.due[1])
    }
}
