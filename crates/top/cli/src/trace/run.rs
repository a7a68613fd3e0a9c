//! Reads the capture, packet by packet.
//!
//! Called by: `trace.rs`. Of a file that is cut off or damaged, what is before is analysed.

use std::rc::Rc;

use anyhow::{Error, Result, bail};
use trace::{Connection, Trace};

use super::args::Args;
use crate::clock::Interrupt;
use crate::{Usage, dump};

/// What was read.
pub(super) struct Read {
    pub(super) file: String,
    /// The names of its interfaces.
    pub(super) interfaces: Vec<String>,
    pub(super) trace: Trace,
    /// Why the file could not be read to its end.
    pub(super) damage: Option<Error>,
    pub(super) interrupted: bool,
}

impl Read {
    /// The connections with most bytes first.
    pub(super) fn by_bytes(&self) -> Vec<&Connection> {
        let mut all: Vec<&Connection> = self.trace.connections().iter().collect();
        all.sort_by_key(|connection| std::cmp::Reverse(bytes(connection)));
        all
    }

    /// The interface of a connection, if the file has several.
    pub(super) fn interface(&self, connection: &Connection) -> Option<&str> {
        let name = self.interfaces.get(connection.interface() as usize)?;
        (self.interfaces.len() > 1).then_some(name.as_str())
    }
}

/// The payload of a connection, both ways.
fn bytes(connection: &Connection) -> u64 {
    connection.from_client().counts().bytes + connection.from_server().counts().bytes
}

/// Read the file.
///
/// # Errors
/// It cannot be opened, is no capture, or the filter cannot be compiled.
pub(super) fn read(args: &Args, interrupt: &Interrupt) -> Result<Read> {
    let interrupted = interrupt.clone();
    let stop = Rc::new(move || interrupted.noted());
    let mut source = dump::file(&args.file, &args.filter.join(" "), stop)?;
    if args.out.as_ref().is_some_and(|out| dump::FileId::is_same(out, &args.file)) {
        bail!(Usage(format!(
            "-o names {}, which is read here: name another file for the page",
            args.file.display()
        )));
    }
    let mut read = Read {
        file: args.file.display().to_string(),
        interfaces: Vec::new(),
        trace: Trace::default(),
        damage: None,
        interrupted: false,
    };
    let mut packets = 0_u64;
    loop {
        packets += 1;
        if packets.is_multiple_of(1_024) && interrupt.noted() {
            read.interrupted = true;
            break;
        }
        match source.next() {
            Ok(dump::Next::Packet(packet)) => {
                let port = if args.together { 0 } else { packet.port as u32 };
                let (link, time_ns) = (packet.link.0, packet.time_ns);
                read.trace.take(port, link, time_ns, &packet.bytes, packet.wire_len);
            }
            Ok(dump::Next::Later) => read.interrupted = interrupt.noted(),
            Ok(dump::Next::End) => {
                // A signal ends a wait for a pipe.
                read.interrupted = interrupt.noted();
                break;
            }
            Err(damage) if read.trace.packets() == 0 => return Err(damage),
            Err(damage) => {
                read.damage = Some(damage);
                break;
            }
        }
        if read.interrupted {
            break;
        }
    }
    if !args.together {
        read.interfaces = source.ports().into_iter().map(|port| port.name).collect();
    }
    Ok(read)
}
