//! From a request to a connection: the addresses of its target are tried one after the other, each
//! by the policy's leave.
//!
//! Called by: `greet.rs`. RFC 8305: an address that does not answer soon makes way for the next.

use core::net::{IpAddr, SocketAddr};

use base::{Duration, Instant, Limit};
use stack::Unreachable;

use super::client::{Attempt, Client, Next, Side, State};
use super::ids::ClientId;
use super::lookup::Lookup;
use super::protocol::No;
use crate::around::Around;
use crate::gateway::Gateway;
use crate::outside::{Ends, Failure, Outcome, Outside};
use crate::policy::{Policy, Verdict};
use crate::report::End;

/// How long an address may take while there is another one, and the last one: Linux gives up after
/// 127 s.
const SOON: Duration = Duration::from_secs(3);
const LAST: Duration = Duration::from_secs(130);
/// How long a question may wait for its answer.
const ASK_WAIT: Duration = Duration::from_secs(55);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;

impl<T, S> Gateway<T, S> {
    /// A name is looked up.
    pub(super) fn resolving<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        (lookup, port): (Lookup, u16),
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        if lookup.waits > 0 && !client.is_late {
            return match client.near.is_lost(around.outside) {
                true => Next::Over(State::Resolving(lookup, port), End::ResetByGuest),
                false => Next::Waits(State::Resolving(lookup, port)),
            };
        }
        if lookup.waits > 0 {
            self.forget_lookups(id);
        }
        let of = |ip: IpAddr| SocketAddr::new(ip, port);
        let all: Vec<SocketAddr> =
            lookup.addresses().into_iter().take(ADDRESSES_MAX).map(of).collect();
        match all.is_empty() {
            true => {
                let why = if lookup.is_refused { No::Rules } else { No::Name };
                self.refuse_client(id, client, why, around.now)
            }
            false => self.attempt(id, client, all, around),
        }
    }

    /// Begin to connect to the first of these addresses that can be tried.
    pub(super) fn attempt<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        addresses: Vec<SocketAddr>,
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        let attempt = Attempt {
            left: addresses.into(),
            ends: Ends { guest: client.from, remote: nobody },
            since: around.now,
            bytes_up: 0,
            bytes_down: 0,
            wants_hello: false,
            no: No::Name,
        };
        self.try_next(id, client, attempt, around)
    }

    fn try_next<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        mut attempt: Attempt,
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        client.is_late = false;
        while let Some(to) = attempt.left.pop_front() {
            attempt.ends.remote = to;
            attempt.since = around.now;
            let verdict = around.policy.tcp(&attempt.ends);
            match self.carry_out_for(id, client, &mut attempt, verdict, around) {
                Some(Begun::Asks) => {
                    self.proxies.set_deadline(id, client, around.now + ASK_WAIT);
                    return Next::Waits(State::Asking(attempt));
                }
                Some(Begun::Connects(far)) => return Next::Waits(State::Connecting(attempt, far)),
                None => {}
            }
        }
        self.refuse_client(id, client, attempt.no, around.now)
    }

    /// Do what the policy says about an address; `None` if it is not to be reached.
    fn carry_out_for<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        attempt: &mut Attempt,
        verdict: Verdict,
        around: &mut Around<'_, O, P>,
    ) -> Option<Begun<T>> {
        let to = match verdict {
            Verdict::Allow => attempt.ends.remote,
            Verdict::To(to) => to,
            Verdict::Ask => return Some(Begun::Asks),
            Verdict::Reset | Verdict::Drop => return self.refused(attempt, No::Rules),
            Verdict::Unreachable(why @ Unreachable::Prohibited) => {
                return self.refused(attempt, No::Failed(Failure::Unreachable(why)));
            }
            Verdict::Unreachable(_) => return self.refused(attempt, No::Rules),
        };
        let limit = Limit::GatewayConnectsPerSecond;
        if !self.bucket.admits(limit, around.now, &mut self.config.budget) {
            self.counts.unanswered += 1;
            self.reports.push(attempt.report(End::Unanswered));
            attempt.no = No::Full;
            return None;
        }
        let leg = self.proxies.leg(id);
        match around.outside.tcp_connect(leg.token(), &attempt.ends, to) {
            Ok(tcp) => {
                let wait = if attempt.left.is_empty() { LAST } else { SOON };
                self.proxies.set_deadline(id, client, around.now + wait);
                Some(Begun::Connects(Side::new(tcp, leg)))
            }
            Err(why) => {
                self.proxies.legs.remove(leg);
                self.failed(attempt, why);
                None
            }
        }
    }

    fn refused(&mut self, attempt: &mut Attempt, no: No) -> Option<Begun<T>> {
        self.counts.refused_by_policy += 1;
        self.reports.push(attempt.report(End::Refused));
        attempt.no = no;
        None
    }

    fn failed(&mut self, attempt: &mut Attempt, why: Failure) {
        let counter = match why {
            Failure::Refused | Failure::Reset => &mut self.counts.refused,
            Failure::Unreachable(_) => &mut self.counts.unreachable,
            Failure::TimedOut => &mut self.counts.timed_out,
            Failure::Full => &mut self.counts.outside_full,
        };
        *counter += 1;
        self.reports.push(attempt.report(End::NotConnected(why)));
        attempt.no = why.into();
    }

    /// Somebody is asked about a flow.
    pub(super) fn asking<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        mut attempt: Attempt,
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        let verdict = match (client.verdict.take(), client.is_late) {
            (Some(verdict), _) => verdict,
            // Nobody's answer is no.
            (None, true) => Verdict::Reset,
            (None, false) if client.near.is_lost(around.outside) => {
                return Next::Over(State::Asking(attempt), End::ResetByGuest);
            }
            (None, false) => return Next::Waits(State::Asking(attempt)),
        };
        match self.carry_out_for(id, client, &mut attempt, verdict, around) {
            Some(Begun::Asks) => Next::Waits(State::Asking(attempt)),
            Some(Begun::Connects(far)) => Next::Waits(State::Connecting(attempt, far)),
            None => self.try_next(id, client, attempt, around),
        }
    }

    /// The outside connects.
    pub(super) fn client_connecting<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        (mut attempt, mut far): (Attempt, Side<T>),
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        let is_late = core::mem::take(&mut client.is_late);
        let outcome = match core::mem::take(&mut far.has_news) {
            true => around.outside.tcp_outcome(&mut far.tcp),
            false => Ok(Outcome::Pending),
        };
        let why = match outcome {
            Ok(Outcome::Connected) => {
                self.counts.opened += 1;
                self.proxies.set_deadline(id, client, Instant::NEVER);
                attempt.wants_hello = around.policy.wants_hello(&attempt.ends);
                client.down.extend(client.speaks.yes(None));
                (far.is_readable, far.is_writable) = (true, true);
                return Next::Goes(State::Open(attempt, far));
            }
            Ok(Outcome::Pending) if is_late => Failure::TimedOut,
            Ok(Outcome::Pending) => {
                return match client.near.is_lost(around.outside) {
                    true => Next::Over(State::Connecting(attempt, far), End::ResetByGuest),
                    false => Next::Waits(State::Connecting(attempt, far)),
                };
            }
            Err(why) => why,
        };
        self.proxies.legs.remove(far.leg);
        around.outside.tcp_abort(far.tcp);
        self.failed(&mut attempt, why);
        self.try_next(id, client, attempt, around)
    }
}

/// What has begun.
enum Begun<T> {
    Asks,
    Connects(Side<T>),
}

impl<T> Side<T> {
    /// Has a client that waits gone?
    fn is_lost<O: Outside<Tcp = T>>(&mut self, outside: &mut O) -> bool {
        core::mem::take(&mut self.has_news) && outside.tcp_outcome(&mut self.tcp).is_err()
    }
}
