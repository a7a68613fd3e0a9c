//! Packets of interfaces of this machine, both directions.
//!
//! Called by: `source.rs`. The filter runs on the frame in the kernel's ring; a match is copied.
//! A checksum that was left to the device is filled in in the copy, as on the wire.
//!
//! Unlike tcpdump, it waits for an interface that is down, so that a link that flaps does not end
//! the capture. An interface that is deleted ends it, after its last packets, unless others are
//! watched.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use bpf::Filter;
use ratatui::crossterm::terminal::is_raw_mode_enabled;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::checksum::Ladder;
use wirespeed::LinkKind;
use wirespeed::device::packet::{PacketError, Seen, Watch};

use super::source::{ANY, Direction, Next, Packet, Source};
use super::write::{Counted, Port};
use crate::output;

/// Longest wait, so that Ctrl-C is noticed.
const WAIT: Duration = Duration::from_millis(100);

/// The interfaces that this process can see, one per line.
const TABLE: &str = "/proc/net/dev";

/// Frames in a row that the filter may reject before Ctrl-C is checked.
const IN_A_ROW: usize = 4096;

/// A watched interface.
struct Interface {
    name: String,
    watch: Watch,
    filter: Filter,
    counted: Counted,
    /// At the last check: why no frames come.
    trouble: Option<PacketError>,
    /// It is gone, and all its frames have been taken.
    is_over: bool,
}

impl Interface {
    /// Begin to watch it; `make` compiles the filter.
    fn open(name: &str, make: impl Fn(&str, LinkKind) -> Result<Filter>) -> Result<Interface> {
        let watch = Watch::open(name, true)?;
        let filter = make(name, watch.link())?;
        let (name, counted) = (name.to_owned(), Counted::default());
        Ok(Interface { name, watch, filter, counted, trouble: None, is_over: false })
    }

    /// The next frame that the filter matches, as a packet of port `number`; `None` if there is
    /// none now.
    fn take(&mut self, number: usize) -> Option<Packet> {
        let (filter, counted, link) = (&self.filter, &mut self.counted, self.watch.link());
        for _ in 0..IN_A_ROW {
            let looked = self.watch.next(|seen| {
                counted.seen += 1;
                let wire_len = u32::try_from(seen.wire_len).unwrap_or(u32::MAX);
                let packet = bpf::Packet::in_two(seen.front(), seen.rest, wire_len);
                let direction = if seen.is_sent { bpf::Direction::Out } else { bpf::Direction::In };
                let keep = filter.of(direction).run(&packet) as usize;
                (keep > 0).then(|| copied(seen, keep, link, number, wire_len))
            });
            if let Some(Some(packet)) = looked {
                counted.matched += 1;
                return Some(packet);
            }
            if !self.watch.is_ready() {
                return None;
            }
        }
        None
    }

