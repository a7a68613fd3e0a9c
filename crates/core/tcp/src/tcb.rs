//! The transmission control block: one connection's state, under the names of RFC 9293.
//!
//! Called by: every file of this crate with logic in it; the modules imported here do not import
//! the Tcb. The stack keeps the addresses. The fields that header prediction reads are in the first
//! cache line; a compile-time assertion checks it.

use std::sync::Arc;

use base::{DropReason, Instant, Mss, PerSecond, SeqNumber, Switch, WindowScale};
use mbuf::SockBuf;
use wire::checksum::{Ladder, Sum};

use crate::cc::Cc;
use crate::config::MSS_FLOOR;
use crate::deadlines::Timers;
use crate::early_acks::EarlyAcks;
use crate::marks::{EcnBits, Events, Marks, Todo};
use crate::opening::Opening;
use crate::pacing::Pacing;
use crate::path::mtu::PathMtu;
use crate::rare::{Rare, RareState};
use crate::receive::reass::Reassembly;
use crate::receive::tuning::{Tuning, start_bytes};
use crate::receive::{Paws, ReceivedBlocks};
use crate::recovery::scoreboard::Recovery;
use crate::rtt::Rtt;
use crate::sendq::SendQueue;
use crate::state::{Error, State};
use crate::stats::Stats;
use crate::{Config, Cx};

/// One connection.
#[repr(C)]
pub struct Tcb {
    // Read by header prediction: one cache line.
    /// State of the connection.
    pub state: State,
    /// Work for `output`.
    pub todo: Todo,
    /// The results of the negotiation, and what the user has asked for.
    pub marks: Marks,
    /// Shift for windows we receive.
    pub snd_wscale: WindowScale,
    /// Shift for windows we send.
    pub rcv_wscale: WindowScale,
    /// Largest payload to send in one segment, options already taken off.
    pub snd_mss: Mss,
    /// RCV.NXT: the next byte we expect.
    pub rcv_nxt: SeqNumber,
    /// The right edge of the window we last offered: RCV.NXT + RCV.WND when it was sent.
    pub rcv_adv: SeqNumber,
    /// SND.UNA: the oldest byte not acknowledged.
    pub snd_una: SeqNumber,
    /// SND.NXT: the next byte never sent before.
    pub snd_nxt: SeqNumber,
    /// SND.WND in bytes.
    pub snd_wnd: u32,
    /// SND.WL1: the SEG.SEQ of the last window update.
    pub snd_wl1: SeqNumber,
    /// SND.WL2: the SEG.ACK of the last window update.
    pub snd_wl2: SeqNumber,
    /// TS.Recent of RFC 7323.
    pub ts_recent: u32,
    /// When TS.Recent was set, in units of 2^30 ns.
    pub(crate) ts_recent_at: u32,
    /// The last ACK we sent (Last.ACK.sent of RFC 7323).
    pub last_ack_sent: SeqNumber,
    /// Most bytes ever received between two of our ACKs: the estimate of what the peer can send.
    pub send_space_bytes: u32,
    /// Bytes received since our last ACK.
    pub ack_owed_bytes: u32,
    /// The largest segment that the peer has sent, in bytes. A segment of this size is
    /// "full-sized".
    pub(crate) rcv_mss: u16,
    /// [`Tcb::REPAIRING`], [`Tcb::EARLY`], [`Tcb::OPENING`]; zero in the normal case.
    pub(crate) trouble: u8,
    /// Events to report to the user.
    pub events: Events,
    /// Already on the stack's dirty list.
    pub dirty: bool,
    /// Persist or keepalive probes in a row without an answer.
    pub(crate) probes: u8,
    /// State of explicit congestion notification.
    pub(crate) ecn: EcnBits,

