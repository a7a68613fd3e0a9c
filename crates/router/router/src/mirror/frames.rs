//! Passes frames between the stacks and the mirrors of their ports.
//!
//! Called by: the worker's engine, once a turn: [`Mirrors::read`] before the stacks are locked,
//! [`Mirrors::exchange`] while they are, [`Mirrors::write`] afterwards, so that no packet waits for
//! a system call. A turn takes [`FRAMES`] frames of each mirror, and [`PUNTED`] punted ones.
//! Programs that send more than [`RATE`] frames a second wait in the kernel's queue of their
//! mirror, which drops what it has no room for. Counters: `counts.rs`.
//!
//! Frames have a virtio header in front, for checksums that the kernel at the other end of a port
//! left unfinished, and for its super-segments. The kernel never leaves us such work.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant as Monotone;

use base::{DropReason, Duration, Instant, LinkKind};
use device::vnet;
use rustix::io::{Errno, read, write};
use stack::{PortId, PuntClass, PuntConfig, Stack};

use super::OfProgram;
use super::counts::{Counts, Loss};
use super::programs::Programs;
use super::say::{Said, state};
use crate::applied::{Applied, AppliedPort};
use crate::config;
use crate::daemon::report::{info, warning};

/// Frames that are read of a mirror in one turn.
const FRAMES: usize = 64;
/// Punted frames that are written in one turn.
const PUNTED: usize = 64;
/// Frames a second that programs may send by one mirror, and how many at once.
const RATE: u32 = 50_000;
const AT_ONCE: u32 = 1_024;
/// The time after which a mirror whose frames wait for [`RATE`] is read again.
const REST: Duration = Duration::from_millis(5);
/// While more packets come for programs than may be punted, a turn of few frames costs more than
/// the frames, and the time is that of forwarding: after it frames wait for others, unless one was
/// of a routing protocol.
const FEW: usize = 16;
const GATHER: Duration = Duration::from_millis(5);
/// The longest frame of a TAP: its largest MTU, an Ethernet header, two tags, and our header.
const FRAME_MAX: usize = vnet::LEN + 65_535 + 14 + 8;

/// The mirrors of the worker.
#[derive(Default)]
pub(crate) struct Mirrors {
    /// Where the first process hears of our ports.
    listener: Option<OwnedFd>,
    wanted: Option<config::Mirrors>,
    /// The stacks do not have [`Mirrors::wanted`] yet.
    is_new: bool,
    all: BTreeMap<String, Mirror>,
    /// Frames of programs for the stack, with their ports.
    sent: Frames<PortId>,
    /// Frames for programs, with the ports' names.
    punted: Frames<String>,
    room: Vec<u8>,
    /// Packets beyond the rate so far, and until when frames wait for others.
    beyond: u64,
    gathers_until: Instant,
}

/// A mirror of a port.
#[derive(Default)]
struct Mirror {
    device: Option<OwnedFd>,
    /// The port for which the stacks punt.
    port: Option<PortId>,
    said: Said,
    /// Addresses that programs gave it.
    programs: Programs,
    allowance: Allowance,
    is_down: bool,
    counts: Counts,
}

/// Frames one after the other.
struct Frames<T> {
    bytes: Vec<u8>,
    /// Whose each frame is, and where it ends.
    ends: Vec<(T, usize)>,
}

impl<T> Default for Frames<T> {
    fn default() -> Frames<T> {
        Frames { bytes: Vec::new(), ends: Vec::new() }
    }
}

impl<T> Frames<T> {
    fn close(&mut self, of: T) {
        self.ends.push((of, self.bytes.len()));
    }

    fn for_each(&mut self, mut each: impl FnMut(T, &[u8])) {
        let mut from = 0;
        for (of, end) in self.ends.drain(..) {
            each(of, self.bytes.get(from..end).unwrap_or_default());
            from = end;
        }
        self.bytes.clear();
    }
}

/// A token bucket of frames.
struct Allowance {
    frames: u32,
    at: Monotone,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { frames: AT_ONCE, at: Monotone::now() }
    }
}

impl Allowance {
    /// How many frames may be read now, `most` at most.
    fn of(&mut self, now: Monotone, most: usize) -> usize {
        let earned =
            now.saturating_duration_since(self.at).as_micros() * u128::from(RATE) / 1_000_000;
        if earned > 0 {
            self.frames =
                AT_ONCE.min(u32::try_from(earned).unwrap_or(AT_ONCE).saturating_add(self.frames));
            self.at = now;
        }
        most.min(self.frames as usize)
    }
}

