//! `wirespeed top`: what passes a running wirespeed or an interface, as it happens.
//!
//! Called by: `main`. `traffic` counts packets, `besides` knows the rest, `screen` draws. Must not
//! know: how a source gets its packets (`dump`'s do).
//!
//! Every frame that finds room on its way here is looked at, its first bytes alone; those stand for
//! the others, which are counted. `--batch` prints the same screens as text, for who has no
//! terminal.

mod besides;
mod port;
mod screen;
mod switches;
mod traffic;

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bpf::{Filter, Insn, Program};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::dump::{Next, Process, Source};
use crate::running::{Contact, Question, find};
use crate::{Outcome, Usage, output};
use besides::Besides;
use port::{Interface, PortState};
use switches::{Counts, Of};
use traffic::Traffic;

/// Bytes of a packet that say who sends what to whom, with two tags and IPv6.
const SNAPLEN: u32 = 96;

/// Columns and lines of a screen that is printed.
const BATCH: (u16, u16) = (120, 40);

/// How long a terminal may take to be as it was, when the program is told to end at once.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The options.
#[derive(clap::Args, Debug)]
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
    /// Seconds from one screen to the next
    #[arg(short = 'd', long, value_name = "SECONDS", default_value_t = 1.0)]
    delay: f64,
    /// End after so many screens
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print screens as text, one below the other
    #[arg(short, long)]
    batch: bool,
}

/// What a screen shows.
#[derive(Clone, Debug)]
struct Interval {
    what: String,
    seconds: f64,
    /// Frames that passed, and those of them that were looked at: the others found no room on
    /// their way here. All figures are of those that passed.
    passed: u64,
    looked_at: u64,
    /// Switches of context in the interval, and what those are called that somebody was woken by.
    switches: Option<(&'static str, Counts)>,
    ports: Vec<PortState>,
    traffic: Traffic,
    drops: Vec<(String, u64)>,
    /// Cells of a row each.
    connections: Vec<Vec<String>>,
}

/// Who ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Who watched, or the number of screens that was asked for.
    User,
    /// What was watched sends no more.
    Source,
}

/// Packets between two looks at the keyboard, while they come without a pause.
const KEYS_EVERY: u32 = 256;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if !(0.1..=3600.0).contains(&args.delay) {
        bail!(Usage("--delay takes 0.1 to 3600 seconds".to_owned()));
    }
    if !args.batch && !std::io::stdout().is_terminal() {
        bail!(Usage("standard output is no terminal: --batch prints screens as text".to_owned()));
    }
    let stop = stopped(!args.batch)?;
    let (mut source, besides, what, of) = watched(args)?;
    let before = of.counts();
    let (traffic, begun) = (Traffic::default(), Instant::now());
    let mut top = Top { besides, what, of, before, lost: Vec::new(), traffic, begun };
    let ended = if args.batch {
        top.run(args, source.as_mut(), &stop, Keys(None), |interval| {
            let mut terminal = Terminal::new(TestBackend::new(BATCH.0, BATCH.1))?;
            terminal.draw(|frame| screen::draw(frame, interval))?;
            Ok(!output::read_by_someone(&screen::text(terminal.backend().buffer()))?)
        })
    } else {
        let mut terminal = ratatui::try_init().context("the terminal")?;
        let ended = top.run(args, source.as_mut(), &stop, Keys::open(), |interval| {
            terminal.draw(|frame| screen::draw(frame, interval))?;
            Ok(false)
        });
        if terminal.show_cursor().and(ratatui::try_restore()).is_err() {
            // It is gone. Its end would complain on standard error, which is gone too, and abort.
            std::mem::forget(terminal);
        }
        ended
    };
    if ended? == Ended::Source {
        output::err(&format!("{} has ended", top.what));
    }
    Ok(Outcome::Done)
}

/// Set once who watches wants to stop. Who says so twice ends what does not end by itself.
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

/// The terminal as it was, in so far as it takes that: the thread that draws may have standard
/// output, and wait for a terminal that takes nothing any more.
fn give_back() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let restored = ratatui::try_restore().and_then(|()| execute!(std::io::stdout(), Show));
        done.send(restored.is_ok())
    });
    let _ = is_done.recv_timeout(TIMEOUT);
}

