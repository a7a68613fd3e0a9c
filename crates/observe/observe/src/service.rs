//! The service of a running program: between the turns of the stacks it answers `show`, `dump` and
//! `top`, and makes the changes of `ip` if the program allows them.
//!
//! Called by: programs' loops, every 50 ms or when a descriptor of the service is ready;
//! `observer.rs`, for programs whose stacks have threads of their own. `answer` answers on the
//! thread that owns a stack; `mailbox` asks another thread; `leases` keeps the taps of clients;
//! `sockets` opens sockets for them. A program that cannot make its control socket runs without the
//! service. A second control socket is for other users than root and the program's own: they may
//! only open sockets in the stacks.

mod answer;
mod change;
mod filter;
mod leases;
mod lookup;
mod mailbox;
mod rows;
mod rules;
mod sample;
mod sockets;
mod taps;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;

use base::Limit;
use base::{Budget, Duration, Instant};
use control::Users;
use control::{ControlError, Message, Reply, Server};
use live::Feed;
use rustix::event::PollFlags;
use serde::Deserialize;
use stack::Stack;

use crate::beyond::{Beyond, Nothing};
use control::protocol::{About, Answer, CONNECTIONS_MAX, Call, Question, Refusal};

pub use filter::explain_packet;
pub use mailbox::Mailbox;

use answer::{Wanted, With};
use filter::Trial;
use leases::Leases;
use sockets::{Client, Sockets};

/// How often the service polls while a client has a tap, and while an answer is being sent. The
/// socket takes a quarter of a full buffer at a time.
const WATCHED: Duration = Duration::from_millis(2);
const ANSWERING: Duration = Duration::from_micros(100);

/// How long a program that ends waits for clients with taps to collect the last packets: the longer
/// time if a client is connected, the shorter one if none is.
const LAST: Duration = Duration::from_secs(5);
const LAST_OF_NOBODY: Duration = Duration::from_millis(200);

const SOCKETS_ONLY: &str = "Operation not permitted: other users than root and the program's own \
                            open sockets by `nc` and `ping`, and ask nothing else; use `sudo`";

const NO_CHANGES: &str = "Operation not permitted: the program allows no changes; a program that \
                          calls `allow_changes` does";

/// The refusal of a program whose loop takes all events of the stack for its own.
const NO_SOCKETS: &str = "Operation not supported: the program opens no sockets for clients; \
                          `wirespeed up` does";

/// The most clients of the control socket for other users.
const USERS_CLIENTS: usize = 64;

/// The control sockets, if any, and the taps and sockets that clients have in the stacks.
pub struct Service {
    /// The server for our own user, and the one for other users; either may be absent.
    servers: Vec<Server>,
    /// The index of the server for other users.
    for_users: Option<usize>,
    /// Clients may open sockets in the stacks.
    opens_sockets: bool,
    /// The name that the program gives itself.
    command: String,
    /// Clients may change the stacks.
    is_changeable: bool,
    /// The stacks are shards of one host.
    has_shards: bool,
    leases: Leases,
    sockets: Sockets,
    trial: Trial,
    /// Samples for the live page, if it is served.
    feed: Option<Feed>,
}

impl Service {
    /// Serve in the user's directory, if possible. `command` is the name that the program gives
    /// itself.
    pub fn open(command: &str) -> Service {
        Service::bound(command).unwrap_or_else(|_| Service::new(command))
    }

    /// Serve in the user's directory.
    ///
    /// # Errors
    /// There is no directory that only the user can access, or no socket can be made in it.
    pub fn bound(command: &str) -> Result<Service, ControlError> {
        let path = socket_path(std::process::id())?;
        let (budget, groups) = (Budget::default(), device::peer_groups);
        let server = Server::bind(&path, budget, groups, control::own_user_and_root)?;
        Ok(Service { servers: vec![server], ..Service::new(command) })
    }

    /// A service without a control socket yet.
    pub fn new(command: &str) -> Service {
        let servers = Vec::new();
        let (leases, sockets) = (Leases::default(), Sockets::default());
        Service {
            servers,
            for_users: None,
            opens_sockets: false,
            command: command.to_owned(),
            is_changeable: false,
            has_shards: false,
            leases,
            sockets,
            trial: Trial::default(),
            feed: None,
        }
    }

