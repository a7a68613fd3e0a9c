//! The program's end: turns received bytes into events, and sends the program's output.
//!
//! Called by: servers, which have a terminal for the program. They report the terminal's settings
//! ([`Server::set_mode`]), and the server makes the client use the same settings by LINEMODE (RFC
//! 1184). Only one mode is in flight at a time. So even if the terminal changes often, no more
//! modes are sent than the client acknowledges.
//!
//! Limits: `OUT_BYTES` and `ANSWER_BYTES`, which the program has to respect. Counters: [`Counts`].

use crate::code::{
    ABORT, AO, AYT, BINARY, BRK, DM, DO, EC, ECHO, EL, EOF, IAC, IP, LFLOW, LINEMODE,
    LM_FORWARDMASK, LM_MODE, LM_SLC, NAWS, NEW_ENVIRON, SEND, SGA, STATUS, SUSP, TIMING_MARK,
    TSPEED, TTYPE, WILL, WONT,
};
use crate::engine::{Counts, Engine};
use crate::linemode::{Forwarding, Mode};
use crate::options::Side;
use crate::out::{Decoder, Encoder, Out};
use crate::parser::Item;
use crate::slc::{self, Entry, Table};
use crate::suboption;

const OURS: [u8; 4] = [BINARY, ECHO, SGA, STATUS];
const HIS: [u8; 8] = [BINARY, SGA, TTYPE, NAWS, TSPEED, LFLOW, LINEMODE, NEW_ENVIRON];

/// What the user did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Input for the program. CR LF and CR NUL have become CR.
    Data(Vec<u8>),
    /// A command: `code::IP`, `ABORT`, `SUSP`, `EOF`, `BRK`, `AO`.
    Command(u8),
    /// Columns and rows of the window.
    Window(u16, u16),
    /// The terminal's type.
    Terminal(String),
    /// The terminal's speeds, to send and to receive, in bit/s.
    Speed(u32, u32),
    /// Variables of the user's environment.
    Environment(Vec<(String, String)>),
    /// The ends have agreed on special characters: see [`Server::table`].
    Characters,
    /// LINEMODE has begun or ended.
    Linemode(bool),
}

/// A server's end of a connection.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    table: Table,
    encoder: Encoder,
    decoder: Decoder,
    events: Vec<Event>,
    wanted: Mode,
    is_echoing: bool,
    /// Whether we should echo, as last requested. A refused request is not repeated (RFC 854).
    asked_echo: bool,
    /// The mode that was sent last, whatever the client answered.
    asked: Option<Mode>,
    is_outstanding: bool,
    /// The client's mode, if it is known.
    client: Option<Mode>,
    has_terminal: bool,
    has_environment: bool,
    /// Whether the client handles stop characters, and whether any character resumes output. First
    /// the wanted state, then the state that was last sent to the client.
    flow: (bool, bool),
    told_flow: (bool, bool),
    forwarding: Forwarding,
}

/// What a client does before the server sends anything about flow control (RFC 1372 section 4).
const FLOW: (bool, bool) = (true, false);

impl Server {
    /// A server. It has requests for options to send at once.
    pub fn new() -> Server {
        let mut engine = Engine::new(&OURS, &HIS);
        for option in [LINEMODE, TTYPE, NAWS, TSPEED, NEW_ENVIRON, LFLOW] {
            engine.request(Side::Him, option, true);
        }
        engine.request(Side::Us, SGA, true);
        Server {
            engine,
            table: Table::server(),
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            events: Vec::new(),
            wanted: Mode::default(),
            is_echoing: true,
            asked_echo: false,
            asked: None,
            is_outstanding: false,
            client: None,
            has_terminal: false,
            has_environment: false,
            flow: FLOW,
            told_flow: FLOW,
            forwarding: Forwarding::default(),
        }
    }

    /// The bytes to be sent.
    pub fn out(&mut self) -> &mut Out {
        &mut self.engine.out
    }

    /// The server's counters.
    pub fn counts(&self) -> Counts {
        self.engine.counts
    }

    /// Take the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }

    /// The characters of the special functions.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Is LINEMODE in force?
    pub fn is_linemode(&self) -> bool {
        self.engine.options.is_on(Side::Him, LINEMODE)
    }

    /// The mode that the client acknowledged or reported.
    pub fn client_mode(&self) -> Option<Mode> {
        self.client
    }

