//! Chooses the dissector for an Ethertype.
//!
//! Called by: link layers, and tunnels whose content has an Ethertype.

use super::{ppp, pppoe};
use crate::data::{Cut, Data, Ends};
use crate::print::Printer;
use crate::{local, net};

/// Print content of this type. False if the type is unknown.
pub(crate) fn print(
    p: &mut Printer,
    kind: u16,
    data: Data<'_>,
    _ends: Ends<'_>,
) -> Result<bool, Cut> {
    match kind {
        0x0800 => net::ip(p, data)?,
        0x86dd => net::ip6(p, data)?,
        0x0806 | 0x8035 => net::arp(p, data)?,
        0x8863 | 0x8864 | 0x3c12 | 0x3c13 => {
            pppoe::print(p, data)?;
        }
        0x888e => local::eapol(p, data)?,
        0x8809 => local::slow(p, data)?,
        0x88cc => local::lldp(p, data)?,
        0x9000 => local::loopback(p, data)?,
        0x8847 | 0x8848 => net::mpls(p, data)?,
        0x88a2 => local::aoe(p, data)?,
        0x88f7 => local::ptp(p, data)?,
        0xfefe => {
            if data.len == 0 || data.here() == 0 {
                p.protocol = "isoclns";
                p.cut();
            } else {
                local::osi(p, data.skip(1))?;
            }
        }
        0x880b => {
            if data.len > 0 {
                p.out.push_str(": ");
                ppp::print(p, data)?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}
