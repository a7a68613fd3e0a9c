//! The laws for one connection after each step, and for each segment that it sends: those of the
//! simulator's oracles that can be checked at one end alone.
//!
//! Called by: the bench. RFC 9293 sections 3.4, 3.8.6 and 3.10, RFC 7323 section 2.4, RFC 6298
//! section 2, RFC 5681 section 3.1.

use base::{Duration, Instant, Limit, SeqNumber, Switch};
use mbuf::{Flags as MbufFlags, Mbuf};
use tcp::{Config, Cx, Opening, State, Tcb};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Flags, HEADER_LEN, Header, Options};

/// As in the simulator: RFC 6298 rule 2.5 allows 60 s or more, ours is 120 s.
const RTO_MAX: Duration = Duration::from_secs(120);
/// A buffer that a user filled is taken whole, however little room there is.
const UNIT_MAX: usize = 65_536;

/// The settings that a connection began with, and what it has sent so far.
pub(crate) struct Laws {
    opening: Opening,
    rto_min: Duration,
    /// The most that buffers were ever configured to be.
    receive_most: usize,
    send_most: usize,
    /// The furthest right edge that it offered.
    edge: Option<SeqNumber>,
}

impl Laws {
    pub(crate) fn new(opening: &Opening, config: &Config) -> Laws {
        let mut laws = Laws {
            opening: *opening,
            rto_min: config.rto_min,
            receive_most: 1 << 16,
            send_most: 0,
            edge: None,
        };
        laws.configured(config);
        laws
    }

    /// The connection has these settings now; data that was admitted under the old ones may still
    /// be there.
    pub(crate) fn configured(&mut self, config: &Config) {
        let receive = config.receive_buffer_bytes.max(config.receive_buffer_max_bytes);
        let send = config.send_buffer_bytes.max(config.send_buffer_max_bytes);
        self.receive_most = self.receive_most.max(receive as usize);
        self.send_most = self.send_most.max(send as usize);
    }

    /// Where in our stream a sequence number is; scripts are far shorter than four gigabytes.
    pub(crate) fn place(&self, seq: SeqNumber) -> u64 {
        u64::from((seq - 1).since(self.opening.iss) as u32)
    }

    /// A segment leaves; `window` was the peer's right edge and `fresh` SND.NXT before the visit.
    pub(crate) fn sent(
        &mut self,
        tcb: &Tcb,
        cx: &Cx,
        m: &Mbuf,
        header: &Header,
        options: &Options,
        (window, fresh): (SeqNumber, SeqNumber),
    ) {
        let len = (m.len() - header.header_len) as u32;
        self.checksum(cx, m);
        self.size(m, header, len);
        self.edges(tcb, header, options);
        let end = header.seq
            + len
            + u32::from(header.flags.contains(Flags::SYN))
            + u32::from(header.flags.contains(Flags::FIN));
        assert!(header.seq.ge(tcb.snd_una - 1), "before SND.UNA: {header:?}");
        assert!(end.le(tcb.snd_nxt), "beyond SND.NXT: {header:?} and {len} bytes");
        if len > 0 && header.seq.ge(fresh) {
            let over = (header.seq + len).since(window);
            assert!(over <= 0, "{over} bytes beyond the peer's window: {header:?}");
        }
        if header.flags.contains(Flags::ACK) {
            assert_eq!(header.ack, tcb.rcv_nxt, "it acknowledges something else: {header:?}");
        } else {
            assert!(header.flags.contains(Flags::SYN), "neither SYN nor ACK: {header:?}");
        }
        let ports = self.opening.ports;
        assert_eq!((header.src_port, header.dst_port), ports);
    }

    fn checksum(&self, cx: &Cx, m: &Mbuf) {
        let pseudo = self.opening.pseudo_sum.plus(Sum::of_be16(m.len() as u16));
        let field = [m.as_slice()[16], m.as_slice()[17]];
        if self.opening.offload_checksum {
            assert!(m.has(MbufFlags::CSUM_PARTIAL) && field == pseudo.0.to_ne_bytes());
        } else if cx.switches.on(Switch::ChecksumTx) {
            let sum = pseudo.plus(Ladder::Byte.sum(m.as_slice()));
            assert!(sum.is_whole(), "a wrong checksum in {:x?}", m.as_slice());
        } else {
            assert_eq!(field, [0, 0]);
        }
    }