    /// Has the client answered those requests for which a program should wait before it begins:
    /// LINEMODE, terminal type, variables?
    pub fn is_settled(&self) -> bool {
        let options = &self.engine.options;
        let is_done = |option, has| !options.is_on(Side::Him, option) || has;
        let asked = [LINEMODE, TTYPE, NAWS, NEW_ENVIRON];
        !asked.into_iter().any(|option| options.is_pending(Side::Him, option))
            && is_done(TTYPE, self.has_terminal)
            && is_done(NEW_ENVIRON, self.has_environment)
    }

    /// Report the current mode of the program's terminal, and whether typed characters are shown.
    /// With LINEMODE the client shows them, without it the server does.
    pub fn set_mode(&mut self, mode: Mode, is_echoing: bool) {
        self.wanted = mode;
        self.is_echoing = is_echoing;
        self.pump();
    }

    /// Report whether the program's terminal stops output at XOFF, and whether it resumes output at
    /// any character, not only at XON (RFC 1372).
    pub fn set_flow(&mut self, is_on: bool, restarts_on_any: bool) {
        self.flow = (is_on, restarts_on_any);
        self.pump();
    }

    /// Ask the client for LINEMODE, or end it.
    pub fn set_linemode(&mut self, on: bool) {
        self.engine.request(Side::Him, LINEMODE, on);
    }

    fn pump(&mut self) {
        if self.engine.options.is_on(Side::Him, LFLOW) {
            let ((is_on, any), told) = (self.flow, self.told_flow);
            if is_on != told.0 {
                self.engine.sub(LFLOW, &[u8::from(is_on)]);
            }
            if any != told.1 {
                self.engine.sub(LFLOW, &[if any { 2 } else { 3 }]);
            }
            self.told_flow = self.flow;
        }
        let is_linemode = self.is_linemode();
        if !self.engine.options.is_pending(Side::Him, LINEMODE) {
            let echo = !(is_linemode && self.is_echoing);
            if core::mem::replace(&mut self.asked_echo, echo) != echo {
                self.engine.request(Side::Us, ECHO, echo);
            }
        }
        let agreed = [slc::FORW1, slc::FORW2].map(|function| self.table.value(function));
        if let (true, Some(mask)) = (is_linemode, self.forwarding.next(agreed)) {
            self.engine.sub(LINEMODE, &mask);
        }
        if !is_linemode || self.is_outstanding || self.asked == Some(self.wanted) {
            return;
        }
        self.asked = Some(self.wanted);
        // RFC 1184 section 2.2: the client does not acknowledge a mode in which it is already.
        if self.client != Some(self.wanted) {
            self.is_outstanding = true;
            self.engine.sub(LINEMODE, &[LM_MODE, self.wanted.mask()]);
        }
    }

    /// Report that the program's terminal has another character for a function.
    pub fn set_character(&mut self, function: u8, character: Option<u8>) {
        let flush = self.table.entry(function).flags & slc::FLUSH;
        self.propose(function, Entry::new(slc::VALUE | flush, character.unwrap_or(slc::NONE)));
    }

    /// Set whether signals drop typed input and pending output.
    pub fn set_flush(&mut self, on: bool) {
        for function in [slc::IP, slc::ABORT, slc::SUSP] {
            let entry = self.table.entry(function);
            let flush = if on { slc::flush_of(function) } else { 0 };
            if self.table.has(function) {
                self.propose(function, Entry::new(entry.level() | flush, entry.value));
            }
        }
    }

    fn propose(&mut self, function: u8, entry: Entry) {
        if self.table.set(function, entry) && self.is_linemode() {
            self.engine.sub(LINEMODE, &[LM_SLC, function, entry.flags, entry.value]);
        }
    }

    /// Set the characters, besides the end of a line, that make the client send the typed bytes.
    /// The client gets two of them as FORW1 and FORW2, and is asked by a mask to forward at the
    /// others (RFC 1184 section 2.3).
    pub fn set_forwarding(&mut self, characters: &[u8]) {
        self.forwarding.set(characters);
        self.pump();
    }

    /// Send output of the program.
    pub fn write(&mut self, bytes: &[u8]) {
        let is_binary = self.engine.options.is_on(Side::Us, BINARY);
        self.encoder.data(bytes, is_binary, &mut self.engine.out);
    }

    /// Report that the program's output was flushed: output in flight should not be shown (RFC 854,
    /// the Synch).
    pub fn synch(&mut self) {
        self.engine.out.synch();
    }

    /// Report that the connection has urgent data ahead: a Synch of the client.
    pub fn urgent(&mut self) {
        self.engine.urgent();
    }

