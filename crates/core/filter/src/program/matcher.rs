//! A list of matches, compiled: which is the first that a packet fits?
//!
//! Called by: `Program`, once for rules of the filter and for each direction of NAT. Each field of
//! a packet has a class; each class a row of bits, one for each rule that the field's value fits. A
//! rule whose bit is in the rows of all fields matches. A row's first word says which of its words
//! have bits at all, so that few words are read however many rules there are. Fields that no rule
//! asks for do not exist. Cost of a packet: a search and one to two cache lines of a row for each
//! field.

use core::net::IpAddr;

use base::IpVersion;

use super::TooLarge;
use super::search::{Direct, Services, Trie};
use super::sweep::{Intervals, Wanted, sweep};
use crate::packet::Packet;
use crate::rules::{Hosts, Match, Ports, Service};
use crate::sets::{Range, Set, join, range};

/// Matches that a list may have: the first word of a row has a bit for each word of 64.
pub(super) const MATCHES_MAX: usize = 64 * 64;
/// Words of a cache line.
const LINE: usize = 8;
/// In port, out port, source, destination, service, source port, flags.
const FIELDS: usize = 7;

/// The rows of a field.
#[derive(Debug)]
struct Rows {
    words: Vec<u64>,
    /// The first row, at a cache line.
    start: usize,
    /// From row to row: a part of a line that divides it, or whole lines.
    stride: usize,
}

impl Rows {
    fn new(rows: &[Vec<u64>]) -> Rows {
        let len = 1 + rows.first().map_or(0, Vec::len);
        let stride = if len < LINE { len.next_power_of_two() } else { len.next_multiple_of(LINE) };
        let mut words = vec![0u64; rows.len() * stride + LINE];
        let start = words.as_ptr().align_offset(64).min(LINE);
        for (row, place) in rows.iter().zip(words[start..].chunks_mut(stride)) {
            for (number, &word) in row.iter().enumerate() {
                place[0] |= u64::from(word != 0) << number;
                place[1 + number] = word;
            }
        }
        Rows { words, start, stride }
    }

    #[inline]
    fn row(&self, class: u16) -> &[u64] {
        let at = self.start + usize::from(class) * self.stride;
        self.words.get(at..at + self.stride).unwrap_or(&[0])
    }
}

#[derive(Debug)]
struct Field<S> {
    search: S,
    rows: Rows,
}

impl<S> Field<S> {
    fn new<K>(
        intervals: Option<Intervals<K>>,
        search: impl FnOnce(&Intervals<K>) -> S,
    ) -> Option<Field<S>> {
        let intervals = intervals?;
        Some(Field { search: search(&intervals), rows: Rows::new(&intervals.rows) })
    }
}

/// A compiled list of matches.
#[derive(Debug)]
pub(super) struct Matcher {
    /// A bit for each word of a row.
    words: u64,
    in_port: Option<Field<Direct>>,
    out_port: Option<Field<Direct>>,
    from_v4: Option<Field<Trie>>,
    to_v4: Option<Field<Trie>>,
    from_v6: Option<Field<Trie>>,
    to_v6: Option<Field<Trie>>,
    service: Option<Field<Services>>,
    from_port: Option<Field<Services>>,
    flags: Option<Field<Direct>>,
}