    /// Let this user's clients and root change routes, rules, neighbours and addresses.
    #[must_use]
    pub fn allow_changes(self) -> Service {
        Service { is_changeable: true, ..self }
    }

    /// Give samples of the stacks to the live page.
    pub fn feed(&mut self, feed: Feed) {
        self.feed = Some(feed);
    }

    /// Give no more samples: the live page ends.
    pub fn end_feed(&mut self) {
        self.feed = None;
    }

    /// The stacks are shards of one host; the first stack represents the host.
    pub fn have_shards(&mut self) {
        self.has_shards = true;
    }

    /// Open sockets in the stacks for clients. The events of these sockets come with the stacks'
    /// own.
    pub fn open_sockets(&mut self) {
        self.opens_sockets = true;
    }

    /// Serve at a control socket that another process has made. Until [`Service::set_users`], a
    /// socket for other users admits only root and the program's own user.
    pub fn serve_at(&mut self, listener: OwnedFd, path: &Path, for_users: bool) {
        let (mut budget, groups) = (Budget::default(), device::peer_groups);
        if for_users {
            budget.set(Limit::ControlClients, USERS_CLIENTS);
            self.for_users = Some(self.servers.len());
        }
        let server = Server::over(listener, path, budget, groups, control::own_user_and_root);
        self.servers.push(server);
    }

    /// Set the groups of users, and the groups whose members the socket for other users admits.
    pub fn set_users(&mut self, users: &Users, admitted: impl Iterator<Item = u32>) {
        let admitted: Vec<u32> = admitted.collect();
        if let Some(server) = self.for_users.and_then(|at| self.servers.get_mut(at)) {
            let (users, admitted) = (users.clone(), admitted.clone());
            server.set_admits(move |peer| {
                let owner = users.owner(peer);
                control::own_user_and_root(peer) || admitted.iter().any(|&g| owner.in_group(g))
            });
        }
        self.sockets.set_users(users.clone());
    }

    /// How soon to poll again, for a loop that polls every `tick`.
    pub fn look_within(&self, tick: Duration) -> Duration {
        if self.servers.iter().any(Server::is_answering) {
            tick.min(ANSWERING)
        } else if self.is_watched() || self.feed.as_ref().is_some_and(Feed::is_carrying) {
            tick.min(WATCHED)
        } else {
            tick
        }
    }

