//! One direction of a connection: the state that the rules need, counts, and the points of its
//! graph.
//!
//! Called by: `connection` and `rules`.

use base::SeqNumber;
use wire::tcp::Flags;

use crate::bins::Bins;
use crate::limits::{BINS_MAX, POINTS_MAX, POINTS_MIN, POINTS_TOTAL};
use crate::marks::{Marks, NAMES};
use crate::outstanding::Outstanding;
use crate::packet::Segment;
use crate::thinned::Thinned;

/// How many points and remembered segments all connections have together, and the current limit of
/// points in a series.
#[derive(Debug)]
pub(crate) struct Used {
    pub(crate) points: usize,
    pub(crate) points_each: usize,
    pub(crate) outstanding: usize,
}

impl Default for Used {
    fn default() -> Used {
        Used { points: 0, points_each: POINTS_MAX, outstanding: 0 }
    }
}

impl Used {
    /// Add a point to a series, within the limits.
    pub(crate) fn push<T: Copy>(&mut self, series: &mut Thinned<T>, point: T) {
        self.points += usize::from(series.push(point));
        self.fit(series);
    }

    /// Shorten a series to the limit.
    pub(crate) fn fit<T: Copy>(&mut self, series: &mut Thinned<T>) {
        let before = series.points().len();
        series.thin(self.points_each);
        self.points -= before - series.points().len();
    }

    /// Count bytes in the interval of their time, within the limits.
    pub(crate) fn count(&mut self, bins: &mut Bins, time_ns: u64, bytes: u64) {
        let before = bins.bytes().len();
        bins.add(time_ns, bytes, self.bins_each());
        self.points = self.points + bins.bytes().len() - before;
    }

    /// Reduce the intervals to the limit.
    pub(crate) fn fit_bins(&mut self, bins: &mut Bins) {
        let before = bins.bytes().len();
        bins.fit(self.bins_each());
        self.points -= before - bins.bytes().len();
    }

    fn bins_each(&self) -> usize {
        self.points_each.min(BINS_MAX)
    }

    /// Are there too many points? Then the limit of each series is halved, and the caller has to
    /// shorten all series to it.
    pub(crate) fn is_over(&mut self) -> bool {
        let over = self.points > POINTS_TOTAL && self.points_each > POINTS_MIN;
        if over {
            self.points_each /= 2;
        }
        over
    }
}

/// A segment with data, a SYN or a FIN. Positions are relative to the SYN, which is at 0, and do
/// not wrap. Without a SYN, the first byte seen is at 1.
#[derive(Clone, Copy, Debug)]
pub struct SegmentPoint {
    /// The time of the segment, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The position of the first byte.
    pub start: i64,
    /// The position after the last byte.
    pub end: i64,
    /// The marks of the segment.
    pub marks: Marks,
}

/// An acknowledgment by the other end.
#[derive(Clone, Copy, Debug)]
pub struct AckPoint {
    /// The time of the ACK, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The position of the next byte that the other end expects.
    pub ack: i64,
    /// The position after the last byte that the other end's window admits.
    pub edge: i64,
}

/// A range that the other end reported by SACK.
#[derive(Clone, Copy, Debug)]
pub struct SackPoint {
    /// The time of the ACK with the SACK block, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The position of the first byte of the range.
    pub start: i64,
    /// The position after the last byte of the range.
    pub end: i64,
}

/// A round trip: the time from a segment to its ACK, as seen where the capture was taken.
#[derive(Clone, Copy, Debug)]
pub struct RttPoint {
    /// When the ACK came, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The length of the round trip.
    pub rtt_ns: u64,
}