    /// Each piece with its options fits the port's packets.
    fn size(&self, m: &Mbuf, header: &Header, len: u32) {
        let options = header.header_len - HEADER_LEN;
        let mss = self.opening.mss.bytes();
        let piece = match m.segment_size() {
            0 => len as usize,
            size => {
                assert!(len <= self.opening.super_max_bytes, "a super-segment of {len} bytes");
                usize::from(size)
            }
        };
        let fits = len == 0 || piece + options <= mss;
        assert!(fits, "{piece} bytes and {options} of options where {mss} fit");
    }

    /// The right edge does not fall back, but for the rounding of its scale.
    pub(super) fn edges(&mut self, tcb: &Tcb, header: &Header, options: &Options) {
        if header.flags.contains(Flags::SYN) {
            assert!(options.mss == Some(self.opening.mss.0), "its SYN offers {options:?}");
        } else {
            assert!(options.mss.is_none() && options.window_scale.is_none());
            assert!(!options.sack_permitted);
        }
        if !header.flags.contains(Flags::ACK) || header.flags.contains(Flags::RST) {
            return;
        }
        if header.flags.contains(Flags::SYN) && header.window == u16::MAX {
            // A SYN that is sent again cannot offer more (RFC 7323 section 2.2), whatever an ACK
            // between the two offered.
            return;
        }
        let shift = if header.flags.contains(Flags::SYN) { 0 } else { tcb.rcv_wscale.shift() };
        let edge = header.ack + (u32::from(header.window) << shift);
        let unit = 1u32 << tcb.rcv_wscale.shift();
        if let Some(last) = self.edge {
            let back = last.since(edge);
            assert!(back < unit as i32, "the edge falls back by {back} (unit {unit}): {header:?}");
        }
        self.edge = Some(self.edge.map_or(edge, |last| last.max(edge)));
    }

    /// Check the laws after any step.
    pub(crate) fn check(&self, tcb: &Tcb, cx: &Cx) {
        let info = tcb.info();
        assert!(tcb.snd_una.le(tcb.snd_nxt), "SND.UNA is past SND.NXT");
        assert!(tcb.rcv_adv.ge(tcb.rcv_nxt), "RCV.NXT is past the window");
        assert!(info.unread <= self.receive_most, "{} bytes wait for the reader", info.unread);
        let queued = info.unsent + info.in_flight as usize;
        assert!(queued <= self.send_most + UNIT_MAX, "{queued} bytes wait to be sent");
        let known = u64::from(info.sacked_bytes) + u64::from(info.lost_bytes);
        assert!(known <= u64::from(info.in_flight), "{known} of {} in flight", info.in_flight);
        assert!((self.rto_min..=RTO_MAX).contains(&info.rto), "a time-out of {:?}", info.rto);
        assert!(info.srtt <= cx.now.since(Instant::ZERO), "a round trip of {:?}", info.srtt);
        let budget = &cx.budget;
        let most = budget.of(Limit::ReceiveBufferBytes).min(budget.of(Limit::MbufBytes) / 2);
        assert!(budget.reserved(Limit::ReceiveBufferBytes) <= most, "more than the budget");
        if info.state.is_synchronised() {
            self.congestion_window(&info);
        }
    }

    /// The window grows by acknowledged bytes and by nothing else.
    fn congestion_window(&self, info: &tcp::Info) {
        let mss = self.opening.mss.bytes() as u64;
        let sacked = if info.algorithm == "bbr" { u64::from(info.in_flight) } else { 0 };
        let most = 14_600.max(2 * mss) + info.bytes_acked + sacked + 4 * mss;
        assert!(info.cwnd <= most, "cwnd {} with {} acknowledged", info.cwnd, info.bytes_acked);
        // If all data in flight is lost, it is sent again whatever the window is, and ACKs of that
        // set the window. With nothing in flight no ACK would come.
        assert!(info.cwnd > 0 || info.in_flight > 0, "a congestion window of nothing: {info:?}");
    }

    /// After a visit that was not short of buffers, data in flight has a deadline.
    pub(crate) fn visited(&self, tcb: &Tcb) {
        let over = matches!(tcb.state, State::Closed | State::TimeWait);
        let waits = tcb.in_flight() > 0 && tcb.next_deadline() == Instant::NEVER;
        assert!(over || !waits, "{} bytes in flight and no deadline", tcb.in_flight());
    }
}
