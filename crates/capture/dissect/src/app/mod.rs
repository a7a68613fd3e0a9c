//! The application protocols over UDP and TCP, chosen by port.
//!
//! Called by: `transport`. For an unknown port only the length is printed.

mod bfd;
mod dhcp;
mod dhcp_options;
pub(crate) mod dns;
mod dns_records;
mod headings;
mod initiators;
mod isakmp;
mod ntp;
mod openflow;
mod rip;
mod syslog;
mod text_protocols;
mod tunnels;

use crate::data::{Data, Done};
use crate::local;
use crate::net;
use crate::net::carrier::Carrier;
use crate::print::{Printer, put};
pub(crate) use initiators::Initiators;
use text_protocols as text;

/// Print the data of a datagram; `length` is the length in the UDP header. As in tcpdump, the first
/// line below that matches the source or the destination port decides.
pub(crate) fn over_udp(
    p: &mut Printer,
    data: Data<'_>,
    (from, to): (u16, u16),
    length: usize,
    carrier: &Carrier,
) -> Done {
    let is = |port: u16| from == port || to == port;
    match () {
        () if is(53) => dns::over_udp(p, data, false),
        () if is(5353) => dns::over_udp(p, data, true),
        () if is(68) || is(67) => dhcp::print(p, data),
        () if is(500) => isakmp::print(p, data, carrier),
        () if is(514) => syslog::print(p, data),
        () if is(520) => rip::print(p, data),
        () if is(4500) => tunnels::esp(p, data, carrier),
        () if is(7500) || is(8500) => isakmp::print(p, data, carrier),
        () if is(123) => ntp::print(p, data),
        () if is(546) || is(547) => dhcp::version_6(p, data),
        () if [1645, 1812, 1646, 1813, 1700, 3799].into_iter().any(is) => headings::radius(p, data),
        () if is(6696) || is(6697) => headings::babel(p, data),
        () if to == 1985 => net::hsrp(p, data),
        () if from == 49_152 => headings::interception(p, data),
        () if matches!(to, 3784 | 4784 | 6784 | 3785) => bfd::print(p, data, to),
        () if is(6343) => headings::sflow(p, data),
        () if is(5060) => text::print(p, data, &text::SIP),
        () if is(8472) => tunnels::otv(p, data),
        () if is(4789) => tunnels::vxlan(p, data),
        () if is(6081) => tunnels::geneve(p, data),
        () if is(4790) => tunnels::vxlan_gpe(p, data),
        () if is(6635) => p.deeper(|p| net::mpls(p, data)),
        () if is(319) || is(320) => local::ptp(p, data),
        () if length > data.len && !carrier.is_fragment => {
            put!(p, "UDP, bad length {length} > {}", data.len);
            Ok(())
        }
        () => {
            put!(p, "UDP, length {length}");
            Ok(())
        }
    }
}

/// Print the data of a segment.
pub(crate) fn over_tcp(p: &mut Printer, data: Data<'_>, (from, to): (u16, u16)) -> Done {
    let is = |port: u16| from == port || to == port;
    let of_text = |p: &mut Printer, protocol| {
        p.out.push_str(": ");
        text::print(p, data, protocol)
    };
    match () {
        () if is(25) => of_text(p, &text::SMTP),
        () if is(43) => of_text(p, &text::WHOIS),
        () if is(179) => {
            // BGP messages span segments, so only the name is printed.
            p.out.push_str(": BGP");
            Ok(())
        }
        () if is(22) => text::ssh(p, data),
        () if is(6633) || is(6653) => openflow::print(p, data),
        () if is(21) => of_text(p, &text::FTP),
        () if is(80) || is(8080) => of_text(p, &text::HTTP),
        () if is(554) || is(8554) => of_text(p, &text::RTSP),
        () if is(53) => dns::over_tcp(p, data),
        () => Ok(()),
    }
}
