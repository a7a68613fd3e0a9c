//! Packets to pcapng files: one, or one after the other by size or by time.
//!
//! Called by: `dump.rs`, for `-w`. Must not know: where packets come from. Where writing fails,
//! what was written stays readable: `blocks` sees to it.
//!
//! Source: draft-ietf-opsawg-pcapng. Each port is an interface with its name; a packet has its
//! direction and its time in nanoseconds; at the end of a file, what was seen, matched and lost.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use wirespeed::LinkKind;

use super::blocks::{Blocks, To};
use super::packet::{Direction, Packet};
use crate::output::what_to_do;

/// A million, as `-C` of tcpdump counts.
const MILLION: u64 = 1_000_000;

/// When a file is full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rotation {
    /// Millions of bytes.
    pub(crate) megabytes: Option<u64>,
    /// Seconds, by the packets' times.
    pub(crate) seconds: Option<u64>,
}

/// A port that packets come from.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) link: LinkKind,
}

/// What a source has counted for a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// Packets shown to the filter.
    pub(crate) seen: u64,
    /// Packets that it matched.
    pub(crate) matched: u64,
    /// Matched packets that were lost for want of room.
    pub(crate) dropped: u64,
}

/// The files that packets go to.
pub(crate) struct Writer {
    path: PathBuf,
    rotation: Rotation,
    ports: Vec<Port>,
    snaplen: u32,
    unbuffered: bool,
    file: PcapNgWriter<Blocks>,
    /// Files begun before this one.
    files: u32,
    begun_ns: Option<u64>,
}

impl Writer {
    /// Begin the first file; `-` is standard output.
    pub(crate) fn new(
        path: &Path,
        rotation: Rotation,
        ports: Vec<Port>,
        snaplen: u32,
        unbuffered: bool,
    ) -> Result<Writer> {
        let file = begin(path, &ports, snaplen)?;
        let path = path.to_owned();
        Ok(Writer { path, rotation, ports, snaplen, unbuffered, file, files: 0, begun_ns: None })
    }

    pub(crate) fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Ports that the source has found since; those known stay.
    pub(crate) fn add_ports(&mut self, ports: &[Port]) -> Result<()> {
        for port in ports.get(self.ports.len()..).unwrap_or_default() {
            put(&mut self.file, interface(port, self.snaplen)).with_context(|| self.failed())?;
            self.ports.push(port.clone());
        }
        Ok(())
    }

    /// A packet.
    pub(crate) fn write(&mut self, packet: &Packet) -> Result<()> {
        let begun_ns = *self.begun_ns.get_or_insert(packet.time_ns);
        let is_full =
            self.rotation.megabytes.is_some_and(|mb| self.file.get_ref().bytes() >= mb * MILLION);
        let age_ns = packet.time_ns.saturating_sub(begun_ns);
        let is_over =
            self.rotation.seconds.is_some_and(|s| age_ns >= s.saturating_mul(1_000_000_000));
        if is_full || is_over {
            self.next_file()?;
            self.begun_ns = Some(packet.time_ns);
        }
        put(&mut self.file, block(packet)).with_context(|| self.failed())?;
        if self.unbuffered { self.flush() } else { Ok(()) }
    }

    /// Everything so far reaches the file.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.file.get_mut().hand_over().map_err(helped).with_context(|| self.failed())
    }

    /// The end of the last file: what was counted for each port, at this time.
    pub(crate) fn finish(mut self, counted: &[Counted], time_ns: u64) -> Result<()> {
        for (interface_id, counted) in (0..).zip(counted) {
            let statistics = InterfaceStatisticsBlock {
                interface_id,
                timestamp: Duration::from_nanos(time_ns),
                options: vec![
                    InterfaceStatisticsOption::IsbIfRecv(counted.seen),
                    InterfaceStatisticsOption::IsbFilterAccept(counted.matched),
                    InterfaceStatisticsOption::IsbOsDrop(counted.dropped),
                ],
            };
            put(&mut self.file, statistics).with_context(|| self.failed())?;
        }
        self.flush()
    }

    fn next_file(&mut self) -> Result<()> {
        self.flush()?;
        self.files += 1;
        let path = self.current();
        self.file = begin(&path, &self.ports, self.snaplen)?;
        Ok(())
    }

    /// The first has the name that was asked for, the others a number behind it.
    fn current(&self) -> PathBuf {
        match self.files {
            0 => self.path.clone(),
            n => PathBuf::from(format!("{}{n}", self.path.display())),
        }
    }

    fn failed(&self) -> String {
        format!("cannot write {}; what is in it is whole", self.current().display())
    }
}

fn begin(path: &Path, ports: &[Port], snaplen: u32) -> Result<PcapNgWriter<Blocks>> {
    let to = match path.as_os_str() == "-" {
        true => To::Stdout(io::stdout()),
        false => To::File(File::create(path).map_err(|error| {
            let what = format!("cannot make {}{}", path.display(), what_to_do(&error));
            anyhow::Error::new(error).context(what)
        })?),
    };
    let begun = || -> Result<PcapNgWriter<Blocks>> {
        let mut file = PcapNgWriter::new(Blocks::new(to))?;
        file.get_mut().end_block().map_err(helped)?;
        for port in ports {
            put(&mut file, interface(port, snaplen))?;
        }
        file.get_mut().hand_over().map_err(helped)?;
        Ok(file)
    };
    begun().with_context(|| format!("cannot write {}", path.display()))
}

/// With what to do about it.
fn helped(error: io::Error) -> anyhow::Error {
    let help = what_to_do(&error);
    anyhow!("{error}{help}")
}

/// A block, whole.
fn put<'a>(file: &mut PcapNgWriter<Blocks>, block: impl PcapNgBlock<'a>) -> Result<()> {
    file.write_pcapng_block(block)?;
    file.get_mut().end_block().map_err(helped)
}

fn interface(port: &Port, snaplen: u32) -> InterfaceDescriptionBlock<'_> {
    InterfaceDescriptionBlock {
        linktype: match port.link {
            LinkKind::Ethernet => DataLink::ETHERNET,
            LinkKind::Ip => DataLink::RAW,
        },
        snaplen,
        options: vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(&port.name)),
            InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
        ],
    }
}

fn block(packet: &Packet) -> EnhancedPacketBlock<'_> {
    let flags = match packet.direction {
        Some(Direction::In) => 1,
        Some(Direction::Out) => 2,
        None => 0,
    };
    let mut options = Vec::new();
    if flags != 0 {
        options.push(EnhancedPacketOption::Flags(flags));
    }
    if packet.segment_bytes > 0 {
        let comment = format!("super-segment, cut every {} bytes", packet.segment_bytes);
        options.push(EnhancedPacketOption::Common(CommonOption::Comment(comment.into())));
    }
    EnhancedPacketBlock {
        interface_id: packet.port as u32,
        timestamp: Duration::from_nanos(packet.time_ns),
        original_len: packet.wire_len,
        data: Cow::Borrowed(&packet.bytes),
        options,
    }
}