    /// The descriptors for poll(2): ready when a client connects, asks, or can take more of an
    /// answer.
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let feed = self.feed.iter().map(|feed| (feed.descriptor(), PollFlags::IN));
        self.servers.iter().flat_map(Server::descriptors).chain(feed)
    }

    /// When [`Service::poll`] has to be called even without a request: to disconnect an idle
    /// client, to remove a tap whose packets are not collected, to end a trial of rules, or to make
    /// a sample for the live page.
    pub fn next_deadline(&self) -> Instant {
        let clients = self.servers.iter().map(Server::next_deadline).min();
        let feed = self.feed.as_ref().map_or(Instant::NEVER, Feed::next_deadline);
        let trial = self.trial.next_deadline();
        clients.unwrap_or(Instant::NEVER).min(self.leases.next_deadline()).min(feed).min(trial)
    }

    /// Does a client have a tap?
    pub fn is_watched(&self) -> bool {
        !self.leases.is_empty()
    }

    /// Give clients with taps time to collect the last packets, before the program ends.
    pub fn finish(&mut self, clock: impl Fn() -> Instant, stacks: &mut [(&str, &mut Stack)]) {
        let began = clock();
        self.leases.begin_last();
        while !self.leases.have_all() {
            let is_connected = self.servers.iter().any(|server| server.clients() > 0);
            let timeout = if is_connected { LAST } else { LAST_OF_NOBODY };
            if clock() >= began + timeout {
                break;
            }
            self.poll(clock(), stacks);
            sleep(ANSWERING.into());
        }
    }

    /// Answer requests about `stacks`. Never waits.
    ///
    /// ```no_run
    /// # mod wirespeed { pub use {base::*, stack::*, wirespeed_observe as observe}; }
    /// use wirespeed::observe::Service;
    /// use wirespeed::{Instant, Stack, StackConfig};
    ///
    /// let mut stack = Stack::new(StackConfig::new([1, 2]));
    /// let mut service = Service::bound("my-program")?;
    /// let begin = std::time::Instant::now();
    /// loop {
    ///     let now = Instant::ZERO + begin.elapsed().into();
    ///     stack.poll(now);
    ///     service.poll(now, &mut [("my-stack", &mut stack)]);
    /// #   if begin.elapsed().as_nanos() > 0 { break }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll(&mut self, now: Instant, stacks: &mut [(&str, &mut Stack)]) {
        self.poll_with(now, stacks, &Nothing);
    }

    /// As [`Service::poll`], for stacks whose owner knows more of them.
    pub fn poll_with(
        &mut self,
        now: Instant,
        stacks: &mut [(&str, &mut Stack)],
        beyond: &dyn Beyond,
    ) {
        let names: Vec<_> = stacks.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut sockets = std::mem::take(&mut self.sockets);
        let mut trial = std::mem::take(&mut self.trial);
        if let Some((_, stack)) = stacks.first_mut() {
            trial.end_if_due(stack, now);
        }
        let opens_sockets = self.opens_sockets;
        self.serve(now, &names, |number, asked, control| match stacks.get_mut(number) {
            Some((_, stack)) => match asked {
                Asked::Of(Wanted::Filter(call)) if number == 0 => trial.answer(stack, &call, now),
                Asked::Of(wanted) => {
                    let with = With { users: sockets.users(), control, beyond };
                    answer::of(stack, &wanted, with)
                }
                Asked::Socket(..) if !opens_sockets => {
                    Answer::refusal(Refusal::Wrong, NO_SOCKETS.to_owned())
                }
                Asked::Socket(client, call) => {
                    sockets.answer((number, stack), client, &call, control)
                }
            },
            None => answer::gone(number),
        });
        self.trial = trial;
        if let (Some(feed), Some((_, stack))) = (&mut self.feed, stacks.first_mut()) {
            feed.carry(stack);
        }
        let servers = &self.servers;
        sockets.sweep(stacks, |(server, connection)| servers[server].is_connected(connection));
        self.sockets = sockets;
    }

    /// As [`Service::poll`], for stacks of other threads, which answer through their mailboxes.
    /// Waits for their answers.
    pub fn poll_mailboxes(&mut self, now: Instant, mailboxes: &[(&str, &Mailbox)]) {
        let names: Vec<_> = mailboxes.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.serve(now, &names, |number, asked, control| match (mailboxes.get(number), asked) {
            (Some((_, mailbox)), Asked::Of(wanted)) => mailbox.ask(number, wanted, control),
            (Some(_), Asked::Socket(..)) => Answer::refusal(Refusal::Wrong, NO_SOCKETS.to_owned()),
            (None, _) => answer::gone(number),
        });
    }

    fn serve(
        &mut self,
        now: Instant,
        names: &[String],
        mut of: impl FnMut(usize, Asked<'_>, &mut Budget) -> Answer,
    ) {
        let (has_shards, is_changeable) = (self.has_shards, self.is_changeable);
        for (number, server) in self.servers.iter_mut().enumerate() {
            let leases = &mut self.leases;
            let command = &self.command;
            let mut asking = Asking { command, names, has_shards, is_changeable, leases, now };
            // Answers count hits of limits in a copy, while the server counts its own.
            let mut control = server.budget().clone();
            let before = control.clone();
            server.poll(now, |peer, request, may_wait| {
                let client = (number, peer);
                let answer = asking.answer(client, &request.payload, &mut control, &mut of);
                match answer.later_ms.filter(|_| may_wait) {
                    Some(ms) => Reply::Later(request, Duration::from_millis(u64::from(ms))),
                    None => Reply::Now(message(&answer)),
                }
            });
            for limit in [Limit::ControlTaps, Limit::ControlSockets, Limit::ControlUserSockets] {
                let most = before.of(limit);
                for _ in before.hits(limit)..control.hits(limit) {
                    server.budget_mut().admits(limit, most);
                }
            }
        }
        // If a tap's lease has expired, its client is gone: remove the tap.
        let mut control = Budget::default();
        for (stack, wanted) in self.leases.expired(now) {
            let wanted = Wanted::Tap(wanted);
            let answer = of(stack, Asked::Of(wanted.clone()), &mut control);
            self.leases.note(stack, &wanted, &answer, now);
        }
        if let Some(feed) = &mut self.feed {
            let mut ask = |number, wanted: live::Wanted| {
                let answer = of(number, Asked::Of(Wanted::Sample(wanted)), &mut control);
                live::Sample::deserialize(answer.body).ok().filter(|_| answer.error.is_none())
            };
            feed.turn(now, names, &mut ask);
        }
    }
}

