//! The user's end: takes typed bytes, and returns bytes to show and bytes to send.
//!
//! Called by: programs with a terminal, which is in raw mode. The client edits lines itself if
//! LINEMODE says so (RFC 1184), because the server may change the mode in the middle of a line.
//!
//! A program passes no more typed bytes while `OUT_BYTES` wait to be sent, and reads no more from
//! the connection at `ANSWER_BYTES`. Counters: [`Counts`].

use crate::code::{
    BINARY, DM, DO, DONT, ECHO, IAC, LFLOW, LINEMODE, LM_FORWARDMASK, LM_MODE, LM_SLC, NAWS,
    NEW_ENVIRON, SEND, SGA, STATUS, TIMING_MARK, TSPEED, TTYPE, WILL, WONT,
};
use crate::editor::{Echo, Editor};
use crate::engine::{Counts, Engine};
use crate::linemode::{Mask, Mode};
use crate::options::Side;
use crate::out::{Decoder, Encoder, Out};
use crate::parser::Item;
use crate::slc::{self, Table};
use crate::suboption;

const OURS: [u8; 8] = [BINARY, SGA, TTYPE, NAWS, TSPEED, LFLOW, LINEMODE, NEW_ENVIRON];
const HIS: [u8; 4] = [BINARY, ECHO, SGA, STATUS];

mod keyboard;

/// The settings of a client, and the values that it sends to the server about its user.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The terminal type, for example `xterm`.
    pub terminal: String,
    /// Columns and rows of the window.
    pub window: (u16, u16),
    /// The terminal's speeds, for example `38400,38400`.
    pub speed: String,
    /// Names and values of environment variables that the server may know.
    pub environment: Vec<(String, String)>,
    /// Does the client request options at once, as for a TELNET server? Otherwise it only answers.
    pub asks: bool,
    /// Does the client agree to LINEMODE?
    pub linemode: bool,
}

/// A client's end of a connection.
#[derive(Debug)]
pub struct Client {
    engine: Engine,
    settings: Settings,
    table: Table,
    mode: Mode,
    editor: Editor,
    encoder: Encoder,
    decoder: Decoder,
    display: Vec<u8>,
    forwardmask: Mask,
    /// May the client stop output by itself, as the server told it (RFC 1372)?
    is_flow_on: bool,
    restarts_on_any: bool,
    is_stopped: bool,
    is_linemode_refused: bool,
    /// The mode that the user asked for, if any: lines or characters.
    asked_lines: Option<bool>,
    /// How many more bytes may be dropped until the answer to a timing mark comes.
    flushing: usize,
}

impl Client {
    /// A client. If `settings.asks`, it has requests to send at once.
    pub fn new(settings: Settings) -> Client {
        let ours: Vec<u8> =
            OURS.into_iter().filter(|&o| o != LINEMODE || settings.linemode).collect();
        let mut engine = Engine::new(&ours, &HIS);
        if settings.asks {
            engine.request(Side::Him, SGA, true);
            for option in [TTYPE, NAWS, TSPEED, LFLOW, LINEMODE, NEW_ENVIRON] {
                if option != LINEMODE || settings.linemode {
                    engine.request(Side::Us, option, true);
                }
            }
            engine.request(Side::Him, STATUS, true);
        }
        Client {
            engine,
            settings,
            table: Table::client(),
            mode: Mode::default(),
            editor: Editor::default(),
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            display: Vec::new(),
            forwardmask: Mask::default(),
            is_flow_on: true,
            restarts_on_any: false,
            is_stopped: false,
            is_linemode_refused: false,
            asked_lines: None,
            flushing: 0,
        }
    }

    /// The bytes to be sent.
    pub fn out(&mut self) -> &mut Out {
        &mut self.engine.out
    }

    /// The client's counters.
    pub fn counts(&self) -> Counts {
        self.engine.counts
    }

