//! What `dump` prints beside the packets: the source, the summary, the filter's code, the list of
//! interfaces.
//!
//! Called by: `dump.rs`. `lines` prints packets, `stamp` their times, `interfaces` the list of
//! `-D`. Packets go to standard output, messages about the capture to standard error.

mod interfaces;
mod lines;
mod stamp;

use std::rc::Rc;

use anyhow::Result;
use bpf::Listing;

use super::args::Args;
use super::run::file::Capture;
use super::run::filter::Wanted;
use super::run::packet::Link;
use super::run::source::Source;
use super::run::{Summary, interface};
use crate::{Outcome, output};

pub(super) use interfaces::print as interfaces;
pub(super) use lines::Lines;

/// Names of link types, as in libpcap.
const LINKS: [(u32, &str); 16] = [
    (0, "NULL (BSD loopback)"),
    (1, "EN10MB (Ethernet)"),
    (9, "PPP (PPP)"),
    (50, "PPP_SERIAL (PPP over serial)"),
    (51, "PPP_ETHER (PPPoE)"),
    (12, "RAW (Raw IP)"),
    (14, "RAW (Raw IP)"),
    (101, "RAW (Raw IP)"),
    (104, "C_HDLC (Cisco HDLC)"),
    (107, "FRELAY (Frame Relay)"),
    (108, "LOOP (OpenBSD loopback)"),
    (113, "LINUX_SLL (Linux cooked v1)"),
    (127, "IEEE802_11_RADIO (802.11 plus radiotap header)"),
    (228, "IPV4 (Raw IPv4)"),
    (229, "IPV6 (Raw IPv6)"),
    (276, "LINUX_SLL2 (Linux cooked v2)"),
];

/// The name of a link type.
pub(super) fn link_name(link: Link) -> String {
    match LINKS.iter().find(|(number, _)| *number == link.0) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("{}", link.0),
    }
}

/// Print the source of the packets, before the first one.
pub(super) fn beginning(args: &Args, source: &dyn Source) {
    let ports = source.ports();
    let link = ports.first().map_or(Link::ETHERNET, |port| port.link);
    let (name, snaplen) = (link_name(link), args.snaplen);
    match (&args.read, &args.interface) {
        (Some(path), _) => {
            let undecoded = if dissect::is_decoded(link.0) { "" } else { ", not decoded" };
            let path = path.display();
            output::err(&format!("reading from file {path}, link-type {name}{undecoded}"));
        }
        (None, Some(interface)) => output::err(&format!(
            "listening on {interface}, link-type {name}, snapshot length {snaplen} bytes"
        )),
        (None, None) => {}
    }
}

/// Print the summary of a capture; nothing for a file that is read.
pub(super) fn summary(args: &Args, summary: &Summary) -> Result<()> {
    let Summary { captured, seen, dropped } = summary;
    let packets = |count: u64| if count == 1 { "packet" } else { "packets" };
    if args.number_alone {
        output::out(&format!("{captured} {}\n", packets(*captured)))?;
    }
    if args.read.is_none() {
        output::err(&format!(
            "{captured} {} captured\n{seen} {} seen by the filter\n{dropped} {} dropped for want \
             of room",
            packets(*captured),
            packets(*seen),
            packets(*dropped)
        ));
    }
    Ok(())
}

/// `-d`: print the compiled filter, for the source that the command line names.
pub(super) fn code(args: &Args, filter: &Wanted) -> Result<Outcome> {
    let insns = match (&args.read, &args.interface) {
        (Some(path), _) => match Capture::open(path, filter.maker(), Rc::new(|| false))?.first()? {
            Some(first) => {
                let filter = filter.clone().within(first.snaplen);
                filter.of_file(Link(first.link), first.is_swapped)?
            }
            None => filter.of_file(Link::ETHERNET, false)?,
        },
        (None, Some(name)) => {
            let source = interface::open(name, filter.maker_of_interfaces())?;
            match source.ports().first().map(|port| (port.link.kind(), port.name.clone())) {
                Some((Some(kind), name)) => filter.of_interface(&name, kind)?,
                _ => filter.of_file(Link::ETHERNET, false)?,
            }
        }
        (None, None) => filter.of_file(Link::ETHERNET, false)?,
    };
    let listing = Listing(&insns);
    output::out(&match args.code {
        1 => listing.to_string(),
        2 => listing.c_array(),
        _ => listing.decimal(),
    })?;
    Ok(Outcome::Done)
}
