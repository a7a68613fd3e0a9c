//! The subject of the experiment: a transport over a medium, and the cost of a size of argument
//! there.
//!
//! Called by: all files of `elbow`, the benchmarks.

use std::fmt::Write as _;

use super::line::Line;

/// The transport of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Transport {
    /// TCP, in records.
    Tcp,
    /// UDP; a call that does not fit a frame is cut into fragments.
    Udp,
}

impl Transport {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
        }
    }
}

/// The medium between the ends, and the programs at both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Over {
    /// Hosts of 1989 on a 10 Mb/s Ethernet, in virtual time; ours on the same wire.
    Wire,
    /// Ours at both ends, in memory.
    Memory,
    /// Ours calls libtirpc over a TAP.
    Tap,
    /// libtirpc calls libtirpc over the kernel's loopback.
    Kernel,
}

impl Over {
    /// In the order of the table.
    pub const ALL: [Over; 4] = [Over::Wire, Over::Memory, Over::Tap, Over::Kernel];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Over::Wire => "wire",
            Over::Memory => "memory",
            Over::Tap => "tap",
            Over::Kernel => "kernel",
        }
    }
}

/// The hosts on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Hosts {
    /// Ours.
    Ours,
    /// 4.3BSD's rules, and the RPC library of 1989 as delivered.
    #[value(name = "1989")]
    Delivered,
    /// The same with the vendor's remedy: library buffers of 24,000 bytes.
    #[value(name = "vendor")]
    Remedy,
    /// The same TCP; the library writes a record whole, and asks for TCP_NODELAY.
    Fixed,
}

impl Hosts {
    /// In the order of the table.
    pub const ALL: [Hosts; 4] = [Hosts::Delivered, Hosts::Remedy, Hosts::Fixed, Hosts::Ours];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Hosts::Ours => "ours",
            Hosts::Delivered => "1989",
            Hosts::Remedy => "vendor",
            Hosts::Fixed => "fixed",
        }
    }
}

/// The waits of several calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Causes {
    /// Segments or fragments, both ways.
    pub segments: u64,
    /// ACKs that came when their timer had expired, and without which nothing went on.
    pub delayed_acks: u64,
    /// Times that a short segment waited for an ACK (Nagle).
    pub nagle_holds: u64,
    /// Nanoseconds in which a call waited for room in the send buffer.
    pub blocked_ns: u64,
}

impl std::ops::AddAssign for Causes {
    fn add_assign(&mut self, other: Causes) {
        self.segments += other.segments;
        self.delayed_acks += other.delayed_acks;
        self.nagle_holds += other.nagle_holds;
        self.blocked_ns += other.blocked_ns;
    }
}

/// The calls with one size of argument.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Bytes of argument.
    pub bytes: u32,
    /// Nanoseconds a call, an average for each round of calls.
    pub averages_ns: Vec<f64>,
    /// Calls of all rounds.
    pub calls: u64,
    /// Their waits, all together.
    pub causes: Causes,
}

impl Point {
    /// The median of the averages; `None` if nothing was measured.
    pub fn ns(&self) -> Option<f64> {
        Some(crate::Span::of(self.averages_ns.iter().copied())?.mid)
    }

    /// Why a call takes its time, in words.
    pub fn why(&self) -> String {
        let each = |count: u64| count as f64 / self.calls.max(1) as f64;
        let causes = &self.causes;
        let mut words = format!("{:.1} packets", each(causes.segments));
        // Writing into a string cannot fail.
        let _ = match causes.delayed_acks {
            0 => write!(words, ", no delayed ACK"),
            acks => write!(words, ", {:.2} delayed ACKs", each(acks)),
        };
        if causes.nagle_holds > 0 {
            let _ = write!(words, ", {:.2} held by Nagle", each(causes.nagle_holds));
        }
        if causes.blocked_ns > 0 {
            let share = causes.blocked_ns as f64 / (self.calls as f64 * self.ns().unwrap_or(1.0));
            let _ = write!(words, ", {:.0} % of the time in write", share * 100.0);
        }
        words + " a call"
    }
}

/// A curve: one transport between two ends.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The medium between the ends.
    pub over: Over,
    /// The caller and the server.
    pub ends: String,
    /// The transport.
    pub transport: Transport,
    /// The points, by size; all sizes are there, measured or not.
    pub points: Vec<Point>,
    /// Why it was not measured.
    pub trouble: Option<String>,
}

impl Curve {
    /// Points that were measured.
    pub fn measured(&self) -> Vec<(f64, f64)> {
        let measured = |p: &Point| Some((f64::from(p.bytes), p.ns()?));
        self.points.iter().filter_map(measured).collect()
    }

    /// The line through them; `None` if too few were measured.
    pub fn line(&self) -> Option<Line> {
        Line::through(&self.measured())
    }

    /// A point's time over the line's.
    pub fn over_line(&self, line: &Line, point: &Point) -> Option<f64> {
        Some(point.ns()? / line.at(f64::from(point.bytes)))
    }

    /// The point that is the farthest above the line, and how far.
    pub fn worst(&self) -> Option<(&Point, f64)> {
        let line = self.line()?;
        let ratios = self.points.iter().filter_map(|p| Some((p, self.over_line(&line, p)?)));
        ratios.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}
