//! The misbehaviours of an adversary, a line each; `misbehave.rs` carries them out.
//!
//! Called by: scenarios and `adversary`. RFC 9293 (windows), RFC 2018 (SACK, and section 8: a
//! receiver may discard data that it reported), RFC 2883 (DSACK), RFC 7323 (timestamps); attacks on
//! the sender: Savage and others, "TCP congestion control with a misbehaving receiver", 1999.

/// How an adversary misbehaves, half of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// Not at all: for comparison.
    Nothing,
    /// It splits each ACK into up to 64, of a few bytes each.
    DividedAcks,
    /// It acknowledges data that has not arrived, or was never sent.
    OptimisticAcks,
    /// SACK blocks outside the window, on both sides of it.
    SackOutside,
    /// Overlapping SACK blocks of data that has not arrived.
    SackOverlapping,
    /// SACK blocks whose ends are exchanged or equal.
    SackInverted,
    /// SACK blocks of data that was never sent.
    SackNeverSent,
    /// It discards data that it has reported in SACK blocks.
    Reneging,
    /// Its window is zero, small, or open, and changes from ACK to ACK.
    Windows,
    /// It takes segments of one byte.
    TinyMss,
    /// Its clock jumps forwards and back, and it echoes timestamps that were never sent.
    Timestamps,
    /// It reports duplicates that it never got.
    Dsack,
    /// It sends nothing any more once it has received some of the stream.
    Silence,
}

impl Misbehaviour {
    /// All of them.
    pub const ALL: &'static [Misbehaviour] = &[
        Misbehaviour::Nothing,
        Misbehaviour::DividedAcks,
        Misbehaviour::OptimisticAcks,
        Misbehaviour::SackOutside,
        Misbehaviour::SackOverlapping,
        Misbehaviour::SackInverted,
        Misbehaviour::SackNeverSent,
        Misbehaviour::Reneging,
        Misbehaviour::Windows,
        Misbehaviour::TinyMss,
        Misbehaviour::Timestamps,
        Misbehaviour::Dsack,
        Misbehaviour::Silence,
    ];

    /// Does it acknowledge bytes that are missing, so that its peer cannot know? No stream arrives
    /// whole then.
    pub const fn loses_bytes(self) -> bool {
        matches!(self, Misbehaviour::OptimisticAcks)
    }

    /// Does everything arrive all the same, once it keeps to the protocol?
    pub const fn is_survived(self) -> bool {
        !matches!(self, Misbehaviour::OptimisticAcks | Misbehaviour::Silence)
    }
}
