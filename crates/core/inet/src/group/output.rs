//! Makes IGMP and MLD messages: packs records into reports, and writes the IP headers.
//!
//! Called by: `host.rs` for messages, `stack/groups` for packets. RFC 3376 sections 4 and 4.2.16,
//! RFC 2236 section 9, RFC 2710 section 3, RFC 3810 sections 5 and 5.2.15.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::VecDeque;

use base::{IpVersion, LinkKind, MacAddr};
use wire::group::{RecordKind, Version, Writer};
use wire::{ether, igmp, ipv4, ipv6, mld, protocol};

use super::{ALL_ROUTERS, ALL_ROUTERS_V6, IGMPV3_ROUTERS, MLDV2_ROUTERS};
use crate::neighbour::group_mac;

/// The most bytes that precede a message in its frame: Ethernet, IPv6, hop-by-hop options.
pub const PACKET_HEADERS_MAX: usize = ether::HEADER_LEN + ipv6::HEADER_LEN + 8;

/// Precedence of internetwork control, RFC 3376 section 4.
const TOS: u8 = 0xc0;

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The destination.
    pub dst: IpAddr,
    /// The bytes of the message, checksum included.
    pub bytes: Vec<u8>,
}

/// A group record to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: RecordKind,
    pub(super) group: IpAddr,
    pub(super) sources: Vec<IpAddr>,
}

impl Record {
    pub(super) fn new(
        kind: RecordKind,
        group: IpAddr,
        sources: impl Iterator<Item = IpAddr>,
    ) -> Record {
        Record { kind, group, sources: sources.collect() }
    }
}

/// A record or an older message that waits to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Out {
    Record(Record),
    /// A report of an older version.
    Report(Version, IpAddr),
    Leave(IpAddr),
}

/// Take the next message out of `queue`. A report contains as many of the queued records as fit in
/// `room` bytes.
pub(super) fn next(queue: &mut VecDeque<Out>, src: IpAddr, room: usize) -> Option<Message> {
    let older = match queue.front()? {
        Out::Record(first) => {
            let version = IpVersion::of(&first.group);
            return Some(report(queue, version, src, room));
        }
        Out::Report(version, group) => older(Some(*version), *group, src),
        Out::Leave(group) => older(None, *group, src),
    };
    queue.pop_front();
    Some(older)
}

/// Make a report of an older version, or, if `report` is `None`, a leave message.
/// RFC 3376 7.2.1-b, RFC 3810 8.2.1-b.
fn older(report: Option<Version>, group: IpAddr, src: IpAddr) -> Message {
    match group {
        IpAddr::V4(group) => {
            let (kind, dst) = match report {
                Some(Version::V1) => (igmp::REPORT_V1, group),
                Some(_) => (igmp::REPORT_V2, group),
                None => (igmp::LEAVE, ALL_ROUTERS),
            };
            Message { dst: dst.into(), bytes: igmp::older(kind, group).to_vec() }
        }
        IpAddr::V6(group) => {
            let (kind, dst) = match report {
                Some(_) => (mld::REPORT_V1, group),
                None => (mld::DONE, ALL_ROUTERS_V6),
            };
            let bytes = mld::older(kind, group, (v6(src), dst)).to_vec();
            Message { dst: dst.into(), bytes }
        }
    }
}

/// Make a report of at most `room` bytes. RFC 3376 4.2.14-a, RFC 3810 5.2.14-a.
fn report(queue: &mut VecDeque<Out>, version: IpVersion, src: IpAddr, room: usize) -> Message {
    let mut bytes = vec![0; room.max(64)];
    let len = match Writer::new(&mut bytes) {
        None => 0,
        Some(mut records) => {
            fill(queue, version, &mut records);
            match version {
                IpVersion::V4 => igmp::report(records),
                IpVersion::V6 => mld::report(records, (v6(src), MLDV2_ROUTERS)),
            }
        }
    };
    bytes.truncate(len);
    let dst = match version {
        IpVersion::V4 => IpAddr::V4(IGMPV3_ROUTERS),
        IpVersion::V6 => IpAddr::V6(MLDV2_ROUTERS),
    };
    Message { dst, bytes }
}

/// Move records from the queue into a report.
/// RFC 3376 4.2.16-a, RFC 3810 5.2.15-a.
fn fill(queue: &mut VecDeque<Out>, version: IpVersion, records: &mut Writer<'_>) {
    while let Some(Out::Record(record)) = queue.front_mut() {
        let Some(room) = records.room(version) else { return };
        let (kind, group, count) = (record.kind, record.group, record.sources.len());
        let excludes = matches!(kind, RecordKind::IsExclude | RecordKind::ToExclude);
        // If the sources do not fit: excluded sources are left out, which makes the filter wider;
        // included ones go into a record of the next report.
        if count > room && !records.is_empty() {
            return;
        }
        let fits = count.min(room);
        records.push(kind, group, record.sources[..fits].iter());
        if fits == count || excludes || fits == 0 {
            queue.pop_front();
        } else {
            record.sources.drain(..fits);
            return;
        }
    }
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V6(a) => a,
        IpAddr::V4(_) => Ipv6Addr::UNSPECIFIED,
    }
}

/// Returns a frame with this message. It has a TTL or hop limit of 1, and the Router Alert option.
/// `None` if the addresses are of different versions.
/// RFC 3376 4-b, RFC 3810 5-a.
pub fn packet(link: LinkKind, mac: MacAddr, src: IpAddr, message: &Message) -> Option<Vec<u8>> {
    let mut frame = vec![0; link.header_len()];
    let len = message.bytes.len();
    let ethertype = match (src, message.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame.extend_from_slice(&v4_header(src, dst, len)?);
            ether::IPV4
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ipv6::Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: u16::try_from(ipv6::ROUTER_ALERT.len() + len).ok()?,
                next_header: protocol::HOP_BY_HOP,
                hop_limit: 1,
                src,
                dst,
            };
            let mut bytes = [0; ipv6::HEADER_LEN];
            header.emit(&mut bytes);
            frame.extend_from_slice(&bytes);
            frame.extend_from_slice(&ipv6::ROUTER_ALERT);
            ether::IPV6
        }
        _ => return None,
    };
    frame.extend_from_slice(&message.bytes);
    if link == LinkKind::Ethernet {
        let dst = group_mac(message.dst)?;
        ether::Header { dst, src: mac, ethertype }.emit(&mut frame);
    }
    Some(frame)
}

fn v4_header(src: Ipv4Addr, dst: Ipv4Addr, len: usize) -> Option<[u8; 24]> {
    let mut bytes = [0; 24];
    bytes[20..].copy_from_slice(&ipv4::ROUTER_ALERT);
    let header = ipv4::Header {
        header_len: bytes.len(),
        tos: TOS,
        total_len: u16::try_from(bytes.len() + len).ok()?,
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 1,
        protocol: protocol::IGMP,
        src,
        dst,
    };
    header.emit(&mut bytes).then_some(bytes)
}
