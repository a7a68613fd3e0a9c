//! The transmission control block: one connection's state, under the names of RFC 9293.
//!
//! Called by: every file of this crate with logic in it; what this one imports knows no Tcb. The
//! stack keeps the addresses. What header prediction reads first is in the first cache line; an
//! assertion says so.

use std::sync::Arc;

use base::{DropReason, Instant, Mss, PerSecond, SeqNumber, Switch, WindowScale};
use mbuf::SockBuf;
use wire::checksum::Sum;

use crate::cc::Cc;
use crate::deadlines::Timers;
use crate::early_acks::EarlyAcks;
use crate::handshake::MSS_FLOOR;
use crate::marks::{EcnBits, Events, Marks, Todo};
use crate::opening::Opening;
use crate::pacing::Pacing;
use crate::path::mtu::PathMtu;
use crate::rare::{Rare, RareState};
use crate::receive::blocks::ReceivedBlocks;
use crate::receive::paws::Paws;
use crate::receive::reass::Reassembly;
use crate::receive::tuning::{Tuning, start_bytes};
use crate::recovery::scoreboard::Recovery;
use crate::rtt::Rtt;
use crate::sendq::SendQueue;
use crate::state::{Error, State};
use crate::stats::Stats;
use crate::{Config, Cx};

/// One connection.
#[repr(C)]
pub struct Tcb {
    // What prediction reads, in one line.
    /// Where the connection stands.
    pub state: State,
    /// What `output` has to do.
    pub todo: Todo,
    /// What was agreed.
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
    /// Most bytes ever received between two of our ACKs: what the peer can send at most.
    pub send_space_bytes: u32,
    /// Bytes received since our last ACK.
    pub ack_owed_bytes: u32,
    /// The largest segment the peer has sent, in bytes: what "full-sized" means.
    pub(crate) rcv_mss: u16,
    /// [`Tcb::REPAIRING`], [`Tcb::EARLY`], [`Tcb::OPENING`]: zero when all is well.
    pub(crate) trouble: u8,
    /// What the user should be told.
    pub events: Events,
    /// On the stack's dirty list already.
    pub dirty: bool,
    /// Persist or keepalive probes in a row without an answer.
    pub(crate) probes: u8,
    /// Where explicit congestion notification stands.
    pub(crate) ecn: EcnBits,

    // What every segment or every burst needs.
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
    /// Sum of the pseudo-header less the length, which the stack computes once.
    pub pseudo_sum: Sum,
    /// The port finishes transport checksums.
    pub(crate) offload_checksum: bool,
    /// The peer offered window scaling.
    pub(crate) peer_scales: bool,
    /// Bytes of a super-segment at most; the segment size where the port takes none.
    pub(crate) super_max_bytes: u32,
    /// Added to the clock for TSval, RFC 7323 section 5.4.
    pub(crate) ts_offset: u32,
    pub(crate) pacing: Pacing,
    /// How large the receive buffer has to be.
    pub(crate) tuning: Tuning,
    pub(crate) stats: Stats,
    /// When the estimate of the peer's send space is put to the test.
    pub(crate) early_acks: EarlyAcks,
    pub(crate) cc: Cc,
    pub(crate) recovery: Rare<Recovery>,
    /// What the path carries, and how that is found out.
    pub(crate) path: Rare<PathMtu>,
    pub(crate) sack_blocks: Rare<ReceivedBlocks>,
    pub(crate) reassembly: Reassembly,
    pub(crate) paws: Paws,

