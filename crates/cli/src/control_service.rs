//! The control service of a running program: it answers `show`, `dump` and `top` between the turns
//! of the stacks.
//!
//! Called by: the loops, every 50 ms, or when one of its descriptors is ready. `answer` is what a
//! stack's own thread says, asked through a `mailbox` where that is another thread; `leases` knows
//! who watches packets. A program that cannot make its socket runs without one.

mod answer;
mod leases;
mod mailbox;
mod rows;
mod taps;

use std::os::fd::BorrowedFd;
use std::thread::sleep;

use rustix::event::PollFlags;
use wirespeed::base::Limit;
use wirespeed::control::{self, Message, Server};
use wirespeed::{Budget, Duration, Instant, Stack};

use crate::running::{Answer, Program, Question, Refusal};

pub(crate) use mailbox::Mailbox;

use answer::Wanted;
use leases::Leases;

/// Polling interval while a client watches packets, and while an answer is being sent: the
/// socket takes a quarter of a full buffer at a time.
const WATCHED: Duration = Duration::from_millis(2);
const ANSWERING: Duration = Duration::from_micros(100);

/// How long a program that ends waits for those who watch to come for the last packets; and how
/// long if none of them is connected, who may be gone.
const LAST: Duration = Duration::from_secs(5);
const LAST_OF_NOBODY: Duration = Duration::from_millis(200);

/// Answers, where there is a socket.
pub(crate) struct ControlService {
    server: Option<Server>,
    command: &'static str,
    leases: Leases,
}

impl ControlService {
    /// Serve in the user's directory, if there can be one.
    pub(crate) fn open(command: &'static str) -> ControlService {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR");
        let uid = rustix::process::geteuid().as_raw();
        let directory = control::path::directory(runtime.as_deref(), uid);
        let serve = || {
            control::path::prepare(&directory)?;
            control::path::sweep(&directory);
            let path = control::path::socket(&directory, std::process::id());
            let (budget, groups) = (Budget::default(), wirespeed::device::peer_groups);
            Server::bind(&path, budget, groups, control::own_user_and_root)
        };
        ControlService { server: serve().ok(), command, leases: Leases::default() }
    }

    /// When to look again, for a program that looks every `tick`.
    pub(crate) fn look_within(&self, tick: Duration) -> Duration {
        if self.server.as_ref().is_some_and(Server::is_answering) {
            tick.min(ANSWERING)
        } else if self.is_watched() {
            tick.min(WATCHED)
        } else {
            tick
        }
    }

    /// For poll(2): ready when a client connects, asks, or can take more of an answer.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.server.iter().flat_map(Server::descriptors)
    }

    /// When [`ControlService::poll`] has to be called without a request: an idle client is closed,
    /// or a tap is removed because nobody collects its packets.
    pub(crate) fn next_deadline(&self) -> Instant {
        let clients = self.server.as_ref().map_or(Instant::NEVER, Server::next_deadline);
        clients.min(self.leases.next_deadline())
    }

    /// Does a client watch packets?
    pub(crate) fn is_watched(&self) -> bool {
        !self.leases.is_empty()
    }

    /// The program ends: who watches packets gets the last ones, if he comes for them soon.
    pub(crate) fn finish(
        &mut self,
        clock: impl Fn() -> Instant,
        stacks: &mut [(&str, &mut Stack)],
    ) {
        let began = clock();
        self.leases.begin_last();
        while !self.leases.have_all() {
            let is_connected = self.server.as_ref().is_some_and(|server| server.clients() > 0);
            let timeout = if is_connected { LAST } else { LAST_OF_NOBODY };
            if clock() >= began + timeout {
                break;
            }
            self.poll(clock(), stacks);
            sleep(ANSWERING.into());
        }
    }

    /// Answer who asks about `stacks`; never waits.
    pub(crate) fn poll(&mut self, now: Instant, stacks: &mut [(&str, &mut Stack)]) {
        let names: Vec<_> = stacks.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.serve(now, &names, |number, wanted, control| match stacks.get_mut(number) {
            Some((_, stack)) => answer::of(stack, &wanted, control),
            None => answer::gone(number),
        });
    }

    /// The same for stacks that other threads own, who serve at their mailboxes; waits for them.
    pub(crate) fn poll_mailboxes(&mut self, now: Instant, mailboxes: &[(&str, &Mailbox)]) {
        let names: Vec<_> = mailboxes.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.serve(now, &names, |number, wanted, control| match mailboxes.get(number) {
            Some((_, mailbox)) => mailbox.ask(number, wanted, control),
            None => answer::gone(number),
        });
    }

    fn serve(
        &mut self,
        now: Instant,
        names: &[String],
        mut of: impl FnMut(usize, Wanted, &Budget) -> Answer,
    ) {
        let Some(server) = &mut self.server else { return };
        let control = server.budget().clone();
        let (leases, most) = (&mut self.leases, control.of(Limit::ControlTaps));
        let mut full = 0;
        server.poll(now, |_, request| {
            let mut tap = |stack, wanted| {
                let asked = leases.ask(stack, wanted, now, most);
                asked.map(|wanted| (stack, Wanted::Tap(wanted)))
            };
            let wanted = match serde_json::from_slice(&request.payload) {
                Ok(Question::Program) => return message(&program(self.command, names)),
                Ok(Question::Section { stack, section, cursor }) => {
                    Ok((stack, Wanted::Page(section, cursor)))
                }
                Ok(Question::Tap { stack, port, insns, snaplen }) => {
                    let (at, wall) = (now, taps::wall_now());
                    tap(stack, taps::Wanted::Add { port, insns, snaplen, at, wall })
                }
                Ok(Question::Kept { stack, tap: id }) => tap(stack, taps::Wanted::Kept(id)),
                Ok(Question::Untap { stack, tap: id }) => tap(stack, taps::Wanted::Remove(id)),
                Err(error) => {
                    let why = format!("the question is not understood: {error}");
                    Err((Refusal::Wrong, why))
                }
            };
            let answer = match wanted {
                Ok((stack, wanted)) => {
                    let answer = of(stack, wanted.clone(), &control);
                    leases.note(stack, &wanted, &answer, now);
                    answer
                }
                Err((kind, why)) => {
                    full += usize::from(kind == Refusal::Full);
                    Answer::refusal(kind, why)
                }
            };
            message(&answer)
        });
        for _ in 0..full {
            server.budget_mut().admits(Limit::ControlTaps, most);
        }
        // Who asked for a tap and went away does not come back for it.
        for (stack, wanted) in self.leases.expired(now) {
            let wanted = Wanted::Tap(wanted);
            let answer = of(stack, wanted.clone(), &control);
            self.leases.note(stack, &wanted, &answer, now);
        }
    }
}

fn message(answer: &Answer) -> Message {
    Message { payload: serde_json::to_vec(answer).unwrap_or_default(), descriptors: Vec::new() }
}

fn program(command: &str, names: &[String]) -> Answer {
    let program = Program {
        pid: std::process::id(),
        command: command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        stacks: names.to_vec(),
    };
    Answer { program: Some(program), ..Answer::default() }
}
