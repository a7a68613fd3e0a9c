//! A sample of a stack for the live page: counts, ports, the connections that were asked for, and
//! how many bytes some others have moved, from which the busiest are found.
//!
//! Called by: who answers for a stack makes it, four times a second while somebody looks at the
//! page; `feed` takes it. The keys are the page's.

use std::collections::BTreeMap;

use explain::Looked;
use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Where the scan of all connections goes on.
    pub cursor: u64,
    /// The numbers of the connections that are shown, in order.
    pub chosen: Vec<u64>,
}

/// The sample.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Counts and ports.
    pub figures: Figures,
    /// The numbers of some connections, and the bytes that each has moved.
    pub scan: Vec<(u64, u64)>,
    /// Where the scan goes on; `None`: it was the end of the table.
    pub next: Option<u64>,
    /// Those that were asked for.
    pub shown: Vec<Looked>,
}

/// What a stack has, and has counted since it began.
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
    /// By name, those that devices count included.
    pub drops: BTreeMap<String, u64>,
    pub port_count: usize,
    /// The first of them.
    pub ports: Vec<Port>,
}

/// A port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its link carries frames.
    pub link_up: bool,
    /// Why it does not.
    pub failure: Option<String>,
    /// In bytes.
    pub mtu: usize,
    /// How interrupts are mitigated, and the level now.
    pub mitigation: Option<String>,
    /// See `mitigation`.
    pub level: Option<u8>,
}
