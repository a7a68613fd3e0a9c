//! The sections of a pcapng file. Their interfaces become ports, numbered through the whole file.
//!
//! Called by: `file.rs`. Each section numbers its interfaces from 0, so the numbers repeat in files
//! joined by `cat`. The ports of a section are therefore numbered after those of earlier sections.
//!
//! Source: draft-ietf-opsawg-pcapng, the obsolete Packet Block included.

use std::borrow::Cow;
use std::io::BufRead;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::packet::PacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::packet::{Direction, Link, Packet};
use super::write::Port;

/// Maximum number of interfaces in a file, all sections together.
const PORTS_MAX: usize = 1 << 16;

/// The direction in `epb_flags` and `pack_flags`: bits 0 and 1.
const DIRECTION: u32 = 3;

/// The bytes of a file.
pub(super) type Bytes = Box<dyn BufRead>;

/// A pcapng file.
pub(super) struct Sections {
    reader: PcapNgReader<Bytes>,
    /// The file's name, for interfaces without one.
    name: String,
    ports: Vec<Port>,
    /// Number of ports of earlier sections.
    base: usize,
}

/// The kind of a block.
enum Found {
    Packet(Packet),
    Other,
    End,
}

/// The packet of a block, of any of the three block types that hold one.
struct Seen<'a> {
    interface: u32,
    time: Duration,
    flags: u32,
    wire_len: u32,
    data: Cow<'a, [u8]>,
}

impl Sections {
    pub(super) fn new(reader: PcapNgReader<Bytes>, name: String) -> Sections {
        Sections { reader, name, ports: Vec::new(), base: 0 }
    }

    /// The ports so far.
    pub(super) fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The link type of the first port; reads as far as necessary. `None` if the file has no port.
    /// `damaged` makes the error's text.
    pub(super) fn link(&mut self, damaged: impl Fn() -> String) -> Result<Option<Link>> {
        while self.ports.is_empty() {
            if matches!(self.block(&damaged)?, Found::End) {
                break;
            }
        }
        Ok(self.ports.first().map(|port| port.link))
    }

    /// The next packet; `None` at the end. `damaged` makes the error's text.
    pub(super) fn packet(&mut self, damaged: impl Fn() -> String) -> Result<Option<Packet>> {
        loop {
            match self.block(&damaged)? {
                Found::Packet(packet) => return Ok(Some(packet)),
                Found::Other => {}
                Found::End => return Ok(None),
            }
        }
    }

    fn block(&mut self, damaged: impl Fn() -> String) -> Result<Found> {
        let Some(next) = self.reader.next_block() else { return Ok(Found::End) };
        let (block, _) = next.with_context(damaged)?;
        let seen = match block {
            Block::SectionHeader(_) => {
                self.base = self.ports.len();
                return Ok(Found::Other);
            }
            Block::InterfaceDescription(interface) => {
                if self.ports.len() >= PORTS_MAX {
                    bail!("{}: more than {PORTS_MAX} interfaces are not read", self.name);
                }
                self.ports.push(port(&interface, &self.name));
                return Ok(Found::Other);
            }
            block => seen(block),
        };
        let Some(seen) = seen else { return Ok(Found::Other) };
        let port = self.base + seen.interface as usize;
        let link = self.ports.get(port).map(|port| port.link);
        let link = link.with_context(|| format!("{}: a packet of no interface", self.name))?;
        Ok(Found::Packet(Packet {
            time_ns: u64::try_from(seen.time.as_nanos()).unwrap_or(u64::MAX),
            link,
            port,
            direction: match seen.flags & DIRECTION {
                1 => Some(Direction::In),
                2 => Some(Direction::Out),
                _ => None,
            },
            wire_len: seen.wire_len,
            segment_bytes: 0,
            bytes: seen.data.into_owned(),
        }))
    }
}

/// The packet of a block; `None` for other blocks.
fn seen(block: Block<'_>) -> Option<Seen<'_>> {
    Some(match block {
        Block::EnhancedPacket(packet) => Seen {
            interface: packet.interface_id,
            time: packet.timestamp,
            flags: packet.options.iter().find_map(enhanced_flags).unwrap_or(0),
            wire_len: packet.original_len,
            data: packet.data,
        },
        Block::Packet(packet) => Seen {
            interface: packet.interface_id.into(),
            time: packet.timestamp,
            flags: packet.options.iter().find_map(flags).unwrap_or(0),
            wire_len: packet.original_len,
            data: packet.data,
        },
        // It has neither time nor direction, and belongs to the section's first interface.
        Block::SimplePacket(packet) => Seen {
            interface: 0,
            time: Duration::ZERO,
            flags: 0,
            wire_len: packet.original_len,
            data: packet.data,
        },
        _ => return None,
    })
}

fn enhanced_flags(option: &EnhancedPacketOption<'_>) -> Option<u32> {
    match option {
        EnhancedPacketOption::Flags(flags) => Some(*flags),
        _ => None,
    }
}

fn flags(option: &PacketOption<'_>) -> Option<u32> {
    match option {
        PacketOption::Flags(flags) => Some(*flags),
        _ => None,
    }
}

fn port(interface: &InterfaceDescriptionBlock<'_>, file: &str) -> Port {
    let name = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
        _ => None,
    });
    Port {
        name: name.unwrap_or_else(|| file.to_owned()),
        link: Link::of_file(interface.linktype.into()),
    }
}
