//! The states of a DHCPv6 client.
//!
//! Called by: the owner of the socket, as `dhcp6.rs` says. One exchange, the best Advertise and one
//! lease are kept, so that no message makes the client larger. RFC 8415 sections 18.2.1 to 18.2.8
//! (what is sent), 18.2.12 (the link); `receive.rs` handles received messages.

mod receive;

use std::collections::VecDeque;

use core::net::Ipv6Addr;

use base::{Budget, DropReason, Drops, Duration, Instant};

use super::message::{Outgoing, Sent, is_duid};
use super::retransmit::{Exchange, FIRST_DELAY_MAX, MAX_RT_DEFAULT, Parameters, parameters};
use super::{Action, Config, ConfigError, Lease, LossReason, Mode, State};
use crate::random::Random;

/// The longest delay after refusals in a row.
const BACKOFF_SECONDS: u64 = 64;

/// A server and the address that it gives.
#[derive(Clone, Debug)]
struct Choice {
    server: Vec<u8>,
    preference: u8,
    address: Ipv6Addr,
}

/// The lease and its deadlines.
#[derive(Clone, Debug)]
struct Held {
    lease: Lease,
    server: Vec<u8>,
    /// The caller has been given the lease.
    acquired: bool,
    renew_at: Instant,
    rebind_at: Instant,
    deprecated_at: Instant,
    expires_at: Instant,
}

/// A DHCPv6 client of one port.
#[derive(Clone, Debug)]
pub struct Client {
    config: Config,
    random: Random,
    state: State,
    exchange: Exchange,
    /// The best Advertise; or the server of a Request, Decline or Release, with the address.
    choice: Option<Choice>,
    held: Option<Held>,
    sol_max_rt: Duration,
    inf_max_rt: Duration,
    /// Refusals and conflicts since the last lease.
    failures: u32,
    /// At most a handful: each call that passes something in adds up to two, and only while a state
    /// waits for it.
    actions: VecDeque<Action>,
    drops: Drops,
    budget: Budget,
}

