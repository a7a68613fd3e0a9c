//! `wirespeed telnetd`: a program on a terminal for everyone who connects by TELNET, until Ctrl-C.
//!
//! Called by: `lib.rs`. `run` has the loop, `session` a connection with its terminal, `pty` the
//! terminal, `input` what goes to it, `program` starts the program.

mod input;
mod program;
mod pty;
mod run;
mod session;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use input::Input;
use pty::Pty;
use run::Daemon;
use rustix::process::Signal;
use rustix::termios::{
    InputModes, LocalModes, OutputModes, QueueSelector, SpecialCodeIndex, Termios,
};
use telnet::code::{ABORT, AO, BRK, EOF, IP, SUSP};
use telnet::{Counts, Mode, slc};

use crate::clock::Interrupt;
use crate::{Outcome, network, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
PROGRAM runs as you, without a login: whoever connects may do what it lets him do. TELNET sends all
in the clear. The default address is loopback; use another where every host is trusted.
PROGRAM gets no variables of your environment but PATH, HOME, USER, LOGNAME, SHELL, TZ and LANG;
give it others by env(1). A client that says nothing is disconnected after --patience.

  wirespeed telnetd -- bash                   then: wirespeed telnet localhost 2323
  wirespeed telnetd --listen 192.0.2.1:2323 -- nano /tmp/notes
  wirespeed telnetd -- env EDITOR=vi bash
  sudo wirespeed telnetd --dev tap:ws0 --addr 192.0.2.2/24 -- login")]
pub(crate) struct Args {
    /// Where to listen [default: 127.0.0.1:2323, with --dev port 23 of all our addresses]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Sessions at a time; further connections are closed
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    most: u32,
    /// Sessions at a time of one address, or of one IPv6 network of 64 bits
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    per_address: u32,
    /// How long a client may be silent at first, or not read the output of a program that has ended
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    patience: u32,
    #[command(flatten)]
    network: network::Args,
    /// Be PROGRAM, on the terminal that standard input is
    #[arg(long, hide = true)]
    on_terminal: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Args {
    /// Where to listen.
    fn listen(&self) -> SocketAddr {
        self.listen.unwrap_or_else(|| match self.network.dev {
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, 2323)),
            Some(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 23)),
        })
    }
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if args.on_terminal {
        return Err(program::become_program(&args.program));
    }
    program::find(&args.program)?;
    let interrupt = Interrupt::install()?;
    let Some(mut daemon) = Daemon::open(args, &interrupt)? else { return Ok(Outcome::Done) };
    output::out(&begin(args))?;
    let ended = daemon.serve(&interrupt);
    output::out(&end(&daemon.tally))?;
    ended.map(|()| Outcome::Done)
}

/// The totals.
#[derive(Debug, Default)]
struct Tally {
    sessions: u64,
    /// Connections that were closed at once.
    refused: u64,
    /// Sessions that ended because their clients said or read nothing.
    late: u64,
    /// What the ends of all sessions counted.
    counts: Counts,
}

impl Tally {
    /// Add what an ended session counted.
    fn add(&mut self, counts: Counts) {
        self.counts.refused += counts.refused;
        self.counts.dropped += counts.dropped;
        self.counts.flushed += counts.flushed;
    }
}

/// The first line.
fn begin(args: &Args) -> String {
    format!("TELNET at {}; Ctrl-C ends it\n", args.listen())
}

