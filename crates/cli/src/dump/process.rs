//! Packets that pass the ports of a running wirespeed, asked for at its control socket.
//!
//! Called by: `dump.rs`, unless a file or an interface is named. Must not know: how the other
//! program watches. The filter is compiled here, and looked at and run there; what comes over are
//! the packets that matched.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bpf::{Insn, records};
use wirespeed::LinkKind;
use wirespeed::control::{Client, ControlError};

use super::packet::{Direction, Packet};
use super::write::{Counted, Port};
use super::{Next, Source};
use crate::running::{Kept, Question, Refusal, Refused, Section, TIMEOUT, ask, find};

/// Time between two questions, when nothing came.
const PAUSE: Duration = Duration::from_millis(10);

/// Questions in a row without an answer, after which it is given up.
const TRIES: u32 = 3;

/// A tap in the other program.
struct Remote {
    stack: usize,
    number: u16,
    insns: Vec<(u16, u8, u8, u32)>,
    tap: u64,
    port: Port,
    /// Of this tap, and of those before it that lapsed.
    counted: Counted,
    before: Counted,
    /// Its stack has ended.
    is_over: bool,
}

/// A running program.
pub(crate) struct Process {
    path: PathBuf,
    client: Client,
    snaplen: u32,
    taps: Vec<Remote>,
    waiting: VecDeque<Packet>,
    failures: u32,
}

impl Process {
    /// Watch every port of every stack of a program; `make` compiles the filter.
    pub(crate) fn attach(
        socket: Option<&Path>,
        pid: Option<u32>,
        snaplen: u32,
        make: impl Fn(LinkKind) -> Result<Vec<Insn>>,
    ) -> Result<Process> {
        let path = find(socket, pid)?;
        let mut client = Client::connect(&path, TIMEOUT)?;
        let program = ask(&mut client, &Question::Program)?.program;
        let program = program.context("the program does not say what it is")?;
        let (taps, waiting) = (Vec::new(), VecDeque::new());
        // From here on what was added is removed, should anything fail.
        let mut process = Process { path, client, snaplen, taps, waiting, failures: 0 };
        for (stack, name) in program.stacks.iter().enumerate() {
            let page = Question::Section { stack, section: Section::Ports, cursor: 0 };
            let ports = ask(&mut process.client, &page)?.body;
            for port in ports.as_array().into_iter().flatten() {
                let link = match port["link"].as_str() {
                    Some("ip") => LinkKind::Ip,
                    _ => LinkKind::Ethernet,
                };
                let number = port["port"].as_u64().and_then(|n| u16::try_from(n).ok());
                let number = number.context("a port without a number")?;
                let mut remote = Remote {
                    stack,
                    number,
                    insns: make(link)?.iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect(),
                    tap: 0,
                    port: Port { name: format!("{name}:{number}"), link },
                    counted: Counted::default(),
                    before: Counted::default(),
                    is_over: false,
                };
                remote.add(&mut process.client, snaplen)?;
                process.taps.push(remote);
            }
        }
        Ok(process)
    }

    /// What all taps have kept, in the order of time; also what came before something failed.
    fn fetch(&mut self) -> Result<()> {
        let (mut fetched, mut result) = (Vec::new(), Ok(()));
        for (number, remote) in self.taps.iter_mut().enumerate() {
            if remote.is_over {
                continue;
            }
            let Err(error) = remote.fetch(&mut self.client, number, &mut fetched) else { continue };
            let refusal = error.downcast_ref::<Refused>().map(|refused| refused.refusal);
            let renewed = match refusal {
                Some(Refusal::Gone) => {
                    remote.is_over = true;
                    Ok(())
                }
                // Its packets wait for the next time.
                Some(Refusal::Busy) => Ok(()),
                // Nobody asked for so long that it was removed, say because we were stopped.
                Some(Refusal::Lapsed) => remote.add(&mut self.client, self.snaplen),
                Some(Refusal::Wrong) | None => Err(error),
            };
            if renewed.is_err() {
                result = renewed;
                break;
            }
        }
        fetched.sort_by_key(|packet: &Packet| packet.time_ns);
        self.waiting.extend(fetched);
        result
    }

    /// Connect once more, after a failure. False if the program has ended.
    fn reconnect(&mut self) -> Result<bool> {
        match Client::connect(&self.path, TIMEOUT) {
            Ok(client) => {
                self.client = client;
                Ok(true)
            }
            Err(ControlError::Missing { .. } | ControlError::Dead { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Remote {
    /// Have the program watch the port.
    fn add(&mut self, client: &mut Client, snaplen: u32) -> Result<()> {
        let (stack, port, insns) = (self.stack, self.number, self.insns.clone());
        let tap = ask(client, &Question::Tap { stack, port, insns, snaplen })?.body["tap"].as_u64();
        self.tap = tap.context("the program gives no number for the tap")?;
        self.before = self.counted;
        Ok(())
    }

    /// What it has kept.
    fn fetch(&mut self, client: &mut Client, number: usize, into: &mut Vec<Packet>) -> Result<()> {
        let body = ask(client, &Question::Kept { stack: self.stack, tap: self.tap })?.body;
        let kept: Kept = serde_json::from_value(body).context("an answer of another kind")?;
        self.counted = Counted {
            seen: self.before.seen + kept.seen,
            matched: self.before.matched + kept.matched,
            dropped: self.before.dropped + kept.dropped,
        };
        let bytes = STANDARD.decode(kept.records).context("packets that are no base64")?;
        into.extend(records(&bytes).map(|record| Packet {
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
        }));
        Ok(())
    }
}

impl Source for Process {
    fn ports(&self) -> Vec<Port> {
        self.taps.iter().map(|remote| remote.port.clone()).collect()
    }

    fn next(&mut self) -> Result<Next> {
        if self.waiting.is_empty() {
            match self.fetch() {
                Ok(()) => self.failures = 0,
                // First what came.
                Err(_) if !self.waiting.is_empty() => {}
                Err(error) => {
                    self.failures += 1;
                    if !self.reconnect()? {
                        return Ok(Next::End);
                    }
                    if self.failures >= TRIES {
                        return Err(error);
                    }
                }
            }
        }
        match self.waiting.pop_front() {
            Some(packet) => Ok(Next::Packet(packet)),
            None if self.taps.iter().all(|remote| remote.is_over) => Ok(Next::End),
            None => {
                std::thread::sleep(PAUSE);
                Ok(Next::Later)
            }
        }
    }

    fn counted(&mut self) -> Result<Vec<Counted>> {
        Ok(self.taps.iter().map(|remote| remote.counted).collect())
    }
}

impl Drop for Process {
    /// Nobody watches any more; a program that is gone need not be told.
    fn drop(&mut self) {
        for remote in self.taps.iter().filter(|remote| !remote.is_over) {
            let (stack, tap) = (remote.stack, remote.tap);
            if ask(&mut self.client, &Question::Untap { stack, tap }).is_err() {
                break;
            }
        }
    }
}