/// Do frames wait for others after a turn with so many, in a flood or not?
fn gathers_after(frames: usize, is_flood: bool, is_urgent: bool) -> bool {
    is_flood && (1..FEW).contains(&frames) && !is_urgent
}

impl Mirrors {
    /// The first process hears of ports at this socket.
    pub(crate) fn heard_at(&mut self, listener: OwnedFd) {
        self.listener = Some(listener);
    }

    /// Have these mirrors from now on.
    pub(crate) fn set(&mut self, wanted: Option<&config::Mirrors>) {
        if self.wanted.as_ref() != wanted {
            self.wanted = wanted.cloned();
            self.is_new = true;
        }
    }

    /// A port has this mirror from now on, or none until the first process has another one.
    pub(crate) fn has(&mut self, port: &str, device: Option<OwnedFd>) {
        if let Some(mirror) = self.all.get_mut(port) {
            mirror.device = device;
            mirror.is_down = false;
        }
    }

    /// Programs have given a mirror these addresses, and no others.
    pub(crate) fn has_addresses(&mut self, port: &str, addresses: &[OfProgram]) {
        if let Some(mirror) = self.all.get_mut(port) {
            mirror.programs.set(addresses);
        }
    }

    /// Nothing of this is in use.
    fn is_idle(&self) -> bool {
        self.wanted.is_none() && self.all.is_empty()
    }

    /// Have frames waited for others after the last turn, or do they still?
    pub(crate) fn has_gathered(&self) -> bool {
        self.gathers_until != Instant::ZERO
    }

    /// Do frames wait for others now?
    pub(crate) fn gathers(&self, now: Instant) -> bool {
        now < self.gathers_until
    }

