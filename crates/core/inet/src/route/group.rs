//! Next-hop groups: each prefix leads to a group. Prefixes with the same next hop, or the same set
//! of next hops, share a group. It is freed when the last of these prefixes is removed.
//!
//! Called by: `fib.rs`. A group of one next hop is a record of eight words. A group of several
//! (ECMP) names an array of buckets (`ecmp.rs`), each of which contains the group of one next hop.
//! RFC 2992.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::collections::BTreeMap;

use base::Mtu;

use super::arena::{Arena, Indices};
use super::ecmp::{self, BUCKETS, Share};
use super::epoch::{Epochs, Freed, Retired};
use super::{Discard, NextHop};

/// A next-hop group, as a lookup returns it. It means the same next hops as long as the burst of
/// the lookup lasts. [`GroupIndex::index`] is for an array of the caller, such as counters by
/// group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupIndex(pub(super) u32);

impl GroupIndex {
    /// Bits of a group's number.
    pub(super) const BITS: u32 = 22;
    pub(super) const MASK: u32 = (1 << Self::BITS) - 1;
    /// No route.
    pub const NONE: GroupIndex = GroupIndex(0);

    /// The number of the group, below 2^22; 0 is [`GroupIndex::NONE`]. When a group is freed, its
    /// number may be used again.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The hash of a packet's flow, which chooses one of several next hops. It is a hash of both
/// addresses.
#[inline(always)]
pub fn flow_v4(src: Ipv4Addr, dst: Ipv4Addr) -> u32 {
    dst.to_bits() ^ src.to_bits().rotate_left(1)
}

/// [`flow_v4`] for IPv6.
#[inline(always)]
pub fn flow_v6(src: Ipv6Addr, dst: Ipv6Addr) -> u32 {
    let flow = dst.to_bits() ^ src.to_bits().rotate_left(1);
    let flow = (flow ^ flow >> 64) as u64;
    (flow ^ flow >> 32) as u32
}

/// [`flow_v4`] or [`flow_v6`]; if there is no source, a hash of the destination.
#[inline]
pub(super) fn flow_of(src: Option<IpAddr>, dst: IpAddr) -> u32 {
    match (src, dst) {
        (Some(IpAddr::V4(src)), IpAddr::V4(dst)) => flow_v4(src, dst),
        (Some(IpAddr::V6(src)), IpAddr::V6(dst)) => flow_v6(src, dst),
        (_, IpAddr::V4(dst)) => flow_v4(Ipv4Addr::UNSPECIFIED, dst),
        (_, IpAddr::V6(dst)) => flow_v6(Ipv6Addr::UNSPECIFIED, dst),
    }
}

/// Words of a group's record.
const WORDS: usize = 8;
// The record: port and MTU; kind, with restrictions in its upper bits; four words of address.
const PORT_MTU: usize = 0;
const KIND: usize = 1;
const ADDR: usize = 2;
// Kinds.
const ON_LINK: u32 = 0;
const VIA_V4: u32 = 1;
const VIA_V6: u32 = 2;
const SEVERAL: u32 = 3;
const BLACKHOLE: u32 = 4;
const UNREACHABLE: u32 = 5;
const PROHIBIT: u32 = 6;
const KIND_MASK: u32 = 0xff;
const RESTRICTIONS: u32 = 8;

/// The next hop that a group leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Hop(NextHop),
    /// Its packets are dropped.
    Discard(Discard),
    /// Some senders may not use the group: the RIB has the details.
    Restricted,
    /// No route.
    Nothing,
}

/// The result of [`Groups::leads_by`]: does a group lead to a port?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// Whether one of the group's next hops is on the port.
    Known(bool),
    /// Its packets are dropped.
    Discard,
    /// Some senders may not use the group: the RIB has the details.
    Restricted,
    /// No route.
    Nothing,
}

