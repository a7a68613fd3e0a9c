//! Mirrors in the first process: it makes the interfaces in the control namespace, keeps a
//! descriptor of each, passes another one to the worker, and gives each mirror what its port has.
//!
//! Called by: `parent.rs`. What a port has comes from the worker as a [`State`], and is checked.
//! An interface is persistent until a configuration without it, or a regular end: it outlives a
//! worker that crashed, and this process, without carrier; the next start takes it over with its
//! index. `space.rs` is the namespace, `kernel.rs` what the kernel is asked for. Addresses that
//! programs give a mirror go the other way: `programs.rs` finds them, `news.rs` reads the kernel's
//! messages about them. docs/decisions/0148-mirrors.md, 0153-addresses-of-programs.md. Limits:
//! [`MESSAGES`], [`crate::mirror::PROGRAMS_MAX`].

mod kernel;
mod news;
mod programs;
mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use device::Device;
use device::tap::Tap;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::config;
use crate::mirror::{OfProgram, State};
use crate::orders;

use super::report::{error, info, warning};
use programs::{Left, Table, Watch};
use space::Space;

/// Messages of the worker that are read in one go.
const MESSAGES: usize = 64;

/// The mirrors.
pub(super) struct Mirrors {
    /// Where the worker says what its ports are like.
    heard: OwnedFd,
    wanted: Option<config::Mirrors>,
    space: Option<Space>,
    /// What the kernel says of the namespace's interfaces and addresses.
    watch: Option<Watch>,
    /// The addresses of programs that the worker knows, by port.
    told: BTreeMap<String, Vec<OfProgram>>,
    /// Why the kernel could not be asked for them the last time.
    unread: Option<String>,
    made: BTreeMap<String, Made>,
    /// The last trouble of each port, which is said once.
    troubles: BTreeMap<String, String>,
}

/// An interface, and what it has.
struct Made {
    tap: Tap,
    state: State,
    /// What an earlier router left.
    left: Left,
}

/// The descriptor of a port's mirror, for the worker.
pub(super) type Granted = (String, OwnedFd);

impl Mirrors {
    /// None yet; the second result is the worker's end.
    pub(super) fn new() -> Result<(Mirrors, OwnedFd)> {
        let (heard, says) = orders::pair().context("cannot make a pair of sockets")?;
        let (made, troubles, told) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (wanted, space, watch, unread) = (None, None, None, None);
        Ok((Mirrors { heard, wanted, space, watch, told, unread, made, troubles }, says))
    }

    /// Readable when the worker has said something.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }

    /// Have these mirrors from now on. Those that go are removed; others are made when the worker
    /// says what their ports are like. Returns the ports whose mirrors are to be others.
    pub(super) fn set(&mut self, wanted: Option<&config::Mirrors>) -> Vec<String> {
        self.troubles.clear();
        let space_of = |of: Option<&config::Mirrors>| of.map(|mirrors| mirrors.space.clone());
        let is_other = space_of(self.wanted.as_ref()) != space_of(wanted);
        // Somebody may have removed the namespace's name, and given it to another one.
        let mut others = Vec::new();
        if is_other || self.space.as_ref().is_some_and(|space| !space.is_current()) {
            others.extend(self.made.keys().cloned());
            self.end();
            (self.space, self.watch) = (None, None);
        }
        self.wanted = wanted.cloned();
        let is_wanted = |name: &str| wanted.is_some_and(|wanted| wanted.ports.contains(name));
        for (name, made) in self.made.extract_if(.., |name, _| !is_wanted(name)) {
            info(&format!("mirror {name}: removed"));
            forget(&made.tap);
        }
        // The worker forgets them by itself.
        self.told.retain(|name, _| is_wanted(name));
        others.retain(|name| is_wanted(name));
        others
    }

    /// The mirrors go with their last descriptors, which the worker has: the router ends.
    pub(super) fn end(&mut self) {
        std::mem::take(&mut self.made).values().for_each(|made| forget(&made.tap));
    }

    /// Hear what the worker says, and do it; returns the descriptors that it lacks, and the
    /// troubles that are new.
    pub(super) fn hear(&mut self) -> (Vec<Granted>, Vec<String>) {
        let (mut granted, mut troubles) = (Vec::new(), Vec::new());
        let mut bytes = vec![0; orders::MESSAGE_MAX];
        for _ in 0..MESSAGES {
            let len = match recv(&self.heard, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((1.., len)) => len,
                Err(Errno::INTR) => continue,
                // The orders' socket tells that the worker is gone.
                _ => break,
            };
            let state =
                bytes.get(..len).and_then(|text| serde_json::from_slice::<State>(text).ok());
            let Some(state) = state else {
                error("mirrors: a message of the worker is not understood");
                break;
            };
            let name = state.port.clone();
            match self.follow(state) {
                Ok(fd) => {
                    self.troubles.remove(&name);
                    granted.extend(fd.map(|fd| (name, fd)));
                }
                Err(why) => {
                    if self.troubles.get(&name) != Some(&why) && self.is_wanted(&name) {
                        let text = format!("mirror {name}: {why}");
                        error(&text);
                        troubles.push(text);
                        self.troubles.insert(name, why);
                    }
                }
            }
        }
        (granted, troubles)
    }

