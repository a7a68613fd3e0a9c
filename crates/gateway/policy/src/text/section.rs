//! The file: its sections, whose keys are read one by one, and every mistake in it with its place.
//!
//! Called by: all files of `text`. A key is known once a reader has asked for it; when a section is
//! dropped, all others are refused, with the nearest known key.

use core::cell::RefCell;
use std::collections::BTreeSet;

use filter::text::parts::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A text of the file and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) text: &'a str,
    /// In bytes from the beginning of the file.
    pub(super) at: usize,
}

/// Collects mistakes.
pub(super) struct Notes<'a> {
    text: &'a str,
    /// Where lines begin.
    lines: Vec<usize>,
    found: RefCell<BTreeSet<(usize, String)>>,
}

impl<'a> Notes<'a> {
    pub(super) fn new(text: &'a str) -> Notes<'a> {
        let behind = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = core::iter::once(0).chain(behind).collect();
        Notes { text, lines, found: RefCell::default() }
    }

    pub(super) fn add(&self, at: usize, what: impl Into<String>) {
        self.found.borrow_mut().insert((at, what.into()));
    }

    /// Note an unknown word, and what to write instead.
    pub(super) fn unknown(&self, at: usize, what: &str, word: &str, known: &[&str]) {
        let instead = match nearest(word, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        self.add(at, format!("unknown {what} `{word}`: {instead}"));
    }

    /// The line and the column of a place, from 1, the column in characters.
    pub(super) fn place(&self, at: usize) -> (u32, u32) {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let line = self.lines.partition_point(|&begin| begin <= at).max(1);
        let begin = self.lines.get(line - 1).copied().unwrap_or(0);
        (line as u32, self.text[begin..at].chars().count() as u32 + 1)
    }

    /// Where the text of a value begins, if it is written in quotes and without escapes.
    fn inside(&self, value: &Spanned<DeValue<'_>>) -> usize {
        let (at, text) = (value.span().start, value.get_ref().as_str().unwrap_or_default());
        let written = self.text.get(value.span()).unwrap_or_default();
        let is_plain = written.get(1..).is_some_and(|rest| rest.starts_with(text));
        if is_plain && !text.is_empty() { at + 1 } else { at }
    }

    /// All mistakes, in the order of the file.
    pub(super) fn finish(self) -> BTreeSet<(usize, String)> {
        self.found.into_inner()
    }
}

/// A table of the file.
pub(super) struct Section<'a> {
    table: &'a DeTable<'a>,
    /// Where it begins.
    pub(super) at: usize,
    /// Its name in messages, as in `[[rule]]`.
    name: &'static str,
    /// The keys that were asked for; `None`: the keys are names of something.
    known: RefCell<Option<Vec<&'static str>>>,
    pub(super) notes: &'a Notes<'a>,
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let Some(known) = self.known.get_mut() else { return };
        for key in self.table.keys().filter(|key| !known.contains(&&**key.get_ref())) {
            let what = format!("key of {}", self.name);
            self.notes.unknown(key.span().start, &what, key.get_ref(), known);
        }
    }
}

impl<'a> Section<'a> {
    pub(super) fn new(
        table: &'a DeTable<'a>,
        at: usize,
        name: &'static str,
        notes: &'a Notes<'a>,
    ) -> Section<'a> {
        Section { table, at, name, known: RefCell::new(Some(Vec::new())), notes }
    }

    /// The value of a key, which is known from now on.
    fn get(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        if let Some(known) = &mut *self.known.borrow_mut() {
            known.push(key);
        }
        self.table.get(key)
    }

    pub(super) fn has(&self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    /// The place of a key's value, or of the section.
    pub(super) fn at(&self, key: &str) -> usize {
        self.table.get(key).map_or(self.at, |value| value.span().start)
    }

    pub(super) fn note(&self, key: &str, what: impl Into<String>) {
        self.notes.add(self.at(key), what);
    }

    fn text_of(&self, value: &'a Spanned<DeValue<'a>>, key: &str) -> Option<At<'a>> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            let what = format!("{key} is {}: write it in quotes", value.get_ref().type_str());
            self.notes.add(value.span().start, what);
        }
        text.map(|text| At { text, at: self.notes.inside(value) })
    }

    /// A text.
    pub(super) fn text(&self, key: &'static str) -> Option<At<'a>> {
        self.text_of(self.get(key)?, key)
    }

    /// A list of texts, or a single one.
    pub(super) fn texts(&self, key: &'static str) -> Vec<At<'a>> {
        self.get(key).map_or_else(Vec::new, |value| self.all_of(value, key))
    }

    fn all_of(&self, value: &'a Spanned<DeValue<'a>>, key: &str) -> Vec<At<'a>> {
        match value.get_ref() {
            DeValue::Array(all) => all.iter().filter_map(|one| self.text_of(one, key)).collect(),
            _ => self.text_of(value, key).into_iter().collect(),
        }
    }

    /// One of these words.
    pub(super) fn word<T: Copy>(&self, key: &'static str, all: &[(&str, T)]) -> Option<T> {
        let word = self.text(key)?;
        let found = all.iter().find(|(name, _)| *name == word.text);
        if found.is_none() {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            self.notes.unknown(word.at, key, word.text, &names);
        }
        found.map(|(_, one)| *one)
    }

    /// A whole number, or a text.
    pub(super) fn number_or_text(&self, key: &'static str) -> Option<At<'a>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => {
                Some(At { text: number.as_str(), at: value.span().start })
            }
            _ => self.text_of(value, key),
        }
    }

    /// All keys, which are names of something, and their lists of texts.
    pub(super) fn lists(&self) -> Vec<(At<'a>, Vec<At<'a>>)> {
        self.known.replace(None);
        let one = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let name: &std::borrow::Cow<'a, str> = key.get_ref();
            (At { text: name, at: key.span().start }, self.all_of(value, name))
        };
        self.table.iter().map(one).collect()
    }

    /// The section at `key`, if it is there.
    pub(super) fn one(&self, key: &'static str, name: &'static str) -> Option<Section<'a>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => {
                Some(Section::new(table, value.span().start, name, self.notes))
            }
            other => {
                self.note(key, format!("{key} is {}: write a section {name}", other.type_str()));
                None
            }
        }
    }

    /// The sections at `key`.
    pub(super) fn many(&self, key: &'static str, name: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let values = value.get_ref().as_array().map(|all| all.iter()).into_iter().flatten();
        let sections: Vec<Section<'a>> = values
            .filter_map(|value| {
                let table = value.get_ref().as_table()?;
                Some(Section::new(table, value.span().start, name, self.notes))
            })
            .collect();
        if value.get_ref().as_array().map(|all| all.len()) != Some(sections.len()) {
            self.note(key, format!("write a section {name} for each {key}"));
        }
        sections
    }
}
