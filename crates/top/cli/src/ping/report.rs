//! The results of the requests: a line for each, a summary at the end, or one JSON document.
//!
//! Called by: `run.rs`. The words are those of iputils' ping, which scripts parse; times are in
//! milliseconds.

use core::net::IpAddr;
use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use wirespeed::{Duration, Instant};

use crate::output;

/// Replies listed in the JSON document; further ones are only counted.
const NAMED_MAX: usize = 10_000;

/// A request that was sent.
#[derive(Clone, Copy)]
struct Request {
    at: Instant,
    answered: bool,
}

/// A reply in the document.
#[derive(Serialize)]
struct Reply {
    from: IpAddr,
    seq: u16,
    ttl: u8,
    bytes: usize,
    time_ms: Option<f64>,
    duplicate: bool,
}

/// Sums over round trips, in milliseconds.
#[derive(Default)]
struct Times {
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
    squares: f64,
}

/// All results so far.
pub(super) struct Tally {
    host: String,
    address: IpAddr,
    size: u16,
    json: bool,
    /// By sequence number: at most 65,536; older ones are overwritten.
    requests: BTreeMap<u16, Request>,
    transmitted: u64,
    pub(super) received: u64,
    duplicates: u64,
    errors: u64,
    /// Requests that we could not send, among the errors.
    pub(super) unsent: u64,
    times: Times,
    replies: Vec<Reply>,
}

impl Tally {
    pub(super) fn new(host: &str, address: IpAddr, size: u16, json: bool) -> Tally {
        Tally {
            host: host.to_owned(),
            address,
            size,
            json,
            requests: BTreeMap::new(),
            transmitted: 0,
            received: 0,
            duplicates: 0,
            errors: 0,
            unsent: 0,
            times: Times::default(),
            replies: Vec::new(),
        }
    }

    fn line(&self, text: &str) -> Result<()> {
        if self.json { Ok(()) } else { output::out(&format!("{text}\n")) }
    }

    /// The first line.
    pub(super) fn begin(&self) -> Result<()> {
        let headers = if self.address.is_ipv4() { 28 } else { 48 };
        let (host, address, size) = (&self.host, self.address, self.size);
        let packet = u32::from(size) + headers;
        self.line(&match address {
            IpAddr::V4(_) => format!("PING {host} ({address}) {size}({packet}) bytes of data."),
            IpAddr::V6(_) => format!("PING {host} ({address}) {size} data bytes"),
        })
    }

    /// A request was sent.
    pub(super) fn sent(&mut self, seq: u16, at: Instant) {
        self.transmitted += 1;
        self.requests.insert(seq, Request { at, answered: false });
    }

    /// A request could not be sent, for a reason of ours or of the path's.
    pub(super) fn unsent(&mut self, seq: u16, at: Instant) {
        self.transmitted += 1;
        self.requests.insert(seq, Request { at, answered: true });
        self.errors += 1;
        self.unsent += 1;
    }

    /// Was no request sent?
    pub(super) fn is_empty(&self) -> bool {
        self.transmitted == 0
    }

    /// Requests that have a result.
    pub(super) fn settled(&self) -> u64 {
        self.received + self.errors
    }

    /// The longest round trip so far.
    pub(super) fn slowest(&self) -> Option<Duration> {
        (self.times.count > 0).then(|| Duration::from_nanos((self.times.max * 1e6) as u64))
    }

    /// A reply arrived.
    pub(super) fn reply(
        &mut self,
        from: IpAddr,
        seq: u16,
        ttl: u8,
        bytes: usize,
        at: Instant,
    ) -> Result<()> {
        let request = self.requests.get_mut(&seq);
        let duplicate = request.as_ref().is_some_and(|request| request.answered);
        let time_ms = request.map(|request| {
            request.answered = true;
            at.since(request.at).as_secs_f64() * 1e3
        });
        if duplicate {
            self.duplicates += 1;
        } else {
            self.received += 1;
            self.times.add(time_ms);
        }
        if self.json && self.replies.len() < NAMED_MAX {
            self.replies.push(Reply { from, seq, ttl, bytes, time_ms, duplicate });
        }
        let time = time_ms.map_or_else(String::new, |ms| format!(" time={} ms", shown(ms)));
        let again = if duplicate { " (DUP!)" } else { "" };
        self.line(&format!(
            "{} bytes from {from}: icmp_seq={seq} ttl={ttl}{time}{again}",
            bytes + 8
        ))
    }

