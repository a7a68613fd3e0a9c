//! What limits each connection that the page shows, by the looks of the last seconds.
//!
//! Called by: `feed`, for each row of a sample. A row comes with a look; it leaves with a sentence.

use explain::{Look, Recent, Words};
use serde::Deserialize;
use serde_json::{Value, json};

/// The looks at each connection that is shown: a stack's number, and the ends.
#[derive(Default)]
pub(super) struct Explained(Recent<(usize, String, String)>);

impl Explained {
    /// Take the look of a row, and give the row a sentence and what helps.
    pub(super) fn take(&mut self, stack: usize, row: &mut Value) {
        let Some(look) = row.as_object_mut().and_then(|row| row.remove("look")) else { return };
        let Ok(look) = Look::deserialize(look) else { return };
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let words = self.0.take((stack, text("local"), text("remote")), look);
        if let Some(Words { answer, advice }) = words {
            row["explained"] = json!(answer);
            row["advice"] = json!(advice);
        }
    }

    /// A sample is complete: forget the connections that it did not have.
    pub(super) fn forget(&mut self) {
        self.0.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gets_a_sentence_for_its_looks() {
        let mut explained = Explained::default();
        let mut row = Value::Null;
        for n in 0..10 {
            let look = Look { at_us: n * 250_000, segments_out: n, acked: n, ..Look::default() };
            row = json!({ "local": "a", "remote": "b", "look": look });
            explained.take(0, &mut row);
            explained.forget();
            assert!(row.get("look").is_none());
        }
        let words = row["explained"].as_str().expect("a sentence");
        assert!(words.contains("limited by the application"), "{words}");
    }
}
