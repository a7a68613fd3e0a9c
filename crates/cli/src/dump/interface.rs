//! Packets of an interface of this machine, both ways.
//!
//! Called by: `dump.rs`, for `-i`. Must not know: what is printed. A frame is filtered where the
//! kernel put it, and copied if it matches; a checksum that was left to the device is finished in
//! the copy, as on the wire.
//!
//! An interface that is down is waited for, unlike by tcpdump: a link that flaps ends no capture.
//! One that is deleted ends it, after the packets that passed before.

use std::time::Duration;

use anyhow::{Result, bail};
use bpf::Filter;
use ratatui::crossterm::terminal::is_raw_mode_enabled;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::checksum::Ladder;
use wirespeed::LinkKind;
use wirespeed::device::packet::{PacketError, Seen, Watch};

use super::packet::{Direction, Packet};
use super::write::{Counted, Port};
use super::{Next, Source};
use crate::output;

/// How long a wait takes at most, so that Ctrl-C is heard.
const WAIT: Duration = Duration::from_millis(100);

/// Frames that the filter may reject in a row before Ctrl-C is heard.
const IN_A_ROW: usize = 4096;

/// An interface.
pub(crate) struct Interface {
    name: String,
    watch: Watch,
    filter: Filter,
    counted: Counted,
    /// Why no frames come, when it was looked at last.
    trouble: Option<PacketError>,
}

impl Interface {
    /// Begin to watch it; `make` compiles the filter.
    pub(crate) fn open(name: &str, make: impl Fn(LinkKind) -> Result<Filter>) -> Result<Interface> {
        let watch = Watch::open(name, true)?;
        let filter = make(watch.link())?;
        let (name, counted) = (name.to_owned(), Counted::default());
        Ok(Interface { name, watch, filter, counted, trouble: None })
    }

    /// Wait for a frame; does the kernel say that something is wrong with the interface?
    fn wait(&self) -> bool {
        let fd = self.watch.as_fd();
        let most = Timespec { tv_sec: 0, tv_nsec: i64::from(WAIT.subsec_nanos()) };
        let mut asked = [PollFd::new(&fd, PollFlags::IN)];
        // Ended early or not: the ring is looked at.
        poll(&mut asked, Some(&most)).is_ok() && asked[0].revents().contains(PollFlags::ERR)
    }

    /// The ring is empty.
    fn idle(&mut self) -> Result<Next> {
        let is_wrong = self.wait();
        if let Some(gone @ PacketError::Gone { .. }) = &self.trouble {
            // What passed before has come during the wait, at the latest.
            if !self.watch.is_ready() {
                bail!(gone.clone());
            }
        } else if is_wrong || self.trouble.is_some() {
            // That an interface which is down is deleted, the kernel does not say: it is asked.
            self.look();
        }
        Ok(Next::Later)
    }

    /// What has become of the interface; that it has gone down is said once.
    fn look(&mut self) {
        let trouble = self.watch.trouble();
        // A line would tear a screen of ours, which shows by itself that the interface is down.
        let is_drawn = is_raw_mode_enabled().unwrap_or(false);
        if let Some(down @ PacketError::Down { .. }) = &trouble
            && self.trouble.is_none()
            && !is_drawn
        {
            output::err(&format!("{down}; it is waited for"));
        }
        self.trouble = trouble;
    }
}

impl Source for Interface {
    fn ports(&self) -> Vec<Port> {
        vec![Port { name: self.name.clone(), link: self.watch.link() }]
    }

    fn next(&mut self) -> Result<Next> {
        let (filter, counted, link) = (&self.filter, &mut self.counted, self.watch.link());
        for _ in 0..IN_A_ROW {
            if !self.watch.is_ready() {
                return self.idle();
            }
            let looked = self.watch.next(|seen| {
                counted.seen += 1;
                let wire_len = u32::try_from(seen.wire_len).unwrap_or(u32::MAX);
                let packet = bpf::Packet::in_two(seen.front(), seen.rest, wire_len);
                let keep = filter.run(&packet) as usize;
                (keep > 0).then(|| copied(seen, keep, link, wire_len))
            });
            if let Some(Some(packet)) = looked {
                counted.matched += 1;
                return Ok(Next::Packet(packet));
            }
        }
        Ok(Next::Later)
    }

    fn counted(&mut self) -> Result<Vec<Counted>> {
        self.counted.dropped = self.watch.lost();
        Ok(vec![self.counted])
    }
}

fn copied(seen: &Seen<'_>, keep: usize, link: LinkKind, wire_len: u32) -> Packet {
    let mut bytes = [seen.front(), seen.rest].concat();
    finish(&mut bytes, seen);
    bytes.truncate(keep);
    Packet {
        time_ns: seen.time_ns,
        link,
        port: 0,
        direction: Some(if seen.is_sent { Direction::Out } else { Direction::In }),
        wire_len,
        segment_bytes: seen.segment_bytes,
        bytes,
    }
}

/// The checksum that the device would write.
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