    /// Have the namespace, for others than mirrors, too.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub(super) fn have_space(&mut self) -> Result<(), String> {
        if let (Some(wanted), None) = (&self.wanted, &self.space) {
            let space = Space::open(&wanted.space)?;
            let watch = space.inside(Watch::open)?;
            self.watch = watch.inspect_err(|why| warning(&format!("mirrors: {why}"))).ok();
            self.space = Some(space);
        }
        Ok(())
    }

    /// Readable when the kernel has news of interfaces or addresses.
    pub(super) fn news(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(Watch::news)
    }

    /// Has the kernel news? They are read.
    pub(super) fn has_news(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::hear)
    }

    /// Look at the addresses that programs have given the mirrors; returns those of the ports whose
    /// addresses are others than the worker knows.
    pub(super) fn look(&mut self) -> Vec<(String, Vec<OfProgram>)> {
        if self.made.is_empty() && self.told.is_empty() {
            return Vec::new();
        }
        let Some(table) = self.table() else { return Vec::new() };
        let names: BTreeSet<String> = self.made.keys().chain(self.told.keys()).cloned().collect();
        let mut changed = Vec::new();
        for name in names {
            let (found, too_many) = match self.made.get_mut(&name) {
                Some(made) => {
                    table.forget_of(&mut made.left, &name);
                    table.of_programs(&made.state, &made.left)
                }
                None => (Vec::new(), false),
            };
            if self.told.get(&name).map_or(&[][..], Vec::as_slice) == found {
                continue;
            }
            if too_many {
                let most = crate::mirror::PROGRAMS_MAX;
                let what = "have more addresses than the port takes of programs";
                warning(&format!("mirror {name}: it and interfaces above it {what}, {most}"));
            }
            self.told.insert(name.clone(), found.clone());
            changed.push((name, found));
        }
        self.told.retain(|_, addresses| !addresses.is_empty());
        changed
    }

    /// The interfaces and addresses of the namespace.
    fn table(&mut self) -> Option<Table> {
        let why = match self.watch.as_mut()?.table() {
            Ok(table) => {
                self.unread = None;
                return table;
            }
            Err(why) => why,
        };
        if self.unread.as_ref() != Some(&why) {
            warning(&format!("mirrors: addresses of programs are not read: {why}"));
            self.unread = Some(why);
        }
        None
    }

    fn is_wanted(&self, port: &str) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.ports.contains(port))
    }

    /// Make the mirror of a port like the port; returns a descriptor of it if the worker has none.
    fn follow(&mut self, state: State) -> Result<Option<OwnedFd>, String> {
        let name = state.port.clone();
        if !self.is_wanted(&name) {
            // A configuration without it has just taken effect.
            return Ok(None);
        }
        state
            .check()
            .map_err(|why| format!("the worker says of its port what cannot be: {why}"))?;
        self.have_space()?;
        // Its interface may have been deleted.
        let made = self.made.remove(&name).filter(|made| made.tap.is_attached());
        let is_new = made.is_none();
        let left = match &made {
            Some(made) => made.left.clone(),
            None => self.table().map(|table| table.left_at(&name)).unwrap_or_default(),
        };
        let space = self.space.as_ref().ok_or("there is no namespace")?;
        let (result, tap) = space.inside(|| {
            let (tap, before) = match made {
                Some(Made { tap, state, .. }) => (Ok(tap), Some(state)),
                None => (kernel::open(&name), None),
            };
            match tap {
                Ok(mut tap) => (kernel::settle(&mut tap, before.as_ref(), &state), Some(tap)),
                Err(why) => (Err(why), None),
            }
        })?;
        let fd = tap.as_ref().and_then(Device::as_fd).map(|fd| fd.try_clone_to_owned());
        // With a trouble, all of it is tried again.
        if let (Some(tap), Ok(())) = (tap, &result) {
            if is_new {
                let wanted = self.wanted.as_ref();
                wanted.iter().for_each(|w| info(&format!("mirror {name}: in {}", w.space)));
            }
            let has_device = state.has_device;
            self.made.insert(name, Made { tap, state, left });
            return match fd.filter(|_| !has_device || is_new).transpose() {
                Ok(fd) => Ok(fd),
                Err(why) => {
                    Err(format!("its descriptor cannot be passed on ({why}): raise `ulimit -n`"))
                }
            };
        }
        result.map(|()| None)
    }
}

/// Let an interface go with its last descriptor.
fn forget(tap: &Tap) {
    // Otherwise it was deleted already.
    let _ = tap.set_persistent(false);
}
