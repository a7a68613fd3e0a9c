//! The loop of `telnetd`: one thread for all sessions, poll(2) over connections and terminals.
//!
//! Called by: `telnetd.rs`. Limits: `--most` sessions, `--per-address` of them of one address,
//! programs that outlive their connection included.

use std::ffi::OsString;
use std::net::IpAddr;

use anyhow::Result;
use rustix::event::PollFlags;
use wirespeed::{Duration, Instant};

use super::program::Program;
use super::session::{Cx, Session, owner};
use super::{Args, Tally};
use crate::clock::Interrupt;
use crate::sockets::{Listener, Sockets};

/// Connections that are accepted before the sessions have their turn.
const TURN: usize = 16;

/// The daemon.
pub(super) struct Daemon {
    pub(super) sockets: Sockets,
    pub(super) tally: Tally,
    listener: Listener,
    program: Vec<OsString>,
    most: usize,
    per_address: usize,
    patience: Duration,
    sessions: Vec<Session>,
    /// Their connections have ended, they have not.
    outliving: Vec<(Program, IpAddr)>,
}

impl Daemon {
    /// Listen; `None` after Ctrl-C.
    pub(super) fn open(args: &Args, interrupt: &Interrupt) -> Result<Option<Daemon>> {
        let sockets = Sockets::open(&args.network, "telnetd", interrupt)?;
        let Some(mut sockets) = sockets else { return Ok(None) };
        let listener = sockets.listen(args.listen())?;
        Ok(Some(Daemon {
            sockets,
            tally: Tally::default(),
            listener,
            program: args.program.clone(),
            most: args.most as usize,
            per_address: args.per_address as usize,
            patience: Duration::from_secs(u64::from(args.patience)),
            sessions: Vec::new(),
            outliving: Vec::new(),
        }))
    }

    /// Serve until Ctrl-C; the sessions end with it.
    pub(super) fn serve(&mut self, interrupt: &Interrupt) -> Result<()> {
        let mut ready = Vec::new();
        let mut outcome = Ok(());
        while !interrupt.noted() {
            self.sockets.turn();
            self.accept();
            let is_busy = self.turn(&ready);
            self.clear_away();
            match self.wait(is_busy, interrupt) {
                Ok(now_ready) => ready = now_ready,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        for session in core::mem::take(&mut self.sessions) {
            self.end(session);
        }
        self.sockets.turn();
        outcome
    }

    fn accept(&mut self) {
        for _ in 0..TURN {
            let Some((connection, peer)) = self.sockets.accept(&self.listener) else { return };
            let owner = owner(peer.ip());
            if !self.has_room(owner) {
                self.tally.refused += 1;
                self.sockets.close(connection);
                continue;
            }
            match Session::new(connection, owner, self.patience, self.sockets.now()) {
                Ok(session) => {
                    self.tally.sessions += 1;
                    self.sessions.push(session);
                }
                Err(connection) => {
                    self.tally.refused += 1;
                    self.sockets.close(connection);
                }
            }
        }
    }

    /// May this address have one more session?
    fn has_room(&self, owner: IpAddr) -> bool {
        let outliving = self.outliving.iter().map(|&(_, owner)| owner);
        let all = self.sessions.iter().map(Session::owner).chain(outliving);
        let used = self.sessions.len() + self.outliving.len();
        used < self.most && all.filter(|&of| of == owner).count() < self.per_address
    }

    /// Serve the sessions that are ready; all that are beyond the list are new.
    fn turn(&mut self, ready: &[bool]) -> bool {
        let now = self.sockets.now();
        let mut cx = Cx { sockets: &mut self.sockets, program: &self.program, now };
        let mut is_busy = false;
        for (n, session) in self.sessions.iter_mut().enumerate() {
            if ready.get(n) != Some(&false) || session.deadline() <= now {
                is_busy |= session.turn(&mut cx);
            }
        }
        is_busy
    }

    fn clear_away(&mut self) {
        let over: Vec<Session> = self.sessions.extract_if(.., |s| s.is_over()).collect();
        over.into_iter().for_each(|session| self.end(session));
        self.outliving.retain_mut(|(program, _)| !program.has_ended());
    }

    fn end(&mut self, session: Session) {
        self.tally.late += u64::from(session.is_late());
        let owner = session.owner();
        let (connection, counts, program) = session.end();
        self.tally.add(counts);
        self.sockets.close(connection);
        self.outliving.extend(program.map(|program| (program, owner)));
    }

    /// Sleep; which of the sessions are ready afterwards.
    fn wait(&mut self, is_busy: bool, interrupt: &Interrupt) -> Result<Vec<bool>> {
        let deadline = self.sessions.iter().map(Session::deadline).min();
        let until = deadline.unwrap_or(Instant::NEVER);
        let until = if is_busy { Instant::ZERO } else { until };
        let mut asked = vec![interrupt.descriptor()];
        asked.extend(self.listener.descriptor().map(|fd| (fd, PollFlags::IN)));
        asked.extend(
            self.outliving.iter().map(|(program, _)| (program.descriptor(), PollFlags::IN)),
        );
        let (mut owners, before) = (Vec::new(), asked.len());
        for (n, session) in self.sessions.iter_mut().enumerate() {
            let own = session.descriptors();
            owners.extend(own.iter().map(|_| n));
            asked.extend(own);
        }
        let found = self.sockets.wait(until, &asked)?;
        // What came for connections of a stack is not said here.
        let mut ready = vec![is_busy || self.sockets.is_stack(); self.sessions.len()];
        for (owner, flags) in owners.into_iter().zip(&found[before..]) {
            ready[owner] |= !flags.is_empty();
        }
        Ok(ready)
    }
}
