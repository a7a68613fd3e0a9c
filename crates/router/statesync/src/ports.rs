//! Ports by name: the two routers give their ports other numbers, so a state has the place of its
//! port in its sender's list of names.
//!
//! Called by: `session.rs`. A list has a generation. It is sent in parts until the partner says
//! that it has all of them, and states of a generation are sent after that. Bound: [`NAMES_MAX`].

use std::collections::BTreeMap;

use crate::codec::Reader;
use crate::counts::Refused;

/// Ports of a router, at most; their numbers have 16 bits.
const NAMES_MAX: usize = 4_096;

/// Our ports.
#[derive(Default)]
pub(crate) struct Own {
    /// Number and name, in the order of places.
    ports: Vec<(u16, String)>,
    places: BTreeMap<u16, u16>,
    pub(crate) generation: u32,
}

impl Own {
    /// Set the ports; `true`: they have changed.
    pub(crate) fn set(&mut self, ports: &[(u16, String)]) -> bool {
        let is_fit = |(_, name): &&(u16, String)| name.len() <= usize::from(u8::MAX);
        let ports = || ports.iter().filter(is_fit).take(NAMES_MAX);
        if self.generation != 0 && ports().eq(&self.ports) {
            return false;
        }
        self.ports = ports().cloned().collect();
        let numbers = self.ports.iter().map(|(number, _)| *number);
        self.places = numbers.zip(0..).collect();
        // 0 is that of no list.
        self.generation = self.generation.wrapping_add(1).max(1);
        true
    }

    pub(crate) fn place(&self, number: u16) -> Option<u16> {
        self.places.get(&number).copied()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u16> {
        self.ports.iter().find(|(_, own)| own == name).map(|(number, _)| *number)
    }

    /// The list as bodies of up to `most` bytes.
    pub(crate) fn bodies(&self, most: usize) -> Vec<Vec<u8>> {
        let head = |first: usize| {
            let mut body = self.generation.to_be_bytes().to_vec();
            body.extend((self.ports.len() as u16).to_be_bytes());
            body.extend((first as u16).to_be_bytes());
            body
        };
        let mut all = vec![head(0)];
        for (place, (_, name)) in self.ports.iter().enumerate() {
            if all.last().is_some_and(|body| body.len() + 1 + name.len() > most) {
                all.push(head(place));
            }
            if let Some(body) = all.last_mut() {
                body.push(name.len() as u8);
                body.extend(name.as_bytes());
            }
        }
        all
    }
}

/// The partner's ports.
#[derive(Default)]
pub(crate) struct Theirs {
    /// The generation that is whole; 0 for none.
    pub(crate) generation: u32,
    names: Vec<String>,
    coming: Option<(u32, Vec<Option<String>>)>,
}

impl Theirs {
    /// Take a part of a list.
    pub(crate) fn take(&mut self, body: &[u8]) -> Result<(), Refused> {
        let mut from = Reader(body);
        let generation = from.word()?;
        let (count, first) = (usize::from(from.short()?), usize::from(from.short()?));
        if count > NAMES_MAX || generation == 0 {
            return Err(Refused::Malformed);
        }
        if generation == self.generation {
            return Ok(());
        }
        let before = self.coming.take();
        let before = before.filter(|(of, names)| *of == generation && names.len() == count);
        let (_, mut names) = before.unwrap_or_else(|| (generation, vec![None; count]));
        let mut place = first;
        while !from.is_empty() {
            let name = from.text()?.to_owned();
            *names.get_mut(place).ok_or(Refused::Malformed)? = Some(name);
            place += 1;
        }
        if names.iter().all(Option::is_some) {
            self.names = names.into_iter().flatten().collect();
            self.generation = generation;
        } else {
            self.coming = Some((generation, names));
        }
        Ok(())
    }

    pub(crate) fn name(&self, place: u16) -> Option<&str> {
        self.names.get(usize::from(place)).map(String::as_str)
    }
}
