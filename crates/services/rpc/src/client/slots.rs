//! The table of calls that wait: the low bits of an xid are the call's slot, the others differ each
//! time, so that a late reply finds nobody.
//!
//! Called by: `stream.rs` and `datagram.rs`. Limit: `CALLS_MAX`.

use crate::limits::CALLS_MAX;

/// A call of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u32);

#[derive(Debug)]
struct Slot<T> {
    xid: u32,
    call: Option<T>,
}

/// What is remembered of calls, `T` of each.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
    calls: usize,
    bits: u32,
}

impl<T> Slots<T> {
    /// For `calls` at a time.
    pub(super) fn new(calls: usize) -> Slots<T> {
        let calls = calls.clamp(1, CALLS_MAX);
        // One index more than there are calls: that of calls without a reply.
        let bits = (calls + 1).next_power_of_two().trailing_zeros();
        Slots { slots: Vec::new(), free: Vec::new(), calls, bits }
    }

    /// Calls that wait.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The limit.
    pub(super) fn most(&self) -> usize {
        self.calls
    }

    /// Remember a call; `upper` has the upper bits of its xid. The xid, if there is room.
    #[inline]
    pub(super) fn insert(&mut self, upper: u32, call: T) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => usize::from(index),
            None if self.slots.len() < self.calls => {
                self.slots.push(Slot { xid: 0, call: None });
                self.slots.len() - 1
            }
            None => return None,
        };
        let xid = (upper << self.bits) | index as u32;
        self.slots[index] = Slot { xid, call: Some(call) };
        Some(xid)
    }

    /// An xid that no call ever waits with.
    pub(super) fn unused(&self, upper: u32) -> u32 {
        (upper << self.bits) | ((1 << self.bits) - 1)
    }

    #[inline]
    fn slot(&mut self, xid: u32) -> Option<&mut Slot<T>> {
        let index = xid & ((1 << self.bits) - 1);
        self.slots.get_mut(index as usize).filter(|slot| slot.xid == xid)
    }

    /// What is remembered of a call that waits.
    #[inline]
    pub(super) fn get(&mut self, xid: u32) -> Option<&mut T> {
        self.slot(xid)?.call.as_mut()
    }

    /// Forget a call that waits, and return it.
    #[inline]
    pub(super) fn remove(&mut self, xid: u32) -> Option<T> {
        let call = self.slot(xid)?.call.take()?;
        self.free.push((xid & ((1 << self.bits) - 1)) as u16);
        Some(call)
    }

    /// All that wait.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().filter_map(|slot| Some((slot.xid, slot.call.as_ref()?)))
    }
}
