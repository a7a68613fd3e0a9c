//! The records of a datagram with states: copies, ends, and where a walk through all states begins
//! and ends.
//!
//! Called by: `send.rs`, `session.rs`. A record begins with a byte that says what it is. Times are
//! in milliseconds. A state of IPv4 with TCP and NAT has some 80 bytes. A tuple is written once if
//! nothing translates it. What a record says is checked by the firewall that imports it; here it is
//! only read.

use base::{Duration, SeqNumber};
use filter::Tuple;
use filter::firewall::{Copied, CopiedMapping, CopiedSide, CopiedTcp, Copy};
use filter::states::Phase;

use crate::codec::{Reader, put_addr, put_small};
use crate::counts::Refused;

/// The first byte of a record.
const ENDED: u8 = 0;
const STATE: u8 = 1;
const ALL_BEGIN: u8 = 2;
const ALL_END: u8 = 3;

/// Bits of the second byte of a record about a flow.
const V6: u8 = 1;
const TRANSLATED: u8 = 1 << 1;
const LOOSE: u8 = 1 << 2;
const ICMP: u8 = 1 << 3;
const TCP: u8 = 1 << 4;
const OF_SOURCE: u8 = 1 << 5;
const OF_DESTINATION: u8 = 1 << 6;

/// The longest record, a state of IPv6 with TCP and NAT, has fewer bytes.
pub(crate) const LONGEST: usize = 192;

/// A record. Ports of copies are places in the sender's list of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Copy(Copy),
    /// All states follow, as this request asked.
    AllBegin(u32),
    AllEnd(u32),
}

impl Record {
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        match self {
            Record::AllBegin(request) | Record::AllEnd(request) => {
                let is_end = matches!(self, Record::AllEnd(_));
                to.push(if is_end { ALL_END } else { ALL_BEGIN });
                to.extend(request.to_be_bytes());
            }
            Record::Copy(Copy::Ended(tuple)) => {
                to.extend([ENDED, if tuple.src.is_ipv6() { V6 } else { 0 }, tuple.protocol]);
                put_tuple(to, tuple);
            }
            Record::Copy(Copy::State(copied)) => put_state(to, copied),
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Record, Refused> {
        match from.byte()? {
            ALL_BEGIN => from.word().map(Record::AllBegin),
            ALL_END => from.word().map(Record::AllEnd),
            ENDED => {
                let [bits, protocol] = from.chunk()?;
                let tuple = tuple(from, bits & V6 != 0, protocol)?;
                Ok(Record::Copy(Copy::Ended(tuple)))
            }
            STATE => state(from).map(|copied| Record::Copy(Copy::State(copied))),
            _ => Err(Refused::Malformed),
        }
    }
}

fn put_tuple(to: &mut Vec<u8>, tuple: &Tuple) {
    put_addr(to, tuple.src);
    put_addr(to, tuple.dst);
    to.extend(tuple.src_port.to_be_bytes());
    to.extend(tuple.dst_port.to_be_bytes());
}

fn tuple(from: &mut Reader<'_>, is_v6: bool, protocol: u8) -> Result<Tuple, Refused> {
    let (src, dst) = (from.addr(is_v6)?, from.addr(is_v6)?);
    Ok(Tuple { src, dst, protocol, src_port: from.short()?, dst_port: from.short()? })
}

fn put_state(to: &mut Vec<u8>, copied: &Copied) {
    let is_translated = copied.reply != copied.original.reversed();
    let bits = [
        (V6, copied.original.src.is_ipv6()),
        (TRANSLATED, is_translated),
        (LOOSE, copied.loose),
        (ICMP, copied.icmp.is_some()),
        (TCP, copied.tcp.is_some()),
        (OF_SOURCE, copied.mapping == CopiedMapping::Source),
        (OF_DESTINATION, copied.mapping == CopiedMapping::Destination),
    ];
    let bits = bits.iter().fold(0, |all, (bit, is_set)| all | if *is_set { *bit } else { 0 });
    to.extend([STATE, bits, copied.original.protocol, copied.phase.number()]);
    put_tuple(to, &copied.original);
    if is_translated {
        put_tuple(to, &copied.reply);
    }
    to.extend(copied.in_port.to_be_bytes());
    to.extend(copied.out_port.to_be_bytes());
    put_small(to, copied.age.as_millis());
    put_small(to, copied.idle.as_millis());
    copied.packets.iter().chain(&copied.bytes).for_each(|count| put_small(to, *count));
    if let Some((kind, code)) = copied.icmp {
        to.extend([kind, code]);
    }
    if let Some(tcp) = &copied.tcp {
        to.extend([tcp.scales, tcp.flags]);
        for side in &tcp.sides {
            let words = [side.end.0, side.max_end.0, side.max_window];
            words.iter().for_each(|word| to.extend(word.to_be_bytes()));
        }
    }
}

fn state(from: &mut Reader<'_>) -> Result<Copied, Refused> {
    let [bits, protocol, phase] = from.chunk()?;
    let has = |bit: u8| bits & bit != 0;
    let phase = Phase::of(phase).ok_or(Refused::Malformed)?;
    let original = tuple(from, has(V6), protocol)?;
    let reply = match has(TRANSLATED) {
        true => tuple(from, has(V6), protocol)?,
        false => original.reversed(),
    };
    let (in_port, out_port) = (from.short()?, from.short()?);
    let [age, idle] = [from.small()?, from.small()?].map(Duration::from_millis);
    let packets = [from.small()?, from.small()?];
    let bytes = [from.small()?, from.small()?];
    let icmp = if has(ICMP) { Some((from.byte()?, from.byte()?)) } else { None };
    let tcp = if has(TCP) { Some(tcp(from)?) } else { None };
    let mapping = match (has(OF_SOURCE), has(OF_DESTINATION)) {
        (false, false) => CopiedMapping::None,
        (true, false) => CopiedMapping::Source,
        (false, true) => CopiedMapping::Destination,
        (true, true) => return Err(Refused::Malformed),
    };
    let loose = has(LOOSE);
    Ok(Copied {
        original,
        reply,
        phase,
        icmp,
        loose,
        in_port,
        out_port,
        age,
        idle,
        packets,
        bytes,
        tcp,
        mapping,
    })
}

fn tcp(from: &mut Reader<'_>) -> Result<CopiedTcp, Refused> {
    let [scales, flags] = from.chunk()?;
    let mut sides = [CopiedSide::default(); 2];
    for side in &mut sides {
        side.end = SeqNumber(from.word()?);
        side.max_end = SeqNumber(from.word()?);
        side.max_window = from.word()?;
    }
    Ok(CopiedTcp { sides, scales, flags })
}
