//! Captures in files, pcap or pcapng, as a source.
//!
//! Called by: `run.rs`, for `-r`; `trace`. Crate `capture` reads the files. If a file ends within a
//! packet, all packets before it are read, then an error is returned.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};
use bpf::Filter;
use capture::{Interface, Reader};

use super::patient::{self, Patient, Stop};
use super::source::{Direction, FileId, Link, Next, Packet, Source};
use super::write::{Counted, Port};
use crate::output::what_to_do_to_read;

/// Packets in a row that the filter may reject before Ctrl-C is checked.
const LOOKS: u32 = 4096;

/// A capture file.
pub(in crate::dump) struct Capture {
    name: String,
    id: Option<FileId>,
    reader: Reader<Bytes>,
    stop: Stop,
    /// The interfaces so far.
    ports: Vec<Port>,
    /// Packets read so far.
    count: u64,
    filters: Filters,
    /// By port, up to the last one that had a packet.
    counted: Vec<Counted>,
}

/// Makes a filter for packets of a link type, in a file of the other byte order or not.
type Make = Box<dyn Fn(Link, bool) -> Result<Filter>>;

/// The filters by link type and byte order, each compiled when its first packet comes.
struct Filters {
    make: Make,
    made: BTreeMap<(Link, bool), Filter>,
}

impl Filters {
    /// How many bytes to keep of a packet, 0 if the filter rejects it; `None` if that depends on
    /// its direction, which is unknown.
    fn run(&mut self, packet: &Packet, is_swapped: bool) -> Result<Option<u32>> {
        let filter = match self.made.entry((packet.link, is_swapped)) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(none) => none.insert((self.make)(packet.link, is_swapped)?),
        };
        let filter = match packet.direction {
            None if filter.asks_direction() => return Ok(None),
            None | Some(Direction::In) => filter.of(bpf::Direction::In),
            Some(Direction::Out) => filter.of(bpf::Direction::Out),
        };
        Ok(Some(filter.run(&bpf::Packet::cut(&packet.bytes, packet.wire_len))))
    }
}

/// The bytes of a file.
type Bytes = BufReader<Box<dyn Read>>;

impl Capture {
    /// Open a file; `-` is standard input. `make` compiles the filter; when `stop` says so, the
    /// file ends.
    pub(in crate::dump) fn open(
        path: &Path,
        make: impl Fn(Link, bool) -> Result<Filter> + 'static,
        stop: Stop,
    ) -> Result<Capture> {
        let name = path.display().to_string();
        let file = patient::open(path).map_err(|error| cannot_read(&name, error))?;
        let id = file.metadata().ok().and_then(|metadata| FileId::of(&metadata));
        let opened = Box::new(Patient::new(file, stop.clone()));
        Ok(Capture { id, ..Capture::of(name, opened, make, stop)? })
    }

    /// Read a capture from `opened`.
    fn of(
        name: String,
        opened: Box<dyn Read>,
        make: impl Fn(Link, bool) -> Result<Filter> + 'static,
        stop: Stop,
    ) -> Result<Capture> {
        let mut bytes = BufReader::with_capacity(1 << 20, opened);
        let head = bytes.fill_buf().map_err(|error| cannot_read(&name, error))?;
        if head.is_empty() && stop() {
            bail!("{name}: interrupted before its first bytes came");
        }
        if head.is_empty() {
            bail!("{name} is no capture: it is empty (`wirespeed dump -w` and tcpdump write one)");
        }
        let reader = Reader::new(bytes).map_err(|error| match error {
            capture::Error::Io(error) => cannot_read(&name, error),
            capture::Error::NotOne | capture::Error::CutOff => anyhow!(
                "{name} is no capture: neither pcap nor pcapng, as `wirespeed dump -w` and tcpdump \
                 write them"
            ),
            other => anyhow!("{name} cannot be read: {other}"),
        })?;
        let filters = Filters { make: Box::new(make), made: BTreeMap::new() };
        let (ports, counted) = (Vec::new(), Vec::new());
        let mut capture =
            Capture { name, id: None, reader, stop, ports, count: 0, filters, counted };
        capture.learn();
        Ok(capture)
    }

    /// The first interface, before any packet is read; `None` if the file has none.
    pub(in crate::dump) fn first(&mut self) -> Result<Option<&Interface>> {
        let damaged = damaged(&self.name, self.count);
        self.reader.first_interface().with_context(damaged)
    }

    /// Make ports of interfaces that were found since.
    fn learn(&mut self) {
        for interface in self.reader.interfaces().get(self.ports.len()..).unwrap_or_default() {
            let name = interface.name.clone().unwrap_or_else(|| self.name.clone());
            self.ports.push(Port::new(name, Link(interface.link)));
        }
    }

    /// The next packet, before the filter; `None` at the end.
    fn read(&mut self) -> Result<Option<Packet>> {
        let next = self.reader.packet();
        // This also finds interfaces behind the last packet.
        self.learn();
        let packet = match next {
            Ok(Some(packet)) => packet,
            Ok(None) => return Ok(None),
            // A signal ended the wait for the rest of a packet.
            Err(_) if (self.stop)() => return Ok(None),
            Err(error) => {
                return Err(error).with_context(damaged(&self.name, self.count));
            }
        };
        self.count += 1;
        let port = packet.interface;
        Ok(Some(Packet {
            time_ns: packet.time_ns,
            link: self.ports[port].link,
            port,
            direction: packet.direction.map(|direction| match direction {
                capture::Direction::In => Direction::In,
                capture::Direction::Out => Direction::Out,
            }),
            wire_len: packet.wire_len,
            segment_bytes: 0,
            bytes: packet.bytes,
        }))
    }
}

impl Source for Capture {
    fn ports(&self) -> Vec<Port> {
        self.ports.clone()
    }

    fn next(&mut self) -> Result<Next> {
        for _ in 0..LOOKS {
            let Some(mut packet) = self.read()? else { return Ok(Next::End) };
            let ports = self.counted.len().max(packet.port + 1);
            self.counted.resize(ports, Counted::default());
            let counted = &mut self.counted[packet.port];
            counted.seen += 1;
            let is_swapped = self.reader.interfaces()[packet.port].is_swapped;
            let keep = self.filters.run(&packet, is_swapped)?.with_context(|| {
                let Capture { name, count, .. } = self;
                format!(
                    "{name} does not say whether packet {count} was received or sent: leave \
                     'inbound' and 'outbound' out of the filter (`wirespeed dump -w` and Linux's \
                     cooked captures say it)"
                )
            })?;
            if keep > 0 {
                counted.matched += 1;
                packet.bytes.truncate(keep as usize);
                return Ok(Next::Packet(packet));
            }
        }
        Ok(Next::Later)
    }

    fn file(&self) -> Option<FileId> {
        self.id
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
             (`wirespeed dump -r {name} -w OTHER` writes the packets before to another)"
        )
    }
}

#[cfg(test)]
mod tests;