impl Client {
    /// A client that begins to ask within a second.
    pub fn new(config: Config, now: Instant) -> Result<Client, ConfigError> {
        if !is_duid(&config.duid) {
            return Err(ConfigError::Duid);
        }
        let mut random = Random::new(config.secret, 6);
        let state = match config.mode {
            Mode::Stateful => State::Soliciting,
            Mode::Stateless => State::Informing,
        };
        // RFC 8415 18.2.1-c, 18.2.6-b.
        let at = now + random.span(FIRST_DELAY_MAX);
        Ok(Client {
            exchange: Exchange::new(at, &mut random),
            config,
            random,
            state,
            choice: None,
            held: None,
            sol_max_rt: MAX_RT_DEFAULT,
            inf_max_rt: MAX_RT_DEFAULT,
            failures: 0,
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
            (State::Stopped | State::Probing, _) => Instant::NEVER,
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

    /// Until when the address in use is preferred, and until when it may be used;
    /// [`Instant::NEVER`]: for ever.
    pub fn lifetimes(&self) -> Option<(Instant, Instant)> {
        let held = self.held.as_ref().filter(|held| held.acquired);
        held.map(|held| (held.deprecated_at, held.expires_at))
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// The limits, to read and to set.
    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// A datagram from a server. The reason for which it is dropped is also counted.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) -> Result<(), DropReason> {
        let outcome = self.message(now, bytes);
        if let Err(reason) = outcome {
            self.drops.count(reason);
        }
        outcome
    }

    /// The caller has looked for conflicts ([`Action::Probe`]), or another host has shown later
    /// that it uses the address.
    pub fn probed(&mut self, now: Instant, conflict: bool) {
        let Some(mut held) = self.held.take() else { return };
        if conflict {
            // RFC 8415 18.2.8-a.
            self.leave(held, LossReason::Conflict);
            self.failures = self.failures.saturating_add(1);
            return self.begin(State::Declining, now);
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
        use State::{Declining, Probing, Releasing, Stopped};
        let soon = now + self.random.span(FIRST_DELAY_MAX);
        match (self.state, self.config.mode) {
            (Probing | Declining | Releasing | Stopped, _) => {}
            (_, Mode::Stateless) => self.begin(State::Informing, soon),
            // RFC 8415 18.2.12-a, 18.2.3-a.
            (_, Mode::Stateful) if self.held.is_some() => self.begin(State::Confirming, soon),
            (_, Mode::Stateful) => self.restart(now),
        }
    }

    /// Gives the address back and ends. That goes on until the server answers; at most four
    /// messages are sent, in 15 seconds.
    pub fn stop(&mut self, now: Instant) {
        if self.state == State::Releasing {
            return;
        }
        self.state = State::Stopped;
        if let Some(held) = self.held.take() {
            // RFC 8415 18.2.7-a: the address is not used from before the first Release on.
            self.leave(held, LossReason::Released);
            self.begin(State::Releasing, now);
        }
    }

    /// A deadline has come.
    fn expire(&mut self, now: Instant) {
        if let Some(held) = self.held.take_if(|held| now >= held.expires_at) {
            // RFC 8415 18.2.5-b.
            self.lose(&held, LossReason::Expired);
            return self.restart(now);
        }
        let rebind_at = self.held.as_ref().map(|held| held.rebind_at);
        let soon = now + self.random.span(FIRST_DELAY_MAX);
        match self.state {
            // RFC 8415 18.2.5-a.
            State::Bound | State::Renewing if rebind_at.is_some_and(|at| now >= at) => {
                self.begin(State::Rebinding, now);
            }
            // RFC 8415 18.2.4-a.
            State::Bound => self.begin(State::Renewing, now),
            State::Informed => self.begin(State::Informing, soon),
            // RFC 8415 18.2.1-d: the first retransmission time is for collecting Advertises.
            State::Soliciting if self.exchange.sent > 0 && self.choice.is_some() => {
                self.begin(State::Requesting, now);
            }
            State::Probing | State::Stopped => {}
            _ if self.exchange.is_over(now, self.parameters()) => self.fail(now),
            _ => self.transmit(now),
        }
    }

    /// No server has answered in time.
    fn fail(&mut self, now: Instant) {
        match self.state {
            // RFC 8415 18.2.3-b: a lease that is still valid is used on.
            State::Confirming => self.state = State::Bound,
            State::Releasing => self.state = State::Stopped,
            _ => self.restart(now),
        }
    }

    fn parameters(&self) -> Parameters {
        let is_informing = self.state == State::Informing;
        parameters(self.state, if is_informing { self.inf_max_rt } else { self.sol_max_rt })
    }

    /// Enter a state in which messages of one kind are sent, the first one at `at`.
    fn begin(&mut self, state: State, at: Instant) {
        self.state = state;
        self.exchange = Exchange::new(at, &mut self.random);
    }

    /// Begin from the start, with longer and longer delays while servers refuse.
    fn restart(&mut self, now: Instant) {
        let backoff = match self.failures {
            0 => 0,
            failures => BACKOFF_SECONDS.min(1 << (failures - 1).min(6)),
        };
        self.choice = None;
        let delay = Duration::from_secs(backoff) + self.random.span(FIRST_DELAY_MAX);
        self.begin(State::Soliciting, now + delay);
    }

    /// Send the state's message and set the time of the next.
    fn transmit(&mut self, now: Instant) {
        let choice = self.choice.as_ref().map(|choice| (&choice.server[..], choice.address));
        let held = self.held.as_ref().map(|held| (&held.server[..], held.lease.address));
        let address = held.map(|(_, address)| address);
        let (kind, server, address) = match (self.state, held, choice) {
            (State::Requesting, _, Some((s, a))) => (Sent::Request, Some(s), Some(a)),
            (State::Releasing, _, Some((s, a))) => (Sent::Release, Some(s), Some(a)),
            (State::Declining, _, Some((s, a))) => (Sent::Decline, Some(s), Some(a)),
            (State::Renewing, Some((s, a)), _) => (Sent::Renew, Some(s), Some(a)),
            (State::Rebinding, ..) => (Sent::Rebind, None, address),
            (State::Confirming, ..) => (Sent::Confirm, None, address),
            (State::Informing, ..) => (Sent::InformationRequest, None, None),
            _ => (Sent::Solicit, None, address),
        };
        let message = Outgoing {
            kind,
            xid: self.exchange.xid,
            elapsed: self.exchange.elapsed(now),
            client: &self.config.duid,
            server,
            ia: (kind != Sent::InformationRequest).then_some((self.config.iaid, address)),
            rapid_commit: kind == Sent::Solicit && self.config.rapid_commit,
        };
        self.actions.push_back(Action::Send(message.emit()));
        let parameters = self.parameters();
        self.exchange.transmit(now, self.state, parameters, &mut self.random);
    }

    /// Give the address up, and remember its server, to tell it.
    fn leave(&mut self, held: Held, reason: LossReason) {
        self.lose(&held, reason);
        let Held { server, lease, .. } = held;
        self.choice = Some(Choice { server, preference: 0, address: lease.address });
    }

    fn lose(&mut self, held: &Held, reason: LossReason) {
        if held.acquired {
            let address = held.lease.address;
            self.actions.push_back(Action::Lost { address, reason });
        }
    }
}
