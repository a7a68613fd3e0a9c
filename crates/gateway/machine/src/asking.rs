//! Questions to people at an abstract socket: each is a line of JSON, and so is each answer.
//!
//! Called by: `turns.rs`; `wirespeed policy ask` is the other end. `lines.rs` has the clients.
//! Limit: [`LINE_MAX`] bytes of a line; a client that takes no more questions is disconnected.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;

use ::gateway::{Ends, Ready, Verdict};
use anyhow::{Context, Result};
use base::Instant;
use outside::Host;
use policy::Fence;

use super::lines::{self, Gone};
use super::settings::{AnswerLine, QuestionLine};
use super::wakes::ASKING;

const LINE_MAX: usize = 1_024;

/// The listener and its clients.
#[derive(Debug)]
pub(super) struct Asking {
    listener: UnixListener,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    client: lines::Client,
    /// Questions that it has.
    has: Vec<u64>,
}

impl Asking {
    pub(super) fn new(listener: OwnedFd) -> std::io::Result<Asking> {
        Ok(Asking { listener: lines::listener(listener)?, clients: Vec::new() })
    }

    /// Wait for clients and for their answers.
    ///
    /// # Errors
    /// Epoll refuses a socket.
    pub(super) fn wait_for(&self, host: &Host) -> Result<()> {
        let clients = self.clients.iter().map(|client| client.client.as_fd());
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
        let new = lines::accept(&self.listener, self.clients.len());
        self.clients.extend(new.into_iter().map(|client| Client { client, has: Vec::new() }));
    }
}

impl Client {
    fn take(&mut self, rules: &mut Fence, decided: &mut Vec<(Ends, Verdict)>) -> Result<(), Gone> {
        self.client.read(LINE_MAX)?;
        while let Some(line) = self.client.line(LINE_MAX)? {
            let answer: AnswerLine = serde_json::from_slice(&line).map_err(|_| Gone)?;
            let verdicts = rules.answer_question(answer.id, answer.allow, answer.keep);
            decided.extend(verdicts.into_iter().flatten());
        }
        if self.client.has_ended { Err(Gone) } else { Ok(()) }
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
            self.client.write(&text)?;
            self.has.push(question.id);
        }
        Ok(())
    }
}
