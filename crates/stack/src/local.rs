//! A port's addresses, as packets ask for them: each version by itself, IPv4 in words.
//!
//! Called by: `rx.rs` for each datagram and each segment of no connection, so that it is short. RFC
//! 1122 section 3.2.1.3.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Cidr, DropReason};
use inet::Ip;
use inet::flow::Addrs;
use inet::ip_input::is_martian_source;
use mbuf::Mbuf;
use tcp::Fate;

use crate::Stack;

/// What of a port's addresses a packet's own are compared with.
pub(crate) struct LocalAddrs {
    v4: Vec<LocalV4>,
    v6: Vec<Ipv6Addr>,
}

struct LocalV4 {
    addr: u32,
    /// The bits of the host part; none where a network has no broadcast address (31 and 32).
    host: u32,
}

impl LocalV4 {
    fn new(addr: Ipv4Addr, prefix_len: u8) -> LocalV4 {
        let host = u32::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0);
        LocalV4 { addr: addr.to_bits(), host: if host > 1 { host } else { 0 } }
    }

    /// A directed broadcast: the host part all ones, or all zeros as 4.2BSD had it.
    #[inline(always)]
    fn is_broadcast(&self, addr: u32) -> bool {
        let host = addr & self.host;
        // Nearly no address has such a host part: that comes first.
        (host == 0 || host == self.host) && self.host != 0 && (self.addr ^ addr) & !self.host == 0
    }
}

impl LocalAddrs {
    pub(crate) fn new(addresses: impl Iterator<Item = Cidr>) -> LocalAddrs {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for cidr in addresses {
            match cidr.addr {
                IpAddr::V4(addr) => v4.push(LocalV4::new(addr, cidr.prefix_len)),
                IpAddr::V6(addr) => v6.push(addr),
            }
        }
        LocalAddrs { v4, v6 }
    }

    /// Is this one of our addresses here?
    #[inline]
    pub(crate) fn is_ours(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(a) => self.v4.iter().any(|own| own.addr == a.to_bits()),
            IpAddr::V6(a) => self.v6.contains(&a),
        }
    }

    /// Can this be the address of another host? Not multicast, broadcast or our own: an answer
    /// would come back to us, or go to all hosts.
    #[inline]
    pub(crate) fn may_send(&self, addr: IpAddr) -> bool {
        !is_martian_source(addr) && !self.is_group(addr) && !self.is_ours(addr)
    }

    /// Is this a broadcast address here, in either form, or a group?
    #[inline]
    pub(crate) fn is_group(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(a) => {
                let bits = a.to_bits();
                a.is_broadcast()
                    || a.is_multicast()
                    || self.v4.iter().any(|own| own.is_broadcast(bits))
            }
            IpAddr::V6(a) => a.is_multicast(),
        }
    }
}

/// Is a packet addressed to this host, by an address that a host can have?
/// RFC 9293 MUST-63.
pub(crate) fn for_us<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    match stack.ports.get(m.in_port()) {
        Some(port) if !port.local.may_send(ip.src()) => Err(DropReason::IpMartianSource),
        Some(port) if port.local.is_ours(ip.dst()) => Ok(()),
        _ => Err(DropReason::IpNotForUs),
    }
}

/// As [`for_us`], or addressed to a group or to all on a link: RFC 1122 section 4.1.3.6.
pub(crate) fn for_us_or_group<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::IpNotForUs)?;
    if port.local.is_ours(ip.dst()) {
        return if port.local.may_send(ip.src()) {
            Ok(())
        } else {
            Err(DropReason::IpMartianSource)
        };
    }
    match port.local.is_group(ip.dst()) {
        true if is_martian_source(ip.src()) => Err(DropReason::IpMartianSource),
        true => Ok(()),
        false => for_us(stack, ip, m),
    }
}

/// Is a packet from and to addresses that a host can have, ours or not?
pub(crate) fn for_any_host<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    match stack.ports.get(m.in_port()) {
        Some(port) if !port.local.may_send(ip.src()) => Err(DropReason::IpMartianSource),
        Some(port) if port.local.is_group(ip.dst()) => Err(DropReason::TcpGroupAddress),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(addresses: &[&str]) -> LocalAddrs {
        let parsed: Vec<Cidr> = addresses.iter().map(|a| a.parse().expect("a network")).collect();
        LocalAddrs::new(parsed.into_iter())
    }

    fn ip(addr: &str) -> IpAddr {
        addr.parse().expect("an address")
    }

    #[test]
    fn broadcasts_are_those_of_networks_that_have_one() {
        let ours = of(&["fe80::1/64", "192.0.2.130/25"]);
        for (addr, expected) in [
            ("192.0.2.255", true),
            ("192.0.2.128", true),
            ("192.0.2.130", false),
            ("192.0.2.0", false),
            ("192.0.2.127", false),
            ("255.255.255.255", true),
            ("224.0.0.1", true),
            ("ff02::1", true),
            ("fe80::1", false),
        ] {
            assert_eq!(ours.is_group(ip(addr)), expected, "{addr}");
        }
        for narrow in ["192.0.2.130/31", "192.0.2.130/32"] {
            for addr in ["192.0.2.130", "192.0.2.131", "0.0.0.0", "192.0.2.255"] {
                assert!(!of(&[narrow]).is_group(ip(addr)), "{addr} in {narrow}");
            }
        }
        let all = of(&["1.2.3.4/0"]);
        assert!(all.is_group(ip("0.0.0.0")) && !all.is_group(ip("9.9.9.9")));
    }

    /// RFC 4291 2.5.2-a, 2.5.3-a, 2.7-a.
    #[test]
    fn a_sender_is_another_host() {
        let ours = of(&["192.0.2.130/25", "192.0.2.1/32", "2001:db8::1/64"]);
        for us in ["192.0.2.130", "192.0.2.1", "2001:db8::1"] {
            assert!(ours.is_ours(ip(us)) && !ours.may_send(ip(us)), "{us}");
        }
        for other in ["192.0.2.131", "192.0.2.2", "9.9.9.9", "2001:db8::2", "fe80::1"] {
            assert!(!ours.is_ours(ip(other)) && ours.may_send(ip(other)), "{other}");
        }
        for nobody in ["192.0.2.255", "224.0.0.1", "127.0.0.1", "0.0.0.0", "240.0.0.1", "::", "::1"]
        {
            assert!(!ours.may_send(ip(nobody)), "{nobody}");
        }
    }
}
