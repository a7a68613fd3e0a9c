//! `wirespeed telnet`: a user's terminal on another host (RFC 854), with lines that are edited here
//! (RFC 1184).
//!
//! Called by: `lib.rs`. `run` has the loop, `prompt` what the user says to the tool itself.

mod prompt;
mod run;

use std::fs::File;
use std::io;
use std::io::{Write as _, stdin, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use prompt::Escape;
use rustix::io::Errno;
use telnet::{Client, Direction, Transcript};
use wirespeed::{Duration, Instant, IpVersion};

use crate::clock::Interrupt;
use crate::sockets::{Connection, Sockets};
use crate::{Outcome, names, network, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("version_of_ip").args(["v4", "v6"])))]
#[command(after_help = "\
Ctrl-] stops for a command: close, send ip, mode line, status, help. TELNET sends all in the clear.

  wirespeed telnet localhost 2323
  echo 'ls -l' | wirespeed telnet localhost 2323        what a file says; ends when the server does
  sudo wirespeed telnet 192.0.2.1 --dev tap:ws0 --addr 192.0.2.2/24

Exit status: 0 the connection was closed, 1 there was none or it broke, 130 stopped by a signal.")]
pub(crate) struct Args {
    /// Name or address of the host
    #[arg(value_name = "HOST")]
    host: String,
    /// Port; at any other than 23 the client begins no negotiation, and only answers
    #[arg(default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Characters are sent as they are typed, whatever the server would like
    #[arg(long)]
    no_linemode: bool,
    /// The character that stops for a command: ^X, a character, or none
    #[arg(short = 'e', long, value_name = "CHARACTER", default_value = "^]")]
    escape: Escape,
    /// Say this user's name to the server
    #[arg(short = 'l', long, value_name = "NAME")]
    user: Option<String>,
    /// Write what is negotiated to this file, in words and bytes; data is counted, not shown
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// IPv4 only
    #[arg(short = '4')]
    v4: bool,
    /// IPv6 only
    #[arg(short = '6')]
    v6: bool,
    #[command(flatten)]
    network: network::Args,
    #[command(flatten)]
    names: names::Args,
}

impl Args {
    /// The version of IP that is asked for.
    fn version(&self) -> Option<IpVersion> {
        match (self.v4, self.v6) {
            (true, _) => Some(IpVersion::V4),
            (_, true) => Some(IpVersion::V6),
            _ => None,
        }
    }
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let Some(mut sockets) = Sockets::open(&args.network, "telnet", &interrupt)? else {
        return Ok(Outcome::Interrupted);
    };
    let log = Log::create(args.log.as_deref(), sockets.now())?;
    let Some(connection) = connected(&mut sockets, args, &interrupt)? else {
        return Ok(Outcome::Interrupted);
    };
    run::run(args, sockets, connection, log, &interrupt)
}

/// A connection to the first address of the host that answers; `None` after Ctrl-C.
fn connected(
    sockets: &mut Sockets,
    args: &Args,
    interrupt: &Interrupt,
) -> Result<Option<Connection>> {
    let who = (&args.network, &args.names);
    let host = (args.host.as_str(), args.port);
    let found = sockets.addresses(who, host, args.version(), interrupt)?;
    let mut last = None;
    for at in found.into_iter().flatten() {
        output::err(&format!("Trying {}...", at.ip()));
        match sockets.connect(at, interrupt) {
            Ok(Some(connection)) => {
                output::err(&format!(
                    "Connected to {}.",
                    wirespeed::control::text::plain(&args.host)
                ));
                return Ok(Some(connection));
            }
            Ok(None) => return Ok(None),
            Err(error) => {
                last = Some(error.context(format!(
                    "no connection to {at}: does a server listen there? Port 23 is the default"
                )))
            }
        }
    }
    match last {
        Some(error) => Err(error),
        None if interrupt.noted() => Ok(None),
        None => Err(anyhow!("the host has no address")),
    }
}

/// Bytes of a write: what a pipe has room for if poll(2) says that it has any.
const WRITE_BYTES: usize = 4 << 10;

/// Text that waits to be written to standard output.
#[derive(Debug, Default)]
struct Screen {
    waiting: Vec<u8>,
}

