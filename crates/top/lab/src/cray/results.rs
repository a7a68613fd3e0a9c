//! The report of the experiment: a row for each case, its throughput as a share of memcpy's or of
//! the channel's rate, and the published figure.
//!
//! Called by: `cray.rs`.

use serde_json::{Value, json};

use super::Row;
use super::cases::{BUFFER_BYTES, MTU, Settings, WINDOW_BYTES, What};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Report, Span, column, with_missing};

const COLUMNS: &[Column] = &[
    column("what", "", "", Format::Heading),
    column("case", "case", "", Format::Text),
    column("mbps", "Mb/s", "Mb/s of payload, median", Format::Number(0)),
    column("low_mbps", "least", "Mb/s, the slowest round", Format::Number(0)),
    column("high_mbps", "most", "Mb/s, the fastest round", Format::Number(0)),
    column("memcpy_share", "of memcpy", "of memcpy in a cache", Format::Number(3)),
    column("channel_share", "of channel", "of the channel's rate", Format::Number(3)),
    column("published_mbps", "published", "Mb/s, in 1989", Format::Number(0)),
    column("published_share", "share then", "of the channel's rate, in 1989", Format::Number(3)),
    column("published_on", "on", "", Format::Text),
    column("mtu", "MTU", "bytes", Format::Hidden),
    column("settings", "settings", "", Format::Hidden),
];

impl Row {
    fn span(&self) -> Option<Span> {
        Span::of(self.rounds.iter().copied())
    }

    fn mid(&self) -> Option<f64> {
        self.span().map(|span| span.mid)
    }

    fn mtu(&self) -> Option<usize> {
        match self.case.what {
            What::Memcpy(_) => None,
            What::Memory { mtu, .. } | What::Channel { mtu, .. } => Some(mtu),
        }
    }

    fn channel(&self) -> Option<f64> {
        match self.case.what {
            What::Channel { mbps, .. } => Some(mbps as f64),
            _ => None,
        }
    }

    fn share(&self) -> Option<f64> {
        Some(self.mid()? / self.channel()?)
    }

    /// The values of [`COLUMNS`], in their order.
    fn values(&self, memcpy: Option<f64>) -> Vec<Value> {
        let (case, span) = (&self.case, self.span());
        let in_memory = matches!(case.what, What::Memory { .. });
        let of_memcpy = memcpy.filter(|_| in_memory).and_then(|all| Some(self.mid()? / all));
        let then = case.published.map(|(mbps, _)| mbps);
        vec![
            json!(case.heading),
            json!(case.name),
            json!(self.mid()),
            json!(span.map(|span| span.low)),
            json!(span.map(|span| span.high)),
            json!(of_memcpy),
            json!(self.share()),
            json!(then),
            json!(then.and_then(|mbps| Some(mbps / self.channel()?))),
            json!(case.published.map_or("", |(_, on)| on)),
            json!(self.mtu()),
            json!(case.settings.name()),
        ]
    }

    fn as_json(&self) -> Value {
        json!({
            "what": self.case.heading,
            "case": self.case.name,
            "settings": self.case.settings.name(),
            "mbps": self.rounds,
        })
    }
}

