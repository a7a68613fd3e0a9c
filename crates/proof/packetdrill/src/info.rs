//! `TCP_INFO`: the stack's state of a connection in Linux's layout.
//!
//! Called by: `options.rs`. Source of the layout: Linux `uapi/linux/tcp.h`. Fields that the stack
//! does not keep stay zero. Linux counts the congestion window, the slow start threshold, and data
//! in flight, SACKed, lost and retransmitted in segments; the stack counts them in bytes.

use std::os::fd::RawFd;

use rustix::io::Errno;
use tcp::{Info, State as TcpState};

use super::Call;
use super::file::Endpoint;
use super::world::State;

/// `TCPI_OPT_TIMESTAMPS`, `_SACK`, `_WSCALE`, `_ECN`.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WINDOW_SCALE: u8 = 4;
const ECN: u8 = 8;
/// `TCPI_OPT_SYN_DATA`.
const SYN_DATA: u8 = 32;
/// `TCP_INFINITE_SSTHRESH`.
const NO_THRESHOLD: u32 = 0x7fff_ffff;
/// Bytes of the structure. Fields are filled up to `tcpi_rcv_wnd`; later ones are zero.
const LEN: usize = 280;

/// The bytes of a `struct tcp_info`. The methods write a field at its offset in the structure.
struct TcpInfoBytes([u8; LEN]);

impl TcpInfoBytes {
    fn byte(&mut self, at: usize, value: u8) {
        self.0[at] = value;
    }

    fn word(&mut self, at: usize, value: u64) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn long(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
}

/// The `struct tcp_info` of the socket with descriptor `fd`.
pub(super) fn bytes(state: &mut State, fd: RawFd) -> Call<Vec<u8>> {
    let mut shape = TcpInfoBytes([0; LEN]);
    match state.socket(fd)?.endpoint {
        Endpoint::Connection(handle) => {
            let info = state.stack.tcp_info(handle).ok_or(Errno::BADF)?;
            fill(&mut shape, &info);
            let now = state.now;
            let usage = &state.socket(fd)?.usage;
            let since = usage.data_at.map_or(0, |at| now.since(at).as_millis());
            shape.word(52, since);
            shape.long(168, usage.busy.as_micros());
            shape.long(176, usage.window_limited.as_micros());
            shape.long(184, usage.buffer_limited.as_micros());
        }
        Endpoint::Listening(_) => shape.byte(0, 10),
        Endpoint::Fresh => shape.byte(0, 7),
        Endpoint::Unbound | Endpoint::Datagram(_) => return Err(Errno::OPNOTSUPP),
    }
    Ok(shape.0.to_vec())
}

/// Linux's numbers for the states.
fn state_number(state: TcpState) -> u8 {
    match state {
        TcpState::Established => 1,
        TcpState::SynSent => 2,
        TcpState::SynReceived => 3,
        TcpState::FinWait1 => 4,
        TcpState::FinWait2 => 5,
        TcpState::TimeWait => 6,
        TcpState::Closed => 7,
        TcpState::CloseWait => 8,
        TcpState::LastAck => 9,
        TcpState::Closing => 11,
    }
}

fn fill(shape: &mut TcpInfoBytes, info: &Info) {
    let mss = info.snd_mss.max(1) as u64;
    let segments = |bytes: u64| bytes.div_ceil(mss);
    let mut options = 0;
    for (on, bit) in [
        (info.timestamps, TIMESTAMPS),
        (info.sack, SACK),
        (info.window_scales.is_some(), WINDOW_SCALE),
        (info.ecn, ECN),
        (info.syn_data, SYN_DATA),
    ] {
        options |= if on { bit } else { 0 };
    }
    let (send, receive) = info.window_scales.unwrap_or((0, 0));
    shape.byte(0, state_number(info.state));
    shape.byte(1, info.repair as u8);
    shape.byte(2, info.retries);
    shape.byte(3, info.probes);
    shape.byte(4, info.backoff);
    shape.byte(5, options);
    shape.byte(6, send | receive << 4);
    shape.word(8, info.rto.as_micros());
    shape.word(16, mss);
    shape.word(20, info.rcv_mss as u64);
    shape.word(24, segments(u64::from(info.in_flight)));
    shape.word(28, segments(u64::from(info.sacked_bytes)));
    // `tcpi_lost`: Linux counts a lost segment until it is acknowledged, even after it was
    // retransmitted. The stack's `lost_bytes` no longer contains what was retransmitted.
    shape.word(32, segments(u64::from(info.lost_bytes) + u64::from(info.resent_bytes)));
    shape.word(36, segments(u64::from(info.resent_bytes)));
    shape.word(68, info.srtt.as_micros());
    shape.word(72, info.rttvar.as_micros());
    let threshold = if info.ssthresh == u64::MAX { 0 } else { info.ssthresh / mss };
    shape.word(76, if threshold == 0 { u64::from(NO_THRESHOLD) } else { threshold });
    shape.word(80, info.cwnd / mss);
    shape.word(84, u64::from(info.advertised_mss));
    // `tcpi_reordering`, in duplicate ACKs. The stack detects loss by time (RFC 8985) and does not
    // adapt this number.
    shape.word(88, 3);
    shape.word(100, u64::from(info.retransmits));
    shape.long(104, info.pacing_rate);
    shape.long(112, u64::MAX);
    shape.long(120, info.bytes_acked);
    shape.long(128, info.bytes_received);
    shape.word(136, u64::from(info.segments_out));
    shape.word(140, u64::from(info.segments_in));
    shape.word(144, info.unsent as u64);
    shape.word(148, info.min_rtt.as_micros());
    // `tcpi_delivered`: segments that the peer received. The SYN counts as one, with or without
    // data.
    let after_syn = info.bytes_acked.saturating_sub(u64::from(info.syn_bytes_acked));
    shape.word(192, segments(after_syn) + u64::from(info.state.is_synchronised()));
    shape.word(224, u64::from(info.out_of_order));
    shape.word(228, u64::from(info.snd_wnd));
    shape.word(232, u64::from(info.rcv_wnd));
}
