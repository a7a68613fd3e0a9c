//! The costs at a workstation of 1988 (15 MHz, 68020), and the effect of each of the four steps.
//!
//! Called by: `world.rs`, the report. Every figure is in the report, or follows from two of the
//! report's figures as its comment says; only the socket buffers were chosen so that they fit best
//! (docs/lab.md).

use serde_json::{Value, json};

/// Nanoseconds of a microsecond.
pub(super) const US: u64 = 1_000;
/// The report's KB has 1,024 bytes: only then are 890 KB/s in packets of 1,408 bytes 7.6 Mb/s on
/// the wire, as it says.
pub(super) const KB: u64 = 1_024;
/// Bytes of data in a packet.
pub(super) const PACKET_BYTES: u64 = 1_408;
/// Bytes of the headers of IP and TCP.
pub(super) const HEADER_BYTES: u64 = 40;

/// The steps of the report, each on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// `sosend` calls TCP after each cluster that it copies, not only after it has filled the free
    /// space.
    pub(super) unit: bool,
    /// No `m_pullup` for the sake of `dtom`: a received packet is left where it is.
    pub(super) in_place: bool,
    /// The driver gives the LANCE all packets that it has, not one at a time.
    pub(super) queue: bool,
    /// Checksum and copy loops unrolled, in 32 bits.
    pub(super) loops: bool,
    /// A fifth step: copy and checksum in one pass, as in the code that reached 1 MB/s.
    pub(super) fold: bool,
}

/// How many steps there are, without [`Steps::fold`].
pub(super) const STEPS: usize = 4;
/// The steps' names, in the order of the bits of [`Steps::of`].
pub(super) const NAMES: [&str; STEPS] = ["unit", "in place", "queue", "loops"];

impl Steps {
    /// The steps whose bits are set in a number.
    pub(super) fn of(bits: usize) -> Steps {
        let on = |at: usize| bits & 1 << at != 0;
        Steps { unit: on(0), in_place: on(1), queue: on(2), loops: on(3), fold: false }
    }

    /// All four steps, and `fold`.
    pub(super) fn folded() -> Steps {
        Steps { fold: true, ..Steps::of((1 << STEPS) - 1) }
    }

    /// Which of [`NAMES`] are on.
    pub(super) fn flags(self) -> [bool; STEPS] {
        [self.unit, self.in_place, self.queue, self.loops]
    }

    /// The name for people.
    pub(super) fn name(self) -> String {
        let on = NAMES.into_iter().zip(self.flags()).filter(|(_, on)| *on);
        let names: Vec<&str> = on.map(|(name, _)| name).collect();
        match (names.len(), self.fold) {
            (0, _) => "none".to_owned(),
            (STEPS, true) => "all four, one pass".to_owned(),
            (STEPS, false) => "all four".to_owned(),
            _ => names.join(", "),
        }
    }
}

/// The cost model, in microseconds of processor time unless an option says otherwise.
#[derive(clap::Args, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Costs {
    /// Protocol processing of a packet out or in, us
    // The report: 240 us a packet at the sender, which sends one and receives half an ACK.
    #[arg(long, value_name = "US", default_value_t = 160, value_parser = us())]
    pub(super) protocol: u64,
    /// Device set-up of a packet to send, us
    // The report's 440 us for device set-up, interrupts and tasks are this, an interrupt for the
    // packet, and half of an interrupt and of a wake-up for the ACK.
    #[arg(long, value_name = "US", default_value_t = 100, value_parser = us())]
    pub(super) setup: u64,
    /// An interrupt, from the end of the packet until the driver continues, us
    // "More than 150 us."
    #[arg(long, value_name = "US", default_value_t = 150, value_parser = us())]
    pub(super) interrupt: u64,
    /// Waking a process and switching to it, us
    // The rest of the 440 us.
    #[arg(long, value_name = "US", default_value_t = 230, value_parser = us())]
    pub(super) wake: u64,
    /// The hidden copies of a received packet, us
    // With the hidden copies the receiver was the limit at 600 KB/s: 2,292 us a packet. Without
    // them it was 67 % busy at 750 KB/s: 67 % of 1,833 us.
    #[arg(long, value_name = "US", default_value_t = 1_060, value_parser = us())]
    pub(super) pullup: u64,
    /// Bus and memory taken by the LANCE for a packet, us
    #[arg(long, value_name = "US", default_value_t = 300, value_parser = us())]
    pub(super) bus: u64,
    /// Bytes of a socket buffer
    // The report does not say; some rows are measured with `OTHER_SOCKETS` too.
    #[arg(long, value_name = "BYTES", default_value_t = 16_384,
          value_parser = clap::value_parser!(u64).range(3_072..=65_535))]
    pub(super) buffer: u64,
    /// Bytes of a write
    // "While we were copying 4 KB from the user."
    #[arg(long, value_name = "BYTES", default_value_t = 4_096,
          value_parser = clap::value_parser!(u64).range(1_024..=1 << 20))]
    pub(super) write: u64,
}

/// A parser of times of up to a second.
fn us() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(..=1_000_000)
}

impl Costs {
    /// Nanoseconds to copy this many bytes to or from a program; with `fold` this includes the sum.
    pub(super) fn copy_ns(&self, steps: Steps, bytes: u64) -> u64 {
        let us_per_kb = match (steps.fold, steps.loops) {
            (true, _) => FOLD_US_PER_KB,
            (false, true) => COPY_US_PER_KB.1,
            (false, false) => COPY_US_PER_KB.0,
        };
        bytes * us_per_kb * US / KB
    }

    /// Nanoseconds to sum a packet of this many bytes of data.
    pub(super) fn sum_ns(&self, steps: Steps, data: u64) -> u64 {
        let us_per_kb = if steps.loops { SUM_US_PER_KB.1 } else { SUM_US_PER_KB.0 };
        let bytes = if steps.fold { HEADER_BYTES } else { data + HEADER_BYTES };
        bytes * us_per_kb * US / KB
    }

    /// The costs for the document, also those that are not options.
    pub(super) fn as_json(&self) -> Value {
        json!({
            "protocol_us": self.protocol,
            "setup_us": self.setup,
            "interrupt_us": self.interrupt,
            "wake_us": self.wake,
            "pullup_us": self.pullup,
            "bus_us": self.bus,
            "copy_us_per_kb": [COPY_US_PER_KB.0, COPY_US_PER_KB.1],
            "sum_us_per_kb": [SUM_US_PER_KB.0, SUM_US_PER_KB.1],
            "one_pass_us_per_kb": FOLD_US_PER_KB,
            "socket_buffer_bytes": self.buffer,
            "write_bytes": self.write,
        })
    }
}

/// Other sizes of socket buffers and of writes, which show how much depends on these sizes.
pub(super) const OTHER_SOCKETS: [(u64, u64); 3] = [(4_096, 4_096), (8_192, 4_096), (8_192, 8_192)];

/// Each pair is without and with the step `loops`.
const COPY_US_PER_KB: (u64, u64) = (200, 140);
const SUM_US_PER_KB: (u64, u64) = (490, 130);
const FOLD_US_PER_KB: u64 = 200;
