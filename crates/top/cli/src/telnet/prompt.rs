//! The command line of the tool itself, behind the escape character.
//!
//! Called by: `run.rs`. The words are those of BSD's telnet; the beginning of a word is enough.

use std::str::FromStr;

use telnet::{Client, code, slc};

/// What is shown before a command.
pub(super) const PROMPT: &str = "telnet> ";

const HELP: &str = "\
close, quit           end the connection and the tool
send WHAT             ip, brk, abort, susp, eof, ao, ayt, ec, el, synch, nop or escape
mode line|character   lines that are edited here, or characters as they are typed
set escape CHARACTER  ^X, a character, or none
set WHAT CHARACTER    the same for a special character, by its name in `slc`
slc                   the special characters on which the ends agreed
status                what the two ends agreed on
An empty line goes on.
";

/// The character that stops for a command, or stands for another function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Escape(pub(super) Option<u8>);

impl FromStr for Escape {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Escape, Self::Err> {
        match *text.as_bytes() {
            _ if text == "none" => Ok(Escape(None)),
            [b'^', b'?'] => Ok(Escape(Some(127))),
            [b'^', c] if matches!(c.to_ascii_uppercase(), b'@'..=b'_') => {
                Ok(Escape(Some(c.to_ascii_uppercase() & 0x1f)))
            }
            [c] if c.is_ascii_graphic() => Ok(Escape(Some(c))),
            _ => Err("expected ^X, one character, or none"),
        }
    }
}

impl std::fmt::Display for Escape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(c) if c.is_ascii_graphic() => write!(f, "{}", char::from(c)),
            Some(c) => write!(f, "^{}", char::from(c ^ 64)),
        }
    }
}

/// What follows a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The connection goes on.
    Connection,
    /// Something to show, then the connection goes on.
    Show(String),
    /// Something to show, then another command.
    Again(String),
    /// The connection ends.
    Close,
}

/// Functions by name.
const FUNCTIONS: [(&str, u8); 10] = [
    ("ip", code::IP),
    ("brk", code::BRK),
    ("abort", code::ABORT),
    ("susp", code::SUSP),
    ("eof", code::EOF),
    ("ao", code::AO),
    ("ayt", code::AYT),
    ("ec", code::EC),
    ("el", code::EL),
    ("nop", code::NOP),
];

/// Carry out a command.
pub(super) fn command(line: &str, client: &mut Client, escape: &mut Escape) -> Next {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is = |word: &str, whole: &str| !word.is_empty() && whole.starts_with(word);
    match words[..] {
        [] => Next::Connection,
        [word] if is(word, "close") || is(word, "quit") => Next::Close,
        [word] if is(word, "status") => Next::Show(status(client, *escape)),
        [word] if is(word, "help") || word == "?" => Next::Again(HELP.to_owned()),
        [word, what] if is(word, "send") => send(what, client, *escape),
        [word, what] if is(word, "mode") && (is(what, "line") || is(what, "character")) => {
            client.want_lines(is(what, "line"));
            Next::Connection
        }
        ["slc"] => Next::Show(characters(client)),
        [word, what, character] if is(word, "set") => set(what, character, client, escape),
        _ => Next::Again(format!("There is no such command. There are:\n{HELP}")),
    }
}

fn set(what: &str, character: &str, client: &mut Client, escape: &mut Escape) -> Next {
    let new: Escape = match character.parse() {
        Ok(new) => new,
        Err(why) => return Next::Again(format!("{why}\n")),
    };
    let function = slc::NAMES.iter().zip(1..).find(|(name, _)| name.eq_ignore_ascii_case(what));
    match function {
        _ if what == "escape" => *escape = new,
        Some((_, function)) => client.set_character(function, new.0),
        None => return Next::Again(format!("there is no '{what}': escape, or one of `slc`\n")),
    }
    Next::Connection
}

/// The functions that both ends have.
fn characters(client: &Client) -> String {
    let table = client.table();
    let all = slc::NAMES.iter().zip(1..).filter(|&(_, function)| table.has(function));
    all.map(|(name, function)| format!("{name:<6} {}\n", Escape(table.value(function)))).collect()
}

fn send(what: &str, client: &mut Client, escape: Escape) -> Next {
    match (FUNCTIONS.iter().find(|(name, _)| *name == what), what, escape.0) {
        (Some(&(_, function)), ..) => client.send(function),
        (None, "synch", _) => client.synch(),
        (None, "escape", Some(character)) => client.keys(&[character]),
        _ => {
            let names: Vec<_> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
            return Next::Again(format!("send one of: {}, synch, escape\n", names.join(", ")));
        }
    }
    Next::Connection
}

fn status(client: &Client, escape: Escape) -> String {
    let mode = match (client.is_linemode(), client.edits()) {
        (true, true) => "lines, edited here (LINEMODE)",
        (true, false) => "characters, as the program wants them (LINEMODE)",
        (false, true) => "lines, edited here (the server negotiated no other mode)",
        (false, false) => "characters, shown by the server",
    };
    let counts = client.counts();
    let mut text = format!("Mode: {mode}.\nEscape character is '{escape}'.\n");
    for (count, what) in [
        (counts.refused, "options refused"),
        (counts.dropped, "sub-negotiations dropped"),
        (counts.flushed, "bytes flushed"),
    ] {
        if count > 0 {
            text += &format!("{count} {what}.\n");
        }
    }
    text
}

#[cfg(test)]
mod tests;
