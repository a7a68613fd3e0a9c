//! A server's answer as a forwarder reads it: does it match, and which addresses does it have for
//! the name that was asked?
//!
//! Called by: `flight.rs` and `forwarder.rs`. RFC 5452 section 9.1 (what must match), RFC 1034
//! section 3.6.2 (aliases), RFC 9460 (HTTPS and SVCB). The crate `domain` reads records, every name
//! in bounded time.

use core::net::IpAddr;

use base::Duration;
use domain::base::iana::{Class, Rtype};
use domain::base::message::Message;
use domain::base::{ParsedName, ParsedRecord};
use domain::rdata::svcb::SvcParams;
use domain::rdata::{A, Aaaa, Cname, Https, Svcb};

use super::policy::{Learned, Target};
use super::question::HEADER;
use crate::dns::DomainName;
use crate::dns::limits::{ADDRESSES_MAX, ALIASES_MAX, RECORDS_MAX, TARGETS_MAX, TTL_MAX};
use crate::dns::message::{domain_name, lifetime};

const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;

/// Why a message is no answer to the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    Malformed,
    OtherQuestion,
    /// It is the same question but for the case of its letters.
    Case,
}

/// Does the message answer the question that was sent? `sent` is the whole message that was sent,
/// whose question ends at `end`. A server that cannot read a question need not repeat it.
pub(super) fn matches(sent: &[u8], end: usize, answer: &[u8]) -> Result<(), Mismatch> {
    let header = answer.first_chunk::<HEADER>().ok_or(Mismatch::Malformed)?;
    if header[..2] != sent[..2] || header[2] & RESPONSE == 0 || header[2] & OPCODE != 0 {
        return Err(Mismatch::OtherQuestion);
    }
    if header[4..6] == [0, 0] && is_failure(answer) {
        return Ok(());
    }
    let (Some(ours), Some(theirs)) = (sent.get(HEADER..end), answer.get(HEADER..end)) else {
        return Err(Mismatch::OtherQuestion);
    };
    let (name, fields) = ours.split_at(ours.len() - 4);
    let (their_name, their_fields) = theirs.split_at(theirs.len() - 4);
    if header[4..6] != [0, 1] || fields != their_fields || !name.eq_ignore_ascii_case(their_name) {
        return Err(Mismatch::OtherQuestion);
    }
    if name == their_name { Ok(()) } else { Err(Mismatch::Case) }
}

/// Does the server say that it cannot or will not answer: FORMERR, SERVFAIL, NOTIMP, REFUSED?
pub(super) fn is_failure(answer: &[u8]) -> bool {
    answer.get(3).is_some_and(|flags| matches!(flags & 0x0f, 1 | 2 | 4 | 5))
}

/// The names and addresses of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) aliases: Vec<DomainName>,
    pub(super) addresses: Vec<Learned>,
    pub(super) targets: Vec<Target>,
}

/// Addresses and aliases with their owners, as they are in the message.
#[derive(Default)]
struct Records {
    aliases: Vec<(DomainName, DomainName, Duration)>,
    addresses: Vec<(DomainName, Learned)>,
    targets: Vec<(DomainName, Target)>,
}

/// The aliases of `name`, and the addresses and targets at their end; `None` if the answer section
/// is malformed.
pub(super) fn contents(answer: &[u8], name: &DomainName) -> Option<Contents> {
    let message = Message::from_octets(answer).ok()?;
    let records = records(&message)?;
    let (mut found, mut ttl) = (Contents::default(), TTL_MAX);
    let mut end = name;
    for _ in 0..=ALIASES_MAX {
        for (_, learned) in records.addresses.iter().filter(|(owner, _)| owner == end) {
            let learned = Learned { ttl: learned.ttl.min(ttl), ..*learned };
            if !found.addresses.iter().any(|other| other.address == learned.address) {
                found.addresses.push(learned);
            }
        }
        for (_, target) in records.targets.iter().filter(|(owner, _)| owner == end) {
            let is_known = |other: &Target| other.name == target.name;
            if target.name != *name && !found.targets.iter().any(is_known) {
                found.targets.push(Target { ttl: target.ttl.min(ttl), ..target.clone() });
            }
        }
        let Some((_, target, lifetime)) = records.aliases.iter().find(|(owner, ..)| owner == end)
        else {
            break;
        };
        if target == name || found.aliases.contains(target) || found.aliases.len() == ALIASES_MAX {
            break;
        }
        ttl = ttl.min(*lifetime);
        found.aliases.push(target.clone());
        end = target;
    }
    Some(found)
}

