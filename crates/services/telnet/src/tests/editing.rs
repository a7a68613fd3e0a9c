//! The editor, compared with a model of a line and of a terminal.

use proptest::prelude::*;
use unicode_width::UnicodeWidthChar;

use super::joined::{data, drain, joined, settle};
use crate::slc::{self, Entry, Table};
use crate::{Echo, Editor, Typed};

const ECHO: Echo = Echo { is_on: true, is_literal: false };

/// Characters for the functions that have none by default.
const MORE: [(u8, u8); 7] = [
    (slc::MCWL, 15),
    (slc::MCWR, 16),
    (slc::INSRT, 20),
    (slc::OVER, 25),
    (slc::ECR, 24),
    (slc::EWR, 29),
    (slc::EBOL, 30),
];

fn table() -> Table {
    let mut table = Table::client();
    for (function, value) in MORE {
        table.set(function, Entry::new(slc::VALUE, value));
    }
    table
}

/// A row of a terminal that knows only backspace, with its cursor.
#[derive(Default)]
struct Row {
    cells: Vec<char>,
    column: usize,
}

impl Row {
    fn show(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\x08' => self.column -= 1,
                '\r' => self.column = 0,
                '\n' => self.cells.clear(),
                c => {
                    let width = c.width().expect("no control character is shown as it is");
                    self.cells.resize(self.cells.len().max(self.column + width), ' ');
                    self.cells[self.column..][..width].fill('\0');
                    self.cells[self.column] = c;
                    self.column += width;
                }
            }
        }
    }

    fn text(&self) -> String {
        let text: String = self.cells.iter().filter(|&&c| c != '\0').collect();
        text.trim_end().to_owned()
    }
}

/// A line that is edited as the RFC describes it, in the simplest way.
#[derive(Default)]
struct Model {
    line: Vec<char>,
    cursor: usize,
    replaces: bool,
}

impl Model {
    fn edit(&mut self, function: u8) {
        let (at, end) = (self.cursor, self.line.len());
        let blank = |i: &usize| matches!(self.line[*i], ' ' | '\t');
        let word = (0..at).rev().find(|i| !blank(i)).unwrap_or(0);
        let left = (0..word).rev().find(blank).map_or(0, |i| i + 1);
        let word = (at..end).find(|i| !blank(i)).unwrap_or(end);
        let right = (word..end).find(blank).unwrap_or(end);
        let (back, ahead) = (at.saturating_sub(1), (at + 1).min(end));
        let (erased, cursor) = match function {
            slc::EC => (back..at, back),
            slc::EW => (left..at, left),
            slc::EL => (0..end, 0),
            slc::ECR => (at..ahead, at),
            slc::EWR => (at..right, at),
            slc::EBOL => (0..at, 0),
            slc::EEOL => (at..end, at),
            slc::MCL => (0..0, back),
            slc::MCR => (0..0, ahead),
            slc::MCWL => (0..0, left),
            slc::MCWR => (0..0, right),
            slc::MCBOL => (0..0, 0),
            slc::MCEOL => (0..0, end),
            _ => (0..0, at),
        };
        self.line.drain(erased);
        self.cursor = cursor;
        self.replaces = function == slc::OVER || (self.replaces && function != slc::INSRT);
    }

    fn insert(&mut self, c: char) {
        if self.replaces && self.cursor < self.line.len() {
            self.line.remove(self.cursor);
        }
        self.line.insert(self.cursor, c);
        self.cursor += 1;
    }

    /// How a line is shown, and the column after its end.
    fn shown(line: &[char]) -> (String, usize) {
        let (mut text, mut column) = (String::new(), 0);
        for &c in line {
            let shown = match c {
                '\t' => " ".repeat(8 - column % 8),
                c if c.is_ascii_control() => format!("^{}", char::from(c as u8 ^ 64)),
                c => c.to_string(),
            };
            column += shown.chars().map(|c| c.width().unwrap_or(0)).sum::<usize>();
            text += &shown;
        }
        (text.trim_end().to_owned(), column)
    }
}

