//! Writes packets to pcapng files: one, or one after another by size or time.
//!
//! Called by: the sink, for `-w`. After a failed write the file stays readable (`blocks`). `names`
//! names the files.
//!
//! Source: draft-ietf-opsawg-pcapng. Each port is an interface with its name; a packet has its
//! direction and its time in nanoseconds. Statistics at the end of each file count the packets
//! seen, matched and lost since the capture began.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
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

use super::blocks::{Blocks, To};
use super::names::{Names, Rotation};
use super::source::{Direction, FileId, Link, Packet};
use crate::Usage;
use crate::output::what_to_do;

/// The unit of `-C`, as in tcpdump.
const MILLION: u64 = 1_000_000;

/// A port that packets come from.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    /// Its name in files.
    pub(crate) name: String,
    /// Its name in lines.
    pub(crate) label: String,
    pub(crate) link: Link,
}

impl Port {
    /// A port with one name for files and lines.
    pub(crate) fn new(name: String, link: Link) -> Port {
        Port { label: wirespeed::control::text::plain(&name), name, link }
    }
}

/// The counts of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// Packets shown to the filter.
    pub(crate) seen: u64,
    /// Packets that it matched.
    pub(crate) matched: u64,
    /// Matched packets that were lost because buffers were full.
    pub(crate) dropped: u64,
}

/// The current file, and how to begin the next.
pub(crate) struct Writer {
    names: Names,
    how: How,
    ports: Vec<Port>,
    /// `None` before the first packet, if its time determines the file's name.
    file: Option<PcapNgWriter<Blocks>>,
    /// The beginning of the file's period of `-G`. Periods follow each other without a gap.
    begun_ns: Option<u64>,
}

/// How files are written.
pub(crate) struct How {
    pub(crate) rotation: Rotation,
    /// When the first file begins. If it is `None` and files rotate by time, the first packet
    /// begins it.
    pub(crate) begins_ns: Option<u64>,
    pub(crate) snaplen: u32,
    /// Write each packet at once.
    pub(crate) unbuffered: bool,
    /// Files that must not be written over.
    pub(crate) inputs: Vec<FileId>,
}

impl Writer {
    /// Begin the first file; `-` is standard output.
    ///
    /// # Errors
    /// The system's error, with what to do; [`crate::Usage`] for an impossible name.
    pub(crate) fn new(path: &Path, how: How, ports: Vec<Port>) -> Result<Writer> {
        let names = Names::new(path, how.rotation)?;
        let (begins_ns, by_time) = (how.begins_ns, how.rotation.seconds.is_some());
        let mut writer = Writer { names, how, ports, file: None, begun_ns: begins_ns };
        if let Some(time_ns) = begins_ns.or((!by_time).then_some(0)) {
            writer.file(time_ns)?;
        }
        Ok(writer)
    }

    pub(crate) fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Add the ports that the source has found since; known ports keep their numbers.
    pub(crate) fn add_ports(&mut self, ports: &[Port]) -> Result<()> {
        for port in ports.get(self.ports.len()..).unwrap_or_default() {
            if let Some(file) = &mut self.file {
                put(file, interface(port, self.how.snaplen)).with_context(|| self.failed())?;
            }
            self.ports.push(port.clone());
        }
        Ok(())
    }

    /// Write a packet, in a new file if the current one is full; false if all files of `-W` are
    /// full. `counted` returns the counts of each port, for the end of a file.
    pub(crate) fn write(
        &mut self,
        packet: &Packet,
        counted: impl FnOnce() -> Vec<Counted>,
    ) -> Result<bool> {
        self.begun_ns.get_or_insert(packet.time_ns);
        let period_ns = self.period_at(packet.time_ns);
        if (self.is_full() || period_ns.is_some())
            && !self.turn(period_ns, packet.time_ns, counted)?
        {
            return Ok(false);
        }
        let file = self.file(packet.time_ns)?;
        put(file, block(packet)).with_context(|| self.failed())?;
        if self.how.unbuffered {
            self.flush()?;
        }
        Ok(true)
    }

    /// The clock shows `now_ns`: begin the next file if the time of this one is over, so that an
    /// idle line has files too; false if all files of `-W` are full.
    pub(crate) fn pass_time(
        &mut self,
        now_ns: u64,
        counted: impl FnOnce() -> Vec<Counted>,
    ) -> Result<bool> {
        match self.period_at(now_ns) {
            None => Ok(true),
            period_ns => {
                let goes_on = self.turn(period_ns, now_ns, counted)?;
                if goes_on {
                    self.file(now_ns)?;
                }
                Ok(goes_on)
            }
        }
    }

