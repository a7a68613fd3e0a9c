//! Calls over datagrams. Time-outs follow the round trip, with exponential backoff and jitter. The
//! window limits the calls in flight; it halves when a call times out.
//!
//! Called by: `blocking.rs`. RFC 5531 section 5 leaves retransmission to the client. The round-trip
//! estimator is that of RFC 6298 sections 2 and 3; the backoff and the window follow RFC 8085
//! section 3.1. A repeated call has the same xid, by which servers recognise it. Drops:
//! `RpcMalformed`, `RpcNotAsked`.

use std::collections::VecDeque;

use base::{DropReason, Drops, Duration, Instant, KeyedHash};

use super::{CallError, CallId, Config, Replied, Slots, put_call, results};
use crate::limits::{DATAGRAM_BYTES, RTO_INITIAL, RTO_MAX, RTO_MIN, WINDOW_INITIAL};
use crate::message::Reply;
use crate::xdr::Encode;

/// A call that waits for its reply. Its datagram is kept, to be sent again unchanged.
#[derive(Debug)]
struct Waiting {
    datagram: Vec<u8>,
    gives_up: Instant,
    /// When it was sent last, and when it will be sent again: NEVER while it waits for the window.
    sent: Instant,
    again: Instant,
    tries: u32,
}

/// Counters of a client over datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Calls that were sent for the first time.
    pub calls: u64,
    /// Calls that were sent again.
    pub retransmits: u64,
    /// How often the window was halved.
    pub halved: u64,
}

/// A client over datagrams.
#[derive(Debug)]
pub struct DatagramClient {
    config: Config,
    template: Vec<u8>,
    slots: Slots<Waiting>,
    /// The calls that were not sent yet, in order.
    queue: VecDeque<u32>,
    flying: usize,
    /// The window, in units of 1/256 of a call.
    window: usize,
    /// The window is not halved before this time, so that it is halved at most once in a round
    /// trip.
    reduced_until: Instant,
    srtt: Option<(Duration, Duration)>,
    rto: Duration,
    random: KeyedHash,
    drawn: u64,
    /// A buffer that is not in use.
    spare: Vec<u8>,
    counts: DatagramCounts,
    drops: Drops,
}

const UNIT: usize = 256;

impl DatagramClient {
    /// A client. Its xids and jitter are derived from `secret`, which must be new for each client:
    /// an attacker who cannot guess an xid cannot forge a reply.
    pub fn new(config: Config, secret: KeyedHash) -> DatagramClient {
        DatagramClient {
            template: config.template(),
            slots: Slots::new(config.calls),
            queue: VecDeque::new(),
            flying: 0,
            window: WINDOW_INITIAL * UNIT,
            reduced_until: Instant::ZERO,
            srtt: None,
            rto: RTO_INITIAL,
            random: secret,
            drawn: 0,
            spare: Vec::with_capacity(config.send_bytes),
            counts: DatagramCounts::default(),
            drops: Drops::default(),
            config,
        }
    }

    /// Encode a call. [`DatagramClient::next_datagram`] returns its datagram when the window
    /// allows.
    ///
    /// # Errors
    /// Too many calls wait, or the call does not fit into a datagram.
    pub fn call<A: Encode + ?Sized>(
        &mut self,
        procedure: u32,
        args: &A,
        now: Instant,
    ) -> Result<CallId, CallError> {
        let mut datagram = core::mem::take(&mut self.spare);
        datagram.clear();
        put_call(&mut datagram, &self.template, 0, procedure, args);
        if datagram.len() > DATAGRAM_BYTES {
            return Err(CallError::TooLong(datagram.len(), DATAGRAM_BYTES));
        }
        let upper = self.draw() as u32;
        let gives_up = now + self.config.timeout;
        let call =
            Waiting { datagram, gives_up, sent: Instant::NEVER, again: Instant::NEVER, tries: 0 };
        let most = self.slots.most();
        let xid = self.slots.insert(upper, call).ok_or(CallError::TooManyCalls(most))?;
        if let Some(call) = self.slots.get(xid) {
            call.datagram[..4].copy_from_slice(&xid.to_be_bytes());
        }
        self.queue.push_back(xid);
        Ok(CallId(xid))
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.random.hash([self.drawn])
    }

