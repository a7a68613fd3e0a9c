//! VRRP, versions 2 and 3 (RFC 3768, 5798), and HSRP (RFC 2281): messages by which several routers
//! keep one gateway address reachable.
//!
//! Called by: `demux`; `app` for HSRP, which is carried in UDP.

use wire::checksum::Sum;

use super::carrier::{Carrier, Checksum};
use crate::data::{Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, duration, name};

const PROTOCOL: u8 = 112;
const CHECKSUM_AT: usize = 6;

const AUTHENTICATION: Names = &[(0, "none"), (1, "simple"), (2, "ah")];

const OPERATIONS: Names = &[(0, "hello"), (1, "coup"), (2, "resign")];

const STATES: Names =
    &[(0, "initial"), (1, "learn"), (2, "listen"), (4, "speak"), (8, "standby"), (16, "active")];

pub(super) fn vrrp(p: &mut Printer, data: Data<'_>, carrier: &Carrier) -> Done {
    p.protocol = "vrrp";
    p.out.push_str("VRRP");
    let first = data.u8(0)?;
    let (version, kind) = (first >> 4, first & 15);
    put!(p, "v{version}, ");
    match kind {
        1 => p.out.push_str("Advertisement"),
        kind => put!(p, "unknown type ({kind})"),
    }
    if carrier.hops != 255 {
        put!(p, ", (ttl {})", carrier.hops);
    }
    if !matches!(version, 2 | 3) || kind != 1 {
        return Ok(());
    }
    put!(p, ", vrid {}, prio {}", data.u8(1)?, data.u8(2)?);
    let authentication = if version == 2 { data.u8(4)? } else { 0 };
    if version == 2 {
        put!(p, ", authtype {}", name(AUTHENTICATION, authentication, "#{}"));
        put!(p, ", intvl {}s, length {}", data.u8(5)?, data.len);
    } else {
        put!(p, ", intvl {}cs, length {}", data.u16(4)? & 0x0fff, data.len);
    }
    if !p.is_verbose() {
        return Ok(());
    }
    let sum = match (version, data.get(0, data.len)) {
        (2, Ok(whole)) => Checksum::of(whole, CHECKSUM_AT, Sum::ZERO),
        (_, Ok(_)) => carrier.checksum(PROTOCOL, data, CHECKSUM_AT),
        (_, Err(_)) => None,
    };
    if let Some(sum) = sum.filter(|sum| !sum.is_right) {
        put!(p, ", (bad vrrp cksum {:x})", sum.has);
    }
    let count = usize::from(data.u8(3)?);
    p.out.push_str(", addrs");
    if count > 1 {
        put!(p, "({count})");
    }
    p.out.push(':');
    let len = if carrier.is_v6() { 16 } else { 4 };
    for number in 0..count {
        let (at, before) = (8 + number * len, if number == 0 { ' ' } else { ',' });
        match len {
            4 => put!(p, "{before}{}", data.v4(at)?),
            _ => put!(p, "{before}{}", data.v6(at)?),
        }
    }
    if version == 2 && authentication == 1 {
        p.out.push_str(" auth \"");
        p.chars_padded(data.get(8 + count * len, 8)?);
        p.out.push('"');
    }
    Ok(())
}

pub(crate) fn hsrp(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "hsrp";
    let version = data.u8(0)?;
    put!(p, "HSRPv{version}");
    if version != 0 {
        return Ok(());
    }
    put!(p, "-{} {}: ", name(OPERATIONS, data.u8(1)?, "unknown ({})"), data.len);
    put!(p, "state={} ", name(STATES, data.u8(2)?, "Unknown ({})"));
    put!(p, "group={} ", data.u8(6)?);
    if data.u8(7)? != 0 {
        put!(p, "[reserved={}!] ", data.u8(7)?);
    }
    put!(p, "addr={}", data.v4(16)?);
    if p.is_verbose() {
        let (hello, hold) = (duration(data.u8(3)?.into()), duration(data.u8(4)?.into()));
        put!(p, " hellotime={hello} holdtime={hold} priority={} auth=\"", data.u8(5)?);
        p.chars_padded(data.get(8, 8)?);
        p.out.push('"');
    }
    Ok(())
}