    /// End the file, and begin the next with the period that begins at `period_ns`, or in the same
    /// period; false if it was the last.
    fn turn(
        &mut self,
        period_ns: Option<u64>,
        now_ns: u64,
        counted: impl FnOnce() -> Vec<Counted>,
    ) -> Result<bool> {
        if self.names.is_last() {
            return Ok(false);
        }
        self.end(&counted(), now_ns)?;
        self.file = None;
        if let Some(period_ns) = period_ns {
            self.begun_ns = Some(period_ns);
            self.file(period_ns)?;
        }
        Ok(true)
    }

    /// Write all buffered blocks.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.get_mut().hand_over().map_err(helped).with_context(|| self.failed())
    }

    /// End the last file at `time_ns`, with all ports of the source, also those without packets,
    /// and the counts of each.
    pub(crate) fn finish(
        mut self,
        ports: &[Port],
        counted: &[Counted],
        time_ns: u64,
    ) -> Result<()> {
        self.add_ports(ports)?;
        // Make a file even if there were no packets.
        self.file(time_ns)?;
        self.end(counted, time_ns)
    }

    /// Has the file reached its maximum size?
    fn is_full(&self) -> bool {
        let most = self.how.rotation.megabytes.map(|millions| millions.saturating_mul(MILLION));
        let bytes = self.file.as_ref().map_or(0, |file| file.get_ref().bytes());
        most.is_some_and(|most| bytes >= most)
    }

    /// When the period of `time_ns` began, if it is another than that of the file.
    fn period_at(&self, time_ns: u64) -> Option<u64> {
        let length_ns = self.how.rotation.seconds?.saturating_mul(1_000_000_000);
        let begun_ns = self.begun_ns?;
        let periods = time_ns.saturating_sub(begun_ns).checked_div(length_ns)?;
        (periods > 0).then(|| begun_ns + periods * length_ns)
    }

    /// Write the counts of each port, and all buffered blocks.
    fn end(&mut self, counted: &[Counted], time_ns: u64) -> Result<()> {
        let ports = self.ports.len();
        for (interface_id, counted) in (0..).zip(counted.iter().take(ports)) {
            let statistics = InterfaceStatisticsBlock {
                interface_id,
                timestamp: Duration::from_nanos(time_ns),
                options: vec![
                    InterfaceStatisticsOption::IsbIfRecv(counted.seen),
                    InterfaceStatisticsOption::IsbFilterAccept(counted.matched),
                    InterfaceStatisticsOption::IsbOsDrop(counted.dropped),
                ],
            };
            let file = self.file(time_ns)?;
            put(file, statistics).with_context(|| self.failed())?;
        }
        self.flush()
    }

    /// The current file; begins one at `time_ns` if there is none.
    fn file(&mut self, time_ns: u64) -> Result<&mut PcapNgWriter<Blocks>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => begin(self.names.next(time_ns)?, &self.ports, &self.how)?,
        };
        Ok(self.file.insert(file))
    }

    fn failed(&self) -> String {
        format!("cannot write {}; the packets in it are whole", self.names.current().display())
    }
}

fn begin(path: &Path, ports: &[Port], how: &How) -> Result<PcapNgWriter<Blocks>> {
    let is_stdout = path.as_os_str() == "-";
    let there = match is_stdout {
        true => io::stdout().as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata()),
        false => fs::metadata(path),
    };
    if there.ok().and_then(|there| FileId::of(&there)).is_some_and(|id| how.inputs.contains(&id)) {
        bail!(Usage(format!(
            "-w {} is a file that is read here, and writing would destroy it: name another",
            path.display()
        )));
    }
    let to = match is_stdout {
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
            put(&mut file, interface(port, how.snaplen))?;
        }
        file.get_mut().hand_over().map_err(helped)?;
        Ok(file)
    };
    begun().with_context(|| format!("cannot write {}", path.display()))
}

/// The error with what to do.
fn helped(error: io::Error) -> anyhow::Error {
    let help = what_to_do(&error);
    anyhow!("{error}{help}")
}

/// Write a whole block.
fn put<'a>(file: &mut PcapNgWriter<Blocks>, block: impl PcapNgBlock<'a>) -> Result<()> {
    file.write_pcapng_block(block)?;
    file.get_mut().end_block().map_err(helped)
}

fn interface(port: &Port, snaplen: u32) -> InterfaceDescriptionBlock<'_> {
    InterfaceDescriptionBlock {
        linktype: DataLink::from(port.link.0),
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

#[cfg(test)]
mod tests;