    // Used for every segment or every burst.
    /// Data in order, not yet read.
    pub receive: SockBuf,
    /// Data to send and data in flight.
    pub(crate) sendq: SendQueue,
    pub(crate) timers: Timers,
    pub(crate) rtt: Rtt,
    /// When data was last sent.
    pub(crate) last_sent_at: Instant,
    /// Source and destination port as the first four header bytes, in memory order.
    pub ports: [u8; 4],
    /// Sum of the pseudo-header without the length; the stack computes it once.
    pub pseudo_sum: Sum,
    /// The device of this port finishes transport checksums.
    pub(crate) offload_checksum: bool,
    /// Window scaling was negotiated.
    pub(crate) peer_scales: bool,
    /// Maximum payload of a super-segment in bytes; 0 if the port takes none.
    pub(crate) super_max_bytes: u32,
    /// Added to the clock for TSval (RFC 7323 section 5.4).
    pub(crate) ts_offset: u32,
    pub(crate) pacing: Pacing,
    /// State of receive buffer tuning.
    pub(crate) tuning: Tuning,
    pub(crate) stats: Stats,
    /// State of the checks of the send-space estimate.
    pub(crate) early_acks: EarlyAcks,
    pub(crate) cc: Cc,
    pub(crate) recovery: Rare<Recovery>,
    /// Path MTU: the known sizes, and the search for larger ones.
    pub(crate) path: Rare<PathMtu>,
    pub(crate) sack_blocks: Rare<ReceivedBlocks>,
    pub(crate) reassembly: Reassembly,
    pub(crate) paws: Paws,

    // Rarely read.
    /// Largest window the peer ever offered (RFC 9293 3.8.6.2.1, 5961 section 5.2).
    pub(crate) max_snd_wnd: u32,
    /// Our initial sequence number.
    pub(crate) iss: SeqNumber,
    /// The peer's initial sequence number.
    pub(crate) irs: SeqNumber,
    /// SND.NXT when the window was last reduced, if [`EcnBits::SENDS`].
    pub(crate) ecn_recover: SeqNumber,
    /// When our SYN was first sent.
    pub(crate) syn_sent_at: Instant,
    /// MSS to offer in our SYN.
    pub(crate) advertised_mss: Mss,
    /// The MSS to assume if the peer's SYN has no MSS option.
    pub(crate) default_mss: Mss,
    /// The MSS that fits the MTUs of our link, of the route and of the neighbour.
    pub(crate) link_mss: Mss,
    /// The largest payload that both ends accept in one segment, in bytes.
    pub(crate) agreed_most: u16,
    /// The largest payload of a segment, in bytes, that both ends accept and our link carries.
    pub(crate) path_most: u16,
    /// Why the connection ended.
    pub error: Option<Error>,
    pub(crate) rare: Rare<RareState>,
    pub(crate) challenge_acks: PerSecond,
    pub(crate) out_of_window_acks: PerSecond,
    pub(crate) config: Arc<Config>,
}

/// Time in units of 2^30 ns, a little over a second.
#[inline(always)]
fn coarse(now: Instant) -> u32 {
    (now.as_nanos() >> 30) as u32
}

/// The window scale that the largest possible receive buffer needs.
fn largest_scale(config: &Config) -> WindowScale {
    if !config.window_scaling {
        return WindowScale::default();
    }
    let most = config.receive_buffer_bytes.max(config.receive_buffer_max_bytes);
    WindowScale::for_window(most as usize)
}

fn first_marks(config: &Config) -> Marks {
    let mut marks = Marks::default();
    if config.no_delay {
        marks.set(Marks::NO_DELAY);
    }
    marks
}

fn known_path(opening: &Opening) -> Rare<PathMtu> {
    let mut path: Rare<PathMtu> = Rare::default();
    if opening.path.is_some() {
        path.known = opening.path;
    }
    path
}

const _: () = assert!(core::mem::offset_of!(Tcb, receive) <= 64);

impl Tcb {
    /// Losses are being repaired, duplicate ACKs were seen, or the peer holds out-of-order data.
    pub(crate) const REPAIRING: u8 = 1;
    /// We hold out-of-order data, or a FIN that came early.
    pub(crate) const EARLY: u8 = 2;
    /// In SYN-RECEIVED, but already usable for the user and for data (Fast Open).
    pub(crate) const OPENING: u8 = 4;