    /// The next datagram to send now: of a call that is due to be repeated, or of a new call within
    /// the window.
    pub fn next_datagram(&mut self, now: Instant) -> Option<&[u8]> {
        let due = self.slots.iter().find(|(_, c)| c.again <= now && c.gives_up > now);
        let xid = match due.map(|(xid, _)| xid) {
            Some(xid) => {
                self.timed_out(now);
                xid
            }
            None if self.flying < (self.window / UNIT).max(1) => loop {
                let xid = self.queue.pop_front()?;
                if self.slots.get(xid).is_some() {
                    self.flying += 1;
                    break xid;
                }
            },
            None => return None,
        };
        // Add jitter of up to a quarter, so that clients whose calls were lost at the same time do
        // not all repeat them at the same time.
        let jitter = self.draw() % 256;
        let rto = self.rto;
        let call = self.slots.get(xid)?;
        let wait = rto.saturating_mul(1 << call.tries.min(16)).as_nanos().min(RTO_MAX.as_nanos());
        call.again = now + Duration::from_nanos(wait + wait / 4 / 256 * jitter);
        call.sent = now;
        call.tries += 1;
        let is_first = call.tries == 1;
        self.counts.calls += u64::from(is_first);
        self.counts.retransmits += u64::from(!is_first);
        self.slots.get(xid).map(|call| call.datagram.as_slice())
    }

    /// Halve the window, at most once in a round trip.
    fn timed_out(&mut self, now: Instant) {
        if now < self.reduced_until {
            return;
        }
        self.reduced_until = now + self.rto;
        self.window = (self.window / 2).max(UNIT);
        self.counts.halved += 1;
    }

    /// Handle a datagram from the server. Returns the results if it is the reply to a call that
    /// waits.
    pub fn on_datagram<'a>(&mut self, datagram: &'a [u8], now: Instant) -> Option<Replied<'a>> {
        let Ok(reply) = Reply::parse(datagram) else {
            self.drops.count(DropReason::RpcMalformed);
            return None;
        };
        let waits = self.slots.get(reply.xid).is_some_and(|call| call.tries > 0);
        let Some(call) = waits.then(|| self.slots.remove(reply.xid)).flatten() else {
            self.drops.count(DropReason::RpcNotAsked);
            return None;
        };
        self.flying -= 1;
        if call.tries == 1 {
            // Karn's rule: only calls that were sent once are measured, because the reply to a
            // repeated call may be for any of its tries.
            self.measured(now.since(call.sent));
        }
        let most = self.slots.most() * UNIT;
        self.window = (self.window + (UNIT * UNIT / self.window).max(1)).min(most);
        self.spare = call.datagram;
        Some((CallId(reply.xid), results(reply.outcome)))
    }

    /// Update the estimate of the round trip (RFC 6298 sections 2.2 and 2.3).
    fn measured(&mut self, rtt: Duration) {
        let (srtt, var) = match self.srtt {
            None => (rtt, rtt.div(2)),
            Some((srtt, var)) => {
                let off = srtt.saturating_sub(rtt) + rtt.saturating_sub(srtt);
                ((srtt.saturating_mul(7) + rtt).div(8), (var.saturating_mul(3) + off).div(4))
            }
        };
        self.srtt = Some((srtt, var));
        // The time-out exceeds the round trip by this at least (G in RFC 6298), even if the round
        // trip never varies.
        self.rto = (srtt + var.saturating_mul(4).max(RTO_MIN)).min(RTO_MAX);
    }

    /// When [`DatagramClient::next_datagram`] or [`DatagramClient::next_expired`] has to be called
    /// again.
    pub fn deadline(&self) -> Instant {
        if !self.queue.is_empty() && self.flying < (self.window / UNIT).max(1) {
            return Instant::ZERO;
        }
        let first = |c: &Waiting| c.again.min(c.gives_up);
        self.slots.iter().map(|(_, call)| first(call)).min().unwrap_or(Instant::NEVER)
    }

    /// Take a call whose time is over. It is forgotten.
    pub fn next_expired(&mut self, now: Instant) -> Option<CallId> {
        let (xid, _) = self.slots.iter().find(|(_, call)| call.gives_up <= now)?;
        let call = self.slots.remove(xid)?;
        self.flying -= usize::from(call.tries > 0);
        self.timed_out(now);
        Some(CallId(xid))
    }

    /// How many calls wait for their reply, or for the window.
    pub fn waiting(&self) -> usize {
        self.slots.len()
    }

    /// How many calls the window allows in flight.
    pub fn window(&self) -> usize {
        self.window / UNIT
    }

    /// The time until a call is repeated for the first time.
    pub fn rto(&self) -> Duration {
        self.rto
    }

    /// The client's counters.
    pub fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// Dropped messages, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }
}
