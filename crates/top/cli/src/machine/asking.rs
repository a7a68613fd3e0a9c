//! Questions to people at an abstract socket: each is a line of JSON, and so is each answer.
//!
//! Called by: `turns.rs`; `wirespeed policy ask` is the other end. Only the user of this process is
//! heard. Limits: [`CLIENTS_MAX`] clients, [`LINE_MAX`] bytes of a line; a client that takes no
//! more questions is disconnected.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use ::gateway::{Ends, Ready, Verdict};
use anyhow::{Context, Result};
use outside::Host;
use policy::Fence;
use rustix::net::sockopt::socket_peercred;
use wirespeed::Instant;

use super::settings::{AnswerLine, QuestionLine};
use super::turns::ASKING;

const CLIENTS_MAX: usize = 4;
const LINE_MAX: usize = 1_024;

/// The listener and its clients.
#[derive(Debug)]
pub(super) struct Asking {
    listener: UnixListener,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    /// What came of a line.
    line: Vec<u8>,
    /// Questions that it has.
    has: Vec<u64>,
}

/// A client is gone, or broke a rule.
struct Gone;

impl Asking {
    pub(super) fn new(listener: OwnedFd) -> std::io::Result<Asking> {
        let listener = UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Asking { listener, clients: Vec::new() })
    }

    /// Wait for clients and for their answers.
    ///
    /// # Errors
    /// Epoll refuses a socket.
    pub(super) fn wait_for(&self, host: &Host) -> Result<()> {
        let clients = self.clients.iter().map(|client| client.stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(clients).try_for_each(|fd| {
            host.watch(fd, ASKING, Ready::READABLE).context("epoll refuses a question's socket")
        })
    }

    /// Show new questions and take answers; returns what becomes of flows that waited.
    pub(super) fn turn(&mut self, rules: &mut Fence, now: Instant) -> Vec<(Ends, Verdict)> {
        self.accept();
        let mut decided = Vec::new();
        self.clients.retain_mut(|client| {
            client.take(rules, &mut decided).and_then(|()| client.show(rules, now)).is_ok()
        });
        decided
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let own = rustix::process::geteuid();
            let is_own = socket_peercred(&stream).is_ok_and(|peer| peer.uid == own);
            if is_own && self.clients.len() < CLIENTS_MAX && stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client { stream, line: Vec::new(), has: Vec::new() });
            }
        }
    }
}

impl Client {
    fn take(&mut self, rules: &mut Fence, decided: &mut Vec<(Ends, Verdict)>) -> Result<(), Gone> {
        let mut bytes = [0; LINE_MAX];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Gone),
                Ok(count) => self.line.extend_from_slice(&bytes[..count]),
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
            while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                let answer: AnswerLine = serde_json::from_slice(&line).map_err(|_| Gone)?;
                let verdicts = rules.answer_question(answer.id, answer.allow, answer.keep);
                decided.extend(verdicts.into_iter().flatten());
            }
            if self.line.len() > LINE_MAX {
                return Err(Gone);
            }
        }
    }

    fn show(&mut self, rules: &Fence, now: Instant) -> Result<(), Gone> {
        let open = rules.questions().open();
        self.has.retain(|id| open.iter().any(|question| question.id == *id));
        for question in open {
            if self.has.contains(&question.id) {
                continue;
            }
            let line = QuestionLine {
                id: question.id,
                protocol: question.to.protocol.name().to_owned(),
                to: (question.to.address, question.to.port).into(),
                names: question.names.clone(),
                guest: question.guest,
                rule: question.rule.clone(),
                seconds: question.until.since(now).as_millis() / 1_000,
            };
            let mut text = serde_json::to_vec(&line).map_err(|_| Gone)?;
            text.push(b'\n');
            self.stream.write_all(&text).map_err(|_| Gone)?;
            self.has.push(question.id);
        }
        Ok(())
    }
}