impl Screen {
    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn push(&mut self, mut bytes: Vec<u8>) {
        self.waiting.append(&mut bytes);
    }

    /// Write once, after poll(2) said that there is room. `false` if the reader is gone.
    ///
    /// # Errors
    /// It cannot be written: a full disk.
    fn write(&mut self) -> Result<bool> {
        let part = &self.waiting[..self.waiting.len().min(WRITE_BYTES)];
        match rustix::io::write(stdout(), part) {
            Ok(len) => drop(self.waiting.drain(..len)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A terminal that is gone is a reader that is gone.
            Err(Errno::PIPE | Errno::IO) => return Ok(false),
            Err(error) => {
                let error = io::Error::from(error);
                let what_to_do = output::what_to_do(&error);
                let what = format!("cannot write to standard output{what_to_do}");
                return Err(error).context(what);
            }
        }
        Ok(true)
    }
}

/// The file, if there is one.
#[derive(Default)]
struct Log(Option<Open>);

struct Open {
    file: File,
    path: PathBuf,
    began: Instant,
    transcript: Transcript,
}

impl Log {
    /// A new file.
    ///
    /// # Errors
    /// It cannot be made.
    fn create(path: Option<&Path>, began: Instant) -> Result<Log> {
        let Some(path) = path else { return Ok(Log(None)) };
        let file = File::create(path).with_context(|| {
            format!("cannot write the log to {}: give a file that you may write", path.display())
        })?;
        let transcript = Transcript::default();
        Ok(Log(Some(Open { file, path: path.to_owned(), began, transcript })))
    }

    /// Bytes of one direction. A log that cannot be written any more ends, the connection does not.
    fn note(&mut self, direction: Direction, bytes: &[u8], now: Instant) {
        if let Some(open) = &mut self.0
            && let Err(error) = open.note(direction, bytes, now)
        {
            let what_to_do = output::what_to_do(&error);
            let path = open.path.display();
            output::err_raw(&format!(
                "\r\nthe log ends: cannot write to {path}: {error}{what_to_do}\r"
            ));
            self.0 = None;
        }
    }
}

impl Open {
    fn note(&mut self, direction: Direction, bytes: &[u8], now: Instant) -> io::Result<()> {
        let seconds = now.since(self.began).as_secs_f64();
        let lines = self.transcript.lines(direction, bytes);
        let text: String = lines.iter().map(|line| format!("{seconds:.3} {line}\n")).collect();
        self.file.write_all(text.as_bytes())
    }
}

/// The port of TELNET (RFC 854), where a server is asked for options at once.
const PORT: u16 = 23;

/// Bytes of a read.
const READ_BYTES: usize = 4 << 10;
/// A server that has said nothing for so long will say no more before it is told something.
const QUIET: Duration = Duration::from_millis(300);
/// How long the input waits for a server that does not answer, if it is a file.
const PATIENCE: Duration = Duration::from_secs(3);

/// What was read.
enum Read {
    Bytes(Vec<u8>),
    End,
    Nothing,
}

/// Standard input.
struct Keyboard {
    is_over: bool,
    began: Instant,
    heard: Instant,
    /// A file that is not open yet.
    waits: bool,
}

impl Keyboard {
    fn new(is_file: bool, now: Instant) -> Keyboard {
        Keyboard { is_over: false, began: now, heard: now, waits: is_file }
    }

    /// The server said something.
    fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// When it may be read; a time in the past means at once.
    fn opens_at(&self, client: &Client) -> Instant {
        match (self.waits, client.is_settled()) {
            (false, _) => Instant::ZERO,
            (true, true) => (self.heard + QUIET).min(self.began + PATIENCE),
            (true, false) => self.began + PATIENCE,
        }
    }

    /// Read, once poll(2) says that there is something.
    fn read(&mut self) -> Read {
        let mut room = [0; READ_BYTES];
        match rustix::io::read(stdin(), &mut room) {
            Ok(len @ 1..) => {
                self.waits = false;
                Read::Bytes(room[..len].to_vec())
            }
            Err(Errno::AGAIN | Errno::INTR) => Read::Nothing,
            // A terminal that is gone is at its end.
            Ok(_) | Err(_) => Read::End,
        }
    }
}
