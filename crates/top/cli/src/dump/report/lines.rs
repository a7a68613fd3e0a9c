//! Packets as lines: the time; the port and the direction, with several interfaces or for a running
//! program; and the text of the dissector.
//!
//! Called by: the sink. Crate `dissect` has the protocols.

use std::fmt::Write;

use dissect::{Frame, Printer};

use super::Stamps;
use crate::dump::args::Args;
use crate::dump::run::source::{ANY, Direction, Link, Packet};
use crate::dump::run::write::Port;

/// Prints packets.
pub(in crate::dump) struct Lines {
    stamps: Stamps,
    printer: Printer,
    /// Names of the ports, if lines show them.
    ports: Vec<String>,
}

impl Lines {
    pub(in crate::dump) fn new(args: &Args, ports: Vec<Port>) -> Lines {
        let is_any = args.interface.as_deref() == Some(ANY);
        // A running program has ports as a machine has interfaces.
        let is_process = args.interface.is_none() && args.read.is_none();
        let ports = match is_any || is_process {
            true => ports.into_iter().map(|port| port.label).collect(),
            false => Vec::new(),
        };
        Lines { stamps: Stamps::new(args.times), printer: Printer::new(args.style()), ports }
    }

    /// Append a packet's line or lines, each with its newline.
    pub(in crate::dump) fn print(&mut self, packet: &Packet, into: &mut String) {
        let mut before = self.stamps.text(packet.time_ns);
        if let Some(port) = self.ports.get(packet.port) {
            let _ = write!(before, "{port:<5} {:<3} ", direction(packet));
        }
        let frame = Frame { link: packet.link.0, bytes: &packet.bytes, wire_len: packet.wire_len };
        into.push_str(self.printer.text(frame, &before));
    }
}

/// The direction as tcpdump shows it for `any`: B for broadcast, M for multicast.
fn direction(packet: &Packet) -> &'static str {
    let to = if packet.link == Link::ETHERNET { packet.bytes.first_chunk::<6>() } else { None };
    match (packet.direction, to) {
        (Some(Direction::Out), _) => "Out",
        (_, Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff])) => "B",
        (_, Some(to)) if to[0] & 1 != 0 => "M",
        _ => "In",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_says_for_how_many_a_frame_came() {
        let packet = |to: [u8; 6], direction| Packet {
            time_ns: 0,
            link: Link::ETHERNET,
            port: 0,
            direction: Some(direction),
            wire_len: 60,
            segment_bytes: 0,
            bytes: to.to_vec(),
        };
        assert_eq!(direction(&packet([0xff; 6], Direction::In)), "B");
        assert_eq!(direction(&packet([1, 0, 0x5e, 0, 0, 1], Direction::In)), "M");
        assert_eq!(direction(&packet([2, 0, 0, 0, 0, 1], Direction::In)), "In");
        assert_eq!(direction(&packet([0xff; 6], Direction::Out)), "Out");
    }
}