/// The points of the time-sequence graph of one direction.
#[derive(Debug, Default)]
pub struct Graph {
    /// Segments with new data.
    pub segments: Thinned<SegmentPoint>,
    /// Segments that were sent again or overtaken.
    pub repeated: Thinned<SegmentPoint>,
    /// The other end's acknowledgments.
    pub acks: Thinned<AckPoint>,
    /// The other end's SACK blocks.
    pub sacks: Thinned<SackPoint>,
    /// Round trips.
    pub round_trips: Thinned<RttPoint>,
    /// Bytes of payload that were sent, counted each time they were sent.
    pub sent: Bins,
    /// Bytes that the other end acknowledged for the first time.
    pub acknowledged: Bins,
}

/// The counts of one direction.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The number of TCP segments.
    pub segments: u64,
    /// The number of segments with payload.
    pub data_segments: u64,
    /// Bytes of payload, counted each time they were sent.
    pub bytes: u64,
    /// Bytes of payload in segments that were sent again.
    pub bytes_again: u64,
    /// The number of SYNs, FINs and RSTs together.
    pub syns: u64,
    /// The number of FINs.
    pub fins: u64,
    /// The number of RSTs.
    pub rsts: u64,
    /// The largest window that the sender of this direction offered, in bytes.
    pub window_max: u64,
    /// The most bytes that were sent and not acknowledged, as seen where the capture was taken.
    pub in_flight_max: u64,
    /// The largest payload of a segment, in bytes.
    pub segment_max: u32,
    /// The number of round trips that were measured.
    pub rtt_count: u64,
    /// The shortest round trip, in ns.
    pub rtt_min_ns: u64,
    /// The longest round trip, in ns.
    pub rtt_max_ns: u64,
    /// The sum of the round trips, in ns.
    pub rtt_sum_ns: u64,
    /// How often each mark was set, in the order of [`NAMES`].
    pub marks: [u64; NAMES.len()],
}

impl Counts {
    /// How often a mark was set.
    pub fn of(&self, mark: Marks) -> u64 {
        self.marks.get(mark.0.trailing_zeros() as usize).copied().unwrap_or(0)
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// The sequence number at position 0.
    pub(crate) base: Option<SeqNumber>,
    /// The greatest position so far. The position of a number that wraps is the one nearest to it.
    highest: i64,
    /// The sequence number after the last byte sent. The rules compare it in sequence space, as
    /// hosts do.
    pub(crate) next: Option<SeqNumber>,
    pub(crate) next_ns: u64,
    /// The last acknowledgment that this side sent.
    pub(crate) last_ack: Option<SeqNumber>,
    pub(crate) last_ack_ns: u64,
    /// The last window field that this side sent, unscaled.
    pub(crate) window: Option<u16>,
    /// The window scale in this side's SYN: `None` if no SYN was seen, `Some(None)` if the SYN had
    /// no scale.
    pub(crate) scale: Option<Option<u8>>,
    /// The MSS in this side's SYN, and whether the SYN permits SACK.
    pub(crate) mss: Option<u16>,
    pub(crate) sack_permitted: bool,
    /// How many duplicate ACKs this side has sent in a row.
    pub(crate) duplicate_acks: u32,
    /// The sequence number after the last byte that the other end can acknowledge, as far as the
    /// capture shows.
    pub(crate) ackable: Option<SeqNumber>,
    /// The marks of this side's last segment.
    pub(crate) last_marks: Marks,
    pub(crate) outstanding: Outstanding,
    /// The position up to which the other end has acknowledged.
    acked: i64,
    pub(crate) counts: Counts,
    pub(crate) graph: Graph,
}

impl Side {
    /// The position of a sequence number of this direction: the one nearest to the greatest
    /// position so far.
    pub(crate) fn position(&self, number: SeqNumber) -> i64 {
        let base = self.base.unwrap_or(number - 1);
        self.highest + i64::from(number.since(base + self.highest as u32))
    }

