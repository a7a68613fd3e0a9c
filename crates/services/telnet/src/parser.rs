//! Splits the received bytes into data, commands, negotiations and sub-negotiations (RFC 854, RFC
//! 855).
//!
//! Called by: `engine.rs`. Any bytes in any pieces are accepted. Malformed parts are dropped and
//! counted, and the parser continues after them.

use crate::code::{DONT, IAC, SB, SE, WILL};
use crate::limits::SUBNEGOTIATION_BYTES;

/// A part of the received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Data without bytes of value 255, which come as [`Item::Iac`].
    Data(&'a [u8]),
    /// A data byte of value 255.
    Iac,
    /// A command without an option.
    Command(u8),
    /// WILL, WONT, DO or DONT, and the option.
    Negotiate(u8, u8),
    /// The option and the contents of a sub-negotiation; IAC is no longer doubled.
    Sub(u8, Vec<u8>),
    /// A sub-negotiation without an option, longer than the limit, or not ended by IAC SE.
    Malformed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Data,
    Iac,
    Verb(u8),
    Sub,
    SubIac,
}

/// The parser, and its state in the stream.
#[derive(Debug, Default)]
pub struct Parser {
    state: State,
    sub: Vec<u8>,
    is_too_long: bool,
}

impl Parser {
    /// Take the next part from the front of `input`; `None` when all of `input` is taken.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Item<'a>> {
        while let Some((&byte, rest)) = input.split_first() {
            if self.state == State::Data && byte != IAC {
                let length = input.iter().position(|&b| b == IAC).unwrap_or(input.len());
                let (data, behind) = input.split_at(length);
                *input = behind;
                return Some(Item::Data(data));
            }
            *input = rest;
            if let Some(item) = self.byte(byte) {
                return Some(item);
            }
        }
        None
    }

    fn byte(&mut self, byte: u8) -> Option<Item<'static>> {
        match self.state {
            State::Data => self.state = State::Iac,
            State::Iac => return self.command(byte),
            State::Verb(verb) => {
                self.state = State::Data;
                return Some(Item::Negotiate(verb, byte));
            }
            State::Sub if byte == IAC => self.state = State::SubIac,
            State::Sub => self.keep(byte),
            State::SubIac if byte == IAC => {
                self.keep(IAC);
                self.state = State::Sub;
            }
            State::SubIac => return Some(self.end(byte)),
        }
        None
    }

    fn command(&mut self, byte: u8) -> Option<Item<'static>> {
        self.state = State::Data;
        match byte {
            IAC => return Some(Item::Iac),
            SB => {
                self.state = State::Sub;
                self.sub.clear();
                self.is_too_long = false;
            }
            WILL..=DONT => self.state = State::Verb(byte),
            command => return Some(Item::Command(command)),
        }
        None
    }

    fn keep(&mut self, byte: u8) {
        if self.sub.len() < SUBNEGOTIATION_BYTES {
            self.sub.push(byte);
        } else {
            self.is_too_long = true;
        }
    }

    /// Handle IAC and `byte` inside a sub-negotiation: its end, or a command that cuts it off.
    fn end(&mut self, byte: u8) -> Item<'static> {
        if byte != SE {
            // `command` returns nothing for SB and the verbs; any other command is lost with the
            // sub-negotiation that it cut off.
            let _ = self.command(byte);
            return Item::Malformed;
        }
        self.state = State::Data;
        match self.sub.split_first() {
            Some((&option, contents)) if !self.is_too_long => Item::Sub(option, contents.to_vec()),
            _ => Item::Malformed,
        }
    }
}
