//! Any questions of guests and any answers of servers to a DNS forwarder: every question ends,
//! nothing grows, and a guest gets what it asked for.
//!
//! Called by: the target `forwarder`. The input is a script: a byte of flags, a length, bytes of a
//! question or an answer whose id and question may be put right. When it is over, nobody answers
//! any more.

use core::net::{IpAddr, SocketAddr};

use base::{Duration, Instant, KeyedHash, Limit};
use host::dns::{
    Answered, Asked, Forwarder, ForwarderAction, ForwarderConfig, Framing, Hosts, Policy, QueryId,
    Send, Transport, Verdict, framed, limits,
};

const IN_FLIGHT: usize = 4;
const STEPS_MAX: usize = 10_000;

/// Flags of a step.
const ANSWER: u8 = 1;
const RIGHT_QUESTION: u8 = 2;
const TCP: u8 = 4;
const FAILURE: u8 = 8;
const LATE: u8 = 16;
const WELL_FORMED: u8 = 32;
const GONE: u8 = 64;

/// A question that is in flight.
struct Sent {
    id: QueryId,
    to: SocketAddr,
    message: Vec<u8>,
}

/// Checks what the policy is shown, and refuses some of it.
struct Watch;

impl Policy for Watch {
    fn question(&mut self, asked: &Asked<'_>) -> Verdict {
        let text = asked.name.to_string();
        assert!(text.len() <= 4 * 255 && text.chars().all(|c| c.is_ascii_graphic()), "{text}");
        if text.contains("secret") { Verdict::Refuse } else { Verdict::Pass }
    }

    fn answer(&mut self, answer: &Answered<'_>) -> Verdict {
        assert!(answer.aliases.len() <= limits::ALIASES_MAX);
        assert!(answer.addresses.len() <= limits::ADDRESSES_MAX);
        assert!(answer.addresses.iter().all(|one| one.ttl <= limits::TTL_MAX));
        let is_loopback = answer.addresses.iter().any(|one| one.address.is_loopback());
        if is_loopback { Verdict::Refuse } else { Verdict::Pass }
    }

    fn keeps_ech(&mut self, asked: &Asked<'_>) -> bool {
        asked.rtype != 65
    }
}

/// Any messages.
///
/// # Panics
/// If a question does not end, or more is kept than the limits say.
pub fn any_message(data: &[u8]) {
    let server = |last| SocketAddr::new(IpAddr::from([192, 0, 2, last]), 53);
    let mut hosts = Hosts::default();
    hosts.add("box.test", IpAddr::from([192, 0, 2, 7])).expect("a name");
    let config = ForwarderConfig::new(vec![server(1), server(2)]);
    let mut forwarder = Forwarder::new(config, hosts, KeyedHash::new(1, 2));
    forwarder.budget_mut().set(Limit::DnsInFlight, IN_FLIGHT);
    let (mut rest, mut now) = (data, Instant::from_nanos(1));
    let mut sent: Vec<Sent> = Vec::new();
    let mut framing = Framing::new(limits::QUESTION_BYTES_MAX);
    while let Some((&[flags, length], behind)) = rest.split_first_chunk::<2>() {
        let (bytes, behind) = behind.split_at(usize::from(length).min(behind.len()));
        rest = behind;
        let by = if flags & TCP != 0 { Transport::Tcp } else { Transport::Udp };
        if flags & LATE != 0 {
            now = now.max(forwarder.deadline().min(now + Duration::from_secs(10)));
        } else if flags & GONE != 0 {
            forwarder.abandon(|&guest| guest == length % 4);
        } else if flags & ANSWER != 0 {
            if let Some(to) = sent.last() {
                answer(&mut forwarder, to, flags, bytes, now);
            }
        } else if flags & WELL_FORMED != 0 {
            forwarder.question(now, length % 4, by, &question(bytes), &mut Watch);
        } else {
            let mut stream = bytes;
            while let Ok(Some(message)) = framing.next(&mut stream) {
                forwarder.question(now, 3, Transport::Tcp, &message, &mut Watch);
            }
            forwarder.question(now, length % 4, by, bytes, &mut Watch);
        }
        collect(&mut forwarder, &mut sent, now);
        assert!(forwarder.in_flight() <= IN_FLIGHT && sent.len() <= IN_FLIGHT);
    }
    let ended = (0..STEPS_MAX).any(|_| {
        collect(&mut forwarder, &mut sent, now);
        now = now.max(forwarder.deadline().min(now + Duration::from_secs(60)));
        forwarder.deadline() == Instant::NEVER
    });
    assert!(ended && forwarder.in_flight() == 0 && sent.is_empty(), "a question without end");
}

