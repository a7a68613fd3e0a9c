//! The taps of a port. Each tap is shown every frame, without a copy, as the device delivered it or
//! will get it.
//!
//! Called by: `rx.rs` before other code may change a burst, `port.rs` after all other code has.
//! Counters: each tap's own ([`bpf::Counters`]).
//!
//! A frame is filtered in place, and copied only if it matches. A checksum that the device would
//! have finished is finished in the copy; that of a super-segment, as if it left in one piece. A
//! reader that wants the segments as they are on the wire cuts the super-segment
//! ([`bpf::Record::segment_bytes`]).

use base::{Instant, LinkKind, WallTime};
use bpf::{Direction, Packet, Shown, Tap};
use device::vlan::Tags;
use mbuf::{Flags, Mbuf};
use wire::checksum::Ladder;
use wire::{protocol, tcp, udp, vlan};

/// The number of a tap. No later tap gets the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapId(u64);

impl TapId {
    /// The number, to pass it to another process.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The tap with this number; an unknown number finds none.
    pub fn of_number(number: u64) -> TapId {
        TapId(number)
    }
}

/// A tap, and by how much the time of day is ahead of the stack's time.
struct Entry {
    id: TapId,
    tap: Tap,
    wall_ahead_ns: u64,
}

/// All taps of a port.
#[derive(Default)]
pub(crate) struct Taps(Vec<Entry>);

impl Taps {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        cfg!(wirespeed_untapped) || self.0.is_empty()
    }

    pub(crate) fn add(&mut self, id: TapId, tap: Tap, wall_ahead_ns: u64) {
        self.0.push(Entry { id, tap, wall_ahead_ns });
    }

    pub(crate) fn get_mut(&mut self, id: TapId) -> Option<&mut Tap> {
        self.0.iter_mut().find(|entry| entry.id == id).map(|entry| &mut entry.tap)
    }

    pub(crate) fn remove(&mut self, id: TapId) -> Option<Tap> {
        let at = self.0.iter().position(|entry| entry.id == id)?;
        Some(self.0.remove(at).tap)
    }

    /// Show frames to the taps.
    #[cold]
    pub(crate) fn show(
        &mut self,
        direction: Direction,
        frames: &[Mbuf],
        (link, tags): (LinkKind, Tags),
        now: Instant,
    ) {
        for Entry { tap, wall_ahead_ns, .. } in &mut self.0 {
            let time = WallTime(now.as_nanos().wrapping_add(*wall_ahead_ns));
            if !tags.is_empty() {
                show_tagged(tap, frames, tags, (direction, time));
                continue;
            }
            let shown = frames.iter().map(|frame| {
                let (packet, segment_bytes) =
                    (Packet::whole(frame.as_slice()), frame.segment_size());
                (Shown { packet, direction, time, segment_bytes }, frame)
            });
            tap.see(shown, |frame, copy| {
                let _ = finish(copy, frame, (link, 0));
            });
        }
    }
}

/// Show frames of a port of a trunk, with the tags that they have on the wire and that the port
/// removes.
#[cold]
fn show_tagged(
    tap: &mut Tap,
    frames: &[Mbuf],
    tags: Tags,
    (direction, time): (Direction, WallTime),
) {
    for frame in frames {
        let Some(front) = tags.front(frame) else { continue };
        let wire_len = (frame.len() + front.tag_bytes()) as u32;
        let packet = Packet::in_two(front.bytes(), front.rest(frame), wire_len);
        let shown = Shown { packet, direction, time, segment_bytes: frame.segment_size() };
        tap.see(core::iter::once((shown, frame)), |frame, copy| {
            let _ = finish(copy, frame, (LinkKind::Ethernet, front.tag_bytes()));
        });
    }
}

/// Write the checksum that the device would write into a copy of `frame`, or of its beginning. The
/// copy has `tag_bytes` more bytes in front. `None` if there is nothing to finish, or if the copy
/// ends before the field.
fn finish(copy: &mut [u8], frame: &Mbuf, (link, tag_bytes): (LinkKind, usize)) -> Option<()> {
    if !frame.has(Flags::CSUM_PARTIAL) {
        return None;
    }
    let (bytes, start) = (frame.as_slice(), usize::from(frame.csum()));
    let ip = bytes.get(vlan::ip_at(bytes, link)?..)?;
    let protocol = if ip.first()? >> 4 == 6 { ip.get(6)? } else { ip.get(9)? };
    // The checksum field contains the pseudo-header's sum.
    let sum = Ladder::best().sum(bytes.get(start..)?);
    let (field, bytes) = match *protocol {
        protocol::TCP => (start + tcp::CHECKSUM_OFFSET, sum.field()),
        protocol::UDP => (start + udp::CHECKSUM_OFFSET, udp::checksum_field(sum)),
        _ => return None,
    };
    let field = field + tag_bytes;
    copy.get_mut(field..field + 2)?.copy_from_slice(&bytes);
    Some(())
}
