//! Moves packets from a source to a sink until there are enough.
//!
//! Called by: `dump.rs`. The sources are `file`, `interface` and `process`; the sinks are files
//! (`write`) and lines (`report`).

mod blocks;
pub(super) mod file;
pub(super) mod filter;
pub(super) mod names;
pub(super) mod patient;
mod pause;
pub(super) mod process;
mod queue;
mod segment;
mod sink;
pub(super) mod source;
#[cfg(target_os = "linux")]
mod watch;
pub(super) mod write;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use file::Capture;
use filter::Wanted;
use process::Process;
use segment::Cutter;
use sink::Sink;
use source::{Direction, Next, Packet, Source};
use write::Counted;

use super::args::Args;
use crate::running::find;

/// The counts of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Packets that were printed, written or counted.
    pub(super) captured: u64,
    pub(super) seen: u64,
    pub(super) dropped: u64,
}

/// Open the source of the command line.
pub(super) fn open(
    args: &Args,
    filter: &Wanted,
    stop: &Arc<AtomicBool>,
) -> Result<Box<dyn Source>> {
    if let Some(path) = &args.read {
        let stop = stop.clone();
        let stop = Rc::new(move || stop.load(Ordering::Relaxed));
        return Ok(Box::new(Capture::open(path, filter.maker(), stop)?));
    }
    if let Some(name) = &args.interface {
        return source::open(name, filter.maker_of_interfaces());
    }
    let make = |link, netmask| filter.of_port(link, netmask);
    let path = find(args.socket.as_deref(), args.pid)?;
    Ok(Box::new(Process::attach(path, args.port.as_deref(), args.snaplen, make)?))
}

/// Move packets until there are enough or no more, or `stop` is set.
pub(super) fn run(args: &Args, source: &mut dyn Source, stop: &AtomicBool) -> Result<Summary> {
    let mut sink = Sink::new(args, source)?;
    let taken = take(args, source, stop, &mut sink);
    let counted = source.counted().unwrap_or_default();
    // Finish also after an error, so that the file is complete.
    let finished = sink.finish(&source.ports(), &counted);
    let captured = taken?;
    finished?;
    let sum = |of: fn(&Counted) -> u64| counted.iter().map(of).sum::<u64>();
    Ok(Summary { captured, seen: sum(|c| c.seen), dropped: sum(|c| c.dropped) })
}

fn take(args: &Args, source: &mut dyn Source, stop: &AtomicBool, sink: &mut Sink) -> Result<u64> {
    let (mut captured, mut cutter) = (0, Cutter::new());
    let is_enough = |captured| args.count.is_some_and(|most| captured >= most);
    while !stop.load(Ordering::Relaxed) {
        let packets = match source.next()? {
            Next::Packet(packet) if !is_wanted(args, &packet) => continue,
            Next::Packet(packet) if args.segment => cutter.cut(packet),
            Next::Packet(packet) => vec![packet],
            Next::Later => {
                if !sink.idle(source)? {
                    break;
                }
                continue;
            }
            Next::End => break,
        };
        for packet in packets {
            let goes_on = sink.take(source, &packet)?;
            captured += 1;
            if !goes_on || is_enough(captured) {
                return Ok(captured);
            }
        }
    }
    Ok(captured)
}

/// `-Q`. As with tcpdump, a packet of unknown direction passes.
fn is_wanted(args: &Args, packet: &Packet) -> bool {
    match (args.direction(), packet.direction) {
        (None, _) | (_, None) => true,
        (Some(wanted), Some(direction)) => wanted == direction,
    }
}

impl Direction {
    /// The value of `-Q`; `None` for both directions.
    pub(super) fn of_option(text: &str) -> Option<Direction> {
        match text {
            "in" => Some(Direction::In),
            "out" => Some(Direction::Out),
            _ => None,
        }
    }
}
