//! Records of states: 128 bytes for IPv4 and 192 for IPv6, in slabs that grow by chunks.
//!
//! Called by: every file of the table. A record has both tuples, followed by a part that is the
//! same for both versions. A slot says the version in its lowest bit, so that lists go through
//! both slabs. A chunk is 32 or 48 KB, so growing takes a few microseconds and moves nothing.

use base::SeqNumber;
use wire::protocol;

use super::key::{Key, KeyV4, KeyV6};
use super::timeouts::Phase;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;
/// Records of a chunk.
const CHUNK: usize = 256;
/// Bits of a slot that are its own: the index has two more in an entry.
const INDEX_MAX: u32 = 1 << 29;

/// The number of a record: its index in its slab, and the version in bit 0.
pub(super) type Slot = u32;

/// Is the record in the slab of IPv6?
pub(super) const fn is_v6(slot: Slot) -> bool {
    slot & 1 != 0
}

/// What tracking knows of one side of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Side {
    /// Behind the highest sequence number that it has sent.
    pub(super) end: SeqNumber,
    /// The highest sequence number that the other side lets it send up to: ACK and window. In
    /// SYN-SENT: the number behind the SYN, the lowest that the answer may acknowledge.
    pub(super) max_end: SeqNumber,
    /// The largest window that it has advertised, in bytes, at least 1; 0 if it has sent nothing.
    pub(super) max_window: u32,
}

/// Bits of [`Common::flags`].
pub(super) mod flag {
    /// The record is in use.
    pub(in super::super) const LIVE: u16 = 1;
    /// Windows are not checked, and any segment may be the first.
    pub(in super::super) const LOOSE: u16 = 1 << 1;
    /// The reply tuple is not the reversed original one, so the index has both.
    pub(in super::super) const TRANSLATED: u16 = 1 << 2;
    /// In the list of states that wait for an answer.
    pub(in super::super) const WAITING: u16 = 1 << 3;
    /// In the list of states that are over: reset, or in TIME-WAIT.
    pub(in super::super) const OVER: u16 = 1 << 4;
    /// The original side has sent a FIN; the next bit is the reply side's.
    pub(in super::super) const FIN: u16 = 1 << 5;
    /// The SYN of the original side was acknowledged; the next bit is the reply side's.
    pub(in super::super) const SYN_ACKED: u16 = 1 << 7;
    /// A SYN came on the established connection; `pair` has what it said.
    pub(in super::super) const PENDING_SYN: u16 = 1 << 9;
    /// The RST that ended the connection came in the reply direction.
    pub(in super::super) const RST_IN_REPLY: u16 = 1 << 10;
    /// The RST was at the next sequence number exactly.
    pub(in super::super) const RST_EXACT: u16 = 1 << 11;
    /// Two SYN-ACKs had different sequence numbers, and the next ACK says which one counts. With
    /// [`LOOSE`]: windows are taken from the next segments.
    pub(in super::super) const UNSURE: u16 = 1 << 12;
    /// The reply side sent data before the handshake was complete.
    pub(in super::super) const EARLY_DATA: u16 = 1 << 13;
    /// Counted among the states of its source.
    pub(in super::super) const OF_SOURCE: u16 = 1 << 14;
    /// Counted among the states of its source by its rule.
    pub(in super::super) const OF_RULE: u16 = 1 << 15;
}

/// The part of a record that both versions have.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Common {
    /// Packets by direction.
    pub(super) packets: [u64; 2],
    /// Bytes by direction, as the caller counts them.
    pub(super) bytes: [u64; 2],
    /// Both sides of a TCP connection; a flow of ICMP has [`Common::icmp`] there.
    pub(super) sides: [Side; 2],
    /// Next and previous record in the slot of the wheel; a free record has the next free one.
    pub(super) wheel: [u32; 2],
    /// Older and newer record in a list ([`flag::WAITING`], [`flag::OVER`]); otherwise what a
    /// pending SYN said: the number behind it, and its window with its scale above.
    pub(super) pair: [u32; 2],
    /// Tick of the last packet that counts.
    pub(super) seen: u32,
    /// Tick of the first packet.
    pub(super) created: u32,
    /// Generation of the rules that judged the flow last.
    pub(super) generation: u32,
    /// A number of the caller's.
    pub(super) tag: u32,
    /// The rule that passed it.
    pub(super) rule: u16,
    /// Port that the first packet came by.
    pub(super) in_port: u16,
    /// Port that the first packet left by.
    pub(super) out_port: u16,
    /// Bits of [`flag`].
    pub(super) flags: u16,
    /// One's-complement sums to add to the IP header and to the transport checksum in the original
    /// direction; their complements in the reply direction.
    pub(super) sums: [u16; 2],
    /// Protocol.
    pub(super) protocol: u8,
    /// Where the flow is.
    pub(super) phase: Phase,
    /// Window scales: the original side's in the low half.
    pub(super) scales: u8,
    /// How often the record was used before: ids of earlier states are found to be stale by it.
    pub(super) life: u8,
}