impl Found {
    /// The next hop, if it can be used without the RIB.
    #[inline(always)]
    pub(super) fn hop(self) -> Option<NextHop> {
        match self {
            Found::Hop(hop) => Some(hop),
            Found::Discard(_) | Found::Restricted | Found::Nothing => None,
        }
    }
}

/// A next hop without a destination. If there is no gateway, the destination of a packet is the
/// neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path {
    pub(super) port: u16,
    pub(super) via: Option<IpAddr>,
    pub(super) mtu: Option<Mtu>,
    /// The restrictions: bits defined in `access.rs`.
    pub(super) restrictions: u32,
    /// Its packets are dropped.
    pub(super) discard: Option<Discard>,
}

/// The groups, in the form that readers use.
#[derive(Default)]
pub(super) struct Groups {
    records: Arena<WORDS>,
    buckets: Arena<BUCKETS>,
    /// There is, or was, a group of several next hops.
    pub(super) had_several: AtomicBool,
}

impl Groups {
    /// Do all packets of `group` have one next hop, whatever their destination?
    #[inline]
    pub(super) fn is_one_gateway(&self, group: GroupIndex) -> bool {
        let kind = |record: &[AtomicU32; WORDS]| record[KIND].load(Ordering::Relaxed) & KIND_MASK;
        self.records.get(group.0).is_some_and(|record| matches!(kind(record), VIA_V4 | VIA_V6))
    }

    /// The next hop of a packet to `dst` whose group was found. `flow` chooses among several next
    /// hops. If the group has one of these restrictions, the result is [`Found::Restricted`].
    #[inline(always)]
    pub(super) fn find(
        &self,
        group: GroupIndex,
        dst: IpAddr,
        flow: u32,
        restrictions: u32,
    ) -> Found {
        if group == GroupIndex::NONE {
            return Found::Nothing;
        }
        let Some(record) = self.records.get(group.0) else { return Found::Nothing };
        let kind = record[KIND].load(Ordering::Relaxed);
        if kind >> RESTRICTIONS & restrictions != 0 {
            return Found::Restricted;
        }
        self.hop(record, kind & KIND_MASK, dst, flow).unwrap_or(Found::Nothing)
    }

    /// Is one of the next hops of `group` on `port`? If the group has one of these restrictions,
    /// the result is [`Leads::Restricted`].
    #[inline]
    pub(super) fn leads_by(&self, group: GroupIndex, port: u16, restrictions: u32) -> Leads {
        let record = self.records.get(group.0).filter(|_| group != GroupIndex::NONE);
        let Some(record) = record else { return Leads::Nothing };
        let is_behind =
            |record: &[AtomicU32; WORDS]| record[PORT_MTU].load(Ordering::Relaxed) as u16 == port;
        let kind = record[KIND].load(Ordering::Relaxed);
        if kind >> RESTRICTIONS & restrictions != 0 {
            return Leads::Restricted;
        }
        if discard_of(kind & KIND_MASK).is_some() {
            return Leads::Discard;
        }
        if kind & KIND_MASK != SEVERAL {
            return Leads::Known(is_behind(record));
        }
        let Some(buckets) = self.buckets.get(record[ADDR].load(Ordering::Relaxed)) else {
            return Leads::Nothing;
        };
        let member = |bucket: &AtomicU32| self.records.get(bucket.load(Ordering::Relaxed));
        Leads::Known(buckets.iter().filter_map(member).any(is_behind))
    }

    #[inline(always)]
    fn hop(&self, record: &[AtomicU32; WORDS], kind: u32, dst: IpAddr, flow: u32) -> Option<Found> {
        let (mut record, mut kind) = (record, kind);
        if kind == SEVERAL {
            let buckets = self.buckets.get(record[ADDR].load(Ordering::Relaxed))?;
            record = self.records.get(buckets[ecmp::bucket(flow)].load(Ordering::Relaxed))?;
            kind = record[KIND].load(Ordering::Relaxed) & KIND_MASK;
        }
        let word = |at: usize| record[at].load(Ordering::Relaxed);
        let neighbour = match kind {
            VIA_V4 => Ipv4Addr::from_bits(word(ADDR)).into(),
            VIA_V6 => {
                let [a, b, c, d] = [0, 1, 2, 3].map(|at| u128::from(word(ADDR + at)));
                Ipv6Addr::from_bits(a << 96 | b << 64 | c << 32 | d).into()
            }
            ON_LINK => dst,
            other => return discard_of(other).map(Found::Discard),
        };
        let port_mtu = word(PORT_MTU);
        let mtu = Mtu::new((port_mtu >> 16) as usize);
        Some(Found::Hop(NextHop { port: port_mtu as u16, neighbour, mtu }))
    }

