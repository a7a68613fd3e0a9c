//! Bulk data of Linux, recorded at a TAP without offload (`record.rs`), kept as header fields
//! (`bench/recordings`), and replayed to a stack of ours (`replay.rs`).
//!
//! Called by `icount.rs` and `main.rs`. A recording is a list of data segments in the order in
//! which they were read. Payloads, and the fields that depend on the receiver (its sequence
//! numbers, its clock), are made anew for a replay. `wirespeed-bench record v4|v6|flows FILE` makes
//! a recording.

mod live;
mod record;
mod replay;

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use base::SeqNumber;
pub use live::{Live, live};
pub use record::{Kind, record};
pub use replay::{COUNTED, Ids, replay};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Flags, HEADER_LEN, Options};
use wire::{ether, ipv4, ipv6, protocol, tcp};

/// The header fields of a recorded data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of its connection.
    pub flow: u8,
    /// TCP control bits.
    pub flags: u8,
    /// Traffic class (IPv6) or type of service (IPv4).
    pub tos: u8,
    /// Was the segment the first one of a burst?
    pub starts_burst: bool,
    /// Bytes of payload.
    pub len: u16,
    /// The window field.
    pub window: u16,
    /// IPv4's identification; 0 for IPv6.
    pub id: u16,
    /// By how many milliseconds the sender's timestamp clock had advanced since the flow's first
    /// segment.
    pub value: u16,
    /// By how many milliseconds our clock, which the segment echoes, had advanced since that
    /// segment.
    pub echo: u16,
}

/// Bytes that a segment occupies in a file.
const SEGMENT: usize = 14;
const MAGIC: &[u8; 4] = b"WSR1";

/// The data segments of some connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Are the segments IPv6? Otherwise they are IPv4.
    pub v6: bool,
    /// The number of connections.
    pub flows: u8,
    /// Data segments, as they were read.
    pub segments: Vec<Segment>,
}

impl Recording {
    /// Reads a recording from a file's bytes.
    ///
    /// # Errors
    /// The bytes are not a recording; the text says why.
    pub fn parse(bytes: &[u8]) -> Result<Recording> {
        let (head, body) = bytes.split_at_checked(6).context("too short for a recording")?;
        ensure!(head.starts_with(MAGIC), "not a recording");
        ensure!(body.len().is_multiple_of(SEGMENT), "the recording ends inside a segment");
        let (v6, flows) = (head[4] == 6, head[5]);
        let segments: Vec<Segment> = body.chunks_exact(SEGMENT).map(Segment::parse).collect();
        ensure!(segments.iter().all(|s| s.flow < flows), "a segment has the number of no flow");
        ensure!(!segments.is_empty(), "the recording has no segments");
        Ok(Recording { v6, flows, segments })
    }

    /// The same segments in the order in which a sender without GSO would send them: one segment of
    /// each flow in turn, until a flow has none left.
    pub fn by_segment(&self) -> Recording {
        let mut flows: Vec<_> = (0..self.flows)
            .map(|flow| self.segments.iter().filter(move |s| s.flow == flow).copied())
            .collect();
        let mut segments = Vec::new();
        while segments.len() < self.segments.len() {
            segments.extend(flows.iter_mut().filter_map(Iterator::next));
        }
        Recording { segments, ..self.clone() }
    }

    /// A summary in one line: how often two consecutive segments differ in their flow, and in each
    /// field that must be the same for the second segment to follow the first.
    pub fn summary(&self) -> String {
        let pairs = || self.segments.windows(2).map(|pair| (&pair[0], &pair[1]));
        let others = pairs().filter(|(a, b)| a.flow != b.flow).count();
        let ticks = pairs().filter(|(a, b)| a.flow == b.flow && a.value != b.value).count();
        let echoes = pairs().filter(|(a, b)| a.flow == b.flow && a.echo != b.echo).count();
        let windows = pairs().filter(|(a, b)| a.flow == b.flow && a.window != b.window).count();
        let flags = pairs().filter(|(a, b)| a.flow == b.flow && a.flags != b.flags).count();
        let lens = pairs().filter(|(a, b)| a.flow == b.flow && a.len != b.len).count();
        let bursts = self.segments.iter().filter(|s| s.starts_burst).count();
        format!(
            "{} segments of {} flows in {bursts} bursts; from one to the next changed: flow \
             {others}, timestamp {ticks}, echo {echoes}, window {windows}, flags {flags}, length \
             {lens}",
            self.segments.len(),
            self.flows
        )
    }

