//! Packets that pass the ports of a running wirespeed, asked for at its control socket.
//!
//! Called by: `run.rs`, unless a file or an interface is named. The filter is compiled here, and
//! looked at and run there; what comes over are the packets that matched.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Error, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bpf::{Insn, records};
use wirespeed::LinkKind;

use super::packet::{Direction, Packet};
use super::pause::Pause;
use super::queue::Queue;
use super::write::{Counted, Port};
use super::{Next, Source, now_ns};
use crate::running::{Contact, Kept, Question, Refusal, Refused, Section, has_ended};
use crate::{Usage, output};

/// Questions in a row without an answer, each for as long as an answer may take, after which it is
/// given up.
const TRIES: u32 = 6;

/// A tap in the other program.
struct Remote {
    stack: usize,
    number: u16,
    insns: Vec<(u16, u8, u8, u32)>,
    tap: u64,
    port: Port,
    /// Packets of this tap that came.
    received: u64,
    /// Of this tap, and of those before it that lapsed.
    counted: Counted,
    before: Counted,
    /// What passed before is here, in nanoseconds since 1970.
    known_ns: u64,
    /// Its stack has ended.
    is_over: bool,
}

/// A running program.
pub(crate) struct Process {
    contact: Contact,
    snaplen: u32,
    taps: Vec<Remote>,
    queue: Queue,
    pause: Pause,
    failures: u32,
    /// Nothing more will come, and why.
    ended: Option<Result<()>>,
}

impl Process {
    /// Watch `only` this port, or every port of every stack, of the program at a control socket;
    /// `make` compiles the filter.
    pub(crate) fn attach(
        socket: PathBuf,
        only: Option<&str>,
        snaplen: u32,
        make: impl Fn(LinkKind) -> Result<Vec<Insn>>,
    ) -> Result<Process> {
        let mut contact = Contact::open(socket)?;
        let program = contact.ask(&Question::Program)?.program;
        let program = program.context("the program does not say what it is")?;
        // From here on what was added is removed, should anything fail.
        let mut process = Process {
            contact,
            snaplen,
            taps: Vec::new(),
            queue: Queue::default(),
            pause: Pause::default(),
            failures: 0,
            ended: None,
        };
        let mut others = Vec::new();
        for (stack, name) in program.stacks.iter().enumerate() {
            let page = Question::Section { stack, section: Section::Ports, cursor: 0 };
            let ports = process.contact.ask(&page)?.body;
            for port in ports.as_array().into_iter().flatten() {
                let link = match port["link"].as_str() {
                    Some("ip") => LinkKind::Ip,
                    _ => LinkKind::Ethernet,
                };
                let number = port["port"].as_u64().and_then(|n| u16::try_from(n).ok());
                let number = number.context("a port without a number")?;
                let name = format!("{name}:{number}");
                if only.is_some_and(|only| only != name) {
                    others.push(name);
                    continue;
                }
                let mut remote = Remote {
                    stack,
                    number,
                    insns: make(link)?.iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect(),
                    tap: 0,
                    port: Port { name, link: link.into() },
                    received: 0,
                    counted: Counted::default(),
                    before: Counted::default(),
                    known_ns: 0,
                    is_over: false,
                };
                remote.add(&mut process.contact, snaplen)?;
                process.taps.push(remote);
            }
        }
        if let (Some(only), true) = (only, process.taps.is_empty()) {
            let others = others.join(", ");
            bail!(Usage(format!("the program has no port {only}; it has {others}")));
        }
        Ok(process)
    }

    /// What all taps have kept, as far as no tap can have anything earlier; also what came before
    /// something failed.
    fn fetch(&mut self) -> Result<()> {
        let mut result = Ok(());
        for (number, remote) in self.taps.iter_mut().enumerate().filter(|(_, r)| !r.is_over) {
            let asked_ns = now_ns();
            match remote.fetch(&mut self.contact, number, &mut self.queue) {
                Ok(last_ns) => remote.known_ns = last_ns.unwrap_or(asked_ns),
                Err(error) => result = remote.answer_to(error, &mut self.contact, self.snaplen),
            }
            if result.is_err() {
                break;
            }
        }
        let open = self.taps.iter().filter(|remote| !remote.is_over);
        let horizon = open.map(|remote| remote.known_ns).min().unwrap_or(u64::MAX);
        self.queue.advance(horizon);
        result
    }

    /// Fetch, and see whether that was the last time.
    fn look(&mut self) {
        let received = |taps: &[Remote]| taps.iter().map(|remote| remote.received).sum::<u64>();
        let before = received(&self.taps);
        let fetched = self.fetch();
        self.pause.asked(Instant::now(), received(&self.taps) != before);
        match fetched {
            Ok(()) => self.failures = 0,
            Err(error) if has_ended(&error) => self.ended = Some(Ok(())),
            Err(error) => {
                self.failures += 1;
                if self.failures >= TRIES {
                    self.ended = Some(Err(error));
                }
            }
        }
        if self.taps.iter().all(|remote| remote.is_over) {
            self.ended = Some(Ok(()));
        }
        if self.ended.is_some() {
            self.queue.advance(u64::MAX);
        }
    }
}

