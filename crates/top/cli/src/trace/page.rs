//! The page: a time-sequence graph and round trips for each direction with data, in one file.
//!
//! Called by: `trace.rs`. The plots' library and the colours are `page`'s; `page.js` draws, and
//! reads the points from the document that is put into the page. A browser runs the scripts and
//! styles that stand in it and nothing else: its policy has their hashes.

use std::fmt::Write as _;

use page::{THEME_CSS, UPLOT_CSS, UPLOT_JS, escaped, json_in_script, policy_source};
use serde_json::{Value, json};
use trace::{Connection, Direction, Marks};

use super::Read;
use super::report::{cells, directions, duration, heads, remarks, summary, title};

/// Points of a series on the page: more could not be told apart.
const POINTS: usize = 2_000;

/// Draws the graphs.
const SCRIPT: &str = include_str!("page.js");

/// The styles that only this page needs, without the colours of the key.
const STYLE: &str = "
.graph { background: var(--panel); border: 1px solid var(--rule); margin: 0.5rem 0; }
.graph + .said { min-height: 1.5em; margin: 0; font-size: 0.9em; }
h1, h2 { overflow-wrap: anywhere; }
.key span { margin-right: 1.2em; white-space: nowrap; }
.key i { display: inline-block; width: 0.9em; height: 0.9em; margin-right: 0.35em; }
.u-legend { font-size: 0.85em; }
section { break-inside: avoid-page; }
";

/// The names of the graph's marks and their colours; `page.js` draws them in this order.
const KEY: [(&str, &str); 7] = [
    ("segment", "--s1"),
    ("sent again", "--s6"),
    ("spurious", "--s4"),
    ("out of order", "--s2"),
    ("ACK", "--s3"),
    ("SACK", "--s5"),
    ("window", "--quiet"),
];

/// How a segment is drawn: an index into [`KEY`].
fn kind(marks: Marks) -> usize {
    if marks.contains(Marks::SPURIOUS_RETRANSMISSION) {
        2
    } else if marks.contains(Marks::RETRANSMISSION) {
        1
    } else if marks.contains(Marks::OUT_OF_ORDER) {
        3
    } else {
        0
    }
}

/// The points of a direction, times in us since the connection's first segment.
fn graph(connection: &Connection, name: &str, direction: Direction<'_>) -> Value {
    let graph = direction.graph();
    let us = |time_ns: u64| time_ns.saturating_sub(connection.first_ns()) / 1_000;
    let (segments, every) = graph.segments.at_most(POINTS);
    let (repeated, every_repeated) = graph.repeated.at_most(POINTS);
    let (acks, every_ack) = graph.acks.at_most(POINTS);
    let (sacks, every_sack) = graph.sacks.at_most(POINTS);
    let (round_trips, every_round_trip) = graph.round_trips.at_most(POINTS);
    let bars = segments.iter().chain(&repeated);
    let bars = bars.map(|p| json!([us(p.time_ns), p.start, p.end, kind(p.marks)]));
    json!({
        "name": name,
        "segments": bars.collect::<Vec<_>>(),
        "acks": acks.iter().map(|p| json!([us(p.time_ns), p.ack, p.edge])).collect::<Vec<_>>(),
        "sacks": sacks.iter().map(|p| json!([us(p.time_ns), p.start, p.end])).collect::<Vec<_>>(),
        "rtt": round_trips.iter().map(|p| json!([us(p.time_ns), p.rtt_ns])).collect::<Vec<_>>(),
        "every": {
            "segments": every,
            "marked segments": every_repeated,
            "ACKs": every_ack,
            "SACK blocks": every_sack,
            "round trips": every_round_trip,
        },
    })
}

/// Sentences about points that are left out.
fn thinned(graph: &Value) -> String {
    let every = graph["every"].as_object().into_iter().flatten();
    let every = every.filter(|(_, every)| every.as_u64() > Some(1));
    let parts: Vec<String> = every.map(|(name, every)| format!("1 of {every} {name}")).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("Drawn: {}.", parts.join(", ")),
    }
}

/// The whole page.
pub(super) fn html(read: &Read, most: u16) -> String {
    let (mut body, mut graphs) = (String::new(), Vec::new());
    for (number, connection) in read.by_bytes().into_iter().take(usize::from(most)).enumerate() {
        // Writing into a string cannot fail.
        let _ = write!(
            body,
            "<section><h2>{}</h2>\n<p>{}</p>\n{}\n",
            escaped(&title(read, connection)),
            escaped(&duration(connection)),
            table(connection)
        );
        for (name, direction) in directions(connection) {
            if direction.counts().data_segments == 0 {
                continue;
            }
            let graph = graph(connection, name, direction);
            let (id, left_out) = (format!("{number}-{name}"), escaped(&thinned(&graph)));
            let _ = write!(
                body,
                "<h3>From the {name}</h3>\n<div class=\"graph\" id=\"sequence-{id}\"></div>\n\
                 <p class=\"said quiet\" id=\"said-{id}\">{left_out}</p>\n\
                 <div class=\"graph\" id=\"rtt-{id}\"></div>\n"
            );
            graphs.push(json!({ "id": id, "graph": graph }));
        }
        body.push_str("</section>\n");
    }
    let remarks: String = remarks(read, usize::from(most))
        .iter()
        .map(|remark| format!("<p>{}</p>\n", escaped(remark)))
        .collect();
    let key = KEY.iter().enumerate();
    let key: String =
        key.map(|(n, (name, _))| format!("<span><i class=\"k{n}\"></i>{name}</span>\n")).collect();
    let style = style();
    let summary = escaped(&summary(read));
    let data = json_in_script(&json!({ "graphs": graphs }).to_string());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src {}; script-src {} {}; base-uri 'none'; form-action 'none'\">\n\
         <title>{summary}</title>\n<style>{style}</style>\n</head>\n\
         <body>\n<h1>{summary}</h1>\n{remarks}\
         <p class=\"key\">{key}</p>\n\
         <p class=\"quiet\">Drag over a graph to zoom, double-click to see all of it again. \
         Numbers of bytes begin at the SYN.</p>\n{body}\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{UPLOT_JS}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        policy_source(&style),
        policy_source(UPLOT_JS),
        policy_source(SCRIPT),
    )
}

/// All styles of the page, as one text.
fn style() -> String {
    let mut style = [UPLOT_CSS, THEME_CSS, STYLE].concat();
    for (number, (_, colour)) in KEY.iter().enumerate() {
        // Writing into a string cannot fail.
        let _ = writeln!(style, ".key .k{number} {{ background: var({colour}); }}");
    }
    style
}

fn table(connection: &Connection) -> String {
    let row = |tag: &str, cells: Vec<String>| {
        let cells = cells.iter().enumerate().map(|(column, cell)| {
            let class = if column > 0 { " class=\"number\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(cell))
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let heads = row("th", heads().into_iter().map(str::to_owned).collect());
    let rows = directions(connection).map(|(name, direction)| row("td", cells(name, direction)));
    format!("<div class=\"wide\"><table>{heads}{}</table></div>", rows.concat())
}