    /// An ICMP error arrived instead of a reply; `what` as [`wirespeed::EchoError`] says it.
    pub(super) fn error(&mut self, from: IpAddr, seq: u16, what: &str) -> Result<()> {
        if let Some(request) = self.requests.get_mut(&seq)
            && !core::mem::replace(&mut request.answered, true)
        {
            self.errors += 1;
        }
        self.line(&format!("From {from} icmp_seq={seq} {what}"))
    }

    /// Print the summary, or the document.
    pub(super) fn end(&self, time: Duration) -> Result<()> {
        if self.json {
            return output::out(&self.document(time)?);
        }
        let mut text = format!(
            "\n--- {} ping statistics ---\n{} packets transmitted, {} received, ",
            self.host, self.transmitted, self.received
        );
        if self.duplicates > 0 {
            text += &format!("+{} duplicates, ", self.duplicates);
        }
        if self.errors > 0 {
            text += &format!("+{} errors, ", self.errors);
        }
        text += &format!("{}% packet loss, time {}ms\n", self.loss(), time.as_millis());
        if self.times.count > 0 {
            let [min, avg, max, mdev] = self.times.figures();
            text += &format!("rtt min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms\n");
        }
        output::out(&text)
    }

    /// Percent of requests without a reply, rounded down to a thousandth.
    fn loss(&self) -> f64 {
        let lost = self.transmitted.saturating_sub(self.received);
        (lost * 100_000 / self.transmitted.max(1)) as f64 / 1e3
    }

    fn document(&self, time: Duration) -> Result<String> {
        let [min, avg, max, mdev] = self.times.figures();
        let rtt = serde_json::json!({ "min": min, "avg": avg, "max": max, "mdev": mdev });
        let answered = self.received + self.duplicates;
        let document = serde_json::json!({
            "host": self.host,
            "address": self.address,
            "payload_bytes": self.size,
            "transmitted": self.transmitted,
            "received": self.received,
            "duplicates": self.duplicates,
            "errors": self.errors,
            "loss_percent": self.loss(),
            "time_ms": time.as_millis(),
            "rtt_ms": if self.times.count > 0 { rtt } else { serde_json::Value::Null },
            "replies": self.replies,
            "replies_left_out": answered.saturating_sub(self.replies.len() as u64),
        });
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }
}

impl Times {
    fn add(&mut self, time_ms: Option<f64>) {
        let Some(ms) = time_ms else { return };
        self.min = if self.count == 0 { ms } else { self.min.min(ms) };
        self.max = self.max.max(ms);
        self.sum += ms;
        self.squares += ms * ms;
        self.count += 1;
    }

    /// Minimum, mean, maximum, and standard deviation.
    fn figures(&self) -> [f64; 4] {
        let n = self.count.max(1) as f64;
        let mean = self.sum / n;
        [self.min, mean, self.max, (self.squares / n - mean * mean).max(0.0).sqrt()]
    }
}

/// Milliseconds with three significant digits.
fn shown(ms: f64) -> String {
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use wirespeed::{EchoError, Unreachable};

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_reply_counts_once_and_an_error_settles_its_request() {
        let address = IpAddr::from([192, 0, 2, 1]);
        let mut tally = Tally::new("host", address, 56, true);
        (1..=4).for_each(|seq| tally.sent(seq, at(10)));
        tally.reply(address, 1, 64, 56, at(11)).expect("no output");
        tally.reply(address, 1, 64, 56, at(12)).expect("no output");
        tally.reply(address, 2, 64, 56, at(13)).expect("no output");
        let error = EchoError::Unreachable(Unreachable::Host);
        tally.error(address, 3, &error.to_string()).expect("no output");
        tally.error(address, 3, &error.to_string()).expect("no output");
        assert_eq!((tally.received, tally.duplicates, tally.errors), (2, 1, 1));
        assert_eq!((tally.settled(), tally.loss()), (3, 50.0));
        tally.unsent(5, at(20));
        tally.error(address, 5, "late").expect("no output");
        assert_eq!((tally.transmitted, tally.settled(), tally.errors), (5, 4, 2));
        assert_eq!(tally.times.figures(), [1.0, 2.0, 3.0, 1.0]);
        let text = tally.document(Duration::from_millis(4)).expect("a document");
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(document["replies"].as_array().map(Vec::len), Some(3));
        assert_eq!(document["rtt_ms"]["max"], 3.0);
    }
}
