//! Handles messages of servers: Advertises, and Replies to each kind of message.
//!
//! Called by: `client.rs`, with each datagram. RFC 8415 sections 16 (what is discarded), 18.2.9 and
//! 18.2.10.

use base::{DropReason, Duration, Instant, Limit};

use super::{Choice, Client, Held};
use crate::dhcp6::message::{INFINITE, Kind, Options, Received, code, is_duid, status};
use crate::dhcp6::reply::{self, Answer, Given};
use crate::dhcp6::{Action, Information, Lease, LossReason, State};

/// The preference that ends the collection of Advertises (RFC 8415 section 21.8).
const PREFERENCE_NOW: u8 = 255;

impl Client {
    pub(super) fn message(&mut self, now: Instant, bytes: &[u8]) -> Result<(), DropReason> {
        // The first byte beyond the limit is one too many.
        if !self.budget.admits(Limit::DhcpMessageBytes, bytes.len().saturating_sub(1)) {
            return Err(DropReason::DhcpMalformed);
        }
        let message = Received::parse(bytes).ok_or(DropReason::DhcpMalformed)?;
        let options = message.options;
        // RFC 8415 16.3-a, 16.10-a: both identifiers are there, and the client's is ours.
        let server = options.value(code::SERVER_ID).filter(|server| is_duid(server));
        let server = server.ok_or(DropReason::DhcpMalformed)?;
        let is_ours = options.value(code::CLIENT_ID) == Some(&self.config.duid);
        if message.xid != self.exchange.xid || !is_ours {
            return Err(DropReason::DhcpNotForUs);
        }
        if self.exchange.sent == 0 {
            return Err(DropReason::DhcpUnexpected);
        }
        match (self.state, message.kind) {
            (State::Soliciting, Kind::Advertise) => self.advertise(now, options, server),
            (_, Kind::Advertise) => Err(DropReason::DhcpUnexpected),
            (_, Kind::Reply) => self.reply(now, options, server),
        }
    }

    fn advertise(
        &mut self,
        now: Instant,
        options: Options<'_>,
        server: &[u8],
    ) -> Result<(), DropReason> {
        // RFC 8415 18.2.9-a: even if the Advertise is not used.
        self.note_max_rt(options);
        let succeeded = options.status() == Some(status::SUCCESS);
        let Answer::Given(given) = reply::answer(options, self.config.iaid, None) else {
            return Err(DropReason::DhcpUnusable);
        };
        if !succeeded {
            return Err(DropReason::DhcpRefused);
        }
        // RFC 8415 18.2.9-b: the highest preference, the first of them.
        let preference = options.array(code::PREFERENCE).map_or(0, |[preference]| preference);
        if self.choice.as_ref().is_none_or(|choice| choice.preference < preference) {
            let (server, address) = (server.to_vec(), given.address);
            self.choice = Some(Choice { server, preference, address });
        }
        // RFC 8415 18.2.1-e: a preference of 255 ends the wait; after the first retransmission time
        // any Advertise does.
        if preference == PREFERENCE_NOW || self.exchange.sent > 1 {
            self.begin(State::Requesting, now);
        }
        Ok(())
    }

    fn reply(
        &mut self,
        now: Instant,
        options: Options<'_>,
        server: &[u8],
    ) -> Result<(), DropReason> {
        use State::{Confirming, Declining, Informing, Rebinding, Releasing};
        use State::{Renewing, Requesting, Soliciting};
        let chosen = match self.state {
            Requesting | Releasing | Declining => self.choice.as_ref().map(|c| &c.server[..]),
            Renewing => self.held.as_ref().map(|held| &held.server[..]),
            _ => None,
        };
        if chosen.is_some_and(|chosen| chosen != server) {
            return Err(DropReason::DhcpOtherServer);
        }
        match self.state {
            // RFC 8415 18.2.1-f.
            Soliciting if options.value(code::RAPID_COMMIT).is_none() => {
                return Err(DropReason::DhcpUnexpected);
            }
            Soliciting if !self.config.rapid_commit => return Err(DropReason::DhcpUnexpected),
            State::Bound | State::Probing | State::Informed | State::Stopped => {
                return Err(DropReason::DhcpUnexpected);
            }
            _ => {}
        }
        self.note_max_rt(options);
        match self.state {
            Releasing => self.state = State::Stopped,
            Declining => self.restart(now),
            Confirming => return self.confirmed(now, options),
            Informing => return self.informed(now, options),
            Soliciting | Requesting | Renewing | Rebinding => {
                return self.binding(now, options, server);
            }
            _ => {}
        }
        Ok(())
    }

