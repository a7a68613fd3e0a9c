//! Handles: integers with a generation, behind which are stacks, sockets and gateways.
//!
//! Called by: all calls. One table for the process, because a handle comes without its stack. A
//! call takes a reference and lets the table go. Limit: 2^31 - 1 entries at once; the stacks' own
//! limits come first.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(feature = "gateway")]
use machine::Gateway;

use crate::error::{Call, Error};
use crate::socket::{Kind, Socket};
use crate::stack_of_program::Stack;

/// What a handle stands for.
enum Entry {
    Stack(Arc<Stack>),
    Socket(Arc<Socket>),
    #[cfg(feature = "gateway")]
    Gateway(Gateway),
}

impl Entry {
    fn stack(&self) -> Call<&Arc<Stack>> {
        match self {
            Entry::Stack(stack) => Ok(stack),
            _ => Err(Error::invalid("the handle is not a stack's, and a stack's is needed")),
        }
    }

    fn socket(&self) -> Call<&Arc<Socket>> {
        match self {
            Entry::Socket(socket) => Ok(socket),
            _ => {
                let text = "the handle is not a socket's, and a socket's is needed";
                Err(Error::new(libc::ENOTSOCK, text))
            }
        }
    }

    #[cfg(feature = "gateway")]
    fn gateway(&self) -> Call<&Gateway> {
        match self {
            Entry::Gateway(gateway) => Ok(gateway),
            _ => Err(Error::invalid("the handle is not a gateway's, and a gateway's is needed")),
        }
    }
}

struct Slot {
    /// The generation of the entry, or of the next one; from 1, so that no handle is 0.
    generation: u32,
    entry: Option<Entry>,
}

struct Table {
    slots: Vec<Slot>,
    /// Slots without an entry that may be used again.
    free: Vec<u32>,
}

static TABLE: RwLock<Table> = RwLock::new(Table { slots: Vec::new(), free: Vec::new() });
const GENERATION_MAX: u32 = i32::MAX as u32;

// Nothing panics while it holds the lock, so poisoning can be ignored.
fn read() -> RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Table> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    #[inline]
    fn get(&self, handle: i64) -> Call<&Entry> {
        let handle = u64::try_from(handle).map_err(|_| Error::stale())?;
        let (generation, index) = ((handle >> 32) as u32, handle as u32);
        let slot = self.slots.get(index as usize).filter(|slot| slot.generation == generation);
        slot.and_then(|slot| slot.entry.as_ref()).ok_or_else(Error::stale)
    }

    /// Take an entry out, if it is what `check` wants.
    fn remove<T>(&mut self, handle: i64, check: impl FnOnce(&Entry) -> Call<&T>) -> Call<Entry> {
        check(self.get(handle)?)?;
        self.take(handle as u32).ok_or_else(Error::stale)
    }

    fn take(&mut self, index: u32) -> Option<Entry> {
        let slot = self.slots.get_mut(index as usize)?;
        let entry = slot.entry.take()?;
        // A slot whose generations are used up is not used again, so a handle never comes again.
        if slot.generation < GENERATION_MAX {
            slot.generation += 1;
            self.free.push(index);
        }
        Some(entry)
    }
}

/// Add a stack.
pub(crate) fn add_stack(stack: Arc<Stack>) -> Call<i64> {
    add(|_| Entry::Stack(stack))
}

/// Add a gateway.
#[cfg(feature = "gateway")]
pub(crate) fn add_gateway(gateway: Gateway) -> Call<i64> {
    add(|_| Entry::Gateway(gateway))
}

/// Add a socket of a stack; `prepare` is called before others can use it.
pub(crate) fn add_socket(
    stack: &Arc<Stack>,
    kind: Kind,
    is_v6: bool,
    prepare: impl FnOnce(&Socket),
) -> Call<i64> {
    add(|handle| {
        let socket = Socket::new(handle, stack.clone(), kind, is_v6);
        prepare(&socket);
        Entry::Socket(Arc::new(socket))
    })
}

/// Add an entry, which is made with its handle.
fn add(make: impl FnOnce(i64) -> Entry) -> Call<i64> {
    let mut table = write();
    let index = match table.free.pop() {
        Some(index) => index,
        None => {
            let index = u32::try_from(table.slots.len()).ok().filter(|&i| i < GENERATION_MAX);
            let index = index.ok_or_else(|| {
                Error::new(libc::ENFILE, "the process has too many handles: close some")
            })?;
            table.slots.push(Slot { generation: 1, entry: None });
            index
        }
    };
    let slot = &mut table.slots[index as usize];
    let handle = i64::from(slot.generation) << 32 | i64::from(index);
    slot.entry = Some(make(handle));
    Ok(handle)
}

/// The stack of a handle.
pub(crate) fn stack(handle: i64) -> Call<Arc<Stack>> {
    read().get(handle)?.stack().cloned()
}

/// The socket of a handle.
#[inline]
pub(crate) fn socket(handle: i64) -> Call<Arc<Socket>> {
    read().get(handle)?.socket().cloned()
}

/// Ask the gateway of a handle; `ask` takes no time, because it holds the table.
#[cfg(feature = "gateway")]
pub(crate) fn gateway<T>(handle: i64, ask: impl FnOnce(&Gateway) -> T) -> Call<T> {
    read().get(handle)?.gateway().map(ask)
}

/// Remove a gateway.
#[cfg(feature = "gateway")]
pub(crate) fn remove_gateway(handle: i64) -> Call<Gateway> {
    match write().remove(handle, Entry::gateway)? {
        Entry::Gateway(gateway) => Ok(gateway),
        _ => Err(Error::stale()),
    }
}

/// Remove a socket.
pub(crate) fn remove_socket(handle: i64) -> Call<Arc<Socket>> {
    write().remove(handle, Entry::socket)?.socket().cloned()
}

/// Remove a stack and all its sockets.
pub(crate) fn remove_stack(handle: i64) -> Call<(Arc<Stack>, Vec<Arc<Socket>>)> {
    let mut table = write();
    let stack = table.remove(handle, Entry::stack)?.stack()?.clone();
    let is_its = |slot: &Slot| match &slot.entry {
        Some(Entry::Socket(socket)) => Arc::ptr_eq(socket.stack(), &stack),
        _ => false,
    };
    let indices = (0..table.slots.len() as u32).filter(|&i| is_its(&table.slots[i as usize]));
    let indices: Vec<u32> = indices.collect();
    let sockets = indices.into_iter().filter_map(|index| match table.take(index) {
        Some(Entry::Socket(socket)) => Some(socket),
        _ => None,
    });
    let sockets = sockets.collect();
    Ok((stack, sockets))
}
