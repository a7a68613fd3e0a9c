//! The pair of routers: the states of the firewall go to the partner, and the partner's come here,
//! by a UDP socket of the router's own stack.
//!
//! Called by: the worker at each of its turns. Under the stack's lock it moves datagrams, imports a
//! bounded number of copies and takes as many ([`PairSync::turn`]); it encrypts and decrypts after
//! that ([`PairSync::work`]), while packets are forwarded. Nothing waits for a partner: what finds
//! no room is walked for later. The protocol is the crate `statesync`. docs/decisions/0151.

mod report;
#[cfg(test)]
mod tests;

use core::ops::Range;
use std::collections::VecDeque;

use base::{Duration, Instant, Owner};
use filter::Firewall;
use filter::firewall::{Copied, Copy, Imported, NotImported, Which};
use filter::states::Cursor;
use stack::{Stack, UdpError, UdpHandle, UdpOptions};
use statesync::{DATAGRAM, Event, Session, SessionId};

use crate::config::Pair;
use crate::config::setting::Stacks;
use report::Report;

/// How often the partner has its turn.
const EVERY: Duration = Duration::from_millis(20);
/// A socket that cannot be had is asked for again, and names of ports are looked at, after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Datagrams that are moved together, each way, and copies that are imported or taken together.
const DATAGRAMS: usize = 64;
const COPIES: usize = 512;
/// States that are looked at together for packets since they were copied, the time in which all
/// of them are, and its turns.
const LOOKED: usize = 4_096;
const ROUND: Duration = Duration::from_secs(2);
const TURNS: usize = 100;

/// The partner of a router.
#[derive(Default)]
pub(crate) struct PairSync {
    wanted: Option<Pair>,
    running: Option<Running>,
}

struct Running {
    settings: Pair,
    session: Session,
    /// On the first stack, or why there is none.
    socket: Result<UdpHandle, UdpError>,
    socket_at: Instant,
    ports_at: Instant,
    now: Instant,
    /// Datagrams that have come, and those that are to leave.
    came: Vec<Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
    /// What the partner has said.
    events: VecDeque<Event>,
    /// Copies for the partner.
    taken: Vec<Copy>,
    /// Where the walk through all states is, and whether it has just ended.
    all: Option<Cursor>,
    all_ended: bool,
    /// Where the walk is for states with packets.
    changed: Cursor,
    /// When that walk has begun, and when it begins again.
    round_begun: Instant,
    round_at: Instant,
    /// States that the partner has no more.
    sweep: Option<(Range<u64>, Cursor)>,
    report: Report,
}

impl PairSync {
    /// Have this partner from the next turn on; `None`: none.
    pub(crate) fn set(&mut self, wanted: Option<Pair>) {
        self.wanted = wanted;
    }

    /// Move datagrams and copies; `ports` has the number and the name of each port. Returns when to
    /// call again.
    pub(crate) fn turn<'a>(
        &mut self,
        stacks: Stacks<'_, '_>,
        ports: impl Iterator<Item = (u16, &'a str)>,
    ) -> Instant {
        let Some(stack) = stacks.first_mut() else { return Instant::NEVER };
        if self.running.as_ref().map(|running| &running.settings) != self.wanted.as_ref() {
            if let Some(running) = self.running.take() {
                running.end(stack);
            }
            let now = stack.now();
            self.running = match &self.wanted {
                None => None,
                Some(settings) => match Running::new(settings.clone(), now) {
                    Some(running) => Some(running),
                    // The system has no random numbers yet.
                    None => return now + AGAIN,
                },
            };
        }
        let Some(running) = &mut self.running else { return Instant::NEVER };
        running.turn(stack, ports);
        running.now + EVERY
    }

    /// Read what has come and write what leaves. `true`: the next turn is due at once.
    pub(crate) fn work(&mut self) -> bool {
        self.running.as_mut().is_some_and(Running::work)
    }
}

impl Running {
    fn new(settings: Pair, now: Instant) -> Option<Running> {
        let session = Session::new(&settings.key, random()?, DATAGRAM, now);
        Some(Running {
            settings,
            session,
            socket: Err(UdpError::Closed),
            socket_at: now,
            ports_at: now,
            now,
            came: Vec::new(),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            taken: Vec::new(),
            all: None,
            all_ended: false,
            changed: Cursor::default(),
            round_begun: now,
            round_at: now,
            sweep: None,
            report: Report::new(now),
        })
    }

    /// The states stay, and are this router's alone.
    fn end(self, stack: &mut Stack) {
        if let Ok(socket) = self.socket {
            stack.udp_close(socket);
        }
        let budget = stack.budget().clone();
        if let Some(firewall) = stack.filter_mut() {
            firewall.copy(false, &budget);
            firewall.note_paired(None);
        }
    }

