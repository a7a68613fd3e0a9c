//! `wirespeed dump --segment`: cuts each captured super-segment (up to 64 KB of TCP under one
//! header) into the packets that the device sends for it.
//!
//! Called by: `run.rs`, for each packet. A super-segment that was captured only in part cannot be
//! cut, and passes unchanged.

use wirespeed::Pool;

use super::source::Packet;

/// Bytes of buffers: enough for one super-segment and its parts.
const POOL_BYTES: usize = 16 << 20;

/// Cuts packets.
pub(crate) struct Cutter(Pool);

impl Cutter {
    pub(crate) fn new() -> Cutter {
        Cutter(Pool::new(POOL_BYTES))
    }

    /// The packets into which the device cuts this one, in order; the packet itself if it is no
    /// super-segment.
    pub(crate) fn cut(&mut self, packet: Packet) -> Vec<Packet> {
        let is_whole = packet.bytes.len() == packet.wire_len as usize;
        let frame =
            (packet.segment_bytes > 0 && is_whole).then(|| self.0.copy_of(&packet.bytes)).flatten();
        let (Some(mut frame), Some(kind)) = (frame, packet.link.kind()) else {
            return vec![packet];
        };
        frame.set_segment_size(packet.segment_bytes);
        let mut parts = Vec::new();
        let lost = link::cut(frame, kind, &mut self.0, |part, pool| {
            let bytes = part.as_slice().to_vec();
            let wire_len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            parts.push(Packet { bytes, wire_len, segment_bytes: 0, ..packet.clone() });
            pool.free(part);
        });
        if lost > 0 { vec![packet] } else { parts }
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::Link;
    use super::*;

    #[test]
    fn a_packet_that_is_no_super_segment_passes_as_it_is() {
        let packet = Packet {
            time_ns: 5,
            link: Link::RAW,
            port: 0,
            direction: None,
            wire_len: 40,
            segment_bytes: 0,
            bytes: vec![0x45; 40],
        };
        assert_eq!(Cutter::new().cut(packet.clone()), std::slice::from_ref(&packet));
        let cut_off = Packet { segment_bytes: 10, wire_len: 60, ..packet };
        assert_eq!(Cutter::new().cut(cut_off.clone()), [cut_off]);
    }
}
