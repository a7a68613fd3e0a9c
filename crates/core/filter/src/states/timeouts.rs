//! How long states live without packets: the phases of flows, a timeout for each, and the factor by
//! which all of them shrink as the table fills.
//!
//! Called by: `states.rs`, `advance.rs`; configuration changes the values. RFC 4787 section 4.3,
//! RFC 5382 section 5, RFC 5508 section 3.2, RFC 7857 section 2; pf.conf(5) `adaptive.start` and
//! `adaptive.end`. Timeouts that shrink are shorter than those RFCs allow (docs/rfc).

use base::Duration;

use super::wheel::ticks_of;

/// Where a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Phase {
    /// A SYN without an answer.
    TcpSynSent,
    /// A SYN and its SYN-ACK, or two SYNs.
    TcpSynReceived,
    /// After the handshake.
    TcpEstablished,
    /// After the FIN of one side; the other side may still send (RFC 5382 section 5).
    TcpHalfClosed,
    /// After both FINs, until the last one is acknowledged.
    TcpClosing,
    /// After both FINs and an ACK.
    TcpTimeWait,
    /// After a RST.
    TcpReset,
    /// Datagrams in one direction.
    UdpUnreplied,
    /// Datagrams in both directions.
    UdpReplied,
    /// A question to port 53.
    DnsUnreplied,
    /// A question to port 53 and its answer.
    DnsReplied,
    /// A query of ICMP or ICMPv6.
    IcmpUnreplied,
    /// A query of ICMP or ICMPv6 and its answer.
    IcmpReplied,
    /// Another protocol, in one direction.
    OtherUnreplied,
    /// Another protocol, in both directions.
    OtherReplied,
}

impl Phase {
    const COUNT: usize = 15;

    /// Does the flow wait for its first answer, or for the end of its handshake? Such states are
    /// evicted before others, and hold half of the table at most.
    #[inline(always)]
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        use Phase::{
            DnsUnreplied, IcmpUnreplied, OtherUnreplied, TcpSynReceived, TcpSynSent, UdpUnreplied,
        };
        matches!(
            self,
            TcpSynSent
                | TcpSynReceived
                | UdpUnreplied
                | DnsUnreplied
                | IcmpUnreplied
                | OtherUnreplied
        )
    }

    /// Is the connection over? Its state is evicted if the table is full, and gives way to a new
    /// connection.
    #[inline(always)]
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Phase::TcpTimeWait | Phase::TcpReset)
    }

    /// The phase after an answer, of protocols other than TCP.
    #[must_use]
    pub(super) const fn replied(self) -> Phase {
        match self {
            Phase::UdpUnreplied => Phase::UdpReplied,
            Phase::DnsUnreplied => Phase::DnsReplied,
            Phase::IcmpUnreplied => Phase::IcmpReplied,
            Phase::OtherUnreplied => Phase::OtherReplied,
            other => other,
        }
    }

    /// A number for it, which other versions of this program know.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The phase with a number.
    #[must_use]
    pub fn of(number: u8) -> Option<Phase> {
        use Phase::{
            DnsReplied, DnsUnreplied, IcmpReplied, IcmpUnreplied, OtherReplied, OtherUnreplied,
            TcpClosing, TcpEstablished, TcpHalfClosed, TcpReset, TcpSynReceived, TcpSynSent,
            TcpTimeWait, UdpReplied, UdpUnreplied,
        };
        const ALL: [Phase; Phase::COUNT] = [
            TcpSynSent,
            TcpSynReceived,
            TcpEstablished,
            TcpHalfClosed,
            TcpClosing,
            TcpTimeWait,
            TcpReset,
            UdpUnreplied,
            UdpReplied,
            DnsUnreplied,
            DnsReplied,
            IcmpUnreplied,
            IcmpReplied,
            OtherUnreplied,
            OtherReplied,
        ];
        ALL.get(usize::from(number)).copied()
    }

    /// For tools: `established`, `unreplied`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::TcpSynSent => "syn-sent",
            Phase::TcpSynReceived => "syn-received",
            Phase::TcpEstablished => "established",
            Phase::TcpHalfClosed => "half-closed",
            Phase::TcpClosing => "closing",
            Phase::TcpTimeWait => "time-wait",
            Phase::TcpReset => "reset",
            Phase::UdpUnreplied
            | Phase::DnsUnreplied
            | Phase::IcmpUnreplied
            | Phase::OtherUnreplied => "unreplied",
            Phase::UdpReplied | Phase::DnsReplied | Phase::IcmpReplied | Phase::OtherReplied => {
                "replied"
            }
        }
    }
}

