//! The marks of a segment: the findings that Wireshark's TCP analysis would report for it.
//!
//! Called by: `rules`, which sets marks; programs that print or draw them.

/// A set of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(pub u16);

impl Marks {
    /// No mark.
    pub const NONE: Marks = Marks(0);
    /// The data was sent before. One of the next two marks may be set too, and says more about the
    /// repetition.
    pub const RETRANSMISSION: Marks = Marks(1);
    /// The data was sent again because duplicate ACKs asked for it.
    pub const FAST_RETRANSMISSION: Marks = Marks(1 << 1);
    /// The data was sent again although it had been acknowledged.
    pub const SPURIOUS_RETRANSMISSION: Marks = Marks(1 << 2);
    /// Later segments overtook this one.
    pub const OUT_OF_ORDER: Marks = Marks(1 << 3);
    /// Data before this segment is not in the capture: it was lost, or not captured.
    pub const LOST_SEGMENT: Marks = Marks(1 << 4);
    /// The segment acknowledges data that is not in the capture.
    pub const ACK_LOST_SEGMENT: Marks = Marks(1 << 5);
    /// The segment repeats an acknowledgment.
    pub const DUPLICATE_ACK: Marks = Marks(1 << 6);
    /// The segment asks whether the peer still has the connection.
    pub const KEEP_ALIVE: Marks = Marks(1 << 7);
    /// The segment answers a keep-alive.
    pub const KEEP_ALIVE_ACK: Marks = Marks(1 << 8);
    /// The sender of the segment has no room for data: its window is zero.
    pub const ZERO_WINDOW: Marks = Marks(1 << 9);
    /// The segment asks whether the window is open again.
    pub const ZERO_WINDOW_PROBE: Marks = Marks(1 << 10);
    /// The segment answers a zero window probe: the window is still closed.
    pub const ZERO_WINDOW_PROBE_ACK: Marks = Marks(1 << 11);
    /// The segment only reports another size of the window.
    pub const WINDOW_UPDATE: Marks = Marks(1 << 12);
    /// The segment fills the window of its receiver.
    pub const WINDOW_FULL: Marks = Marks(1 << 13);
    /// The segment is the SYN of a new connection between ports that were used before.
    pub const REUSED_PORTS: Marks = Marks(1 << 14);

    /// Are all marks of `other` set?
    pub const fn contains(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Is any mark of `other` set?
    pub const fn intersects(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }

    /// Set all marks of `other`.
    pub(crate) fn set(&mut self, other: Marks) {
        self.0 |= other.0;
    }
}

/// Each mark with its name: the name of Wireshark's field below `tcp.analysis.`.
pub const NAMES: [(Marks, &str); 15] = [
    (Marks::RETRANSMISSION, "retransmission"),
    (Marks::FAST_RETRANSMISSION, "fast_retransmission"),
    (Marks::SPURIOUS_RETRANSMISSION, "spurious_retransmission"),
    (Marks::OUT_OF_ORDER, "out_of_order"),
    (Marks::LOST_SEGMENT, "lost_segment"),
    (Marks::ACK_LOST_SEGMENT, "ack_lost_segment"),
    (Marks::DUPLICATE_ACK, "duplicate_ack"),
    (Marks::KEEP_ALIVE, "keep_alive"),
    (Marks::KEEP_ALIVE_ACK, "keep_alive_ack"),
    (Marks::ZERO_WINDOW, "zero_window"),
    (Marks::ZERO_WINDOW_PROBE, "zero_window_probe"),
    (Marks::ZERO_WINDOW_PROBE_ACK, "zero_window_probe_ack"),
    (Marks::WINDOW_UPDATE, "window_update"),
    (Marks::WINDOW_FULL, "window_full"),
    (Marks::REUSED_PORTS, "reused_ports"),
];
