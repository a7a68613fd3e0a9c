//! IGMP and MLD: any message to the parsers, and any queries and joins, at any time, to the groups
//! of a port. Messages that are sent can be read, nothing is due without end, and nothing grows.
//!
//! Called by: the target `group`. The input is a script; checksums are put right.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arbitrary::{Result, Unstructured};
use base::{Duration, Instant, IpVersion, KeyedHash};
use inet::group::check::{self, Arrived};
use inet::group::{Filter, Host, is_reported};
use wire::checksum::Sum;
use wire::group::{Message, RecordKind};
use wire::{icmpv6, igmp, mld};

use crate::craft;

const STEPS_MAX: usize = 200;
/// Groups and sources of a script.
const GROUPS: u8 = 6;
const SOURCES: u8 = 8;
/// Sources of a query that are answered one by one.
const ASKED_MAX: usize = 512;
/// Messages that one deadline may draw: each group has a report, a leave message, and records of
/// two kinds, and a small room takes a record or two.
const MESSAGES_MAX: usize = 400;
const OURS_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Any messages, joins and times.
///
/// # Panics
/// On a finding.
pub fn any_query(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let is_v4 = u.arbitrary::<bool>().unwrap_or(true);
    let version = if is_v4 { IpVersion::V4 } else { IpVersion::V6 };
    let mut script = Script {
        version,
        host: Host::new(version, KeyedHash::new(1, 2), 0),
        now: Instant::from_nanos(5_000_000_000),
    };
    for _ in 0..STEPS_MAX {
        if u.is_empty() || script.step(&mut u).is_err() {
            break;
        }
        assert!(script.host.len() <= usize::from(GROUPS), "{} groups", script.host.len());
    }
    script.finish();
}

struct Script {
    version: IpVersion,
    host: Host,
    now: Instant,
}

