//! What both ends share: the parser, the options, the bytes to be sent, and STATUS (RFC 859).
//!
//! Called by: `client.rs` and `server.rs`.

use crate::code::{DO, IAC, IS, SB, SE, SEND, STATUS, WILL};
use crate::limits::FLUSHED_BYTES;
use crate::options::{Options, Side};
use crate::out::Out;
use crate::parser::Parser;

/// The counters of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Options that were refused.
    pub refused: u64,
    /// Sub-negotiations dropped because they were malformed, too long, or of an option not in
    /// force.
    pub dropped: u64,
    /// Data bytes dropped because of a Synch or a timing mark.
    pub flushed: u64,
}

/// The part of an end that client and server have in common.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) parser: Parser,
    pub(crate) options: Options,
    pub(crate) out: Out,
    pub(crate) counts: Counts,
    /// Urgent data is ahead: data is dropped up to the data mark (RFC 854), but at most this many
    /// bytes.
    synching: usize,
}

impl Engine {
    pub(crate) fn new(us: &[u8], him: &[u8]) -> Engine {
        Engine {
            parser: Parser::default(),
            options: Options::new(us, him),
            out: Out::default(),
            counts: Counts::default(),
            synching: 0,
        }
    }

    /// Note that the connection has urgent data ahead.
    pub(crate) fn urgent(&mut self) {
        self.synching = FLUSHED_BYTES;
    }

    /// Note that a data mark has come.
    pub(crate) fn data_mark(&mut self) {
        self.synching = 0;
    }

    /// Is data of this length to be dropped because of a Synch? RFC 854 9-a.
    pub(crate) fn drops(&mut self, length: usize) -> bool {
        let is_synching = self.synching > 0;
        if is_synching {
            self.synching = self.synching.saturating_sub(length);
            self.counts.flushed += length as u64;
        }
        is_synching
    }

    /// Ask for an option to be turned on or off.
    pub(crate) fn request(&mut self, side: Side, option: u8, on: bool) {
        if let Some(verb) = self.options.request(side, option, on) {
            self.out.raw(&[IAC, verb, option]);
        }
    }

    /// Answer a negotiation. Returns the side and the state of the option, if the negotiation
    /// settled them.
    pub(crate) fn negotiate(&mut self, verb: u8, option: u8) -> Option<(Side, bool)> {
        let reaction = self.options.receive(verb, option);
        if let Some(reply) = reaction.reply {
            self.out.raw(&[IAC, reply, option]);
            if reaction.settled.is_none() && matches!(verb, DO | WILL) {
                self.counts.refused += 1;
            }
        }
        reaction.settled
    }

    /// Send a sub-negotiation.
    pub(crate) fn sub(&mut self, option: u8, contents: &[u8]) {
        self.out.raw(&[IAC, SB, option]);
        self.out.doubled(contents.iter().copied());
        self.out.raw(&[IAC, SE]);
    }

    /// Answer a request for the state of the options (RFC 859).
    pub(crate) fn status(&mut self, contents: &[u8]) {
        if contents != [SEND] || !self.options.is_on(Side::Us, STATUS) {
            self.counts.dropped += 1;
            return;
        }
        let mut text = vec![IS];
        for (side, verb) in [(Side::Us, WILL), (Side::Him, DO)] {
            for option in self.options.all_on(side) {
                text.extend([verb, option]);
                // RFC 859: a byte SE inside the sub-negotiation is doubled.
                if option == SE {
                    text.push(SE);
                }
            }
        }
        self.sub(STATUS, &text);
    }
}
