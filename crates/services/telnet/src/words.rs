//! Names of negotiated options and commands, in the words of the RFCs.
//!
//! Called by: `transcript.rs`.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::code::{
    BINARY, DM, DO, DONT, ECHO, IAC, IS, LFLOW, LINEMODE, LM_FORWARDMASK, LM_MODE, LM_SLC, NAWS,
    NEW_ENVIRON, SB, SE, SEND, SGA, STATUS, TIMING_MARK, TSPEED, TTYPE, WILL, WONT,
};
use crate::linemode::{Mask, Mode};
use crate::parser::Item;
use crate::{slc, suboption};

/// The names of the commands from 236 on.
const COMMANDS: [&str; 20] = [
    "EOF", "SUSP", "ABORT", "EOR", "SE", "NOP", "DM", "BRK", "IP", "AO", "AYT", "EC", "EL", "GA",
    "SB", "WILL", "WONT", "DO", "DONT", "IAC",
];

const OPTIONS: [(u8, &str); 11] = [
    (BINARY, "BINARY"),
    (ECHO, "ECHO"),
    (SGA, "SGA"),
    (STATUS, "STATUS"),
    (TIMING_MARK, "TIMING-MARK"),
    (TTYPE, "TTYPE"),
    (NAWS, "NAWS"),
    (TSPEED, "TSPEED"),
    (LFLOW, "LFLOW"),
    (LINEMODE, "LINEMODE"),
    (NEW_ENVIRON, "NEW-ENVIRON"),
];

fn command(code: u8) -> Cow<'static, str> {
    let name = usize::from(code).checked_sub(236).and_then(|at| COMMANDS.get(at));
    name.map_or_else(|| code.to_string().into(), |name| (*name).into())
}

fn option(code: u8) -> Cow<'static, str> {
    let name = OPTIONS.iter().find(|(option, _)| *option == code);
    name.map_or_else(|| format!("option {code}").into(), |(_, name)| (*name).into())
}

/// A character as users write it, for example `^C`.
fn character(byte: u8) -> String {
    match byte {
        slc::NONE => "none".to_owned(),
        127 => "^?".to_owned(),
        control if control < b' ' => format!("^{}", char::from(control ^ 64)),
        b' ' => "space".to_owned(),
        graphic if graphic.is_ascii() => char::from(graphic).to_string(),
        other => other.to_string(),
    }
}

/// The words for a part of a stream that is not data, and the part's bytes.
pub(crate) fn of_item(item: &Item<'_>) -> Option<(String, Vec<u8>)> {
    Some(match *item {
        Item::Data(_) | Item::Iac => return None,
        Item::Command(code @ DM) => {
            (format!("{} (the mark of a Synch)", command(code)), vec![IAC, code])
        }
        Item::Command(code) => (command(code).into_owned(), vec![IAC, code]),
        Item::Negotiate(verb, code) => {
            (format!("{} {}", command(verb), option(code)), vec![IAC, verb, code])
        }
        Item::Sub(code, ref contents) => {
            let mut bytes = vec![IAC, SB, code];
            for &byte in contents {
                bytes.extend_from_slice(if byte == IAC {
                    &[IAC, IAC]
                } else {
                    core::slice::from_ref(&byte)
                });
            }
            bytes.extend([IAC, SE]);
            (format!("SB {} {}", option(code), contents_of(code, contents)), bytes)
        }
        Item::Malformed => {
            ("a sub-negotiation that is cut off, too long, or of no option".to_owned(), Vec::new())
        }
    })
}

