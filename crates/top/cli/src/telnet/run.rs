//! The loop of `telnet`: what comes is shown, what is typed is sent, the window is watched.
//!
//! Called by: `telnet.rs`. Limits: `OUT_BYTES` wait for the connection and for the screen, and
//! `ANSWER_BYTES` of answers for the server; above that the other side is not read.

use std::io::{Read as _, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use rustix::event::PollFlags;
use signal_hook::consts::SIGWINCH;
use telnet::limits::OUT_BYTES;
use telnet::{Client, Direction, Settings};
use wirespeed::Instant;

use super::prompt::{self, Escape, Next, PROMPT};
use super::{Args, Keyboard, Log, PORT, Read, Screen};
use crate::clock::Interrupt;
use crate::sockets::{Connection, Sockets};
use crate::terminal::{self, Terminal};
use crate::{Outcome, output};

/// Bytes of a read.
const READ_BYTES: usize = 16 << 10;

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Peer,
    User,
    /// Nobody reads what is shown.
    Reader,
    Interrupt,
}

/// What is ready.
struct Ready {
    keyboard: bool,
    screen: bool,
    window: bool,
}

struct Talk<'a> {
    sockets: Sockets,
    connection: Connection,
    client: Client,
    log: Log,
    interrupt: &'a Interrupt,
    terminal: Option<Terminal>,
    keyboard: Keyboard,
    screen: Screen,
    /// Readable after SIGWINCH.
    window: UnixStream,
    escape: Escape,
    /// The command that is being typed.
    prompt: Option<Vec<u8>>,
    /// The peer has closed: what it sent is still shown.
    is_closed: bool,
}

fn settings(args: &Args) -> Settings {
    let (send, receive) = terminal::speeds();
    let name = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
    Settings {
        terminal: name,
        window: terminal::window(),
        speed: format!("{send},{receive}"),
        environment: args.user.iter().map(|user| ("USER".to_owned(), user.clone())).collect(),
        asks: args.port == PORT,
        linemode: !args.no_linemode,
    }
}

/// Talk until one of the ends has enough.
pub(super) fn run(
    args: &Args,
    sockets: Sockets,
    connection: Connection,
    log: Log,
    interrupt: &Interrupt,
) -> Result<Outcome> {
    let (window, signalled) = UnixStream::pair().context("cannot make a pair of sockets")?;
    window.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGWINCH, signalled)
        .context("cannot watch the window")?;
    let terminal = Terminal::of_input();
    if let Some(terminal) = &terminal {
        output::err(&format!("Escape character is '{}'.", args.escape));
        terminal.raw().context("cannot set the terminal")?;
    }
    let keyboard = Keyboard::new(terminal.is_none(), sockets.now());
    let mut talk = Talk {
        sockets,
        connection,
        client: Client::new(settings(args)),
        log,
        interrupt,
        terminal,
        keyboard,
        screen: Screen::default(),
        window,
        escape: args.escape,
        prompt: None,
        is_closed: false,
    };
    let end = talk.talk();
    let Talk { mut sockets, connection, terminal, .. } = talk;
    drop(terminal);
    sockets.finish(connection);
    match end? {
        End::Peer => output::err("Connection closed by foreign host."),
        End::User => output::err("Connection closed."),
        End::Interrupt => return Ok(Outcome::Interrupted),
        End::Reader => {}
    }
    Ok(Outcome::Done)
}