    /// The file's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([if self.v6 { 6 } else { 4 }, self.flows]);
        self.segments.iter().for_each(|s| out.extend(s.bytes()));
        out
    }
}

impl Segment {
    fn parse(b: &[u8]) -> Segment {
        let word = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        Segment {
            flow: b[0],
            flags: b[1],
            tos: b[2],
            starts_burst: b[3] != 0,
            len: word(4),
            window: word(6),
            id: word(8),
            value: word(10),
            echo: word(12),
        }
    }

    fn bytes(&self) -> [u8; SEGMENT] {
        let mut out = [0; SEGMENT];
        out[..4].copy_from_slice(&[self.flow, self.flags, self.tos, u8::from(self.starts_burst)]);
        let words = [self.len, self.window, self.id, self.value, self.echo];
        for (place, word) in out[4..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests;

/// Both ends of a connection: the peer's address and port, then ours.
#[derive(Clone, Copy, Debug)]
struct Ends {
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    macs: [base::MacAddr; 2],
}

/// The header fields of a segment.
#[derive(Clone, Copy, Debug)]
struct Says {
    seq: SeqNumber,
    ack: SeqNumber,
    flags: Flags,
    window: u16,
    options: Options,
    tos: u8,
    id: u16,
}

/// The whole frame, with correct lengths and checksums.
fn frame(ends: &Ends, says: &Says, payload: &[u8]) -> Vec<u8> {
    let mut options = [0; tcp::OPTIONS_LEN_MAX];
    let options_len = says.options.emit(&mut options);
    let header_len = HEADER_LEN + options_len;
    let mut segment = vec![0; header_len];
    let header = tcp::Header {
        src_port: ends.from.1,
        dst_port: ends.to.1,
        seq: says.seq,
        ack: says.ack,
        header_len,
        flags: says.flags,
        window: says.window,
        urgent: 0,
    };
    header.emit(&mut segment);
    segment[HEADER_LEN..].copy_from_slice(&options[..options_len]);
    segment.extend_from_slice(payload);
    let (ethertype, ip, pseudo) = ip_header(ends, says, segment.len() as u16);
    let length = Sum::of_be16(segment.len() as u16);
    let sum = pseudo.plus(length).plus(Ladder::best().sum(&segment));
    tcp::set_checksum(&mut segment, sum.field());
    let mut frame = vec![0; ether::HEADER_LEN];
    ether::Header { dst: ends.macs[1], src: ends.macs[0], ethertype }.emit(&mut frame);
    frame.extend(ip);
    frame.extend(segment);
    frame
}

fn ip_header(ends: &Ends, says: &Says, len: u16) -> (u16, Vec<u8>, Sum) {
    match (ends.from.0, ends.to.0) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut bytes = vec![0; ipv6::HEADER_LEN];
            let header = ipv6::Header {
                traffic_class: says.tos,
                // Linux sets a flow label by default.
                flow_label: 0x5_1234,
                payload_len: len,
                next_header: protocol::TCP,
                hop_limit: 64,
                src,
                dst,
            };
            header.emit(&mut bytes);
            (ether::IPV6, bytes, Sum::pseudo_v6(src, dst, protocol::TCP))
        }
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut bytes = vec![0; ipv4::HEADER_LEN];
            let header = ipv4::Header {
                header_len: ipv4::HEADER_LEN,
                tos: says.tos,
                total_len: len + ipv4::HEADER_LEN as u16,
                id: says.id,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: protocol::TCP,
                src,
                dst,
            };
            header.emit(&mut bytes);
            (ether::IPV4, bytes, Sum::pseudo_v4(src, dst, protocol::TCP))
        }
        _ => (0, Vec::new(), Sum::ZERO),
    }
}
