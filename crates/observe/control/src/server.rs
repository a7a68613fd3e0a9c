//! The server: a bounded number of clients on one thread. No call blocks.
//!
//! Called by: the loop of a program that runs a stack, between its turns or when a descriptor of
//! [`Server::descriptors`] is ready. A request may wait for its answer ([`Reply::Later`]).
//! Counters: hits of the `control_` limits in [`Server::budget`].

use std::fs::symlink_metadata;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base::{Budget, Duration, Instant, Limit, Owner};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, listen, recv,
    socket_with,
};

use crate::frame::{Got, Incoming, Outgoing, Welcome, hello};
use crate::peer::Pace;
use crate::{ControlError, Groups, Message, Peer, path};

/// The listen backlog.
const BACKLOG: i32 = 16;

/// The server of a control socket.
pub struct Server {
    listener: OwnedFd,
    path: PathBuf,
    /// Device and inode number of the socket's file, so that the server removes no other file.
    identity: Option<(u64, u64)>,
    clients: Vec<Connection>,
    /// The number that the last connection was given.
    last: u64,
    budget: Budget,
    groups: Groups,
    admits: Box<dyn Fn(&Owner) -> bool + Send>,
    pace: Pace,
}

/// The answer to a request, now or later.
pub enum Reply {
    /// The answer is ready.
    Now(Message),
    /// There is nothing to report yet. The request waits until there is, at most this long after it
    /// was made, or until the client makes another request. Each [`Server::poll`] calls `answer`
    /// again for it.
    Later(Message, Duration),
}

/// A request that waits for its answer.
struct Waiting {
    request: Message,
    until: Instant,
}

struct Connection {
    socket: OwnedFd,
    peer: Peer,
    incoming: Incoming,
    outgoing: Outgoing,
    waiting: Option<Waiting>,
    /// When the last request or hello was handled, and when the current frame or answer began.
    moved_at: Instant,
    began_at: Instant,
}

/// Let every user of the machine connect to the socket at `path`. The server decides by the
/// client's credentials, which the kernel reports, and not by the mode of the file.
///
/// # Errors
/// [`ControlError::System`]: the file does not belong to this process's user any more.
pub fn open_to_all(path: &Path) -> Result<(), ControlError> {
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o666))
        .map_err(ControlError::system("the mode of the control socket cannot be changed"))
}

/// Admit the user of this process, and root. This is the default.
pub fn own_user_and_root(owner: &Owner) -> bool {
    owner.uid == 0 || owner.uid == rustix::process::geteuid().as_raw()
}