    /// A connection in CLOSED. The caller starts it by `usrreq::connect` or
    /// `handshake::passive_open`.
    pub(crate) fn new(config: &Arc<Config>, opening: &Opening) -> Tcb {
        let mut cc = Cc::new(config.algorithm);
        cc.grow_when_half_used(config.compat.growth_when_half_used);
        let mss = Mss(opening.mss.0.min(config.mss_max.max(MSS_FLOOR as u16)));
        Tcb {
            state: State::Closed,
            todo: Todo::default(),
            marks: first_marks(config),
            snd_wscale: WindowScale::default(),
            rcv_wscale: largest_scale(config),
            snd_mss: mss,
            rcv_nxt: SeqNumber(0),
            rcv_adv: SeqNumber(0),
            snd_una: opening.iss,
            snd_nxt: opening.iss,
            snd_wnd: 0,
            snd_wl1: SeqNumber(0),
            snd_wl2: SeqNumber(0),
            ts_recent: 0,
            ts_recent_at: 0,
            last_ack_sent: SeqNumber(0),
            send_space_bytes: 0,
            ack_owed_bytes: 0,
            rcv_mss: mss.0.min(536),
            trouble: 0,
            events: Events::default(),
            dirty: false,
            probes: 0,
            ecn: EcnBits::default(),
            receive: SockBuf::new(start_bytes(config)),
            sendq: SendQueue::default(),
            timers: Timers::default(),
            rtt: Rtt::new(config),
            last_sent_at: Instant::ZERO,
            ports: opening.port_bytes(),
            pseudo_sum: opening.pseudo_sum,
            offload_checksum: opening.offload_checksum,
            peer_scales: false,
            super_max_bytes: opening.super_max_bytes,
            ts_offset: opening.ts_offset,
            pacing: Pacing::new(&cc),
            tuning: Tuning::new(config),
            stats: Stats::default(),
            early_acks: EarlyAcks::default(),
            cc,
            recovery: Rare::default(),
            path: known_path(opening),
            sack_blocks: Rare::default(),
            reassembly: Reassembly::default(),
            paws: Paws::default(),
            max_snd_wnd: 0,
            iss: opening.iss,
            irs: SeqNumber(0),
            ecn_recover: opening.iss,
            syn_sent_at: Instant::ZERO,
            advertised_mss: mss,
            default_mss: opening.default_mss,
            link_mss: opening.link_mss,
            agreed_most: 0,
            path_most: 0,
            error: None,
            rare: Rare::default(),
            challenge_acks: PerSecond::default(),
            out_of_window_acks: PerSecond::default(),
            config: config.clone(),
        }
    }

    /// RCV.WND: what remains of the window we offered, in bytes.
    #[inline(always)]
    pub fn rcv_wnd(&self) -> u32 {
        self.rcv_adv.since(self.rcv_nxt).max(0) as u32
    }

    /// Bytes sent and not acknowledged, SYN and FIN included.
    #[inline(always)]
    pub fn in_flight(&self) -> u32 {
        self.snd_nxt.since(self.snd_una) as u32
    }

    /// Bytes queued and not yet sent.
    #[inline(always)]
    pub fn unsent_bytes(&self) -> usize {
        self.sendq.unsent_bytes()
    }

    /// Is there no out-of-order and no duplicate data that the next ACK would report?
    #[inline(always)]
    pub fn reports_nothing(&self) -> bool {
        self.sack_blocks.written().is_none_or(ReceivedBlocks::nothing_to_report)
    }

    /// Our clock as a TSval: milliseconds plus this connection's offset.
    /// RFC 7323 5.4-a.
    #[inline(always)]
    pub(crate) fn ts_value(&self, cx: &Cx) -> u32 {
        cx.now_ms.wrapping_add(self.ts_offset)
    }

    /// [`Tcb::ts_value`] for an earlier time.
    pub(crate) fn ts_at(&self, at: Instant) -> u32 {
        (at.as_millis() as u32).wrapping_add(self.ts_offset)
    }

