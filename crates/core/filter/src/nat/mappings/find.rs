//! The two indexes of mappings: by inside and by outside endpoint.
//!
//! Called by: `mappings.rs` and the files beside it. An endpoint is an address and a port. A
//! protocol without ports has the remote address instead, so that hosts share an outside address as
//! long as they talk to different remote hosts: then answers show whom they are for. RFC 4787
//! REQ-1 is about protocols with ports.

use core::net::IpAddr;

use super::super::index::words;
use super::super::ports::has_ports;
use super::{Mapping, Mappings};

/// What tells the mappings of one address and protocol apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The port.
    Port(u16),
    /// The remote address.
    Remote(IpAddr),
}

impl Part {
    pub(super) fn of(protocol: u8, port: u16, remote: IpAddr) -> Part {
        if has_ports(protocol) { Part::Port(port) } else { Part::Remote(remote) }
    }
}

impl Mappings {
    pub(super) fn find_inside(&self, source: u32, protocol: u8, part: Part) -> Option<u32> {
        self.by_inside.find(self.hash_endpoint(source, protocol, part), |at| {
            self.records.get(at).is_some_and(|record| {
                record.source == source
                    && record.protocol == protocol
                    && self.part_of(record, record.inside_port) == part
            })
        })
    }

    pub(super) fn find_by_outside(&self, outside: u32, protocol: u8, part: Part) -> Option<u32> {
        self.by_outside.find(self.hash_endpoint(outside, protocol, part), |at| {
            self.records.get(at).is_some_and(|record| {
                record.outside == outside
                    && record.protocol == protocol
                    && self.part_of(record, record.outside_port) == part
            })
        })
    }

    /// The hash of an endpoint whose address is a record: of a source, or of an outside address.
    pub(super) fn hash_endpoint(&self, record: u32, protocol: u8, part: Part) -> u64 {
        let first = u64::from(record) << 32 | u64::from(protocol) << 16;
        match part {
            Part::Port(port) => self.key.of_words(first | u64::from(port), 0),
            Part::Remote(addr) => {
                let [high, low] = words(addr);
                self.key.of_four([first, high, low, 1])
            }
        }
    }

    /// What tells a mapping apart, of which `port` is one of its two ports.
    pub(super) fn part_of(&self, record: &Mapping, port: u16) -> Part {
        match self.portless.get(record.remote) {
            Some(remote) => Part::Remote(*remote),
            None => Part::Port(port),
        }
    }
}
