//! The addresses that servers gave to a port, kept while the tool runs and given back at its end.
//!
//! Called by: `network.rs` at each turn; `tasks.rs` where the stack has a driver. `dhcp` and
//! `dhcp6` say what changes.

use core::net::IpAddr;

use wirespeed::net::dhcp6::{Dhcp6Port, State};
use wirespeed::{Duration, Instant, NeighbourState, Stack};

use super::dhcp::{Dhcp, Released};
use super::dhcp6::Dhcp6;

/// The longest time that a release waits: for the server's link address if that is unknown, for the
/// answer of a DHCPv6 server.
const RELEASE: Duration = Duration::from_millis(300);

/// What servers gave, and who keeps it.
#[derive(Default)]
pub(super) struct Leases {
    /// Keeps the address of `--addr dhcp`.
    pub(super) dhcp: Option<Dhcp>,
    /// Asks DHCPv6 servers for what routers say they have, with `--addr auto`.
    pub(super) dhcp6: Option<Dhcp6>,
}

impl Leases {
    /// Read answers, send what is due; say what changes, and which routes were refused.
    pub(super) fn turn(&mut self, stack: &mut Stack, now: Instant) {
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.turn(stack, now);
        }
        if let Some(dhcp6) = &mut self.dhcp6 {
            dhcp6.turn(stack, now);
        }
        while let Some(refused) = stack.take_refused_route() {
            crate::output::err(&format!("warning: {refused}"));
        }
    }

    /// When to turn next if nothing is received.
    pub(super) fn deadline(&self) -> Instant {
        let dhcp = self.dhcp.as_ref().map_or(Instant::NEVER, Dhcp::deadline);
        self.dhcp6.as_ref().map_or(dhcp, |dhcp6| dhcp.min(dhcp6.deadline()))
    }

    /// The name servers that DHCP servers told us of, and those of DHCPv6 servers.
    pub(super) fn dns_servers(&self) -> [Vec<IpAddr>; 2] {
        let leased = self.dhcp.iter().flat_map(Dhcp::dns_servers).collect();
        let leased6 = self.dhcp6.iter().flat_map(Dhcp6::dns_servers);
        [leased, leased6.map(IpAddr::V6).collect()]
    }

    /// The domains in which names are searched.
    pub(super) fn dns_search(&self) -> impl Iterator<Item = String> {
        let leased = self.dhcp.iter().flat_map(Dhcp::dns_search);
        leased.chain(self.dhcp6.iter().flat_map(Dhcp6::dns_search)).cloned()
    }

    /// Begin to give the addresses back.
    pub(super) fn release(self, stack: &mut Stack, now: Instant) -> Release {
        let dhcp = self.dhcp.map(|dhcp| dhcp.release(stack, now));
        let mut dhcp6 = self.dhcp6.and_then(Dhcp6::into_client);
        if let Some(client) = &mut dhcp6 {
            client.release(now);
        }
        Release { dhcp, dhcp6, until: now + RELEASE }
    }
}

/// Addresses that are being given back.
pub(super) struct Release {
    dhcp: Option<Released>,
    dhcp6: Option<Dhcp6Port>,
    until: Instant,
}

impl Release {
    /// Send what is due. Do all servers know, or have they had their time?
    pub(super) fn is_done(&mut self, stack: &mut Stack, now: Instant) -> bool {
        if let Some(client) = &mut self.dhcp6 {
            // The server is told from the link-local address, the one that was given is gone.
            while client.poll(stack, now).is_some() {}
        }
        stack.flush();
        let is_sent = |released: &Released| {
            // The message waits for a server on the link whose link address is not known yet.
            let state = released.server.map(|server| stack.neighbour_state(released.port, server));
            state.is_none_or(|state| state.is_some_and(|at| at != NeighbourState::Incomplete))
        };
        let has_stopped = |client: &Dhcp6Port| client.client().state() == State::Stopped;
        let all =
            self.dhcp.as_ref().is_none_or(is_sent) && self.dhcp6.as_ref().is_none_or(has_stopped);
        all || now >= self.until
    }

    /// When to look again if nothing is received.
    pub(super) fn deadline(&self) -> Instant {
        self.dhcp6.as_ref().map_or(self.until, |client| self.until.min(client.deadline()))
    }

    /// The clients end.
    pub(super) fn close(self, stack: &mut Stack, now: Instant) {
        if let Some(client) = self.dhcp6 {
            client.close(stack);
        }
        if let Some(Released { client, .. }) = self.dhcp {
            client.stop(stack, now);
        }
        stack.flush();
    }
}