/// What was asked for: its packets, what is known besides, what it is, whose switches count.
fn watched(args: &Args) -> Result<(Box<dyn Source>, Besides, String, Of)> {
    let everything = Insn::new(0x06, 0, 0, SNAPLEN);
    if let Some(name) = &args.interface {
        let filter = move |_| Ok(Filter::new(Program::new(&[everything])?));
        let source = crate::dump::interface(name, filter)?;
        let besides = Besides::Interface(Interface::new(name));
        return Ok((source, besides, format!("interface {name}"), Of::Machine));
    }
    let path = find(args.socket.as_deref(), args.pid)?;
    let process = Process::attach(path.clone(), None, SNAPLEN, |_| Ok(vec![everything]))?;
    let mut contact = Contact::open(path)?;
    let program = contact.ask(&Question::Program)?.program;
    let program = program.context("the program does not say what it is")?;
    let what = format!("wirespeed {}, process {}", program.command, program.pid);
    let stacks = (0..program.stacks.len()).collect();
    let besides = Besides::Process(Box::new(contact), stacks);
    let source: Box<dyn Source> = Box::new(process);
    Ok((source, besides, what, Of::Process(program.pid)))
}

/// Keys that end it: q, Escape by itself, Ctrl-C, which is a key where nothing is cooked.
fn ends(keys: &[u8]) -> bool {
    keys == [0x1b] || keys.iter().any(|key| matches!(key, b'q' | 0x03))
}

/// Whom keys come from: a terminal, of which standard input need not be.
struct Keys(Option<File>);

impl Keys {
    fn open() -> Keys {
        let stdin = std::io::stdin();
        let own = stdin.is_terminal().then(|| stdin.as_fd().try_clone_to_owned().ok()).flatten();
        Keys(own.map(File::from).or_else(|| File::open("/dev/tty").ok()))
    }

    /// Was one pressed that ends it, or did the terminal go away? Read here, because a library that
    /// waits for whole keys waits for ever for those of a terminal that is gone.
    fn want_to_end(&mut self) -> bool {
        let Some(terminal) = &mut self.0 else { return false };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut asked = [PollFd::new(&*terminal, PollFlags::IN)];
            if !poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0) {
                return false;
            }
            let mut keys = [0; 64];
            match terminal.read(&mut keys) {
                Ok(0) => return true,
                Ok(count) if ends(&keys[..count]) => return true,
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() != ErrorKind::WouldBlock,
            }
        }
    }
}

struct Top {
    besides: Besides,
    what: String,
    of: Of,
    before: Option<Counts>,
    /// By port, so far: frames that were lost on their way here.
    lost: Vec<u64>,
    traffic: Traffic,
    begun: Instant,
}

impl Top {
    /// Screen after screen, until one of them, Ctrl-C or the source ends it.
    fn run(
        &mut self,
        args: &Args,
        source: &mut dyn Source,
        stop: &AtomicBool,
        mut keys: Keys,
        mut show: impl FnMut(&Interval) -> Result<bool>,
    ) -> Result<Ended> {
        let delay = Duration::from_secs_f64(args.delay);
        let (mut screens, mut looks) = (0, 0_u32);
        while !stop.load(Ordering::Relaxed) {
            let (ended, waits) = match source.next()? {
                Next::Packet(packet) => {
                    self.traffic.add(&packet);
                    (false, false)
                }
                Next::Later => (false, true),
                Next::End => (true, true),
            };
            looks = looks.wrapping_add(1);
            if self.begun.elapsed() >= delay || ended {
                screens += 1;
                let enough = args.count.is_some_and(|most| screens >= most);
                let asked_to_end = show(&self.interval(source))?;
                if ended {
                    return Ok(Ended::Source);
                } else if asked_to_end || enough {
                    break;
                }
            } else if (waits || looks.is_multiple_of(KEYS_EVERY)) && keys.want_to_end() {
                // Keys do not wait for the next screen.
                break;
            }
        }
        Ok(Ended::User)
    }

    /// What passed since the last one.
    fn interval(&mut self, source: &mut dyn Source) -> Interval {
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        self.begun = Instant::now();
        let mut traffic = std::mem::take(&mut self.traffic);
        let looked_at = traffic.frames();
        let counted = source.counted().unwrap_or_default();
        let lost: Vec<u64> = counted.iter().map(|c| c.dropped).collect();
        let before = std::mem::replace(&mut self.lost, lost);
        let lost = self.lost.iter().enumerate();
        traffic.stand_for(
            &lost.map(|(n, l)| l.saturating_sub(*before.get(n).unwrap_or(&0))).collect::<Vec<_>>(),
        );
        let (drops, connections) = self.besides.look();
        let link = self.besides.link();
        let now = self.of.counts();
        let passed = now.zip(self.before).map(|(now, before)| now.since(before));
        self.before = now;
        let ports = source.ports().into_iter().enumerate().map(|(number, port)| PortState {
            name: port.name,
            amounts: traffic.ports.get(number).copied().unwrap_or_default(),
            on_link: traffic.links.get(number).copied().unwrap_or_default(),
            link,
        });
        Interval {
            what: self.what.clone(),
            seconds,
            passed: traffic.frames(),
            looked_at,
            switches: passed.map(|passed| (self.of.woken_by(), passed)),
            ports: ports.collect(),
            traffic,
            drops,
            connections,
        }
    }
}
