//! The DHCP clients of ports.
//!
//! Called by: `live.rs` begins and ends them, the worker gives them their turns.

use core::net::Ipv4Addr;

use base::{Duration, Instant, KeyedHash};
use net::dhcp::{self, Change, DhcpPort};
use stack::Stack;

use super::Live;

/// Sets the DHCP client's secret apart from what else the stack's seed determines.
const PURPOSE: u64 = 68;

/// How often an answer to a DHCP client is looked for while one is expected.
const ANSWER: Duration = Duration::from_millis(50);

impl Live {
    pub(super) fn begin_dhcp(
        &mut self,
        stack: &mut Stack,
        name: &str,
        learn_routes: bool,
    ) -> Result<(), String> {
        // A client that ended and one that begins must not draw the same numbers.
        self.serial += 1;
        let [a, b] = stack.derived_secret(PURPOSE + (self.serial << 8));
        let port = self.port_mut(name)?;
        let mtu = stack.device(port.id).map_or(0, |device| device.limits().mtu.bytes());
        let mtu_max = u16::try_from(mtu).unwrap_or(u16::MAX);
        let usual = dhcp::Config::new(port.mac, KeyedHash::new(a, b));
        let config = dhcp::Config { mtu_max, learn_routes, ..usual };
        let client = DhcpPort::new(stack, port.id, config, stack.now());
        port.dhcp = Some(client.map_err(|why| why.to_string())?);
        Ok(())
    }

    /// Let the DHCP clients read and send; `say` is told what changed. Returns when to call again.
    pub fn turn_dhcp(&mut self, stack: &mut Stack, mut say: impl FnMut(&str, &Change)) -> Instant {
        let (now, mut next) = (stack.now(), Instant::NEVER);
        for (name, port) in &mut self.ports {
            let Some(client) = &mut port.dhcp else { continue };
            while let Some(change) = client.poll(stack, now) {
                say(name, &change);
            }
            // Nobody tells us of an answer: while one is expected, look for it.
            let is_asking = client.client().state() != dhcp::State::Bound;
            let soon = if is_asking { now + ANSWER } else { Instant::NEVER };
            next = next.min(client.deadline()).min(soon);
            stack.flush();
        }
        next
    }
}

/// What a DHCP client has to say, in a sentence.
pub fn news(change: &Change) -> String {
    let ip = |ip: &Ipv4Addr| ip.to_string();
    match change {
        Change::Configured(lease) => {
            format!("{}/{} by DHCP from {}", lease.address, lease.prefix_len, lease.server)
        }
        Change::Lost(address, why) => format!("{} is no longer ours ({why:?})", ip(address)),
        Change::NotAdded(address, why) => format!("{}, by DHCP, not used: {why}", ip(address)),
        Change::Declined(address) => {
            format!("{}, by DHCP, declined: another host has it", ip(address))
        }
        Change::Refused(why) => format!("an answer by DHCP was of no use: {why}"),
    }
}
