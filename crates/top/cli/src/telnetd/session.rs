//! A session: a connection, the TELNET server on it, a terminal and the program there.
//!
//! Called by: `run.rs`. What the user sends goes to the terminal, what the program writes to the
//! user, and each change of the terminal to the client, so that its lines are edited there.
//!
//! Limits: `INPUT_BYTES` for the program, `OUT_BYTES` for the connection and `ANSWER_BYTES` of
//! answers to the client wait; above that the other side is not read. A client that says nothing
//! for `--patience`, or reads nothing for so long of a program that has ended, loses its session.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use telnet::limits::OUT_BYTES;
use telnet::{Counts, Event, Server, slc};
use wirespeed::device::pty::FLUSHWRITE;
use wirespeed::{Duration, Instant};

use super::input::Input;
use super::program::{About, Program};
use super::pty::{Came, Pty};
use super::{CHARACTERS, Setting};
use crate::sockets::{Connection, Sockets};

/// How long the program waits for a client to say what it is, if it does not say anything.
const SETTLE: Duration = Duration::from_secs(5);
/// Reads of one session before the others have their turn.
const TURN: usize = 16;
/// Bytes of a read.
const READ_BYTES: usize = 4 << 10;

/// A connection and what is behind it.
pub(super) struct Session {
    connection: Connection,
    server: Server,
    pty: Pty,
    setting: Setting,
    about: About,
    input: Input,
    program: Option<Program>,
    begins_by: Instant,
    /// The address that has it, as [`owner`] says.
    owner: IpAddr,
    /// How long the client may be silent where its silence keeps the session.
    patience: Duration,
    /// The client has to have said something by then: a TELNET client answers what it is asked.
    speaks_by: Instant,
    /// The client has to have read all by then.
    ends_by: Instant,
    /// The program has ended, or all have closed its terminal: what it wrote is still sent.
    is_ending: bool,
    is_over: bool,
    is_late: bool,
}

/// The holder of a session, as the limit for each address counts it: an IPv6 host has 64 bits
/// to draw its addresses from.
pub(super) fn owner(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

/// What a session needs from outside.
pub(super) struct Cx<'a> {
    pub(super) sockets: &'a mut Sockets,
    pub(super) program: &'a [OsString],
    pub(super) now: Instant,
}

impl Session {
    /// With a terminal of its own.
    ///
    /// # Errors
    /// The connection, if the system has no terminal left.
    pub(super) fn new(
        connection: Connection,
        owner: IpAddr,
        patience: Duration,
        now: Instant,
    ) -> Result<Session, Connection> {
        let opened = || -> io::Result<(Pty, Setting)> {
            let pty = Pty::open()?;
            let setting = Setting::of(&pty.termios()?);
            Ok((pty, setting))
        };
        let Ok((pty, setting)) = opened() else { return Err(connection) };
        let mut session = Session {
            connection,
            server: Server::new(),
            pty,
            setting,
            about: About::default(),
            input: Input::default(),
            program: None,
            begins_by: now + SETTLE,
            owner,
            patience,
            speaks_by: now + patience,
            ends_by: Instant::NEVER,
            is_ending: false,
            is_over: false,
            is_late: false,
        };
        session.tell();
        Ok(session)
    }

