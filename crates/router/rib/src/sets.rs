//! Sets of next hops, each kept once: a route has four bytes for its set.
//!
//! Called by: `rib.rs`. A set has a number of its origin ([`Sets::of_id`]), whose content may
//! change or come later, or is its content ([`Sets::of`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::origin::Origin;

/// The index of a set.
pub(crate) type SetIndex = u32;

#[derive(Debug)]
struct Slot<N> {
    /// `None`: no next hop is known, so the routes cannot be used.
    content: Option<Arc<N>>,
    /// Candidates with this set.
    users: u32,
    id: Option<(Origin, u32)>,
    /// The content has changed, and its routes have not been looked at since.
    is_changed: bool,
}

/// All sets.
#[derive(Debug)]
pub(crate) struct Sets<N> {
    slots: Vec<Slot<N>>,
    free: Vec<SetIndex>,
    by_content: BTreeMap<Arc<N>, SetIndex>,
    by_id: BTreeMap<(Origin, u32), SetIndex>,
    changed: usize,
}

impl<N> Default for Sets<N> {
    fn default() -> Sets<N> {
        let (by_content, by_id) = (BTreeMap::new(), BTreeMap::new());
        Sets { slots: Vec::new(), free: Vec::new(), by_content, by_id, changed: 0 }
    }
}

impl<N: Ord + Clone> Sets<N> {
    fn add(&mut self, slot: Slot<N>) -> SetIndex {
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                // There are fewer sets than candidates and numbers, which have 32 bits.
                (self.slots.len() - 1) as SetIndex
            }
        }
    }

    /// The set with this content; the caller is a user of it.
    pub(crate) fn of(&mut self, content: N) -> SetIndex {
        let content = Arc::new(content);
        let at = match self.by_content.get(&content) {
            Some(&at) => at,
            None => {
                let kept = Some(Arc::clone(&content));
                let at = self.add(Slot { content: kept, users: 0, id: None, is_changed: false });
                self.by_content.insert(content, at);
                at
            }
        };
        self.slots[at as usize].users += 1;
        at
    }

    /// The set with this number; the caller is a user of it.
    pub(crate) fn of_id(&mut self, origin: Origin, id: u32) -> SetIndex {
        let at = self.index_of(origin, id);
        self.slots[at as usize].users += 1;
        at
    }

    fn index_of(&mut self, origin: Origin, id: u32) -> SetIndex {
        if let Some(&at) = self.by_id.get(&(origin, id)) {
            return at;
        }
        let id = Some((origin, id));
        let at = self.add(Slot { content: None, users: 0, id, is_changed: false });
        self.by_id.extend(id.map(|id| (id, at)));
        at
    }

    /// Set the content of a number. `true` if routes have to be looked at again.
    pub(crate) fn set_id(&mut self, origin: Origin, id: u32, content: Option<N>) -> bool {
        if content.is_none() && !self.by_id.contains_key(&(origin, id)) {
            return false;
        }
        let at = self.index_of(origin, id);
        let slot = &mut self.slots[at as usize];
        if slot.content.as_deref() == content.as_ref() {
            return false;
        }
        slot.content = content.map(Arc::new);
        if slot.users == 0 {
            self.free_unused(at);
            return false;
        }
        self.changed += usize::from(!slot.is_changed);
        slot.is_changed = true;
        true
    }

    /// A candidate with this set is gone.
    pub(crate) fn release(&mut self, at: SetIndex) {
        self.slots[at as usize].users -= 1;
        self.free_unused(at);
    }

    fn free_unused(&mut self, at: SetIndex) {
        let slot = &mut self.slots[at as usize];
        if slot.users > 0 {
            return;
        }
        // A number that has content may be named again.
        let is_over = match (slot.id, &slot.content) {
            (Some(id), None) => self.by_id.remove(&id).is_some(),
            (None, Some(content)) => self.by_content.remove(content).is_some(),
            _ => false,
        };
        self.changed -= usize::from(slot.is_changed);
        slot.is_changed = false;
        if is_over {
            slot.content = None;
            self.free.push(at);
        }
    }

    pub(crate) fn content(&self, at: SetIndex) -> Option<&N> {
        self.slots[at as usize].content.as_deref()
    }

    /// Has any content changed whose routes have not been looked at?
    pub(crate) fn has_changed(&self) -> bool {
        self.changed > 0
    }

    pub(crate) fn is_changed(&self, at: SetIndex) -> bool {
        self.slots[at as usize].is_changed
    }

    /// The routes of all sets have been looked at.
    pub(crate) fn all_seen(&mut self) {
        if self.changed > 0 {
            self.slots.iter_mut().for_each(|slot| slot.is_changed = false);
            self.changed = 0;
        }
    }

    /// The number of sets.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