/// Idle times after which states end. RFC 4787 REQ-5b, RFC 5382 REQ-5a, RFC 5508 REQ-2a.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A SYN without an answer, and no NAT. 2 minutes, as Linux's `syn_sent` and pf's `tcp.first`.
    pub tcp_syn_sent: Duration,
    /// A handshake that is not complete; also a SYN without an answer, with NAT. 4 minutes: RFC
    /// 5382 REQ-5, RFC 7857 2.1-a, 2.1-b.
    pub tcp_opening: Duration,
    /// 2 hours and 4 minutes: RFC 5382 REQ-5, a little more than the interval of keep-alives. Also
    /// of a connection that one side has closed: RFC 5382 5-b.
    pub tcp_established: Duration,
    /// After both FINs, the last one not acknowledged. 4 minutes: RFC 5382 REQ-5, RFC 7857 2.1-a,
    /// 2.1-b.
    pub tcp_closing: Duration,
    /// After both FINs. 4 minutes, two maximum segment lifetimes: RFC 5382 REQ-5.
    pub tcp_time_wait: Duration,
    /// After a RST, no NAT. 10 seconds, as Linux's `close`; a RST that was not accepted is
    /// contradicted by the challenge ACK (RFC 5961), which takes a round trip.
    pub tcp_reset: Duration,
    /// After a RST, with NAT. 4 minutes: RFC 7857 2.2-b.
    pub tcp_reset_translated: Duration,
    /// UDP without an answer, no NAT. 30 seconds, as Linux and pf have it.
    pub udp_unreplied: Duration,
    /// UDP without an answer, with NAT. 2 minutes: RFC 4787 REQ-5, which sets the least for a
    /// mapping, answered or not.
    pub udp_unreplied_translated: Duration,
    /// UDP in both directions. 5 minutes: RFC 4787 REQ-5c.
    pub udp: Duration,
    /// UDP to port 53. 17 seconds; RFC 4787 REQ-5a lets ports below 1024 have less than others.
    pub dns: Duration,
    /// ICMP and ICMPv6 queries. 60 seconds: RFC 5508 REQ-2.
    pub icmp: Duration,
    /// Other protocols, one direction. 60 seconds, as pf's `other.first`.
    pub other_unreplied: Duration,
    /// Other protocols, both directions. 10 minutes, as Linux's `generic`.
    pub other: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let secs = Duration::from_secs;
        Timeouts {
            tcp_syn_sent: secs(120),
            tcp_opening: secs(240),
            tcp_established: secs(2 * 3600 + 240),
            tcp_closing: secs(240),
            tcp_time_wait: secs(240),
            tcp_reset: secs(10),
            tcp_reset_translated: secs(240),
            udp_unreplied: secs(30),
            udp_unreplied_translated: secs(120),
            udp: secs(300),
            dns: secs(17),
            icmp: secs(60),
            other_unreplied: secs(60),
            other: secs(600),
        }
    }
}

/// The timeouts in ticks by phase, without and with translation.
pub(super) struct Ticks([[u32; 2]; Phase::COUNT]);

impl Ticks {
    pub(super) fn new(timeouts: &Timeouts) -> Ticks {
        let t = timeouts;
        let both = |span| [span, span];
        // In the order of `Phase`.
        let spans: [[Duration; 2]; Phase::COUNT] = [
            [t.tcp_syn_sent, t.tcp_opening],
            both(t.tcp_opening),
            both(t.tcp_established),
            both(t.tcp_established),
            both(t.tcp_closing),
            both(t.tcp_time_wait),
            [t.tcp_reset, t.tcp_reset_translated],
            [t.udp_unreplied, t.udp_unreplied_translated],
            both(t.udp),
            both(t.dns),
            both(t.dns),
            both(t.icmp),
            both(t.icmp),
            both(t.other_unreplied),
            both(t.other),
        ];
        Ticks(spans.map(|spans| spans.map(ticks_of)))
    }

    pub(super) fn of(&self, phase: Phase, is_translated: bool) -> u32 {
        self.0[phase as usize % Phase::COUNT][usize::from(is_translated)]
    }
}

/// The factor of all timeouts, in parts of 65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shrink(u32);

impl Shrink {
    pub(super) const NONE: Shrink = Shrink(1 << 16);

    /// The factor with `count` states of `limit`: from 60 % on it falls in a straight line that
    /// meets zero at 120 %, so that a full table has a third. These are pf's default marks.
    pub(super) fn of(count: usize, limit: usize) -> Shrink {
        let (count, limit) = (count as u64, limit as u64);
        let (start, end) = (limit.saturating_mul(6) / 10, limit.saturating_mul(12) / 10);
        if count <= start || end <= start {
            return Shrink::NONE;
        }
        let part = (u128::from(end.saturating_sub(count)) << 16) / u128::from(end - start);
        Shrink((part as u32).min(1 << 16))
    }

    pub(super) fn is_less(self) -> bool {
        self != Shrink::NONE
    }

    pub(super) fn apply(self, ticks: u32) -> u32 {
        ((u64::from(ticks) * u64::from(self.0)) >> 16) as u32
    }
}
