//! Asks the running program: rows of its stack, changes, lookups.
//!
//! Called by: the objects.

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use wirespeed::control::Client;

use super::args::Args;
use super::words::usage;
use crate::running::{TIMEOUT, ask, find, section, typed};
use wirespeed::control::protocol::{
    CHANGES_MAX, Change, Found, Lookup, Port, Question, Section, Verb,
};

/// A stack of a running program.
pub(super) struct Asked {
    client: Client,
    stack: usize,
    pub(super) ports: Vec<Port>,
}

impl Asked {
    /// Connect to the program, and find the stack.
    pub(super) fn open(args: &Args) -> Result<Asked> {
        let path = find(args.socket.as_deref(), args.pid)?;
        let mut client = Client::connect(&path, TIMEOUT)?;
        let program = ask(&mut client, &Question::Program)?.program;
        let program = program.context("the program does not say what it is")?;
        let names = program.stacks;
        let stack = match (&args.stack, names.as_slice()) {
            (Some(name), _) => names.iter().position(|n| n == name),
            (None, [_]) => Some(0),
            // A change at one shard holds for all.
            (None, [_, ..]) if program.shards => Some(0),
            (None, _) => None,
        };
        let Some(stack) = stack else {
            return usage(&format!("choose a stack by -n, of {}", names.join(", ")));
        };
        let mut asked = Asked { client, stack, ports: Vec::new() };
        asked.ports = asked.rows(Section::Ports)?;
        Ok(asked)
    }

    /// The rows of a section.
    pub(super) fn rows<T: DeserializeOwned>(&mut self, wanted: Section) -> Result<Vec<T>> {
        section(&mut self.client, self.stack, wanted)
    }

    /// The number of a port.
    pub(super) fn port(&self, name: &str) -> Result<u16> {
        match self.ports.iter().find(|port| port.name == name) {
            Some(port) => Ok(port.port),
            None => usage(&format!("cannot find device \"{name}\": `wirespeed ip link` has them")),
        }
    }

    /// The table of a VRF.
    pub(super) fn vrf(&self, name: &str) -> Result<u32> {
        super::vrf::table(&self.ports, name)
    }

    /// Carry out changes.
    pub(super) fn change(&mut self, changes: &[Change]) -> Result<()> {
        for some in changes.chunks(CHANGES_MAX) {
            let question = Question::Change { stack: self.stack, changes: some.to_vec() };
            ask(&mut self.client, &question)?;
        }
        Ok(())
    }

    /// Look up a packet in the FIB.
    pub(super) fn lookup(&mut self, lookup: Lookup) -> Result<Found> {
        let question = Question::Lookup { stack: self.stack, lookup };
        typed(ask(&mut self.client, &question)?.body)
    }
}

/// The verb of a command that changes something.
pub(super) fn verb(command: &str) -> Option<Verb> {
    Some(match command {
        "add" => Verb::Add,
        "replace" => Verb::Replace,
        "change" | "chg" => Verb::Change,
        "delete" => Verb::Del,
        _ => return None,
    })
}
