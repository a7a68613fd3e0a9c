//! The analysis of a capture, as text and as JSON.
//!
//! Called by: `trace.rs`. The counts have the names of Wireshark's fields below `tcp.analysis.`.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use trace::limits::CONNECTIONS_MAX;
use trace::{Connection, Direction, Marks, NAMES, Skips};

use super::Read;

/// The columns of counts: the head and the mark.
const COUNTS: [(&str, Marks); 8] = [
    ("again", Marks::RETRANSMISSION),
    ("fast", Marks::FAST_RETRANSMISSION),
    ("spurious", Marks::SPURIOUS_RETRANSMISSION),
    ("late", Marks::OUT_OF_ORDER),
    ("lost", Marks::LOST_SEGMENT),
    ("dup ACKs", Marks::DUPLICATE_ACK),
    ("zero win", Marks::ZERO_WINDOW),
    ("full", Marks::WINDOW_FULL),
];

/// What they mean.
pub(super) const LEGEND: &str = "\
again: sent again (retransmission), of these fast: asked for by duplicate ACKs, spurious: already
acknowledged; late: out of order; lost: the segment before is not in the capture; zero win: takes no
data; full: fills the window. ms: round trips from a segment to its ACK, where it was captured.
";

/// A number with commas.
fn commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `one` or several.
fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", commas(number), if number == 1 { one } else { several })
}

fn ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    let places = if ms < 10.0 { 3 } else { 1 };
    format!("{ms:.places$}")
}

/// The ends of a connection, and on which interface, if there are several.
pub(super) fn title(read: &Read, connection: &Connection) -> String {
    let (client, server) = (connection.client(), connection.server());
    match read.interface(connection) {
        Some(interface) => {
            format!("{client} > {server}, {}", wirespeed::control::text::plain(interface))
        }
        None => format!("{client} > {server}"),
    }
}

/// How long it took, and its handshake.
pub(super) fn duration(connection: &Connection) -> String {
    let seconds = (connection.last_ns() - connection.first_ns()) as f64 / 1e9;
    match connection.handshake_ns() {
        Some(handshake) => format!("{seconds:.3} s, handshake {} ms", ms(handshake)),
        None => format!("{seconds:.3} s, its beginning is not in the capture"),
    }
}

/// Both directions with their names.
pub(super) fn directions(connection: &Connection) -> [(&'static str, Direction<'_>); 2] {
    [("client", connection.from_client()), ("server", connection.from_server())]
}

/// Heads of the table's columns.
pub(super) fn heads() -> Vec<&'static str> {
    let mut heads = vec!["from", "segments", "bytes"];
    heads.extend(COUNTS.map(|(head, _)| head));
    heads.extend(["in flight", "ms min", "median", "95 %", "max"]);
    heads
}

/// The cells of a direction.
pub(super) fn cells(name: &str, direction: Direction<'_>) -> Vec<String> {
    let counts = direction.counts();
    let mut cells = vec![name.to_owned(), commas(counts.segments), commas(counts.bytes)];
    cells.extend(COUNTS.map(|(_, mark)| commas(counts.of(mark))));
    cells.push(commas(counts.in_flight_max));
    match counts.rtt_count {
        0 => cells.extend(["-"; 4].map(str::to_owned)),
        _ => {
            let quantile = |of| direction.rtt_quantile_ns(of).map_or("-".to_owned(), ms);
            cells.push(ms(counts.rtt_min_ns));
            cells.extend([quantile(0.5), quantile(0.95), ms(counts.rtt_max_ns)]);
        }
    }
    cells
}

/// Sentences about packets that were not traced.
pub(super) fn remarks(read: &Read, most: usize) -> Vec<String> {
    let Skips { link, not_tcp, fragments, short, malformed, connections } = read.trace.skips();
    let reasons = [
        (not_tcp, "not TCP"),
        (link, "of link types that are not read"),
        (fragments, "fragments, which are not put together"),
        (short, "cut off within their headers"),
        (malformed, "with headers that contradict themselves"),
    ];
    let mut remarks = Vec::new();
    let parts = reasons.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(count, what)| format!("{} {what}", commas(*count))).collect();
    if !parts.is_empty() {
        remarks.push(format!("Packets that are not traced: {}.", parts.join(", ")));
    }
    if connections > 0 {
        remarks.push(format!(
            "{} of connections beyond the first {} are not traced either: choose some by FILTER, \
             as 'port 80'.",
            counted(connections, "segment", "segments"),
            commas(CONNECTIONS_MAX as u64)
        ));
    }
    let all = read.trace.connections();
    if all.len() > most {
        remarks.push(format!(
            "These are the {most} connections with most bytes, of {}; --most shows more, --json \
             all.",
            commas(all.len() as u64)
        ));
    }
    if all.iter().any(Connection::is_scale_unknown) {
        remarks.push(
            "Of connections whose beginning is not in the capture the window scale is unknown: \
             their windows are as in the headers, and too small."
                .to_owned(),
        );
    }
    if let Some(damage) = &read.damage {
        remarks.push(wirespeed::control::text::plain(&format!("{damage:#}.")));
    }
    if read.interrupted {
        remarks.push("Stopped before the end of the file.".to_owned());
    }
    remarks
}