/// The whole report.
pub(super) fn report(rows: &[Row], seconds: f64, rounds: usize) -> Report {
    let copies = |row: &&Row| matches!(row.case.what, What::Memcpy(_));
    let memcpy = rows.iter().find(copies).and_then(Row::mid);
    let notes = vec![
        format!(
            "In memory: both ends on one thread, Mb/s by the thread's processor time, IPv4 without \
             link headers, data copied in and out. Settings of 1989: buffers of {} KB, a window of \
             {} bytes, MTU {MTU}. memcpy moves a byte once; TCP copies it in and out, and sums it \
             twice.",
            BUFFER_BYTES >> 10,
            WINDOW_BYTES
        ),
        "Over a channel: virtual time, 1 us each way, processors take no time. So only headers, \
         ACKs and windows reduce the share; in 1989 the processors' time did too."
            .to_owned(),
        "Published: peak rates of D. Borman, 1989; 'characters' and 'words' were the first and the \
         second checksum of that system; 'scalar' and 'vectors' were on a CRAY Y-MP."
            .to_owned(),
    ];
    let unmeasured = rows.iter().filter(|row| row.rounds.is_empty()).count();
    let notes = with_missing(notes, unmeasured, rows.len(), "rows");
    Report {
        settings: json!({
            "seconds": seconds,
            "rounds": rounds,
            "buffer_bytes": BUFFER_BYTES,
            "window_bytes": WINDOW_BYTES,
            "mtu": MTU,
        }),
        columns: COLUMNS.to_vec(),
        rows: rows.iter().map(|row| row.values(memcpy)).collect(),
        fits: Vec::new(),
        samples: rows.iter().map(Row::as_json).collect(),
        shows: shows(rows, memcpy),
        notes,
        plot: Some(Plot::Dots(dots(rows))),
    }
}

/// Two sentences; none if their rows were not measured.
fn shows(rows: &[Row], memcpy: Option<f64>) -> Vec<String> {
    let ladder: Vec<(&str, f64)> = rows
        .iter()
        .filter(|row| row.case.heading == "settings of 1989, by checksum")
        .filter_map(|row| Some((row.case.name.as_str(), row.mid()?)))
        .collect();
    let none = ladder.iter().find(|(name, _)| *name == "none");
    let summed = || ladder.iter().filter(|(name, _)| *name != "none");
    let first = summed().next();
    let best = summed().max_by(|a, b| a.1.total_cmp(&b.1));
    let mut shows = Vec::new();
    if let (Some((name, slow)), Some((best_name, fast)), Some((_, none)), Some(memcpy)) =
        (first, best, none, memcpy)
    {
        shows.push(format!(
            "With the settings of 1989 the checksum decides: '{name}' carries {slow:.0} Mb/s, \
             '{best_name}' {fast:.0}, {:.0} times as much (then 6 and 550), and none at all \
             {none:.0}; memcpy does {memcpy:.0}.",
            fast / slow
        ));
    }
    let hsx = |settings| {
        let is_it = |row: &&Row| row.channel() == Some(850.0) && row.case.settings == settings;
        rows.iter().find(is_it).and_then(Row::share)
    };
    if let (Some(then), Some(today)) = (hsx(Settings::Of1989), hsx(Settings::Today)) {
        shows.push(format!(
            "TCP takes {:.0} % of a channel of 850 Mb/s with a window of 64 KB and {:.0} % with \
             today's (then 22 %): the limit was the processors' time, not the protocol.",
            then * 100.0,
            today * 100.0
        ));
    }
    shows
}

/// A panel for the checksums and one for the MTUs, each with the settings of 1989 and of today.
fn dots(rows: &[Row]) -> Dots {
    let in_memory = |row: &&Row| matches!(row.case.what, What::Memory { .. });
    let mut names: Vec<String> = Vec::new();
    for row in rows.iter().filter(in_memory) {
        if !names.contains(&row.case.name) {
            names.push(row.case.name.clone());
        }
    }
    let point = |row: &Row| Point {
        row: names.iter().position(|name| *name == row.case.name).unwrap_or(0),
        series: usize::from(row.case.settings == Settings::Today),
        span: Span::of(row.rounds.iter().map(|mbps| mbps / 1e3)),
        quoted: row.case.published.map(|(mbps, _)| mbps / 1e3),
    };
    let points = rows.iter().filter(in_memory).map(point).collect();
    Dots {
        title: "Memory to memory over TCP, by checksum and by MTU".to_owned(),
        subtitle: "Both ends on one thread; MTU 32,768 and 65,535 where no MTU is named".to_owned(),
        axis: "Gb/s".to_owned(),
        row_title: "by:".to_owned(),
        rows: names.clone(),
        series: vec!["settings of 1989".to_owned(), "settings of today".to_owned()],
        panels: vec![Panel { title: String::new(), rows: Vec::new(), points }],
        quoted: "published in 1989".to_owned(),
    }
}
