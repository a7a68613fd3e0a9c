//! A guest's question as a forwarder reads it, and the answers that the forwarder makes itself.
//!
//! Called by: `forwarder.rs`. RFC 1035 section 4, RFC 6891 (EDNS), RFC 8914 (extended errors). The
//! question is the first name of a message, so it has no compression.

use core::net::IpAddr;

use super::Transport;
use crate::dns::DomainName;
use crate::dns::limits::{HOSTS_TTL, QUESTION_BYTES_MAX, UDP_PAYLOAD_SIZE};

pub(super) const HEADER: usize = 12;
/// Bytes of an answer by UDP without EDNS (RFC 1035 section 4.2.1).
const PLAIN_BYTES: u16 = 512;
const NAME_BYTES: usize = 255;

const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;
pub(super) const TRUNCATED: u8 = 0x02;
const RECURSION_DESIRED: u8 = 0x01;
const RECURSION_AVAILABLE: u8 = 0x80;
const CHECKING_DISABLED: u8 = 0x10;

/// Types and classes of records.
pub(super) mod rtype {
    pub(crate) const A: u16 = 1;
    pub(crate) const PTR: u16 = 12;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const SVCB: u16 = 64;
    pub(crate) const HTTPS: u16 = 65;
    pub(crate) const IXFR: u16 = 251;
    pub(crate) const AXFR: u16 = 252;
}
const IN: u16 = 1;

/// Result codes.
pub(super) mod rcode {
    pub(crate) const NO_ERROR: u8 = 0;
    pub(crate) const FORMAT_ERROR: u8 = 1;
    pub(crate) const SERVER_FAILURE: u8 = 2;
    pub(crate) const NOT_IMPLEMENTED: u8 = 4;
    pub(crate) const REFUSED: u8 = 5;
}

/// Extended errors.
pub(super) mod extended {
    pub(crate) const OTHER: u16 = 0;
    pub(crate) const BLOCKED: u16 = 15;
    pub(crate) const NO_REACHABLE_AUTHORITY: u16 = 22;
}

/// Why a message is no question that can be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// No answer is possible.
    Drop,
    /// The answer has this result code and no question.
    Answer(u8),
}

/// A question.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// The message as it came.
    pub(super) message: Vec<u8>,
    pub(super) name: DomainName,
    pub(super) rtype: u16,
    /// Where the question section ends.
    pub(super) end: usize,
    /// The guest's datagram size in its OPT record, if it has one.
    payload: Option<u16>,
}

impl Question {
    pub(super) fn parse(bytes: &[u8]) -> Result<Question, Unfit> {
        let header = bytes.first_chunk::<HEADER>().ok_or(Unfit::Drop)?;
        if header[2] & RESPONSE != 0 || bytes.len() > QUESTION_BYTES_MAX {
            return Err(Unfit::Drop);
        }
        if header[2] & OPCODE != 0 {
            return Err(Unfit::Answer(rcode::NOT_IMPLEMENTED));
        }
        let malformed = Unfit::Answer(rcode::FORMAT_ERROR);
        let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        if (count(4), count(6), count(8)) != (1, 0, 0) {
            return Err(malformed);
        }
        let name_end = name_end(bytes).ok_or(malformed)?;
        let fields = bytes.get(name_end..).and_then(|rest| rest.first_chunk::<4>());
        let &[a, b, c, d] = fields.ok_or(malformed)?;
        let (rtype, class) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let end = name_end + 4;
        let payload = payload(bytes, end, count(10)).ok_or(malformed)?;
        // Zone transfers are for name servers; other classes name no hosts.
        if matches!(rtype, rtype::IXFR | rtype::AXFR) || class != IN {
            return Err(Unfit::Answer(rcode::NOT_IMPLEMENTED));
        }
        let labels = labels(&bytes[HEADER..name_end]);
        let name = DomainName::from_labels(labels);
        Ok(Question { message: bytes.to_vec(), name, rtype, end, payload })
    }

    /// The name in wire format, in the guest's letter case.
    pub(super) fn wire_name(&self) -> &[u8] {
        &self.message[HEADER..self.end - 4]
    }

    /// The longest answer that the guest takes.
    pub(super) fn bytes_max(&self, by: Transport) -> usize {
        match by {
            Transport::Tcp => usize::from(u16::MAX),
            Transport::Udp => self.payload.unwrap_or(0).max(PLAIN_BYTES).into(),
        }
    }

    /// An answer without records, and with an extended error if the guest knows EDNS.
    pub(super) fn failure(&self, code: u8, error: u16) -> Vec<u8> {
        let mut bytes = self.head(code, 0);
        if self.payload.is_some() {
            bytes[11] = 1;
            // RFC 8914 section 2: option 15 of two bytes.
            let [high, low] = error.to_be_bytes();
            bytes.extend(opt_record(&[0, 15, 0, 2, high, low]));
        }
        bytes
    }

    /// An answer that says that the real one is too long.
    pub(super) fn truncated(&self) -> Vec<u8> {
        let mut bytes = self.head(rcode::NO_ERROR, 0);
        bytes[2] |= TRUNCATED;
        self.add_opt(&mut bytes);
        bytes
    }

