//! `wirespeed dump`: packets of a running wirespeed, of an interface or of a file, as lines or to a
//! file, by tcpdump's flags.
//!
//! Called by: `main`. `file`, `interface` and `process` are where packets come from, `print` and
//! `write` where they go. Must not know: how a source gets its packets.
//!
//! At the end it says, as tcpdump does, how many packets were captured, how many the filter saw,
//! and how many were lost for want of room.

mod args;
mod blocks;
mod file;
#[cfg(target_os = "linux")]
mod interface;
mod names;
mod packet;
mod print;
mod process;
mod sections;
mod segment;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use bpf::{Filter, Insn, Libpcap, Listing, Program, linktype};
use wirespeed::LinkKind;

use crate::clock::since_1970;
use crate::running::find;
use crate::{Outcome, output};

pub(crate) use args::Args;
pub(crate) use packet::{Direction, Packet};
pub(crate) use process::Process;
pub(crate) use write::{Counted, Port};

use file::Capture;
use print::{Printer, Style};
use segment::Cutter;
use write::Writer;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    args.check()?;
    if args.code > 0 {
        return code(args);
    }
    if let Some(path) = &args.read {
        // Ctrl-C ends a wait for a pipe's first bytes at once.
        let mut capture = Capture::open(path, filters(args))?;
        let stop = on_interrupt()?;
        return run(args, &mut capture, &stop);
    }
    let stop = on_interrupt()?;
    if let Some(name) = &args.interface {
        return run(args, interface(name, filters(args))?.as_mut(), &stop);
    }
    let text = text(args);
    let make = |link| compile(&text, args.snaplen, link);
    let path = find(args.socket.as_deref(), args.pid)?;
    run(args, &mut Process::attach(path, args.port.as_deref(), args.snaplen, make)?, &stop)
}

/// Set by Ctrl-C. The second time ends the program: a source may hang.
fn on_interrupt() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let tell = move || {
        if told.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(tell).context("Ctrl-C")?;
    Ok(stop)
}

/// Packets of an interface; `make` compiles the filter.
pub(crate) fn interface(
    name: &str,
    make: impl Fn(LinkKind) -> Result<Filter>,
) -> Result<Box<dyn Source>> {
    #[cfg(target_os = "linux")]
    return Ok(Box::new(interface::Interface::open(name, make)?));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (name, make);
        anyhow::bail!("interfaces are watched on Linux alone: read a file with -r")
    }
}

/// The filter's text, whole.
fn text(args: &Args) -> String {
    args.filter.join(" ")
}

/// What a filter's text is compiled to, for frames of this kind.
fn compile(text: &str, snaplen: u32, link: LinkKind) -> Result<Vec<Insn>> {
    if text.is_empty() {
        return Ok(vec![Insn::new(0x06, 0, 0, snaplen)]);
    }
    let linktype = match link {
        LinkKind::Ethernet => linktype::ETHERNET,
        LinkKind::Ip => linktype::RAW_IP,
    };
    Ok(Libpcap::load()?.compile(text, linktype, snaplen)?)
}

/// Makes the filter that was asked for.
fn filters(args: &Args) -> impl Fn(LinkKind) -> Result<Filter> + use<> {
    let (text, snaplen) = (text(args), args.snaplen);
    move |link| {
        let insns = compile(&text, snaplen, link)?;
        Ok(Filter::new(Program::new(&insns).context("the filter cannot be run")?))
    }
}

/// `-d`: what the filter is compiled to.
fn code(args: &Args) -> Result<Outcome> {
    let link = match (&args.read, &args.interface) {
        (Some(path), _) => Capture::open(path, filters(args))?.link()?,
        (None, Some(name)) => interface(name, filters(args))?.ports().first().map(|port| port.link),
        (None, None) => None,
    };
    let link = link.unwrap_or(LinkKind::Ethernet);
    let insns = compile(&text(args), args.snaplen, link)?;
    let listing = Listing(&insns);
    output::out(&match args.code {
        1 => listing.to_string(),
        2 => listing.c_array(),
        _ => listing.decimal(),
    })?;
    Ok(Outcome::Done)
}

