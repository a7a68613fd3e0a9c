//! What the host's kernel says of a connection: TCP_INFO.
//!
//! Called by: who explains flows. Source: tcp(7), and `struct tcp_info` of Linux's
//! `include/uapi/linux/tcp.h`, whose fields keep their places for ever.

use core::net::SocketAddr;

use nix::sys::socket::getsockopt;
use nix::{getsockopt_impl, sockopt_impl};

use crate::tcp::Tcp;

/// Bytes of the kernel's structure that are asked for: up to `tcpi_sndbuf_limited`, which Linux
/// has since 4.10. The kernel fills as many as are asked for, if it has them.
const BYTES: usize = 192;

sockopt_impl!(
    /// TCP_INFO.
    Question,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    [u8; BYTES]
);

/// What the kernel says of a connection. Sizes are in bytes; counts are since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The host's end, and the other one, if the kernel still knows them.
    pub local: Option<SocketAddr>,
    /// See `local`.
    pub remote: Option<SocketAddr>,
    /// The state, by its name in RFC 9293.
    pub state: &'static str,
    /// How often the retransmission time-out was doubled.
    pub backoff: u8,
    /// The retransmission time-out, in microseconds.
    pub rto_us: u32,
    /// The largest payload that is sent in a segment.
    pub snd_mss: u32,
    /// The largest payload that was received in a segment.
    pub rcv_mss: u32,
    /// Segments that were sent and not acknowledged.
    pub unacked: u32,
    /// Segments in flight that are taken for lost.
    pub lost: u32,
    /// The smoothed round-trip time and its mean deviation, in microseconds.
    pub rtt_us: u32,
    /// See `rtt_us`.
    pub rttvar_us: u32,
    /// The shortest round-trip time, in microseconds.
    pub min_rtt_us: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Slow-start threshold, in segments; `None` until there was congestion.
    pub ssthresh: Option<u32>,
    /// The round-trip time as the receiver sees it, in microseconds.
    pub rcv_rtt_us: u32,
    /// Bytes that are taken from the receive buffer in a round trip.
    pub rcv_space: u32,
    /// Segments sent again.
    pub retransmits: u32,
    /// The pacing rate in bytes per second; `None` without one.
    pub pacing_rate: Option<u64>,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Bytes that wait to be sent.
    pub unsent: u32,
    /// The rate at which the newest data was delivered, in bytes per second.
    pub delivery_rate: u64,
    /// How long data was in flight or waited to be sent, in microseconds.
    pub busy_us: u64,
    /// How long of this the peer's window was full.
    pub rwnd_limited_us: u64,
    /// How long of this the send buffer was full.
    pub sndbuf_limited_us: u64,
}

impl TcpInfo {
    /// What the bytes of the kernel's structure say.
    fn of(bytes: &[u8; BYTES]) -> TcpInfo {
        let u32_at = |at: usize| u32::from_ne_bytes(core::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_ne_bytes(core::array::from_fn(|i| bytes[at + i]));
        // A value that stands for none is the largest one: infinite in tcp.h.
        let ssthresh = Some(u32_at(76)).filter(|&segments| segments < 0x7fff_ffff);
        let rate = |at| Some(u64_at(at)).filter(|&rate| rate != u64::MAX && rate != 0);
        TcpInfo {
            local: None,
            remote: None,
            state: state(bytes[0]),
            backoff: bytes[4],
            rto_us: u32_at(8),
            snd_mss: u32_at(16),
            rcv_mss: u32_at(20),
            unacked: u32_at(24),
            lost: u32_at(32),
            rtt_us: u32_at(68),
            rttvar_us: u32_at(72),
            ssthresh,
            cwnd: u32_at(80),
            rcv_rtt_us: u32_at(92),
            rcv_space: u32_at(96),
            retransmits: u32_at(100),
            pacing_rate: rate(104),
            bytes_acked: u64_at(120),
            bytes_received: u64_at(128),
            unsent: u32_at(144),
            // Without a sample it is the largest value.
            min_rtt_us: Some(u32_at(148)).filter(|&us| us != u32::MAX).unwrap_or(0),
            delivery_rate: u64_at(160),
            busy_us: u64_at(168),
            rwnd_limited_us: u64_at(176),
            sndbuf_limited_us: u64_at(184),
        }
    }
}

/// The name of a state in RFC 9293, by the kernel's number (`net/tcp_states.h`).
fn state(number: u8) -> &'static str {
    match number {
        1 => "ESTABLISHED",
        2 => "SYN-SENT",
        3 => "SYN-RECEIVED",
        4 => "FIN-WAIT-1",
        5 => "FIN-WAIT-2",
        6 => "TIME-WAIT",
        8 => "CLOSE-WAIT",
        9 => "LAST-ACK",
        10 => "LISTEN",
        11 => "CLOSING",
        _ => "CLOSED",
    }
}

impl Tcp {
    /// What the kernel says of it; `None` if it does not answer. One to three system calls.
    pub fn info(&self) -> Option<TcpInfo> {
        let bytes = getsockopt(self, Question).ok()?;
        let address = |any: rustix::net::SocketAddrAny| SocketAddr::try_from(any).ok();
        Some(TcpInfo {
            local: rustix::net::getsockname(self).ok().and_then(address),
            remote: rustix::net::getpeername(self).ok().flatten().and_then(address),
            ..TcpInfo::of(&bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use gateway::Token;

    use super::*;

    #[test]
    fn the_kernel_says_what_a_connection_does() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let ours = TcpStream::connect(at).expect("it listens");
        let (mut theirs, client) = listener.accept().expect("a client");
        (&ours).write_all(&[7; 1000]).expect("room");
        theirs.read_exact(&mut [0; 1000]).expect("the bytes");
        theirs.write_all(&[7; 10]).expect("room");
        (&ours).read_exact(&mut [0; 10]).expect("the bytes");
        let tcp = Tcp::of(ours.into(), Token(0));
        let info = tcp.info().expect("a socket of TCP");
        assert_eq!((info.local, info.remote), (Some(client), Some(at)));
        assert_eq!((info.state, info.bytes_received, info.retransmits), ("ESTABLISHED", 10, 0));
        // Linux counts the SYN.
        assert!((1000..=1001).contains(&info.bytes_acked), "{info:?}");
        assert!(info.snd_mss > 500 && info.cwnd > 1 && info.rtt_us > 0, "{info:?}");
        assert!(info.rto_us > 100_000 && info.rcv_space > 1000, "{info:?}");
        assert!(info.min_rtt_us > 0 && info.min_rtt_us < 1_000_000, "{info:?}");
        assert_eq!((info.unsent, info.ssthresh), (0, None));
    }

    #[test]
    fn fields_have_their_places() {
        let bytes: [u8; BYTES] = core::array::from_fn(|at| at as u8);
        let info = TcpInfo::of(&bytes);
        assert_eq!(info.unacked.to_ne_bytes(), [24, 25, 26, 27]);
        assert_eq!(info.sndbuf_limited_us.to_ne_bytes()[..2], [184, 185]);
        assert_eq!((info.backoff, info.state), (4, "CLOSED"));
    }
}
