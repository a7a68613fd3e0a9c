//! `wirespeed top`: the traffic of a running wirespeed or an interface, live.
//!
//! Called by: `lib.rs`. `report` draws what `run` has seen.
//!
//! Only the first bytes of each frame are looked at. Frames that are lost before they reach `top`
//! are counted, and the figures are scaled up for them. `--batch` prints the same tables as text,
//! whole, for use without a terminal.

mod besides;
mod interval;
mod limits;
mod port;
mod report;
mod run;
mod switches;
mod traffic;
mod view;

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use run::{Ended, Top};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use view::Order;

use crate::{Outcome, Usage, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "Keys: ? for help; b, f, r, t and n order tables by bits, frames, round \
                        trip, retransmissions and\nname, s by the next of these; e says what \
                        limits a connection, j and k go to others; q ends it.")]
pub(crate) struct Args {
    /// An interface of this machine
    #[arg(short, value_name = "NAME", conflicts_with_all = ["pid", "socket"])]
    interface: Option<String>,
    /// A running wirespeed, by its process number [default: the only one that runs]
    #[arg(long, value_name = "N", conflicts_with = "socket")]
    pid: Option<u32>,
    /// A running wirespeed, by its control socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Seconds between screens
    #[arg(short = 'd', long, value_name = "SECONDS", default_value_t = 1.0)]
    delay: f64,
    /// Stop after this many screens
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Order of tables; keys change it
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    sort: Order,
    /// Print the tables as text, whole, one screen below the other
    #[arg(short, long)]
    batch: bool,
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if !(0.1..=3600.0).contains(&args.delay) {
        bail!(Usage("--delay takes 0.1 to 3600 seconds".to_owned()));
    }
    if !args.batch && !std::io::stdout().is_terminal() {
        bail!(Usage("standard output is no terminal: --batch prints screens as text".to_owned()));
    }
    let stop = stopped(!args.batch)?;
    let (mut top, mut source) = Top::new(args)?;
    let ended = if args.batch {
        top.run(args, source.as_mut(), &stop, Keys(None), |interval, view| {
            Ok(!output::read_by_someone(&report::text(interval, view))?)
        })
    } else {
        let mut terminal = ratatui::try_init().context("the terminal")?;
        let ended = top.run(args, source.as_mut(), &stop, Keys::open(), |interval, view| {
            terminal.draw(|frame| report::draw(frame, interval, view))?;
            Ok(false)
        });
        if terminal.show_cursor().and(ratatui::try_restore()).is_err() {
            // The terminal is gone. Dropping this would print to standard error, which is gone too,
            // and abort.
            std::mem::forget(terminal);
        }
        ended
    };
    if ended? == Ended::Source {
        output::err(&format!("{} has ended", top.what));
    }
    Ok(Outcome::Done)
}

/// How long restoring the terminal may take when the program has to end at once.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Set by Ctrl-C. A second Ctrl-C exits at once, in case the program hangs.
fn stopped(is_drawn: bool) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    ctrlc::set_handler(move || {
        if told.swap(true, Ordering::Relaxed) {
            if is_drawn {
                give_back();
            }
            std::process::exit(130);
        }
    })
    .context("Ctrl-C")?;
    Ok(stop)
}

/// Restore the terminal within [`TIMEOUT`]. Another thread does it, because the thread that draws
/// may hold standard output and wait for a terminal that takes nothing any more.
fn give_back() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let restored = ratatui::try_restore().and_then(|()| execute!(std::io::stdout(), Show));
        done.send(restored.is_ok())
    });
    let _ = is_done.recv_timeout(TIMEOUT);
}

/// The keys pressed since the last call.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    /// A key that ends `top`, or the terminal is gone.
    End,
    /// Other keys, perhaps none.
    Keys(Vec<u8>),
}

/// Keys that end `top`: q, Escape alone, and Ctrl-C, which is a plain key in raw mode.
fn ends(keys: &[u8]) -> bool {
    keys == [0x1b] || keys.iter().any(|key| matches!(key, b'q' | 0x03))
}

/// The terminal that keys are read from; standard input need not be it.
struct Keys(Option<File>);

impl Keys {
    fn open() -> Keys {
        let stdin = std::io::stdin();
        let own = stdin.is_terminal().then(|| stdin.as_fd().try_clone_to_owned().ok()).flatten();
        Keys(own.map(File::from).or_else(|| File::open("/dev/tty").ok()))
    }

    /// The keys pressed. The terminal is read here, because a library that waits for whole keys
    /// waits for ever on a terminal that is gone.
    fn pressed(&mut self) -> Pressed {
        let mut pressed = Vec::new();
        let Some(terminal) = &mut self.0 else { return Pressed::Keys(pressed) };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut asked = [PollFd::new(&*terminal, PollFlags::IN)];
            if !poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0) {
                return Pressed::Keys(pressed);
            }
            let mut keys = [0; 64];
            match terminal.read(&mut keys) {
                Ok(0) => return Pressed::End,
                Ok(count) if ends(&keys[..count]) => return Pressed::End,
                // Ignore arrows and other keys of several bytes.
                Ok(_) if keys[0] == 0x1b => {}
                Ok(count) => pressed.extend_from_slice(&keys[..count]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Pressed::Keys(pressed),
                Err(_) => return Pressed::End,
            }
        }
    }
}
