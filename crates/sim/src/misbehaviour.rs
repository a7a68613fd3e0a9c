//! What an adversary can do wrong, a line each; how it does that is in `misbehave.rs`.
//!
//! Called by: scenarios and `adversary`. RFC 9293 (windows), RFC 2018 (SACK, and section 8: what
//! was reported may be thrown away), RFC 2883 (DSACK), RFC 7323 (timestamps); attacks on the
//! sender: Savage and others, "TCP congestion control with a misbehaving receiver", 1999.

/// What an adversary does wrong, half of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// Nothing: to compare with.
    Nothing,
    /// Each ACK comes as up to 64, a few bytes each.
    DividedAcks,
    /// It acknowledges what has not come, and what was never sent.
    OptimisticAcks,
    /// SACK blocks outside the window, on both sides of it.
    SackOutside,
    /// SACK blocks that overlap, of what has not come.
    SackOverlapping,
    /// SACK blocks whose ends are exchanged or equal.
    SackInverted,
    /// SACK blocks of what was never sent.
    SackNeverSent,
    /// It throws away what it has reported.
    Reneging,
    /// Its window is shut, or nearly, or open, from ACK to ACK.
    Windows,
    /// It takes segments of one byte.
    TinyMss,
    /// Its clock jumps forwards and back, and it echoes what it was never told.
    Timestamps,
    /// It reports duplicates that it never got.
    Dsack,
    /// It says nothing any more once it has some of the stream.
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

    /// Whether its peer cannot know that bytes are missing: no stream arrives whole then.
    pub const fn loses_bytes(self) -> bool {
        matches!(self, Misbehaviour::OptimisticAcks)
    }

    /// Whether everything arrives all the same, once it tells the truth.
    pub const fn is_survived(self) -> bool {
        !matches!(self, Misbehaviour::OptimisticAcks | Misbehaviour::Silence)
    }
}
