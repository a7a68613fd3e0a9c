//! A sample of a stack for the live page: counts, ports, the connections that were asked for, and
//! the byte counts of some others, from which the busiest are found.
//!
//! Called by: the service that answers for a stack, which makes a sample four times a second while
//! a browser has the page open; `feed`, which takes it. The keys are those that the page uses.

use std::collections::BTreeMap;

use control::protocol::Connection;
use explain::{Looked, Recent, Words};
use serde::{Deserialize, Serialize};

/// The parts of a sample that are asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Where the scan of all connections continues.
    pub cursor: u64,
    /// The numbers of the connections that are shown, in order.
    pub chosen: Vec<u64>,
}

/// The sample.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Counts and ports of the stack.
    pub figures: Figures,
    /// The numbers of some connections, and the bytes that each has moved.
    pub scan: Vec<(u64, u64)>,
    /// Where the scan continues; `None` at the end of the table.
    pub next: Option<u64>,
    /// The connections that were asked for.
    pub shown: Vec<Looked>,
}

/// Figures of a stack, and its counters since it began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names of the stack's snapshot and of its counters")]
pub struct Figures {
    pub connections: usize,
    pub time_wait: usize,
    pub half_open: usize,
    pub sockets: usize,
    pub pool_bytes: usize,
    pub rx_bytes: u64,
    pub rx_frames: u64,
    pub tx_bytes: u64,
    pub tx_frames: u64,
    pub forwarded: u64,
    pub retransmits: u64,
    pub wakeups: u64,
    /// Drops by name, including those that devices count.
    pub drops: BTreeMap<String, u64>,
    pub port_count: usize,
    /// The ports, up to a maximum number.
    pub ports: Vec<Port>,
}

/// A port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// The name of the port.
    pub name: String,
    /// The link carries frames.
    pub link_up: bool,
    /// Why the link carries no frames.
    pub failure: Option<String>,
    /// The MTU in bytes.
    pub mtu: usize,
    /// How interrupts are mitigated, and the current level.
    pub mitigation: Option<String>,
    /// The current level of mitigation (see `mitigation`).
    pub level: Option<u8>,
}

/// A connection in the form that the page gets.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    connection: Connection,
    /// The number of the connection's stack.
    stack: usize,
    /// A sentence that says what limits the connection; at first it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<String>,
    /// Advice on the limit, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// The looks at each connection that is shown, by the stack's number and the connection's ends.
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

    /// A sample is complete: forget the connections that were not in it.
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
