//! All connections of a capture.
//!
//! Called by: programs, with each packet in the order of the file.

use core::net::SocketAddr;
use std::collections::HashMap;

use crate::connection::Connection;
use crate::limits::CONNECTIONS_MAX;
use crate::marks::Marks;
use crate::packet::{self, Link, Segment, Skipped};
use crate::side::Used;

/// The number of packets that were not traced, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    /// Packets of link types that are not read.
    pub link: u64,
    /// Packets that are not TCP.
    pub not_tcp: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Packets that are cut off within their headers.
    pub short: u64,
    /// Packets with lengths that contradict each other.
    pub malformed: u64,
    /// Segments of connections beyond [`CONNECTIONS_MAX`].
    pub connections: u64,
}

/// The two ends in an order that does not depend on the direction, and the interface.
type Key = (SocketAddr, SocketAddr, u32);

/// The connections of a capture.
#[derive(Debug, Default)]
pub struct Trace {
    connections: Vec<Connection>,
    /// For two ends and an interface, the index of their newest connection.
    by_key: HashMap<Key, usize>,
    packets: u64,
    skips: Skips,
    used: Used,
}

impl Trace {
    /// Take the next packet: the number of its link type, its time in ns since 1970, the bytes that
    /// were captured, and its length on the wire. Each `interface` has connections of its own: a
    /// packet that is seen on two interfaces was not sent twice. Returns the index of the packet's
    /// connection and the segment's marks; `None` if the packet is not traced, which is counted.
    pub fn take(
        &mut self,
        interface: u32,
        link: u32,
        time_ns: u64,
        bytes: &[u8],
        wire_len: u32,
    ) -> Option<(usize, Marks)> {
        self.packets += 1;
        let link = Link::of_number(link).ok_or(Skipped::Link);
        let segment = link.and_then(|link| packet::segment(time_ns, link, bytes, wire_len));
        match segment {
            Ok(segment) => self.segment(interface, &segment),
            Err(skipped) => {
                *match skipped {
                    Skipped::Link => &mut self.skips.link,
                    Skipped::NotTcp => &mut self.skips.not_tcp,
                    Skipped::Fragment => &mut self.skips.fragments,
                    Skipped::Short => &mut self.skips.short,
                    Skipped::Malformed => &mut self.skips.malformed,
                } += 1;
                None
            }
        }
    }

    fn segment(&mut self, interface: u32, segment: &Segment) -> Option<(usize, Marks)> {
        let (low, high) = (segment.src.min(segment.dst), segment.src.max(segment.dst));
        let key = (low, high, interface);
        let known = self.by_key.get(&key).copied();
        let before = known.and_then(|index| self.connections.get(index));
        let reused = before.is_some_and(|before| before.is_reused_by(segment));
        let index = match known {
            Some(index) if !reused => index,
            _ if self.connections.len() >= CONNECTIONS_MAX => {
                self.skips.connections += 1;
                return None;
            }
            _ => {
                if let Some(before) = known.and_then(|index| self.connections.get_mut(index)) {
                    before.end(&mut self.used);
                }
                self.connections.push(Connection::new(segment, interface));
                self.by_key.insert(key, self.connections.len() - 1);
                self.connections.len() - 1
            }
        };
        let marks = self.connections.get_mut(index)?.take(segment, reused, &mut self.used);
        if self.used.is_over() {
            for connection in &mut self.connections {
                connection.fit(&mut self.used);
            }
        }
        Some((index, marks))
    }

    /// The connections, in the order of their first segments.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// The number of packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The number of packets that were not traced.
    pub fn skips(&self) -> Skips {
        self.skips
    }
}
