//! What observers see of a gateway: its flows and sessions one by one, reports of those that have
//! ended, and its counts by name.
//!
//! Called by: programs that show, dump, log and explain. Nothing here changes what a gateway does.

use std::collections::BTreeSet;

use base::{Drops, Duration, Instant};
use stack::TcpHandle;

use crate::counts::Counts;
use crate::datagrams::SessionKey;
use crate::flow::{Flow, Leg, State, bit, second};
use crate::gateway::Gateway;
use crate::outside::Ends;
use crate::report::{End, Protocol, Report};

/// A TCP flow, as [`Gateway::flows`] shows it.
#[derive(Clone, Copy, Debug)]
pub struct FlowRow<'a, T> {
    /// Its ends, as the guest sees them.
    pub ends: Ends,
    /// Its state.
    pub state: State,
    /// It came from outside, to a published port.
    pub is_inbound: bool,
    /// Bytes from the guest that the outside took.
    pub bytes_up: u64,
    /// Bytes from outside that were written to the guest.
    pub bytes_down: u64,
    /// When it began.
    pub since: Instant,
    /// How long no byte has moved, in whole seconds.
    pub idle: Duration,
    /// The guest's connection on the stack, if it has one yet.
    pub handle: Option<TcpHandle>,
    /// The connection of the outside, if it has one yet.
    pub outer: Option<&'a T>,
}

/// A session of datagrams or echoes, as [`Gateway::sessions`] shows it.
#[derive(Clone, Copy, Debug)]
pub struct SessionRow<'a, S> {
    /// The guest's address and port, or identifier.
    pub key: SessionKey,
    /// How many destinations it may hear from.
    pub peers: usize,
    /// Bytes of payload from the guest.
    pub bytes_up: u64,
    /// Bytes of payload to the guest.
    pub bytes_down: u64,
    /// When it began.
    pub since: Instant,
    /// How long the guest has sent nothing.
    pub idle: Duration,
    /// Its socket.
    pub socket: &'a S,
}

fn row<T>(flow: &Flow<T>, now: Instant) -> FlowRow<'_, T> {
    let idle_s = second(now).saturating_sub(flow.active_s);
    FlowRow {
        ends: flow.ends,
        state: flow.state,
        is_inbound: flow.has(bit::INBOUND),
        bytes_up: flow.bytes_up,
        bytes_down: flow.bytes_down,
        since: flow.since,
        idle: Duration::from_secs(u64::from(idle_s)),
        handle: if let Leg::Tcp(handle) = flow.guest { Some(handle) } else { None },
        outer: flow.outer.as_ref(),
    }
}

