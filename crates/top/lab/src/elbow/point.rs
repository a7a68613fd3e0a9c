//! The subject of the experiment: a transport over a medium, and the time of calls with one size of
//! argument.
//!
//! Called by: all files of `elbow`, the benchmarks.

use std::fmt::Write as _;

use super::line::Line;

/// The transport of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Transport {
    /// TCP, with record marking.
    Tcp,
    /// UDP; a call that does not fit into a frame is cut into IP fragments.
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

/// The medium between the ends, and the programs at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Over {
    /// Hosts of 1989, and ours, on a 10 Mb/s Ethernet in virtual time.
    Wire,
    /// Our stack at both ends, in memory.
    Memory,
    /// Our stack calls libtirpc over a TAP.
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
    /// Like `1989`, with the vendor's remedy: library buffers of 24,000 bytes.
    #[value(name = "vendor")]
    Remedy,
    /// Like `1989`, with a library that writes a record at once and sets TCP_NODELAY.
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

/// Counts of several calls: packets, and causes of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Causes {
    /// Segments or fragments, both ways.
    pub segments: u64,
    /// Delayed ACKs that were sent when their timer expired, while the call waited for nothing
    /// else.
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
    /// The number of calls in all rounds.
    pub calls: u64,
    /// The packets and waits of all these calls together.
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
    /// The points, by size; a size that was not measured has a point without averages.
    pub points: Vec<Point>,
    /// Why the curve was not measured.
    pub trouble: Option<String>,
}

impl Curve {
    /// Points that were measured.
    pub fn measured(&self) -> Vec<(f64, f64)> {
        let measured = |p: &Point| Some((f64::from(p.bytes), p.ns()?));
        self.points.iter().filter_map(measured).collect()
    }

    /// The line through the measured points; `None` if there are too few.
    pub fn line(&self) -> Option<Line> {
        Line::through(&self.measured())
    }

    /// A point's time divided by the line's at its size.
    pub fn over_line(&self, line: &Line, point: &Point) -> Option<f64> {
        Some(point.ns()? / line.at(f64::from(point.bytes)))
    }

    /// The point with the highest ratio to the line, and that ratio.
    pub fn worst(&self) -> Option<(&Point, f64)> {
        let line = self.line()?;
        let ratios = self.points.iter().filter_map(|p| Some((p, self.over_line(&line, p)?)));
        ratios.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}
