//! Datagram packetization layer path MTU discovery (DPLPMTUD): finds the largest datagram that a
//! path carries, by probes that a program above UDP sends.
//!
//! Called by: programs whose protocol acknowledges datagrams, with `udp_send_probe` of `stack`.
//! There is no I/O and no clock here: the program reports the fate of each probe, and the time.
//! Sizes are bytes of UDP payload, as in RFC 9000 section 14.3. RFC 8899 sections 4 and 5.

use base::{Duration, Instant, IpVersion};

/// A path does not carry a size after this many failed probes of it (RFC 8899 section 5.1.2).
pub const MAX_PROBES: u8 = 3;
/// The search ends when it can gain less than this many bytes.
pub const STEP: usize = 16;
/// UDP header and IPv4 header.
const HEADERS_V4: usize = 28;
/// UDP header and IPv6 header.
const HEADERS_V6: usize = 48;

/// Sizes in bytes of UDP payload, and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// MIN_PLPMTU: the size that every path carries.
    pub min: usize,
    /// BASE_PLPMTU: the size that nearly every path carries. It is used until more is known.
    pub base: usize,
    /// MAX_PLPMTU: the largest size that both ends support.
    pub max: usize,
    /// PROBE_TIMER: the longest time that an acknowledgment takes; at least 1 s is used.
    pub probe_timer: Duration,
    /// PMTU_RAISE_TIMER: the time from the end of a search to the next one.
    pub raise_timer: Duration,
}

impl Config {
    /// The RFC's values for a port that sends packets of `mtu_bytes`.
    /// RFC 8899 5.1.1-b, 5.1.2-a.
    pub fn new(version: IpVersion, mtu_bytes: usize) -> Config {
        // A packet of 68 bytes, and of 1280, passes every path (RFC 791, RFC 8200).
        let (headers, min, base) = match version {
            IpVersion::V4 => (HEADERS_V4, 68 - HEADERS_V4, 1200),
            IpVersion::V6 => (HEADERS_V6, 1280 - HEADERS_V6, 1280 - HEADERS_V6),
        };
        let max = mtu_bytes.saturating_sub(headers).max(min);
        let (probe_timer, raise_timer) = (Duration::from_secs(16), Duration::from_secs(600));
        Config { min, base: base.min(max), max, probe_timer, raise_timer }
    }
}

/// The phase of discovery, RFC 8899 section 5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing has been acknowledged yet: no probes.
    Disabled,
    /// The base size is being confirmed.
    Base,
    /// Larger sizes are being tried.
    Searching,
    /// The largest size that the path carries was found; the search begins again when the raise
    /// timer expires.
    SearchComplete,
    /// Not even the base size arrives: the smallest size is used, and the base size is tried again.
    Error,
}

/// A probe that was sent and has no result yet.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: usize,
    sent_at: Instant,
}

/// Discovery on one path.
#[derive(Clone, Debug)]
pub struct Dplpmtud {
    config: Config,
    state: State,
    plpmtu: usize,
    /// The smallest size that the path is assumed not to carry.
    ceiling: usize,
    /// No size just below the ceiling was tried since the ceiling was set: it is tried first.
    is_top_untried: bool,
    probe: Option<Probe>,
    /// PROBE_COUNT: consecutive failed probes of the present size.
    failed: u8,
    /// No probe is sent before this time.
    next_at: Instant,
    /// When a search begins again after a complete one.
    raise_at: Instant,
    /// The number of consecutive lost datagrams larger than the base size, and the size of the
    /// smallest.
    lost: (u8, usize),
}

