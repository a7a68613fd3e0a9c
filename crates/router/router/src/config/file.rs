//! The file: its sections, whose keys are read one by one, each as its own type; and all errors in
//! it, each with its place: `router.toml:12:8: ...`.
//!
//! Called by: all files of `config`. A key is known once the code has asked for it. So the reader
//! of a section asks for all of its keys, even if some are wrong. All other keys are unknown: they
//! are refused when the section is dropped, with the nearest known key.

use core::cell::RefCell;
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use std::collections::{BTreeMap, BTreeSet};

use base::{Cidr, MacAddr, Mtu};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of the file.
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// A value and where it begins, in bytes from the beginning of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

/// Something that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.text)
    }
}

/// All that is wrong in a file, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            let end = if number + 1 == self.0.len() { "" } else { "\n" };
            write!(f, "{problem}{end}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Problems {}

/// Collects the errors of a file.
pub(super) struct Log<'a> {
    file: &'a str,
    text: &'a str,
    found: RefCell<BTreeSet<(usize, String)>>,
}

impl<'a> Log<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Log<'a> {
        Log { file, text, found: RefCell::default() }
    }

    pub(super) fn note(&self, at: usize, text: impl Into<String>) {
        self.found.borrow_mut().insert((at, text.into()));
    }

    /// Note an unknown name, and what to write instead.
    pub(super) fn unknown(&self, at: usize, what: &str, name: &str, known: &[&str]) {
        let near = known.iter().map(|k| (strsim::damerau_levenshtein(k, name), *k)).min();
        let instead = match near {
            Some((distance, near)) if distance <= 2.max(name.len() / 3) => {
                format!("did you mean '{near}'?")
            }
            _ => format!("there are {}", known.join(", ")),
        };
        self.note(at, format!("there is no {what} '{name}': {instead}"));
    }

    /// Read a text as `T`; `example` is a valid one.
    pub(super) fn parsed<T: FromStr>(&self, text: At<&str>, key: &str, example: &str) -> Option<T> {
        let parsed = text.value.parse().ok();
        if parsed.is_none() {
            let what = format!("{key} cannot be '{}': write it as \"{example}\"", text.value);
            self.note(text.at, what);
        }
        parsed
    }

    /// Read a whole number.
    pub(super) fn number<T: TryFrom<usize>>(
        &self,
        value: &Value<'_>,
        key: &str,
        range: RangeInclusive<usize>,
    ) -> Option<T> {
        let number = value.get_ref().as_integer();
        let number = number.and_then(|n| usize::from_str_radix(n.as_str(), n.radix()).ok());
        let number = number.filter(|n| range.contains(n)).and_then(|n| T::try_from(n).ok());
        if number.is_none() {
            let (least, most) = range.into_inner();
            let what = format!("{key} has to be a whole number from {least} to {most}");
            self.note(value.span().start, what);
        }
        number
    }

    /// The line of a place, to name it in a message about another one.
    pub(super) fn line(&self, at: usize) -> usize {
        self.place(at).0
    }

    /// The place of a line and column, both from 1, of the text that `value` is; `None`: the file
    /// has that text with escapes.
    pub(super) fn inside(&self, value: &Value<'_>, line: usize, column: usize) -> Option<usize> {
        let text = value.get_ref().as_str()?;
        let written = self.text.get(value.span())?;
        let quotes =
            if written.starts_with("'''") || written.starts_with("\"\"\"") { 3 } else { 1 };
        let is_written = |from: &usize| written.get(*from..)?.strip_prefix(text).map(|_| ());
        // A newline right behind three quotes is no part of the text (TOML 1.0, "String").
        let mut begin = [quotes, quotes + 1, quotes + 2].into_iter();
        let mut at = begin.find(|from| is_written(from).is_some())?;
        let mut lines = text.split_inclusive('\n');
        at += lines.by_ref().take(line.checked_sub(1)?).map(str::len).sum::<usize>();
        let rest = lines.next().unwrap_or_default();
        at += rest.chars().take(column.checked_sub(1)?).map(char::len_utf8).sum::<usize>();
        Some(value.span().start + at)
    }

    fn place(&self, at: usize) -> (usize, usize) {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        (line, before[begin..].chars().count() + 1)
    }

    /// The configuration that was read, if nothing is wrong.
    pub(super) fn end<T>(self, read: T) -> Result<T, Problems> {
        let problem = |(at, text): &(usize, String)| {
            let (line, column) = self.place(*at);
            Problem { file: self.file.to_owned(), line, column, text: text.clone() }
        };
        let problems: Vec<Problem> = self.found.borrow().iter().map(problem).collect();
        if problems.is_empty() { Ok(read) } else { Err(Problems(problems)) }
    }
}

/// A table of the file.
pub(crate) struct Section<'a> {
    table: &'a DeTable<'a>,
    /// Where it begins.
    pub(super) at: usize,
    /// Its name in messages, as in `[[port]]`.
    name: &'static str,
    /// The keys that were asked for; `None`: the keys are names of something.
    known: RefCell<Option<Vec<&'static str>>>,
    pub(super) log: &'a Log<'a>,
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let Some(known) = self.known.get_mut() else { return };
        for key in self.table.keys().filter(|key| !known.contains(&&**key.get_ref())) {
            self.log.unknown(
                key.span().start,
                &format!("key of {}", self.name),
                key.get_ref(),
                known,
            );
        }
    }
}