impl Talk<'_> {
    fn talk(&mut self) -> Result<End> {
        let mut ready = Ready { keyboard: false, screen: false, window: false };
        loop {
            self.sockets.turn();
            if self.interrupt.noted() {
                return Ok(End::Interrupt);
            }
            if ready.window {
                let _ = self.window.read(&mut [0; 64]);
                self.client.resize(terminal::window());
            }
            self.receive()?;
            if ready.keyboard
                && let Some(end) = self.keyboard()?
            {
                return Ok(end);
            }
            if ready.screen && !self.screen.write()? {
                return Ok(End::Reader);
            }
            if self.prompt.is_none() {
                self.screen.push(self.client.take_display());
            }
            self.send()?;
            if self.is_closed && self.screen.len() + self.client.display_bytes() == 0 {
                return Ok(End::Peer);
            }
            ready = self.wait()?;
        }
    }

    /// Sleep until there is something to do.
    fn wait(&mut self) -> Result<Ready> {
        let now = self.sockets.now();
        let has_room = self.client.out().len() < OUT_BYTES;
        let [may_read, may_read_urgent] = [false, true].map(|urgent| self.may_read(urgent));
        let opens_at = self.keyboard.opens_at(&self.client);
        let reads = !self.keyboard.is_over && has_room && opens_at <= now;
        let is_waiting = !self.keyboard.is_over && has_room && !reads;
        let until = if is_waiting { opens_at } else { Instant::NEVER };
        let (input, screen) = (stdin(), stdout());
        let flags = |on: bool, flag: PollFlags| if on { flag } else { PollFlags::empty() };
        let mut asked = vec![self.interrupt.descriptor(), (self.window.as_fd(), PollFlags::IN)];
        let mut at = |on: bool, fd, flag| {
            on.then(|| {
                asked.push((fd, flag));
                asked.len() - 1
            })
        };
        let keyboard = at(reads, input.as_fd(), PollFlags::IN);
        let screen = at(self.screen.len() > 0, screen.as_fd(), PollFlags::OUT);
        if let (Some(fd), false) = (self.connection.descriptor(), self.is_closed) {
            let comes = flags(may_read, PollFlags::IN) | flags(may_read_urgent, PollFlags::PRI);
            let leaves = flags(!self.client.out().is_empty(), PollFlags::OUT);
            // A descriptor without flags would still report that the other end is gone.
            at(!(comes | leaves).is_empty(), fd, comes | leaves);
        }
        let found = self.sockets.wait(until, &asked)?;
        let is = |at: Option<usize>| at.is_some_and(|at| !found[at].is_empty());
        Ok(Ready { keyboard: is(keyboard), screen: is(screen), window: !found[1].is_empty() })
    }

    /// Has what the connection brings a place to wait, on the screen and as an answer? A Synch is
    /// looked for even if the user has stopped output: its data is dropped, but not what is behind
    /// it in the same read.
    fn may_read(&mut self, is_urgent: bool) -> bool {
        let most = if is_urgent { 2 * OUT_BYTES } else { OUT_BYTES };
        self.screen.len() + self.client.display_bytes() < most
            && self.client.out().has_room_for_answers()
    }

    /// Read the connection.
    fn receive(&mut self) -> Result<()> {
        let mut room = [0; READ_BYTES];
        while !self.is_closed {
            let is_urgent = self.sockets.is_urgent(&self.connection);
            if !self.may_read(is_urgent) {
                return Ok(());
            }
            if is_urgent {
                self.client.urgent();
            }
            match self.sockets.read(&mut self.connection, &mut room) {
                Ok(0) => self.is_closed = true,
                Ok(len) => {
                    let now = self.sockets.now();
                    self.log.note(Direction::Received, &room[..len], now);
                    self.client.receive(&room[..len]);
                    self.keyboard.heard(now);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the connection broke"),
            }
        }
        Ok(())
    }

    /// Write to the connection.
    fn send(&mut self) -> Result<()> {
        let out = self.client.out();
        while !out.is_empty() {
            let (bytes, is_urgent) = out.next();
            if self.is_closed {
                // Nobody is there to read it.
                let len = bytes.len();
                out.sent(len);
                continue;
            }
            match self.sockets.write(&mut self.connection, bytes, is_urgent) {
                Ok(len) => {
                    self.log.note(Direction::Sent, &bytes[..len], self.sockets.now());
                    out.sent(len);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the connection broke"),
            }
        }
        Ok(())
    }

    /// Read the keyboard.
    fn keyboard(&mut self) -> Result<Option<End>> {
        match self.keyboard.read() {
            Read::Nothing => Ok(None),
            Read::End if self.prompt.is_some() => self.resume(None),
            Read::End => {
                self.keyboard.is_over = true;
                if self.terminal.is_some() {
                    return Ok(Some(End::User));
                }
                if !self.client.end_of_input() {
                    self.send()?;
                    self.sockets.shutdown_write(&self.connection);
                }
                Ok(None)
            }
            Read::Bytes(bytes) if self.terminal.is_none() => {
                self.client.input(&bytes);
                Ok(None)
            }
            Read::Bytes(bytes) => self.typed(&bytes),
        }
    }

    /// Keys, or a part of a command.
    fn typed(&mut self, bytes: &[u8]) -> Result<Option<End>> {
        if let Some(line) = &mut self.prompt {
            line.extend_from_slice(bytes);
            return self.commands();
        }
        let at = bytes.iter().position(|&byte| Some(byte) == self.escape.0);
        let (keys, rest) = bytes.split_at(at.unwrap_or(bytes.len()));
        self.client.keys(keys);
        let Some((_, command)) = rest.split_first() else { return Ok(None) };
        self.prompt = Some(command.to_vec());
        if let Some(terminal) = &self.terminal {
            terminal.restore();
        }
        output::as_is(&format!("\r\n{PROMPT}"))?;
        self.commands()
    }

    /// Carry out the commands that are complete.
    fn commands(&mut self) -> Result<Option<End>> {
        while let Some(line) = &mut self.prompt {
            let Some(end) = line.iter().position(|byte| b"\r\n".contains(byte)) else {
                return Ok(None);
            };
            let command: Vec<u8> = line.drain(..=end).collect();
            let command = String::from_utf8_lossy(&command).into_owned();
            match prompt::command(&command, &mut self.client, &mut self.escape) {
                Next::Close => return Ok(Some(End::User)),
                Next::Again(text) => output::as_is(&format!("{text}{PROMPT}"))?,
                Next::Show(text) => return self.resume(Some(&text)),
                Next::Connection => return self.resume(None),
            }
        }
        Ok(None)
    }

    /// Go on with the connection; what was typed behind the command is for it.
    fn resume(&mut self, text: Option<&str>) -> Result<Option<End>> {
        let mut text = text.unwrap_or_default().to_owned();
        if let Some(terminal) = &self.terminal {
            // First: what is typed as soon as the text is seen is for the connection.
            terminal.raw().context("cannot set the terminal")?;
            text = text.replace('\n', "\r\n");
        }
        output::as_is(&text)?;
        let rest = self.prompt.take().unwrap_or_default();
        if rest.is_empty() { Ok(None) } else { self.typed(&rest) }
    }
}