    /// Check the interface after a wait without frames; `is_wrong` if poll(2) reported an error.
    /// Fails once it is gone and its last frames have been taken.
    fn look(&mut self, is_wrong: bool) -> Result<(), PacketError> {
        match &self.trouble {
            // Its last frames arrived during the wait, at the latest.
            Some(gone @ PacketError::Gone { .. }) if !self.watch.is_ready() => Err(gone.clone()),
            // The kernel does not report that an interface that is down is deleted, so ask.
            was if is_wrong || was.is_some() => {
                let now = self.watch.trouble();
                if let (None, Some(down @ PacketError::Down { .. })) = (was, &now) {
                    told(&format!("{down}; it is waited for"));
                }
                self.trouble = now;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Print a message, unless `top` draws the screen: a line would disturb it, and it shows the state
/// itself.
fn told(what: &str) {
    if !is_raw_mode_enabled().unwrap_or(false) {
        output::err(what);
    }
}

/// One or several interfaces, watched together.
pub(super) struct Interfaces {
    each: Vec<Interface>,
    /// By interface, the next packet, held until it is the earliest of all.
    next: Vec<Option<Packet>>,
}

impl Interfaces {
    /// Begin to watch the interface of this name, [`ANY`] for all that are up; `make` compiles the
    /// filter.
    pub(super) fn open(
        name: &str,
        make: impl Fn(&str, LinkKind) -> Result<Filter>,
    ) -> Result<Interfaces> {
        let each = match name {
            ANY => all(&make)?,
            name => vec![Interface::open(name, &make)?],
        };
        let next = each.iter().map(|_| None).collect();
        Ok(Interfaces { each, next })
    }

    /// Wait for a frame of any interface. An interface that is gone ends the capture if it was the
    /// only one.
    fn idle(&mut self) -> Result<Next> {
        let mut open: Vec<_> = self.each.iter_mut().filter(|one| !one.is_over).collect();
        let watched: Vec<_> = open.iter().map(|one| one.watch.as_fd()).collect();
        let mut asked: Vec<_> = watched.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let most = Timespec { tv_sec: 0, tv_nsec: i64::from(WAIT.subsec_nanos()) };
        // Even if poll(2) was interrupted, the interfaces are checked.
        let is_told = poll(&mut asked, Some(&most)).is_ok();
        let is_wrong = |fd: &PollFd<'_>| is_told && fd.revents().contains(PollFlags::ERR);
        let wrong: Vec<bool> = asked.iter().map(is_wrong).collect();
        let is_alone = open.len() == 1;
        for (one, is_wrong) in open.iter_mut().zip(wrong) {
            if let Err(gone) = one.look(is_wrong) {
                if is_alone {
                    bail!(gone);
                }
                told(&format!("{gone}; the others are watched on"));
                one.is_over = true;
            }
        }
        Ok(Next::Later)
    }
}

/// All interfaces that are up and whose link type is supported.
fn all(make: impl Fn(&str, LinkKind) -> Result<Filter>) -> Result<Vec<Interface>> {
    let table = std::fs::read_to_string(TABLE).with_context(|| format!("cannot read {TABLE}"))?;
    let names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let mut all = Vec::new();
    for name in names {
        match Interface::open(name, &make) {
            Ok(one) if one.watch.trouble().is_none() => all.push(one),
            Ok(_) => {}
            Err(error) => match error.downcast_ref::<PacketError>() {
                Some(PacketError::OtherLink { .. }) => told(&format!("{error:#}; it is left out")),
                Some(PacketError::NoInterface { .. }) => {}
                _ => return Err(error),
            },
        }
    }
    if all.is_empty() {
        bail!("no interface is up that could be watched; `ip link` shows what there is");
    }
    Ok(all)
}

impl Source for Interfaces {
    fn ports(&self) -> Vec<Port> {
        let port = |one: &Interface| Port::new(one.name.clone(), one.watch.link().into());
        self.each.iter().map(port).collect()
    }

    fn next(&mut self) -> Result<Next> {
        for (number, (one, next)) in self.each.iter_mut().zip(&mut self.next).enumerate() {
            if next.is_none() && !one.is_over {
                *next = one.take(number);
            }
        }
        let earliest = self.next.iter_mut().filter(|next| next.is_some());
        match earliest.min_by_key(|next| next.as_ref().map(|packet| packet.time_ns)) {
            Some(next) => Ok(next.take().map_or(Next::Later, Next::Packet)),
            // The filter rejected frames so far, but there are more.
            None if self.each.iter().any(|one| one.watch.is_ready()) => Ok(Next::Later),
            None => self.idle(),
        }
    }

    fn counted(&mut self) -> Result<Vec<Counted>> {
        let counted = |one: &mut Interface| {
            one.counted.dropped = one.watch.lost();
            one.counted
        };
        Ok(self.each.iter_mut().map(counted).collect())
    }
}

fn copied(seen: &Seen<'_>, keep: usize, link: LinkKind, port: usize, wire_len: u32) -> Packet {
    let mut bytes = [seen.front(), seen.rest].concat();
    finish(&mut bytes, seen);
    bytes.truncate(keep);
    Packet {
        time_ns: seen.time_ns,
        link: link.into(),
        port,
        direction: Some(if seen.is_sent { Direction::Out } else { Direction::In }),
        wire_len,
        segment_bytes: seen.segment_bytes,
        bytes,
    }
}

/// Write the checksum that the device would write.
fn finish(bytes: &mut [u8], seen: &Seen<'_>) {
    let Some((start, field)) = seen.unfinished else { return };
    if bytes.len() < seen.wire_len {
        return;
    }
    let Some(summed) = bytes.get(usize::from(start)..) else { return };
    let sum = wire::udp::checksum_field(Ladder::best().sum(summed));
    if let Some(place) = bytes.get_mut(usize::from(field)..).and_then(|b| b.first_chunk_mut()) {
        *place = sum;
    }
}