fn contents_of(code: u8, contents: &[u8]) -> String {
    let known = match (code, contents) {
        (_, []) => Some("without contents".to_owned()),
        (STATUS | TTYPE | TSPEED, [SEND]) => Some("SEND".to_owned()),
        (STATUS, [IS, all @ ..]) => Some(status(all)),
        (TTYPE | TSPEED, contents) => {
            suboption::read_text(contents).map(|text| format!("IS {text}"))
        }
        (NAWS, contents) => suboption::read_window(contents)
            .map(|(columns, rows)| format!("{columns} columns, {rows} rows")),
        (LFLOW, &[what @ 0..=3]) => {
            let words = ["OFF", "ON", "RESTART-ANY", "RESTART-XON"];
            Some(words[usize::from(what)].to_owned())
        }
        (NEW_ENVIRON, contents) => environment(contents),
        (LINEMODE, contents) => linemode(contents),
        _ => None,
    };
    known.unwrap_or_else(|| format!("{} bytes that nobody here understands", contents.len()))
}

fn status(all: &[u8]) -> String {
    let pairs = all.as_chunks::<2>().0.iter();
    let each = pairs.map(|&[verb, code]| format!("{} {}", command(verb), option(code)));
    format!("IS {}", each.collect::<Vec<_>>().join(", "))
}

fn environment(contents: &[u8]) -> Option<String> {
    if let [SEND, names @ ..] = contents {
        let names: Vec<String> =
            suboption::variables(names).into_iter().map(|(name, _)| name).collect();
        let what = if names.is_empty() { "all".to_owned() } else { names.join(", ") };
        return Some(format!("SEND {}", what.escape_debug()));
    }
    let variables = suboption::read_environment(contents)?;
    let each = variables.iter().map(|(name, value)| format!("{name}={value}"));
    let verb = if contents[0] == IS { "IS" } else { "INFO" };
    Some(format!("{verb} {}", each.collect::<Vec<_>>().join(", ").escape_debug()))
}

fn linemode(contents: &[u8]) -> Option<String> {
    Some(match *contents {
        [LM_MODE, mask] => format!("MODE {}", mode(mask)),
        [LM_SLC, ref triplets @ ..] => {
            let each = triplets.as_chunks::<3>().0.iter().map(special);
            format!("SLC {}", each.collect::<Vec<_>>().join(", "))
        }
        [verb @ (WILL | WONT | DONT), LM_FORWARDMASK] => format!("{} FORWARDMASK", command(verb)),
        [DO, LM_FORWARDMASK, ref octets @ ..] => {
            let mask = Mask::parse(octets)?;
            let all = (0..=255).filter(|&byte| mask.has(byte)).map(character);
            format!("DO FORWARDMASK {}", all.collect::<Vec<_>>().join(" "))
        }
        _ => return None,
    })
}

fn mode(mask: u8) -> String {
    let mode = Mode::from_mask(mask);
    let bits = [
        (mode.edit, "EDIT"),
        (mode.trapsig, "TRAPSIG"),
        (mode.soft_tab, "SOFT_TAB"),
        (mode.lit_echo, "LIT_ECHO"),
        (mask & Mode::ACK != 0, "ACK"),
    ];
    let set: Vec<_> = bits.iter().filter(|(is_on, _)| *is_on).map(|(_, name)| *name).collect();
    if set.is_empty() { "0".to_owned() } else { set.join("|") }
}

/// A function with its level, flags and character.
fn special(&[function, flags, value]: &[u8; 3]) -> String {
    let levels = ["NOSUPPORT", "CANTCHANGE", "VALUE", "DEFAULT"];
    let level = levels[usize::from(slc::Entry::new(flags, value).level())];
    let name = usize::from(function).checked_sub(1).and_then(|at| slc::NAMES.get(at));
    let mut text = match (function, name) {
        (0, _) => "all".to_owned(),
        (_, Some(name)) => (*name).to_owned(),
        (unknown, None) => format!("function {unknown}"),
    };
    let _ = write!(text, " {level}");
    for (bit, word) in [(slc::ACK, "ACK"), (slc::FLUSHIN, "FLUSHIN"), (slc::FLUSHOUT, "FLUSHOUT")] {
        if flags & bit != 0 {
            let _ = write!(text, "|{word}");
        }
    }
    let has_value = function != 0 && level != "NOSUPPORT";
    if has_value {
        let _ = write!(text, " {}", character(value));
    }
    text
}
