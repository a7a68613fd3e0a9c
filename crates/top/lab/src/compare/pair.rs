//! The rows of two documents that belong together, and their figures side by side.
//!
//! Called by: `compare`. Rows belong together if their texts are the same. If several rows have the
//! same texts, numbers that both documents have, such as a size, tell them apart; then their order
//! does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::document::Document;
use super::judge::{Judged, Side, judge};
use crate::table::three;

type Row = Map<String, Value>;

/// Two rows, and the columns that tell them from other rows.
pub(super) struct Pair<'a> {
    a: &'a Row,
    b: &'a Row,
    keys: Vec<String>,
}

/// A figure that both documents have.
pub(super) struct Change {
    /// The name of its row: columns and their values.
    row: Vec<(String, Value)>,
    key: String,
    unit: String,
    a: f64,
    b: f64,
    pub(super) judged: Judged,
}

/// The rows that belong together.
pub(super) fn pairs<'a>(a: &'a Document, b: &'a Document) -> Vec<Pair<'a>> {
    let keys = keys(a, b);
    let mut waiting: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in b.rows.iter().rev() {
        waiting.entry(name(row, &keys)).or_default().push(row);
    }
    let pair = |a| {
        let b = waiting.get_mut(&name(a, &keys))?.pop()?;
        Some(Pair { a, b, keys: keys.clone() })
    };
    a.rows.iter().filter_map(pair).collect()
}

/// The name of a row: its values in the columns `keys`.
fn name(row: &Row, keys: &[String]) -> String {
    let values = keys.iter().map(|key| row.get(key).unwrap_or(&Value::Null).to_string());
    values.collect::<Vec<_>>().join(" ")
}

/// The columns that tell rows apart.
fn keys(a: &Document, b: &Document) -> Vec<String> {
    let columns: BTreeSet<&String> = a.rows.iter().flat_map(|row| row.keys()).collect();
    let values = |document: &Document, key: &str| -> BTreeSet<String> {
        document.rows.iter().filter_map(|row| row.get(key)).map(Value::to_string).collect()
    };
    let all = |key: &str, is: fn(&Value) -> bool| {
        let mut rows = a.rows.iter().chain(&b.rows);
        rows.all(|row| row.get(key).is_some_and(is))
    };
    // A column whose texts differ between the documents, such as a reason, is used last.
    let same = |key: &&&String| values(a, key) == values(b, key);
    let texts = || columns.iter().filter(|key| all(key, Value::is_string));
    let numbers = columns.iter().filter(|key| all(key, Value::is_number));
    let numbers = numbers.filter(same).filter(|key| !is_bound(key));
    let others = texts().filter(|key| !same(key));
    let mut keys: Vec<String> = Vec::new();
    let apart =
        |keys: &[String]| a.rows.iter().map(|row| name(row, keys)).collect::<BTreeSet<_>>().len();
    for key in texts().filter(same).chain(numbers).chain(others) {
        let more = [keys.as_slice(), &[(*key).clone()]].concat();
        if apart(&more) > apart(&keys) {
            keys = more;
        }
        if apart(&keys) == a.rows.len() {
            break;
        }
    }
    keys
}

/// Does this column have the lower or upper bound of another column?
fn is_bound(key: &str) -> bool {
    key.starts_with("low_")
        || key.starts_with("high_")
        || ["_min", "_max", "_low", "_high"].iter().any(|end| key.ends_with(end))
}

/// The bounds of a figure, from the columns that have them.
fn spread(row: &Row, key: &str) -> Option<(f64, f64)> {
    let of = |name: String| row.get(&name)?.as_f64();
    let pairs = [
        (format!("{key}_min"), format!("{key}_max")),
        (format!("{key}_low"), format!("{key}_high")),
        (format!("low_{key}"), format!("high_{key}")),
    ];
    pairs.into_iter().find_map(|(low, high)| Some((of(low)?, of(high)?)))
}

