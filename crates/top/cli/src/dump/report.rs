//! Output of `dump` beside the packets: the source, the summary, the filter's code, the list of
//! interfaces.
//!
//! Called by: `dump.rs`. `lines` prints packets with the times made here, `interfaces` the
//! list of `-D`. Packets go to standard output, messages about the capture to standard error.

mod interfaces;
mod lines;

use std::rc::Rc;

use anyhow::Result;
use bpf::Listing;
pub(super) use interfaces::print as interfaces;
use jiff::Timestamp;
use jiff::tz::TimeZone;
pub(super) use lines::Lines;

use super::args::Args;
use super::run::file::Capture;
use super::run::filter::Wanted;
use super::run::source::{Link, Source};
use super::run::{Summary, source};
use crate::{Outcome, output};

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
            let source = source::open(name, filter.maker_of_interfaces())?;
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

// Times in front of lines, in the formats of `-t`.
//
// Every time that a packet can have is printed, up to the year 2554; tcpdump before 4.99.4 prints
// an error instead of times from 2038 on.

const SECOND_NS: u64 = 1_000_000_000;

/// Formats the times of packets.
struct Stamps {
    /// How often `-t` was given.
    kind: u8,
    zone: TimeZone,
    /// The time that `-ttt` and `-ttttt` count from.
    reference_ns: Option<u64>,
}

impl Stamps {
    fn new(kind: u8) -> Stamps {
        Stamps { kind, zone: TimeZone::system(), reference_ns: None }
    }

    /// A time with a space behind it; empty for `-t`.
    fn text(&mut self, time_ns: u64) -> String {
        match self.kind {
            1 => String::new(),
            2 => format!("{}.{:06} ", time_ns / SECOND_NS, micros(time_ns)),
            3 | 5 => self.since(time_ns),
            kind => of_day(time_ns, &self.zone, kind == 4),
        }
    }

    /// The time since the first packet, or since the previous one.
    fn since(&mut self, time_ns: u64) -> String {
        let reference_ns = *self.reference_ns.get_or_insert(time_ns);
        if self.kind == 3 {
            self.reference_ns = Some(time_ns);
        }
        let sign = if time_ns < reference_ns { "-" } else { " " };
        // tcpdump subtracts microseconds.
        let between_us = (time_ns / 1_000).abs_diff(reference_ns / 1_000);
        format!("{sign}{}", of_day(between_us * 1_000, &TimeZone::UTC, false))
    }
}

fn micros(time_ns: u64) -> u64 {
    time_ns % SECOND_NS / 1_000
}

/// The time of day in `zone`, to microseconds.
fn of_day(time_ns: u64, zone: &TimeZone, with_date: bool) -> String {
    let stamp = Timestamp::from_nanosecond(i128::from(time_ns));
    // Nanoseconds of 64 bits end in the year 2554, those of a stamp in 9999.
    let at = stamp.unwrap_or(Timestamp::MAX).to_zoned(zone.clone());
    let date = match with_date {
        true => format!("{:04}-{:02}-{:02} ", at.year(), at.month(), at.day()),
        false => String::new(),
    };
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    format!("{date}{hour:02}:{minute:02}:{second:02}.{:06} ", micros(time_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(kind: u8, times_ns: &[u64]) -> Vec<String> {
        let mut stamps = Stamps { zone: TimeZone::UTC, ..Stamps::new(kind) };
        times_ns.iter().map(|time_ns| stamps.text(*time_ns)).collect()
    }

    #[test]
    fn a_time_is_told_in_the_ways_of_tcpdump() {
        let times = [86_400 * SECOND_NS + 1_000, 86_401 * SECOND_NS + 3_000, 86_400 * SECOND_NS];
        assert_eq!(texts(0, &times)[0], "00:00:00.000001 ");
        assert_eq!(texts(1, &times)[0], "");
        assert_eq!(texts(2, &times)[0], "86400.000001 ");
        let between = [" 00:00:00.000000 ", " 00:00:01.000002 ", "-00:00:01.000003 "];
        assert_eq!(texts(3, &times), between);
        assert_eq!(texts(4, &times)[1], "1970-01-02 00:00:01.000003 ");
        let since = [" 00:00:00.000000 ", " 00:00:01.000002 ", "-00:00:00.000001 "];
        assert_eq!(texts(5, &times), since);
    }

    #[test]
    fn a_time_behind_the_years_2038_and_2106_is_told() {
        let first = |kind, time_ns| texts(kind, &[time_ns]).remove(0);
        let first_lost = (1 << 31) * SECOND_NS;
        assert_eq!(first(4, first_lost), "2038-01-19 03:14:08.000000 ");
        assert_eq!(first(2, first_lost), "2147483648.000000 ");
        assert_eq!(first(4, (1 << 32) * SECOND_NS), "2106-02-07 06:28:16.000000 ");
        assert_eq!(first(4, u64::MAX), "2554-07-21 23:34:33.709551 ");
        assert_eq!(first(0, u64::MAX), "23:34:33.709551 ");
    }
}
