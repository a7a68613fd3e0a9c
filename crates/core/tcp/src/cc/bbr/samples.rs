//! Delivery-rate samples, draft-ietf-ccwg-bbr-06 section 4.1: the rate at which the path delivered
//! what was in flight when a segment was sent.
//!
//! Called by: BBR alone. Segments of one burst share a departure time and one record, which is
//! found by that time when one of them is delivered.

use std::collections::VecDeque;

use base::{Duration, Instant};

use super::super::Ack;

/// Maximum number of records: four seconds of departures. Older segments then give no sample.
const RECORDS_MOST: usize = 16_384;

/// State when a burst was sent (P of the draft).
#[derive(Clone, Copy, Debug)]
struct Record {
    sent_at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    in_flight: u64,
    lost: u64,
    app_limited: bool,
}

/// The sample of one ACK (RS of the draft).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Bytes a second; 0 for none.
    pub(super) rate: f64,
    /// Sending was limited by the application.
    pub(super) app_limited: bool,
    /// Bytes delivered over the sample.
    pub(super) delivered: u64,
    /// What had been delivered when the segment was sent; `None` without a sample.
    pub(super) prior_delivered: Option<u64>,
    /// Bytes in flight when the segment was sent, the segment included.
    pub(super) tx_in_flight: u64,
    /// Bytes deemed lost since the segment was sent.
    pub(super) lost: u64,
}

/// Connection state (C of the draft).
#[derive(Clone, Debug, Default)]
pub(super) struct Sampler {
    records: VecDeque<Record>,
    /// Bytes delivered so far. `delivered_at` is when the last of them were delivered.
    pub(super) delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Bytes deemed lost so far.
    lost: u64,
    /// Samples are application-limited until this much is delivered; 0 if none are.
    app_limited: u64,
    min_rtt: Option<Duration>,
}

impl Sampler {
    /// A segment leaves at `sent_at`; `before` and `after` bytes are in flight before and after it.
    pub(super) fn on_send(&mut self, sent_at: Instant, before: u64, after: u64) {
        if before == 0 {
            self.first_sent_at = sent_at;
            self.delivered_at = sent_at;
        }
        if let Some(last) = self.records.back_mut()
            && last.sent_at >= sent_at
        {
            last.in_flight = last.in_flight.max(after);
            return;
        }
        if self.records.len() >= RECORDS_MOST {
            self.records.pop_front();
        }
        self.records.push_back(Record {
            sent_at,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight: after,
            lost: self.lost,
            app_limited: self.app_limited != 0,
        });
    }

    /// There is nothing to send, and `in_flight` bytes are less than cwnd. Samples say nothing
    /// about the path until those bytes are delivered.
    pub(super) fn mark_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    #[cfg(test)]
    pub(super) fn records_len(&self) -> usize {
        self.records.len()
    }

    /// Is the connection limited by the application?
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    pub(super) fn on_ack(&mut self, ack: &Ack) -> Sample {
        self.lost += u64::from(ack.lost_bytes);
        if ack.delivered_bytes > 0 {
            self.delivered += u64::from(ack.delivered_bytes);
            self.delivered_at = ack.now;
        }
        if let Some(rtt) = ack.rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        let sample = self.sample(ack);
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        sample
    }

    fn sample(&mut self, ack: &Ack) -> Sample {
        let none = Sample::default();
        if ack.delivered_bytes == 0 {
            return none;
        }
        let Ok(index) = self.records.binary_search_by_key(&ack.sent_at, |r| r.sent_at) else {
            return none;
        };
        let record = self.records[index];
        // Records of earlier bursts are obsolete: the sample is about the segment that was sent
        // last.
        self.records.drain(..index);
        let send_elapsed = record.sent_at.since(record.first_sent_at);
        let ack_elapsed = self.delivered_at.since(record.delivered_at);
        self.first_sent_at = record.sent_at;
        let interval = send_elapsed.max(ack_elapsed);
        let delivered = self.delivered - record.delivered;
        // An interval shorter than any round trip: the segment was retransmitted, and the original
        // was the one delivered.
        let credible = interval > Duration::ZERO && self.min_rtt.is_none_or(|min| interval >= min);
        Sample {
            rate: if credible { delivered as f64 / interval.as_secs_f64() } else { 0.0 },
            app_limited: record.app_limited,
            delivered,
            prior_delivered: Some(record.delivered),
            tx_in_flight: record.in_flight,
            lost: self.lost - record.lost,
        }
    }
}