    /// The descriptors that have frames for us.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let may_send = self.all.values().filter(|mirror| mirror.allowance.frames > 0);
        may_send.filter_map(|mirror| mirror.device.as_ref().map(AsFd::as_fd))
    }

    /// The counters by port.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, &Counts)> {
        self.all.iter().map(|(name, mirror)| (name.as_str(), &mirror.counts))
    }

    /// Can programs use the mirror of this port?
    pub(crate) fn is_up(&self, port: &str) -> bool {
        self.all.get(port).is_some_and(|mirror| mirror.device.is_some() && !mirror.is_down)
    }

    /// Read frames of programs.
    pub(crate) fn read(&mut self) {
        if self.all.is_empty() {
            return;
        }
        self.room.resize(FRAME_MAX, 0);
        let now = Monotone::now();
        for (name, mirror) in &mut self.all {
            match mirror.read(now, &mut self.room, &mut self.sent) {
                Ok(()) => {}
                Err(Errno::IO | Errno::NETDOWN) => mirror.down(name),
                Err(errno) => mirror.lose(name, errno),
            }
        }
    }

    /// With the stacks locked: pass on what was read, collect what was punted, and say what has
    /// changed. Returns when to call again.
    pub(crate) fn exchange(&mut self, stacks: &mut [&mut Stack], applied: &Applied) -> Instant {
        if self.is_idle() {
            return Instant::NEVER;
        }
        self.follow(stacks, applied.ports());
        let sent = self.sent.ends.len();
        self.send(stacks);
        let (routing, more) = self.collect(stacks);
        let Some(now) = stacks.first().map(|stack| stack.now()) else { return Instant::NEVER };
        let frames = sent + self.punted.ends.len();
        let beyond = stacks.iter().map(|stack| stack.drops().of(DropReason::PuntRate)).sum();
        let is_flood = core::mem::replace(&mut self.beyond, beyond) < beyond;
        let gathers = gathers_after(frames, is_flood, routing || more);
        self.gathers_until = if gathers { now + GATHER } else { Instant::ZERO };
        let said = self.say(now, stacks, applied.ports());
        let rests = self.all.values().any(|mirror| mirror.allowance.frames == 0);
        let due = if more { Instant::ZERO } else { said };
        let due = due.min(if rests { now + REST } else { Instant::NEVER });
        due.min(if gathers { now + GATHER } else { Instant::NEVER })
    }

    /// Say what the ports are like that have mirrors; returns when to do so again.
    pub(crate) fn say(
        &mut self,
        now: Instant,
        stacks: &[&mut Stack],
        ports: &BTreeMap<String, AppliedPort>,
    ) -> Instant {
        let Some(listener) = &self.listener else { return Instant::NEVER };
        let mut due = Instant::NEVER;
        for (name, mirror) in &mut self.all {
            let state =
                ports.get(name).and_then(|port| state(name, port, mirror.device.is_some(), stacks));
            if let Some(state) = state {
                due = due.min(mirror.said.say(state, now, listener));
            }
        }
        due
    }

    /// Have a mirror for each port that is to have one, and have the stacks punt for those alone
    /// whose descriptor is there.
    pub(crate) fn follow(
        &mut self,
        stacks: &mut [&mut Stack],
        ports: &BTreeMap<String, AppliedPort>,
    ) {
        if core::mem::take(&mut self.is_new) {
            let wanted = self.wanted.as_ref();
            if let Some(wanted) = wanted {
                let ports: Vec<u16> = wanted.punt_ports.iter().copied().collect();
                for stack in stacks.iter_mut() {
                    let (ports, rate) = (ports.clone(), wanted.punt_rate);
                    stack.set_punt_config(PuntConfig { ports, rate, ..PuntConfig::default() });
                }
            }
            let names = wanted.map(|wanted| wanted.ports.clone()).unwrap_or_default();
            for (name, mut gone) in self.all.extract_if(.., |name, _| !names.contains(name)) {
                gone.punt_for(None, stacks);
                gone.programs.set(&[]);
                gone.programs.follow(&name, ports.get(&name).map(|port| port.id), stacks);
            }
            for name in names {
                self.all.entry(name).or_default();
            }
        }
        for (name, mirror) in &mut self.all {
            let port = ports.get(name).filter(|_| mirror.device.is_some()).map(|port| port.id);
            mirror.punt_for(port, stacks);
            mirror.programs.follow(name, ports.get(name).map(|port| port.id), stacks);
        }
    }

    /// Send the frames of programs.
    fn send(&mut self, stacks: &mut [&mut Stack]) {
        let all = &mut self.all;
        self.sent.for_each(|port, frame| {
            let shard =
                stacks.first().map_or(0, |s| s.shard_of_mirrored(LinkKind::Ethernet, frame));
            let Some(stack) = stacks.get_mut(shard) else { return };
            let taken = stack.send_by_mirror(stack.now(), port, frame);
            if let Some(mirror) = all.values_mut().find(|mirror| mirror.port == Some(port)) {
                match taken {
                    Ok(()) => mirror.counts.sent.count(frame.len()),
                    Err(_) => mirror.counts.lose(Loss::Refused),
                }
            }
        });
    }

    /// Take punted frames of the stacks. Returns whether one is of a routing protocol, and whether
    /// there are more.
    fn collect(&mut self, stacks: &mut [&mut Stack]) -> (bool, bool) {
        let mut has_routing = false;
        for stack in stacks.iter_mut() {
            while self.punted.ends.len() < PUNTED {
                let Some(punted) = stack.punted() else { break };
                has_routing |= punted.class == PuntClass::Routing;
                let mirror =
                    self.all.iter_mut().find(|(_, mirror)| mirror.port == Some(punted.port));
                if let Some((name, mirror)) = mirror {
                    match vnet::Header::of(&punted.frame, LinkKind::Ethernet) {
                        Ok(header) => {
                            self.punted.bytes.extend_from_slice(&header.to_bytes());
                            self.punted.bytes.extend_from_slice(punted.frame.as_slice());
                            self.punted.close(name.clone());
                        }
                        Err(_) => mirror.counts.lose(Loss::Bad),
                    }
                }
                stack.pool().free(punted.frame);
            }
        }
        (has_routing, stacks.iter().any(|stack| stack.has_punted()))
    }

    /// Write punted frames to their mirrors.
    pub(crate) fn write(&mut self) {
        let all = &mut self.all;
        self.punted.for_each(|name, frame| {
            if let Some(mirror) = all.get_mut(&name) {
                mirror.write(&name, frame);
            }
        });
    }
}

impl Mirror {
    /// Have the stacks punt packets of this port, and of no other one for this mirror.
    fn punt_for(&mut self, port: Option<PortId>, stacks: &mut [&mut Stack]) {
        for stack in stacks.iter_mut() {
            if let Some(old) = self.port.filter(|_| self.port != port) {
                stack.set_punt(old, false);
            }
            // A port that was removed and added again may have its number again.
            if let Some(new) = port.filter(|new| !stack.punts(*new)) {
                stack.set_punt(new, true);
            }
        }
        self.port = port;
    }

