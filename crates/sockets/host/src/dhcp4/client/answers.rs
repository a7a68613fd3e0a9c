//! Handles the answers of servers to a DHCPv4 client: offers, acknowledgements, refusals.
//!
//! Called by: the owner of the socket, with each datagram. RFC 2131 sections 3.1, 4.3 and 4.4; RFC
//! 6842. Counters: the `Dhcp` drops.

use core::net::Ipv4Addr;

use base::{DropReason, Duration, Instant, Limit};

use super::{Client, Held};
use crate::dhcp4::lease;
use crate::dhcp4::message::{Kind, Received, code};
use crate::dhcp4::{Action, Lease, LossReason, Refusal, State};

impl Client {
    /// A datagram from port 67. The reason for which it is dropped is also counted.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) -> Result<(), DropReason> {
        let outcome = self.message(now, bytes);
        if let Err(reason) = outcome {
            self.drops.count(reason);
        }
        outcome
    }

    fn message(&mut self, now: Instant, bytes: &[u8]) -> Result<(), DropReason> {
        // The first byte beyond the limit is one too many.
        if !self.budget.admits(Limit::DhcpMessageBytes, bytes.len().saturating_sub(1)) {
            return Err(DropReason::DhcpMalformed);
        }
        let Some(message) = Received::parse(bytes) else {
            return Err(self.refuse(Refusal::Malformed));
        };
        // RFC 2131 4.4.1-b. RFC 6842 3-a: a client identifier that comes back is ours.
        let client_id = message.options.value(code::CLIENT_ID);
        if message.xid != self.exchange.xid
            || message.hardware != self.config.hardware
            || client_id.is_some_and(|id| id != self.config.client_id)
        {
            return Err(DropReason::DhcpNotForUs);
        }
        use State::{Rebinding, Rebooting, Renewing, Requesting, Selecting};
        match (self.state, message.kind) {
            _ if self.exchange.sent == 0 => Err(DropReason::DhcpUnexpected),
            (Selecting, Kind::Offer) => self.take_offer(now, &message),
            (Requesting | Rebooting | Renewing | Rebinding, Kind::Ack) => self.take_ack(&message),
            (Requesting | Rebooting | Renewing | Rebinding, Kind::Nak) => {
                self.take_nak(now, &message)
            }
            _ => Err(DropReason::DhcpUnexpected),
        }
    }

    fn take_offer(&mut self, now: Instant, message: &Received<'_>) -> Result<(), DropReason> {
        let lease = self.read(message, None)?;
        self.offer = Some((lease.address, lease.server));
        self.begin(State::Requesting, now);
        Ok(())
    }

    fn take_ack(&mut self, message: &Received<'_>) -> Result<(), DropReason> {
        self.check_server(message)?;
        // After the link was down, the port may be on another network: that is no extension.
        let extends = matches!(self.state, State::Renewing | State::Rebinding);
        let held = self.held.as_ref().filter(|held| extends && held.acquired);
        let extended = held.map(|held| held.lease.clone());
        let lease = self.read(message, extended.as_ref())?;
        let asked = match (self.state, &self.held, self.offer) {
            (State::Requesting, _, Some((address, _))) => Some(address),
            (_, Some(held), _) => Some(held.lease.address),
            _ => self.config.remembered,
        };
        // An address that the client did not ask for was not checked for conflicts.
        if asked != Some(lease.address) {
            return Err(self.refuse(Refusal::OtherAddress(lease.address)));
        }
        self.hold(lease);
        Ok(())
    }

    fn read(
        &mut self,
        message: &Received<'_>,
        extended: Option<&Lease>,
    ) -> Result<Lease, DropReason> {
        let lease = lease::read(message, &self.config, extended, &mut self.budget);
        lease.map_err(|why| self.refuse(why))
    }

    /// Remember why an answer is of no use, for the caller.
    fn refuse(&mut self, why: Refusal) -> DropReason {
        let reason = why.drop_reason();
        self.refusal = Some(why);
        self.is_news = true;
        reason
    }

    /// Keep a lease, whose times count from the first request that it may answer.
    fn hold(&mut self, lease: Lease) {
        let acquired = self.held.as_ref().is_some_and(|held| held.acquired);
        // RFC 2131 4.4.1-g: from when the request was sent. A retransmitted request has the
        // transaction id of the first, so time counts from the first: a renewal that is too early
        // does no harm.
        let from = self.exchange.first_at;
        let infinite = lease.valid.is_none();
        let at = |span: Duration| if infinite { Instant::NEVER } else { from + span };
        // RFC 2131 4.4.5-a: some randomness, towards the earlier.
        let renew = lease.renew.saturating_sub(self.random.span(lease.renew.div(32)));
        let gap = lease.rebind.saturating_sub(lease.renew);
        let rebind = lease.rebind.saturating_sub(self.random.span(gap.div(32)));
        let (renew_at, rebind_at) = (at(renew), at(rebind));
        let expires_at = lease.valid.map_or(Instant::NEVER, at);
        let (address, announced) = (lease.address, Box::new(lease.clone()));
        self.held = Some(Held { lease, acquired, renew_at, rebind_at, expires_at });
        self.offer = None;
        (self.refusal, self.is_news) = (None, false);
        if acquired {
            self.failures = 0;
            self.state = State::Bound;
            self.actions.push_back(Action::Renewed(announced));
        } else {
            self.state = State::Probing;
            self.actions.push_back(Action::Probe(address));
        }
    }

    fn take_nak(&mut self, now: Instant, message: &Received<'_>) -> Result<(), DropReason> {
        let server = self.check_server(message)?;
        let text = message.options.value(code::MESSAGE).unwrap_or_default();
        self.refuse(Refusal::nak(server, &text));
        if let Some(held) = self.held.take() {
            self.lose(&held, LossReason::Refused);
        }
        // RFC 2131 3.1-f. Servers that offer and refuse in turn are asked ever more slowly.
        self.config.remembered = None;
        self.restart(now);
        self.failures = self.failures.saturating_add(1);
        Ok(())
    }

    /// RFC 2131 3.1-c: once a server is chosen, others are not listened to.
    fn check_server(&mut self, message: &Received<'_>) -> Result<Ipv4Addr, DropReason> {
        let server = lease::server(message).map_err(|why| self.refuse(why))?;
        let chosen = match (self.state, &self.held, self.offer) {
            (State::Requesting, _, Some((_, server))) => Some(server),
            (State::Renewing, Some(held), _) => Some(held.lease.server),
            _ => None,
        };
        match chosen.is_none_or(|chosen| chosen == server) {
            true => Ok(server),
            false => Err(DropReason::DhcpOtherServer),
        }
    }
}
