//! The sink of packets: lines, files, or a count.
//!
//! Called by: `run.rs`.

use std::fs;
use std::io::IsTerminal;

use anyhow::Result;

use super::source::{FileId, Packet, Source};
use super::write::{Counted, How, Port, Writer};
use crate::clock::now_ns;
use crate::dump::args::Args;
use crate::dump::report::Lines;
use crate::output;

/// Buffered bytes of lines that trigger a write, unless lines are printed at once.
const LINES_BYTES: usize = 64 << 10;

/// Where packets go.
pub(super) enum Sink {
    Lines(Box<Buffered>),
    /// `is_live`: the clock goes on while no packets come.
    File {
        writer: Box<Writer>,
        is_live: bool,
    },
    /// `--count`.
    Number,
}

/// Lines, buffered for standard output.
pub(super) struct Buffered {
    lines: Lines,
    waiting: String,
    at_once: bool,
}

impl Buffered {
    /// Write the buffered lines; false once nobody reads standard output.
    fn hand_over(&mut self) -> Result<bool> {
        let is_read = self.waiting.is_empty() || output::read_by_someone(&self.waiting)?;
        self.waiting.clear();
        Ok(is_read)
    }
}

impl Sink {
    pub(super) fn new(args: &Args, source: &dyn Source) -> Result<Sink> {
        let ports = source.ports();
        if let Some(path) = &args.write {
            // With `-r` the packets' own times count.
            let is_live = args.read.is_none();
            let how = How {
                rotation: args.rotation(),
                begins_ns: is_live.then(now_ns),
                snaplen: args.snaplen,
                unbuffered: args.unbuffered,
                inputs: inputs(args, source),
            };
            let writer = Box::new(Writer::new(path, how, ports)?);
            return Ok(Sink::File { writer, is_live });
        }
        if args.number_alone {
            return Ok(Sink::Number);
        }
        let at_once = args.line_buffered || args.unbuffered || std::io::stdout().is_terminal();
        let lines = Lines::new(args, ports);
        Ok(Sink::Lines(Box::new(Buffered { lines, waiting: String::new(), at_once })))
    }

    /// False if no more packets are wanted: nobody reads standard output, or all files of `-W` are
    /// full.
    pub(super) fn take(&mut self, source: &mut dyn Source, packet: &Packet) -> Result<bool> {
        match self {
            Sink::Lines(to) => {
                let Buffered { lines, waiting, at_once } = &mut **to;
                lines.print(packet, waiting);
                if *at_once || waiting.len() >= LINES_BYTES { to.hand_over() } else { Ok(true) }
            }
            Sink::File { writer, .. } => {
                if packet.port >= writer.ports().len() {
                    writer.add_ports(&source.ports())?;
                }
                writer.write(packet, || source.counted().unwrap_or_default())
            }
            Sink::Number => Ok(true),
        }
    }

    /// No packets come: write what is buffered, and end the file if its time is over. False if no
    /// more packets are wanted.
    pub(super) fn idle(&mut self, source: &mut dyn Source) -> Result<bool> {
        match self {
            Sink::Lines(to) => to.hand_over(),
            Sink::File { writer, is_live } => {
                writer.flush()?;
                let counted = || source.counted().unwrap_or_default();
                if *is_live { writer.pass_time(now_ns(), counted) } else { Ok(true) }
            }
            Sink::Number => Ok(true),
        }
    }

    pub(super) fn finish(self, ports: &[Port], counted: &[Counted]) -> Result<()> {
        match self {
            Sink::Lines(mut to) => to.hand_over().map(drop),
            Sink::File { writer, .. } => writer.finish(ports, counted, now_ns()),
            Sink::Number => Ok(()),
        }
    }
}

/// Files that `-w` must not write over: the one that is read, and that of `-F`.
fn inputs(args: &Args, source: &dyn Source) -> Vec<FileId> {
    let filter = args.filter_file.as_ref().and_then(|path| fs::metadata(path).ok());
    let filter = filter.and_then(|metadata| FileId::of(&metadata));
    source.file().into_iter().chain(filter).collect()
}
