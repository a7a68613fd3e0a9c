//! Contents of sub-negotiations: window size (RFC 1073), terminal type (RFC 1091) and speed (RFC
//! 1079), environment (RFC 1572).
//!
//! Called by: both ends. Limits: `TEXT_BYTES`, `VARIABLES`.

use crate::code::{IS, SEND};
use crate::limits::{TEXT_BYTES, VARIABLES};

const VAR: u8 = 0;
const VALUE: u8 = 1;
const ESC: u8 = 2;
const USERVAR: u8 = 3;
const INFO: u8 = 2;

/// Names of variables that are sent as VAR; all others are sent as USERVAR (RFC 1572 section 2).
const WELL_KNOWN: [&str; 6] = ["USER", "JOB", "ACCT", "PRINTER", "SYSTEMTYPE", "DISPLAY"];

/// Columns and rows of the window, as NAWS sends them.
pub(crate) fn window((columns, rows): (u16, u16)) -> [u8; 4] {
    let ([a, b], [c, d]) = (columns.to_be_bytes(), rows.to_be_bytes());
    [a, b, c, d]
}

/// The columns and rows in the contents of NAWS.
pub(crate) fn read_window(contents: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = contents else { return None };
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// The contents `IS text`.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let bytes = text.bytes().take(TEXT_BYTES);
    core::iter::once(IS).chain(bytes).collect()
}

/// The text after IS; `None` if it is not printable ASCII.
pub(crate) fn read_text(contents: &[u8]) -> Option<String> {
    let (&IS, text) = contents.split_first()? else { return None };
    let is_good = text.len() <= TEXT_BYTES && text.iter().all(|&b| (b' '..=b'~').contains(&b));
    is_good.then(|| String::from_utf8_lossy(text).into_owned())
}

/// The speeds after IS, for example `38400,38400` (RFC 1079).
pub(crate) fn read_speed(contents: &[u8]) -> Option<(u32, u32)> {
    let text = read_text(contents)?;
    let (send, receive) = text.split_once(',')?;
    Some((send.parse().ok()?, receive.parse().ok()?))
}

/// The answer to SEND: those variables of `ours` that were asked for, or all.
pub(crate) fn environment(asked: &[u8], ours: &[(String, String)]) -> Option<Vec<u8>> {
    let (&SEND, names) = asked.split_first()? else { return None };
    let names = variables(names);
    let is_asked = |name: &str| names.is_empty() || names.iter().any(|(n, _)| n == name);
    let mut answer = vec![IS];
    for (name, value) in ours.iter().filter(|(name, _)| is_asked(name)).take(VARIABLES) {
        answer.push(if WELL_KNOWN.contains(&name.as_str()) { VAR } else { USERVAR });
        escape(name, &mut answer);
        answer.push(VALUE);
        escape(value, &mut answer);
    }
    // A variable that was asked for and does not exist is sent without a value.
    let is_missing = |name: &&String| !name.is_empty() && ours.iter().all(|(n, _)| n != *name);
    for name in names.iter().map(|(name, _)| name).filter(is_missing) {
        answer.push(VAR);
        escape(name, &mut answer);
    }
    Some(answer)
}

fn escape(text: &str, to: &mut Vec<u8>) {
    for byte in text.bytes().take(TEXT_BYTES) {
        if byte <= USERVAR {
            to.push(ESC);
        }
        to.push(byte);
    }
}

/// The variables after IS or INFO that have a value.
pub(crate) fn read_environment(contents: &[u8]) -> Option<Vec<(String, String)>> {
    let (&(IS | INFO), rest) = contents.split_first()? else { return None };
    let with_value = |(name, value): (String, Option<String>)| Some((name, value?));
    Some(variables(rest).into_iter().filter_map(with_value).collect())
}

/// Names with their values. Entries that are not text, or too long, are left out.
pub(crate) fn variables(bytes: &[u8]) -> Vec<(String, Option<String>)> {
    let mut found: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
    let mut rest = bytes.iter().copied();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            VAR | USERVAR if found.len() == VARIABLES => break,
            VAR | USERVAR => {
                found.push((Vec::new(), None));
                continue;
            }
            VALUE => {
                if let Some((_, value)) = found.last_mut() {
                    *value = Some(Vec::new());
                }
                continue;
            }
            ESC => rest.next().unwrap_or(ESC),
            other => other,
        };
        if let Some((name, value)) = found.last_mut() {
            value.as_mut().unwrap_or(name).push(byte);
        }
    }
    let text = |bytes: Vec<u8>| (bytes.len() <= TEXT_BYTES).then(|| String::from_utf8(bytes).ok());
    let text = |bytes| text(bytes).flatten().filter(|text: &String| !text.contains('\0'));
    let both = |(name, value): (Vec<u8>, Option<Vec<u8>>)| match value {
        None => Some((text(name)?, None)),
        Some(value) => Some((text(name)?, Some(text(value)?))),
    };
    found.into_iter().filter_map(both).collect()
}
