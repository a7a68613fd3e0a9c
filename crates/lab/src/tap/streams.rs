//! The other way of tapping, as a model: packets as messages that go from queue to queue.
//!
//! Called by: `tap.rs` alone; nothing else in wirespeed works like this. Must not know: what is
//! measured. Sources: UNIX System V Release 4, Programmer's Guide: STREAMS; the network interface
//! tap of SunOS 4, which it follows in its steps:
//!
//! 1. The driver asks for a message: a data block of six fields that describes a buffer, a message
//!    block of six that points at it, and the buffer, each from an allocator that several
//!    processors share and therefore lock. The newer variant takes all three at once.
//! 2. It copies the packet into the buffer, because whoever is up the stream may change it.
//! 3. It puts the message to the next queue, by that queue's put procedure, which it finds at run
//!    time, inside the queue's lock.
//! 4. The put procedure looks at the message's type to find out why it was called, runs the filter
//!    and frees the message, or links it to the queue of the stream's head.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bpf::{Filter, Packet};

/// What a message is: STREAMS' types, of which a tap sees one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[expect(dead_code, reason = "a tap sees data alone, and asks every time")]
enum Kind {
    #[default]
    Data = 0,
    Proto = 1,
    Ioctl = 14,
    Flush = 0x86,
}

/// A data block: what is known of a buffer.
#[derive(Default)]
#[expect(dead_code, reason = "written for each packet, as it is there")]
struct DataBlock {
    free_routine: usize,
    buffer: Vec<u8>,
    limit: u32,
    references: u8,
    kind: Kind,
    class: u8,
}

/// A message block: what of a data block is meant.
#[derive(Default)]
#[expect(dead_code, reason = "written for each packet, as it is there")]
struct MessageBlock {
    next: Option<Box<MessageBlock>>,
    previous: usize,
    continued: Option<Box<MessageBlock>>,
    read_at: u32,
    write_at: u32,
    data: Option<Box<DataBlock>>,
}

/// All of one message, for the variant that takes it at once.
#[derive(Default)]
#[expect(dead_code, reason = "written for each packet, as it is there")]
struct Whole {
    message: MessageBlock,
    data: DataBlock,
}

/// How messages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allocation {
    /// Each block by itself.
    Apart,
    /// One for all.
    Together,
}

/// Free blocks of one size, behind a lock.
struct Cache<T>(Mutex<Vec<Box<T>>>);