    /// Handle bytes from the connection. Read from it only while [`Out::has_room_for_answers`].
    pub fn receive(&mut self, mut bytes: &[u8]) {
        let before = self.engine.out.len();
        while let Some(item) = self.engine.parser.next(&mut bytes) {
            match item {
                Item::Data(data) => self.data(data),
                Item::Iac => self.data(&[IAC]),
                Item::Command(command) => self.command(command),
                // RFC 860: the answer is sent when everything received before it was processed.
                Item::Negotiate(DO, TIMING_MARK) => {
                    self.engine.out.raw(&[IAC, WILL, TIMING_MARK]);
                }
                Item::Negotiate(verb, option) => {
                    if let Some((side, is_on)) = self.engine.negotiate(verb, option) {
                        self.settled(side, option, is_on);
                    }
                }
                Item::Sub(option, contents) => self.sub(option, &contents),
                Item::Malformed => self.engine.counts.dropped += 1,
            }
        }
        self.pump();
        self.engine.out.answered(before);
    }

    fn data(&mut self, data: &[u8]) {
        if self.engine.drops(data.len()) {
            return;
        }
        let is_binary = self.engine.options.is_on(Side::Him, BINARY);
        if let Some(Event::Data(last)) = self.events.last_mut() {
            self.decoder.data(data, is_binary, true, last);
            return;
        }
        let mut decoded = Vec::new();
        self.decoder.data(data, is_binary, true, &mut decoded);
        if !decoded.is_empty() {
            self.events.push(Event::Data(decoded));
        }
    }

    fn command(&mut self, command: u8) {
        match command {
            DM => self.engine.data_mark(),
            // RFC 854 8-a: A user who asks whether the other end is there (AYT) gets something to
            // see.
            AYT => self.write(b"\r\n[Yes]\r\n"),
            EC | EL => {
                let function = if command == EC { slc::EC } else { slc::EL };
                if let Some(character) = self.table.value(function) {
                    self.events.push(Event::Data(vec![character]));
                }
            }
            IP | ABORT | SUSP | EOF | BRK | AO => self.events.push(Event::Command(command)),
            _ => {}
        }
    }

    fn settled(&mut self, side: Side, option: u8, is_on: bool) {
        match (side, option, is_on) {
            (Side::Him, TTYPE | TSPEED | NEW_ENVIRON, true) => self.engine.sub(option, &[SEND]),
            (Side::Him, LFLOW, true) => self.told_flow = FLOW,
            (Side::Him, LINEMODE, _) => {
                (self.asked, self.client, self.is_outstanding) = (None, None, false);
                self.forwarding.reset();
                self.events.push(Event::Linemode(is_on));
            }
            _ => {}
        }
    }

    fn sub(&mut self, option: u8, contents: &[u8]) {
        if option == STATUS {
            self.engine.status(contents);
            return;
        }
        let event = match option {
            // RFC 855 2-a: What a sub-negotiation says counts only if the option is in force.
            _ if !self.engine.options.is_on(Side::Him, option) => None,
            NAWS => suboption::read_window(contents).map(|(c, r)| Event::Window(c, r)),
            TTYPE => {
                self.has_terminal = true;
                suboption::read_text(contents).map(Event::Terminal)
            }
            TSPEED => suboption::read_speed(contents).map(|(s, r)| Event::Speed(s, r)),
            NEW_ENVIRON => {
                self.has_environment = true;
                suboption::read_environment(contents).map(Event::Environment)
            }
            LINEMODE if self.linemode(contents) => return,
            _ => None,
        };
        match event {
            Some(event) => self.events.push(event),
            None => self.engine.counts.dropped += 1,
        }
    }

    /// Handle a message of the client about LINEMODE. Returns `false` if it is malformed.
    fn linemode(&mut self, contents: &[u8]) -> bool {
        match *contents {
            [LM_MODE, mask] => {
                let mode = Mode::from_mask(mask);
                self.client = Some(mode);
                // A client that is in the mode already may report it without ACK.
                let is_answer = mask & Mode::ACK != 0 || self.asked == Some(mode);
                self.is_outstanding &= !is_answer;
                if !is_answer && !self.is_outstanding {
                    // The client proposes another mode, but the program's terminal decides.
                    self.asked = None;
                }
            }
            [LM_SLC, ref triplets @ ..] => {
                let before = self.table.clone();
                let answer = self.table.receive(triplets);
                if !answer.is_empty() {
                    self.engine.sub(LINEMODE, &[&[LM_SLC], &answer[..]].concat());
                }
                if self.table != before {
                    self.events.push(Event::Characters);
                }
            }
            [verb @ (WILL | WONT), LM_FORWARDMASK, ..] => self.forwarding.answered(verb == WILL),
            _ => return false,
        }
        true
    }
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}