/// Where packets go.
enum Sink {
    Lines(Printer),
    File(Box<Writer>),
}

impl Sink {
    fn new(args: &Args, ports: Vec<Port>) -> Result<Sink> {
        if let Some(path) = &args.write {
            // What is read has times of its own.
            let begins_ns = args.read.is_none().then(now_ns);
            let (snaplen, unbuffered) = (args.snaplen, args.unbuffered);
            let rotation = args.rotation();
            let writer = Writer::new(path, rotation, begins_ns, ports, snaplen, unbuffered)?;
            return Ok(Sink::File(Box::new(writer)));
        }
        Ok(Sink::Lines(Printer::new(Style {
            verbose: args.verbose > 0,
            very_verbose: args.verbose > 1,
            link: args.link,
            hex: args.hex,
            absolute: args.absolute,
        })))
    }

    /// False once the reader of the output is gone.
    fn take(&mut self, source: &mut dyn Source, packet: &Packet) -> Result<bool> {
        match self {
            Sink::Lines(printer) => output::read_by_someone(&printer.text(packet)),
            Sink::File(writer) => {
                if packet.port >= writer.ports().len() {
                    writer.add_ports(&source.ports())?;
                }
                writer.write(packet, || source.counted().unwrap_or_default())?;
                Ok(true)
            }
        }
    }

    /// Nothing comes: what is there need not wait.
    fn idle(&mut self) -> Result<()> {
        match self {
            Sink::Lines(_) => Ok(()),
            Sink::File(writer) => writer.flush(),
        }
    }

    fn finish(self, ports: &[Port], counted: &[Counted]) -> Result<()> {
        match self {
            Sink::Lines(_) => Ok(()),
            Sink::File(writer) => writer.finish(ports, counted, now_ns()),
        }
    }
}

fn now_ns() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX)
}

/// Three lines that close a capture.
fn closing(captured: u64, counted: &[Counted]) {
    let sum = |of: fn(&Counted) -> u64| counted.iter().map(of).sum::<u64>();
    let (seen, dropped) = (sum(|c| c.seen), sum(|c| c.dropped));
    output::err(&format!(
        "{captured} packets captured\n{seen} packets seen by the filter\n{dropped} packets dropped \
         for want of room"
    ));
}

/// Packets that the filter lets pass, from wherever they come.
pub(crate) trait Source {
    /// The ports that they come from; more may follow.
    fn ports(&self) -> Vec<Port>;

    /// The next one, or why there is none; waits a moment at most.
    fn next(&mut self) -> Result<Next>;

    /// What was counted so far, for each port.
    fn counted(&mut self) -> Result<Vec<Counted>>;
}

/// What a source has next.
pub(crate) enum Next {
    Packet(Packet),
    /// Nothing yet.
    Later,
    /// Nothing any more.
    End,
}

fn run(args: &Args, source: &mut dyn Source, stop: &AtomicBool) -> Result<Outcome> {
    let mut sink = Sink::new(args, source.ports())?;
    let (mut captured, mut cutter) = (0, Cutter::new());
    let is_enough = |captured| args.count.is_some_and(|most| captured >= most);
    let mut go = || -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let packets = match source.next()? {
                Next::Packet(packet) if args.segment => cutter.cut(packet),
                Next::Packet(packet) => vec![packet],
                Next::Later => {
                    sink.idle()?;
                    continue;
                }
                Next::End => break,
            };
            for packet in packets {
                let is_read = sink.take(source, &packet)?;
                captured += 1;
                if !is_read || is_enough(captured) {
                    return Ok(());
                }
            }
        }
        Ok(())
    };
    let ended = go();
    let counted = source.counted().unwrap_or_default();
    let finished = sink.finish(&source.ports(), &counted);
    closing(captured, &counted);
    ended.and(finished)?;
    Ok(Outcome::Done)
}
