//! Captures in files, pcap or pcapng, of any byte order and time resolution.
//!
//! Called by: `run.rs`, for `-r`. `sections` reads pcapng. Of a file that ends within a packet, all
//! packets before it are read, then an error is returned.
//!
//! The header of a pcap file is not trusted, because programs write snapshot lengths of 0, records
//! longer than the snapshot length, and times with more microseconds than a second has.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Error, Result, bail};
use bpf::Filter;
use pcap_file::pcap::{PcapReader, PcapTsResolution, RawPcapPacket};
use pcap_file::pcapng::PcapNgReader;

use super::packet::{Link, Packet};
use super::sections::{Bytes, Sections};
use super::source::{Next, Source};
use super::write::{Counted, Port};
use crate::output::what_to_do_to_read;

/// Packets in a row that the filter may reject before Ctrl-C is checked.
const LOOKS: u32 = 4096;

/// The type of the block that a pcapng file begins with, the same in both byte orders.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Bytes of the longest block that is read; no length in a file makes the program allocate more.
const BLOCK_BYTES_MAX: usize = 8 << 20;

/// A capture file.
pub(in crate::dump) struct Capture {
    name: String,
    kind: Kind,
    /// Packets read so far.
    count: u64,
    filters: Filters,
    /// By port, up to the last one that had a packet.
    counted: Vec<Counted>,
}

/// The filters by link type, each compiled when its first packet comes.
struct Filters {
    make: Box<dyn Fn(Link) -> Result<Filter>>,
    made: BTreeMap<Link, Filter>,
}

impl Filters {
    /// How many bytes to keep of a packet; 0 if the filter rejects it.
    fn run(&mut self, packet: &Packet) -> Result<u32> {
        let filter = match self.made.entry(packet.link) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(none) => none.insert((self.make)(packet.link)?),
        };
        Ok(filter.run(&bpf::Packet::cut(&packet.bytes, packet.wire_len)))
    }
}

enum Kind {
    Pcap(PcapReader<Bytes>, Link),
    Pcapng(Box<Sections>),
}

impl Capture {
    /// Open a file; `-` is standard input. `make` compiles the filter.
    pub(in crate::dump) fn open(
        path: &Path,
        make: impl Fn(Link) -> Result<Filter> + 'static,
    ) -> Result<Capture> {
        let name = path.display().to_string();
        let opened: Box<dyn Read> = match name.as_str() {
            "-" => Box::new(io::stdin()),
            _ => Box::new(File::open(path).map_err(|error| cannot_read(&name, error))?),
        };
        Capture::of(name, opened, make)
    }

    /// Read a capture from `opened`.
    fn of(
        name: String,
        opened: Box<dyn Read>,
        make: impl Fn(Link) -> Result<Filter> + 'static,
    ) -> Result<Capture> {
        let mut bytes: Bytes = Box::new(BufReader::with_capacity(1 << 20, opened));
        let head = bytes.fill_buf().map_err(|error| cannot_read(&name, error))?;
        if head.is_empty() {
            bail!("{name} is no capture: it is empty (`wirespeed dump -w` and tcpdump write one)");
        }
        let not_one = || {
            format!(
                "{name} is no capture: neither pcap nor pcapng, as `wirespeed dump -w` and tcpdump \
                 write them"
            )
        };
        let kind = if head.starts_with(&PCAPNG) {
            let reader =
                PcapNgReader::with_capacity(bytes, BLOCK_BYTES_MAX).with_context(not_one)?;
            Kind::Pcapng(Box::new(Sections::new(reader, name.clone())))
        } else {
            let reader = PcapReader::with_capacity(bytes, BLOCK_BYTES_MAX).with_context(not_one)?;
            let link = Link::of_file(reader.header().datalink.into());
            Kind::Pcap(reader, link)
        };
        let filters = Filters { make: Box::new(make), made: BTreeMap::new() };
        Ok(Capture { name, kind, count: 0, filters, counted: Vec::new() })
    }

    /// The link type of the first port, before any packet is read; `None` if the file has no port.
    pub(in crate::dump) fn link(&mut self) -> Result<Option<Link>> {
        let damaged = damaged(&self.name, self.count);
        match &mut self.kind {
            Kind::Pcap(_, link) => Ok(Some(*link)),
            Kind::Pcapng(sections) => sections.link(damaged),
        }
    }

    /// The next packet, before the filter; `None` at the end.
    fn read(&mut self) -> Result<Option<Packet>> {
        let damaged = damaged(&self.name, self.count);
        let packet = match &mut self.kind {
            Kind::Pcap(reader, link) => {
                let unit_ns = match reader.header().ts_resolution {
                    PcapTsResolution::MicroSecond => 1_000,
                    PcapTsResolution::NanoSecond => 1,
                };
                match reader.next_raw_packet().transpose().with_context(&damaged)? {
                    // libpcap accepts no longer packet either; the length is corrupt.
                    Some(record) if record.incl_len > bpf::SNAPLEN_MAX => {
                        bail!("{}: a packet of {} bytes", damaged(), record.incl_len)
                    }
                    record => record.map(|record| of_record(&record, unit_ns, *link)),
                }
            }
            Kind::Pcapng(sections) => sections.packet(damaged)?,
        };
        self.count += u64::from(packet.is_some());
        Ok(packet)
    }
}

impl Source for Capture {
    fn ports(&self) -> Vec<Port> {
        match &self.kind {
            Kind::Pcap(_, link) => vec![Port { name: self.name.clone(), link: *link }],
            Kind::Pcapng(sections) => sections.ports().to_vec(),
        }
    }

    fn next(&mut self) -> Result<Next> {
        for _ in 0..LOOKS {
            let Some(mut packet) = self.read()? else { return Ok(Next::End) };
            let ports = self.counted.len().max(packet.port + 1);
            self.counted.resize(ports, Counted::default());
            let counted = &mut self.counted[packet.port];
            counted.seen += 1;
            let keep = self.filters.run(&packet)?;
            if keep > 0 {
                counted.matched += 1;
                packet.bytes.truncate(keep as usize);
                return Ok(Next::Packet(packet));
            }
        }
        Ok(Next::Later)
    }

    fn counted(&mut self) -> Result<Vec<Counted>> {
        let ports = self.counted.len().max(self.ports().len());
        self.counted.resize(ports, Counted::default());
        Ok(self.counted.clone())
    }
}

/// The system does not let a file be read.
fn cannot_read(name: &str, error: io::Error) -> Error {
    let what_to_do = what_to_do_to_read(&error);
    Error::new(error).context(format!("cannot read {name}{what_to_do}"))
}

/// The message when a file cannot be read any further.
fn damaged(name: &str, count: u64) -> impl Fn() -> String {
    move || {
        format!(
            "{name}, behind packet {count}: the file is cut off or damaged from here on \
             (`wirespeed dump -r {name} -w OTHER` writes what is before to another)"
        )
    }
}

/// A packet of a pcap record. Only the record's length is trusted.
fn of_record(record: &RawPcapPacket<'_>, unit_ns: u64, link: Link) -> Packet {
    Packet {
        time_ns: u64::from(record.ts_sec) * 1_000_000_000 + u64::from(record.ts_frac) * unit_ns,
        link,
        port: 0,
        direction: None,
        wire_len: record.orig_len.max(record.incl_len),
        segment_bytes: 0,
        bytes: record.data.to_vec(),
    }
}

#[cfg(test)]
mod tests;
