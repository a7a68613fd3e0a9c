//! Any answers to the resolver's questions, at any time: every lookup ends, and nothing grows.
//!
//! Called by: the target `dns`. The input is a script: a byte of flags, a length, bytes of an
//! answer whose id and question may be put right. When it is over, nobody answers any more.

use core::net::{IpAddr, SocketAddr};

use base::{Duration, Instant};
use host::dns::{Action, Config, Families, Hosts, Kind, Lookup, Resolver, Send, limits};

/// Lookups of one input; the later ones may find something in the cache.
const LOOKUPS: usize = 3;
const CACHE_ENTRIES: usize = 2;
/// Steps of a lookup that nobody answers, and more.
const STEPS_MAX: usize = 10_000;

/// Flags of a step.
const IPV4: u8 = 1;
const RIGHT_QUESTION: u8 = 2;
const FAILURE: u8 = 4;
const LATE: u8 = 8;
const IN_PARTS: u8 = 16;

/// The question of a kind that was sent last.
struct Asked {
    to: SocketAddr,
    message: Vec<u8>,
}

/// Any answers.
///
/// # Panics
/// If a lookup does not end, or more is kept than the limits say.
pub fn any_answer(data: &[u8]) {
    let server = |last| SocketAddr::new(IpAddr::from([192, 0, 2, last]), 53);
    let config = Config {
        servers: vec![server(1), server(2)],
        search: vec!["s.test".to_owned()],
        cache_entries: CACHE_ENTRIES,
        ..Config::default()
    };
    let mut r = Resolver::new(config, Hosts::default(), [1, 2]);
    let (mut rest, mut now) = (data, Instant::from_nanos(1));
    for host in ["www.example", "www", "www.example"].iter().take(LOOKUPS) {
        let mut lookup = r.lookup(host, Families::Both, now);
        let mut asked = [None, None];
        let ended = (0..STEPS_MAX).any(|_| {
            collect(&mut lookup, &mut asked);
            if let Some(outcome) = lookup.outcome() {
                let addresses = outcome.as_ref().map_or(0, Vec::len);
                assert!(addresses <= 2 * limits::ADDRESSES_MAX, "{addresses} addresses");
                return true;
            }
            step(&mut lookup, &mut r, &asked, &mut rest, &mut now);
            false
        });
        assert!(ended, "a lookup without end");
        assert!(r.cached() <= CACHE_ENTRIES, "{} answers are kept", r.cached());
        now += Duration::from_secs(1);
    }
}

fn collect(lookup: &mut Lookup, asked: &mut [Option<Asked>; 2]) {
    while let Some(action) = lookup.next_action() {
        let (kind, question) = match action {
            Action::Close(kind) => (kind, None),
            Action::Send(kind, Send::Udp(to, message)) => (kind, Some(Asked { to, message })),
            Action::Send(kind, Send::Tcp(to, bytes)) => {
                (kind, Some(Asked { to, message: bytes[2..].to_vec() }))
            }
        };
        asked[usize::from(kind == Kind::A)] = question;
    }
}

fn step(
    lookup: &mut Lookup,
    r: &mut Resolver,
    asked: &[Option<Asked>; 2],
    rest: &mut &[u8],
    now: &mut Instant,
) {
    let Some((&[flags, length], behind)) = rest.split_first_chunk::<2>() else {
        *now = lookup.deadline();
        lookup.on_deadline(r, *now);
        return;
    };
    let (bytes, behind) = behind.split_at(usize::from(length).min(behind.len()));
    *rest = behind;
    let kind = if flags & IPV4 != 0 { Kind::A } else { Kind::Aaaa };
    let Some(asked) = &asked[usize::from(kind == Kind::A)] else { return };
    if flags & FAILURE != 0 {
        return lookup.on_failure(r, kind, *now);
    }
    if flags & LATE != 0 {
        *now = lookup.deadline();
        return lookup.on_deadline(r, *now);
    }
    let mut answer = bytes.to_vec();
    if flags & RIGHT_QUESTION != 0 && bytes.len() >= 12 {
        // The script's header and records, and the question between them.
        let end = asked.message[12..].iter().position(|&b| b == 0).map_or(12, |at| 12 + at + 5);
        answer[..2].copy_from_slice(&asked.message[..2]);
        answer.splice(12..12, asked.message[12..end].iter().copied());
    }
    let length = (answer.len() as u16).to_be_bytes();
    let stream = [&length, answer.as_slice()].concat();
    let parts = if flags & IN_PARTS != 0 { stream.len() / 2 } else { stream.len() };
    // The question waits for one of the two.
    lookup.on_datagram(r, kind, asked.to, &answer, *now);
    lookup.on_bytes(r, kind, &stream[..parts], *now);
    lookup.on_bytes(r, kind, &stream[parts..], *now);
}

/// A script in which both questions are answered, with an alias.
pub fn whole_answers() -> Vec<u8> {
    let mut script = Vec::new();
    for (flags, rtype, data) in
        [(RIGHT_QUESTION | IPV4, 1, &[192, 0, 2, 80][..]), (RIGHT_QUESTION, 28, &[0x20; 16][..])]
    {
        let mut answer = vec![0, 0, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0];
        // www.example is at 12; the alias leads to b.example.
        answer.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 4, 1, b'b', 0xc0, 16]);
        // The question has 17 bytes, so the alias's target begins at 41.
        answer.extend([0xc0, 41, 0, rtype, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        answer.extend(data);
        script.extend([flags, answer.len() as u8]);
        script.extend(answer);
    }
    script
}
