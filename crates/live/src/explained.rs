//! What limits each connection that the page shows, by the looks of the last seconds.
//!
//! Called by: `feed`, for each row of a sample. A row comes with a look; it leaves with a sentence.

use std::collections::{HashMap, VecDeque};

use explain::{Look, Verdict, Words};
use serde::Deserialize;
use serde_json::{Value, json};

/// Looks that count: five seconds of them.
const LOOKS: usize = 20;

/// A stack's number, and the ends of a connection.
type Key = (usize, String, String);

/// The looks at each connection that is shown.
#[derive(Default)]
pub(super) struct Explained {
    looks: HashMap<Key, (VecDeque<Look>, u64)>,
    /// Samples so far.
    samples: u64,
}

impl Explained {
    /// Take the look of a row, and give the row a sentence and what helps.
    pub(super) fn take(&mut self, stack: usize, row: &mut Value) {
        let Some(look) = row.as_object_mut().and_then(|row| row.remove("look")) else { return };
        let Ok(look) = Look::deserialize(look) else { return };
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let (looks, seen) = self.looks.entry((stack, text("local"), text("remote"))).or_default();
        // Another connection between the same ends begins anew.
        if looks.back().is_some_and(|last| last.segments_out > look.segments_out) {
            looks.clear();
        }
        looks.push_back(look);
        while looks.len() > LOOKS {
            looks.pop_front();
        }
        *seen = self.samples;
        if let Some(verdict) = Verdict::of(looks.make_contiguous()) {
            let Words { answer, advice } = Words::of(&verdict);
            row["explained"] = json!(answer);
            row["advice"] = json!(advice);
        }
    }

    /// A sample is complete: forget the connections that it did not have.
    pub(super) fn forget(&mut self) {
        let now = self.samples;
        self.looks.retain(|_, (_, seen)| *seen == now);
        self.samples += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gets_the_sentence_of_its_last_looks() {
        let mut explained = Explained::default();
        let mut row = Value::Null;
        for n in 0..40 {
            let look = Look { at_us: n * 250_000, segments_out: n, acked: n, ..Look::default() };
            row = json!({ "local": "a", "remote": "b", "look": look });
            explained.take(0, &mut row);
            explained.forget();
            assert!(row.get("look").is_none());
        }
        let words = row["explained"].as_str().expect("a sentence");
        assert!(words.contains("limited by the application"), "{words}");
        assert_eq!(explained.looks.values().next().map(|(looks, _)| looks.len()), Some(LOOKS));
        explained.forget();
        assert!(explained.looks.is_empty());
    }
}
