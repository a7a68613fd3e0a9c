//! The script's end of the wire: turns lines into frames and frames into lines, with checksums in
//! both directions.

use core::net::IpAddr;

use base::{Instant, IpVersion, LinkKind, MacAddr, SeqNumber, WindowScale};
use device::{Burst, Device, mem};
use inet::HeaderTemplate;
use inet::ip_input::{ipv4_any, ipv6_any, pseudo_sum};
use inet::ip_output::Fields;
use mbuf::{Mbuf, Pool};
use wire::checksum::{Ladder, Sum};
use wire::protocol;
use wire::tcp::{FastOpen, Flags, Header, Options, SackBlocks, Timestamps, set_checksum};

use super::seg::Seg;
use crate::pair::{self, End, PairConfig};

/// The script's initial sequence number: its sequence numbers wrap after 2 KB.
const PEER_ISN: SeqNumber = SeqNumber(u32::MAX - 2000);

/// Bytes `from..from + len` of the stream that both sides send.
pub(super) fn stream(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i * 31 + i / 256 * 7) as u8).collect()
}

pub(super) struct WireEnd {
    device: mem::Mem,
    pub(super) pool: Pool,
    pub(super) addr: IpAddr,
    pub(super) stack_addr: IpAddr,
    /// The script's port and the stack's.
    pub(super) ports: (u16, u16),
    /// The script's initial sequence number.
    pub(super) isn: SeqNumber,
    /// The stack's initial sequence number, once its SYN has arrived.
    pub(super) stack_isn: SeqNumber,
    /// Defaults for fields of lines: the next sequence number, and the stack's last one, both
    /// relative.
    pub(super) next_seq: i64,
    pub(super) stack_next: i64,
    /// Whether timestamps were agreed on, and the last TSval of the stack.
    pub(super) timestamps: bool,
    pub(super) last_ts: u32,
    syn_had_ts: bool,
    /// Whether to send wrong checksums.
    pub(super) corrupt: bool,
}

impl WireEnd {
    pub(super) fn new(config: &PairConfig) -> (End, WireEnd) {
        let (left, right) = mem::pair(&config.wire);
        let end = pair::end(config, left, 1);
        let [v4, v6] = pair::addresses(2);
        let addr = if config.version == IpVersion::V4 { v4.addr } else { v6.addr };
        let wire = WireEnd {
            device: right,
            pool: Pool::new(64 << 20),
            addr,
            stack_addr: end.addr,
            ports: (0, 0),
            isn: PEER_ISN,
            stack_isn: SeqNumber(0),
            next_seq: 0,
            stack_next: 0,
            timestamps: false,
            last_ts: 0,
            syn_had_ts: false,
            corrupt: false,
        };
        (end, wire)
    }

    /// The script's clock at `now` as a TSval: 1000 plus the milliseconds.
    pub(super) fn clock(now: Instant) -> u32 {
        (1000 + now.as_millis()) as u32
    }

    /// Fills in the fields that a line does not set.
    pub(super) fn complete(&mut self, line: &Seg, win: u16, now: Instant) -> Seg {
        let mut s = line.clone();
        s.seq.get_or_insert(self.next_seq);
        if s.has(Flags::ACK) {
            s.ack.get_or_insert(self.stack_next);
        }
        s.win.get_or_insert(win);
        if s.has(Flags::SYN) {
            self.syn_had_ts = s.ts.is_some();
        } else if self.timestamps && !s.no_ts && s.ts.is_none() {
            s.ts = Some((WireEnd::clock(now), self.last_ts));
        }
        let end = s.seq.unwrap_or(0) + s.space();
        if !s.has(Flags::RST) {
            self.next_seq = self.next_seq.max(end);
        }
        s
    }

    /// The next segments belong to another connection, with this initial sequence number.
    pub(super) fn new_connection(&mut self, isn: u32) {
        self.isn = SeqNumber(isn);
        (self.next_seq, self.stack_next) = (0, 0);
    }

    pub(super) fn send(&mut self, s: &Seg) {
        let seq = self.isn + s.seq.unwrap_or(0) as u32;
        let mut area = [0; 40];
        let options_len = self.emit_options(s, &mut area);
        let header = Header {
            src_port: self.ports.0,
            dst_port: self.ports.1,
            seq,
            ack: s.ack.map_or(SeqNumber(0), |a| self.stack_isn + a as u32),
            header_len: 20 + options_len,
            flags: Flags(s.flags),
            window: s.win.unwrap_or(0),
            urgent: s.urgent,
        };
        let from = (s.seq.unwrap_or(0) + i64::from(s.has(Flags::SYN)) - 1).max(0) as usize;
        let mut data = stream(from, s.len);
        if let Some(byte) = s.fill {
            data.fill(byte);
        }
        let mut m = self.pool.copy_of(&data).expect("memory");
        let head = m.prepend(20 + options_len).expect("headroom");
        assert!(header.emit(head));
        head[20..].copy_from_slice(&area[..options_len]);
        let sum = self.sum(m.as_slice());
        let [a, b] = sum.field();
        set_checksum(m.headers_mut(20).expect("ours"), [a, b ^ u8::from(self.corrupt)]);
        let tos = s.ecn.unwrap_or(0);
        let fields =
            Fields { src: self.addr, dst: self.stack_addr, protocol: protocol::TCP, tos, ttl: 64 };
        let none = MacAddr::default();
        HeaderTemplate::new(LinkKind::Ip, none, none, &fields).prepend(&mut m).expect("fits");
        let mut burst = Burst::new();
        burst.push(m);
        assert_eq!(self.device.tx_burst(&mut self.pool, &mut burst), 1);
    }