    fn turn<'a>(&mut self, stack: &mut Stack, ports: impl Iterator<Item = (u16, &'a str)>) {
        self.now = stack.now();
        if self.now >= self.ports_at {
            self.ports_at = self.now + AGAIN;
            let ports: Vec<(u16, String)> =
                ports.map(|(number, name)| (number, name.to_owned())).collect();
            self.session.set_ports(&ports);
        }
        self.open(stack);
        self.begin(stack);
        self.import(stack);
        self.take(stack);
        self.send(stack);
        self.hear(stack);
        let paired = self.report.due(&self.settings, &self.session, self.socket.err(), self.now);
        if let (Some(paired), Some(firewall)) = (paired, stack.filter_mut()) {
            firewall.note_paired(Some(paired));
        }
    }

    fn open(&mut self, stack: &mut Stack) {
        if self.socket.is_ok() || self.now < self.socket_at {
            return;
        }
        self.socket_at = self.now + AGAIN;
        let (near, far) = (self.settings.near(), self.settings.far());
        self.socket = stack.udp_bind_connected(near, far, Owner::program());
        if let Ok(socket) = self.socket {
            // A datagram that is larger than the path's MTU leaves in fragments.
            let _ = stack.udp_set_options(socket, UdpOptions::default());
        }
    }

    /// A firewall that notes no changes is a new one, whose states are gone.
    fn begin(&mut self, stack: &mut Stack) {
        let budget = stack.budget().clone();
        if let Some(firewall) = stack.filter_mut().filter(|firewall| !firewall.copies()) {
            firewall.copy(true, &budget);
            self.session.send_all();
            self.session.ask_for_all();
        }
    }

    /// Import what the partner has said, in order.
    fn import(&mut self, stack: &mut Stack) {
        for _ in 0..COPIES {
            // States that are swept are those of before.
            if self.sweep.is_some() {
                break;
            }
            let Some(event) = self.events.pop_front() else { break };
            match event {
                Event::State(copied, version) => {
                    let imported = stack.import_state(&copied, version);
                    self.report.imported(imported);
                }
                Event::Ended(tuple, version) => {
                    let now = self.now;
                    stack.filter_mut().map(|firewall| firewall.end_copy(&tuple, version, now));
                }
                Event::AllNamed(versions) => self.sweep = Some((versions, Cursor::default())),
            }
        }
        if let Some((versions, at)) = self.sweep.take()
            && let Some(firewall) = stack.filter_mut()
        {
            let next = firewall.sweep_copies(at, LOOKED, &versions, self.now);
            self.sweep = next.map(|next| (versions, next));
        }
    }

    /// Take changes, then walk: through all states if the partner has none, else for those that
    /// have had packets.
    fn take(&mut self, stack: &mut Stack) {
        let Some(firewall) = stack.filter_mut() else { return };
        if firewall.take_incomplete() {
            self.session.send_all();
        }
        let (session, taken, now) = (&mut self.session, &mut self.taken, self.now);
        let room = session.room().min(COPIES);
        if room == 0 {
            return;
        }
        if session.wants_all() {
            session.begin_all(now);
            (self.all, self.changed) = (Some(Cursor::default()), Cursor::default());
        }
        firewall.take_copies(room, now, |copy| taken.push(copy));
        // Each state that is looked at may be a copy.
        let left = room - taken.len().min(room);
        let each = |copied: Copied| taken.push(Copy::State(copied));
        if let Some(at) = self.all {
            let which = Which::AllBut(session.first_version());
            self.all = firewall.walk_copies(at, left, which, now, each);
            self.all_ended = self.all.is_none();
        } else if now >= self.round_at {
            if self.changed == Cursor::default() {
                self.round_begun = now;
            }
            let looked = looked(firewall).min(LOOKED).min(left.max(1) * 8);
            let mut found = Vec::new();
            let next = firewall.walk_copies(self.changed, looked, Which::Changed, now, |copied| {
                found.push(Copy::State(copied));
            });
            taken.append(&mut found);
            self.changed = next.unwrap_or_default();
            if next.is_none() {
                self.round_at = self.round_begun + ROUND;
            }
        }
    }

    fn send(&mut self, stack: &mut Stack) {
        let Ok(socket) = self.socket else {
            self.ready.clear();
            return;
        };
        for _ in 0..DATAGRAMS {
            let Some(datagram) = self.ready.front() else { break };
            match stack.udp_send(socket, self.settings.far(), datagram, self.now) {
                Err(UdpError::WouldBlock) => break,
                Err(UdpError::Closed) => {
                    self.socket = Err(UdpError::Closed);
                    break;
                }
                // The partner asks for what it misses.
                _ => drop(self.ready.pop_front()),
            }
        }
        stack.flush();
    }

    fn hear(&mut self, stack: &mut Stack) {
        let Ok(socket) = self.socket else { return };
        // An address that has gone takes its sockets along.
        if stack.udp_local(socket).is_none() {
            self.socket = Err(UdpError::Closed);
            return;
        }
        for _ in 0..DATAGRAMS {
            if self.events.len() >= 2 * COPIES {
                break;
            }
            let Some(datagram) = stack.udp_receive(socket) else { break };
            self.came.push(datagram.payload.as_slice().to_vec());
            stack.give_back(datagram.payload);
        }
    }

    fn work(&mut self) -> bool {
        let (session, now, events) = (&mut self.session, self.now, &mut self.events);
        for datagram in self.came.drain(..) {
            session.receive(&datagram, now, |event| events.push_back(event));
        }
        for copy in self.taken.drain(..) {
            session.push(&copy, now);
        }
        if core::mem::take(&mut self.all_ended) {
            session.end_all(now);
        }
        while self.ready.len() < DATAGRAMS
            && let Some(datagram) = session.next_datagram(now)
        {
            self.ready.push_back(datagram);
        }
        !self.ready.is_empty() && self.socket.is_ok() || !events.is_empty()
    }
}

/// States that are looked at in a turn, so that all of them are within two seconds.
fn looked(firewall: &Firewall) -> usize {
    firewall.states().len() / TURNS + 16
}

/// The number of a session. Nonces begin with it, so there is no session without one.
fn random() -> Option<SessionId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok().map(|()| SessionId(bytes))
}

impl Report {
    fn imported(&mut self, imported: Result<Imported, NotImported>) {
        match imported {
            Ok(Imported::New) => self.imported += 1,
            Ok(Imported::Updated) => self.updated += 1,
            Err(why) => self.refuse(why),
        }
    }
}
