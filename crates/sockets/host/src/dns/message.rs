//! One question and its answer as messages (RFC 1035 section 4, RFC 2308, RFC 6891). The crate
//! `domain` reads answers, every name in bounded time: compression pointers lead backwards and are
//! counted (RFC 9267).
//!
//! Called by: `exchange.rs`; `forwarder` uses parts of it.

use core::net::IpAddr;

use base::Duration;
use domain::base::iana::{Class, Opcode, OptRcode, Rcode, Rtype};
use domain::base::name::ToLabelIter;
use domain::base::{Message, ParsedName};
use domain::rdata::{A, Aaaa, Cname, Soa};

use super::limits::{
    ADDRESSES_MAX, ALIASES_MAX, NEGATIVE_TTL_MAX, RECORDS_MAX, TTL_MAX, UDP_PAYLOAD_SIZE,
};
use super::name::DomainName;

/// The type of the records that a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

impl Kind {
    fn rtype(self) -> Rtype {
        match self {
            Kind::A => Rtype::A,
            Kind::Aaaa => Rtype::AAAA,
        }
    }
}

/// A question as it was sent.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: u16,
    /// The name in wire format, with letters in the case in which they were sent.
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
}

/// A server's answer for a name and a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Addresses(Vec<IpAddr>),
    /// The name is an alias of this one, about which the answer says no more.
    Alias(DomainName),
    /// There is such a name, without records of the type.
    NoData,
    /// There is no such name.
    NoName,
    /// The CNAMEs lead to each other, or there are more than [`ALIASES_MAX`].
    AliasLoop,
}

/// An answer, and how long it may be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) found: Found,
    pub(super) ttl: Duration,
}

/// A message that answers the question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Answer(Answer),
    /// The answer did not fit into the datagram: ask by TCP.
    Truncated,
    /// The server does not understand the question, perhaps because of EDNS.
    NotUnderstood,
    /// The server cannot or will not answer, or its answer is malformed.
    Failed,
}

/// Why a message is no answer to the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// Not a DNS message.
    Malformed,
    /// The id or the question is another one, or it is no response.
    OtherQuestion,
}

/// The message of a question, without a length in front: a header (RFC 1035 section 4.1.1) that
/// asks for recursion, the question, and the OPT record of EDNS (RFC 6891 section 6.1.2).
pub(super) fn query(question: &Question, edns: bool) -> Vec<u8> {
    const RECURSION_DESIRED: u16 = 0x0100;
    const ROOT: u8 = 0;
    let header = [question.id, RECURSION_DESIRED, 1, 0, 0, u16::from(edns)];
    let mut bytes: Vec<u8> = header.into_iter().flat_map(u16::to_be_bytes).collect();
    bytes.extend(&question.name);
    bytes.extend(question.kind.rtype().to_int().to_be_bytes());
    bytes.extend(Class::IN.to_int().to_be_bytes());
    if edns {
        bytes.push(ROOT);
        bytes.extend(Rtype::OPT.to_int().to_be_bytes());
        bytes.extend(UDP_PAYLOAD_SIZE.to_be_bytes());
        // The upper bits of the result code, the version, the flags, and no options.
        bytes.extend([0; 6]);
    }
    bytes
}

/// Read an answer. The flag says whether the question's letters came back in the case in which they
/// were sent.
pub(super) fn reply(question: &Question, bytes: &[u8]) -> Result<(Reply, bool), Mismatch> {
    let message = Message::from_octets(bytes).map_err(|_| Mismatch::Malformed)?;
    let header = message.header();
    if header.id() != question.id || !header.qr() || header.opcode() != Opcode::QUERY {
        return Err(Mismatch::OtherQuestion);
    }
    let rcode = header.rcode();
    let not_understood = matches!(rcode, Rcode::FORMERR | Rcode::NOTIMP);
    if message.header_counts().qdcount() == 0 && not_understood {
        // A server that could not read the question cannot repeat it.
        return Ok((Reply::NotUnderstood, true));
    }
    let asked = message.sole_question().map_err(|_| match message.header_counts().qdcount() {
        1 => Mismatch::Malformed,
        _ => Mismatch::OtherQuestion,
    })?;
    let wire = labels_of(&question.name);
    let labels = || asked.qname().iter_labels().map(|label| label.as_slice());
    let same = labels().zip(wire.iter().copied().chain([&[][..]]));
    if asked.qtype() != question.kind.rtype()
        || asked.qclass() != Class::IN
        || labels().count() != wire.len() + 1
        || !same.clone().all(|(a, b)| a.eq_ignore_ascii_case(b))
    {
        return Err(Mismatch::OtherQuestion);
    }
    let same_case = same.clone().all(|(a, b)| a == b);
    let reply = if header.tc() {
        Reply::Truncated
    } else if not_understood || message.opt_rcode() == OptRcode::BADVERS {
        Reply::NotUnderstood
    } else if rcode == Rcode::NOERROR || rcode == Rcode::NXDOMAIN {
        let name = DomainName::from_labels(wire.into_iter());
        match answer(&message, name, question.kind) {
            Some(answer) => Reply::Answer(answer),
            None => Reply::Failed,
        }
    } else {
        Reply::Failed
    };
    Ok((reply, same_case))
}