impl<T, S> Gateway<T, S> {
    /// Every TCP flow, in no order. `now` is the time by the stack's clock.
    pub fn flows(&self, now: Instant) -> impl Iterator<Item = FlowRow<'_, T>> {
        self.flows.values().map(move |flow| row(flow, now))
    }

    /// Every session of datagrams and echoes, in no order.
    pub fn sessions(&self, now: Instant) -> impl Iterator<Item = SessionRow<'_, S>> {
        self.sessions.slots.iter().map(move |(id, session)| SessionRow {
            key: session.key,
            peers: session.peers.len() + self.sessions.clients.count(id),
            bytes_up: session.bytes.0,
            bytes_down: session.bytes.1,
            since: session.since,
            idle: now.since(session.last),
            socket: &session.socket,
        })
    }

    /// Every flow, what sessions exchange with each peer included: those whose end is still to be
    /// reported.
    pub fn unreported(&self) -> BTreeSet<(Protocol, Ends)> {
        let flows = self.flows.values().map(|flow| (Protocol::Tcp, flow.ends));
        let sessions = self.sessions.slots.values();
        let peers = sessions.flat_map(|s| s.peers.iter().map(|(remote, _)| s.ends(remote)));
        let clients = self.sessions.clients.iter().map(|(ends, _)| (Protocol::Udp, ends));
        let waiting = self.reports.waiting().map(|report| (report.protocol, report.ends));
        let proxied = self.proxies.flows();
        let proxied = proxied.map(|report| (report.protocol, report.ends));
        flows.chain(peers).chain(clients).chain(proxied).chain(waiting).collect()
    }

    /// The next report, oldest first. 8,192 wait at most; [`Gateway::lost_reports`] counts the
    /// others.
    pub fn next_report(&mut self) -> Option<Report> {
        self.reports.pop()
    }

    /// Report everything that has not ended as [`End::ShutDown`], and leave it as it is: for an
    /// owner that ends without [`Gateway::shut_down`], so that the host's sockets send what they
    /// have.
    pub fn report_rest(&mut self) {
        let end = End::ShutDown;
        for flow in self.flows.values() {
            let &Flow { ends, since, bytes_up, bytes_down, .. } = flow;
            let protocol = Protocol::Tcp;
            self.reports.push(Report { protocol, ends, end, since, bytes_up, bytes_down });
        }
        for session in self.sessions.slots.values() {
            for (remote, peer) in session.peers.iter() {
                let ((protocol, ends), since) = (session.ends(remote), peer.since);
                let (bytes_up, bytes_down) = peer.bytes;
                self.reports.push(Report { protocol, ends, end, since, bytes_up, bytes_down });
            }
        }
        let proxied: Vec<Report> = self.proxies.flows().collect();
        proxied.into_iter().for_each(|report| self.reports.push(report));
        for (ends, client) in self.sessions.clients.iter() {
            let (protocol, since) = (Protocol::Udp, client.since);
            let (bytes_up, bytes_down) = client.bytes;
            self.reports.push(Report { protocol, ends, end, since, bytes_up, bytes_down });
        }
    }

    /// Reports for which there was no room.
    pub fn lost_reports(&self) -> u64 {
        self.reports.lost()
    }

    /// How many there are of each thing now, and how often each event happened, by name; with a
    /// resolver its events as well. The hits of limits are in [`Gateway::budget`].
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let ((sessions, echoes), names) = (self.session_counts(), self.name_sizes());
        let now = [
            ("flows_now", self.flow_count()),
            ("pending_now", self.pending_count()),
            ("clients_now", self.client_count()),
            ("sessions_now", sessions),
            ("echoes_now", echoes),
            ("dns_in_flight_now", names.0),
            ("dns_sockets_now", names.1),
            ("dns_connections_now", names.2),
        ];
        let now = now.into_iter().map(|(name, count)| (name, count as u64));
        let resolver = self.name_counts().map(|counts| {
            [
                ("dns_questions", counts.questions),
                ("dns_from_hosts", counts.from_hosts),
                ("dns_refused", counts.refused),
                ("dns_sent", counts.sent),
                ("dns_answers", counts.answers),
                ("dns_failures", counts.failures),
                ("dns_full", counts.full),
                ("dns_timeouts", counts.timeouts),
            ]
        });
        let lost = [("reports_lost", self.lost_reports())];
        now.chain(self.counts.rows()).chain(resolver.into_iter().flatten()).chain(lost)
    }

    /// What the names of [`Gateway::rows`] mean, in their order.
    pub fn meanings() -> impl Iterator<Item = (&'static str, &'static str)> {
        let now = [
            ("flows_now", "TCP flows that there are now."),
            ("pending_now", "TCP flows that are not open yet."),
            ("clients_now", "Clients of the proxy that have not said what they want."),
            ("sessions_now", "Sessions of datagrams that there are now."),
            ("echoes_now", "Sessions of echo requests that there are now."),
            ("dns_in_flight_now", "Questions whose answer is awaited."),
            ("dns_sockets_now", "Sockets towards name servers."),
            ("dns_connections_now", "Connections over which guests ask for names."),
        ];
        let resolver = [
            ("dns_questions", "Questions of guests for names."),
            ("dns_from_hosts", "Questions that the hosts table answered."),
            ("dns_refused", "Questions and answers that the policy refused."),
            ("dns_sent", "Questions sent to name servers."),
            ("dns_answers", "Answers passed to guests."),
            ("dns_failures", "Questions that no server answered with more than a failure."),
            ("dns_full", "Questions beyond the limit `dns_in_flight`."),
            ("dns_timeouts", "Questions that no server answered in time."),
        ];
        let lost = [("reports_lost", "Ends of flows that the log has not heard of.")];
        let counted = Counts::MEANINGS.iter().map(|&(name, meaning)| (name, meaning.trim()));
        now.into_iter().chain(counted).chain(resolver).chain(lost)
    }

    /// Messages that the resolver has dropped, by reason; nothing without a resolver.
    pub fn name_drops(&self) -> Option<&Drops> {
        self.names.as_ref().map(|names| names.drops())
    }
}
