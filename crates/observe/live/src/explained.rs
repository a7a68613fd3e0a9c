//! The rows of the page: connections with what limits each, by the looks of the last seconds.
//!
//! Called by: `feed`, for each connection of a sample.

use control::protocol::Connection;
use explain::{Looked, Recent, Words};
use serde::Serialize;

/// A connection as the page has it.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    connection: Connection,
    /// Its stack, by number.
    stack: usize,
    /// What limits it, in a sentence; not yet known at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<String>,
    /// What helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// The looks at each connection that is shown: a stack's number, and the ends.
#[derive(Default)]
pub(super) struct Explained(Recent<(usize, String, String)>);

impl Explained {
    /// The row of a connection that was looked at.
    pub(super) fn row(&mut self, stack: usize, looked: Looked) -> Row {
        let Looked { connection, look } = looked;
        let ends = (stack, connection.local.clone(), connection.remote.clone());
        let words = self.0.take(ends, look);
        let (explained, advice) = match words {
            Some(Words { answer, advice }) => (Some(answer), advice),
            None => (None, None),
        };
        Row { connection, stack, explained, advice }
    }

    /// A sample is complete: forget the connections that it did not have.
    pub(super) fn forget(&mut self) {
        self.0.forget();
    }
}

#[cfg(test)]
mod tests {
    use explain::Look;

    use super::*;

    #[test]
    fn a_row_gets_a_sentence_for_its_looks() {
        let mut explained = Explained::default();
        let mut row = None;
        for n in 0..10 {
            let look = Look { at_us: n * 250_000, segments_out: n, acked: n, ..Look::default() };
            let connection = Connection { local: "a".to_owned(), ..Connection::default() };
            row = Some(explained.row(0, Looked { connection, look }));
            explained.forget();
        }
        let row = serde_json::to_value(row).expect("JSON");
        let words = row["explained"].as_str().expect("a sentence");
        assert!(words.contains("limited by the application"), "{words}");
        assert!(row["local"] == "a" && row["stack"] == 0 && row.get("look").is_none(), "{row}");
    }
}