impl Common {
    pub(super) const EMPTY: Common = Common {
        packets: [0; 2],
        bytes: [0; 2],
        sides: [Side { end: SeqNumber(0), max_end: SeqNumber(0), max_window: 0 }; 2],
        wheel: [NONE; 2],
        pair: [NONE; 2],
        seen: 0,
        created: 0,
        generation: 0,
        tag: 0,
        rule: 0,
        in_port: 0,
        out_port: 0,
        flags: 0,
        sums: [0; 2],
        protocol: 0,
        phase: Phase::OtherUnreplied,
        scales: 0,
        life: 0,
    };

    #[inline(always)]
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The window scale of the side `which`.
    #[inline(always)]
    pub(super) fn scale(&self, which: usize) -> u8 {
        self.scales >> (which * 4) & 15
    }

    /// Type and code of the first message, for a flow of ICMP: in the place of a window that it
    /// does not have.
    pub(super) fn icmp(&self) -> Option<(u8, u8)> {
        let is_icmp = matches!(self.protocol, protocol::ICMP | protocol::ICMPV6);
        let [is_known, kind, code, _] = self.sides[0].max_window.to_be_bytes();
        (is_icmp && is_known != 0).then_some((kind, code))
    }

    pub(super) fn set_icmp(&mut self, (kind, code): (u8, u8)) {
        self.sides[0].max_window = u32::from_be_bytes([1, kind, code, 0]);
    }

    pub(super) fn set_scale(&mut self, which: usize, scale: u8) {
        let shift = which * 4;
        self.scales = self.scales & !(15 << shift) | (scale & 15) << shift;
    }
}

/// A record of either version.
pub(super) trait Record: Copy {
    /// Of no state.
    const EMPTY: Self;
    fn common(&self) -> &Common;
    fn common_mut(&mut self) -> &mut Common;
}

/// A state of IPv4: two lines, which processors fetch as a pair.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(super) struct RecordV4 {
    pub(super) addrs: [u64; 2],
    pub(super) ports: [u32; 2],
    pub(super) common: Common,
}

/// A state of IPv6: three lines.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct RecordV6 {
    pub(super) addrs: [[u64; 4]; 2],
    pub(super) ports: [u32; 2],
    pub(super) common: Common,
}

const _: () = assert!(size_of::<RecordV4>() == 128 && size_of::<RecordV6>() == 192);

impl RecordV4 {
    #[inline(always)]
    pub(super) fn key(&self, which: usize) -> KeyV4 {
        let [addrs, ports] = [self.addrs[which & 1], u64::from(self.ports[which & 1])];
        KeyV4 { addrs, ports: ports as u32, protocol: self.common.protocol }
    }
}

impl RecordV6 {
    #[inline(always)]
    pub(super) fn key(&self, which: usize) -> KeyV6 {
        let (addrs, ports) = (self.addrs[which & 1], self.ports[which & 1]);
        KeyV6 { addrs, ports, protocol: self.common.protocol }
    }
}

