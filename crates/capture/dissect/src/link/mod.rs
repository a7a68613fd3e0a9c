//! Link layers, chosen by the capture's link type.
//!
//! Called by: the printer. Each function returns the length of the link header. Packets of an
//! unknown link type are printed in hex.

mod chdlc;
mod ether;
mod ethertype;
mod frame_relay;
mod llc;
mod null;
mod ppp;
mod pppoe;
mod sll;

use crate::data::{Cut, Data};
use crate::net;
use crate::print::Printer;

pub(crate) use ether::print as ethernet;
pub(crate) use ethertype::print as ethertype;
pub(crate) use frame_relay::{NLPIDS, dlci_text};
pub(crate) use ppp::print as ppp;

/// Is this link type (LINKTYPE_) decoded?
#[must_use]
pub fn is_decoded(link: u32) -> bool {
    matches!(link, 0 | 1 | 9 | 12 | 14 | 50 | 51 | 101 | 104 | 107 | 108 | 113 | 228 | 229 | 276)
}

/// Print a whole packet. Returns the length of its link header.
pub(crate) fn print(p: &mut Printer, link: u32, data: Data<'_>) -> Result<usize, Cut> {
    match link {
        0 | 108 => null::print(p, data),
        1 => ethernet(p, data),
        9 => ppp::of_interface(p, data),
        50 => ppp::serial(p, data),
        51 => pppoe::print(p, data),
        12 | 14 | 101 | 228 | 229 => {
            p.protocol = "raw";
            if p.style.link {
                p.out.push_str("ip: ");
            }
            net::ip_of_any_version(p, data)?;
            Ok(0)
        }
        104 => chdlc::print(p, data),
        107 => frame_relay::print(p, data),
        113 => sll::version_1(p, data),
        276 => sll::version_2(p, data),
        _ => {
            p.protocol = "unsupported";
            p.out.push_str("UNSUPPORTED");
            p.unknown(data.bytes);
            Ok(0)
        }
    }
}
