//! The table of figures in README.md, made from the rows of bench `core`: `--readme FILE` replaces
//! the text between the markers in FILE. A row that was not measured gets `-` instead of an old
//! figure.
//!
//! Called by: `main.rs`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::report::{Report, short};

const BEGIN: &str = "<!-- figures: begin -->";
const END: &str = "<!-- figures: end -->";

/// For each line of the table: the transfer, the peer, the row's case, and the unit of the row's
/// value.
const LINES: &[[&str; 4]] = &[
    ["bulk, MTU 1500, in memory", "smoltcp", "memory MTU 1500 / smoltcp", "times"],
    ["bulk, MTU 1500, in memory", "gVisor netstack", "memory MTU 1500 / gVisor", "times"],
    ["bulk, MTU 65535, in memory", "smoltcp", "memory MTU 65535 / smoltcp", "times"],
    [
        "bulk, MTU 65535, in memory",
        "Linux, loopback",
        "memory MTU 65535 / kernel loopback",
        "times",
    ],
    [
        "bulk, segments of 64 KB",
        "Linux, veth with GSO",
        "super-segments / kernel veth GSO",
        "times",
    ],
    ["64-byte writes", "Linux, loopback", "64-byte writes per second / kernel loopback", "times"],
    [
        "64-byte request and reply, polled",
        "Linux, blocking",
        "64-byte ping-pong polled on one thread: kernel blocking p50 / ours",
        "times",
    ],
    ["an idle connection", "", "bytes per idle endpoint, 10,000 connections", "bytes"],
];

/// The lines of the table, which go between the markers.
pub fn table(report: &Report) -> String {
    let value = |case: &str| {
        let row = report.rows.iter().find(|row| row.case == case);
        row.and_then(|row| row.value).map_or("-".to_owned(), short)
    };
    let mut text = String::from("| what | beside | wirespeed |\n|---|---|---|\n");
    for [what, beside, case, counts] in LINES {
        text.push_str(&format!("| {what} | {beside} | {} {counts} |\n", value(case)));
    }
    let m = &report.machine;
    // Only the major and the minor version; what follows is the distribution's.
    let kernel = m.kernel.split('.').take(2).collect::<Vec<_>>().join(".");
    text.push_str(&format!(
        "\nBytes per CPU-second, both ends on one core, checksums on, copies included; \
         `cargo xtask bench core\n--readme README.md` on {}, Linux {}.\n",
        m.cpu_model, kernel
    ));
    text
}

/// `text` with `table` between its markers; `None` if a marker is missing.
fn with_table(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// Puts the table into a file.
pub fn update(file: &Path, report: &Report) -> Result<()> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let Some(text) = with_table(&text, &table(report)) else {
        bail!("{name} lacks the lines {BEGIN} and {END}, between which the table goes");
    };
    fs::write(file, text).with_context(|| format!("cannot write {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_replaces_what_is_between_the_markers() {
        let text = format!("# A\n{BEGIN}\nold\n{END}\nmore\n");
        let new = with_table(&text, "| 1 |\n").expect("both markers are there");
        assert_eq!(new, format!("# A\n{BEGIN}\n| 1 |\n{END}\nmore\n"));
        assert_eq!(with_table("# A\n", "| 1 |\n"), None);
    }

    #[test]
    fn every_line_names_a_row_of_bench_core() {
        for [_, _, case, _] in LINES {
            assert!(crate::core::ROWS.iter().any(|row| row.case == *case), "no row {case}");
        }
    }
}