impl Pair<'_> {
    /// The figures that both rows have.
    pub(super) fn figures(&self, a: &Document, b: &Document) -> Vec<Change> {
        let numbers = self.a.iter().filter_map(|(key, value)| {
            let is_figure = !self.keys.contains(key) && !is_bound(key);
            Some((key, value.as_f64()?, self.b.get(key)?.as_f64()?)).filter(|_| is_figure)
        });
        let is_exact = a.is_virtual();
        let change = |(key, of_a, of_b): (&String, f64, f64)| {
            let sides = (self.side(a, self.a, key, of_a), self.side(b, self.b, key, of_b));
            let row = self
                .keys
                .iter()
                .filter_map(|key| self.a.get(key).map(|value| (key.clone(), value.clone())));
            Change {
                row: row.collect(),
                key: key.clone(),
                unit: a.units.get(key).and_then(Value::as_str).unwrap_or_default().to_owned(),
                a: of_a,
                b: of_b,
                judged: judge(&sides.0, &sides.1, is_exact),
            }
        };
        numbers.map(change).collect()
    }

    fn side(&self, document: &Document, row: &Row, key: &str, value: f64) -> Side {
        let is_of_row = |sample: &&Value| {
            let shared = self.keys.iter().filter_map(|key| Some((sample.get(key)?, row.get(key))));
            let shared: Vec<_> = shared.collect();
            !shared.is_empty() && shared.into_iter().all(|(theirs, ours)| Some(theirs) == ours)
        };
        let runs = document.samples.iter().filter(is_of_row).filter_map(|sample| sample.get(key));
        let runs = runs.flat_map(|value| match value {
            Value::Array(several) => several.iter().filter_map(Value::as_f64).collect(),
            one => one.as_f64().into_iter().collect::<Vec<f64>>(),
        });
        Side { value, runs: runs.collect(), spread: spread(row, key), wider: document.wider() }
    }
}

impl Change {
    /// The verdict in a word: faster or slower if the unit says which is better, else more or less.
    fn word(&self) -> &'static str {
        let is_more = self.b > self.a;
        match quick(&self.unit) {
            Some(high_is_fast) if high_is_fast == is_more => "faster",
            Some(_) => "slower",
            None if is_more => "more",
            None => "less",
        }
    }

    /// A line for people.
    pub(super) fn line(&self) -> String {
        let row = self.row.iter().map(|(_, value)| match value {
            Value::String(words) => words.clone(),
            other => other.to_string(),
        });
        let ratio = match (self.judged.ratio, self.judged.interval) {
            (Some(ratio), Some((low, high))) => format!(" {ratio:.3} ({low:.3} to {high:.3})"),
            (Some(ratio), None) => format!(" {ratio:.3}"),
            (None, _) => String::new(),
        };
        let row = row.collect::<Vec<_>>().join(", ");
        let (a, b) = (figure(self.a), figure(self.b));
        format!("{row}: {} {a} -> {b},{ratio} {}", self.key, self.word())
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "row": self.row.iter().cloned().collect::<Map<String, Value>>(),
            "key": self.key,
            "unit": self.unit,
            "a": self.a,
            "b": self.b,
            "ratio": self.judged.ratio,
            "interval": self.judged.interval.map(|(low, high)| [low, high]),
            "verdict": self.word(),
        })
    }
}

/// A number in about three digits, small numbers too.
fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.1 => format!("{value:.2e}"),
        _ if value < 0.0 => format!("-{}", three(-value)),
        _ => three(value),
    }
}

/// Is a higher figure of this unit better? `None` if the unit does not say.
fn quick(unit: &str) -> Option<bool> {
    let first = unit.split([' ', ',']).next().unwrap_or_default();
    if ["ns", "us", "ms", "s", "instructions", "cycles"].contains(&first) {
        return Some(false);
    }
    if ["interrupts", "datagrams a second offered"].iter().any(|start| unit.starts_with(start)) {
        return None;
    }
    let rate = ["a second", "/s", "of rate"].iter().any(|part| unit.contains(part));
    rate.then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_say_which_is_better_or_nothing() {
        assert_eq!(quick("ns a packet, median"), Some(false));
        assert_eq!(quick("Gb/s of payload"), Some(true));
        assert_eq!(quick("packets a second to the application, median"), Some(true));
        assert_eq!(quick("segments, median"), None);
        assert_eq!(quick("interrupts a second"), None);
    }

    #[test]
    fn bounds_are_no_figures_of_their_own() {
        let row = json!({"ns": 5.0, "low_ns": 4.0, "high_ns": 6.0, "share_min": 0.1});
        let row = row.as_object().expect("an object");
        assert_eq!(spread(row, "ns"), Some((4.0, 6.0)));
        assert_eq!(spread(row, "share"), None);
        assert!(is_bound("low_ns") && is_bound("share_min") && !is_bound("ns"));
    }
}
