//! Packets of an interface of this machine, both ways.
//!
//! Called by: `dump.rs`, for `-i`. Must not know: what is printed. A frame is filtered where the
//! kernel put it, and copied if it matches; a checksum that was left to the device is finished in
//! the copy, as on the wire.

use std::time::Duration;

use anyhow::Result;
use bpf::Filter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::checksum::Ladder;
use wirespeed::LinkKind;
use wirespeed::device::packet::{Seen, Watch};

use super::packet::{Direction, Packet};
use super::write::{Counted, Port};
use super::{Next, Source};

/// How long a wait takes at most, so that Ctrl-C is heard.
const WAIT: Duration = Duration::from_millis(100);

/// An interface.
pub(crate) struct Interface {
    name: String,
    watch: Watch,
    filter: Filter,
    counted: Counted,
}

impl Interface {
    /// Begin to watch it; `make` compiles the filter.
    pub(crate) fn open(name: &str, make: impl Fn(LinkKind) -> Result<Filter>) -> Result<Interface> {
        let watch = Watch::open(name, true)?;
        let filter = make(watch.link())?;
        Ok(Interface { name: name.to_owned(), watch, filter, counted: Counted::default() })
    }

    fn wait(&self) {
        let fd = self.watch.as_fd();
        let most = Timespec { tv_sec: 0, tv_nsec: i64::from(WAIT.subsec_nanos()) };
        // Ended early or not: the ring is looked at.
        let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&most));
    }
}

impl Source for Interface {
    fn ports(&self) -> Vec<Port> {
        vec![Port { name: self.name.clone(), link: self.watch.link() }]
    }

    fn next(&mut self) -> Result<Next> {
        let (filter, counted, link) = (&self.filter, &mut self.counted, self.watch.link());
        while self.watch.is_ready() {
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
        self.wait();
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