    /// A Reply to Solicit, Request, Renew or Rebind. After a refused request the client starts from
    /// the beginning; a lease that is not extended is asked for again until it ends.
    fn binding(
        &mut self,
        now: Instant,
        options: Options<'_>,
        server: &[u8],
    ) -> Result<(), DropReason> {
        let extends = matches!(self.state, State::Renewing | State::Rebinding);
        let top = options.status().ok_or(DropReason::DhcpMalformed)?;
        let held = self.held.as_ref().map(|held| held.lease.address);
        let wanted = held.filter(|_| extends);
        let answer = reply::answer(options, self.config.iaid, wanted);
        match (top, answer) {
            (status::SUCCESS, Answer::Given(given)) => {
                let information = reply::information(options, &mut self.budget);
                self.hold(given, server.to_vec(), information);
                Ok(())
            }
            (status::SUCCESS, Answer::Nothing) => Err(DropReason::DhcpUnusable),
            (status::SUCCESS, Answer::Ended(_)) if extends => {
                if let Some(held) = self.held.take() {
                    self.lose(&held, LossReason::Refused);
                }
                self.restart(now);
                Ok(())
            }
            // RFC 8415 18.2.10-d: the server that knows no binding is asked for one.
            (status::SUCCESS | status::NO_BINDING, Answer::NoBinding) if extends => {
                self.choice = wanted.map(|address| Choice {
                    server: server.to_vec(),
                    preference: 0,
                    address,
                });
                self.begin(State::Requesting, now);
                Ok(())
            }
            // RFC 8415 18.2.10-b: the cause of these failures is the request itself, which would
            // fail again.
            (status::SUCCESS | status::NO_ADDRESSES | status::NOT_ON_LINK, _) if !extends => {
                self.restart(now);
                self.failures = self.failures.saturating_add(1);
                Err(DropReason::DhcpRefused)
            }
            // RFC 8415 18.2.10-a: any other failure: asked again, at the rate of retransmissions.
            _ => Err(DropReason::DhcpRefused),
        }
    }

    /// A lease was given or extended.
    fn hold(&mut self, given: Given, server: Vec<u8>, information: Information) {
        // Times count from the last request: a Reply to an earlier one would have come before it.
        let from = self.exchange.last_at;
        let span = |s: u32| (s != INFINITE).then(|| Duration::from_secs(u64::from(s)));
        let at = |s: u32| span(s).map_or(Instant::NEVER, |span| from + span);
        let Given { address, preferred, valid, t1, t2 } = given;
        let lease = Lease { address, preferred: span(preferred), valid: span(valid), information };
        let before = self.held.take();
        let acquired = before.as_ref().is_some_and(|b| b.acquired && b.lease.address == address);
        if let Some(before) = before.filter(|_| !acquired) {
            self.lose(&before, LossReason::Refused);
        }
        let announced = Box::new(lease.clone());
        self.held = Some(Held {
            lease,
            server,
            acquired,
            renew_at: at(t1),
            rebind_at: at(t2),
            deprecated_at: at(preferred),
            expires_at: at(valid),
        });
        self.choice = None;
        if acquired {
            self.failures = 0;
            self.state = State::Bound;
            self.actions.push_back(Action::Renewed(announced));
        } else {
            // RFC 8415 18.2.10-e.
            self.state = State::Probing;
            self.actions.push_back(Action::Probe(address));
        }
    }

    fn confirmed(&mut self, now: Instant, options: Options<'_>) -> Result<(), DropReason> {
        match options.status() {
            Some(status::SUCCESS) => self.state = State::Bound,
            // RFC 8415 18.2.10-f.
            Some(status::NOT_ON_LINK) => {
                if let Some(held) = self.held.take() {
                    self.lose(&held, LossReason::Refused);
                }
                self.restart(now);
            }
            _ => return Err(DropReason::DhcpRefused),
        }
        Ok(())
    }

    fn informed(&mut self, now: Instant, options: Options<'_>) -> Result<(), DropReason> {
        if options.status() != Some(status::SUCCESS) {
            return Err(DropReason::DhcpRefused);
        }
        let information = reply::information(options, &mut self.budget);
        self.state = State::Informed;
        self.exchange.next_at =
            reply::refresh_time(options).map_or(Instant::NEVER, |span| now + span);
        self.actions.push_back(Action::Informed(Box::new(information)));
        Ok(())
    }

    fn note_max_rt(&mut self, options: Options<'_>) {
        let (sol, inf) = (code::SOL_MAX_RT, code::INF_MAX_RT);
        self.sol_max_rt = reply::max_rt(options, sol).unwrap_or(self.sol_max_rt);
        self.inf_max_rt = reply::max_rt(options, inf).unwrap_or(self.inf_max_rt);
    }
}
