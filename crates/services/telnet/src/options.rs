//! The state of every option at both ends, by the Q method of RFC 1143, which cannot loop. A
//! request is answered only if it changes the state or is refused.
//!
//! Called by: `engine.rs`. Limit: `CHANGES` for each option.

use crate::code::{DO, DONT, WILL, WONT};
use crate::limits::CHANGES;

/// The end that performs an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// This end: we send WILL and WONT.
    Us,
    /// The other end: we send DO and DONT.
    Him,
}

/// The state of an option with its queue bit (RFC 1143 section 7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    No,
    Yes,
    WantNo,
    /// We asked for "off", and now want "on".
    WantNoOpposite,
    WantYes,
    /// We asked for "on", and now want "off".
    WantYesOpposite,
}

/// The result of a received negotiation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaction {
    /// WILL, WONT, DO or DONT, to be sent with the option.
    pub reply: Option<u8>,
    /// The option is now in force, or no longer in force, or was refused to us.
    pub settled: Option<(Side, bool)>,
}

/// All options.
#[derive(Debug)]
pub struct Options {
    us: [State; 256],
    him: [State; 256],
    may_us: [bool; 256],
    may_him: [bool; 256],
    /// How often the other end changed each option, on either side.
    changes: [u8; 256],
}

impl Options {
    /// The options that are allowed at our end, and at the other end.
    pub fn new(us: &[u8], him: &[u8]) -> Options {
        let set = |options: &[u8]| core::array::from_fn(|i| options.contains(&(i as u8)));
        let none = [State::No; 256];
        Options { us: none, him: none, may_us: set(us), may_him: set(him), changes: [0; 256] }
    }

    /// Is the option in force on that side?
    pub fn is_on(&self, side: Side, option: u8) -> bool {
        let states = if side == Side::Us { &self.us } else { &self.him };
        states[usize::from(option)] == State::Yes
    }

    /// Has the other end still to answer a request of ours?
    pub fn is_pending(&self, side: Side, option: u8) -> bool {
        let states = if side == Side::Us { &self.us } else { &self.him };
        !matches!(states[usize::from(option)], State::Yes | State::No)
    }

    /// Ask for the option to be turned on or off. Returns the verb to send, if any. RFC 1143 7-b.
    pub fn request(&mut self, side: Side, option: u8, on: bool) -> Option<u8> {
        let (state, yes, no) = self.of(side, option);
        let (next, sent) = match (*state, on) {
            (State::No, true) => (State::WantYes, Some(yes)),
            (State::Yes, false) => (State::WantNo, Some(no)),
            (State::WantNo, true) => (State::WantNoOpposite, None),
            (State::WantYesOpposite, true) => (State::WantYes, None),
            (State::WantNoOpposite, false) => (State::WantNo, None),
            (State::WantYes, false) => (State::WantYesOpposite, None),
            (same, _) => (same, None),
        };
        *state = next;
        sent
    }

    /// Handle a verb that the other end sent with an option. RFC 855 1-a, RFC 1143 7-a.
    pub fn receive(&mut self, verb: u8, option: u8) -> Reaction {
        let side = if matches!(verb, WILL | WONT) { Side::Him } else { Side::Us };
        let may = if side == Side::Us { self.may_us } else { self.may_him }[usize::from(option)];
        let (state, yes, no) = self.of(side, option);
        let (next, reply) = if matches!(verb, WILL | DO) {
            match *state {
                State::No if may => (State::Yes, Some(yes)),
                State::No => (State::No, Some(no)),
                // The other end answered "on" to our request for "off": it misbehaves (RFC 1143).
                State::WantNo => (State::No, None),
                State::WantYesOpposite => (State::WantNo, Some(no)),
                State::Yes | State::WantNoOpposite | State::WantYes => (State::Yes, None),
            }
        } else {
            match *state {
                State::Yes => (State::No, Some(no)),
                State::WantNoOpposite => (State::WantYes, Some(yes)),
                State::No | State::WantNo | State::WantYes | State::WantYesOpposite => {
                    (State::No, None)
                }
            }
        };
        let before = core::mem::replace(state, next);
        if before != next && matches!(before, State::Yes | State::No) {
            self.count(option);
        }
        let is_settled = before != next && matches!(next, State::Yes | State::No);
        Reaction { reply, settled: is_settled.then_some((side, next == State::Yes)) }
    }

    /// Count a change of an option by the other end.
    fn count(&mut self, option: u8) {
        let at = usize::from(option);
        self.changes[at] = self.changes[at].saturating_add(1);
        if self.changes[at] >= CHANGES {
            (self.may_us[at], self.may_him[at]) = (false, false);
        }
    }

    /// The options in force at a side.
    pub fn all_on(&self, side: Side) -> impl Iterator<Item = u8> + '_ {
        (0..=255).filter(move |&option| self.is_on(side, option))
    }

    fn of(&mut self, side: Side, option: u8) -> (&mut State, u8, u8) {
        match side {
            Side::Us => (&mut self.us[usize::from(option)], WILL, WONT),
            Side::Him => (&mut self.him[usize::from(option)], DO, DONT),
        }
    }
}