    /// An answer of the hosts table: addresses, or none of this type.
    pub(super) fn addresses(&self, addresses: &[IpAddr]) -> Vec<u8> {
        let mut bytes = self.head(rcode::NO_ERROR, addresses.len() as u16);
        for address in addresses {
            match address {
                IpAddr::V4(address) => record(&mut bytes, rtype::A, &address.octets()),
                IpAddr::V6(address) => record(&mut bytes, rtype::AAAA, &address.octets()),
            }
        }
        self.add_opt(&mut bytes);
        bytes
    }

    /// An answer of the hosts table: the name of an address.
    pub(super) fn pointer(&self, name: &DomainName) -> Vec<u8> {
        let mut bytes = self.head(rcode::NO_ERROR, 1);
        record(&mut bytes, rtype::PTR, name.wire());
        self.add_opt(&mut bytes);
        bytes
    }

    fn add_opt(&self, bytes: &mut Vec<u8>) {
        if self.payload.is_some() {
            bytes[11] = 1;
            bytes.extend(opt_record(&[]));
        }
    }

    /// The header and the question of an answer.
    fn head(&self, code: u8, answers: u16) -> Vec<u8> {
        let mut bytes = header(&self.message, code);
        bytes[5] = 1;
        bytes[6..8].copy_from_slice(&answers.to_be_bytes());
        bytes.extend(&self.message[HEADER..self.end]);
        bytes
    }
}

/// The header of an answer to `message`, which has one; without a question.
pub(super) fn header(message: &[u8], code: u8) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[..2].copy_from_slice(&message[..2]);
    bytes[2] = RESPONSE | message[2] & (OPCODE | RECURSION_DESIRED);
    bytes[3] = RECURSION_AVAILABLE | message[3] & CHECKING_DISABLED | code;
    bytes
}

/// A record about the name that was asked.
fn record(bytes: &mut Vec<u8>, rtype: u16, value: &[u8]) {
    let ttl = u32::try_from(HOSTS_TTL.as_millis() / 1_000).unwrap_or(0);
    // A pointer to the name of the question, which is behind the header.
    bytes.extend([0xc0, HEADER as u8]);
    bytes.extend(rtype.to_be_bytes());
    bytes.extend(IN.to_be_bytes());
    bytes.extend(ttl.to_be_bytes());
    bytes.extend((value.len() as u16).to_be_bytes());
    bytes.extend(value);
}

/// An OPT record with these options.
fn opt_record(options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(rtype::OPT.to_be_bytes());
    bytes.extend(UDP_PAYLOAD_SIZE.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend((options.len() as u16).to_be_bytes());
    bytes.extend(options);
    bytes
}

/// Where the first name of a message ends; `None` if it is longer than a name can be, or has a
/// compression pointer, which could only lead into the header.
fn name_end(message: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        let length = usize::from(*message.get(at)?);
        if length > 63 {
            return None;
        }
        at += 1 + length;
        if at - HEADER > NAME_BYTES {
            return None;
        }
        if length == 0 {
            return Some(at);
        }
    }
}

/// The labels of a name in wire format, the root not among them.
fn labels(wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = wire;
    core::iter::from_fn(move || {
        let (&length, behind) = rest.split_first()?;
        let (label, behind) = behind.split_at_checked(length.into())?;
        rest = behind;
        (length > 0).then_some(label)
    })
}

/// The datagram size of the OPT record among `count` records at `at`: `Some(None)` without one,
/// `None` if the records do not fill the message.
fn payload(message: &[u8], at: usize, count: u16) -> Option<Option<u16>> {
    let (mut at, mut found) = (at, None);
    for _ in 0..count {
        // Names of records in a question are the root, or short; a pointer ends one.
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            match length >> 6 {
                0 if length == 0 => break,
                0 => at += length,
                3 => {
                    at += 1;
                    break;
                }
                _ => return None,
            }
        }
        let &[a, b, c, d, _, _, _, _, e, f] = message.get(at..)?.first_chunk::<10>()?;
        if u16::from_be_bytes([a, b]) == rtype::OPT {
            // RFC 6891 section 6.1.1: there is one at most.
            if found.replace(u16::from_be_bytes([c, d])).is_some() {
                return None;
            }
        }
        at += 10 + usize::from(u16::from_be_bytes([e, f]));
    }
    (at <= message.len()).then_some(found)
}

/// The address whose name is asked for: `7.2.0.192.in-addr.arpa`, or 32 digits in `ip6.arpa` (RFC
/// 1035 section 3.5, RFC 3596 section 2.5).
pub fn address_of_pointer(name: &DomainName) -> Option<IpAddr> {
    let labels: Vec<&[u8]> = name.labels().collect();
    match labels.as_slice() {
        [a, b, c, d, b"in-addr", b"arpa"] => {
            let mut octets = [0; 4];
            for (to, label) in octets.iter_mut().zip([d, c, b, a]) {
                *to = core::str::from_utf8(label).ok()?.parse::<u8>().ok()?;
            }
            Some(IpAddr::from(octets))
        }
        [digits @ .., b"ip6", b"arpa"] if digits.len() == 32 => {
            let mut bits = 0_u128;
            for label in digits.iter().rev() {
                let &[digit] = *label else { return None };
                bits = bits << 4 | u128::from(char::from(digit).to_digit(16)?);
            }
            Some(IpAddr::from(bits.to_be_bytes()))
        }
        _ => None,
    }
}