/// A strategy for keys: a function by its number, or a character.
fn keys() -> impl Strategy<Value = Result<u8, char>> {
    let functions = prop::sample::select(vec![
        slc::EC,
        slc::EW,
        slc::EL,
        slc::RP,
        slc::MCL,
        slc::MCR,
        slc::MCWL,
        slc::MCWR,
        slc::MCBOL,
        slc::MCEOL,
        slc::INSRT,
        slc::OVER,
        slc::ECR,
        slc::EWR,
        slc::EBOL,
        slc::EEOL,
    ]);
    let character = prop::sample::select(vec!['a', 'b', ' ', '\t', '\x1b', 'é', '中', '😀']);
    prop_oneof![2 => functions.prop_map(Ok), 5 => character.prop_map(Err)]
}

proptest! {
    // RFC 1184 2.4-d: Functions of visual editing move the cursor, insert or replace, and erase,
    // inside the line.
    #[test]
    fn the_line_and_what_is_shown_are_those_of_the_model(
        keys in prop::collection::vec(keys(), 0..80),
    ) {
        let (table, mut editor, mut model) = (table(), Editor::default(), Model::default());
        let (mut row, mut display) = (Row::default(), Vec::new());
        for key in keys {
            let mut room = [0; 4];
            let bytes = match key {
                Ok(function) => {
                    model.edit(function);
                    room[0] = table.value(function).expect("it has one");
                    &room[..1]
                }
                Err(c) => {
                    model.insert(c);
                    c.encode_utf8(&mut room).as_bytes()
                }
            };
            for &byte in bytes {
                prop_assert_eq!(editor.key(byte, &table, ECHO, &mut display), Typed::Kept);
            }
            row.show(core::str::from_utf8(&display).expect("whole characters"));
            display.clear();
            let (text, _) = Model::shown(&model.line);
            prop_assert_eq!(row.text(), text);
            prop_assert_eq!(row.column, Model::shown(&model.line[..model.cursor]).1);
        }
        let line = String::from_utf8(editor.take(ECHO, &mut display)).expect("whole characters");
        prop_assert_eq!(line, model.line.iter().collect::<String>());
    }

    #[test]
    fn any_bytes_are_a_line(
        keys in prop::collection::vec(any::<u8>(), 0..200),
        is_literal in any::<bool>(),
    ) {
        let (table, mut editor, mut display) = (table(), Editor::default(), Vec::new());
        for byte in keys {
            editor.key(byte, &table, Echo { is_on: true, is_literal }, &mut display);
        }
        editor.take(ECHO, &mut display);
    }
}

#[test]
fn what_is_typed_in_the_middle_of_a_line_is_sent_in_its_place() {
    let (mut client, mut server) = joined();
    server.take_events();
    // Use the functions by their characters and by cursor keys, which have the same effect.
    client.keys(b"elo\x01h\x06l\x1b[F\x1b[D\x1b[3~\x0bo!\x1bOH>\r");
    settle(&mut client, &mut server);
    assert_eq!(data(&mut server), b">hello!\r");
}

#[test]
fn a_line_that_ends_in_its_middle_is_shown_whole() {
    let (mut client, mut server) = joined();
    client.keys(b"abc\x01\r");
    assert_eq!(client.take_display(), b"abc\x08\x08\x08abc\r\n");
    client.keys(b"abc\x01\x04");
    assert!(client.take_display().ends_with(b"\x08\x08\x08abc"));
    settle(&mut client, &mut server);
    assert_eq!(data(&mut server), b"abc\rabc");
}

#[test]
fn a_server_that_has_no_functions_inside_the_line_gets_their_characters() {
    let (mut client, _) = joined();
    drain(client.out());
    let refused: Vec<u8> = (slc::MCL..=slc::EEOL).flat_map(|f| [f, slc::NOSUPPORT, 0]).collect();
    let sub = |contents: &[u8]| {
        let frame = [crate::code::IAC, crate::code::SB, crate::code::LINEMODE];
        let end = [crate::code::IAC, crate::code::SE];
        [&frame[..], &[crate::code::LM_SLC], contents, &end].concat()
    };
    client.receive(&sub(&refused));
    let agreed: Vec<u8> = (slc::MCL..=slc::EEOL)
        .flat_map(|f| [f, slc::NOSUPPORT | slc::ACK, slc::NONE, slc::NONE])
        .collect();
    assert_eq!(drain(client.out()), sub(&agreed), "IAC in it is doubled");
    client.keys(b"a\x01\x1b[Db\r");
    assert_eq!(drain(client.out()), b"a\x01\x1b[Db\r\n");
}
