//! The control service of a running program: it answers `show`, `dump` and `top`, and changes what
//! `ip` asks for, between the turns of the stacks.
//!
//! Called by: the programs' loops, every 50 ms or when one of its descriptors is ready. `answer`
//! answers on the thread that owns a stack; `mailbox` asks another thread; `leases` keeps the taps
//! of clients. A program that cannot make its socket runs without the service.

mod answer;
pub(crate) mod change;
mod leases;
mod lookup;
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

/// Polling intervals: while a client has a tap, and while an answer is being sent, when the socket
/// takes a quarter of a full buffer at a time.
const WATCHED: Duration = Duration::from_millis(2);
const ANSWERING: Duration = Duration::from_micros(100);

/// How long a program that ends waits for clients with taps to collect the last packets: with a
/// client connected, and with none.
const LAST: Duration = Duration::from_secs(5);
const LAST_OF_NOBODY: Duration = Duration::from_millis(200);

const DENIED: &str = "Operation not permitted: the user that runs the program, and root, change \
                      it; ask as one of them, with `sudo`";

/// The control socket, if there is one, and the leases.
pub(crate) struct ControlService {
    server: Option<Server>,
    command: &'static str,
    /// The stacks are shards of one host.
    has_shards: bool,
    leases: Leases,
}

impl ControlService {
    /// Serve in the user's directory, if possible.
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
        ControlService {
            server: serve().ok(),
            command,
            has_shards: false,
            leases: Leases::default(),
        }
    }

    /// The stacks are shards of one host, the first of which speaks for it.
    pub(crate) fn have_shards(&mut self) {
        self.has_shards = true;
    }

    /// When to poll again, for a loop that polls every `tick`.
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

    /// When [`ControlService::poll`] has to be called even without a request: to close an idle
    /// client, or to remove a tap whose packets are not collected.
    pub(crate) fn next_deadline(&self) -> Instant {
        let clients = self.server.as_ref().map_or(Instant::NEVER, Server::next_deadline);
        clients.min(self.leases.next_deadline())
    }

    /// Does a client have a tap?
    pub(crate) fn is_watched(&self) -> bool {
        !self.leases.is_empty()
    }

    /// Before the program ends: give clients with taps time to collect the last packets.
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

    /// Answer requests about `stacks`; never waits.
    pub(crate) fn poll(&mut self, now: Instant, stacks: &mut [(&str, &mut Stack)]) {
        let names: Vec<_> = stacks.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.serve(now, &names, |number, wanted, control| match stacks.get_mut(number) {
            Some((_, stack)) => answer::of(stack, &wanted, control),
            None => answer::gone(number),
        });
    }

    /// The same for stacks of other threads, which serve at their mailboxes; waits for their
    /// answers.
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
        let has_shards = self.has_shards;
        let mut full = 0;
        server.poll(now, |peer, request| {
            let mut tap = |stack, wanted| {
                let asked = leases.ask(stack, wanted, now, most);
                asked.map(|wanted| (stack, Wanted::Tap(wanted)))
            };
            let wanted = match serde_json::from_slice(&request.payload) {
                Ok(Question::Program) => return message(&program(self.command, names, has_shards)),
                Ok(Question::Section { stack, section, cursor }) => {
                    Ok((stack, Wanted::Page(section, cursor)))
                }
                Ok(Question::Tap { stack, port, insns, snaplen }) => {
                    let (at, wall) = (now, taps::wall_now());
                    tap(stack, taps::Wanted::Add { port, insns, snaplen, at, wall })
                }
                Ok(Question::Kept { stack, tap: id }) => tap(stack, taps::Wanted::Kept(id)),
                Ok(Question::Untap { stack, tap: id }) => tap(stack, taps::Wanted::Remove(id)),
                Ok(Question::Lookup { stack, lookup }) => Ok((stack, Wanted::Lookup(lookup))),
                // The kernel says who connected; whoever else may look changes nothing.
                Ok(Question::Change { stack, changes })
                    if control::own_user_and_root(&peer.owner) =>
                {
                    Ok((stack, Wanted::Change(changes)))
                }
                Ok(Question::Change { .. }) => Err((Refusal::Denied, DENIED.to_owned())),
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
        // The client of an expired tap is gone: remove the tap.
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

fn program(command: &str, names: &[String], shards: bool) -> Answer {
    let program = Program {
        pid: std::process::id(),
        command: command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        stacks: names.to_vec(),
        shards,
    };
    Answer { program: Some(program), ..Answer::default() }
}