/// The first line: how much there is.
pub(super) fn summary(read: &Read) -> String {
    format!(
        "{}: {}, {}",
        wirespeed::control::text::plain(&read.file),
        counted(read.trace.packets(), "packet", "packets"),
        counted(read.trace.connections().len() as u64, "TCP connection", "TCP connections")
    )
}

/// How often each mark was set in all connections.
fn totals(read: &Read) -> [u64; NAMES.len()] {
    let mut totals = [0; NAMES.len()];
    for connection in read.trace.connections() {
        for (_, direction) in directions(connection) {
            for (total, count) in totals.iter_mut().zip(direction.counts().marks) {
                *total += count;
            }
        }
    }
    totals
}

/// The whole text.
pub(super) fn text(read: &Read, most: u16) -> String {
    let most = usize::from(most);
    let mut text = summary(read) + "\n";
    // Writing into a string cannot fail.
    for connection in read.by_bytes().into_iter().take(most) {
        let _ = writeln!(text, "\n{}: {}", title(read, connection), duration(connection));
        let mut rows = vec![heads().into_iter().map(str::to_owned).collect::<Vec<String>>()];
        rows.extend(directions(connection).map(|(name, direction)| cells(name, direction)));
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!("  {cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text.push_str(&cells.collect::<Vec<_>>().join("  "));
            text.push('\n');
        }
    }
    let totals = totals(read);
    let parts = NAMES.iter().zip(totals).filter(|(_, total)| *total > 0);
    let parts: Vec<String> = parts.map(|((_, name), total)| format!("{name} {total}")).collect();
    if !parts.is_empty() {
        let _ =
            writeln!(text, "\nall, as tcp.analysis.*: {}\n\n{}", parts.join(", "), LEGEND.trim());
    }
    for remark in remarks(read, most) {
        let _ = write!(text, "\n{remark}\n");
    }
    text
}

fn direction_json(direction: Direction<'_>) -> Value {
    let counts = direction.counts();
    let marks = NAMES.iter().zip(counts.marks);
    let marks: Map<String, Value> =
        marks.map(|((_, name), count)| ((*name).to_owned(), json!(count))).collect();
    let rtt = (counts.rtt_count > 0).then(|| {
        json!({
            "samples": counts.rtt_count,
            "min": counts.rtt_min_ns,
            "median": direction.rtt_quantile_ns(0.5),
            "p95": direction.rtt_quantile_ns(0.95),
            "max": counts.rtt_max_ns,
            "mean": counts.rtt_sum_ns / counts.rtt_count,
        })
    });
    json!({
        "segments": counts.segments,
        "data_segments": counts.data_segments,
        "bytes": counts.bytes,
        "bytes_again": counts.bytes_again,
        "syns": counts.syns,
        "fins": counts.fins,
        "rsts": counts.rsts,
        "mss": direction.mss(),
        "sack_permitted": direction.sack_permitted(),
        "segment_max": counts.segment_max,
        "window_max": counts.window_max,
        "in_flight_max": counts.in_flight_max,
        "analysis": marks,
        "rtt_ns": rtt,
    })
}

/// The document, with all connections.
pub(super) fn json(read: &Read) -> String {
    let connection = |connection: &Connection| {
        json!({
            "client": connection.client().to_string(),
            "server": connection.server().to_string(),
            "interface": read.interfaces.get(connection.interface() as usize),
            "first_ns": connection.first_ns(),
            "last_ns": connection.last_ns(),
            "handshake_ns": connection.handshake_ns(),
            "window_scale_known": !connection.is_scale_unknown(),
            "from_client": direction_json(connection.from_client()),
            "from_server": direction_json(connection.from_server()),
        })
    };
    let skips = read.trace.skips();
    let totals: Map<String, Value> = NAMES
        .iter()
        .zip(totals(read))
        .map(|((_, name), total)| ((*name).to_owned(), json!(total)))
        .collect();
    let document = json!({
        "file": read.file,
        "packets": read.trace.packets(),
        "whole": read.damage.is_none() && !read.interrupted,
        "not_traced": {
            "link_type": skips.link,
            "not_tcp": skips.not_tcp,
            "fragments": skips.fragments,
            "short": skips.short,
            "malformed": skips.malformed,
            "beyond_connections": skips.connections,
        },
        "analysis": totals,
        "connections": read.trace.connections().iter().map(connection).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_times_three_figures() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(commas), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1_234, 12_345_678].map(ms), ["0.001", "12.3"]);
    }
}