impl<'a> Section<'a> {
    pub(super) fn new(
        table: &'a DeTable<'a>,
        at: usize,
        name: &'static str,
        log: &'a Log<'a>,
    ) -> Section<'a> {
        Section { table, at, name, known: RefCell::new(Some(Vec::new())), log }
    }

    /// The value of a key; the key is known from now on.
    pub(super) fn get(&self, key: &'static str) -> Option<&'a Value<'a>> {
        if let Some(known) = &mut *self.known.borrow_mut()
            && !known.contains(&key)
        {
            known.push(key);
        }
        self.table.get(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The place of a key's value; without a value, the place where the section begins.
    pub(super) fn at(&self, key: &str) -> usize {
        self.table.get(key).map_or(self.at, |value| value.span().start)
    }

    /// Note an error in the value of a key.
    pub(super) fn note(&self, key: &str, text: impl Into<String>) {
        self.log.note(self.at(key), text);
    }

    /// All keys, which are names of something.
    pub(super) fn entries(&self) -> impl Iterator<Item = (At<&'a str>, &'a Value<'a>)> {
        self.known.replace(None);
        self.table.iter().map(|(key, value)| {
            let name: &str = key.get_ref();
            (At { value: name, at: key.span().start }, value)
        })
    }

    pub(super) fn text(&self, key: &'static str) -> Option<&'a str> {
        self.text_of(self.get(key)?, key).map(|text| text.value)
    }

    fn text_of(&self, value: &'a Value<'a>, key: &str) -> Option<At<&'a str>> {
        let at = value.span().start;
        let text = value.get_ref().as_str();
        if text.is_none() {
            let is = value.get_ref().type_str();
            self.log.note(at, format!("{key} is {is}: write a text, in quotes"));
        }
        text.map(|value| At { value, at })
    }

    /// A list of texts, or a single text.
    pub(super) fn texts(&self, key: &'static str) -> Vec<At<&'a str>> {
        match self.get(key).map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Array(all))) => {
                all.iter().filter_map(|one| self.text_of(one, key)).collect()
            }
            Some((value, _)) => self.text_of(value, key).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// A text that is read as `T`; `example` is a valid one.
    pub(super) fn parsed<T: FromStr>(&self, key: &'static str, example: &str) -> Option<T> {
        let value = self.text(key)?;
        self.log.parsed(At { value, at: self.at(key) }, key, example)
    }

    /// A network, without host bits.
    pub(super) fn network(&self, key: &'static str, example: &str) -> Option<Cidr> {
        let cidr: Cidr = self.parsed(key, example)?;
        let network = cidr.network();
        if network != cidr {
            self.note(key, format!("{cidr} is an address, no network: write {network}"));
        }
        Some(cidr)
    }

    /// One of these words.
    pub(super) fn word<T: Copy>(&self, key: &'static str, all: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = all.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            self.log.unknown(self.at(key), key, text, &names);
        }
        found.map(|(_, one)| *one)
    }

    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?.get_ref();
        let flag = value.as_bool();
        if flag.is_none() {
            self.note(key, format!("{key} is {}: write true or false", value.type_str()));
        }
        flag
    }

    /// A whole number.
    pub(super) fn number<T: TryFrom<usize>>(
        &self,
        key: &'static str,
        range: RangeInclusive<usize>,
    ) -> Option<T> {
        self.log.number(self.get(key)?, key, range)
    }

    /// `mtu`: bytes of the largest packet.
    pub(super) fn mtu(&self) -> Option<Mtu> {
        Mtu::new(self.number("mtu", Mtu::MIN_V4.bytes()..=Mtu::MAX.bytes())?)
    }

    /// `mac`: a link address.
    pub(super) fn mac(&self) -> Option<MacAddr> {
        self.parsed("mac", "02:00:00:00:00:01").map(|Mac(mac)| mac)
    }

    /// A key that has to be there.
    pub(super) fn needed(&self, key: &str, example: &str) {
        if !self.has(key) {
            self.log.note(self.at, format!("{} has no {key}: add {key} = {example}", self.name));
        }
    }

    /// The section at `key`, if it is there.
    pub(super) fn one(&self, key: &'static str, name: &'static str) -> Option<Section<'a>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(table, value.span().start, name, self.log)),
            other => {
                self.note(key, format!("{key} is {}: write a section {name}", other.type_str()));
                None
            }
        }
    }

    /// The sections at `key`.
    pub(super) fn many(&self, key: &'static str, name: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let wrong = |value: &Value<'_>| {
            let is = value.get_ref().type_str();
            let what = format!("{key} is {is}: write a section {name} for each");
            self.log.note(value.span().start, what);
        };
        let DeValue::Array(values) = value.get_ref() else {
            wrong(value);
            return Vec::new();
        };
        let section = |value: &'a Value<'a>| match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(table, value.span().start, name, self.log)),
            _ => {
                wrong(value);
                None
            }
        };
        values.iter().filter_map(section).collect()
    }
}

/// Entries that were there already, with their places.
pub(super) struct Once<K>(BTreeMap<K, usize>);

impl<K> Default for Once<K> {
    fn default() -> Once<K> {
        Once(BTreeMap::new())
    }
}

impl<K: Ord> Once<K> {
    /// Is it there for the first time? A second one is noted as an error.
    pub(super) fn is_first(&mut self, key: K, at: usize, what: &str, log: &Log<'_>) -> bool {
        if let Some(&before) = self.0.get(&key) {
            let line = log.line(before);
            log.note(at, format!("{what} is in line {line} already: remove one of them"));
            return false;
        }
        self.0.insert(key, at);
        true
    }
}

/// A link address as text.
struct Mac(MacAddr);

impl FromStr for Mac {
    type Err = ();

    fn from_str(text: &str) -> Result<Mac, ()> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(())?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        if parts.next().is_some() { Err(()) } else { Ok(Mac(MacAddr(bytes))) }
    }
}
