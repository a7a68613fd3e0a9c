//! The settings of one direction of a link.
//!
//! Called by: code that makes a link.

use base::{Duration, Instant, LinkKind, Mtu};

/// How packets are lost after the queue. Probabilities run from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    Never,
    /// Each packet is lost independently with this probability.
    Random(f64),
    /// In bursts: two states, each with its own loss probability, and for each packet a probability
    /// to change the state (Gilbert, 1960, and Elliott, 1963).
    Burst {
        /// Probability, for each packet, that the bad state begins.
        begin: f64,
        /// Probability, for each packet, that the bad state ends; its mean length is 1 / `end`
        /// packets.
        end: f64,
        /// Probability that a packet is lost in the good state.
        good: f64,
        /// Probability that a packet is lost in the bad state.
        bad: f64,
    },
}

/// Active queue management.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aqm {
    /// None: packets that do not fit are dropped (drop-tail).
    #[default]
    None,
    /// CoDel, RFC 8289: packets are dropped from the head of the queue while it stays too long.
    CoDel {
        /// The target sojourn time; 5 ms in section 4.2.
        target: Duration,
        /// How long the sojourn time may exceed the target; 100 ms in section 4.2.
        interval: Duration,
        /// ECN-capable packets are marked instead (RFC 3168).
        ecn: bool,
    },
}

/// An outage: packets that enter the link, or whose transmission ends, in this time are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When the outage begins.
    pub from: Instant,
    /// When packets pass again.
    pub until: Instant,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The rate in bits per second, of packets without link headers; `None` is unlimited.
    pub rate_bps: Option<u64>,
    /// The propagation delay, from the end of the transmission to the arrival.
    pub delay: Duration,
    /// A random time is added to `delay`: uniform from 0 to this, without reordering.
    pub jitter: Duration,
    /// Random loss, after the queue.
    pub loss: Loss,
    /// Probability that a packet is delayed and overtaken by later ones (reordering).
    pub late: f64,
    /// The extra delay of a late packet.
    pub late_by: Duration,
    /// Probability that a packet is duplicated.
    pub duplicate: f64,
    /// Probability that one bit after the link header is flipped. ARP packets, which have no
    /// checksum, are never changed.
    pub corrupt: f64,
    /// Longer packets, link header not counted, are dropped without an ICMP error.
    pub mtu: Mtu,
    /// The queue's limit in bytes, without link headers and without the packet in transmission. A
    /// packet always fits an empty queue.
    pub queue_bytes: usize,
    /// The queue management.
    pub aqm: Aqm,
    /// The outages of this direction.
    pub outages: Vec<Outage>,
    /// Packets of up to this many bytes, link header not counted, are neither lost, late,
    /// duplicated nor corrupted: with 100 only data is impaired, with 0 everything.
    pub exempt_bytes: usize,
    /// The kind of link header.
    pub link: LinkKind,
}

impl Default for Settings {
    /// A loss-free Ethernet without a rate or delay, and a queue of 1 MB.
    fn default() -> Settings {
        Settings {
            rate_bps: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Loss::Never,
            late: 0.0,
            late_by: Duration::ZERO,
            duplicate: 0.0,
            corrupt: 0.0,
            mtu: Mtu::MAX,
            queue_bytes: 1_000_000,
            aqm: Aqm::None,
            outages: Vec::new(),
            exempt_bytes: 0,
            link: LinkKind::Ethernet,
        }
    }
}

impl Settings {
    /// The same path after its impairments have ended: rate, delay, MTU and queue stay.
    pub fn recovered(&self) -> Settings {
        Settings {
            rate_bps: self.rate_bps,
            delay: self.delay,
            mtu: self.mtu,
            queue_bytes: self.queue_bytes,
            aqm: self.aqm,
            link: self.link,
            ..Settings::default()
        }
    }

    /// Is there an outage at time `at`?
    pub fn is_out(&self, at: Instant) -> bool {
        self.outages.iter().any(|cut| cut.from <= at && at < cut.until)
    }
}