    fn write(&self, index: u32, path: &Path) {
        let Some(record) = self.records.make(index) else { return };
        let put = |at: usize, word: u32| record[at].store(word, Ordering::Relaxed);
        let mtu = path.mtu.map_or(0, |mtu| mtu.bytes() as u32);
        put(PORT_MTU, mtu << 16 | u32::from(path.port));
        let restrictions = path.restrictions << RESTRICTIONS;
        if let Some(discard) = path.discard {
            let kind = match discard {
                Discard::Blackhole => BLACKHOLE,
                Discard::Unreachable => UNREACHABLE,
                Discard::Prohibit => PROHIBIT,
            };
            return put(KIND, kind | restrictions);
        }
        match path.via {
            None => put(KIND, ON_LINK | restrictions),
            Some(IpAddr::V4(via)) => {
                put(ADDR, via.to_bits());
                put(KIND, VIA_V4 | restrictions);
            }
            Some(IpAddr::V6(via)) => {
                for (at, shift) in [96, 64, 32, 0].into_iter().enumerate() {
                    put(ADDR + at, (via.to_bits() >> shift) as u32);
                }
                put(KIND, VIA_V6 | restrictions);
            }
        }
    }

    /// The members of a group of several next hops, bucket by bucket; `None` for any other group.
    fn buckets_of(&self, group: GroupIndex) -> Option<[u32; BUCKETS]> {
        let record = self.records.get(group.0).filter(|_| group != GroupIndex::NONE)?;
        let is_several = record[KIND].load(Ordering::Relaxed) & KIND_MASK == SEVERAL;
        let buckets = self.buckets.get(record[ADDR].load(Ordering::Relaxed));
        let buckets = buckets.filter(|_| is_several)?;
        Some(core::array::from_fn(|at| buckets[at].load(Ordering::Relaxed)))
    }
}

/// The meaning of a kind that drops packets.
fn discard_of(kind: u32) -> Option<Discard> {
    match kind {
        BLACKHOLE => Some(Discard::Blackhole),
        UNREACHABLE => Some(Discard::Unreachable),
        PROHIBIT => Some(Discard::Prohibit),
        _ => None,
    }
}

/// What a group is: two groups with equal identities are the same group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    One(Path),
    /// Sorted by member.
    Several(Vec<Share>),
}

/// The writer's record of a group that is in use.
#[derive(Debug)]
struct Entry {
    identity: Identity,
    uses: u32,
}

/// The writer's record of all groups.
#[derive(Debug)]
pub(super) struct Registry {
    known: BTreeMap<Identity, u32>,
    entries: Vec<Option<Entry>>,
    records: Indices,
    buckets: Indices,
}

impl Default for Registry {
    fn default() -> Registry {
        // Number 0 means no group.
        let (records, buckets) = (Indices::new(1), Indices::new(0));
        Registry { known: BTreeMap::new(), entries: Vec::new(), records, buckets }
    }
}

impl Registry {
    /// The number of groups, including those that a reader may still use.
    pub(super) fn used(&self) -> usize {
        self.records.used().saturating_sub(1)
    }

    /// Returns the group of one next hop, and counts one more use of it.
    pub(super) fn one(&mut self, groups: &Groups, path: Path) -> GroupIndex {
        let (index, is_new) = self.enter(Identity::One(path));
        if is_new {
            groups.write(index, &path);
        }
        GroupIndex(index)
    }