    /// Read frames until there is none, or as many as a turn may.
    fn read(
        &mut self,
        now: Monotone,
        room: &mut [u8],
        into: &mut Frames<PortId>,
    ) -> Result<(), Errno> {
        let (Some(device), Some(port)) = (&self.device, self.port) else { return Ok(()) };
        for _ in 0..self.allowance.of(now, FRAMES) {
            let len = match read(device, &mut *room) {
                Ok(len) => len,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS) => break,
                Err(errno) => return Err(errno),
            };
            self.allowance.frames -= 1;
            // The kernel leaves us no work, so the header says nothing.
            match room.get(vnet::LEN..len) {
                Some(frame) if !frame.is_empty() => {
                    into.bytes.extend_from_slice(frame);
                    into.close(port);
                }
                _ => self.counts.lose(Loss::Bad),
            }
        }
        Ok(())
    }

    fn write(&mut self, name: &str, frame: &[u8]) {
        let Some(device) = &self.device else { return self.counts.lose(Loss::NoMirror) };
        let written = loop {
            match write(device, frame) {
                Err(Errno::INTR) => {}
                written => break written,
            }
        };
        match written {
            Ok(_) => {
                self.counts.punted.count(frame.len().saturating_sub(vnet::LEN));
                if core::mem::take(&mut self.is_down) {
                    info(&format!("mirror {name}: up"));
                }
            }
            Err(Errno::IO | Errno::NETDOWN) => {
                self.counts.lose(Loss::Down);
                self.down(name);
            }
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => self.counts.lose(Loss::Full),
            Err(Errno::INVAL | Errno::MSGSIZE) => self.counts.lose(Loss::Bad),
            Err(errno) => {
                self.counts.lose(Loss::NoMirror);
                self.lose(name, errno);
            }
        }
    }

    /// Somebody has set the interface down; said once.
    fn down(&mut self, name: &str) {
        if !core::mem::replace(&mut self.is_down, true) {
            let advice = format!("bring it up in the control namespace: `ip link set {name} up`");
            warning(&format!("mirror {name}: its interface is down: {advice}"));
        }
    }

    /// The interface is gone; the first process makes another one.
    fn lose(&mut self, name: &str, errno: Errno) {
        self.device = None;
        warning(&format!("mirror {name}: its interface is gone ({errno}): it is made anew"));
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration as Span;

    use stack::PortConfig;
    use stack::pair::{PairConfig, pair};

    use super::*;

    #[test]
    fn frames_keep_their_order_and_owners() {
        let mut frames = Frames::default();
        for (of, bytes) in [("a", &[1_u8, 2][..]), ("b", &[3]), ("a", &[])] {
            frames.bytes.extend_from_slice(bytes);
            frames.close(of);
        }
        let mut seen = Vec::new();
        frames.for_each(|of, bytes| seen.push((of, bytes.to_vec())));
        assert_eq!(seen, [("a", vec![1, 2]), ("b", vec![3]), ("a", vec![])]);
        frames.for_each(|_, _| panic!("they are gone"));
    }

    /// As a reload does it with a port that has another device now.
    #[test]
    fn a_port_that_was_removed_and_added_again_is_punted_for_again() {
        let mut end = pair(&PairConfig::new([1, 2])).0;
        let (mut mirror, id) = (Mirror::default(), end.port);
        mirror.punt_for(Some(id), &mut [&mut end.stack]);
        assert!(end.stack.punts(id));
        let device = end.stack.remove_port(id).expect("it is there");
        let again = end.stack.add_port(device, PortConfig::default());
        assert!(again == id && !end.stack.punts(id));
        mirror.punt_for(Some(id), &mut [&mut end.stack]);
        assert!(end.stack.punts(id));
        mirror.punt_for(None, &mut [&mut end.stack]);
        assert!(!end.stack.punts(id));
    }

    #[test]
    fn frames_wait_for_others_in_a_flood_only() {
        assert!(gathers_after(1, true, false) && gathers_after(FEW - 1, true, false));
        assert!(!gathers_after(1, false, false), "a program waits for an answer");
        assert!(!gathers_after(1, true, true), "a routing protocol's, or more are there");
        assert!(!gathers_after(0, true, false) && !gathers_after(FEW, true, false));
    }

    #[test]
    fn a_program_that_floods_is_read_at_a_bounded_rate() {
        let mut allowance = Allowance::default();
        let begin = allowance.at;
        let mut taken = 0;
        for ms in 0..1_000 {
            let now = begin + Span::from_millis(ms);
            loop {
                let some = allowance.of(now, FRAMES);
                if some == 0 {
                    break;
                }
                allowance.frames -= some as u32;
                taken += some;
            }
        }
        let most = (RATE + AT_ONCE) as usize;
        assert!(taken <= most && taken > most * 9 / 10, "{taken}");
    }
}
