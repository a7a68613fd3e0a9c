//! Outcomes of a step on both sides, and the table of differences that have a reason. Any other
//! difference is a failure.
//!
//! Called by: `main.rs`.

use base::DropReason;

use crate::flows::Step;
use crate::packets::{Content, Parsed, parse};

/// What became of the packets of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing came out.
    Nothing,
    /// This came out on the other side: of fragments their datagram.
    Passed(Parsed),
    /// Some fragments of a datagram came out.
    Parts,
    /// A RST came back, with these ends, flags and numbers.
    Reset(String),
    /// An ICMP error came back: its addresses, type and code, and what it quotes.
    Error(String),
    /// Anything else.
    Odd(String),
}

impl Outcome {
    /// What `sent` means for packets of `step` that came in by `port`.
    pub(crate) fn of(sent: &[Vec<Vec<u8>>; 2], step: &Step, port: usize) -> Outcome {
        let whole = !matches!(step.content, Content::Pieces { .. });
        let read = |packets: &[Vec<u8>]| packets.iter().filter_map(|p| parse(p)).collect();
        let (back, out): (Vec<Parsed>, Vec<Parsed>) = (read(&sent[port]), read(&sent[1 - port]));
        match (&back[..], &out[..]) {
            ([], []) => Outcome::Nothing,
            ([], [one]) if one.piece.is_none() => Outcome::Passed(one.clone()),
            ([], pieces) => joined(pieces),
            ([one], []) => answer(one, whole),
            _ => Outcome::Odd(format!("back {back:?}, out {out:?}")),
        }
    }
}

/// The datagram of fragments.
fn joined(pieces: &[Parsed]) -> Outcome {
    let mut sorted: Vec<&Parsed> = pieces.iter().collect();
    sorted.sort_by_key(|piece| piece.piece);
    let first = sorted[0];
    if sorted.iter().any(|one| one.piece.is_none() || one.ends.src.ip() != first.ends.src.ip()) {
        return Outcome::Odd(format!("{pieces:?}"));
    }
    let mut whole = Vec::new();
    let mut more = true;
    for piece in &sorted {
        if piece.piece.map(|(at, _)| at) != Some(whole.len()) || !more {
            return Outcome::Parts;
        }
        whole.extend(&piece.transport);
        more = piece.piece.is_some_and(|(_, more)| more);
    }
    if more {
        return Outcome::Parts;
    }
    let whole = Parsed { transport: whole, piece: None, ..first.clone() };
    whole.verify();
    Outcome::Passed(whole)
}

/// An answer of the router. The kernel quotes the datagram of fragments, we quote the first one:
/// their addresses are the same.
fn answer(packet: &Parsed, whole: bool) -> Outcome {
    let b = &packet.transport;
    if packet.protocol == wire::protocol::TCP {
        return Outcome::Reset(format!(
            "{:?} flags {:#x} seq {:02x?} ack {:02x?}",
            packet.ends,
            b[13],
            &b[4..8],
            &b[8..12]
        ));
    }
    let v4 = packet.ends.src.is_ipv4();
    let mut quoted = b[8..b.len().min(if v4 { 36 } else { 56 })].to_vec();
    // The kernel quotes the packet with one hop less, we quote it as it came: RFC 1812 section
    // 4.3.2.3 wants the header as it was received.
    quoted[if v4 { 8 } else { 7 }] = 0;
    if v4 {
        quoted[10..12].fill(0);
    }
    if !whole {
        quoted = quoted[if v4 { 12..20 } else { 8..40 }].to_vec();
    }
    Outcome::Error(format!("{:?} {}/{} {quoted:02x?}", packet.ends, b[0], b[1]))
}

/// A step that ended differently.
pub(crate) struct Differing<'a> {
    pub(crate) step: &'a Step,
    /// The flow's steps until then, this one included.
    pub(crate) sent: &'a [(Step, String)],
    pub(crate) kernel: &'a Outcome,
    pub(crate) ours: &'a Outcome,
    /// Why we dropped packets of the step.
    pub(crate) drops: &'a [DropReason],
}

impl Outcome {
    /// Without what depends on the port that NAT has chosen.
    pub(crate) fn without(self, chosen: u16) -> Outcome {
        match self {
            Outcome::Passed(parsed) => Outcome::Passed(parsed.without(chosen)),
            other => other,
        }
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Outcome::Nothing => "nothing",
            Outcome::Passed(_) => "passed",
            Outcome::Parts => "parts",
            Outcome::Reset(_) => "reset",
            Outcome::Error(_) => "error",
            Outcome::Odd(_) => "odd",
        }
    }
}

