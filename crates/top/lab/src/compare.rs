//! `wirespeed lab compare A.json B.json`: what changed beyond noise between two documents of one
//! experiment, or of `lab all`.
//!
//! Called by: the lab. `document` reads the documents, `pair` finds the rows that belong together,
//! `judge` says whether two figures differ.
//!
//! Documents of different experiments, or with different settings, are not compared: a difference
//! would show only that the settings differ.

mod document;
mod judge;
mod pair;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::envelope::VERSION;
use crate::table::wrapped;
use crate::{Error, Finished};
use document::{Document, File};
use judge::{CONFIDENCE, Verdict};
use pair::Change;

pub(crate) const ABOUT: &str = "What changed between two documents, beyond noise";

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// The document from before: of one experiment, or of `lab all`
    #[arg(value_name = "A.json")]
    before: PathBuf,
    /// The document from after
    #[arg(value_name = "B.json")]
    after: PathBuf,
    /// One JSON document on standard output
    #[arg(long)]
    json: bool,
}

/// Two documents of an experiment, compared; or why they are not.
struct Compared {
    lab: String,
    outcome: Result<Found, String>,
}

/// The findings.
struct Found {
    changes: Vec<Change>,
    /// The number of figures that both documents have.
    figures: usize,
    within_noise: usize,
    /// The number of figures that differ, without single runs or bounds to say how much they vary.
    unknown: usize,
    /// The number of rows that only one document has.
    unmatched: usize,
}

/// Compare the two files, and print the findings.
pub(crate) fn perform(options: &Options) -> Result<Finished, Error> {
    let text = compared(options).map_err(|error| match error {
        Error::Usage(why) => Error::Usage(plain(&why)),
        Error::Failed(why) => Error::Failed(plain(&why)),
    })?;
    Ok(Finished { text, remarks: Vec::new(), interrupted: false, trouble: None })
}

fn compared(options: &Options) -> Result<String, Error> {
    let before = File::read(&options.before)?;
    let after = File::read(&options.after)?;
    let compared = compare(&before, &after)?;
    Ok(match options.json {
        true => format!("{:#}\n", as_json(&before, &after, &compared)),
        false => plain(&text(&before, &after, &compared)),
    })
}

/// A text that quotes the documents, made safe for a terminal: control characters other than line
/// feeds are replaced.
fn plain(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

fn compare(before: &File, after: &File) -> Result<Vec<Compared>, Error> {
    if before.is_all != after.is_all || (!before.is_all && before.lab() != after.lab()) {
        return Err(Error::Usage(format!(
            "{} is of 'lab {}' and {} of 'lab {}': compare two documents of one experiment, or two \
             of 'lab all'",
            before.name,
            before.lab(),
            after.name,
            after.lab()
        )));
    }
    let mut compared = Vec::new();
    for a in &before.documents {
        let Some(b) = after.documents.iter().find(|b| b.lab == a.lab) else {
            let outcome = Err(format!("only {} has it", before.name));
            compared.push(Compared { lab: a.lab.clone(), outcome });
            continue;
        };
        compared.push(Compared { lab: a.lab.clone(), outcome: of(a, b) });
    }
    for b in &after.documents {
        if !before.documents.iter().any(|a| a.lab == b.lab) {
            let outcome = Err(format!("only {} has it", after.name));
            compared.push(Compared { lab: b.lab.clone(), outcome });
        }
    }
    match compared.as_slice() {
        // If the only experiment is refused, the command fails.
        [Compared { lab, outcome: Err(why) }] => {
            Err(Error::Usage(format!("'lab {lab}' is not compared: {why}")))
        }
        _ => Ok(compared),
    }
}

/// Two documents of one experiment.
fn of(a: &Document, b: &Document) -> Result<Found, String> {
    a.comparable(b)?;
    let pairs = pair::pairs(a, b);
    let mut found = Found {
        changes: Vec::new(),
        figures: 0,
        within_noise: 0,
        unknown: 0,
        unmatched: a.rows.len() + b.rows.len() - 2 * pairs.len(),
    };
    for change in pairs.iter().flat_map(|pair| pair.figures(a, b)) {
        found.figures += 1;
        match change.judged.verdict {
            Verdict::Same | Verdict::Noise => found.within_noise += 1,
            Verdict::Unknown => found.unknown += 1,
            Verdict::Changed => found.changes.push(change),
        }
    }
    Ok(found)
}

fn text(before: &File, after: &File, compared: &[Compared]) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    for (letter, file) in [("A", before), ("B", after)] {
        let _ = writeln!(text, "{letter}: {}", wrapped(&file.line()));
    }
    for Compared { lab, outcome } in compared {
        let found = match outcome {
            Ok(found) => found,
            Err(why) => {
                let _ = write!(text, "\n{}\n", wrapped(&format!("{lab}: not compared: {why}")));
                continue;
            }
        };
        let _ = write!(
            text,
            "\n{lab}: {} of {} figures changed beyond noise, {} did not",
            found.changes.len(),
            found.figures,
            found.within_noise
        );
        if found.unknown > 0 {
            let _ = write!(text, "; {} differ, and nothing says how much they vary", found.unknown);
        }
        if found.unmatched > 0 {
            let _ = write!(text, "; {} rows are in one of them only", found.unmatched);
        }
        text.push('\n');
        for change in &found.changes {
            let _ = writeln!(text, "  {}", change.line());
        }
    }
    let _ = write!(
        text,
        "\n{}\n",
        wrapped(&format!(
            "Ratios are B / A with the {:.0} % interval, from single runs if the documents have \
             them, else from the bounds in the rows. The intervals are wider by the spread of a \
             noisy machine.",
            CONFIDENCE * 100.0
        ))
    );
    text
}

fn as_json(before: &File, after: &File, compared: &[Compared]) -> Value {
    let each = compared.iter().map(|Compared { lab, outcome }| match outcome {
        Ok(found) => json!({
            "lab": lab,
            "refused": Value::Null,
            "figures": found.figures,
            "within_noise": found.within_noise,
            "without_spread": found.unknown,
            "unmatched_rows": found.unmatched,
            "changes": found.changes.iter().map(Change::as_json).collect::<Vec<_>>(),
        }),
        Err(why) => json!({ "lab": lab, "refused": why }),
    });
    json!({
        "lab": "compare",
        "version": VERSION,
        "a": before.as_json(),
        "b": after.as_json(),
        "confidence": CONFIDENCE,
        "experiments": each.collect::<Vec<_>>(),
    })
}