    /// Does the stack compute checksums: neither offloaded nor turned off?
    #[inline(always)]
    pub fn makes_checksums(&self, cx: &Cx) -> bool {
        !self.offload_checksum && cx.switches.on(Switch::ChecksumTx)
    }

    /// Retransmission time-outs so far.
    pub fn timeouts(&self) -> u32 {
        self.stats.rare.timeouts
    }

    /// The connection's settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Is [`Tcb::REPAIRING`] set?
    #[inline(always)]
    pub(crate) fn is_repairing(&self) -> bool {
        self.trouble & Tcb::REPAIRING != 0
    }

    /// Is anything being repaired, on either side? Header prediction then refuses every segment.
    pub fn in_trouble(&self) -> bool {
        self.trouble != 0
    }

    /// Set TS.Recent, and remember the time.
    #[inline(always)]
    pub(crate) fn set_ts_recent(&mut self, value: u32, cx: &Cx) {
        self.ts_recent = value;
        self.ts_recent_at = coarse(cx.now);
    }

    /// `left..right` arrived again: the next ACK reports it as a D-SACK, if the peer accepts SACK
    /// options. If it does not, nothing is noted: no ACK would ever clear the note, and no output
    /// would take the fast path.
    pub(crate) fn note_duplicate(&mut self, left: SeqNumber, right: SeqNumber) {
        if self.marks.has(Marks::SACK) {
            self.sack_blocks.note_duplicate(left, right);
        }
    }

    /// Is a timestamp older than TS.Recent? Not if TS.Recent is itself invalid: after 24 days of
    /// silence the peer's clock may have wrapped half way (RFC 7323 section 5.5).
    /// RFC 7323 5.3-b, 5.5-a.
    pub(crate) fn is_old_timestamp(&self, value: u32, cx: &Cx) -> bool {
        const DAYS_24: u32 = ((24 * 86_400 * 1_000_000_000u64) >> 30) as u32;
        let silence = coarse(cx.now).wrapping_sub(self.ts_recent_at);
        (value.wrapping_sub(self.ts_recent) as i32) < 0 && silence < DAYS_24
    }

    /// Has the peer's FIN been received in order?
    pub fn receive_finished(&self) -> bool {
        self.marks.has(Marks::FIN_RECEIVED)
    }

    /// Is this a half-open connection that a listener counts?
    pub fn is_embryonic(&self) -> bool {
        self.marks.has(Marks::EMBRYONIC)
    }

    /// Note that the handshake has ended, whether it succeeded or not.
    pub fn handshake_ended(&mut self) {
        self.marks.clear(Marks::EMBRYONIC);
    }

    /// Has the user closed the connection?
    pub fn is_orphan(&self) -> bool {
        self.marks.has(Marks::ORPHAN)
    }

    /// No handle of this connection is left.
    pub fn orphan(&mut self) {
        self.marks.set(Marks::ORPHAN);
    }

    /// End the connection: nothing more is sent or received.
    pub(crate) fn fail(&mut self, error: Error) {
        self.state = State::Closed;
        self.trouble &= !Tcb::OPENING;
        self.error = Some(error);
        self.events.set(Events::CLOSED | Events::READABLE | Events::WRITABLE);
        self.timers = Timers::default();
    }

    /// The drop reason for data that arrives after the user closed; `None` while it is open.
    pub(crate) fn nobody_reads(&self) -> Option<DropReason> {
        self.marks.has(Marks::ORPHAN).then_some(DropReason::TcpAfterClose)
    }
}

/// How to compute checksums while copying: by which implementation, and whether in the same pass as
/// the copy. `None` if a device finishes checksums or they are turned off.
#[inline]
pub fn sums(tcb: &Tcb, cx: &Cx) -> Option<(Ladder, bool)> {
    tcb.makes_checksums(cx).then(|| (cx.ladder, cx.switches.on(Switch::FusedSum)))
}
