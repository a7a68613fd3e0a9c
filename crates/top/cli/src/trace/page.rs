//! The page: throughput, a time-sequence graph and round trips for each direction with data, in one
//! file. All plots have one time axis, which begins with the first packet that is shown.
//!
//! Called by: `trace.rs`. The plots' library, names beside lines and the colours are `page`'s;
//! `page.js` draws, and reads the points from the document that is put into the page. A browser
//! runs the scripts and styles that stand in it and nothing else: its policy has their hashes.

use std::fmt::Write as _;

use page::{NAMES_JS, THEME_CSS, UPLOT_CSS, UPLOT_JS, escaped, json_in_script, policy_source};
use serde_json::{Value, json};
use trace::limits::POINTS_MAX;
use trace::{Bins, Connection, Direction, Marks};

use super::Read;
use super::report::{LEGEND, cells, directions, duration, heads, remarks, summary, title};

/// Points of a series on the page, where there are many connections: more are not told apart.
const POINTS: usize = 2_000;
/// The same of all directions together; with few connections a series has more points to zoom into.
const POINTS_ALL: usize = 16_000;

/// The plots of a direction with fewer segments with data are folded.
const FEW: u64 = 20;

/// Columns of a table that has more are narrow.
const MANY: usize = 13;

/// Draws the plots.
const SCRIPT: &str = include_str!("page.js");
/// What only this page needs.
const STYLE: &str = include_str!("page.css");

/// How a segment is drawn: an index into `kinds` of `page.js`.
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

/// The bytes of a direction in intervals, in seconds since `begin_ns`.
fn bins(bins: &Bins, begin_ns: u64) -> Value {
    bins.start_ns().map_or(Value::Null, |start_ns| {
        json!({
            "start": start_ns.saturating_sub(begin_ns) as f64 / 1e9,
            "width": bins.width_ns() as f64 / 1e9,
            "bytes": bins.bytes(),
        })
    })
}