impl Server {
    /// Serve at `path`, whose directory must exist ([`path::prepare`]). A socket there on which no
    /// server answers is replaced. `admits` decides which users are admitted, as
    /// [`own_user_and_root`] does.
    ///
    /// # Errors
    /// As [`Server::listener`].
    pub fn bind(
        path: &Path,
        budget: Budget,
        groups: Groups,
        admits: impl Fn(&Owner) -> bool + Send + 'static,
    ) -> Result<Server, ControlError> {
        let listener = Server::listener(path)?;
        let mut server = Server::over(listener, path, budget, groups, admits);
        server.identity = symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()));
        Ok(server)
    }

    /// Serve at a socket that [`Server::listener`] made, perhaps in another process. The process
    /// that made the socket removes its file.
    pub fn over(
        listener: OwnedFd,
        path: &Path,
        budget: Budget,
        groups: Groups,
        admits: impl Fn(&Owner) -> bool + Send + 'static,
    ) -> Server {
        Server {
            listener,
            path: path.to_owned(),
            identity: None,
            clients: Vec::new(),
            last: 0,
            budget,
            groups,
            admits: Box::new(admits),
            pace: Pace::default(),
        }
    }

    /// Make a listening socket at `path`. An existing file is replaced only if it is a socket on
    /// which nobody answers.
    ///
    /// # Errors
    /// [`ControlError::InUse`], [`ControlError::InTheWay`], [`ControlError::PathTooLong`],
    /// [`ControlError::System`].
    pub fn listener(path: &Path) -> Result<OwnedFd, ControlError> {
        let address = path::address(path)?;
        let refused = || ControlError::system("the control socket cannot be made");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(refused())?;
        let mut bound = bind(&listener, &address);
        if bound == Err(Errno::ADDRINUSE) && path::remove_dead(path) {
            bound = bind(&listener, &address);
        }
        match bound {
            Err(Errno::ADDRINUSE) => {
                path::vacancy(path)?;
                return Err(ControlError::InUse { path: path.to_owned() });
            }
            other => other.map_err(refused())?,
        }
        listen(&listener, BACKLOG).map_err(refused())?;
        Ok(listener)
    }

    /// Admit other users from now on. Clients of users who are no longer admitted are disconnected.
    pub fn set_admits(&mut self, admits: impl Fn(&Owner) -> bool + Send + 'static) {
        self.clients.retain(|client| admits(&client.peer.owner));
        self.admits = Box::new(admits);
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The limits, and their hit counters.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The limits, for the code that answers requests: it enforces `control_taps`.
    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Is this connection ([`Peer::connection`]) still there?
    pub fn is_connected(&self, connection: u64) -> bool {
        self.clients.iter().any(|client| client.peer.connection == connection)
    }

    /// The number of clients.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Accept clients, receive requests, answer each complete request with `answer`, and send
    /// answers. Never blocks. The last argument of `answer` says whether the request may wait; if
    /// it may not and `answer` returns no answer, the client's connection ends. Returns how many
    /// requests were answered.
    pub fn poll(
        &mut self,
        now: Instant,
        mut answer: impl FnMut(&Peer, Message, bool) -> Reply,
    ) -> usize {
        self.accept(now);
        let mut answered = 0;
        let budget = &mut self.budget;
        self.clients.retain_mut(|client| {
            let alive = client.work(now, budget, &mut answer, &mut answered);
            alive.is_ok() && client.is_in_time(now, budget)
        });
        answered
    }

    /// Is an answer only partly sent?
    pub fn is_answering(&self) -> bool {
        self.clients.iter().any(|client| !client.outgoing.is_empty())
    }

    /// The descriptors for poll(2).
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let clients = self.clients.iter().map(|client| {
            let sending = !client.outgoing.is_empty();
            let events = if sending { PollFlags::OUT } else { PollFlags::IN };
            (client.socket.as_fd(), events)
        });
        let listener = self.pace.until().is_none().then(|| self.listener.as_fd());
        listener.into_iter().map(|listener| (listener, PollFlags::IN)).chain(clients)
    }

    /// When [`Server::poll`] is due even if no descriptor is ready.
    pub fn next_deadline(&self) -> Instant {
        let deadlines = self.clients.iter().map(|client| client.deadline(&self.budget).0);
        deadlines.chain(self.pace.until()).min().unwrap_or(Instant::NEVER)
    }

    fn accept(&mut self, now: Instant) {
        if self.pace.rests(now) {
            return;
        }
        // Accept at most as many as the listen backlog, so that clients that keep connecting do not
        // keep the server here.
        for _ in 0..BACKLOG {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(&self.listener, flags) else { return };
            self.last += 1;
            let Ok(peer) = Peer::of(socket.as_fd(), self.groups, self.last) else { continue };
            let welcome = if !(self.admits)(&peer.owner) {
                Welcome::NotAdmitted
            } else if !self.budget.admits(Limit::ControlClients, self.clients.len())
                || !self.has_room_for(&peer.owner)
            {
                Welcome::Full
            } else {
                Welcome::Yes
            };
            // Our own user and root are served, however often they connect.
            let is_ours = welcome == Welcome::Yes && own_user_and_root(&peer.owner);
            let uid = peer.owner.uid;
            let welcome = match is_ours || self.pace.takes(uid, now, &mut self.budget) {
                true => welcome,
                false => Welcome::Full,
            };
            let mut outgoing = Outgoing::raw(hello(welcome));
            let sent = outgoing.send(socket.as_fd(), SendFlags::DONTWAIT);
            if welcome == Welcome::Yes && sent.is_ok() {
                let incoming = Incoming::default();
                self.clients.push(Connection {
                    socket,
                    peer,
                    incoming,
                    outgoing,
                    waiting: None,
                    moved_at: now,
                    began_at: now,
                });
            }
        }
    }

    /// Is there room for a client of this user? One user shall not keep out the others.
    fn has_room_for(&mut self, owner: &Owner) -> bool {
        let of_user = self.clients.iter().filter(|client| client.peer.owner.uid == owner.uid);
        let used = of_user.count();
        own_user_and_root(owner) || self.budget.admits(Limit::ControlUserClients, used)
    }
}