    // Rarely read.
    /// Largest window the peer ever offered (RFC 9293 3.8.6.2.1, 5961 section 5.2).
    pub(crate) max_snd_wnd: u32,
    /// Our initial sequence number.
    pub(crate) iss: SeqNumber,
    /// The peer's.
    pub(crate) irs: SeqNumber,
    /// SND.NXT when the window was last reduced, if [`EcnBits::SENDS`].
    pub(crate) ecn_recover: SeqNumber,
    /// When our SYN was first sent.
    pub(crate) syn_sent_at: Instant,
    /// MSS to offer in our SYN.
    pub(crate) advertised_mss: Mss,
    /// What a peer means that offers none.
    pub(crate) default_mss: Mss,
    /// The largest segment that both ends take, in bytes of payload.
    pub(crate) path_most: u16,
    /// How it ended.
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

/// The shift that the largest window needs that it may become.
fn largest_scale(config: &Config) -> WindowScale {
    if !config.window_scaling {
        return WindowScale::default();
    }
    let most = config.receive_buffer_bytes.max(config.receive_buffer_max_bytes);
    WindowScale::for_window(most as usize)
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
    /// Losses are being repaired, duplicate ACKs were seen, or the peer holds data out of order.
    pub(crate) const REPAIRING: u8 = 1;
    /// We hold data, or the end of it, out of order.
    pub(crate) const EARLY: u8 = 2;
    /// In SYN-RECEIVED, but open for the user and for data (Fast Open).
    pub(crate) const OPENING: u8 = 4;

    /// A connection in CLOSED, for `usrreq::connect` or `handshake::passive_open` to start.
    pub(crate) fn new(config: &Arc<Config>, opening: &Opening) -> Tcb {
        let mut marks = Marks::default();
        if config.no_delay {
            marks.set(Marks::NO_DELAY);
        }
        let mut cc = Cc::new(config.algorithm);
        cc.grow_when_half_used(config.growth_when_half_used);
        let mss = Mss(opening.mss.0.min(config.mss_max.max(MSS_FLOOR as u16)));
        Tcb {
            state: State::Closed,
            todo: Todo::default(),
            marks,
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
            path_most: 0,
            error: None,
            rare: Rare::default(),
            challenge_acks: PerSecond::default(),
            out_of_window_acks: PerSecond::default(),
            config: config.clone(),
        }
    }

    /// RCV.WND: what the window we offered still admits, in bytes.
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

    /// Our clock as a TSval: milliseconds, with this connection's offset.
    /// RFC 7323 5.4-a.
    #[inline(always)]
    pub(crate) fn ts_value(&self, cx: &Cx) -> u32 {
        cx.now_ms.wrapping_add(self.ts_offset)
    }

    /// The same for a time that has been.
    pub(crate) fn ts_at(&self, at: Instant) -> u32 {
        (at.as_millis() as u32).wrapping_add(self.ts_offset)
    }

    /// Are checksums ours to make: neither a device's, nor turned off?
    #[inline(always)]
    pub fn makes_checksums(&self, cx: &Cx) -> bool {
        !self.offload_checksum && cx.switches.on(Switch::ChecksumTx)
    }

    /// Retransmission time-outs so far.
    pub fn timeouts(&self) -> u32 {
        self.stats.rare.timeouts
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// [`Tcb::REPAIRING`]?
    #[inline(always)]
    pub(crate) fn is_repairing(&self) -> bool {
        self.trouble & Tcb::REPAIRING != 0
    }

    /// Is anything being repaired, on either side? Then prediction keeps away.
    pub fn in_trouble(&self) -> bool {
        self.trouble != 0
    }

    /// Remember a timestamp and when it came.
    #[inline(always)]
    pub(crate) fn set_ts_recent(&mut self, value: u32, cx: &Cx) {
        self.ts_recent = value;
        self.ts_recent_at = coarse(cx.now);
    }

    /// Is a timestamp older than TS.Recent, and TS.Recent not itself out of date? After 24 days
    /// of silence it is: the peer's clock may have gone half round (RFC 7323 section 5.5).
    /// RFC 7323 5.3-b, 5.5-a.
    pub(crate) fn is_old_timestamp(&self, value: u32, cx: &Cx) -> bool {
        const DAYS_24: u32 = ((24 * 86_400 * 1_000_000_000u64) >> 30) as u32;
        let silence = coarse(cx.now).wrapping_sub(self.ts_recent_at);
        (value.wrapping_sub(self.ts_recent) as i32) < 0 && silence < DAYS_24
    }

    /// Did the peer's FIN end what can be read?
    pub fn receive_finished(&self) -> bool {
        self.marks.has(Marks::FIN_RECEIVED)
    }

    /// Half open, by a listener.
    pub fn is_embryonic(&self) -> bool {
        self.marks.has(Marks::EMBRYONIC)
    }

    /// The handshake ended, either way.
    pub fn handshake_ended(&mut self) {
        self.marks.clear(Marks::EMBRYONIC);
    }

    /// The user has let go.
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

    /// The drop reason for data that comes after the reader closed.
    pub(crate) fn nobody_reads(&self) -> Option<DropReason> {
        self.marks.has(Marks::ORPHAN).then_some(DropReason::TcpAfterClose)
    }
}
