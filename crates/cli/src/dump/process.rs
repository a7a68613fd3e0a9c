//! Packets that pass the ports of a running wirespeed, asked for at its control socket.
//!
//! Called by: `dump.rs`, unless a file or an interface is named. Must not know: how the other
//! program watches. The filter is compiled here, and looked at and run there; what comes over are
//! the packets that matched.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bpf::{Insn, records};
use wirespeed::LinkKind;
use wirespeed::control::Client;

use super::packet::{Direction, Packet};
use super::write::{Counted, Port};
use super::{Next, Source};
use crate::running::{Kept, Question, Section, TIMEOUT, ask, find};

/// Time between two questions, when nothing came.
const PAUSE: Duration = Duration::from_millis(50);

/// A tap in the other program.
struct Remote {
    stack: usize,
    tap: u64,
    port: Port,
    counted: Counted,
}

/// A running program.
pub(crate) struct Process {
    client: Client,
    taps: Vec<Remote>,
    waiting: VecDeque<Packet>,
}

impl Process {
    /// Watch every port of every stack of a program; `make` compiles the filter.
    pub(crate) fn attach(
        socket: Option<&Path>,
        pid: Option<u32>,
        snaplen: u32,
        make: impl Fn(LinkKind) -> Result<Vec<Insn>>,
    ) -> Result<Process> {
        let mut client = Client::connect(&find(socket, pid)?, TIMEOUT)?;
        let program = ask(&mut client, &Question::Program)?.program;
        let program = program.context("the program does not say what it is")?;
        let mut taps = Vec::new();
        for (stack, name) in program.stacks.iter().enumerate() {
            let page = Question::Section { stack, section: Section::Ports, cursor: 0 };
            let ports = ask(&mut client, &page)?.body;
            for port in ports.as_array().into_iter().flatten() {
                let link = match port["link"].as_str() {
                    Some("ip") => LinkKind::Ip,
                    _ => LinkKind::Ethernet,
                };
                let number = port["port"].as_u64().and_then(|n| u16::try_from(n).ok());
                let number = number.context("a port without a number")?;
                let insns = make(link)?.iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect();
                let question = Question::Tap { stack, port: number, insns, snaplen };
                let tap = ask(&mut client, &question)?.body["tap"].as_u64();
                taps.push(Remote {
                    stack,
                    tap: tap.context("the program gives no number for the tap")?,
                    port: Port { name: format!("{name}:{number}"), link },
                    counted: Counted::default(),
                });
            }
        }
        Ok(Process { client, taps, waiting: VecDeque::new() })
    }

    /// What all taps have kept, in the order of time.
    fn fetch(&mut self) -> Result<()> {
        let mut fetched = Vec::new();
        for (number, remote) in self.taps.iter_mut().enumerate() {
            let question = Question::Kept { stack: remote.stack, tap: remote.tap };
            let body = ask(&mut self.client, &question)?.body;
            let kept: Kept = serde_json::from_value(body).context("an answer of another kind")?;
            let Kept { records: text, seen, matched, dropped } = kept;
            remote.counted = Counted { seen, matched, dropped };
            let bytes = STANDARD.decode(text).context("packets that are no base64")?;
            fetched.extend(records(&bytes).map(|record| Packet {
                time_ns: record.time.0,
                link: remote.port.link,
                port: number,
                direction: Some(match record.direction {
                    bpf::Direction::In => Direction::In,
                    bpf::Direction::Out => Direction::Out,
                }),
                wire_len: record.wire_len,
                segment_bytes: record.segment_bytes,
                bytes: record.bytes.to_vec(),
            }));
        }
        fetched.sort_by_key(|packet| packet.time_ns);
        self.waiting.extend(fetched);
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
                Ok(()) => {}
                // It has ended; what it sent before was shown.
                Err(_) if self.is_gone() => return Ok(Next::End),
                Err(error) => return Err(error),
            }
        }
        match self.waiting.pop_front() {
            Some(packet) => Ok(Next::Packet(packet)),
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

impl Process {
    /// Does the program answer no more?
    fn is_gone(&mut self) -> bool {
        ask(&mut self.client, &Question::Program).is_err()
    }
}

impl Drop for Process {
    /// Nobody watches any more; a program that is gone need not be told.
    fn drop(&mut self) {
        for remote in &self.taps {
            let _ =
                ask(&mut self.client, &Question::Untap { stack: remote.stack, tap: remote.tap });
        }
    }
}