impl Script {
    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        match u.arbitrary::<u8>()? {
            0..=127 => self.hear(u)?,
            128..=191 => {
                let (group, filter) = (self.group(u)?, self.filter(u)?);
                self.host.set(group, filter, self.now);
            }
            192..=223 => self.now += Duration::from_millis(u.arbitrary::<u16>()?.into()),
            _ => {
                let most = self.now + Duration::from_secs(1 << 16);
                self.now = self.now.max(self.host.next_deadline().min(most));
            }
        }
        if u.arbitrary::<u8>()? < 224 {
            self.send(u.arbitrary::<u16>()?)?;
        }
        Ok(())
    }

    fn group(&self, u: &mut Unstructured<'_>) -> Result<IpAddr> {
        let number = u.arbitrary::<u8>()? % GROUPS;
        Ok(match self.version {
            IpVersion::V4 => Ipv4Addr::new(224, 0, 0, number).into(),
            // Host scope, link scope with all nodes, global scope.
            IpVersion::V6 => {
                let scope = [0xff01, 0xff02, 0xff0e][usize::from(number) / 2];
                Ipv6Addr::new(scope, 0, 0, 0, 0, 0, 0, 1 + u16::from(number % 2)).into()
            }
        })
    }

    fn filter(&self, u: &mut Unstructured<'_>) -> Result<Filter> {
        let (mode, set) = (u.arbitrary::<u8>()?, u.arbitrary::<u8>()?);
        let sources = (0..SOURCES).filter(|n| set >> n & 1 != 0).map(|n| match self.version {
            IpVersion::V4 => IpAddr::from([192, 0, 2, 1 + n]),
            IpVersion::V6 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x10 + u16::from(n)).into(),
        });
        Ok(match mode % 4 {
            0 => Filter::NOTHING,
            1 => Filter::ANYTHING,
            2 => Filter::include(sources),
            _ => Filter::exclude(sources),
        })
    }

    /// A message from the link, of any length, most of them of a type that is known.
    fn hear(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let len = usize::from(u.arbitrary::<u8>()?);
        let mut bytes = u.bytes(len.min(u.len()))?.to_vec();
        let is_v4 = self.version == IpVersion::V4;
        let (kinds, at): (&[u8], usize) = match is_v4 {
            true => (&[igmp::QUERY, igmp::QUERY, igmp::REPORT_V2, igmp::REPORT_V3], 4),
            false => (&[mld::QUERY, mld::QUERY, mld::REPORT_V1, mld::REPORT_V2], 8),
        };
        let how: u8 = u.arbitrary()?;
        if let (0..=239, Some(first)) = (how, bytes.first_mut()) {
            *first = kinds[usize::from(how & 3)];
        }
        let group = self.group(u)?;
        if let (true, Some(place)) = (how & 4 != 0, bytes.get_mut(at..at + at * 2)) {
            match group {
                IpAddr::V4(group) => place[..4].copy_from_slice(&group.octets()),
                IpAddr::V6(group) => place.copy_from_slice(&group.octets()),
            }
        }
        let pseudo = Sum::pseudo_v6(OURS_V6, ALL_NODES_V6, wire::protocol::ICMPV6);
        let pseudo = pseudo.plus(Sum::of_be16(bytes.len() as u16));
        craft::fix_checksum(&mut bytes, 2, if is_v4 { Sum::ZERO } else { pseudo });
        let arrived = |src| Arrived { src, ttl: 1, router_alert: true };
        let message = match is_v4 {
            true => check::igmp(&bytes, &arrived(IpAddr::from([192, 0, 2, 1]))),
            false => check::mld(&bytes, &arrived(OURS_V6.into())),
        };
        match message {
            Ok(Message::Query(query)) => self.host.query(&query, self.now),
            Ok(Message::Report(_, group)) => self.host.heard_report(group, self.now),
            Ok(other) => panic!("nothing for a host: {other:?}"),
            Err(_) => {}
        }
        // Messages that only routers take are parsed all the same.
        let parsed = if is_v4 { igmp::parse(&bytes) } else { mld::parse(&bytes) };
        if let Ok(Message::Records(records)) = parsed {
            let sources = records.iter().map(|record| record.sources.iter().count());
            assert!(sources.sum::<usize>() * 4 <= bytes.len());
        }
        Ok(())
    }

    /// Send the messages that are due, and check them by the parsers.
    fn send(&mut self, room: u16) -> Result<()> {
        let room = 64 + usize::from(room) % 1_400;
        let src = match self.version {
            IpVersion::V4 => IpAddr::from([192, 0, 2, 9]),
            IpVersion::V6 => OURS_V6.into(),
        };
        for count in 0.. {
            assert!(count < MESSAGES_MAX, "messages without end");
            if self.host.next_deadline() > self.now {
                break;
            }
            self.host.expire(self.now);
            while let Some(message) = self.host.next_message(src, room) {
                self.check(&message, room);
            }
        }
        Ok(())
    }

    fn check(&self, sent: &inet::group::Message, room: usize) {
        let bytes = &sent.bytes;
        assert!(bytes.len() <= room, "{} bytes, {room} may", bytes.len());
        let message = match sent.dst {
            IpAddr::V4(_) => igmp::parse(bytes),
            IpAddr::V6(dst) => {
                icmpv6::Header::parse(bytes, OURS_V6, dst).expect("its checksum is right");
                mld::parse(bytes)
            }
        };
        match message.expect("what is sent can be read") {
            Message::Query(query) => panic!("hosts ask nobody: {query:?}"),
            Message::Report(_, group) | Message::Leave(group) => {
                assert!(is_reported(group), "{group} is everybody's");
            }
            Message::Records(records) => {
                for record in records.iter() {
                    assert!(is_reported(record.group), "{} is everybody's", record.group);
                    let count = record.sources.iter().count();
                    // An answer about sources has the sources that were asked for and are wanted.
                    let answers = record.kind == RecordKind::IsInclude;
                    let most = if answers { ASKED_MAX } else { usize::from(SOURCES) };
                    assert!(count <= most, "{count} sources");
                    let none = matches!(record.kind, RecordKind::Allow | RecordKind::Block);
                    assert!(!none || count > 0, "a record that says nothing");
                }
            }
        }
    }

    /// All groups are left: after a while nothing is due, and nothing is kept.
    fn finish(mut self) {
        let groups: Vec<IpAddr> = self.host.rows().map(|row| row.group).collect();
        for group in groups {
            self.host.set(group, Filter::NOTHING, self.now);
        }
        for _ in 0..1_000 {
            if self.host.next_deadline() == Instant::NEVER {
                break;
            }
            self.now = self.now.max(self.host.next_deadline());
            let _ = self.send(1_400);
        }
        assert_eq!(self.host.next_deadline(), Instant::NEVER, "something is always due");
        assert_eq!(self.host.len(), 0, "groups are left");
    }
}