    /// Returns the group of several next hops with weights, and counts one more use of it. A new
    /// group begins with the buckets of `before`, the group that the prefix had, so that flows keep
    /// their next hops.
    pub(super) fn several(
        &mut self,
        groups: &Groups,
        paths: impl Iterator<Item = (Path, u8)>,
        before: GroupIndex,
    ) -> GroupIndex {
        let mut shares: Vec<Share> = Vec::new();
        let mut restrictions = 0;
        for (path, weight) in paths {
            restrictions |= path.restrictions;
            let member = self.one(groups, path).0;
            if shares.iter().all(|share| share.member != member) {
                shares.push(Share { member, weight });
            } else {
                self.put_back(member);
            }
        }
        if let [only] = shares[..] {
            return GroupIndex(only.member);
        }
        shares.sort_unstable();
        let (index, is_new) = self.enter(Identity::Several(shares.clone()));
        if !is_new {
            // A group uses each of its members once, however many prefixes use the group.
            shares.iter().for_each(|share| self.put_back(share.member));
            return GroupIndex(index);
        }
        let before = groups.buckets_of(before).unwrap_or([before.0; BUCKETS]);
        let members = ecmp::distribute(before, &shares);
        let at = self.buckets.take();
        if let (Some(buckets), Some(record)) = (groups.buckets.make(at), groups.records.make(index))
        {
            for (bucket, member) in buckets.iter().zip(members) {
                bucket.store(member, Ordering::Relaxed);
            }
            record[ADDR].store(at, Ordering::Relaxed);
            let kind = SEVERAL | restrictions << RESTRICTIONS;
            record[KIND].store(kind, Ordering::Relaxed);
            groups.had_several.store(true, Ordering::Relaxed);
        }
        GroupIndex(index)
    }

    /// Note that a prefix does not use the group any more.
    pub(super) fn release(
        &mut self,
        groups: &Groups,
        group: GroupIndex,
        epochs: &Epochs,
        retired: &mut Retired<Freed>,
    ) {
        let Some(entry) = self.entries.get_mut(group.index()) else { return };
        let Some(used) = entry.as_mut() else { return };
        used.uses -= 1;
        if used.uses > 0 {
            return;
        }
        let Some(Entry { identity, .. }) = entry.take() else { return };
        self.known.remove(&identity);
        retired.push(epochs, Freed::Group(group.0));
        if let Identity::Several(shares) = identity {
            let at = groups.records.get(group.0).map(|r| r[ADDR].load(Ordering::Relaxed));
            retired.push(epochs, Freed::Buckets(at.unwrap_or_default()));
            for share in shares {
                self.release(groups, GroupIndex(share.member), epochs, retired);
            }
        }
    }

    /// Note that no reader uses the group any more: its record may be used again.
    pub(super) fn free(&mut self, group: u32) {
        self.records.give_back(group);
    }

    /// Note that no reader uses these buckets any more: they may be used again.
    pub(super) fn free_buckets(&mut self, at: u32) {
        self.buckets.give_back(at);
    }

    /// Undo one use of a group that has other uses.
    fn put_back(&mut self, index: u32) {
        if let Some(Some(entry)) = self.entries.get_mut(index as usize) {
            entry.uses -= 1;
        }
    }

    /// Count one more use of the group with this identity, and create the group if it is new.
    fn enter(&mut self, identity: Identity) -> (u32, bool) {
        if let Some(&index) = self.known.get(&identity) {
            if let Some(Some(entry)) = self.entries.get_mut(index as usize) {
                entry.uses += 1;
            }
            return (index, false);
        }
        let index = self.records.take();
        if self.entries.len() <= index as usize {
            self.entries.resize_with(index as usize + 1, || None);
        }
        self.known.insert(identity.clone(), index);
        if let Some(entry) = self.entries.get_mut(index as usize) {
            *entry = Some(Entry { identity, uses: 1 });
        }
        (index, true)
    }
}
