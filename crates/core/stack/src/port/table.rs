//! All ports, by number: they are added, replaced and removed here, and polled together.
//!
//! Called by: code that has the number of a port; `change.rs` and `poll.rs` for all ports. Numbers
//! are reused, so that replacing ports for ever takes no memory.

use core::fmt;
use core::task::Waker;
use std::sync::Arc;

use base::{DropReason, Instant};
use device::Device;
use device::mitigation::Mitigation;
use inet::Vrf;
use mbuf::{Mbuf, Pool};

use super::{Armed, MitigationError, Port};
use crate::config::PortConfig;
use crate::handles::PortId;
use crate::shared::Core;

/// The number of the loopback port, which no other port gets.
pub(crate) const LOOPBACK: u16 = u16::MAX;

/// Why a port keeps its present device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceError {
    /// There is no such port.
    NoPort,
    /// The new device's link is of another kind, on which the port's addresses have no meaning.
    OtherLink,
    /// The new device does not suit the port's interrupt mitigation.
    Mitigation(MitigationError),
}

impl fmt::Display for ReplaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplaceError::NoPort => f.write_str("there is no such port: add one"),
            ReplaceError::OtherLink => f.write_str(
                "the new device's link is of another kind than the port's: remove the port and \
                 add a new one",
            ),
            ReplaceError::Mitigation(why) => write!(f, "of the new device {why}"),
        }
    }
}

impl core::error::Error for ReplaceError {}

/// All ports, by number.
#[derive(Default)]
pub(crate) struct Ports {
    ports: Vec<Option<Port>>,
    /// Why connections failed, by port number. Reasons of removed ports stay, because sockets may
    /// ask for them.
    failures: Vec<Option<Arc<str>>>,
    /// The loopback port. It is not among `ports`, which the lists show.
    loopback: Option<Box<Port>>,
    epoch: u64,
    /// Some port is in a VRF.
    has_vrfs: bool,
}

impl Ports {
    pub(crate) fn add(&mut self, device: Box<dyn Device>, config: &PortConfig) -> PortId {
        // Numbers are reused, so that replacing ports for ever takes no memory.
        let free = self.ports.iter().position(Option::is_none);
        let index = free.unwrap_or(self.ports.len());
        let number = u16::try_from(index).ok().filter(|&number| number != LOOPBACK);
        let number = number.expect("a machine has no 65,535 devices");
        let id = PortId(number);
        if index == self.ports.len() {
            self.ports.push(None);
            self.failures.push(None);
        }
        self.epoch += 1;
        self.ports[index] = Some(Port::new(id, device, config));
        id
    }

    /// Set the loopback port.
    pub(crate) fn set_loopback(&mut self, device: Box<dyn Device>) {
        let mut port = Port::new(PortId(LOOPBACK), device, &PortConfig::default());
        port.name = "lo".into();
        self.loopback = Some(Box::new(port));
    }

    /// Give a port another device; the frames in its burst are lost.
    ///
    /// # Errors
    /// The device, and the reason why it does not suit this port.
    pub(crate) fn replace(
        &mut self,
        id: PortId,
        device: Box<dyn Device>,
        pool: &mut Pool,
    ) -> Result<Box<dyn Device>, (ReplaceError, Box<dyn Device>)> {
        let Some(port) = self.get_mut(id.0) else { return Err((ReplaceError::NoPort, device)) };
        (port.limits, port.own_tag) = (device.limits(), device.own_tag());
        port.gone = false;
        port.refused_since = None;
        (port.shown, port.tagged) = (0, 0);
        port.tx_bytes = 0;
        port.taken += port.tx.len() as u64;
        port.tx.drain(..).for_each(|frame| pool.free(frame));
        let old = core::mem::replace(&mut port.device, device);
        self.epoch += 1;
        Ok(old)
    }

    /// Give each port the broadcast addresses of all ports of its VRF, because addresses have
    /// changed.
    pub(crate) fn share_broadcasts(&mut self) {
        let mut vrfs: Vec<Vrf> = self.iter().map(|port| port.vrf).collect();
        vrfs.sort_unstable();
        vrfs.dedup();
        let are_several = self.iter().nth(1).is_some();
        for vrf in vrfs {
            let mut all = Vec::new();
            if are_several {
                let there = self.iter().filter(|port| port.vrf == vrf);
                all.extend(there.flat_map(|port| port.local.broadcasts()));
                all.sort_unstable();
                all.dedup();
            }
            let all = Arc::from(all);
            let there = self.iter_mut().filter(|port| port.vrf == vrf);
            there.for_each(|port| port.local.note_broadcasts(&all));
        }
    }

    /// The VRF of a port.
    #[inline(always)]
    pub(crate) fn vrf(&self, id: u16) -> Vrf {
        self.get(id).map_or(Vrf::NONE, |port| port.vrf)
    }

    /// Is any port in a VRF?
    #[inline(always)]
    pub(crate) fn has_vrfs(&self) -> bool {
        self.has_vrfs
    }

    fn note_vrfs(&mut self) {
        let has_vrfs = self.iter().any(|port| !port.vrf.is_none());
        self.has_vrfs = has_vrfs;
    }