    /// It is over: the connection, the counters, and the program if it still runs. Its terminal is
    /// gone, so that it gets SIGHUP.
    pub(super) fn end(self) -> (Connection, Counts, Option<Program>) {
        (self.connection, self.server.counts(), self.program)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Was it the client's silence that ended it?
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// The address that has it.
    pub(super) fn owner(&self) -> IpAddr {
        self.owner
    }

    /// When it has something to do by itself.
    pub(super) fn deadline(&self) -> Instant {
        let begins = if self.program.is_none() { self.begins_by } else { Instant::NEVER };
        begins.min(self.input.look_at).min(self.speaks_by).min(self.ends_by)
    }

    /// For poll(2).
    pub(super) fn descriptors(&mut self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let mut all = Vec::with_capacity(3);
        let [reads, reads_urgent] = [false, true].map(|is_urgent| self.may_read(is_urgent));
        let (writes, has_room) =
            (!self.server.out().is_empty(), self.server.out().len() < OUT_BYTES);
        let flags = |on: bool, flag: PollFlags| if on { flag } else { PollFlags::empty() };
        if let Some(connection) = self.connection.descriptor() {
            let comes = flags(reads, PollFlags::IN) | flags(reads_urgent, PollFlags::PRI);
            all.push((connection, comes | flags(writes, PollFlags::OUT)));
        }
        let pty = flags(has_room && !self.is_ending, PollFlags::IN)
            | flags(self.input.is_blocked, PollFlags::OUT);
        // A descriptor without flags would still report that the other end is gone.
        if !pty.is_empty() && self.program.is_some() {
            all.push((self.pty.descriptor(), pty));
        }
        if let (Some(program), true) = (&self.program, has_room && !self.is_ending) {
            all.push((program.descriptor(), PollFlags::IN));
        }
        all
    }

    /// Do what there is to do; `true` if there is more.
    pub(super) fn turn(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut is_busy = self.receive(cx);
        self.begin(cx);
        let is_external = self.setting.is_external && self.setting.mode.edit;
        if self.program.is_some() && self.input.feed(&self.pty, is_external, cx.now).is_err() {
            self.input.clear();
        }
        is_busy |= self.show();
        self.send(cx.sockets);
        self.is_over |= self.is_ending && self.server.out().is_empty();
        self.watch(cx.now);
        is_busy && !self.is_over
    }

    /// End what waits for its client for too long.
    fn watch(&mut self, now: Instant) {
        if self.is_ending && self.ends_by == Instant::NEVER {
            self.ends_by = now + self.patience;
        }
        self.is_late = !self.is_over && (now >= self.speaks_by || now >= self.ends_by);
        self.is_over |= self.is_late;
    }

    /// Has what the connection brings a place to wait, for the program and as an answer? A Synch
    /// is looked for even if the program reads nothing: its data is dropped.
    fn may_read(&mut self, is_urgent: bool) -> bool {
        let has_room = match is_urgent {
            true => self.input.has_room_for_commands(),
            false => self.input.has_room(),
        };
        has_room && self.server.out().has_room_for_answers()
    }

    /// Read the connection.
    fn receive(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut room = [0; READ_BYTES];
        for _ in 0..TURN {
            let is_urgent = cx.sockets.is_urgent(&self.connection);
            if !self.may_read(is_urgent) {
                self.is_over |= cx.sockets.is_gone(&self.connection);
                return false;
            }
            if is_urgent {
                self.server.urgent();
            }
            match cx.sockets.read(&mut self.connection, &mut room) {
                Ok(0) => self.is_over = true,
                Ok(len) => {
                    self.speaks_by = Instant::NEVER;
                    self.server.receive(&room[..len]);
                    self.events();
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => self.is_over |= error.kind() != ErrorKind::WouldBlock,
            }
            return false;
        }
        true
    }

    fn events(&mut self) {
        for event in self.server.take_events() {
            match event {
                Event::Data(data) => self.input.push(self.setting.mapped(data)),
                Event::Command(code) => {
                    super::carry_out(code, &self.pty, &self.setting, &mut self.input);
                }
                Event::Terminal(name) => self.about.set_terminal(&name),
                Event::Environment(variables) => self.about.set_variables(variables),
                // What follows fails only on a terminal that is gone, which a read finds out.
                Event::Window(columns, rows) => drop(self.pty.resize(columns, rows)),
                Event::Speed(send, receive) => drop(self.pty.set_speeds(send, receive)),
                Event::Characters => self.take_characters(),
                Event::Linemode(on) => {
                    let _ = self.pty.set_external(on);
                    self.look();
                    // What came before, and is written as the terminal is now.
                    let setting = self.setting;
                    self.input.map(|data| setting.mapped(data));
                }
            }
        }
    }

    /// Start the program once the client has said what it is, or says nothing.
    fn begin(&mut self, cx: &Cx<'_>) {
        let is_time = self.server.is_settled() || cx.now >= self.begins_by;
        if self.program.is_some() || !is_time || self.is_over {
            return;
        }
        match Program::start(cx.program, &self.about, &self.pty) {
            Ok(program) => self.program = Some(program),
            Err(error) => {
                self.server.write(format!("cannot start the program: {error}\r\n").as_bytes());
                self.is_ending = true;
            }
        }
    }

    /// The client has other characters: the terminal gets them.
    fn take_characters(&mut self) {
        let table = self.server.table();
        let all = CHARACTERS.into_iter().filter_map(|(function, index)| {
            let is_known = table.entry(function).flags & 3 != slc::NOSUPPORT;
            is_known.then(|| (index, table.value(function).unwrap_or(0)))
        });
        let _ = self.pty.set_characters(all);
        if let Ok(termios) = self.pty.termios() {
            self.setting.characters = Setting::of(&termios).characters;
        }
        self.tell();
    }

    /// Look how the terminal is set, and say what is new.
    fn look(&mut self) {
        let Ok(termios) = self.pty.termios() else { return };
        let before = core::mem::replace(&mut self.setting, Setting::of(&termios));
        let both = before.characters.into_iter().zip(self.setting.characters);
        for ((function, _), (old, new)) in CHARACTERS.into_iter().zip(both) {
            if old != new {
                self.server.set_character(function, (new != 0).then_some(new));
            }
        }
        if before.flushes != self.setting.flushes {
            self.server.set_flush(self.setting.flushes);
        }
        self.tell();
        if before.is_external != self.setting.is_external
            && self.server.is_linemode() != self.setting.is_external
        {
            // `stty extproc` and `stty -extproc` of a program.
            self.server.set_linemode(self.setting.is_external);
        }
    }

    fn tell(&mut self) {
        self.server.set_mode(self.setting.mode, self.setting.is_echoing);
        self.server.set_flow(self.setting.stops, self.setting.restarts_on_any);
        let ends = [slc::FORW1, slc::FORW2].map(|function| self.setting.character(function));
        self.server.set_forwarding(&ends.into_iter().flatten().collect::<Vec<u8>>());
    }

    /// Read the terminal, for the user to see.
    fn show(&mut self) -> bool {
        let Some(program) = &mut self.program else { return false };
        // Before the last read, so that nothing is left behind it.
        let has_ended = program.has_ended();
        for _ in 0..TURN {
            if self.server.out().len() >= OUT_BYTES || self.is_ending {
                return false;
            }
            match self.pty.read() {
                Came::Data(data) => self.server.write(data),
                Came::Change(bits) => {
                    // A terminal is flushed when its program ends, and that is no Synch.
                    if bits & FLUSHWRITE != 0 && !has_ended {
                        self.server.synch();
                    }
                    self.look();
                }
                Came::Nothing => {
                    self.is_ending = has_ended;
                    return false;
                }
                Came::End => self.is_ending = true,
            }
        }
        true
    }

    /// Write to the connection.
    fn send(&mut self, sockets: &mut Sockets) {
        let out = self.server.out();
        while !out.is_empty() {
            let (bytes, is_urgent) = out.next();
            match sockets.write(&mut self.connection, bytes, is_urgent) {
                Ok(len) => out.sent(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_over = true;
                    return;
                }
            }
        }
    }
}