    /// Count a segment of this direction, and add its points to the graph.
    pub(crate) fn sent(&mut self, segment: &Segment, marks: Marks, used: &mut Used) {
        let counts = &mut self.counts;
        counts.segments += 1;
        counts.data_segments += u64::from(segment.len > 0);
        counts.bytes += u64::from(segment.len);
        counts.segment_max = counts.segment_max.max(segment.len);
        if marks.intersects(Marks::RETRANSMISSION) {
            counts.bytes_again += u64::from(segment.len);
        }
        counts.syns += u64::from(segment.flags.contains(Flags::SYN));
        counts.fins += u64::from(segment.flags.contains(Flags::FIN));
        counts.rsts += u64::from(segment.flags.contains(Flags::RST));
        for (index, (mark, _)) in NAMES.iter().enumerate() {
            counts.marks[index] += u64::from(marks.contains(*mark));
        }
        if segment.space() == 0 {
            return;
        }
        used.count(&mut self.graph.sent, segment.time_ns, u64::from(segment.len));
        let start = self.position(segment.seq);
        let end = start + i64::from(segment.space());
        self.highest = self.highest.max(end);
        let in_flight = u64::try_from(self.highest - self.acked).unwrap_or(0);
        self.counts.in_flight_max = self.counts.in_flight_max.max(in_flight);
        let point = SegmentPoint { time_ns: segment.time_ns, start, end, marks };
        let old = Marks::RETRANSMISSION.0 | Marks::OUT_OF_ORDER.0;
        let series = match marks.intersects(Marks(old)) {
            true => &mut self.graph.repeated,
            false => &mut self.graph.segments,
        };
        used.push(series, point);
        if !marks.intersects(Marks::KEEP_ALIVE) {
            let time_ns = (!marks.intersects(Marks(old))).then_some(segment.time_ns);
            self.outstanding.add([start, end], time_ns, &mut used.outstanding);
        }
    }

    /// Count an acknowledgment by the other end, and add its points to the graph. `window` is
    /// scaled.
    pub(crate) fn acknowledged(&mut self, segment: &Segment, window: u64, used: &mut Used) {
        if self.base.is_none() {
            self.base = Some(segment.ack - 1);
            self.highest = 1;
        }
        let (time_ns, ack) = (segment.time_ns, self.position(segment.ack));
        let edge = ack + i64::try_from(window).unwrap_or(0);
        used.push(&mut self.graph.acks, AckPoint { time_ns, ack, edge });
        for (left, right) in segment.options.sack.iter() {
            let (start, end) = (self.position(left), self.position(right));
            used.push(&mut self.graph.sacks, SackPoint { time_ns, start, end });
        }
        if ack > self.acked {
            // The SYN, at position 0, is not a byte of the stream.
            let new = u64::try_from(ack - self.acked.max(1)).unwrap_or(0);
            used.count(&mut self.graph.acknowledged, time_ns, new);
            self.acked = ack;
        }
        let sent_ns = self.outstanding.acked(ack, &mut used.outstanding);
        let Some(rtt_ns) = sent_ns.and_then(|sent_ns| time_ns.checked_sub(sent_ns)) else { return };
        let counts = &mut self.counts;
        counts.rtt_min_ns = match counts.rtt_count {
            0 => rtt_ns,
            _ => counts.rtt_min_ns.min(rtt_ns),
        };
        counts.rtt_max_ns = counts.rtt_max_ns.max(rtt_ns);
        counts.rtt_sum_ns = counts.rtt_sum_ns.saturating_add(rtt_ns);
        counts.rtt_count += 1;
        used.push(&mut self.graph.round_trips, RttPoint { time_ns, rtt_ns });
    }

    /// Shorten all series to the limit.
    pub(crate) fn fit(&mut self, used: &mut Used) {
        used.fit(&mut self.graph.segments);
        used.fit(&mut self.graph.repeated);
        used.fit(&mut self.graph.acks);
        used.fit(&mut self.graph.sacks);
        used.fit(&mut self.graph.round_trips);
        used.fit_bins(&mut self.graph.sent);
        used.fit_bins(&mut self.graph.acknowledged);
    }
}
