//! Protocols with requests and replies in lines of text: HTTP, RTSP, SIP, FTP, SMTP, WHOIS; and
//! SSH's greeting.
//!
//! Called by: `app`. The first line is printed; with `-v` all lines.

use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};

/// Longest word that may be a command.
const WORD_MAX: usize = 128;

const HTTP_COMMANDS: &[&str] = &[
    "GET",
    "PUT",
    "COPY",
    "HEAD",
    "LOCK",
    "MOVE",
    "POLL",
    "POST",
    "BCOPY",
    "BMOVE",
    "MKCOL",
    "TRACE",
    "LABEL",
    "MERGE",
    "DELETE",
    "SEARCH",
    "UNLOCK",
    "REPORT",
    "UPDATE",
    "NOTIFY",
    "BDELETE",
    "CONNECT",
    "OPTIONS",
    "CHECKIN",
    "PROPFIND",
    "CHECKOUT",
    "CCM_POST",
    "SUBSCRIBE",
    "PROPPATCH",
    "BPROPFIND",
    "BPROPPATCH",
    "UNCHECKOUT",
    "MKACTIVITY",
    "MKWORKSPACE",
    "UNSUBSCRIBE",
    "RPC_CONNECT",
    "VERSION-CONTROL",
    "BASELINE-CONTROL",
];

const RTSP_COMMANDS: &[&str] = &[
    "OPTIONS",
    "DESCRIBE",
    "ANNOUNCE",
    "GET_PARAMETER",
    "PAUSE",
    "PLAY",
    "RECORD",
    "REDIRECT",
    "SETUP",
    "SET_PARAMETER",
    "TEARDOWN",
];

const SIP_COMMANDS: &[&str] = &[
    "ACK",
    "BYE",
    "CANCEL",
    "DO",
    "INFO",
    "INVITE",
    "MESSAGE",
    "NOTIFY",
    "OPTIONS",
    "PRACK",
    "QAUTH",
    "REFER",
    "REGISTER",
    "SPRACK",
    "SUBSCRIBE",
    "UPDATE",
    "PUBLISH",
];

/// A protocol. If it has `commands`, data that begins with neither a command nor a reply is taken
/// for the continuation of an earlier message, and is not printed.
pub(super) struct Protocol {
    name: &'static str,
    title: &'static str,
    commands: Option<&'static [&'static str]>,
}

pub(super) const FTP: Protocol = Protocol { name: "ftp", title: "FTP", commands: None };
pub(super) const SMTP: Protocol = Protocol { name: "smtp", title: "SMTP", commands: None };
pub(super) const WHOIS: Protocol = Protocol { name: "whois", title: "WHOIS", commands: None };
pub(super) const HTTP: Protocol =
    Protocol { name: "http", title: "HTTP", commands: Some(HTTP_COMMANDS) };
pub(super) const RTSP: Protocol =
    Protocol { name: "rtsp", title: "RTSP", commands: Some(RTSP_COMMANDS) };
pub(super) const SIP: Protocol =
    Protocol { name: "sip", title: "SIP", commands: Some(SIP_COMMANDS) };

pub(super) fn print(p: &mut Printer, data: Data<'_>, protocol: &Protocol) -> Done {
    p.protocol = protocol.name;
    let is_begun = protocol.commands.is_none_or(|commands| begins(data, commands));
    p.out.push_str(protocol.title);
    if !is_begun {
        return Ok(());
    }
    if !p.is_verbose() {
        line(p, data, 0, ": ")?;
        return Ok(());
    }
    put!(p, ", length: {}", data.len);
    let mut at = 0;
    while at < data.len {
        match line(p, data, at, "\n\t")? {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(())
}

/// Does the data begin with a command, or with an answer, whose second word is a number of three
/// digits?
fn begins(data: Data<'_>, commands: &[&str]) -> bool {
    let Some((first, next)) = word(data, 0) else { return false };
    let is_command = commands.iter().any(|command| command.as_bytes().eq_ignore_ascii_case(first));
    let is_answer = || {
        word(data, next)
            .is_some_and(|(second, _)| second.len() == 3 && second.iter().all(u8::is_ascii_digit))
    };
    is_command || is_answer()
}

/// The word at `at`, and where the next word begins.
fn word(data: Data<'_>, at: usize) -> Option<(&[u8], usize)> {
    let rest = data.bounded().bytes.get(at..)?;
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let len = rest.iter().position(is_space);
    // A word whose end was not captured does not count.
    let len = match len {
        Some(len) => len,
        None if data.here() < data.len => return None,
        None => rest.len(),
    };
    let word = rest.get(..len)?;
    if len == 0 || len >= WORD_MAX || !word.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return None;
    }
    let spaces = rest[len..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    Some((word, at + len + spaces))
}

/// Print a line of printable text after `before`. Returns where the next line begins, or `None` if
/// the line is not text.
fn line(p: &mut Printer, data: Data<'_>, at: usize, before: &str) -> Result<Option<usize>, Cut> {
    let mut end = at;
    while end < data.len {
        match data.u8(end)? {
            b'\n' => {
                text(p, data, at, end, before);
                return Ok(Some(end + 1));
            }
            b'\r' if end + 1 >= data.len => return Ok(None),
            b'\r' if data.u8(end + 1)? == b'\n' => {
                text(p, data, at, end, before);
                return Ok(Some(end + 2));
            }
            b'\t' | b' '..=b'~' => end += 1,
            _ => return Ok(None),
        }
    }
    // All the captured data is text, and the line ends in another packet.
    text(p, data, at, end, before);
    p.cut();
    Ok(None)
}

fn text(p: &mut Printer, data: Data<'_>, at: usize, end: usize, before: &str) {
    let bytes = data.bytes.get(at..end).unwrap_or_default();
    p.out.push_str(before);
    p.out.extend(bytes.iter().map(|byte| char::from(*byte)));
}

/// Print SSH's greeting, if the data is one (RFC 4253 section 4.2).
pub(super) fn ssh(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ssh";
    for (at, letter) in b"SSH-".iter().enumerate() {
        if data.u8(at)? != *letter {
            return Ok(());
        }
    }
    let mut at = 4;
    while at < data.len {
        match data.u8(at)? {
            b'\n' => break,
            b'\r' if at + 1 < data.len && data.u8(at + 1)? == b'\n' => break,
            b' '..=b'~' => at += 1,
            _ => return Ok(()),
        }
    }
    if at < data.len {
        p.out.push_str(": SSH");
        text(p, data, 0, at, ": ");
    }
    Ok(())
}
