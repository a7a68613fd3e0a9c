//! Questions to people: may this flow begin? The guest's SYN is held meanwhile, for 55 s at most.
//!
//! Called by: `fence`, for rules with `ask`. The owner shows [`Questions::open`] at its socket, and
//! passes answers to `Fence::answer_question`. Flows to one destination share a question. Limits:
//! the constants here.

use core::net::SocketAddr;
use std::collections::HashMap;

use base::{Duration, Instant};
use gateway::Ends;

use crate::compiled::{Destination, Protocol};

/// Questions that are open at a time; further flows are refused.
pub const QUESTIONS_MAX: usize = 64;
/// Flows that wait for one answer; further ones are asked about again when they come again.
pub const WAITING_MAX: usize = 64;
/// Answers that are remembered; the one that ends first makes room.
pub const ANSWERS_MAX: usize = 1_024;
/// How long a question is open, and an answer without a memory holds: the stack forgets a SYN
/// after a minute.
pub const LIFE: Duration = Duration::from_secs(55);

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its number; none is used again.
    pub id: u64,
    /// Where the flow leads.
    pub to: Destination,
    /// The guest's end of the first flow.
    pub guest: SocketAddr,
    /// The names of the address, the last one first.
    pub names: Vec<String>,
    /// The rule that asks.
    pub rule: String,
    /// When the question ends.
    pub until: Instant,
    /// TCP flows that wait.
    pub(crate) waiting: Vec<Ends>,
}

/// What is known about a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Somebody has answered.
    Answer(bool),
    /// Somebody is asked.
    Asked,
    /// Too many questions are open.
    Full,
}

/// Questions and answers.
#[derive(Debug, Default)]
pub struct Questions {
    open: Vec<Question>,
    answers: HashMap<Destination, (bool, Instant)>,
    next: u64,
}

impl Questions {
    /// The open questions, oldest first.
    pub fn open(&self) -> &[Question] {
        &self.open
    }

    /// When the first of them ends.
    pub fn deadline(&self) -> Instant {
        self.open.first().map_or(Instant::NEVER, |question| question.until)
    }

    /// Drop questions that are over. The engine ends their flows by itself.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.open.retain(|question| question.until > now);
    }

    /// Ask about a flow; `describe` gives its names and the rule.
    pub(crate) fn ask(
        &mut self,
        to: Destination,
        ends: &Ends,
        now: Instant,
        describe: impl FnOnce() -> (Vec<String>, String),
    ) -> Known {
        if let Some(&(allows, _)) = self.answers.get(&to).filter(|(_, until)| *until > now) {
            return Known::Answer(allows);
        }
        self.expire(now);
        let waits = to.protocol == Protocol::Tcp;
        if let Some(question) = self.open.iter_mut().find(|question| question.to == to) {
            let has_room = question.waiting.len() < WAITING_MAX;
            if waits && has_room && !question.waiting.contains(ends) {
                question.waiting.push(*ends);
            }
            return Known::Asked;
        }
        if self.open.len() == QUESTIONS_MAX {
            return Known::Full;
        }
        let (names, rule) = describe();
        self.next += 1;
        self.open.push(Question {
            id: self.next,
            to,
            guest: ends.guest,
            names,
            rule,
            until: now + LIFE,
            waiting: if waits { vec![*ends] } else { Vec::new() },
        });
        Known::Asked
    }

    /// Somebody answers; returns the flows that wait, or `None` if there is no such question.
    pub(crate) fn answer(
        &mut self,
        id: u64,
        allows: bool,
        is_kept: bool,
        now: Instant,
    ) -> Option<Vec<Ends>> {
        self.expire(now);
        let at = self.open.iter().position(|question| question.id == id)?;
        let question = self.open.remove(at);
        self.answers.retain(|_, (_, until)| *until > now);
        if self.answers.len() >= ANSWERS_MAX {
            let first = self.answers.iter().min_by_key(|(to, (_, until))| (*until, **to));
            if let Some(first) = first.map(|(to, _)| *to) {
                self.answers.remove(&first);
            }
        }
        let until = if is_kept { Instant::NEVER } else { now + LIFE };
        self.answers.insert(question.to, (allows, until));
        Some(question.waiting)
    }

    /// Forget all answers: the rules have changed.
    pub(crate) fn forget(&mut self) {
        self.answers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> Destination {
        Destination::new(Protocol::Tcp, [192, 0, 2, 1].into(), port)
    }

    fn ends(port: u16) -> Ends {
        let guest = SocketAddr::from(([10, 0, 2, 100], port));
        Ends { guest, remote: SocketAddr::from(([192, 0, 2, 1], 80)) }
    }

    fn ask(questions: &mut Questions, port: u16, guest: u16, now: Instant) -> Known {
        questions.ask(to(port), &ends(guest), now, || (Vec::new(), "p:1".to_owned()))
    }

    #[test]
    fn flows_to_one_destination_share_a_question() {
        let (mut questions, now) = (Questions::default(), Instant::ZERO);
        for guest in [1, 2, 2, 3] {
            assert_eq!(ask(&mut questions, 80, guest, now), Known::Asked);
        }
        assert_eq!(ask(&mut questions, 81, 1, now), Known::Asked);
        assert_eq!(questions.open().len(), 2);
        let id = questions.open()[0].id;
        assert_eq!(questions.answer(id, true, false, now), Some(vec![ends(1), ends(2), ends(3)]));
        assert_eq!(questions.answer(id, true, false, now), None);
        let later = now + LIFE;
        assert_eq!(ask(&mut questions, 80, 9, now), Known::Answer(true));
        assert_eq!(ask(&mut questions, 80, 9, later), Known::Asked);
        assert_eq!(questions.open().len(), 1, "the question about port 81 is over");
        let id = questions.open()[0].id;
        assert!(questions.answer(id, false, true, later).is_some());
        assert_eq!(ask(&mut questions, 80, 9, later + LIFE + LIFE), Known::Answer(false));
        questions.forget();
        assert_eq!(ask(&mut questions, 80, 9, later), Known::Asked);
    }

    #[test]
    fn questions_and_answers_are_bounded() {
        let (mut questions, now) = (Questions::default(), Instant::ZERO);
        for port in 0..QUESTIONS_MAX as u16 {
            assert_eq!(ask(&mut questions, port, 1, now), Known::Asked);
        }
        assert_eq!(ask(&mut questions, 1_000, 1, now), Known::Full);
        for guest in 0..100 {
            ask(&mut questions, 0, guest, now);
        }
        assert_eq!(questions.open()[0].waiting.len(), WAITING_MAX);
        for port in 0..2_000 {
            let id = questions.open()[0].id;
            questions.answer(id, true, true, now);
            ask(&mut questions, 3_000 + port, 1, now);
        }
        assert_eq!(questions.answers.len(), ANSWERS_MAX);
        assert_eq!(questions.deadline(), now + LIFE);
    }
}
