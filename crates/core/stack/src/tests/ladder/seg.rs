//! One line of a ladder: a segment to send or to expect, with relative sequence numbers.
//!
//! `seq` counts from the sender's initial sequence number (its SYN is 0, its first byte 1); `ack`
//! and SACK blocks count from the other side's. A field that a line does not set is filled in if
//! the line is sent, and ignored if it is expected. But flags (except PSH) and the length are
//! always compared.

use core::fmt;

use wire::tcp::Flags;

/// The value of a window scale that expects no such option.
pub(super) const NONE: u8 = 99;

/// A segment as described by one line.
#[derive(Clone, Debug, Default)]
pub(super) struct Seg {
    pub(super) flags: u8,
    pub(super) seq: Option<i64>,
    pub(super) ack: Option<i64>,
    pub(super) len: usize,
    /// The window field as in the header, not scaled.
    pub(super) win: Option<u16>,
    pub(super) urgent: u16,
    pub(super) mss: Option<u16>,
    pub(super) ws: Option<u8>,
    pub(super) sack_ok: Option<bool>,
    /// The user timeout in seconds.
    pub(super) uto: Option<u32>,
    /// TSval and TSecr of the timestamps option.
    pub(super) ts: Option<(u32, u32)>,
    /// Sends or expects no timestamps.
    pub(super) no_ts: bool,
    pub(super) sacks: Option<Vec<(i64, i64)>>,
    /// The segment size of a super-segment.
    pub(super) size: Option<u16>,
    /// The option bytes as they are, instead of all other options.
    pub(super) raw_options: Option<Vec<u8>>,
    /// The ECN field of the IP header: 2 is ECT(0), 3 is CE (RFC 3168).
    pub(super) ecn: Option<u8>,
    /// The cookie of a Fast Open option; empty to request one.
    pub(super) fast_open: Option<Vec<u8>>,
    /// Fills the payload with this byte instead of the stream's bytes.
    pub(super) fill: Option<u8>,
}

/// A segment with only the ACK flag.
pub(super) fn seg() -> Seg {
    Seg { flags: Flags::ACK.0, ..Seg::default() }
}

/// A segment with exactly these flags.
pub(super) fn bare(flags: Flags) -> Seg {
    Seg { flags: flags.0, ..Seg::default() }
}

/// A SYN without ACK.
pub(super) fn syn() -> Seg {
    bare(Flags::SYN).seq(0)
}

/// A SYN with ACK.
pub(super) fn syn_ack() -> Seg {
    bare(Flags::SYN | Flags::ACK).seq(0).ack(1)
}

/// A RST without ACK.
pub(super) fn rst() -> Seg {
    bare(Flags::RST)
}

impl Seg {
    pub(super) fn seq(mut self, n: i64) -> Seg {
        self.seq = Some(n);
        self
    }
    pub(super) fn ack(mut self, n: i64) -> Seg {
        self.flags |= Flags::ACK.0;
        self.ack = Some(n);
        self
    }
    pub(super) fn no_ack(mut self) -> Seg {
        self.flags &= !Flags::ACK.0;
        self
    }
    pub(super) fn data(mut self, len: usize) -> Seg {
        self.len = len;
        self
    }
    pub(super) fn fin(mut self) -> Seg {
        self.flags |= Flags::FIN.0;
        self
    }
    pub(super) fn and_syn(mut self) -> Seg {
        self.flags |= Flags::SYN.0;
        self
    }
    pub(super) fn and_rst(mut self) -> Seg {
        self.flags |= Flags::RST.0;
        self
    }
    pub(super) fn urg(mut self, pointer: u16) -> Seg {
        self.flags |= Flags::URG.0;
        self.urgent = pointer;
        self
    }
    pub(super) fn uto(mut self, seconds: u32) -> Seg {
        self.uto = Some(seconds);
        self
    }
    /// With ECT(0): ECN-capable.
    pub(super) fn ect(mut self) -> Seg {
        self.ecn = Some(2);
        self
    }
    /// With CE: marked by a router.
    pub(super) fn ce(mut self) -> Seg {
        self.ecn = Some(3);
        self
    }
    /// With Not-ECT: not ECN-capable.
    pub(super) fn not_ect(mut self) -> Seg {
        self.ecn = Some(0);
        self
    }
    pub(super) fn ece(mut self) -> Seg {
        self.flags |= Flags::ECE.0;
        self
    }
    pub(super) fn cwr(mut self) -> Seg {
        self.flags |= Flags::CWR.0;
        self
    }
    pub(super) fn win(mut self, field: u16) -> Seg {
        self.win = Some(field);
        self
    }
    pub(super) fn mss(mut self, bytes: u16) -> Seg {
        self.mss = Some(bytes);
        self
    }
    pub(super) fn ws(mut self, shift: u8) -> Seg {
        self.ws = Some(shift);
        self
    }
    pub(super) fn sack_ok(mut self, yes: bool) -> Seg {
        self.sack_ok = Some(yes);
        self
    }
    pub(super) fn ts(mut self, value: u32, echo: u32) -> Seg {
        self.ts = Some((value, echo));
        self
    }
    pub(super) fn no_ts(mut self) -> Seg {
        self.no_ts = true;
        self
    }
    pub(super) fn sack(mut self, blocks: &[(i64, i64)]) -> Seg {
        self.sacks = Some(blocks.to_vec());
        self
    }
    pub(super) fn fast_open(mut self, cookie: &[u8]) -> Seg {
        self.fast_open = Some(cookie.to_vec());
        self
    }
    pub(super) fn size(mut self, bytes: u16) -> Seg {
        self.size = Some(bytes);
        self
    }
    pub(super) fn options(mut self, bytes: &[u8]) -> Seg {
        self.raw_options = Some(bytes.to_vec());
        self
    }
    pub(super) fn fill(mut self, byte: u8) -> Seg {
        self.fill = Some(byte);
        self
    }
    pub(super) fn has(&self, flag: Flags) -> bool {
        Flags(self.flags).contains(flag)
    }
    /// The sequence space that the segment takes, in bytes plus SYN and FIN.
    pub(super) fn space(&self) -> i64 {
        self.len as i64 + i64::from(self.has(Flags::SYN)) + i64::from(self.has(Flags::FIN))
    }

