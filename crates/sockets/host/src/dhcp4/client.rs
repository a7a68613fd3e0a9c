//! The states of a DHCPv4 client, and the messages that it sends in each; `answers` handles
//! received ones.
//!
//! Called by: the owner of the socket, as `dhcp4.rs` says. One exchange, one offer and one lease
//! are kept, so that no message makes the client larger. RFC 2131 sections 3.1 (asking), 3.2 (the
//! remembered address), 4.1 (retransmission) and 4.4 (the states).

mod answers;

use core::net::Ipv4Addr;
use std::collections::VecDeque;

use base::{Budget, Drops, Duration, Instant};

use super::lease::is_host;
use super::message::{Outgoing, Sent};
use super::{Action, Config, ConfigError, Lease, LossReason, Refusal, State};
use crate::names;
use crate::random::Random;

const SECOND: Duration = Duration::from_secs(1);
/// The first delay before a retransmission, and the longest.
const RETRANSMIT_MIN_SECONDS: u64 = 4;
const RETRANSMIT_MAX_SECONDS: u64 = 64;
/// Requests for an offer before it is given up: 60 seconds.
const REQUESTS: u32 = 4;
/// Requests for a remembered address: 12 seconds.
const REBOOT_REQUESTS: u32 = 2;
/// The shortest delay between retransmissions while a lease is extended.
const RENEW_RETRANSMIT_MIN: Duration = Duration::from_secs(60);
const AFTER_DECLINE: Duration = Duration::from_secs(10);

/// Messages of one kind until an answer comes.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    xid: u32,
    /// When the client began to ask; `secs` of its messages counts from here.
    began: Instant,
    /// When the first message of this state was sent.
    first_at: Instant,
    sent: u32,
    next_at: Instant,
}

/// The lease and its deadlines.
#[derive(Clone, Debug)]
struct Held {
    lease: Lease,
    /// The caller has been given the lease.
    acquired: bool,
    renew_at: Instant,
    rebind_at: Instant,
    expires_at: Instant,
}

/// A DHCPv4 client of one port.
#[derive(Clone, Debug)]
pub struct Client {
    config: Config,
    random: Random,
    state: State,
    exchange: Exchange,
    /// The offer that is asked for: its address and its server.
    offer: Option<(Ipv4Addr, Ipv4Addr)>,
    held: Option<Held>,
    /// Refusals and conflicts since the last lease.
    failures: u32,
    /// Why the last answer was of no use; and whether [`Client::take_refusal`] has not returned
    /// that yet.
    refusal: Option<Refusal>,
    is_news: bool,
    /// At most a handful: each call that passes something in adds up to two, and only while a state
    /// waits for it.
    actions: VecDeque<Action>,
    drops: Drops,
    budget: Budget,
}

impl Client {
    /// A client that begins to ask at the first [`Client::poll`].
    pub fn new(config: Config, now: Instant) -> Result<Client, ConfigError> {
        if !(2..=255).contains(&config.client_id.len()) {
            return Err(ConfigError::ClientId);
        }
        let is_name = |name: &String| names::from_text(name.as_bytes()).as_ref() == Some(name);
        if config.hostname.as_ref().is_some_and(|name| name.len() > 63 || !is_name(name)) {
            return Err(ConfigError::Hostname);
        }
        if config.remembered.is_some_and(|address| !is_host(address)) {
            return Err(ConfigError::Remembered);
        }
        if config.mtu_max < 576 {
            return Err(ConfigError::Mtu);
        }
        let mut random = Random::new(config.secret, 4);
        // RFC 2131 4.4.1-a.
        let delay = match config.startup_delay {
            true => SECOND + random.span(SECOND.saturating_mul(9)),
            false => Duration::ZERO,
        };
        Ok(Client {
            config,
            random,
            state: State::Init,
            exchange: Exchange { xid: 0, began: now, first_at: now, sent: 0, next_at: now + delay },
            offer: None,
            held: None,
            failures: 0,
            refusal: None,
            is_news: false,
            actions: VecDeque::new(),
            drops: Drops::default(),
            budget: Budget::default(),
        })
    }