    /// Put a port into a VRF. The results of look-ups are out of date.
    pub(crate) fn set_vrf(&mut self, id: u16, vrf: Vrf) {
        if let Some(port) = self.get_mut(id) {
            port.vrf = vrf;
        }
        self.note_vrfs();
        self.epoch += 1;
        self.share_broadcasts();
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A port whose device was found gone since the last call, and the reason.
    pub(crate) fn next_gone(&mut self) -> Option<(PortId, String)> {
        let port = self.iter_mut().find(|port| !port.gone && port.device.is_gone())?;
        port.gone = true;
        port.blocked.clear();
        let why = port.device.failure().map(ToString::to_string);
        Some((port.id, why.unwrap_or_else(|| "the device of its port is gone".to_owned())))
    }

    pub(crate) fn note_failure(&mut self, id: PortId, why: Arc<str>) {
        if let Some(place) = self.failures.get_mut(usize::from(id.0)) {
            *place = Some(why);
        }
    }

    pub(crate) fn failure(&self, id: PortId) -> Option<&str> {
        self.failures.get(usize::from(id.0))?.as_deref()
    }

    pub(crate) fn remove(&mut self, id: PortId) -> Option<Box<dyn Device>> {
        self.epoch += 1;
        let removed = self.ports.get_mut(usize::from(id.0))?.take().map(|p| p.device);
        self.note_vrfs();
        removed
    }

    /// How many numbers were given so far.
    pub(crate) fn len(&self) -> usize {
        self.ports.len()
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: u16) -> Option<&Port> {
        match self.ports.get(usize::from(id)) {
            Some(port) => port.as_ref(),
            None => self.beyond(id),
        }
    }

    #[cold]
    #[inline(never)]
    fn beyond(&self, id: u16) -> Option<&Port> {
        self.loopback.as_deref().filter(|_| id == LOOPBACK)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: u16) -> Option<&mut Port> {
        match self.ports.get_mut(usize::from(id)) {
            Some(port) => port.as_mut(),
            None => beyond_mut(&mut self.loopback, id),
        }
    }

    /// Hand the bursts to the devices, even if they are not full.
    pub(crate) fn flush(&mut self, cx: &mut tcp::Cx) {
        for port in self.iter_mut() {
            port.flush_here(cx);
        }
        if let Some(port) = &mut self.loopback {
            port.flush(cx);
        }
    }

    /// Put a finished frame into a port's burst. If there is no room, the frame is dropped and
    /// counted: the only frames that come here while the device is full are those that nobody would
    /// send again.
    pub(crate) fn put(&mut self, id: u16, frame: Mbuf, core: &mut Core) {
        let Some(port) = self.get_mut(id) else { return core.drops.count(DropReason::TxNoPort) };
        if port.has_room(&mut core.cx) {
            port.push(frame);
        } else {
            core.drops.count(DropReason::TxFull);
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.ports.iter_mut().flatten()
    }

    pub(crate) fn iter_mut_and_loopback(&mut self) -> impl Iterator<Item = &mut Port> {
        self.ports.iter_mut().flatten().chain(self.loopback.as_deref_mut())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().flatten()
    }

    pub(crate) fn has_input(&self) -> bool {
        self.iter().any(Port::has_input)
    }

    pub(crate) fn is_pushed_back(&self) -> bool {
        self.iter().any(Port::is_pushed_back)
    }

    pub(crate) fn is_newly_pushed_back(&self) -> bool {
        self.iter().any(|port| port.is_pushed_back() && !port.asked_for_room)
    }

    pub(crate) fn found_room(&mut self) -> bool {
        let found = |port: &mut Port| core::mem::take(&mut port.found_room);
        self.iter_mut().fold(false, |any, port| found(port) | any)
    }

    /// Ask every device to wake `waker`. A device that is gone does not wake. A device whose frames
    /// are coalesced is polled in time, and wakes earlier only if it can count them.
    pub(crate) fn arm(&mut self, waker: &Waker, now: Instant) -> Armed {
        let mut armed = Armed::All;
        for port in self.iter_mut() {
            armed = armed.and(port.arm(waker, now), now);
        }
        armed
    }

    /// Set how often the driver is woken for a port, from its next idle time on.
    pub(crate) fn set_mitigation(
        &mut self,
        id: PortId,
        to: Mitigation,
    ) -> Result<(), MitigationError> {
        let port = self.get_mut(id.0).ok_or(MitigationError::NoPort)?;
        // A setting that needs no deeper queue than the present setting is not checked.
        if to.least_depth() > port.moderation.setting().least_depth() {
            admits(&*port.device, to)?;
        }
        port.moderation.set(to);
        Ok(())
    }
}

/// Does a device's receive queue hold the frames that gather with this mitigation? With level 0,
/// with which a port begins, no frames gather.
///
/// # Errors
/// The queue is too short.
pub(crate) fn admits(device: &dyn Device, to: Mitigation) -> Result<(), MitigationError> {
    let (depth, least) = (device.rx_depth(), to.least_depth());
    let gathers = least > Mitigation::default().least_depth();
    if gathers && depth != 0 && depth < least {
        return Err(MitigationError::TooShallow { depth, least });
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn beyond_mut(port: &mut Option<Box<Port>>, id: u16) -> Option<&mut Port> {
    port.as_deref_mut().filter(|_| id == LOOPBACK)
}