fn collect(forwarder: &mut Forwarder<u8>, sent: &mut Vec<Sent>, now: Instant) {
    while let Some(action) = forwarder.poll(now) {
        match action {
            ForwarderAction::Send(id, send) => {
                let (to, message) = match send {
                    Send::Udp(to, message) => (to, message),
                    Send::Tcp(to, bytes) => (to, bytes[2..].to_vec()),
                };
                sent.retain(|other| other.id != id);
                sent.push(Sent { id, to, message });
            }
            ForwarderAction::Close(id) => sent.retain(|other| other.id != id),
            ForwarderAction::Answer(_, _, message) => {
                assert!(message.len() >= 12 && message[2] & 0x80 != 0, "no answer");
            }
        }
    }
}

fn answer(forwarder: &mut Forwarder<u8>, to: &Sent, flags: u8, bytes: &[u8], now: Instant) {
    if flags & FAILURE != 0 {
        return forwarder.on_failure(now, to.id);
    }
    let mut message = bytes.to_vec();
    if flags & RIGHT_QUESTION != 0 && bytes.len() >= 12 {
        // The script's header and records, and the question between them.
        let end = to.message[12..].iter().position(|&b| b == 0).map_or(12, |at| 12 + at + 5);
        message[..2].copy_from_slice(&to.message[..2]);
        message.splice(12..12, to.message[12..end].iter().copied());
    }
    // The question waits for one of the two.
    forwarder.on_datagram(now, to.id, to.to, &message, &mut Watch);
    forwarder.on_bytes(now, to.id, &framed(&message), &mut Watch);
}

/// A question for a name of the script's bytes.
fn question(bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let (label, behind) = bytes.split_at(bytes.len().min(20));
    message.push(label.len() as u8);
    message.extend(label);
    if !label.is_empty() {
        message.push(0);
    }
    message.extend([0, behind.first().copied().unwrap_or(1), 0, 1]);
    message
}

/// A script with a question, its answer with an alias, and one that is refused.
pub fn whole_answers() -> Vec<u8> {
    let mut script = vec![WELL_FORMED, 3];
    script.extend(b"www");
    let mut answer = vec![0, 0, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0];
    // www is at 12, and the question has 9 bytes; the alias leads to b.www.
    answer.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 4, 1, b'b', 0xc0, 12]);
    answer.extend([0xc0, 33, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 80]);
    script.extend([ANSWER | RIGHT_QUESTION, answer.len() as u8]);
    script.extend(answer);
    script.extend([WELL_FORMED, 6]);
    script.extend(b"secret");
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy that remembers the addresses.
    struct Seen(Vec<IpAddr>);

    impl Policy for Seen {
        fn answer(&mut self, answer: &Answered<'_>) -> Verdict {
            self.0.extend(answer.addresses.iter().map(|one| one.address));
            Verdict::Pass
        }
    }

    #[test]
    fn the_seed_leads_to_an_address() {
        let script = whole_answers();
        let config = ForwarderConfig::new(vec![SocketAddr::new(IpAddr::from([192, 0, 2, 1]), 53)]);
        let mut forwarder = Forwarder::new(config, Hosts::default(), KeyedHash::new(1, 2));
        let (now, mut seen, mut sent) = (Instant::from_nanos(1), Seen(Vec::new()), Vec::new());
        forwarder.question(now, 0_u8, Transport::Udp, &question(&script[2..5]), &mut seen);
        collect(&mut forwarder, &mut sent, now);
        let bytes = &script[7..7 + usize::from(script[6])];
        let mut message = bytes.to_vec();
        message[..2].copy_from_slice(&sent[0].message[..2]);
        message.splice(12..12, sent[0].message[12..21].iter().copied());
        forwarder.on_datagram(now, sent[0].id, sent[0].to, &message, &mut seen);
        assert_eq!(seen.0, [IpAddr::from([192, 0, 2, 80])]);
    }
}
