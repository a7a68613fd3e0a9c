//! Chooses the dissector for an IP protocol number.
//!
//! Called by: `ip`, `ip6`.

use super::carrier::Carrier;
use super::{ah, gre, icmp, icmp6, igmp, ip, ip6, redundancy, routing};
use crate::data::{Data, Done};
use crate::link;
use crate::names::IP_PROTOCOLS;
use crate::print::{Printer, put};
use crate::text::name;
use crate::transport;

pub(crate) fn print(p: &mut Printer, protocol: u8, data: Data<'_>, ip_: &Carrier) -> Done {
    let is_v6 = ip_.is_v6();
    match protocol {
        1 if is_v6 => other_version(p, protocol, "IPv4"),
        1 => icmp::print(p, data, ip_),
        58 if !is_v6 => other_version(p, protocol, "IPv6"),
        58 => icmp6::print(p, data, ip_),
        2 if is_v6 => other_version(p, protocol, "IPv4"),
        2 => igmp::print(p, data),
        4 => ip(p, data),
        6 => transport::tcp(p, data, ip_),
        17 => transport::udp(p, data, ip_),
        33 => transport::dccp(p, data, ip_),
        41 => ip6(p, data),
        46 => routing::rsvp(p, data),
        47 => gre::print(p, data),
        50 => esp(p, data),
        51 => {
            if data.here() < 1 {
                p.protocol = "ah";
                p.cut();
                return Ok(());
            }
            let next = data.u8(0)?;
            let len = ah::print(p, data)?;
            p.deeper(|p| print(p, next, data.skip(len), ip_))
        }
        59 => {
            p.out.push_str("no next header");
            Ok(())
        }
        88 => routing::eigrp(p, data),
        89 if is_v6 => routing::ospf_6(p, data),
        89 => routing::ospf(p, data),
        103 => routing::pim(p, data),
        108 => compressed(p, data),
        112 => redundancy::vrrp(p, data, ip_),
        132 => transport::sctp(p, data, ip_),
        143 if !is_v6 => other_version(p, protocol, "IPv6"),
        143 => link::ethernet(p, data).map(drop),
        77 => {
            put!(p, " nd {}", data.len);
            Ok(())
        }
        _ => {
            put!(p, " ip-proto-{protocol} {}", data.len);
            Ok(())
        }
    }
}

/// Print ESP (RFC 4303), whose content is encrypted.
pub(crate) fn esp(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "esp";
    if data.here() <= 8 {
        p.cut();
        return Ok(());
    }
    put!(p, "ESP(spi=0x{:08x},seq=0x{:x}), length {}", data.u32(0)?, data.u32(4)?, data.len);
    Ok(())
}

/// Print IPComp (RFC 3173).
fn compressed(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ipcomp";
    put!(p, "IPComp(cpi=0x{:04x})", data.u16(2)?);
    Ok(())
}

/// Print that a protocol belongs to the other IP version.
fn other_version(p: &mut Printer, protocol: u8, version: &str) -> Done {
    put!(p, "[{} requires {version}]", name(IP_PROTOCOLS, protocol, "unknown"));
    p.invalid();
    Ok(())
}
