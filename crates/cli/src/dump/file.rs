//! Captures in files, pcap or pcapng, of any byte order and resolution of time.
//!
//! Called by: `dump.rs`, for `-r`. Must not know: filters, what is printed.
//! A file that ends in the middle of a packet gives all before it, and then says so.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bpf::Filter;
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgState};
use wirespeed::LinkKind;

use super::packet::{Direction, Packet};
use super::write::{Counted, Port};
use super::{Next, Source};

/// The block that a pcapng file begins with, the same in both byte orders.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Bit 0 and 1 of `epb_flags`.
const DIRECTION: u32 = 3;

type Bytes = Box<dyn BufRead>;

/// A file that is read.
pub(crate) struct Capture {
    name: String,
    kind: Kind,
    /// Packets read so far.
    count: u64,
    filters: Filters,
    counted: Counted,
}

/// The filter as each kind of link wants it, made when its first packet comes.
struct Filters {
    make: Box<dyn Fn(LinkKind) -> Result<Filter>>,
    made: [Option<Filter>; 2],
}

impl Filters {
    /// How many bytes to keep of a packet; 0 for none of it.
    fn run(&mut self, packet: &Packet) -> Result<u32> {
        let slot = &mut self.made[usize::from(packet.link == LinkKind::Ip)];
        if slot.is_none() {
            *slot = Some((self.make)(packet.link)?);
        }
        let bytes = bpf::Packet::cut(&packet.bytes, packet.wire_len);
        Ok(slot.as_ref().map_or(0, |filter| filter.run(&bytes)))
    }
}

enum Kind {
    Pcap(PcapReader<Bytes>, LinkKind),
    Pcapng(Box<PcapNgReader<Bytes>>),
}

impl Capture {
    /// Open a file; `-` is standard input. `make` compiles the filter.
    pub(crate) fn open(
        path: &Path,
        make: impl Fn(LinkKind) -> Result<Filter> + 'static,
    ) -> Result<Capture> {
        let name = path.display().to_string();
        let opened: Box<dyn Read> = match name.as_str() {
            "-" => Box::new(io::stdin()),
            _ => Box::new(File::open(path).with_context(|| format!("cannot read {name}"))?),
        };
        let mut bytes: Bytes = Box::new(BufReader::with_capacity(1 << 20, opened));
        let head = bytes.fill_buf().with_context(|| format!("cannot read {name}"))?;
        let not_one = || format!("{name} is no capture: neither pcap nor pcapng");
        let kind = if head.starts_with(&PCAPNG) {
            Kind::Pcapng(Box::new(PcapNgReader::new(bytes).with_context(not_one)?))
        } else {
            let reader = PcapReader::new(bytes).with_context(not_one)?;
            let link = link(reader.header().datalink).with_context(|| name.clone())?;
            Kind::Pcap(reader, link)
        };
        let filters = Filters { make: Box::new(make), made: [None, None] };
        Ok(Capture { name, kind, count: 0, filters, counted: Counted::default() })
    }

    /// What the packets of a pcap file begin with; those of pcapng say so each.
    pub(crate) fn link(&self) -> Option<LinkKind> {
        match &self.kind {
            Kind::Pcap(_, link) => Some(*link),
            Kind::Pcapng(_) => None,
        }
    }

    /// The next packet, whatever it is; `None` at the end.
    fn read(&mut self) -> Result<Option<Packet>> {
        let (name, count) = (&self.name, self.count);
        let cut = move || {
            format!("{name}, behind packet {count}: the file is cut off or damaged from here on")
        };
        let packet = match &mut self.kind {
            Kind::Pcap(reader, link) => match reader.next_packet() {
                None => None,
                Some(packet) => {
                    let packet = packet.with_context(cut)?;
                    Some(Packet {
                        time_ns: nanos(packet.timestamp()),
                        link: *link,
                        port: 0,
                        direction: None,
                        wire_len: packet.orig_len(),
                        segment_bytes: 0,
                        bytes: packet.data().to_vec(),
                    })
                }
            },
            Kind::Pcapng(reader) => loop {
                let Some(next) = reader.next_block() else { break None };
                let (block, state) = next.with_context(cut)?;
                if let Some(packet) = of_block(block, state).with_context(|| name.clone())? {
                    break Some(packet);
                }
            },
        };
        self.count += u64::from(packet.is_some());
        Ok(packet)
    }
}

impl Source for Capture {
    fn ports(&self) -> Vec<Port> {
        match &self.kind {
            Kind::Pcap(_, link) => vec![Port { name: self.name.clone(), link: *link }],
            Kind::Pcapng(reader) => {
                // One of a kind that is not understood has no packets that are shown.
                let port = |i: &InterfaceDescriptionBlock<'_>| Port {
                    name: name(i).unwrap_or_else(|| self.name.clone()),
                    link: link(i.linktype).unwrap_or(LinkKind::Ethernet),
                };
                reader.interfaces().iter().map(port).collect()
            }
        }
    }

    fn next(&mut self) -> Result<Next> {
        while let Some(mut packet) = self.read()? {
            self.counted.seen += 1;
            let keep = self.filters.run(&packet)?;
            if keep > 0 {
                self.counted.matched += 1;
                packet.bytes.truncate(keep as usize);
                return Ok(Next::Packet(packet));
            }
        }
        Ok(Next::End)
    }

    fn counted(&mut self) -> Result<Vec<Counted>> {
        Ok(vec![self.counted])
    }
}

fn name(interface: &InterfaceDescriptionBlock<'_>) -> Option<String> {
    interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
        _ => None,
    })
}

fn of_block(block: Block<'_>, state: &PcapNgState) -> Result<Option<Packet>> {
    let link_of = |interface: u32| {
        let interface = state.interfaces().get(interface as usize);
        interface.ok_or_else(|| anyhow!("a packet of no interface")).and_then(|i| link(i.linktype))
    };
    Ok(match block {
        Block::EnhancedPacket(packet) => Some(Packet {
            time_ns: nanos(packet.timestamp),
            link: link_of(packet.interface_id)?,
            port: packet.interface_id as usize,
            direction: direction(&packet),
            wire_len: packet.original_len,
            segment_bytes: 0,
            bytes: packet.data.into_owned(),
        }),
        Block::SimplePacket(packet) => Some(Packet {
            time_ns: 0,
            link: link_of(0)?,
            port: 0,
            direction: None,
            wire_len: packet.original_len,
            segment_bytes: 0,
            bytes: packet.data.into_owned(),
        }),
        _ => None,
    })
}

fn direction(packet: &EnhancedPacketBlock<'_>) -> Option<Direction> {
    packet.options.iter().find_map(|option| match option {
        EnhancedPacketOption::Flags(flags) => match flags & DIRECTION {
            1 => Some(Direction::In),
            2 => Some(Direction::Out),
            _ => None,
        },
        _ => None,
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What frames begin with, of the two kinds that are understood.
fn link(link: DataLink) -> Result<LinkKind> {
    match link {
        DataLink::ETHERNET => Ok(LinkKind::Ethernet),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => Ok(LinkKind::Ip),
        other => bail!(
            "its packets begin with a header of kind {other:?}, and Ethernet and bare IP alone are \
             understood: use tcpdump or tshark for this file"
        ),
    }
}