impl<T: Default> Cache<T> {
    fn new() -> Cache<T> {
        Cache(Mutex::new(Vec::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Box<T> {
        let block = self.lock().pop();
        block.unwrap_or_default()
    }

    fn give(&self, block: Box<T>) {
        self.lock().push(block);
    }
}

/// Buffers by the power of two that they hold.
const CLASSES: usize = 17;

struct Allocators {
    messages: Cache<MessageBlock>,
    data: Cache<DataBlock>,
    wholes: Cache<Whole>,
    buffers: Vec<Mutex<Vec<Vec<u8>>>>,
}

impl Allocators {
    fn buffer(&self, len: usize) -> (Vec<u8>, u8) {
        let class = (len.next_power_of_two().trailing_zeros() as usize).min(CLASSES - 1);
        let mut free = self.buffers[class].lock().unwrap_or_else(PoisonError::into_inner);
        (free.pop().unwrap_or_else(|| Vec::with_capacity(1 << class)), class as u8)
    }

    fn give_buffer(&self, mut buffer: Vec<u8>, class: u8) {
        buffer.clear();
        let free = self.buffers[usize::from(class)].lock();
        free.unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

/// A message on its way.
enum Message {
    Apart(Box<MessageBlock>),
    Together(Box<Whole>),
}

impl Message {
    fn data(&self) -> Option<&DataBlock> {
        match self {
            Message::Apart(message) => message.data.as_deref(),
            Message::Together(whole) => Some(&whole.data),
        }
    }
}

/// A put procedure, found at run time in the queue.
type Put = fn(&Stream, &mut Queue, Message);

/// A queue of the stream: a module, or its head.
struct Queue {
    put: Put,
    waiting: Vec<Message>,
    flushed: u64,
}

/// A stream: the driver below, the filter's module, the head where a reader would wait.
pub(super) struct Stream {
    allocators: Allocators,
    filter: Filter,
    module: Mutex<Queue>,
    head: Mutex<Queue>,
}

impl Stream {
    pub(super) fn new(filter: Filter) -> Stream {
        let queue = |put| Mutex::new(Queue { put, waiting: Vec::new(), flushed: 0 });
        Stream {
            allocators: Allocators {
                messages: Cache::new(),
                data: Cache::new(),
                wholes: Cache::new(),
                buffers: (0..CLASSES).map(|_| Mutex::default()).collect(),
            },
            filter,
            module: queue(filter_put),
            head: queue(head_put),
        }
    }

    /// The driver has a packet.
    pub(super) fn intercept(&self, packet: &[u8], allocation: Allocation) {
        let (buffer, class) = self.allocators.buffer(packet.len());
        let data = DataBlock {
            free_routine: 0,
            buffer,
            limit: packet.len() as u32,
            references: 1,
            kind: Kind::Data,
            class,
        };
        let message = MessageBlock { write_at: packet.len() as u32, ..MessageBlock::default() };
        let mut made = match allocation {
            Allocation::Apart => {
                let mut data_block = self.allocators.data.take();
                *data_block = data;
                let mut block = self.allocators.messages.take();
                *block = MessageBlock { data: Some(data_block), ..message };
                Message::Apart(block)
            }
            Allocation::Together => {
                let mut whole = self.allocators.wholes.take();
                *whole = Whole { message, data };
                Message::Together(whole)
            }
        };
        let block = match &mut made {
            Message::Apart(message) => message.data.as_deref_mut(),
            Message::Together(whole) => Some(&mut whole.data),
        };
        if let Some(block) = block {
            block.buffer.extend_from_slice(packet);
        }
        self.put_next(&self.module, made);
    }

    fn put_next(&self, queue: &Mutex<Queue>, message: Message) {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        let put = queue.put;
        put(self, &mut queue, message);
    }

    /// The reader frees all that waits; returns how many messages that were.
    pub(super) fn read_all(&self) -> usize {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let count = head.waiting.len();
        head.waiting.drain(..).for_each(|message| self.free(message));
        count
    }

    fn free(&self, message: Message) {
        match message {
            Message::Apart(mut message) => {
                if let Some(mut data) = message.data.take() {
                    let buffer = core::mem::take(&mut data.buffer);
                    self.allocators.give_buffer(buffer, data.class);
                    self.allocators.data.give(data);
                }
                self.allocators.messages.give(message);
            }
            Message::Together(mut whole) => {
                let buffer = core::mem::take(&mut whole.data.buffer);
                self.allocators.give_buffer(buffer, whole.data.class);
                self.allocators.wholes.give(whole);
            }
        }
    }
}

/// The filter's put procedure.
fn filter_put(stream: &Stream, queue: &mut Queue, message: Message) {
    let Some(data) = message.data() else { return stream.free(message) };
    match data.kind {
        Kind::Data => {
            let keep = stream.filter.run(&Packet::whole(&data.buffer));
            if keep == 0 {
                stream.free(message);
            } else {
                stream.put_next(&stream.head, message);
            }
        }
        Kind::Flush => {
            queue.flushed += 1;
            stream.free(message);
        }
        Kind::Proto | Kind::Ioctl => stream.put_next(&stream.head, message),
    }
}

/// The stream head's: whoever reads finds it there.
fn head_put(_: &Stream, queue: &mut Queue, message: Message) {
    queue.waiting.push(message);
}

/// Bytes written to describe a packet before its own: data block, message block.
pub(super) const DESCRIBING_BYTES: usize = size_of::<DataBlock>() + size_of::<MessageBlock>();
