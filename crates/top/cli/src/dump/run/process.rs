//! Packets at the ports of a running wirespeed, requested over its control socket.
//!
//! Called by: `run.rs`, unless a file or an interface is named. The filter is compiled here; the
//! other program validates and runs it, and sends only the packets that matched.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Error, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bpf::{Insn, records};
use wirespeed::control::protocol::{self, Kept, Question, Refusal, Section};
use wirespeed::{Cidr, LinkKind};

use super::pause::Pause;
use super::queue::Queue;
use super::source::{Direction, Next, Packet, Source};
use super::write::{Counted, Port};
use crate::clock::now_ns;
use crate::running::{Contact, Refused, has_ended, typed};
use crate::{Usage, output};

/// Failed requests in a row, each after the time that an answer may take, before giving up.
const TRIES: u32 = 6;

/// A tap in the other program.
struct Remote {
    stack: usize,
    number: u16,
    insns: Vec<(u16, u8, u8, u32)>,
    tap: u64,
    port: Port,
    /// Packets received from this tap.
    received: u64,
    /// Counts of this tap and of the lapsed taps before it; then of the lapsed taps alone.
    counted: Counted,
    before: Counted,
    /// All packets before this time have been received; nanoseconds since 1970.
    known_ns: u64,
    /// Its stack has ended.
    is_over: bool,
}

/// A running program and the taps in it.
pub(crate) struct Process {
    contact: Contact,
    snaplen: u32,
    taps: Vec<Remote>,
    queue: Queue,
    pause: Pause,
    failures: u32,
    /// `Some` if no more packets will come, with the reason.
    ended: Option<Result<()>>,
}

impl Process {
    /// Tap the port `only`, or all ports of all stacks, of the program at a control socket; `make`
    /// compiles the filter.
    pub(crate) fn attach(
        socket: PathBuf,
        only: Option<&str>,
        snaplen: u32,
        make: impl Fn(LinkKind, Option<u32>) -> Result<Vec<Insn>>,
    ) -> Result<Process> {
        let mut contact = Contact::open(socket)?;
        let program = contact.ask(&Question::Program)?.program;
        let program = program.context("the program does not say what it is")?;
        // Made now, so that its drop removes the taps if anything fails.
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
            let ports: Vec<protocol::Port> = typed(process.contact.ask(&page)?.body)?;
            for port in &ports {
                let link = match &*port.link {
                    "ip" => LinkKind::Ip,
                    _ => LinkKind::Ethernet,
                };
                let number = port.port;
                let name = format!("{name}:{number}");
                let label = label(&port.name, &name);
                if only.is_some_and(|only| only != name && only != label) {
                    others.push(name);
                    continue;
                }
                let mut remote = Remote {
                    stack,
                    number,
                    insns: make(link, netmask(&port.addresses))?
                        .iter()
                        .map(|i| (i.code, i.jt, i.jf, i.k))
                        .collect(),
                    tap: 0,
                    port: Port { name, label, link: link.into() },
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

    /// Collect the packets of all taps and release those that no tap can precede; after an error,
    /// those collected before it.
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

    /// Collect packets, and check whether that was the last time.
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

/// The name of a port in lines: the name that the program gave it, such as that of its interface,
/// else the stack's name with the port's number.
fn label(given: &str, name: &str) -> String {
    let is_number = given.strip_prefix("port").is_some_and(|rest| rest.parse::<u16>().is_ok());
    if given.is_empty() || is_number { name.to_owned() } else { given.to_owned() }
}

/// The netmask of a port's first IPv4 network.
fn netmask(addresses: &[String]) -> Option<u32> {
    let nets = addresses.iter().filter_map(|net| net.parse::<Cidr>().ok());
    let mut prefixes = nets.filter(|net| net.addr.is_ipv4() && net.prefix_len > 0);
    prefixes.next().map(|net| u32::from(net.prefix_len)).map(|prefix| u32::MAX << (32 - prefix))
}

impl Remote {
    /// Add the tap.
    fn add(&mut self, contact: &mut Contact, snaplen: u32) -> Result<()> {
        let (stack, port, insns) = (self.stack, self.number, self.insns.clone());
        let answer = contact.ask(&Question::Tap { stack, port, insns, snaplen })?;
        self.tap = typed::<protocol::Tapped>(answer.body)?.tap;
        (self.before, self.received) = (self.counted, 0);
        // All packets of the previous tap have been received.
        self.known_ns = now_ns();
        Ok(())
    }

    /// Collect the tap's packets; returns the time of the last one.
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
        // If the tap is empty, packets that matched but were not received were in a lost answer.
        let missing = kept.matched.saturating_sub(self.received);
        let dropped = if bytes.is_empty() { kept.dropped.max(missing) } else { kept.dropped };
        self.counted = Counted {
            seen: self.before.seen + kept.seen,
            matched: self.before.matched + kept.matched,
            dropped: self.before.dropped + dropped,
        };
        Ok(last_ns)
    }

    /// Handle the refusal of a request.
    fn answer_to(&mut self, error: Error, contact: &mut Contact, snaplen: u32) -> Result<()> {
        match error.downcast_ref::<Refused>().map(|refused| refused.refusal) {
            Some(Refusal::Gone) => self.is_over = true,
            // The tap keeps its packets until the next request.
            Some(Refusal::Busy) => {}
            // The lease expired, for instance because this process was stopped.
            Some(Refusal::Lapsed) => {
                output::err(&format!(
                    "{}: nobody asked for its packets for 10 s, so that it was not watched any \
                     more; packets of that time are missing",
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
            Some(
                Refusal::Wrong
                | Refusal::Full
                | Refusal::Exists
                | Refusal::Missing
                | Refusal::Denied
                | Refusal::Unreachable,
            )
            | None => return Err(error),
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
                // The next call returns the end.
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
    /// Remove the taps, unless the program is gone.
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