    /// Take the bytes to be shown. There are none while the user has stopped output.
    pub fn take_display(&mut self) -> Vec<u8> {
        if self.is_stopped { Vec::new() } else { core::mem::take(&mut self.display) }
    }

    /// Bytes that wait to be shown.
    pub fn display_bytes(&self) -> usize {
        self.display.len()
    }

    /// Does the client edit the line, so that it is sent as a whole?
    pub fn edits(&self) -> bool {
        if self.is_linemode() {
            return self.mode.edit;
        }
        // RFC 858 and RFC 857: if neither option is on, the old mode "line at a time" is in force.
        !self.engine.options.is_on(Side::Him, SGA) && !self.engine.options.is_on(Side::Him, ECHO)
    }

    /// The characters of the special functions.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Set the character of a function to the one that the user wants, or to none.
    pub fn set_character(&mut self, function: u8, character: Option<u8>) {
        let flush = self.table.entry(function).flags & slc::FLUSH;
        let entry = slc::Entry::new(slc::VALUE | flush, character.unwrap_or(slc::NONE));
        if self.table.set(function, entry) && self.is_linemode() {
            self.engine.sub(LINEMODE, &[LM_SLC, function, entry.flags, entry.value]);
        }
    }

    /// Is LINEMODE in force?
    pub fn is_linemode(&self) -> bool {
        self.engine.options.is_on(Side::Us, LINEMODE)
    }

    fn echo(&self) -> Echo {
        Echo { is_on: !self.engine.options.is_on(Side::Him, ECHO), is_literal: self.mode.lit_echo }
    }

    /// Report that the window has another size.
    pub fn resize(&mut self, window: (u16, u16)) {
        let is_new = self.settings.window != window;
        self.settings.window = window;
        if is_new && self.engine.options.is_on(Side::Us, NAWS) {
            self.engine.sub(NAWS, &suboption::window(window));
        }
    }

    /// Send a command, for example `code::AYT`.
    pub fn send(&mut self, command: u8) {
        self.engine.out.raw(&[IAC, command]);
    }

    /// Send a Synch, which makes the server drop what was sent before (RFC 854).
    pub fn synch(&mut self) {
        self.engine.out.synch();
    }

    /// Ask the server for lines that are edited by the client, or for characters that are sent as
    /// they are typed: by LINEMODE or, if the server has refused that, by ECHO and SGA.
    pub fn want_lines(&mut self, lines: bool) {
        self.asked_lines = Some(lines);
        if self.is_linemode() || (lines && !self.is_linemode_refused) {
            self.engine.request(Side::Us, LINEMODE, lines);
        } else {
            self.want_old_lines(lines);
        }
    }

    /// RFC 858 and RFC 857: ask for the old mode "line at a time" by turning both options off, or
    /// for characters by turning them on.
    fn want_old_lines(&mut self, lines: bool) {
        for option in [SGA, ECHO] {
            self.engine.request(Side::Him, option, !lines);
        }
    }

    /// Has the other end answered all requests?
    pub fn is_settled(&self) -> bool {
        let options = &self.engine.options;
        !OURS.into_iter().any(|option| options.is_pending(Side::Us, option))
            && !HIS.into_iter().any(|option| options.is_pending(Side::Him, option))
    }

    /// Is any option in force? If not, the other end may not be a TELNET server.
    pub fn has_options(&self) -> bool {
        let options = &self.engine.options;
        options.all_on(Side::Us).chain(options.all_on(Side::Him)).next().is_some()
    }

