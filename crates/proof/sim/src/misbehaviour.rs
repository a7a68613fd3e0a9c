//! The kinds of misbehaviour of an adversary; `misbehave.rs` carries them out.
//!
//! Called by: scenarios and `adversary`. RFC 9293 (windows), RFC 2018 (SACK, and section 8: a
//! receiver may discard data that it reported), RFC 2883 (DSACK), RFC 7323 (timestamps); for
//! attacks on the sender, Savage and others, "TCP congestion control with a misbehaving receiver",
//! 1999.

/// How an adversary misbehaves. Until its settings' `honest_from` it does so half of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// It does not misbehave; this is the control.
    Nothing,
    /// It splits each ACK into up to 64, of a few bytes each.
    DividedAcks,
    /// It acknowledges data that has not arrived, or was never sent.
    OptimisticAcks,
    /// It sends SACK blocks outside the window, on both sides of it.
    SackOutside,
    /// It sends overlapping SACK blocks for data that has not arrived.
    SackOverlapping,
    /// It sends SACK blocks whose edges are exchanged or equal.
    SackInverted,
    /// It sends SACK blocks for data that was never sent.
    SackNeverSent,
    /// It discards data that it has reported in SACK blocks.
    Reneging,
    /// Its window is zero, small, or open, and changes from ACK to ACK.
    Windows,
    /// It sends the smallest MSS, so that segments have one byte.
    TinyMss,
    /// Its clock jumps forwards and back, and it echoes timestamps that were never sent.
    Timestamps,
    /// It reports duplicates that it never got.
    Dsack,
    /// It falls silent once it has received a part of the stream.
    Silence,
}

impl Misbehaviour {
    /// All kinds.
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

    /// Does the adversary acknowledge bytes that are missing? The peer cannot know this, so the
    /// stream does not arrive whole.
    pub const fn loses_bytes(self) -> bool {
        matches!(self, Misbehaviour::OptimisticAcks)
    }

    /// Does the whole stream arrive nevertheless, once the adversary keeps to the protocol?
    pub const fn is_survived(self) -> bool {
        !matches!(self, Misbehaviour::OptimisticAcks | Misbehaviour::Silence)
    }
}