impl Remote {
    /// Have the program watch the port.
    fn add(&mut self, contact: &mut Contact, snaplen: u32) -> Result<()> {
        let (stack, port, insns) = (self.stack, self.number, self.insns.clone());
        let answer = contact.ask(&Question::Tap { stack, port, insns, snaplen })?;
        let tap = answer.body["tap"].as_u64();
        self.tap = tap.context("the program gives no number for the tap")?;
        (self.before, self.received) = (self.counted, 0);
        // The tap before it had nothing that did not come.
        self.known_ns = now_ns();
        Ok(())
    }

    /// What it has kept; the time of the last packet, if there is one.
    fn fetch(
        &mut self,
        contact: &mut Contact,
        number: usize,
        into: &mut Queue,
    ) -> Result<Option<u64>> {
        let body = contact.ask(&Question::Kept { stack: self.stack, tap: self.tap })?.body;
        let kept: Kept = serde_json::from_value(body).context("an answer of another kind")?;
        let bytes = STANDARD.decode(kept.records).context("packets that are no base64")?;
        let mut last_ns = None;
        for record in records(&bytes) {
            self.received += 1;
            last_ns = Some(record.time.0);
            into.push(Packet {
                time_ns: record.time.0,
                link: self.port.link,
                port: number,
                direction: Some(match record.direction {
                    bpf::Direction::In => Direction::In,
                    bpf::Direction::Out => Direction::Out,
                }),
                wire_len: record.wire_len,
                segment_bytes: record.segment_bytes,
                bytes: record.bytes.to_vec(),
            });
        }
        // With nothing left there, what matched and did not come was in an answer that got lost.
        let missing = kept.matched.saturating_sub(self.received);
        let dropped = if bytes.is_empty() { kept.dropped.max(missing) } else { kept.dropped };
        self.counted = Counted {
            seen: self.before.seen + kept.seen,
            matched: self.before.matched + kept.matched,
            dropped: self.before.dropped + dropped,
        };
        Ok(last_ns)
    }

    /// What to do about a question that was not answered.
    fn answer_to(&mut self, error: Error, contact: &mut Contact, snaplen: u32) -> Result<()> {
        match error.downcast_ref::<Refused>().map(|refused| refused.refusal) {
            Some(Refusal::Gone) => self.is_over = true,
            // Its packets wait for the next time.
            Some(Refusal::Busy) => {}
            // Its lease expired, for instance because we were stopped.
            Some(Refusal::Lapsed) => {
                output::err(&format!(
                    "{}: nobody asked for its packets for 10 s, so that it was not watched any \
                     more; what passed meanwhile is missing",
                    self.port.name
                ));
                if let Err(error) = self.add(contact, snaplen) {
                    match error.downcast_ref::<Refused>().map(|refused| refused.refusal) {
                        Some(Refusal::Gone) => self.is_over = true,
                        Some(Refusal::Busy) => {}
                        _ => return Err(error),
                    }
                }
            }
            Some(Refusal::Wrong | Refusal::Full) | None => return Err(error),
        }
        Ok(())
    }
}

impl Source for Process {
    fn ports(&self) -> Vec<Port> {
        self.taps.iter().map(|remote| remote.port.clone()).collect()
    }

    fn next(&mut self) -> Result<Next> {
        let mut packet = self.queue.pop();
        if packet.is_none() && self.ended.is_none() {
            if let Some(left) = self.pause.left(Instant::now()) {
                std::thread::sleep(left);
                return Ok(Next::Later);
            }
            self.look();
            packet = self.queue.pop();
        }
        if let Some(packet) = packet {
            return Ok(Next::Packet(packet));
        }
        match self.ended.take() {
            Some(ended) => {
                // Asked once more, it says so once more.
                self.ended = Some(Ok(()));
                ended.map(|()| Next::End)
            }
            None => Ok(Next::Later),
        }
    }

    fn counted(&mut self) -> Result<Vec<Counted>> {
        Ok(self.taps.iter().map(|remote| remote.counted).collect())
    }
}

impl Drop for Process {
    /// End the lease; a program that is gone need not be notified.
    fn drop(&mut self) {
        for remote in self.taps.iter().filter(|remote| !remote.is_over) {
            let (stack, tap) = (remote.stack, remote.tap);
            match self.contact.ask(&Question::Untap { stack, tap }) {
                Err(error) if !error.is::<Refused>() => break,
                _ => {}
            }
        }
    }
}
