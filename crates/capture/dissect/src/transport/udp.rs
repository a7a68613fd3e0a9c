//! UDP datagrams: length, checksum, and the payload (RFC 768, 2675).
//!
//! Called by: `net::demux`. `app` prints the payload by port.

use super::ends;
use crate::app;
use crate::data::{Data, Done};
use crate::net::carrier::Carrier;
use crate::print::{Printer, put};

const PROTOCOL: u8 = 17;
const HEADER_LEN: usize = 8;
const CHECKSUM_AT: usize = 6;

pub(crate) fn print(p: &mut Printer, data: Data<'_>, carrier: &Carrier) -> Done {
    p.protocol = "udp";
    let Ok(dst_port) = data.u16(2) else {
        ends(p, carrier, PROTOCOL, None);
        p.cut();
        return Ok(());
    };
    let ports = (data.u16(0)?, dst_port);
    ends(p, carrier, PROTOCOL, Some(ports));
    if data.len < HEADER_LEN {
        put!(p, "truncated-udp {}", data.len);
        return Ok(());
    }
    let Ok(length) = data.u16(4) else {
        p.cut();
        return Ok(());
    };
    // In a jumbogram, the length field is 0.
    let is_jumbo = length == 0 && data.len > 65_535;
    let length = if is_jumbo { data.len } else { usize::from(length) };
    if length < HEADER_LEN {
        put!(p, "truncated-udplength {length}");
        return Ok(());
    }
    if data.here() < HEADER_LEN {
        p.cut();
        return Ok(());
    }
    let len = data.len.min(length) - HEADER_LEN;
    let payload = Data::new(data.skip(HEADER_LEN).bytes, len);
    if p.is_verbose() && !p.style.trusting && !carrier.is_fragment {
        checksum(p, data, len + HEADER_LEN, carrier)?;
    }
    if p.style.quiet {
        put!(p, "UDP, length {length}", length = length - HEADER_LEN);
        return Ok(());
    }
    app::over_udp(p, payload, ports, length - HEADER_LEN, carrier)
}

/// Print the state of the checksum. As in tcpdump, a single `-v` does not check it for IPv4.
fn checksum(p: &mut Printer, data: Data<'_>, len: usize, carrier: &Carrier) -> Done {
    let is_v6 = carrier.is_v6();
    if !is_v6 && p.style.verbose < 2 {
        return Ok(());
    }
    if !is_v6 && data.u16(CHECKSUM_AT)? == 0 {
        p.out.push_str("[no cksum] ");
        return Ok(());
    }
    if let Some(sum) = carrier.checksum(PROTOCOL, data.within(len), CHECKSUM_AT) {
        match sum.is_right {
            true => p.out.push_str("[udp sum ok] "),
            false => put!(p, "[bad udp cksum 0x{:04x} -> 0x{:04x}!] ", sum.has, sum.ought),
        }
    }
    Ok(())
}
