//! Checks IPv6 redirects, as far as that needs neither the first hop nor the routes.
//!
//! Called by: `stack/autoconf/nd_redirect.rs`, which knows the current first hop and the routes.
//! RFC 4861 sections 8.1 and 8.3.

use core::net::Ipv6Addr;

use base::{DropReason, Duration};
use wire::nd::Redirect;

/// How long a redirect is followed. Then packets go to the router again, which may repeat the
/// redirect. RFC 4861 names no time; Linux and BSD forget redirects after about ten minutes.
pub const LIFE: Duration = Duration::from_secs(600);

/// Check a redirect whose ICMPv6 checksum is correct, and which came from `src` with `hop_limit`.
///
/// # Errors
/// [`DropReason::IcmpMalformed`] if the message is malformed, [`DropReason::RedirectRefused`] for
/// redirects that RFC 4861 section 8.1 discards: those that do not come from a link-local address
/// on this link, those about a multicast group, and those whose target is neither the destination
/// nor a router's link-local address.
/// RFC 4861 8.1-a.
pub fn redirect_input(
    message: &[u8],
    src: Ipv6Addr,
    hop_limit: u8,
) -> Result<Redirect, DropReason> {
    let redirect = Redirect::parse(message)?;
    let Redirect { target, destination, .. } = redirect;
    let from_link = hop_limit == 255 && src.is_unicast_link_local();
    let is_host = !destination.is_multicast()
        && !destination.is_unspecified()
        && !destination.is_loopback()
        && !destination.is_unicast_link_local();
    let is_next_hop = target == destination || target.is_unicast_link_local();
    let no_group = !redirect.link_addr.is_some_and(|mac| mac.is_group());
    match from_link && is_host && is_next_hop && no_group && target != src {
        true => Ok(redirect),
        false => Err(DropReason::RedirectRefused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().expect("an address")
    }

    fn message(target: &str, destination: &str) -> Vec<u8> {
        let mut message = vec![137, 0, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(&ip(target).octets());
        message.extend_from_slice(&ip(destination).octets());
        message
    }

    /// RFC 4861 8.1-a.
    #[test]
    fn what_a_router_may_say() {
        let ok = |target, destination, src, hop_limit| {
            redirect_input(&message(target, destination), ip(src), hop_limit).is_ok()
        };
        assert!(ok("fe80::2", "2001:db8::9", "fe80::1", 255));
        assert!(ok("2001:db8::9", "2001:db8::9", "fe80::1", 255), "the target is on the link");
        assert!(!ok("fe80::2", "2001:db8::9", "fe80::1", 254));
        assert!(!ok("fe80::2", "2001:db8::9", "2001:db8::1", 255));
        assert!(!ok("fe80::2", "ff0e::9", "fe80::1", 255));
        assert!(!ok("2001:db8::2", "2001:db8::9", "fe80::1", 255), "no link-local router");
        assert!(!ok("fe80::1", "2001:db8::9", "fe80::1", 255), "the router redirects to itself");
        assert!(redirect_input(&message("::", "::")[..39], ip("fe80::1"), 255).is_err());
    }
}