/// The labels of a name in wire format, the root not among them.
fn labels_of(wire: &[u8]) -> Vec<&[u8]> {
    let mut rest = wire;
    core::iter::from_fn(|| {
        let (&len, behind) = rest.split_first()?;
        let (label, behind) = behind.split_at_checked(len.into())?;
        rest = behind;
        (len > 0).then_some(label)
    })
    .collect()
}

pub(super) fn domain_name<Octets: AsRef<[u8]> + ?Sized>(name: ParsedName<&Octets>) -> DomainName {
    DomainName::from_labels(name.iter().map(|label| label.as_slice()))
}

/// The records of an answer section that matter.
#[derive(Default)]
struct Records {
    aliases: Vec<(DomainName, DomainName, Duration)>,
    addresses: Vec<(DomainName, IpAddr, Duration)>,
    any: bool,
}

/// The lifetime of a record; a number with the highest bit set stands for 0 (RFC 2181 section 8).
pub(super) fn lifetime(seconds: u32) -> Duration {
    let seconds = if seconds > i32::MAX as u32 { 0 } else { seconds };
    Duration::from_secs(seconds.into()).min(TTL_MAX)
}

/// The answer to `name` in a message without an error; `None` if it is malformed, or from a server
/// that only refers to others.
fn answer(message: &Message<&[u8]>, name: DomainName, kind: Kind) -> Option<Answer> {
    let records = records(message, kind)?;
    let (mut end, mut ttl) = (name, TTL_MAX);
    for _ in 0..=ALIASES_MAX {
        let ours = records.addresses.iter().filter(|(owner, ..)| *owner == end);
        let mut addresses = Vec::new();
        for (_, address, lifetime) in ours {
            if !addresses.contains(address) {
                addresses.push(*address);
            }
            ttl = ttl.min(*lifetime);
        }
        if !addresses.is_empty() {
            return Some(Answer { found: Found::Addresses(addresses), ttl });
        }
        let Some((_, target, lifetime)) = records.aliases.iter().find(|(owner, ..)| *owner == end)
        else {
            return negative(message, &records, end, ttl);
        };
        end = target.clone();
        ttl = ttl.min(*lifetime);
    }
    Some(Answer { found: Found::AliasLoop, ttl: Duration::ZERO })
}

fn records(message: &Message<&[u8]>, kind: Kind) -> Option<Records> {
    let mut records = Records::default();
    for record in message.answer().ok()?.take(RECORDS_MAX) {
        let record = record.ok()?;
        records.any = true;
        if record.class() != Class::IN {
            continue;
        }
        let (owner, ttl) = (domain_name(record.owner()), lifetime(record.ttl().as_secs()));
        let rtype = record.rtype();
        if rtype == Rtype::CNAME {
            let record = record.to_record::<Cname<_>>().ok()??;
            let target = domain_name(record.data().cname().ref_octets());
            if records.aliases.len() <= ALIASES_MAX {
                records.aliases.push((owner, target, ttl));
            }
        } else if rtype == kind.rtype() && records.addresses.len() < ADDRESSES_MAX {
            let address = match kind {
                Kind::A => IpAddr::V4(record.to_record::<A>().ok()??.data().addr()),
                Kind::Aaaa => IpAddr::V6(record.to_record::<Aaaa>().ok()??.data().addr()),
            };
            records.addresses.push((owner, address, ttl));
        }
    }
    Some(records)
}

/// An answer without addresses for `end`, the name at the end of the aliases (RFC 2308 section 2).
/// It may be kept as long as the zone's SOA says, and not at all without one (section 5).
fn negative(
    message: &Message<&[u8]>,
    records: &Records,
    end: DomainName,
    ttl: Duration,
) -> Option<Answer> {
    let mut kept = None;
    let mut any_authority = false;
    for record in message.authority().ok()?.take(RECORDS_MAX) {
        let record = record.ok()?;
        any_authority = true;
        if record.rtype() != Rtype::SOA || record.class() != Class::IN {
            continue;
        }
        let soa = record.to_record::<Soa<_>>().ok()??;
        if end.is_within(&domain_name(record.owner())) {
            let minimum = lifetime(soa.data().minimum().as_secs());
            kept = Some(lifetime(record.ttl().as_secs()).min(minimum).min(NEGATIVE_TTL_MAX));
            break;
        }
    }
    let header = message.header();
    let negative_ttl = kept.map_or(Duration::ZERO, |kept| kept.min(ttl));
    if header.rcode() == Rcode::NXDOMAIN {
        // RFC 2308 section 2.1: it is the last name of the aliases that does not exist.
        return Some(Answer { found: Found::NoName, ttl: negative_ttl });
    }
    if kept.is_none() && !records.aliases.is_empty() {
        return Some(Answer { found: Found::Alias(end), ttl });
    }
    if kept.is_none() && !header.aa() && !header.ra() && (any_authority || !records.any) {
        return None;
    }
    Some(Answer { found: Found::NoData, ttl: negative_ttl })
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