    fn emit_options(&self, s: &Seg, area: &mut [u8; 40]) -> usize {
        if let Some(raw) = &s.raw_options {
            area[..raw.len()].copy_from_slice(raw);
            return raw.len();
        }
        let mut sack = SackBlocks::EMPTY;
        for &(left, right) in s.sacks.iter().flatten() {
            sack.push(self.stack_isn + left as u32, self.stack_isn + right as u32);
        }
        let options = Options {
            mss: s.mss,
            window_scale: s.ws.map(WindowScale::new),
            sack_permitted: s.sack_ok == Some(true),
            timestamps: s.ts.map(|(value, echo)| Timestamps { value, echo }),
            sack,
            user_timeout_s: s.uto,
            fast_open: s.fast_open.as_ref().and_then(|cookie| FastOpen::new(cookie, false)),
        };
        options.emit(area)
    }

    /// The checksum of a segment with its pseudo-header.
    fn sum(&self, segment: &[u8]) -> Sum {
        pseudo_sum(self.addr, self.stack_addr, protocol::TCP)
            .plus(Sum::of_be16(segment.len() as u16))
            .plus(Ladder::best().sum(segment))
    }

    /// All segments that the stack has sent.
    pub(super) fn receive(&mut self) -> Vec<Seg> {
        let mut lines = Vec::new();
        loop {
            let mut burst = Burst::new();
            if self.device.rx_burst(&mut self.pool, &mut burst) == 0 {
                self.pool.flush();
                return lines;
            }
            for m in burst {
                lines.push(self.parse(&m));
                self.pool.free(m);
            }
        }
    }

    fn parse(&mut self, m: &Mbuf) -> Seg {
        let packet = m.as_slice();
        let place = if packet[0] >> 4 == 6 {
            ipv6_any(packet).map(|(ip, _)| (ip.transport_at, ip.transport_len, ip.tos))
        } else {
            ipv4_any(packet).map(|(ip, _)| (ip.transport_at, ip.transport_len, ip.tos))
        };
        let (at, len, tos) = place.expect("a sound IP header");
        let segment = &packet[at as usize..(at + len) as usize];
        // RFC 9293 MUST-2.
        assert!(self.sum(segment).is_whole(), "the stack sent a wrong checksum");
        let h = Header::parse(segment).expect("a sound TCP header");
        let options = Options::parse(h.options(segment)).expect("sound options");
        if h.flags.contains(Flags::SYN) {
            self.stack_isn = h.seq;
            self.timestamps = options.timestamps.is_some() && (self.syn_had_ts || h.flags.0 == 2);
            self.stack_next = 1;
        }
        let payload = &segment[h.header_len..];
        let relative = |n: SeqNumber, base: SeqNumber| i64::from(n.since(base));
        let seq = relative(h.seq, self.stack_isn);
        if let Some(ts) = options.timestamps {
            self.last_ts = ts.value;
        }
        if !payload.is_empty() {
            let wanted = stream((seq - 1).max(0) as usize, payload.len());
            let odd = payload.iter().zip(&wanted).position(|(a, b)| a != b);
            assert_eq!(odd, None, "wrong byte of the stream at {seq}, length {}", payload.len());
        }
        let sacks = options.sack.iter();
        let s = Seg {
            flags: h.flags.0,
            seq: Some(seq),
            ack: h.flags.contains(Flags::ACK).then(|| relative(h.ack, self.isn)),
            len: payload.len(),
            win: Some(h.window),
            urgent: h.urgent,
            mss: options.mss,
            ws: options.window_scale.map(|w| w.shift()),
            sack_ok: Some(options.sack_permitted),
            uto: options.user_timeout_s,
            ts: options.timestamps.map(|t| (t.value, t.echo)),
            sacks: Some(
                sacks.map(|(l, r)| (relative(l, self.isn), relative(r, self.isn))).collect(),
            ),
            fast_open: options.fast_open.map(|option| option.cookie().to_vec()),
            size: Some(m.segment_size()),
            ecn: Some(tos & 3),
            ..Seg::default()
        };
        if !s.has(Flags::RST) {
            self.stack_next = self.stack_next.max(seq + s.space());
        }
        s
    }
}