impl Record for RecordV4 {
    const EMPTY: RecordV4 = RecordV4 { addrs: [0; 2], ports: [0; 2], common: Common::EMPTY };
    #[inline(always)]
    fn common(&self) -> &Common {
        &self.common
    }
    #[inline(always)]
    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

impl Record for RecordV6 {
    const EMPTY: RecordV6 = RecordV6 { addrs: [[0; 4]; 2], ports: [0; 2], common: Common::EMPTY };
    #[inline(always)]
    fn common(&self) -> &Common {
        &self.common
    }
    #[inline(always)]
    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// Records of one version.
pub(super) struct Slab<R> {
    chunks: Vec<Box<[R; CHUNK]>>,
    /// The first free record below `len`.
    free: u32,
    /// Records that were ever used.
    len: u32,
}

impl<R: Record> Slab<R> {
    const fn new() -> Slab<R> {
        Slab { chunks: Vec::new(), free: NONE, len: 0 }
    }

    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> Option<&R> {
        self.chunks.get(index as usize / CHUNK).map(|chunk| &chunk[index as usize % CHUNK])
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut R> {
        self.chunks.get_mut(index as usize / CHUNK).map(|chunk| &mut chunk[index as usize % CHUNK])
    }

    #[inline(always)]
    fn at(&self, index: u32) -> &R {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    #[inline(always)]
    fn at_mut(&mut self, index: u32) -> &mut R {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// The index of a free record, which keeps its `life`; `None` if there is none left.
    fn take(&mut self) -> Option<u32> {
        if self.free != NONE {
            let index = self.free;
            self.free = self.at(index).common().wheel[0];
            return Some(index);
        }
        if self.len >= INDEX_MAX {
            return None;
        }
        if self.len as usize == self.chunks.len() * CHUNK {
            self.chunks.push(vec![R::EMPTY; CHUNK].try_into().ok()?);
        }
        self.len += 1;
        Some(self.len - 1)
    }

    fn give_back(&mut self, index: u32) {
        let free = self.free;
        let common = self.at_mut(index).common_mut();
        common.flags = 0;
        common.life = common.life.wrapping_add(1);
        common.wheel[0] = free;
        self.free = index;
    }

    fn bytes(&self) -> usize {
        self.chunks.len() * size_of::<[R; CHUNK]>() + self.chunks.capacity() * size_of::<usize>()
    }
}

/// Records of both versions.
pub(super) struct Records {
    pub(super) v4: Slab<RecordV4>,
    pub(super) v6: Slab<RecordV6>,
}

impl Records {
    pub(super) const fn new() -> Records {
        Records { v4: Slab::new(), v6: Slab::new() }
    }

    /// The common part of the record at `slot`, which must have been taken once.
    #[inline(always)]
    pub(super) fn at(&self, slot: Slot) -> &Common {
        if is_v6(slot) { &self.v6.at(slot >> 1).common } else { &self.v4.at(slot >> 1).common }
    }

    #[inline(always)]
    pub(super) fn at_mut(&mut self, slot: Slot) -> &mut Common {
        if is_v6(slot) {
            &mut self.v6.at_mut(slot >> 1).common
        } else {
            &mut self.v4.at_mut(slot >> 1).common
        }
    }

    /// [`Records::at`] for a slot from outside.
    #[inline(always)]
    pub(super) fn get(&self, slot: Slot) -> Option<&Common> {
        if is_v6(slot) {
            self.v6.get(slot >> 1).map(Record::common)
        } else {
            self.v4.get(slot >> 1).map(Record::common)
        }
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Common> {
        if is_v6(slot) {
            self.v6.get_mut(slot >> 1).map(Record::common_mut)
        } else {
            self.v4.get_mut(slot >> 1).map(Record::common_mut)
        }
    }

    /// The original or the reply key of the record at `slot`.
    #[inline(always)]
    pub(super) fn key(&self, slot: Slot, which: usize) -> Key {
        if is_v6(slot) {
            Key::V6(self.v6.at(slot >> 1).key(which))
        } else {
            Key::V4(self.v4.at(slot >> 1).key(which))
        }
    }

    /// Prefetch all lines of the record at `slot`.
    #[inline(always)]
    pub(super) fn prefetch(&self, slot: Slot) {
        if is_v6(slot) {
            self.v6.get(slot >> 1).map(mbuf::prefetch);
        } else {
            self.v4.get(slot >> 1).map(mbuf::prefetch);
        }
    }

    /// [`Records::prefetch`] for a word that may name no record.
    pub(super) fn prefetch_if_any(&self, slot: Slot) {
        // A head of the wheel has the highest bit too.
        if slot >> 31 == 0 {
            self.prefetch(slot);
        }
    }

    /// Take a record for a state with these keys, of one version; `None` if there is no room.
    pub(super) fn take(&mut self, original: Key, reply: Key) -> Option<Slot> {
        match (original, reply) {
            (Key::V4(original), Key::V4(reply)) => {
                let index = self.v4.take()?;
                let record = self.v4.at_mut(index);
                record.addrs = [original.addrs, reply.addrs];
                record.ports = [original.ports, reply.ports];
                Some(index << 1)
            }
            (Key::V6(original), Key::V6(reply)) => {
                let index = self.v6.take()?;
                let record = self.v6.at_mut(index);
                record.addrs = [original.addrs, reply.addrs];
                record.ports = [original.ports, reply.ports];
                Some(index << 1 | 1)
            }
            _ => None,
        }
    }

    pub(super) fn give_back(&mut self, slot: Slot) {
        if is_v6(slot) { self.v6.give_back(slot >> 1) } else { self.v4.give_back(slot >> 1) }
    }

    /// How many slots there are to walk, of each version.
    pub(super) fn lens(&self) -> [u32; 2] {
        [self.v4.len, self.v6.len]
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }
}

/// A list through the records by their `pair`, the oldest first.
pub(super) struct List {
    oldest: u32,
    newest: u32,
    len: usize,
    flag: u16,
}

impl List {
    /// A list whose members have `flag`.
    pub(super) const fn new(flag: u16) -> List {
        List { oldest: NONE, newest: NONE, len: 0, flag }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn oldest(&self) -> Option<Slot> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Append a record that is in no list.
    pub(super) fn push(&mut self, records: &mut Records, slot: Slot) {
        let before = core::mem::replace(&mut self.newest, slot);
        let common = records.at_mut(slot);
        common.pair = [before, NONE];
        common.flags |= self.flag;
        match before {
            NONE => self.oldest = slot,
            before => records.at_mut(before).pair[1] = slot,
        }
        self.len += 1;
    }

    /// Remove a record if it is in this list.
    pub(super) fn remove(&mut self, records: &mut Records, slot: Slot) {
        let common = records.at_mut(slot);
        if !common.has(self.flag) {
            return;
        }
        common.flags &= !self.flag;
        let [older, newer] = core::mem::replace(&mut common.pair, [NONE; 2]);
        match older {
            NONE => self.oldest = newer,
            older => records.at_mut(older).pair[1] = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => records.at_mut(newer).pair[0] = older,
        }
        self.len -= 1;
    }
}
