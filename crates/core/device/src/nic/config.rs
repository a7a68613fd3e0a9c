//! The settings of a link and the interfaces at its ends, and their validation.
//!
//! Called by: code that makes a pair.

use core::fmt;

use base::{Duration, LinkKind, Mtu};

use super::cable::SLOT_BITS;
use super::transmit::span;
use crate::{Limits, Offloads};

/// The fastest half-duplex link. Half duplex at 1 Gb/s is not modelled.
const HALF_DUPLEX_BPS: u64 = 100_000_000;

/// Full or half duplex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// Both ends may send at the same time.
    Full,
    /// CSMA/CD: both share one cable, listen before they send and back off after a collision.
    Half {
        /// The seed of the backoff times.
        seed: u64,
    },
}

/// The settings of both ends of a [`super::pair`], which are Ethernet interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The largest packet, link header not included.
    pub mtu: Mtu,
    /// The rate in bits per second.
    pub rate_bps: u64,
    /// The propagation delay in one direction.
    pub delay: Duration,
    /// Full or half duplex.
    pub duplex: Duplex,
    /// Descriptors of the transmit ring. With one descriptor, a driver waits for each frame.
    pub tx_ring: usize,
    /// Descriptors of the receive ring. A frame that finds no free descriptor is dropped.
    pub rx_ring: usize,
    /// The time from the end of a sent frame until its descriptor is free: the latency of the
    /// transmit interrupt.
    pub service: Duration,
}

impl Default for Config {
    /// 1 Gb/s full duplex, no delay, MTU 1,500, rings of 512, no service time.
    fn default() -> Config {
        Config {
            mtu: Mtu::ETHERNET,
            rate_bps: 1_000_000_000,
            delay: Duration::ZERO,
            duplex: Duplex::Full,
            tx_ring: 512,
            rx_ring: 512,
            service: Duration::ZERO,
        }
    }
}

/// Why a link is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The rate is 0.
    NoRate,
    /// A ring has no descriptors.
    NoDescriptors,
    /// The rate is too high for half duplex.
    TooFastToShare {
        /// The requested rate in bits per second.
        rate_bps: u64,
    },
    /// The delay is so long that both stations could miss a collision.
    CableTooLong {
        /// The longest delay at this rate.
        most: Duration,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::NoRate => f.write_str("a link of 0 bits a second carries nothing"),
            ConfigError::NoDescriptors => {
                f.write_str("a ring needs a descriptor at least; 512 are usual")
            }
            ConfigError::TooFastToShare { rate_bps } => write!(
                f,
                "half duplex is for {} Mb/s and slower, and this link has {} Mb/s: use full duplex",
                HALF_DUPLEX_BPS / 1_000_000,
                rate_bps / 1_000_000
            ),
            ConfigError::CableTooLong { most } => write!(
                f,
                "on a shared cable both ends must hear of a collision while they still send: a \
                 delay of {} ns at most at this rate",
                most.as_nanos()
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.rate_bps == 0 {
            return Err(ConfigError::NoRate);
        }
        if self.tx_ring == 0 || self.rx_ring == 0 {
            return Err(ConfigError::NoDescriptors);
        }
        if self.duplex == Duplex::Full {
            return Ok(());
        }
        if self.rate_bps > HALF_DUPLEX_BPS {
            return Err(ConfigError::TooFastToShare { rate_bps: self.rate_bps });
        }
        let most = span(SLOT_BITS / 2, self.rate_bps);
        if self.delay > most { Err(ConfigError::CableTooLong { most }) } else { Ok(()) }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            link: LinkKind::Ethernet,
            mtu: self.mtu,
            // An Ethernet header with two tags.
            max_frame: self.mtu.bytes() + 14 + 8,
            max_segments: 1,
            tx_depth: self.tx_ring,
            offloads: Offloads::default(),
        }
    }
}
