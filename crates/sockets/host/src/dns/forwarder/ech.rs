//! Keys for Encrypted Client Hello, made unreadable in HTTPS and SVCB records of an answer.
//!
//! Called by: `forwarder.rs`, if its policy asks for it. RFC 9460 section 2.2 (parameters, in the
//! order of their keys), RFC 9848 (the key `ech`), RFC 1035 section 4.1. Nothing changes its length
//! or its place, so that compression pointers still lead where they did: the parameter gets a key
//! for private use, which clients skip (RFC 9460 section 14.3.2), and an empty value of zeros. A
//! signature of the record (DNSSEC) does not hold any more.

/// Bytes of a message's header.
const HEADER: usize = 12;
/// Types of records (RFC 9460 section 14.1, 14.2).
const SVCB: u16 = 64;
const HTTPS: u16 = 65;
/// The parameter with the keys.
const ECH: u16 = 5;
/// Keys for private use; the one behind them is invalid.
const PRIVATE: core::ops::RangeInclusive<u16> = 65_280..=65_534;

/// Hide the keys of all records; `None` if the message is malformed, or a record has no room.
pub(super) fn hide(message: &mut [u8]) -> Option<()> {
    let count = |at: usize| message.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let questions = count(4)?;
    let records = [count(6)?, count(8)?, count(10)?].map(u32::from).iter().sum::<u32>();
    let mut at = HEADER;
    for _ in 0..questions {
        at = behind_name(message, at)? + 4;
    }
    for _ in 0..records {
        at = behind_name(message, at)?;
        let &[a, b, _, _, _, _, _, _, c, d] = message.get(at..)?.first_chunk::<10>()?;
        at += 10;
        let end = at + usize::from(u16::from_be_bytes([c, d]));
        let value = message.get_mut(at..end)?;
        if matches!(u16::from_be_bytes([a, b]), HTTPS | SVCB) {
            // Behind the priority.
            let params = behind_name(value, 2)?;
            hide_in(value.get_mut(params..)?)?;
        }
        at = end;
    }
    Some(())
}

/// Where the name that begins at `at` ends.
fn behind_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        match length >> 6 {
            0 if length == 0 => return Some(at),
            0 => at += length,
            3 => return Some(at + 1),
            _ => return None,
        }
    }
}

/// Hide the key among the parameters of a record.
fn hide_in(params: &mut [u8]) -> Option<()> {
    let (mut at, mut found, mut last) = (0, None, 0);
    while at < params.len() {
        let &[a, b, c, d] = params.get(at..)?.first_chunk::<4>()?;
        let key = u16::from_be_bytes([a, b]);
        let end = at + 4 + usize::from(u16::from_be_bytes([c, d]));
        if end > params.len() {
            return None;
        }
        match key {
            ECH if found.is_none() => found = Some((at, end)),
            ECH => return None,
            _ => last = key,
        }
        at = end;
    }
    let Some((begin, end)) = found else { return Some(()) };
    let key = last.saturating_add(1).max(*PRIVATE.start());
    if !PRIVATE.contains(&key) {
        return None;
    }
    // Behind the others, because keys are in order.
    let length = end - begin;
    let rest = params.get_mut(begin..)?;
    rest.rotate_left(length);
    let moved_len = rest.len();
    let hidden = rest.get_mut(moved_len - length..)?;
    hidden[..2].copy_from_slice(&key.to_be_bytes());
    hidden[4..].fill(0);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters of these keys and values.
    fn params(all: &[(u16, &[u8])]) -> Vec<u8> {
        let one = |(key, value): &(u16, &[u8])| {
            let length = (value.len() as u16).to_be_bytes();
            [&key.to_be_bytes()[..], &length, value].concat()
        };
        all.iter().flat_map(one).collect()
    }

    #[test]
    fn the_keys_become_a_parameter_for_private_use() {
        for (before, after) in [
            (
                params(&[(1, b"h2"), (5, b"key"), (6, b"sixteen")]),
                Some(params(&[(1, b"h2"), (6, b"sixteen"), (65_280, b"\0\0\0")])),
            ),
            (params(&[(5, b"key")]), Some(params(&[(65_280, b"\0\0\0")]))),
            (
                params(&[(5, b"key"), (65_300, b"x")]),
                Some(params(&[(65_300, b"x"), (65_301, b"\0\0\0")])),
            ),
            (params(&[(1, b"h2")]), Some(params(&[(1, b"h2")]))),
            (params(&[(5, b"key"), (65_534, b"x")]), None),
            (params(&[(5, b"key"), (5, b"key")]), None),
            (params(&[(5, b"key")])[..6].to_vec(), None),
        ] {
            let mut bytes = before.clone();
            assert_eq!(hide_in(&mut bytes).map(|()| bytes), after, "{before:?}");
        }
    }
}