/// At most so many points of each series of a direction, times in us since `begin_ns`.
fn graph(begin_ns: u64, points: usize, name: &str, direction: Direction<'_>) -> Value {
    let graph = direction.graph();
    let us = |time_ns: u64| time_ns.saturating_sub(begin_ns) / 1_000;
    let (segments, every) = graph.segments.at_most(points);
    let (repeated, every_repeated) = graph.repeated.at_most(points);
    let (acks, every_ack) = graph.acks.at_most(points);
    let (sacks, every_sack) = graph.sacks.at_most(points);
    let (round_trips, every_round_trip) = graph.round_trips.at_most(points);
    let bars = segments.iter().chain(&repeated);
    let bars = bars.map(|p| json!([us(p.time_ns), p.start, p.end, kind(p.marks)]));
    json!({
        "name": name,
        "sent": bins(&graph.sent, begin_ns),
        "acked": bins(&graph.acknowledged, begin_ns),
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
    let all = read.by_bytes();
    let shown = &all[..all.len().min(usize::from(most))];
    let begin_ns = shown.iter().map(|connection| connection.first_ns()).min().unwrap_or(0);
    let end_ns = shown.iter().map(|connection| connection.last_ns()).max().unwrap_or(begin_ns);
    let drawn = shown.iter().flat_map(|connection| directions(connection));
    let drawn = drawn.filter(|(_, direction)| direction.counts().data_segments > 0).count();
    let points = POINTS.max(POINTS_ALL / drawn.max(1)).min(POINTS_MAX);
    let (mut body, mut graphs) = (String::new(), Vec::new());
    for (number, connection) in shown.iter().enumerate() {
        section(read, (number, connection), (begin_ns, points), &mut body, &mut graphs);
    }
    let remarks: String = remarks(read, usize::from(most))
        .iter()
        .map(|remark| format!("<p>{}</p>\n", escaped(remark)))
        .collect();
    let style = [UPLOT_CSS, THEME_CSS, STYLE].concat();
    let script = ["\"use strict\";\n", NAMES_JS, SCRIPT].concat();
    let summary = escaped(&summary(read));
    let seconds = end_ns.saturating_sub(begin_ns) as f64 / 1e9;
    let data = json_in_script(&json!({ "seconds": seconds, "graphs": graphs }).to_string());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src {}; script-src {} {}; base-uri 'none'; form-action 'none'\">\n\
         <title>{summary}</title>\n<style>{style}</style>\n</head>\n\
         <body>\n<h1>{summary}</h1>\n{remarks}\
         <p class=\"quiet\">All plots have the same time axis, which begins with the first packet \
         shown. Drag over one to zoom all, double-click for all of the time. Numbers of bytes \
         begin at the SYN.</p>\n\
         <details><summary>What the columns say</summary><pre>{}</pre></details>\n\
         <button type=\"button\" id=\"all\" hidden>all of the time</button>\n{body}\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{UPLOT_JS}</script>\n<script>{script}</script>\n</body>\n</html>\n",
        policy_source(&style),
        policy_source(UPLOT_JS),
        policy_source(&script),
        escaped(LEGEND.trim()),
    )
}

/// A connection: its table, and the places of its plots; their points go to `graphs`, `points` of a
/// series.
fn section(
    read: &Read,
    (number, connection): (usize, &Connection),
    (begin_ns, points): (u64, usize),
    body: &mut String,
    graphs: &mut Vec<Value>,
) {
    let at = |time_ns: u64| time_ns.saturating_sub(begin_ns) as f64 / 1e9;
    let (from, to) = (at(connection.first_ns()), at(connection.last_ns()));
    // Writing into a string cannot fail.
    let _ = write!(
        body,
        "<section><h2>{}</h2>\n<p class=\"about\">{}, begins at {from:.3} s <button \
         type=\"button\" class=\"only\" data-from=\"{from}\" data-to=\"{to}\">show only this \
         time</button></p>\n{}\n",
        escaped(&title(read, connection)),
        escaped(&duration(connection)),
        table(connection)
    );
    for (name, direction) in directions(connection) {
        let segments = direction.counts().data_segments;
        if segments == 0 {
            continue;
        }
        let graph = graph(begin_ns, points, name, direction);
        let (id, left_out) = (format!("{number}-{name}"), escaped(&thinned(&graph)));
        let (open, close) = match segments < FEW {
            true => (
                format!("<details><summary>From the {name}: {segments} segments</summary>\n"),
                "</details>\n",
            ),
            false => (format!("<h3>From the {name}</h3>\n"), ""),
        };
        let place = |kind: &str| {
            format!("<div class=\"graph\" id=\"{kind}-{id}\" data-of=\"{number}\"></div>\n")
        };
        let _ = write!(
            body,
            "{open}<h4>Throughput, bits a second</h4>\n{}<h4>Time and sequence, bytes</h4>\n{}\
             <p class=\"said quiet\" id=\"said-{id}\">{left_out}</p>\n\
             <h4>Round trips, milliseconds</h4>\n{}{close}",
            place("rate"),
            place("sequence"),
            place("rtt"),
        );
        graphs.push(json!({ "id": id, "graph": graph }));
    }
    body.push_str("</section>\n");
}

/// The counts of both directions. Columns in which both have nothing are named below.
fn table(connection: &Connection) -> String {
    let rows = directions(connection).map(|(name, direction)| cells(name, direction));
    let is_empty = |column: usize| {
        rows.iter().all(|row| row.get(column).is_some_and(|cell| cell == "0" || cell == "-"))
    };
    let (empty, kept): (Vec<_>, Vec<_>) =
        heads().into_iter().enumerate().partition(|&(column, _)| is_empty(column));
    let row = |tag: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells = cells.enumerate().map(|(column, cell)| {
            let class = if column > 0 { " class=\"number\"" } else { "" };
            format!("<{tag}{class}>{cell}</{tag}>")
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let heads = row("th", &mut kept.iter().map(|(_, head)| with_unit(head)));
    let rows = rows.iter().map(|cells| {
        let cells = kept.iter().filter_map(|&(column, _)| cells.get(column));
        row("td", &mut cells.map(|cell| escaped(cell)))
    });
    let rows: String = rows.collect();
    let nothing = match empty.is_empty() {
        true => String::new(),
        false => {
            let names: Vec<&str> = empty.iter().map(|(_, head)| *head).collect();
            format!("<p class=\"quiet\">None: {}.</p>\n", escaped(&names.join(", ")))
        }
    };
    let many = if kept.len() > MANY { " class=\"many\"" } else { "" };
    format!(
        "<div class=\"wide\"><table{many}><thead>{heads}</thead>\n\
         <tbody>{rows}</tbody></table></div>\n{nothing}"
    )
}

/// The head of a column with the unit of its numbers below it.
fn with_unit(head: &str) -> String {
    let (head, unit) = match head {
        "ms min" => ("RTT min", "ms"),
        "median" | "95 %" | "max" => (head, "ms"),
        "in flight" => (head, "bytes"),
        _ => (head, ""),
    };
    match unit {
        "" => escaped(head),
        unit => format!("{}<small>{unit}</small>", escaped(head)),
    }
}
