//! `wirespeed trace FILE`: what a capture says about its TCP connections, as a table, as JSON, and
//! as a page with time-sequence graphs in tcptrace's style.
//!
//! Called by: the program. `report` prints, `page` draws. `crates/capture/trace` does the analysis.

mod page;
mod report;

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Error, Result, anyhow, bail};
use trace::{Connection, Trace};

use crate::clock::Interrupt;
use crate::{Outcome, Usage, dump, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Capture the packets of an interface, then look at their connections:
  wirespeed dump -i eth0 -s 100 -w out.pcapng tcp
  wirespeed trace out.pcapng -o out.html

The counts are those of Wireshark's TCP analysis; they are guesses from what the capture shows.
FILTER is libpcap's language (pcap-filter(7)); libpcap is loaded for it when there is one.")]
pub(crate) struct Args {
    /// The capture, pcap or pcapng; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which packets to look at [default: all]
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Write a page with graphs, one file that needs no network
    #[arg(short, long, value_name = "PAGE.html")]
    out: Option<PathBuf>,
    /// One JSON document on standard output, with all connections
    #[arg(long)]
    json: bool,
    /// Connections in the table and on the page, those with most bytes first
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..))]
    most: u16,
    /// Take all interfaces of the file as one, as Wireshark does
    ///
    /// Without it, a connection that was captured on two interfaces is listed for each, because a
    /// packet that passes both was not sent twice. This is for connections whose directions take
    /// different interfaces.
    #[arg(long)]
    together: bool,
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let read = read(args, &interrupt)?;
    match args.json {
        true => output::out(&report::json(&read))?,
        false => output::out(&report::text(&read, args.most))?,
    }
    if let Some(path) = &args.out {
        let text = page::html(&read, args.most);
        lab::replaced::write(path, text.as_bytes()).map_err(|error| {
            let what_to_do = output::what_to_do(&error);
            anyhow!(error).context(format!("cannot write {}{what_to_do}", path.display()))
        })?;
        output::err(&format!("page: {}", path.display()));
    }
    match read.damage {
        Some(damage) => Err(damage).context("what was read until then is above"),
        None if read.interrupted => Ok(Outcome::Interrupted),
        None => Ok(Outcome::Done),
    }
}

/// The contents of a file.
struct Read {
    file: String,
    /// The names of its interfaces.
    interfaces: Vec<String>,
    trace: Trace,
    /// Why the file could not be read to its end.
    damage: Option<Error>,
    interrupted: bool,
}

impl Read {
    /// The connections with most bytes first.
    fn by_bytes(&self) -> Vec<&Connection> {
        let mut all: Vec<&Connection> = self.trace.connections().iter().collect();
        all.sort_by_key(|connection| std::cmp::Reverse(bytes(connection)));
        all
    }

    /// The interface of a connection, if the file has several.
    fn interface(&self, connection: &Connection) -> Option<&str> {
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
fn read(args: &Args, interrupt: &Interrupt) -> Result<Read> {
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
