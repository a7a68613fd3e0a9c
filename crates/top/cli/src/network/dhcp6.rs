//! DHCPv6 beside `--addr auto`: an address, or options alone, as the flags of routers say.
//!
//! Called by: `auto.rs` at the start, `leases.rs` afterwards. What changes after
//! the start is said on standard error. RFC 4861 section 4.2 (the flags M and O), RFC 8415.

use core::net::Ipv6Addr;

use wirespeed::net::dhcp6::{Change, Dhcp6Port, Lease, Mode};
use wirespeed::net::managed::Managed;
use wirespeed::{Instant, MacAddr, PortId, Stack};

use super::obtained;
use crate::output;

/// The DHCPv6 client of the port, and what is said of it.
pub(super) struct Dhcp6 {
    client: Managed,
    /// The address that was said.
    said: Option<Ipv6Addr>,
    /// Addresses in a row that other hosts turned out to have.
    pub(super) declined: u32,
    /// The start is over: changes are said.
    pub(super) says_changes: bool,
}

impl Dhcp6 {
    pub(super) fn new(stack: &Stack, port: PortId, mac: MacAddr) -> Dhcp6 {
        let client = Managed::new(stack, port, mac);
        Dhcp6 { client, said: None, declined: 0, says_changes: false }
    }

    /// What is asked for; `None`: routers have not said that there are servers.
    pub(super) fn mode(&self) -> Option<Mode> {
        self.client.mode()
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        self.client.lease()
    }

    /// Is there nothing to wait for?
    pub(super) fn is_done(&self) -> bool {
        self.client.is_complete()
    }

    /// Messages of servers that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.client.client().map_or(0, |client| client.client().drops().total())
    }

    /// Do what routers say; read answers, send what is due.
    pub(super) fn turn(&mut self, stack: &mut Stack, now: Instant) {
        // At the start the flags are read at each turn: the tool waits for the address.
        let followed = if self.says_changes { Ok(()) } else { self.client.follow(stack, now) };
        let mut next = followed.and_then(|()| self.client.poll(stack, now));
        while let Ok(Some(change)) = next {
            self.take(change);
            next = self.client.poll(stack, now);
        }
        if let Err(why) = next {
            output::err(&format!("warning: no DHCPv6: {why}"));
        }
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Configured(lease) => {
                let is_new = self.said != Some(lease.address);
                if is_new && self.says_changes {
                    let what = format!("address: {}", text(&lease));
                    output::err(&obtained::line(&what, &[], &[] as &[u8]));
                }
                (self.said, self.declined) = (Some(lease.address), 0);
            }
            Change::Informed(_) => {}
            Change::Lost(address, why) => {
                self.said = None;
                obtained::lost(address, "DHCPv6", why);
            }
            Change::NotAdded(address, why) => obtained::not_added(address, "DHCPv6", why),
            Change::Declined(address) => {
                self.declined += 1;
                obtained::declined(address, "DHCPv6", "");
            }
        }
    }

    /// When to turn next if nothing is received.
    pub(super) fn deadline(&self) -> Instant {
        self.client.deadline()
    }

    /// The name servers that a server told us of.
    pub(super) fn dns_servers(&self) -> impl Iterator<Item = Ipv6Addr> {
        let told = self.client.information().into_iter();
        told.flat_map(|told| told.dns_servers.iter().copied())
    }

    /// The client that gives the address back; `None` if none runs.
    pub(super) fn into_client(self) -> Option<Dhcp6Port> {
        self.client.into_client()
    }

    /// The domains in which names are searched.
    pub(super) fn dns_search(&self) -> &[String] {
        self.client.information().map_or(&[], |told| &told.search)
    }
}

/// A lease as the user reads it.
pub(super) fn text(lease: &Lease) -> String {
    format!("{}/128 {} (dhcp)", lease.address, obtained::time(lease.valid))
}