impl Matcher {
    pub(super) fn compile(matches: &[&Match], sets: &[Set]) -> Result<Matcher, TooLarge> {
        if matches.len() > MATCHES_MAX {
            return Err(TooLarge::Rules);
        }
        let ports = |of: fn(&Match) -> &Ports| small(matches, |one| port_values(of(one)));
        let from = |one: &Match| one.from.clone();
        let to = |one: &Match| one.to.clone();
        let flags = |one: &Match| {
            let flags = one.flags?;
            let values = (0..=u8::MAX).filter(|&value| flags.contains(value));
            Some((values.map(|value| (value.into(), value.into())).collect(), false))
        };
        let services = |one: &Match| {
            let values = one.services.iter().map(|service: &Service| {
                let of = |port: u16| u32::from(service.protocol) << 16 | u32::from(port);
                (of(service.first), of(service.last))
            });
            (!one.services.is_empty()).then(|| (values.collect(), false))
        };
        let from_ports = |one: &Match| {
            let values = one.from_ports.iter().map(|&(first, last)| (first.into(), last.into()));
            (!one.from_ports.is_empty()).then(|| (values.collect(), false))
        };
        let words = matches.len().div_ceil(64) as u32;
        Ok(Matcher {
            words: u64::MAX.checked_shr(64 - words).unwrap_or(0),
            in_port: Field::new(ports(|one| &one.in_ports)?, Direct::new),
            out_port: Field::new(ports(|one| &one.out_ports)?, Direct::new),
            from_v4: Field::new(v4(matches, sets, from)?, |of| Trie::new(of, 32)),
            to_v4: Field::new(v4(matches, sets, to)?, |of| Trie::new(of, 32)),
            from_v6: Field::new(v6(matches, sets, from)?, |of| Trie::new(of, 128)),
            to_v6: Field::new(v6(matches, sets, to)?, |of| Trie::new(of, 128)),
            service: Field::new(small(matches, services)?, |of| Services::new(of, 1 << 8)),
            from_port: Field::new(small(matches, from_ports)?, |of| Services::new(of, 1)),
            flags: Field::new(small(matches, flags)?, Direct::new),
        })
    }

    /// The first match that the packet fits.
    #[inline]
    pub(super) fn first(&self, packet: &Packet) -> Option<u16> {
        let mut rows: [&[u64]; FIELDS] = [&[]; FIELDS];
        let (mut count, mut words) = (0usize, self.words);
        self.rows(packet, |row| {
            words &= row.first().copied().unwrap_or(0);
            if let Some(free) = rows.get_mut(count) {
                *free = row;
                count += 1;
            }
        });
        first_common(words, rows.get(..count)?)
    }

    /// The rows of the packet's fields.
    #[inline(always)]
    fn rows<'m>(&'m self, packet: &Packet, mut put: impl FnMut(&'m [u64])) {
        let tuple = &packet.tuple;
        match (tuple.src, tuple.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                if let Some(f) = &self.to_v4 {
                    put(f.rows.row(f.search.find_v4(dst.to_bits())));
                }
                if let Some(f) = &self.from_v4 {
                    put(f.rows.row(f.search.find_v4(src.to_bits())));
                }
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                if let Some(f) = &self.to_v6 {
                    put(f.rows.row(f.search.find_v6(dst.to_bits())));
                }
                if let Some(f) = &self.from_v6 {
                    put(f.rows.row(f.search.find_v6(src.to_bits())));
                }
            }
            // No packet has addresses of two versions: none matches.
            _ => put(&[0; LINE]),
        }
        if let Some(f) = &self.service {
            put(f.rows.row(f.search.find(Service::number(packet))));
        }
        if let Some(f) = &self.in_port {
            put(f.rows.row(f.search.find(packet.in_port)));
        }
        if let Some(f) = &self.out_port {
            put(f.rows.row(f.search.find(packet.out_port)));
        }
        if let Some(f) = &self.from_port {
            put(f.rows.row(f.search.find(tuple.src_port.into())));
        }
        if let Some(f) = &self.flags {
            put(f.rows.row(f.search.find(packet.tcp_flags.into())));
        }
    }
}

/// The first bit that all rows have, in the words of which `words` has a bit.
#[inline]
fn first_common(mut words: u64, rows: &[&[u64]]) -> Option<u16> {
    while words != 0 {
        let number = words.trailing_zeros();
        let word = |row: &&[u64]| row.get(1 + number as usize).copied().unwrap_or(0);
        let bits = rows.iter().map(word).fold(u64::MAX, |all, one| all & one);
        if bits != 0 {
            return Some((number * 64 + bits.trailing_zeros()) as u16);
        }
        words &= words - 1;
    }
    None
}

/// Ranges that a match asks for, or all but them; `None`: every value fits.
type Asked<K> = Option<(Vec<(K, K)>, bool)>;

fn port_values(ports: &Ports) -> Asked<u32> {
    let of = |list: &[u16]| list.iter().map(|&port| (port.into(), port.into())).collect();
    match ports {
        Ports::Any => None,
        Ports::Of(list) => Some((of(list), false)),
        Ports::Not(list) => Some((of(list), true)),
    }
}