/// The path of the control socket of process `pid`, in a directory that exists.
///
/// # Errors
/// [`ControlError`]: the directory cannot be made or used.
pub fn socket_path(pid: u32) -> Result<PathBuf, ControlError> {
    let directory = control::path::Environment::of_process().prepare()?;
    control::path::sweep(&directory);
    Ok(control::path::socket(&directory, pid))
}

/// A question to a stack.
enum Asked<'a> {
    Of(Wanted),
    /// A call on a socket, by this client.
    Socket(Client<'a>, Call),
}

/// The values, besides the stack, that are needed to answer.
struct Asking<'a> {
    command: &'a str,
    names: &'a [String],
    has_shards: bool,
    is_changeable: bool,
    leases: &'a mut Leases,
    now: Instant,
}

impl Asking<'_> {
    fn answer(
        &mut self,
        client: Client<'_>,
        request: &[u8],
        control: &mut Budget,
        of: &mut impl FnMut(usize, Asked<'_>, &mut Budget) -> Answer,
    ) -> Answer {
        let question = match serde_json::from_slice(request) {
            Ok(question) => question,
            Err(error) => {
                let why = format!("the question is not understood: {error}");
                return Answer::refusal(Refusal::Wrong, why);
            }
        };
        // The kernel says who connected. Any other admitted user may only open sockets.
        let is_ours = control::own_user_and_root(&client.1.owner);
        match question {
            Question::Program => program(self.command, self.names, self.has_shards),
            Question::Socket { stack, call } => of(stack, Asked::Socket(client, call), control),
            _ if !is_ours => Answer::refusal(Refusal::Denied, SOCKETS_ONLY.to_owned()),
            question => match self.wanted(question, control) {
                Ok((stack, wanted)) => {
                    let answer = of(stack, Asked::Of(wanted.clone()), control);
                    self.leases.note(stack, &wanted, &answer, self.now);
                    answer
                }
                Err((kind, why)) => Answer::refusal(kind, why),
            },
        }
    }

    fn wanted(
        &mut self,
        question: Question,
        control: &mut Budget,
    ) -> Result<(usize, Wanted), (Refusal, String)> {
        let now = self.now;
        let mut tap = |stack, wanted| {
            let asked = self.leases.ask(stack, wanted, now, control);
            asked.map(|wanted| (stack, Wanted::Tap(wanted)))
        };
        match question {
            Question::Section { stack, section, cursor } => {
                Ok((stack, Wanted::Page(section, cursor)))
            }
            Question::Connections { stack, mut numbers } => {
                numbers.truncate(CONNECTIONS_MAX);
                numbers.sort_unstable();
                Ok((stack, Wanted::Connections(numbers)))
            }
            Question::Tap { stack, port, insns, snaplen } => {
                let (at, wall) = (now, taps::wall_now());
                tap(stack, taps::Wanted::Add { port, insns, snaplen, at, wall })
            }
            Question::Kept { stack, tap: id } => tap(stack, taps::Wanted::Kept(id)),
            Question::Untap { stack, tap: id } => tap(stack, taps::Wanted::Remove(id)),
            Question::Lookup { stack, lookup } => Ok((stack, Wanted::Lookup(lookup))),
            Question::Change { stack, changes } if self.is_changeable => {
                Ok((stack, Wanted::Change(changes)))
            }
            Question::Filter { stack, call } if self.is_changeable || !call.is_change() => {
                Ok((stack, Wanted::Filter(call)))
            }
            Question::Change { .. } | Question::Filter { .. } => {
                Err((Refusal::Denied, NO_CHANGES.to_owned()))
            }
            Question::Program | Question::Socket { .. } => {
                Err((Refusal::Wrong, "the question is not for a stack".to_owned()))
            }
        }
    }
}

fn message(answer: &Answer) -> Message {
    Message { payload: serde_json::to_vec(answer).unwrap_or_default(), descriptors: Vec::new() }
}

fn program(command: &str, names: &[String], shards: bool) -> Answer {
    let program = About {
        pid: std::process::id(),
        command: command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        stacks: names.to_vec(),
        shards,
    };
    Answer { program: Some(program), ..Answer::default() }
}
