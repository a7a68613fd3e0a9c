//! Source checks: a router drops packets whose source is not behind the port that they came by
//! (ingress filtering, reverse-path check).
//!
//! Called by: `plain.rs` for packets one by one, those for the router itself included;
//! `forward/burst.rs` asks the FIB for whole bursts, and leaves packets that do not pass there to
//! this file. RFC 2827, RFC 3704. Drop reason: `ip_source_check`. docs/decisions/0109.

use core::net::IpAddr;

use inet::Vrf;
use inet::forward::{self as transit, Transit};
use inet::route::SourceCheck;
use inet::select::is_link_scoped;

use crate::handles::PortId;
use crate::stack::Stack;

/// Does a forwarded packet pass, which came by `port` and leaves by `to_port`?
#[inline]
pub(super) fn admits(stack: &Stack, port: u16, transit: &Transit, to_port: u16) -> bool {
    let check = check_of(stack, port);
    check == SourceCheck::Off
        || stack.routes.passes(check, in_vrf(stack, port), (transit.src, transit.dst), to_port)
}

/// Does a packet to `dst`, an address of ours or a group, pass?
#[inline]
pub(super) fn admits_to_host(stack: &Stack, port: u16, packet: &[u8], dst: IpAddr) -> bool {
    let check = check_of(stack, port);
    if check == SourceCheck::Off {
        return true;
    }
    let Some(src) = transit::source(packet) else { return true };
    // The host's own path has rules for these: nobody is behind the unspecified address, and a
    // link-local one is of the link that its packet came by.
    let is_own_business = match src {
        IpAddr::V4(addr) => addr.is_unspecified() || addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unspecified() || is_link_scoped(src),
    };
    is_own_business || stack.routes.passes_to_host(check, in_vrf(stack, port), (src, dst))
}

fn in_vrf(stack: &Stack, port: u16) -> (u16, Vrf) {
    (port, stack.ports.vrf(port))
}

fn check_of(stack: &Stack, port: u16) -> SourceCheck {
    stack.ports.get(port).map_or(SourceCheck::Off, |port| port.source_check)
}

impl Stack {
    /// Set the check of the sources of packets that come by a port, while packets are forwarded
    /// ([`Stack::set_forwarding`]). It is [`SourceCheck::Off`] unless it is set; `wirespeed up`
    /// sets [`SourceCheck::Strict`]. A packet that does not pass is dropped as `ip_source_check`
    /// and not reported, because its source is not where it claims to be. To be called on each
    /// shard. `false` if there is no such port.
    pub fn set_source_check(&mut self, id: PortId, check: SourceCheck) -> bool {
        let port = self.ports.get_mut(id.0);
        port.map(|port| port.source_check = check).is_some()
    }

    /// The source check of a port; `None` if there is no such port.
    pub fn source_check(&self, id: PortId) -> Option<SourceCheck> {
        self.ports.get(id.0).map(|port| port.source_check)
    }
}