/// The last line.
fn end(tally: &Tally) -> String {
    let mut text = format!("{} sessions", tally.sessions);
    for (count, what) in [
        (tally.refused, "connections over the limits, or without a terminal"),
        (tally.late, "ended because the client said or read nothing for too long"),
        (tally.counts.refused, "options refused"),
        (tally.counts.dropped, "sub-negotiations dropped"),
        (tally.counts.flushed, "bytes flushed"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text + "\n"
}

/// The end of file of terminals as they are.
const CTRL_D: u8 = 4;

/// Carry out a command.
fn carry_out(command: u8, pty: &Pty, setting: &Setting, input: &mut Input) {
    match command {
        IP | BRK => signal(Signal::INT, slc::IP, pty, setting, input),
        ABORT => signal(Signal::QUIT, slc::ABORT, pty, setting, input),
        SUSP => signal(Signal::TSTP, slc::SUSP, pty, setting, input),
        EOF => {
            let character = setting.character(slc::EOF).unwrap_or(CTRL_D);
            match setting.is_external && setting.mode.edit {
                true => input.push_end(character),
                false => input.push(vec![character]),
            }
        }
        // The terminal reports the flush, and a Synch is sent for it. If it cannot be flushed,
        // nobody writes.
        AO => drop(pty.flush(QueueSelector::OFlush)),
        _ => {}
    }
}

/// Give the terminal the signal's character, of which the kernel makes the signal. If the kernel
/// leaves that to us (EXTPROC), or there is no such character, send the signal as the kernel would.
fn signal(signal: Signal, function: u8, pty: &Pty, setting: &Setting, input: &mut Input) {
    if setting.flushes {
        input.clear();
    }
    if let (false, Some(character)) = (setting.is_external, setting.character(function)) {
        input.push(vec![character]);
        return;
    }
    if setting.flushes {
        let _ = pty.flush(QueueSelector::IOFlush);
    }
    // Without a foreground process group nobody is to receive the signal.
    let _ = pty.signal(signal);
}

// How a program has set its terminal, in TELNET's words: the mode of LINEMODE, the characters of
// functions (RFC 1184 sections 2.2 and 2.4), flow control (RFC 1372).

/// Functions and their characters of a terminal.
const CHARACTERS: [(u8, SpecialCodeIndex); 13] = [
    (slc::IP, SpecialCodeIndex::VINTR),
    (slc::ABORT, SpecialCodeIndex::VQUIT),
    (slc::EOF, SpecialCodeIndex::VEOF),
    (slc::SUSP, SpecialCodeIndex::VSUSP),
    (slc::EC, SpecialCodeIndex::VERASE),
    (slc::EL, SpecialCodeIndex::VKILL),
    (slc::EW, SpecialCodeIndex::VWERASE),
    (slc::RP, SpecialCodeIndex::VREPRINT),
    (slc::LNEXT, SpecialCodeIndex::VLNEXT),
    (slc::XON, SpecialCodeIndex::VSTART),
    (slc::XOFF, SpecialCodeIndex::VSTOP),
    (slc::FORW1, SpecialCodeIndex::VEOL),
    (slc::FORW2, SpecialCodeIndex::VEOL2),
];

/// A terminal's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    mode: Mode,
    is_echoing: bool,
    /// XOFF stops output.
    stops: bool,
    /// Any character resumes it.
    restarts_on_any: bool,
    /// The kernel leaves editing to us (EXTPROC).
    is_external: bool,
    /// A signal's character drops what was typed and what is shown.
    flushes: bool,
    /// In the order of [`CHARACTERS`]; 0 for none.
    characters: [u8; CHARACTERS.len()],
    input: InputModes,
}

impl Setting {
    fn of(termios: &Termios) -> Setting {
        let (input, local) = (termios.input_modes, termios.local_modes);
        let mode = Mode {
            edit: local.contains(LocalModes::ICANON),
            trapsig: local.contains(LocalModes::ISIG),
            soft_tab: termios.output_modes.contains(OutputModes::TAB3),
            lit_echo: !local.contains(LocalModes::ECHOCTL),
        };
        Setting {
            mode,
            is_echoing: local.contains(LocalModes::ECHO),
            stops: input.contains(InputModes::IXON),
            restarts_on_any: input.contains(InputModes::IXANY),
            is_external: local.contains(LocalModes::EXTPROC),
            flushes: !local.contains(LocalModes::NOFLSH),
            characters: CHARACTERS.map(|(_, index)| termios.special_codes[index]),
            input,
        }
    }

    /// The character of a function, if it has one.
    fn character(&self, function: u8) -> Option<u8> {
        let at = CHARACTERS.iter().position(|&(f, _)| f == function)?;
        Some(self.characters[at]).filter(|&character| character != 0)
    }

    /// The user's bytes, changed into those that the program reads. The kernel does this unless
    /// lines are edited elsewhere.
    fn mapped(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.is_external {
            return bytes;
        }
        let has = |mode| self.input.contains(mode);
        if has(InputModes::IGNCR) {
            bytes.retain(|&byte| byte != b'\r');
        }
        for byte in &mut bytes {
            *byte = match *byte {
                b'\r' if has(InputModes::ICRNL) => b'\n',
                b'\n' if has(InputModes::INLCR) => b'\r',
                byte if has(InputModes::ISTRIP) => byte & 0x7f,
                byte => byte,
            };
        }
        bytes
    }
}
