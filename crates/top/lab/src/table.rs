//! A report for people: the question, the machine, the rows under their headings, notes.
//!
//! Called by: the lab.

use std::fmt::Write as _;

use serde_json::Value;

use crate::envelope::{Envelope, VERSION};
use crate::noise;
use crate::report::{Column, Format, Report};

/// Maximum length of a line of prose.
const WIDTH: usize = 96;

/// The whole text.
pub(crate) fn text(report: &Report, envelope: &Envelope) -> String {
    let (machine, mut text) = (&envelope.machine, String::new());
    // Writing into a string cannot fail.
    let asked = format!("lab {}: {}", envelope.lab, envelope.question);
    let _ = writeln!(text, "{}", wrapped(&asked));
    let ran = format!(
        "wirespeed {VERSION}, {} · {} · took {:.1} s",
        machine.build,
        machine.line(),
        envelope.seconds
    );
    let _ = writeln!(text, "{}\n", wrapped(&ran));
    if let Some(warning) = envelope.warning() {
        let _ = writeln!(text, "{}\n", wrapped(&format!("{warning} {}", noise::MEANING)));
    }
    rows(report, &mut text);
    if !report.shows.is_empty() {
        let _ = write!(text, "\n{}\n", wrapped(&report.shows.join(" ")));
    }
    for note in report.notes.lines() {
        let _ = write!(text, "\n{}\n", wrapped(note));
    }
    if envelope.interrupted {
        text.push_str("\nStopped before its end: rows rest on the runs that were made.\n");
    }
    text
}

fn rows(report: &Report, text: &mut String) {
    let shown: Vec<(usize, &Column)> = report
        .columns
        .iter()
        .enumerate()
        .filter(|(_, c)| !matches!(c.format, Format::Heading | Format::Hidden))
        .collect();
    let cells: Vec<Vec<String>> = report
        .rows
        .iter()
        .map(|row| shown.iter().map(|&(index, column)| cell(column, &row[index])).collect())
        .collect();
    let widths: Vec<usize> = shown
        .iter()
        .enumerate()
        .map(|(at, (_, column))| {
            let longest = cells.iter().map(|row| row[at].chars().count()).max();
            longest.unwrap_or(0).max(column.head.chars().count())
        })
        .collect();
    let line = |cells: &[String]| {
        let mut line = String::new();
        for ((cell, width), (_, column)) in cells.iter().zip(&widths).zip(&shown) {
            let _ = match column.format {
                Format::Text => write!(line, "  {cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        format!("{}\n", line.trim_end())
    };
    let heads: Vec<String> = shown.iter().map(|(_, column)| column.head.to_owned()).collect();
    text.push_str(&line(&heads));
    let heading = report.columns.iter().position(|c| c.format == Format::Heading);
    let mut above = None;
    for (row, cells) in report.rows.iter().zip(&cells) {
        let here = heading.and_then(|index| row[index].as_str());
        if let Some(here) = here.filter(|_| here != above) {
            let _ = writeln!(text, "{here}");
        }
        above = here;
        text.push_str(&line(cells));
    }
}

pub(crate) fn cell(column: &Column, value: &Value) -> String {
    match (column.format, value) {
        (_, Value::String(words)) => words.clone(),
        (Format::Number(places), number) if number.is_number() => {
            format!("{:.places$}", number.as_f64().unwrap_or(f64::NAN))
        }
        (Format::Bytes, number) if number.is_number() => bytes(number.as_f64().unwrap_or(0.0)),
        _ => "-".to_owned(),
    }
}

/// The cell with commas between thousands from five digits on, for pages; text is left alone.
pub(crate) fn grouped(cell: &str) -> String {
    let (sign, number) = cell.strip_prefix('-').map_or(("", cell), |number| ("-", number));
    let (whole, rest) = number.find('.').map_or((number, ""), |at| number.split_at(at));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() < 5 || !is_number(whole) || !is_number(rest.trim_start_matches('.')) {
        return cell.to_owned();
    }
    let digits = whole.char_indices().flat_map(|(at, digit)| {
        let comma = (at > 0 && (whole.len() - at).is_multiple_of(3)).then_some(',');
        comma.into_iter().chain([digit])
    });
    format!("{sign}{}{rest}", digits.collect::<String>())
}

/// Bytes in three digits, with units in powers of 1000, as for link rates.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes {
        b if b >= 999_500.0 => format!("{} MB", three(b / 1e6)),
        b if b >= 1_000.0 => format!("{} kB", three(b / 1e3)),
        b => format!("{b:.0} B"),
    }
}

/// A number in about three digits, without trailing zeros.
pub(crate) fn three(value: f64) -> String {
    let places = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A paragraph, broken between words.
pub(crate) fn wrapped(words: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in words.split_whitespace() {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > WIDTH {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += len;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn long_numbers_have_commas_and_text_has_none() {
        let of = ["9999", "12345", "-1234567.25", "12345 B", "2026-01-02", "-", ""];
        let grouped: Vec<String> = of.into_iter().map(grouped).collect();
        let expected = ["9999", "12,345", "-1,234,567.25", "12345 B", "2026-01-02", "-", ""];
        assert_eq!(grouped, expected);
    }
}