impl Dplpmtud {
    /// Discovery that has not begun.
    /// RFC 8899 5.1.1-a.
    pub fn new(config: Config) -> Dplpmtud {
        let base = config.base.clamp(config.min, config.max.max(config.min));
        let probe_timer = config.probe_timer.max(Duration::from_secs(1));
        Dplpmtud {
            config: Config { base, probe_timer, ..config },
            state: State::Disabled,
            plpmtu: base,
            ceiling: config.max.max(config.min) + 1,
            is_top_untried: true,
            probe: None,
            failed: 0,
            next_at: Instant::ZERO,
            raise_at: Instant::NEVER,
            lost: (0, usize::MAX),
        }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// PLPMTU: the largest datagram to send now that is not a probe.
    /// RFC 8899 3-a.
    pub fn plpmtu(&self) -> usize {
        self.plpmtu
    }

    /// The peer has answered: begin to probe.
    pub fn start(&mut self, now: Instant) {
        if self.state == State::Disabled {
            self.state = State::Base;
            self.next_at = now;
        }
    }

    /// When [`Dplpmtud::expire`] has something to do.
    pub fn next_deadline(&self) -> Instant {
        let probe = self.probe.map(|probe| probe.sent_at + self.config.probe_timer);
        probe.unwrap_or(Instant::NEVER).min(self.raise_at)
    }

    /// The size of the probe to send now, if one is due. The probe counts as sent from now on.
    /// There is never more than one probe without a result, and the caller does not retransmit a
    /// lost one. RFC 8899 3-c.
    pub fn next_probe(&mut self, now: Instant) -> Option<usize> {
        if self.probe.is_some() || now < self.next_at {
            return None;
        }
        let size = match self.state {
            State::Disabled | State::SearchComplete => return None,
            State::Base | State::Error => self.config.base,
            State::Searching => self.candidate(),
        };
        self.probe = Some(Probe { size, sent_at: now });
        Some(size)
    }

    /// A probe could not be sent, because of the device or because the next hop's link address is
    /// not known yet. That shows nothing about the path. The next probe is due after
    /// [`Config::probe_timer`].
    pub fn unsent(&mut self, size: usize, now: Instant) {
        if self.is_under_way(size) {
            self.probe = None;
            self.next_at = now + self.config.probe_timer;
        }
    }

    /// The peer acknowledged a probe of `size`, possibly late. The path carries that size, unless
    /// newer probes have shown that it does not.
    /// RFC 8899 3-e, 4.1-a.
    pub fn acknowledged(&mut self, size: usize, now: Instant) {
        let is_under_way = self.is_under_way(size);
        let is_late = !is_under_way && size >= self.ceiling;
        if size > self.config.max || is_late || self.state == State::Disabled {
            return;
        }
        if is_under_way {
            self.probe = None;
            self.failed = 0;
            self.next_at = now;
        }
        self.data_acknowledged(size);
        if size < self.config.base {
            return;
        }
        self.ceiling = self.ceiling.max(size + 1);
        self.plpmtu = self.plpmtu.max(size);
        if matches!(self.state, State::Base | State::Error) {
            self.state = State::Searching;
        }
        self.settle(now);
    }

    /// A probe of `size` was lost, which is no sign of congestion.
    pub fn lost(&mut self, size: usize, now: Instant) {
        if !self.is_under_way(size) {
            return;
        }
        self.probe = None;
        self.failed += 1;
        if self.failed < MAX_PROBES {
            return;
        }
        self.failed = 0;
        match self.state {
            State::Base => self.fail(now),
            State::Searching => {
                self.ceiling = size;
                self.is_top_untried = false;
                self.settle(now);
            }
            // The next probe is not sent at once, because nothing has changed.
            _ => self.next_at = now + self.config.probe_timer,
        }
    }

    /// A packet too big message reports that the path carries datagrams of `size`, which is the
    /// reported MTU less the headers. The caller has checked that the message quotes a datagram of
    /// this path. `false`: the report contradicts what was sent, and is ignored.
    /// RFC 8899 4.6.2-a, 4.6.2-b, 4.6.2-c, 4.6.2-d.
    pub fn packet_too_big(&mut self, size: usize, now: Instant) -> bool {
        let largest = self.probe.map_or(self.plpmtu, |probe| probe.size.max(self.plpmtu));
        if size < self.config.min || size >= largest || self.state == State::Disabled {
            return false;
        }
        self.ceiling = size + 1;
        self.is_top_untried = true;
        self.probe = None;
        self.failed = 0;
        self.next_at = now;
        if size < self.config.base {
            self.fail(now);
        } else if size < self.plpmtu {
            self.return_to_base();
        } else {
            self.settle(now);
        }
        true
    }

    /// An ordinary datagram of `size` was acknowledged.
    pub fn data_acknowledged(&mut self, size: usize) {
        if size >= self.lost.1 {
            self.lost = (0, usize::MAX);
        }
    }

    /// An ordinary datagram of `size` was lost. [`MAX_PROBES`] consecutive losses of datagrams
    /// above the base size, while no datagram as large is acknowledged, mean a black hole.
    /// RFC 8899 4.3-a.
    pub fn data_lost(&mut self, size: usize) {
        let is_large = size > self.config.base && size <= self.plpmtu;
        if !is_large || !matches!(self.state, State::Searching | State::SearchComplete) {
            return;
        }
        let (count, smallest) = self.lost;
        self.lost = (count + 1, smallest.min(size));
        if self.lost.0 >= MAX_PROBES {
            self.ceiling = self.lost.1;
            self.is_top_untried = false;
            self.return_to_base();
        }
    }

    /// Act on timers that have expired.
    pub fn expire(&mut self, now: Instant) {
        if let Some(Probe { size, sent_at }) = self.probe
            && sent_at + self.config.probe_timer <= now
        {
            self.lost(size, now);
        }
        if self.raise_at <= now {
            self.raise_at = Instant::NEVER;
            self.ceiling = self.config.max + 1;
            self.is_top_untried = true;
            self.state = State::Searching;
            self.settle(now);
        }
    }

    fn is_under_way(&self, size: usize) -> bool {
        self.probe.is_some_and(|probe| probe.size == size)
    }

    /// The next size to try: first the largest possible one, then the middle of the remaining
    /// range.
    fn candidate(&self) -> usize {
        match self.is_top_untried {
            true => self.ceiling - 1,
            false => self.plpmtu + (self.ceiling - self.plpmtu) / 2,
        }
    }

    /// End the search if no size is left to try.
    fn settle(&mut self, now: Instant) {
        let left = self.ceiling.saturating_sub(self.plpmtu + 1);
        let is_over = left == 0 || (left < STEP && !self.is_top_untried);
        if self.state == State::Searching && is_over {
            self.state = State::SearchComplete;
            self.raise_at = now + self.config.raise_timer;
            self.probe = None;
        }
    }

    /// The size in use is too large: confirm the base size, then search again below the ceiling.
    fn return_to_base(&mut self) {
        self.state = State::Base;
        self.plpmtu = self.config.base;
        self.ceiling = self.ceiling.max(self.config.base + 1);
        self.raise_at = Instant::NEVER;
        self.probe = None;
        self.failed = 0;
        self.lost = (0, usize::MAX);
    }

    /// Not even the base size arrives: use the smallest size.
    /// RFC 8899 5.2-a.
    fn fail(&mut self, now: Instant) {
        self.return_to_base();
        self.state = State::Error;
        self.plpmtu = self.config.min;
        self.ceiling = self.config.max + 1;
        self.is_top_untried = true;
        self.next_at = now + self.config.probe_timer;
    }
}

#[cfg(test)]
mod tests;
