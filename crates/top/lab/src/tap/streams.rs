//! A model of a tap in STREAMS: packets are messages that go from queue to queue.
//!
//! Called by: `tap.rs` alone; nothing else in wirespeed works like this. Sources: UNIX System V
//! Release 4, Programmer's Guide: STREAMS; the network interface tap of SunOS 4, whose steps the
//! model follows:
//!
//! 1. The driver asks for a message: a data block of six fields that describes a buffer, a message
//!    block of six that points at it, and the buffer, each from an allocator of its own. The newer
//!    variant takes all three at once.
//! 2. It copies the packet into the buffer, because modules upstream may change it.
//! 3. It puts the message to the next queue, by that queue's put procedure, which it finds at run
//!    time.
//! 4. The put procedure checks the message's type, runs the filter and frees the message, or links
//!    it to the queue of the stream's head.
//!
//! With one processor, as in SunOS 4, there are no locks; with several, as in System V Release 4 MP
//! and Solaris 2, allocators and queues have locks. Both are modelled ([`Processors`]).

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use bpf::{Filter, Packet};

/// The type of a message; a tap gets only data.
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

/// A data block: describes a buffer.
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

/// A message block: the part of a data block that the message consists of.
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

/// The blocks of a message in one allocation, which keeps its buffer when it is free.
#[derive(Default)]
#[expect(dead_code, reason = "written for each packet, as it is there")]
struct Whole {
    message: MessageBlock,
    data: DataBlock,
}

/// How messages are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allocation {
    /// Each block separately.
    Apart,
    /// All blocks in one allocation.
    Together,
}

/// How many processors may be in the stream at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processors {
    /// One: only interrupts are blocked, which costs next to nothing and is not modelled.
    One,
    /// Several: a lock for each allocator and each queue.
    Several,
}

/// State shared by several processors.
enum Shared<T> {
    Alone(RefCell<T>),
    Locked(Mutex<T>),
}