impl Connection {
    /// Send the pending answer, and only then read the next request, so that at most one answer is
    /// pending.
    fn work(
        &mut self,
        now: Instant,
        budget: &mut Budget,
        answer: &mut impl FnMut(&Peer, Message, bool) -> Reply,
        answered: &mut usize,
    ) -> Result<(), ControlError> {
        if !self.outgoing.send(self.socket.as_fd(), SendFlags::DONTWAIT)? {
            return Ok(());
        }
        if let Some(Waiting { request, until }) = self.waiting.take() {
            let may_wait = !self.has_more()? && now < until;
            match answer(&self.peer, request, may_wait) {
                Reply::Later(request, _) if may_wait => {
                    self.waiting = Some(Waiting { request, until });
                }
                reply => self.reply(reply, now, budget, answered)?,
            }
            return Ok(());
        }
        let was_partial = self.incoming.is_partial();
        match self.incoming.receive(self.socket.as_fd(), RecvFlags::DONTWAIT, budget)? {
            None => {
                if self.incoming.is_partial() && !was_partial {
                    self.began_at = now;
                }
                return Ok(());
            }
            Some(Got::Hello) => {}
            Some(Got::Message(request)) => match answer(&self.peer, request, true) {
                Reply::Later(request, most) => {
                    self.waiting = Some(Waiting { request, until: now + most });
                }
                reply => return self.reply(reply, now, budget, answered),
            },
        }
        (self.moved_at, self.began_at) = (now, now);
        Ok(())
    }

    /// Send an answer, or as much of it as the socket takes.
    fn reply(
        &mut self,
        reply: Reply,
        now: Instant,
        budget: &mut Budget,
        answered: &mut usize,
    ) -> Result<(), ControlError> {
        let Reply::Now(answer) = reply else { return Err(ControlError::Closed) };
        *answered += 1;
        self.outgoing.push(answer, budget)?;
        self.outgoing.send(self.socket.as_fd(), SendFlags::DONTWAIT)?;
        (self.moved_at, self.began_at) = (now, now);
        Ok(())
    }

    /// Has the client sent something while its request waits?
    ///
    /// # Errors
    /// The client is gone.
    fn has_more(&self) -> Result<bool, ControlError> {
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(&self.socket, &mut [0; 1], peek) {
            Ok((0, _)) => Err(ControlError::Closed),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(_) => Err(ControlError::Closed),
        }
    }

    /// When the client will be disconnected if there is no progress, and because of which limit.
    fn deadline(&self, budget: &Budget) -> (Instant, Limit) {
        if let Some(waiting) = &self.waiting {
            return (waiting.until, Limit::ControlIdleMs);
        }
        let busy = self.incoming.is_partial() || !self.outgoing.is_empty();
        let (since, limit) = if busy {
            (self.began_at, Limit::ControlHalfFrameMs)
        } else {
            (self.moved_at, Limit::ControlIdleMs)
        };
        (since + Duration::from_millis(budget.of(limit) as u64), limit)
    }

    fn is_in_time(&self, now: Instant, budget: &mut Budget) -> bool {
        let (deadline, limit) = self.deadline(budget);
        // A request that waits is answered when its time is over.
        self.waiting.is_some() || now < deadline || budget.admits(limit, usize::MAX)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let found = symlink_metadata(&self.path).ok().map(|m| (m.dev(), m.ino()));
        if found.is_some() && found == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