fn records(message: &Message<&[u8]>) -> Option<Records> {
    let mut records = Records::default();
    if message.sole_question().is_err() && message.header_counts().qdcount() > 0 {
        return None;
    }
    for record in message.answer().ok()?.take(RECORDS_MAX) {
        let record = record.ok()?;
        if record.class() != Class::IN {
            continue;
        }
        let (owner, ttl) = (domain_name(record.owner()), lifetime(record.ttl().as_secs()));
        if record.rtype() == Rtype::CNAME {
            let record = record.to_record::<Cname<_>>().ok()??;
            let target = domain_name(record.data().cname().ref_octets());
            if records.aliases.len() <= ALIASES_MAX {
                records.aliases.push((owner, target, ttl));
            }
            continue;
        }
        let target = target(&record).filter(|target| *target != owner);
        if records.targets.len() < TARGETS_MAX {
            let named = target.map(|name| (owner.clone(), Target { name, ttl }));
            records.targets.extend(named);
        }
        let (addresses, is_hint) = addresses(&record)?;
        let room = ADDRESSES_MAX.saturating_sub(records.addresses.len());
        let learned = addresses.into_iter().map(|address| Learned { address, ttl, is_hint });
        records.addresses.extend(learned.take(room).map(|learned| (owner.clone(), learned)));
    }
    Some(records)
}

/// The addresses of a record, and whether they are hints; `None` if it is malformed. Hints of a
/// malformed HTTPS record are no addresses.
fn addresses(record: &ParsedRecord<'_, &[u8]>) -> Option<(Vec<IpAddr>, bool)> {
    Some(match record.rtype() {
        Rtype::A => (vec![IpAddr::V4(record.to_record::<A>().ok()??.data().addr())], false),
        Rtype::AAAA => (vec![IpAddr::V6(record.to_record::<Aaaa>().ok()??.data().addr())], false),
        Rtype::HTTPS => {
            let parsed = record.to_record::<Https<_, ParsedName<_>>>();
            let hinted = parsed.ok().flatten().map(|record| hints(record.data().params()));
            (hinted.unwrap_or_default(), true)
        }
        Rtype::SVCB => {
            let parsed = record.to_record::<Svcb<_, ParsedName<_>>>();
            let hinted = parsed.ok().flatten().map(|record| hints(record.data().params()));
            (hinted.unwrap_or_default(), true)
        }
        _ => (Vec::new(), false),
    })
}

/// The TargetName of an HTTPS or SVCB record; `None` if it is the record's owner, or malformed.
fn target(record: &ParsedRecord<'_, &[u8]>) -> Option<DomainName> {
    let name = match record.rtype() {
        Rtype::HTTPS => {
            let parsed = record.to_record::<Https<_, ParsedName<_>>>().ok().flatten()?;
            domain_name(parsed.data().target().ref_octets())
        }
        Rtype::SVCB => {
            let parsed = record.to_record::<Svcb<_, ParsedName<_>>>().ok().flatten()?;
            domain_name(parsed.data().target().ref_octets())
        }
        _ => return None,
    };
    // The root stands for the owner (RFC 9460 section 2.5).
    let is_root = name.labels().next().is_none();
    (!is_root).then_some(name)
}

/// The values of the parameters ipv4hint and ipv6hint.
fn hints<Octets: AsRef<[u8]> + ?Sized>(params: &SvcParams<Octets>) -> Vec<IpAddr> {
    const IPV4_HINT: u16 = 4;
    const IPV6_HINT: u16 = 6;
    let (mut found, mut rest) = (Vec::new(), params.as_slice());
    while let Some((&[a, b, c, d], behind)) = rest.split_first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([c, d]));
        let Some((value, behind)) = behind.split_at_checked(length) else { break };
        rest = behind;
        match u16::from_be_bytes([a, b]) {
            IPV4_HINT => found.extend(value.as_chunks::<4>().0.iter().map(|&o| IpAddr::from(o))),
            IPV6_HINT => found.extend(value.as_chunks::<16>().0.iter().map(|&o| IpAddr::from(o))),
            _ => {}
        }
    }
    found.truncate(ADDRESSES_MAX);
    found
}