impl<T> Shared<T> {
    fn new(value: T, processors: Processors) -> Shared<T> {
        match processors {
            Processors::One => Shared::Alone(RefCell::new(value)),
            Processors::Several => Shared::Locked(Mutex::new(value)),
        }
    }

    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        match self {
            Shared::Alone(value) => f(&mut value.borrow_mut()),
            Shared::Locked(value) => f(&mut value.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

/// Free blocks of one size.
struct Cache<T>(Shared<Vec<Box<T>>>);

impl<T: Default> Cache<T> {
    fn new(processors: Processors) -> Cache<T> {
        Cache(Shared::new(Vec::new(), processors))
    }

    fn take(&self) -> Box<T> {
        self.0.with(Vec::pop).unwrap_or_default()
    }

    fn give(&self, block: Box<T>) {
        self.0.with(|free| free.push(block));
    }
}

/// Size classes of buffers, by power of two.
const CLASSES: usize = 17;

fn class_of(len: usize) -> usize {
    (len.next_power_of_two().trailing_zeros() as usize).min(CLASSES - 1)
}

struct Allocators {
    messages: Cache<MessageBlock>,
    data: Cache<DataBlock>,
    buffers: Vec<Shared<Vec<Vec<u8>>>>,
    /// Allocators of whole messages, by the class of their buffers.
    wholes: Vec<Cache<Whole>>,
}

impl Allocators {
    fn new(processors: Processors) -> Allocators {
        Allocators {
            messages: Cache::new(processors),
            data: Cache::new(processors),
            buffers: (0..CLASSES).map(|_| Shared::new(Vec::new(), processors)).collect(),
            wholes: (0..CLASSES).map(|_| Cache::new(processors)).collect(),
        }
    }

    fn buffer(&self, class: usize) -> Vec<u8> {
        let free = self.buffers[class].with(Vec::pop);
        free.unwrap_or_else(|| Vec::with_capacity(1 << class))
    }

    /// Allocate a message in three allocations, and write each block.
    fn apart(&self, len: usize) -> Message {
        let class = class_of(len);
        let mut data = self.data.take();
        *data = data_block(self.buffer(class), len, class);
        let mut message = self.messages.take();
        *message = MessageBlock { data: Some(data), ..message_block(len) };
        Message::Apart(message)
    }

    /// Allocate a message in one allocation, which has kept its buffer, and write the same blocks.
    fn together(&self, len: usize) -> Message {
        let class = class_of(len);
        let mut whole = self.wholes[class].take();
        let mut buffer = core::mem::take(&mut whole.data.buffer);
        if buffer.capacity() == 0 {
            buffer.reserve_exact(1 << class);
        }
        buffer.clear();
        *whole = Whole { message: message_block(len), data: data_block(buffer, len, class) };
        Message::Together(whole)
    }

    fn free(&self, message: Message) {
        match message {
            Message::Apart(mut message) => {
                if let Some(mut data) = message.data.take() {
                    let mut buffer = core::mem::take(&mut data.buffer);
                    buffer.clear();
                    self.buffers[usize::from(data.class)].with(|free| free.push(buffer));
                    self.data.give(data);
                }
                self.messages.give(message);
            }
            Message::Together(whole) => self.wholes[usize::from(whole.data.class)].give(whole),
        }
    }
}

fn data_block(buffer: Vec<u8>, len: usize, class: usize) -> DataBlock {
    DataBlock {
        free_routine: 0,
        buffer,
        limit: len as u32,
        references: 1,
        kind: Kind::Data,
        class: class as u8,
    }
}

fn message_block(len: usize) -> MessageBlock {
    MessageBlock { write_at: len as u32, ..MessageBlock::default() }
}

/// A message in transit.
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

    fn data_mut(&mut self) -> Option<&mut DataBlock> {
        match self {
            Message::Apart(message) => message.data.as_deref_mut(),
            Message::Together(whole) => Some(&mut whole.data),
        }
    }
}

/// A put procedure; the queue has a pointer to it.
type Put = fn(&Stream, &mut Queue, Message);

/// A queue: of a module, or of the stream's head.
struct Queue {
    put: Put,
    waiting: Vec<Message>,
    flushed: u64,
}

/// A stream: the driver, the filter's module, and the head, where a reader would wait.
pub(super) struct Stream {
    allocators: Allocators,
    filter: Filter,
    module: Shared<Queue>,
    head: Shared<Queue>,
}

impl Stream {
    pub(super) fn new(filter: Filter, processors: Processors) -> Stream {
        let queue = |put| Shared::new(Queue { put, waiting: Vec::new(), flushed: 0 }, processors);
        Stream {
            allocators: Allocators::new(processors),
            filter,
            module: queue(filter_put),
            head: queue(head_put),
        }
    }

    /// The driver intercepts a packet.
    pub(super) fn intercept(&self, packet: &[u8], allocation: Allocation) {
        let mut message = match allocation {
            Allocation::Apart => self.allocators.apart(packet.len()),
            Allocation::Together => self.allocators.together(packet.len()),
        };
        if let Some(data) = message.data_mut() {
            data.buffer.extend_from_slice(packet);
        }
        self.put_next(&self.module, message);
    }

    fn put_next(&self, queue: &Shared<Queue>, message: Message) {
        queue.with(|queue| (queue.put)(self, queue, message));
    }

    /// The reader frees all waiting messages; returns the bytes of their packets.
    pub(super) fn read_all(&self) -> usize {
        self.head.with(|head| {
            let mut bytes = 0;
            for message in head.waiting.drain(..) {
                bytes += message.data().map_or(0, |data| data.buffer.len());
                self.allocators.free(message);
            }
            bytes
        })
    }
}

/// The filter's put procedure.
fn filter_put(stream: &Stream, queue: &mut Queue, message: Message) {
    let Some(data) = message.data() else { return stream.allocators.free(message) };
    match data.kind {
        Kind::Data => {
            let keep = stream.filter.run(&Packet::whole(&data.buffer));
            if keep == 0 {
                stream.allocators.free(message);
            } else {
                stream.put_next(&stream.head, message);
            }
        }
        Kind::Flush => {
            queue.flushed += 1;
            stream.allocators.free(message);
        }
        Kind::Proto | Kind::Ioctl => stream.put_next(&stream.head, message),
    }
}

/// The put procedure of the stream's head, where readers take messages.
fn head_put(_: &Stream, queue: &mut Queue, message: Message) {
    queue.waiting.push(message);
}

/// Bytes that are touched to describe a packet, without the packet's own bytes: the blocks, and
/// their entries in the free lists.
pub(super) const fn describing_bytes(allocation: Allocation) -> usize {
    let blocks = size_of::<DataBlock>() + size_of::<MessageBlock>();
    let free = match allocation {
        Allocation::Apart => 2 * size_of::<usize>() + size_of::<Vec<u8>>(),
        Allocation::Together => size_of::<usize>(),
    };
    blocks + free
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf::{Insn, Program};

    fn stream(keep: u32, processors: Processors) -> Stream {
        let program = Program::new(&[Insn::new(0x06, 0, 0, keep)]).expect("a return");
        Stream::new(Filter::new(program), processors)
    }

    #[test]
    fn what_the_filter_lets_pass_waits_at_the_head_and_blocks_go_round() {
        for processors in [Processors::One, Processors::Several] {
            for allocation in [Allocation::Apart, Allocation::Together] {
                let stream = stream(100, processors);
                for _ in 0..3 {
                    stream.intercept(&[1; 60], allocation);
                    stream.intercept(&[2; 1514], allocation);
                    assert_eq!(stream.read_all(), 60 + 1514);
                }
                let a = &stream.allocators;
                let free = |class: usize| a.buffers[class].with(|free| free.len());
                let wholes = |class: usize| a.wholes[class].0.with(|free| free.len());
                let expected = match allocation {
                    Allocation::Apart => ([1, 1], [0, 0], 2),
                    Allocation::Together => ([0, 0], [1, 1], 0),
                };
                let blocks = a.data.0.with(|free| free.len());
                let found = ([free(6), free(11)], [wholes(6), wholes(11)], blocks);
                assert_eq!(found, expected, "{processors:?} {allocation:?}");
            }
        }
    }

    #[test]
    fn what_it_refuses_is_freed_at_once() {
        let stream = stream(0, Processors::One);
        stream.intercept(&[1; 60], Allocation::Apart);
        assert_eq!(stream.read_all(), 0);
        assert_eq!(stream.allocators.messages.0.with(|free| free.len()), 1);
    }
}
