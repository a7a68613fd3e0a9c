//! The cases of `wirespeed lab forward`: the default cases, which vary one thing at a time, or all
//! combinations of the values that are asked for.
//!
//! Called by: `experiment.rs`.

use super::{Direction, FULL, IMIX, SMALL, Shape};

/// The devices between which a router forwards, and the router: ours or the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Over {
    /// Ours between two wires in memory.
    Mem,
    /// Ours between two TAPs.
    Tap,
    /// Ours between two veths, by AF_XDP.
    Xdp,
    /// The kernel between two veths.
    Kernel,
}

impl Over {
    pub(super) const ALL: [Over; 4] = [Over::Mem, Over::Tap, Over::Xdp, Over::Kernel];

    pub(super) fn name(self) -> &'static str {
        match self {
            Over::Mem => "ours, mem to mem",
            Over::Tap => "ours, TAP to TAP",
            Over::Xdp => "ours, AF_XDP between two veths",
            Over::Kernel => "the kernel between two veths",
        }
    }
}

/// The sizes of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Frame {
    /// 64 bytes.
    #[value(name = "64")]
    Small,
    /// 1,514 bytes.
    #[value(name = "1514")]
    Full,
    /// Twelve frames in turn: seven of 64 bytes, four of 590, one of 1,514.
    Imix,
}

impl Frame {
    fn sizes(self) -> &'static [usize] {
        match self {
            Frame::Small => SMALL,
            Frame::Full => FULL,
            Frame::Imix => IMIX,
        }
    }

    pub(super) fn name(sizes: &[usize]) -> String {
        match sizes {
            [size] => size.to_string(),
            _ => "IMIX".to_owned(),
        }
    }
}

/// Whether frames have VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Tags {
    /// Without tags.
    No,
    /// With tags, from one VLAN to another.
    Yes,
}

/// The choice of cases.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "What is forwarded: all combinations of the values given")]
pub(super) struct Choice {
    /// The devices, and the router that forwards [default: all that this machine permits]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) over: Vec<Over>,
    /// Bytes of a frame without tag and check sequence
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) frame: Vec<Frame>,
    /// Version of IP: 4, 6
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u8).range(4..=6))]
    pub(super) ip: Vec<u8>,
    /// Number of routes, as 1, 10k or 1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count)]
    pub(super) routes: Vec<u32>,
    /// Number of flows, each to another host, as 1, 10k or 1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count)]
    pub(super) flows: Vec<u32>,
    /// Frames with VLAN tags or without
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) tags: Vec<Tags>,
    /// There (from one host to the prefixes), back (the answers), or both
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) direction: Vec<Direction>,
}

/// A count of 1 to a million.
pub(super) fn count(text: &str) -> Result<u32, String> {
    let refused = || format!("'{text}' is no count of 1 to 1000000, as 1, 10k or 1M");
    let (digits, unit) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number: Option<u32> = digits.replace('_', "").parse().ok();
    let number = number.and_then(|number| number.checked_mul(unit));
    number.filter(|number| (1..=1_000_000).contains(number)).ok_or_else(refused)
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) over: Over,
    pub(super) shape: Shape,
}

/// `list`, or `usual` if it is empty.
fn or<T: Clone>(list: &[T], usual: T) -> Vec<T> {
    if list.is_empty() { vec![usual] } else { list.to_vec() }
}

impl Choice {
    /// Are there no options about the packets?
    fn is_usual(&self) -> bool {
        let are_empty = [self.frame.is_empty(), self.ip.is_empty(), self.tags.is_empty()];
        let lists = [&self.routes, &self.flows];
        are_empty.iter().all(|is| *is)
            && lists.iter().all(|list| list.is_empty())
            && self.direction.is_empty()
    }

    /// The rows, in the order of the table.
    pub(super) fn cases(&self, quick: bool) -> Vec<Case> {
        let over = if self.over.is_empty() { &Over::ALL[..] } else { &self.over };
        let shapes = if self.is_usual() { usual() } else { self.combinations() };
        // A million routes take seconds to make, and in the kernel longer than a quick run may
        // take.
        let is_wanted = |case: &Case| {
            let is_long = case.shape.routes > 100_000 && (case.over != Over::Mem || case.shape.v6);
            !(quick && is_long && self.is_usual())
        };
        let all = over.iter().flat_map(|&over| shapes.iter().map(move |&shape| (over, shape)));
        all.map(|(over, shape)| Case { over, shape }).filter(is_wanted).collect()
    }

    fn combinations(&self) -> Vec<Shape> {
        let mut shapes = vec![Shape::default()];
        let mut each = |set: &dyn Fn(Shape) -> Vec<Shape>| {
            shapes = shapes.iter().flat_map(|&shape| set(shape)).collect();
        };
        each(&|s| or(&self.ip, 4).iter().map(|&ip| Shape { v6: ip == 6, ..s }).collect());
        each(&|s| {
            let list = or(&self.frame, Frame::Small);
            list.iter().map(|frame| Shape { sizes: frame.sizes(), ..s }).collect()
        });
        each(&|s| {
            let list = or(&self.tags, Tags::No);
            list.iter().map(|&tags| Shape { tagged: tags == Tags::Yes, ..s }).collect()
        });
        each(&|s| or(&self.routes, 1).iter().map(|&routes| Shape { routes, ..s }).collect());
        each(&|s| or(&self.flows, 1).iter().map(|&flows| Shape { flows, ..s }).collect());
        each(&|s| {
            let list = or(&self.direction, Direction::There);
            list.iter().map(|&direction| Shape { direction, ..s }).collect()
        });
        shapes
    }
}

/// The default cases: they vary one thing at a time.
fn usual() -> Vec<Shape> {
    let plain = Shape::default();
    let many = Shape { flows: 10_000, ..plain };
    vec![
        plain,
        Shape { sizes: IMIX, ..plain },
        Shape { direction: Direction::Back, ..plain },
        Shape { direction: Direction::Both, ..plain },
        Shape { tagged: true, ..plain },
        many,
        Shape { routes: 1_000, ..many },
        Shape { routes: 1_000_000, ..many },
        Shape { v6: true, ..plain },
        Shape { v6: true, routes: 1_000_000, ..many },
    ]
}