    /// The next action, or `None`: nothing to do before [`Client::deadline`].
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        while self.actions.is_empty() && now >= self.deadline() {
            self.expire(now);
        }
        self.actions.pop_front()
    }

    /// When to call [`Client::poll`] next.
    pub fn deadline(&self) -> Instant {
        if !self.actions.is_empty() {
            return Instant::ZERO;
        }
        let next = match (self.state, &self.held) {
            (State::Stopped, _) => return Instant::NEVER,
            (State::Probing, _) => Instant::NEVER,
            (State::Bound, Some(held)) => held.renew_at,
            (State::Renewing, Some(held)) => self.exchange.next_at.min(held.rebind_at),
            _ => self.exchange.next_at,
        };
        self.held.as_ref().map_or(next, |held| next.min(held.expires_at))
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// The lease in use.
    pub fn lease(&self) -> Option<&Lease> {
        self.held.as_ref().filter(|held| held.acquired).map(|held| &held.lease)
    }

    /// Until when the lease in use may be used; [`Instant::NEVER`] if it is for ever.
    pub fn expires_at(&self) -> Option<Instant> {
        self.held.as_ref().filter(|held| held.acquired).map(|held| held.expires_at)
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Why the last answer was of no use; `None` after one that was.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// [`Client::refusal`], returned only once for each answer.
    pub fn take_refusal(&mut self) -> Option<Refusal> {
        core::mem::take(&mut self.is_news).then(|| self.refusal.clone()).flatten()
    }

    /// The limits, to read and to set.
    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// The caller has looked for conflicts ([`Action::Probe`]), or another host has shown later
    /// that it uses the address.
    pub fn probed(&mut self, now: Instant, conflict: bool) {
        let Some(mut held) = self.held.take() else { return };
        if conflict {
            // RFC 2131 3.1-d.
            self.lose(&held, LossReason::Conflict);
            self.exchange.xid = self.random.bits() as u32;
            let (requested, server) = (Some(held.lease.address), Some(held.lease.server));
            self.send(now, Sent::Decline, Ipv4Addr::UNSPECIFIED, requested, server);
            return self.restart(now + AFTER_DECLINE);
        }
        if self.state == State::Probing {
            held.acquired = true;
            self.state = State::Bound;
            self.failures = 0;
            self.actions.push_back(Action::Acquired(Box::new(held.lease.clone())));
        }
        self.held = Some(held);
    }

    /// The link is up again, maybe to another network: asks whether the address is still good.
    pub fn link_up(&mut self, now: Instant) {
        match (self.state, &self.held) {
            (State::Stopped | State::Probing, _) => {}
            // RFC 2131 3.7-a.
            (_, Some(_)) => self.begin(State::Rebooting, now),
            (_, None) => self.restart(now),
        }
    }

    /// Gives the address back and ends.
    pub fn stop(&mut self, now: Instant) {
        if let Some(held) = self.held.take().filter(|held| held.acquired) {
            self.exchange.xid = self.random.bits() as u32;
            let lease = &held.lease;
            // RFC 2131 4.4.6-a.
            self.exchange.began = now;
            self.send(now, Sent::Release, lease.address, None, Some(lease.server));
            self.lose(&held, LossReason::Released);
        }
        self.state = State::Stopped;
    }

    /// A deadline has come.
    fn expire(&mut self, now: Instant) {
        if let Some(held) = self.held.take_if(|held| now >= held.expires_at) {
            // RFC 2131 4.4.5-e.
            self.lose(&held, LossReason::Expired);
            return self.restart(now);
        }
        let rebind_at = self.held.as_ref().map(|held| held.rebind_at);
        match self.state {
            State::Init if self.config.remembered.is_some() => self.begin(State::Rebooting, now),
            State::Init => self.begin(State::Selecting, now),
            // RFC 2131 3.1-e.
            State::Requesting if self.exchange.sent >= REQUESTS => self.restart(now),
            State::Rebooting if self.exchange.sent >= REBOOT_REQUESTS => self.give_up_reboot(now),
            State::Bound | State::Renewing if rebind_at.is_some_and(|at| now >= at) => {
                self.begin(State::Rebinding, now);
            }
            State::Bound => self.begin(State::Renewing, now),
            State::Probing | State::Stopped => {}
            _ => self.transmit(now),
        }
    }

    /// RFC 2131 3.2-a: without an answer, a lease that is still valid is used on.
    fn give_up_reboot(&mut self, now: Instant) {
        self.config.remembered = None;
        match self.held {
            Some(_) => self.state = State::Bound,
            None => self.restart(now),
        }
    }

    /// Enter a state in which messages of one kind are sent, and send the first.
    fn begin(&mut self, state: State, now: Instant) {
        self.state = state;
        // RFC 2131 4.4.1-f: an offer is requested with the transaction id and the time of the
        // discovery.
        if state != State::Requesting {
            self.exchange.xid = self.random.bits() as u32;
            self.exchange.began = now;
        }
        self.exchange.first_at = now;
        self.exchange.sent = 0;
        self.transmit(now);
    }

    /// Begin from the start, at `at`, or later if servers keep refusing.
    fn restart(&mut self, at: Instant) {
        let backoff = match self.failures {
            0 => 0,
            failures => RETRANSMIT_MAX_SECONDS.min(1 << (failures - 1).min(6)),
        };
        self.state = State::Init;
        self.offer = None;
        self.exchange.sent = 0;
        self.exchange.next_at = at + SECOND.saturating_mul(backoff);
    }

    /// Send the state's message and set the time of the next.
    fn transmit(&mut self, now: Instant) {
        let held = self.held.as_ref().map(|held| (held.lease.address, held.lease.server));
        let unspecified = Ipv4Addr::UNSPECIFIED;
        // RFC 2131 4.3.2-a: the four kinds of DHCPREQUEST differ in these fields.
        let (kind, ciaddr, requested, server) = match (self.state, held, self.offer) {
            (State::Requesting, _, Some((address, server))) => {
                (Sent::Request, unspecified, Some(address), Some(server))
            }
            (State::Rebooting, held, _) => {
                let address = held.map(|(address, _)| address).or(self.config.remembered);
                (Sent::Request, unspecified, address, None)
            }
            (State::Renewing | State::Rebinding, Some((address, _)), _) => {
                (Sent::Request, address, None, None)
            }
            _ => (Sent::Discover, unspecified, None, None),
        };
        self.send(now, kind, ciaddr, requested, server);
        self.exchange.next_at = now + self.delay(now);
        self.exchange.sent = self.exchange.sent.saturating_add(1);
    }

    /// The time until the next retransmission.
    fn delay(&mut self, now: Instant) -> Duration {
        let until = match (self.state, &self.held) {
            (State::Renewing, Some(held)) => held.rebind_at,
            (State::Rebinding, Some(held)) => held.expires_at,
            _ => {
                // RFC 2131 4.1-a, 4.1-b: doubled each time up to 64 seconds, one second more or
                // less.
                let doubled = RETRANSMIT_MIN_SECONDS << self.exchange.sent.min(4);
                let base = SECOND.saturating_mul(doubled.min(RETRANSMIT_MAX_SECONDS));
                return base.saturating_sub(SECOND) + self.random.span(SECOND.saturating_mul(2));
            }
        };
        // RFC 2131 4.4.5-d: half of the time that is left, 60 seconds at least.
        until.since(now).div(2).max(RENEW_RETRANSMIT_MIN)
    }

    fn send(
        &mut self,
        now: Instant,
        kind: Sent,
        ciaddr: Ipv4Addr,
        requested: Option<Ipv4Addr>,
        server: Option<Ipv4Addr>,
    ) {
        let asks = matches!(kind, Sent::Discover | Sent::Request);
        let seconds = now.since(self.exchange.began).as_millis() / 1_000;
        let secs = if asks { u16::try_from(seconds).unwrap_or(u16::MAX) } else { 0 };
        let xid = self.exchange.xid;
        let message = Outgoing { kind, xid, secs, ciaddr, requested, server };
        // RFC 2131 4.4.4-a: to the server while it is the one to ask, to all otherwise.
        let destination = match (self.state, kind) {
            (_, Sent::Release) => server,
            (State::Renewing, Sent::Request) => self.held.as_ref().map(|held| held.lease.server),
            _ => None,
        };
        self.actions.push_back(Action::Send {
            source: ciaddr,
            destination: destination.unwrap_or(Ipv4Addr::BROADCAST),
            message: message.emit(&self.config),
        });
    }

    fn lose(&mut self, held: &Held, reason: LossReason) {
        if held.acquired {
            let address = held.lease.address;
            self.actions.push_back(Action::Lost { address, reason });
        }
    }
}
