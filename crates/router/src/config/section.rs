//! One table of the file: its keys, each read once, by type. Unknown keys are refused with the
//! nearest known one.
//!
//! Called by: `read.rs`.

use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::place::{At, Log};

/// A value of the file.
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// A table, with the keys that it may have.
pub(super) struct Section<'a> {
    table: &'a DeTable<'a>,
    /// Where it begins.
    pub(super) at: usize,
    /// How messages name it, as in `[[port]]`.
    name: &'static str,
}

impl<'a> Section<'a> {
    /// Look whether all its keys are among `known`.
    pub(super) fn new(
        table: &'a DeTable<'a>,
        at: usize,
        name: &'static str,
        known: &[&'static str],
        log: &mut Log<'_>,
    ) -> Section<'a> {
        for key in table.keys() {
            let text: &str = key.get_ref();
            if !known.contains(&text) {
                log.note(key.span().start, unknown(&format!("key of {name}"), text, known));
            }
        }
        Section { table, at, name }
    }

    /// A table whose keys are names of something.
    pub(super) fn of_names(table: &'a DeTable<'a>, at: usize, name: &'static str) -> Section<'a> {
        Section { table, at, name }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        self.table.get(key)
    }

    /// All keys, for tables whose keys are names of something.
    pub(super) fn entries(&self) -> impl Iterator<Item = (At<&'a str>, &'a Value<'a>)> {
        let key = |key: &'a Spanned<toml::de::DeString<'a>>| At {
            value: &**key.get_ref(),
            at: key.span().start,
        };
        self.table.iter().map(move |(k, value)| (key(k), value))
    }

    pub(super) fn text(&self, key: &str, log: &mut Log<'_>) -> Option<At<&'a str>> {
        text(self.get(key)?, key, log)
    }

    /// A text that is read as `T`; `example` is a good one.
    pub(super) fn parsed<T: FromStr>(
        &self,
        key: &str,
        example: &str,
        log: &mut Log<'_>,
    ) -> Option<At<T>> {
        let text = self.text(key, log)?;
        parsed(text, key, example, log)
    }

    pub(super) fn flag(&self, key: &str, log: &mut Log<'_>) -> Option<bool> {
        let value = self.get(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            let is = value.get_ref().type_str();
            log.note(value.span().start, format!("{key} is {is}: write true or false"));
        }
        flag
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number(
        &self,
        key: &str,
        (least, most): (usize, usize),
        log: &mut Log<'_>,
    ) -> Option<At<usize>> {
        number(self.get(key)?, key, (least, most), log)
    }

    /// A list of texts, or a single text.
    pub(super) fn texts(&self, key: &str, log: &mut Log<'_>) -> Vec<At<&'a str>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        match value.get_ref() {
            DeValue::Array(all) => all.iter().filter_map(|one| text(one, key, log)).collect(),
            _ => text(value, key, log).into_iter().collect(),
        }
    }

    /// A key that has to be there.
    pub(super) fn needed(&self, key: &str, example: &str, log: &mut Log<'_>) {
        if self.get(key).is_none() {
            log.note(self.at, format!("{} has no {key}: add {key} = {example}", self.name));
        }
    }
}

fn text<'a>(value: &'a Value<'a>, key: &str, log: &mut Log<'_>) -> Option<At<&'a str>> {
    let at = value.span().start;
    let text = value.get_ref().as_str();
    if text.is_none() {
        let is = value.get_ref().type_str();
        log.note(at, format!("{key} is {is}: write a text, in quotes"));
    }
    text.map(|value| At { value, at })
}

/// Read a text as `T`.
pub(super) fn parsed<T: FromStr>(
    text: At<&str>,
    key: &str,
    example: &str,
    log: &mut Log<'_>,
) -> Option<At<T>> {
    let At { value, at } = text;
    match value.parse() {
        Ok(value) => Some(At { value, at }),
        Err(_) => {
            log.note(at, format!("{key} cannot be '{value}': write it as \"{example}\""));
            None
        }
    }
}

/// Read a whole number from `least` to `most`.
pub(super) fn number(
    value: &Value<'_>,
    key: &str,
    (least, most): (usize, usize),
    log: &mut Log<'_>,
) -> Option<At<usize>> {
    let at = value.span().start;
    let number = value.get_ref().as_integer();
    let number = number.and_then(|n| usize::from_str_radix(n.as_str(), n.radix()).ok());
    match number.filter(|n| (least..=most).contains(n)) {
        Some(value) => Some(At { value, at }),
        None => {
            log.note(at, format!("{key} has to be a whole number from {least} to {most}"));
            None
        }
    }
}

/// What to write instead of an unknown name.
pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let near = known.iter().map(|k| (strsim::damerau_levenshtein(k, name), *k)).min();
    match near {
        Some((distance, near)) if distance <= 2.max(name.len() / 3) => {
            format!("there is no {what} '{name}': did you mean '{near}'?")
        }
        _ => format!("there is no {what} '{name}': there are {}", known.join(", ")),
    }
}