    /// Report that the connection has urgent data ahead: a Synch (RFC 854).
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
                Item::Command(DM) => self.engine.data_mark(),
                Item::Command(_) => {}
                Item::Negotiate(WILL | WONT, TIMING_MARK) => self.flushing = 0,
                Item::Negotiate(verb, option) => {
                    if let Some((side, is_on)) = self.engine.negotiate(verb, option) {
                        self.settled(side, option, is_on);
                    }
                }
                Item::Sub(option, contents) => self.sub(option, &contents),
                Item::Malformed => self.engine.counts.dropped += 1,
            }
        }
        self.engine.out.answered(before);
    }

    fn data(&mut self, data: &[u8]) {
        if self.engine.drops(data.len()) {
            return;
        }
        if self.flushing > 0 {
            self.engine.counts.flushed += data.len() as u64;
            self.flushing = self.flushing.saturating_sub(data.len());
            return;
        }
        let is_binary = self.engine.options.is_on(Side::Him, BINARY);
        self.decoder.data(data, is_binary, false, &mut self.display);
    }

    fn settled(&mut self, side: Side, option: u8, is_on: bool) {
        match (side, option, is_on) {
            (Side::Us, NAWS, true) => {
                self.engine.sub(NAWS, &suboption::window(self.settings.window));
            }
            (Side::Us, LINEMODE, true) => {
                // RFC 1184 2.4-a: the client is the first to send its special characters.
                self.mode = Mode::default();
                let mut slc = vec![LM_SLC];
                slc.extend(self.table.all());
                self.engine.sub(LINEMODE, &slc);
                self.forward(false);
            }
            (Side::Us, LINEMODE, false) => {
                self.is_linemode_refused = self.asked_lines != Some(false);
                if self.asked_lines == Some(true) {
                    self.want_old_lines(true);
                }
                self.forwardmask = Mask::default();
                self.forward(false);
            }
            (Side::Him, SGA | ECHO, _) if !self.edits() => self.forward(false),
            _ => {}
        }
    }

    fn sub(&mut self, option: u8, contents: &[u8]) {
        if option == STATUS {
            return;
        }
        let answer = match (option, contents) {
            _ if !self.engine.options.is_on(Side::Us, option) => None,
            (TTYPE, [SEND]) => Some(suboption::text(&self.settings.terminal)),
            (TSPEED, [SEND]) => Some(suboption::text(&self.settings.speed)),
            (NEW_ENVIRON, asked) => suboption::environment(asked, &self.settings.environment),
            (LFLOW, &[what @ 0..=3]) => {
                match what {
                    0 | 1 => self.is_flow_on = what == 1,
                    _ => self.restarts_on_any = what == 2,
                }
                self.is_stopped &= self.is_flow_on;
                return;
            }
            (LINEMODE, contents) if self.linemode(contents) => return,
            _ => None,
        };
        match answer {
            Some(answer) => self.engine.sub(option, &answer),
            None => self.engine.counts.dropped += 1,
        }
    }

    /// Handle a message of the server about LINEMODE. Returns `false` if it is malformed.
    fn linemode(&mut self, contents: &[u8]) -> bool {
        match *contents {
            [LM_MODE, mask] => self.set_mode(mask),
            [LM_SLC, ref triplets @ ..] => {
                let answer = self.table.receive(triplets);
                if !answer.is_empty() {
                    self.engine.sub(LINEMODE, &[&[LM_SLC], &answer[..]].concat());
                }
            }
            [DO, LM_FORWARDMASK, ref octets @ ..] => {
                let Some(mask) = Mask::parse(octets) else { return false };
                self.forwardmask = mask;
                self.engine.sub(LINEMODE, &[WILL, LM_FORWARDMASK]);
            }
            [DONT, LM_FORWARDMASK] => {
                let was_on = core::mem::take(&mut self.forwardmask) != Mask::default();
                if was_on {
                    self.engine.sub(LINEMODE, &[WONT, LM_FORWARDMASK]);
                }
            }
            _ => return false,
        }
        true
    }

    /// Set the mode. RFC 1184 2.2-a: a mode that is in force already, and an acknowledgement, are
    /// not answered.
    fn set_mode(&mut self, mask: u8) {
        let mode = Mode::from_mask(mask);
        if mask & Mode::ACK != 0 || mode == self.mode {
            return;
        }
        self.mode = mode;
        if !mode.edit {
            self.forward(false);
        }
        self.engine.sub(LINEMODE, &[LM_MODE, mode.mask() | Mode::ACK]);
    }
}