impl Differing<'_> {
    /// A line for all that differ in this way.
    pub(crate) fn kind(&self) -> String {
        let words = (self.kernel.word(), self.ours.word());
        format!("{}: kernel {}, ours {} {:?}", self.step.name, words.0, words.1, self.drops)
    }

    fn has_sent(&self, name: &str) -> bool {
        self.sent.iter().any(|(step, _)| step.name == name)
    }

    fn dropped(&self, reason: DropReason) -> bool {
        self.drops == [reason]
    }
}

/// A difference that is meant.
pub(crate) struct Difference {
    pub(crate) name: &'static str,
    /// Why both are right, or we are.
    pub(crate) reason: &'static str,
    pub(crate) is: fn(&Differing<'_>) -> bool,
}

/// What the kernel's connection tracking calls invalid because nothing of it has come before: a
/// segment that is no SYN, an answer to a query, a message of another kind.
fn begins_nothing(content: &Content) -> bool {
    match content {
        Content::Tcp(segment) => segment.flags & 0x17 != 2,
        Content::EchoReply(_) => true,
        Content::Message(kind, _) => *kind != 13,
        _ => false,
    }
}

fn is_named(d: &Differing<'_>, names: &[&str]) -> bool {
    names.contains(&d.step.name)
}

fn is_stricter(d: &Differing<'_>, names: &[&str]) -> bool {
    let windows = [DropReason::FilterWindow, DropReason::FilterTcpState];
    is_named(d, names)
        && matches!(d.kernel, Outcome::Passed(_))
        && *d.ours == Outcome::Nothing
        && windows.iter().any(|&reason| d.dropped(reason))
}

fn is_looser(d: &Differing<'_>, names: &[&str]) -> bool {
    is_named(d, names) && *d.kernel == Outcome::Nothing && matches!(d.ours, Outcome::Passed(_))
}

pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "reject without a connection",
        reason: "a rule of ours that rejects answers what no state has, as pf does; in nft's \
                 chain it is invalid and dropped before the rules",
        is: |d| {
            begins_nothing(&d.step.content)
                && *d.kernel == Outcome::Nothing
                && matches!(d.ours, Outcome::Reset(_) | Outcome::Error(_))
                && d.dropped(DropReason::FilterRule)
        },
    },
    Difference {
        name: "reject of a protocol without a checksum",
        reason: "nf_reject sums packets of any protocol but a few before it answers, and so \
                 answers none of a protocol that has no such sum; we answer",
        is: |d| {
            let is_other = match &d.step.content {
                Content::Other(..) => true,
                Content::Pieces { whole, .. } => matches!(**whole, Content::Other(..)),
                _ => false,
            };
            let is_rejected = d.drops.contains(&DropReason::FilterRule);
            let is_told = matches!(d.ours, Outcome::Error(_));
            is_other && is_rejected && is_told && *d.kernel == Outcome::Nothing
        },
    },
    Difference {
        name: "message that is neither query nor error",
        reason: "connection tracking calls ICMP messages invalid that it does not know; we ask \
                 the rules about them",
        is: |d| {
            matches!(d.step.content, Content::Message(9, _))
                && *d.kernel == Outcome::Nothing
                && matches!(d.ours, Outcome::Passed(_))
        },
    },
    Difference {
        name: "after a simultaneous open",
        reason: "the kernel knows one side's window only from its next segment",
        is: |d| {
            d.has_sent("SYN of the other side")
                && *d.kernel == Outcome::Nothing
                && matches!(d.ours, Outcome::Passed(_))
        },
    },
    Difference {
        name: "SYN of the other side after a RST",
        reason: "a RST in the window ends our state, so rules are asked about the SYN; the kernel \
                 keeps its state if the RST's number is not exact",
        is: |d| {
            // What belongs to the connection before the SYN passes the kernel's state alone.
            let is_late = d.has_sent("SYN after a reboot") && is_stricter(d, &["data"]);
            let is_new = is_looser(d, &["SYN after a reboot", "SYN once more"]);
            d.has_sent("RST beside") && (is_new || is_late)
        },
    },
    Difference {
        name: "segment for the router without a connection",
        reason: "nft's chain drops it as invalid; our rules pass it and the router answers",
        is: |d| {
            *d.kernel == Outcome::Nothing
                && matches!(d.ours, Outcome::Reset(_))
                && d.dropped(DropReason::TcpNoSocket)
        },
    },
    Difference {
        name: "timestamp of the router",
        reason: "RFC 1122 section 3.2.2.8 lets a host not answer, and we do not",
        is: |d| *d.ours == Outcome::Nothing && d.dropped(DropReason::IcmpUnhandled),
    },
    Difference {
        name: "a second host that talks to one remote host without ports",
        reason: "neither can tell their answers apart; the kernel drops the packet in silence, we \
                 tell its source (RFC 5508 REQ-8)",
        is: |d| {
            let is_other = match &d.step.content {
                Content::Other(..) => true,
                Content::Pieces { whole, .. } => matches!(**whole, Content::Other(..)),
                _ => false,
            };
            let is_told = matches!(d.ours, Outcome::Error(_));
            is_other
                && is_told
                && d.kernel == &Outcome::Nothing
                && d.drops.contains(&DropReason::NatNoPort)
        },
    },
    Difference {
        name: "error for want of a route",
        reason: "the kernel limits these errors by a rate that a namespace cannot change",
        is: |d| {
            *d.kernel == Outcome::Nothing
                && matches!(d.ours, Outcome::Error(_))
                && d.dropped(DropReason::IpNoRoute)
        },
    },
    Difference {
        name: "fragments of an incomplete datagram",
        reason: "connection tracking reassembles, and forwards nothing of a datagram that lacks a \
                 piece; we forward each piece by the verdict on the first one",
        is: |d| {
            is_named(d, &["fragments without one"])
                && *d.kernel == Outcome::Nothing
                && matches!(d.ours, Outcome::Parts | Outcome::Error(_))
        },
    },
    Difference {
        name: "answer to a SYN by its number",
        reason: "RFC 9293 section 3.10.7.3: in SYN-SENT only an ACK of the SYN itself is \
                 acceptable; the kernel lets others pass within a window",
        is: |d| is_stricter(d, &["SYN-ACK of another SYN", "RST without ACK"]),
    },
    Difference {
        name: "third segment by its number",
        reason: "RFC 5382 REQ-1: only the exact number completes a handshake",
        is: |d| is_stricter(d, &["third segment with a wrong number"]),
    },
    Difference {
        name: "data instead of a SYN-ACK",
        reason: "the kernel ignores it and lets it pass; no host sends data before its SYN",
        is: |d| is_stricter(d, &["data instead of a SYN-ACK"]),
    },
    Difference {
        name: "late segments",
        reason: "the kernel lets segments below the lower bounds pass without effect since 6.1; \
                 the endpoint has all of their data, so we drop them as pf does",
        is: |d| is_stricter(d, &["old data", "old ACK", "SYN-ACK once more"]),
    },
    Difference {
        name: "data over the edge of the window",
        reason: "the kernel checks where a segment begins, we check where it ends",
        is: |d| is_stricter(d, &["data over the edge", "data ahead"]),
    },
    Difference {
        name: "SACK for data that was not sent",
        reason: "hosts ignore it (RFC 2018 section 4), so it passes here; the kernel drops it",
        is: |d| is_looser(d, &["SACK for data that was not sent"]),
    },
    Difference {
        name: "SYN-ACK of the side that began",
        reason: "of a simultaneous open; the kernel knows that only while it opens, we let it \
                 pass if its numbers fit",
        is: |d| is_looser(d, &["SYN-ACK once more"]),
    },
    Difference {
        name: "RST of a number that is acknowledged",
        reason: "the endpoint ignores it (RFC 5961 section 3.2), and the next segment shows that; \
                 the kernel drops it",
        is: |d| {
            is_looser(d, &["RST beside"])
                || is_looser(d, &["RST"]) && d.has_sent("ACK for data that was not sent")
        },
    },
    Difference {
        name: "RST above the window",
        reason: "the kernel lets it pass if there is no ACK to compare with",
        is: |d| is_stricter(d, &["RST beside"]),
    },
    Difference {
        name: "error about a segment outside of the window",
        reason: "RFC 5927 section 4.1: the number that it quotes is checked; the kernel does not",
        is: |d| {
            is_named(d, &["error about another number"])
                && matches!(d.kernel, Outcome::Passed(_))
                && d.dropped(DropReason::FilterIcmp)
        },
    },
];