/// The intervals of a field whose ranges are each match's own.
fn small(
    matches: &[&Match],
    asked: impl Fn(&Match) -> Asked<u32>,
) -> Result<Option<Intervals<u32>>, TooLarge> {
    let (mut operands, mut wanted) = (Vec::new(), Vec::new());
    for one in matches {
        let Some((mut ranges, negated)) = asked(one) else {
            wanted.push(Wanted::All);
            continue;
        };
        join(&mut ranges, |last| last.checked_add(1));
        wanted.push(Wanted::Operands { operands: vec![operands.len() as u32], negated });
        operands.push(ranges);
    }
    let operands: Vec<&[(u32, u32)]> = operands.iter().map(Vec::as_slice).collect();
    sweep(&operands, &wanted, 0, |value| value.checked_add(1))
}

/// What matches ask of addresses of one version: the sets are the first operands.
fn hosts<K: Ord + Copy>(
    matches: &[&Match],
    sets: usize,
    version: IpVersion,
    hosts: fn(&Match) -> Hosts,
    of: fn(Range) -> Option<(K, K)>,
    after: fn(K) -> Option<K>,
) -> (Vec<Vec<(K, K)>>, Vec<Wanted>) {
    let (mut own, mut wanted) = (Vec::new(), Vec::new());
    for one in matches {
        let hosts = hosts(one);
        if one.version.is_some_and(|only| only != version) {
            wanted.push(Wanted::Never);
            continue;
        }
        if hosts.is_any() {
            wanted.push(Wanted::All);
            continue;
        }
        let mut operands: Vec<u32> = hosts.sets.iter().map(|&set| set as u32).collect();
        let mut ranges: Vec<(K, K)> = hosts.networks.iter().map(range).filter_map(of).collect();
        if !ranges.is_empty() {
            join(&mut ranges, after);
            operands.push((sets + own.len()) as u32);
            own.push(ranges);
        }
        wanted.push(Wanted::Operands { operands, negated: hosts.negated });
    }
    (own, wanted)
}

fn v4(
    matches: &[&Match],
    sets: &[Set],
    of_match: fn(&Match) -> Hosts,
) -> Result<Option<Intervals<u32>>, TooLarge> {
    let of = |range| match range {
        Range::V4(first, last) => Some((first, last)),
        Range::V6(..) => None,
    };
    let after = |last: u32| last.checked_add(1);
    let (own, wanted) = hosts(matches, sets.len(), IpVersion::V4, of_match, of, after);
    let named = used(&wanted, sets.len());
    let of_sets = sets.iter().zip(named).map(|(set, is_used)| match is_used {
        true => set.v4.as_slice(),
        false => &[],
    });
    let operands: Vec<&[(u32, u32)]> = of_sets.chain(own.iter().map(Vec::as_slice)).collect();
    sweep(&operands, &wanted, 0, after)
}

fn v6(
    matches: &[&Match],
    sets: &[Set],
    of_match: fn(&Match) -> Hosts,
) -> Result<Option<Intervals<u128>>, TooLarge> {
    let of = |range| match range {
        Range::V6(first, last) => Some((first, last)),
        Range::V4(..) => None,
    };
    let after = |last: u128| last.checked_add(1);
    let (own, wanted) = hosts(matches, sets.len(), IpVersion::V6, of_match, of, after);
    let named = used(&wanted, sets.len());
    let of_sets = sets.iter().zip(named).map(|(set, is_used)| match is_used {
        true => set.v6.as_slice(),
        false => &[],
    });
    let operands: Vec<&[(u128, u128)]> = of_sets.chain(own.iter().map(Vec::as_slice)).collect();
    sweep(&operands, &wanted, 0, after)
}

/// Which of the first `sets` operands a match asks for.
fn used(wanted: &[Wanted], sets: usize) -> Vec<bool> {
    let mut used = vec![false; sets];
    for wanted in wanted {
        if let Wanted::Operands { operands, .. } = wanted {
            for &operand in operands {
                if let Some(is_used) = used.get_mut(operand as usize) {
                    *is_used = true;
                }
            }
        }
    }
    used
}