    /// Does `seen` have everything that `self`, an expectation, sets?
    pub(super) fn holds_for(&self, seen: &Seg) -> bool {
        fn says<T: PartialEq>(wanted: &Option<T>, seen: &Option<T>) -> bool {
            wanted.is_none() || wanted == seen
        }
        let flags = |s: &Seg| s.flags & !Flags::PSH.0;
        let no_option = |wanted: Option<u32>, none: bool| !(none && wanted.is_some());
        flags(self) == flags(seen)
            && self.len == seen.len
            && says(&self.seq, &seen.seq)
            && says(&self.ack, &seen.ack)
            && says(&self.win, &seen.win)
            && says(&self.mss, &seen.mss)
            && says(&self.sack_ok, &seen.sack_ok)
            && (says(&self.ws, &seen.ws) || self.ws == Some(NONE) && seen.ws.is_none())
            && says(&self.uto, &seen.uto)
            && says(&self.ts, &seen.ts)
            && no_option(seen.ts.map(|t| t.0), self.no_ts)
            && says(&self.sacks, &seen.sacks)
            && says(&self.fast_open, &seen.fast_open)
            && says(&self.size, &seen.size)
            && says(&self.ecn, &seen.ecn)
    }
}

/// Prints the segment as tcpdump does.
impl fmt::Display for Seg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(Flags::SYN, "S"), (Flags::FIN, "F"), (Flags::RST, "R"), (Flags::PSH, "P")];
        write!(f, "[")?;
        for (flag, name) in names.into_iter().chain([(Flags::CWR, "W"), (Flags::ECE, "E")]) {
            f.write_str(if self.has(flag) { name } else { "" })?;
        }
        f.write_str(if self.has(Flags::ACK) { ".]" } else { "]" })?;
        match self.seq {
            Some(seq) if self.space() > 0 => write!(f, " seq {}:{}", seq, seq + self.len as i64)?,
            Some(seq) => write!(f, " seq {seq}")?,
            None => {}
        }
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(win) = self.win {
            write!(f, " win {win}")?;
        }
        if self.has(Flags::URG) {
            write!(f, " urg {}", self.urgent)?;
        }
        for (name, value) in [("mss", self.mss.map(u32::from)), ("ws", self.ws.map(u32::from))] {
            if let Some(value) = value {
                write!(f, " {name} {value}")?;
            }
        }
        if self.sack_ok == Some(true) {
            f.write_str(" sackOK")?;
        }
        if let Some((value, echo)) = self.ts {
            write!(f, " TS {value}/{echo}")?;
        }
        for (left, right) in self.sacks.iter().flatten() {
            write!(f, " sack {left}:{right}")?;
        }
        if let Some(cookie) = &self.fast_open {
            write!(f, " FO {cookie:x?}")?;
        }
        if let Some(size) = self.size.filter(|&s| s > 0) {
            write!(f, " size {size}")?;
        }
        if let Some(ecn) = self.ecn {
            f.write_str([" not-ect", " ect(1)", " ect(0)", " ce"][usize::from(ecn & 3)])?;
        }
        write!(f, " length {}", self.len)
    }
}
