//! `wirespeed lab telnet`: the cost of a line that is typed over a long path, edited by the client
//! (LINEMODE, RFC 1184) or sent character by character, in virtual time.
//!
//! Called by: the lab, the benchmarks. `telnet/path.rs` has the two hosts and the path.

mod path;
#[cfg(test)]
mod tests;

use base::Duration;
use clap::{ArgMatches, FromArgMatches};
use path::{Outcome, Typing};
use serde_json::{Value, json};

use crate::figures::Figures;
use crate::plot::{Dots, Panel, Plot, Point};
use crate::pool::Progress;
use crate::report::{Column, Format, Report, Span, column, with_missing};
use crate::{Error, Run};

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Round trip of the path, in ms
    #[arg(long, value_name = "MS", default_value_t = 200,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rtt: u64,
    /// Characters typed a second
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    speed: u64,
    /// Characters of the line, its end not counted
    #[arg(long, value_name = "N", default_value_t = 80,
          value_parser = clap::value_parser!(u64).range(1..=4_000))]
    characters: u64,
}

const COLUMNS: &[Column] = &[
    column("program", "", "", Format::Heading),
    column("mode", "mode", "", Format::Text),
    column("packets", "packets", "packets, both directions, ACKs too", Format::Number(0)),
    column("packets_up", "up", "packets to the server", Format::Number(0)),
    column("packets_down", "down", "packets to the client", Format::Number(0)),
    column("bytes", "bytes", "bytes of IP packets, both directions", Format::Number(0)),
    column("echo_ms", "echo ms", "ms until a character is seen, median", Format::Number(1)),
    column("echo_ms_max", "max", "ms until a character is seen", Format::Number(1)),
    column("of_line_mode", "of line mode", "packets / those of line mode", Format::Number(1)),
];

/// The rows: whether the program prints the line, and whether the line is sent character by
/// character.
const CASES: [(bool, bool); 4] = [(false, true), (false, false), (true, true), (true, false)];

/// Measure all rows.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let mut outcomes = Vec::new();
    let mut progress = Progress::new(CASES.len());
    for (prints, by_character) in CASES {
        progress.at(outcomes.len());
        let outcome = match run.is_stopped() {
            true => None,
            false => Some(measure(&options, prints, by_character)?),
        };
        outcomes.push(outcome);
    }
    Ok(report(&options, &outcomes))
}

/// The number of packets that a line takes, in both directions, with ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets {
    /// The line is sent character by character.
    pub by_character: u64,
    /// The client edits the line.
    pub by_line: u64,
}

/// The packets of a line of 80 characters, 10 a second, over a round trip of 200 ms. `prints`: the
/// program prints the line.
///
/// # Errors
/// The line did not arrive, which is a defect of the stack.
pub fn packets(prints: bool) -> Result<Packets, Error> {
    let options = Options { rtt: 200, speed: 10, characters: 80 };
    let count = |by_character| Ok(measure(&options, prints, by_character)?.packets());
    Ok(Packets { by_character: count(true)?, by_line: count(false)? })
}

fn measure(options: &Options, prints: bool, by_character: bool) -> Result<Outcome, Error> {
    let typing = Typing {
        one_way: Duration::from_micros(options.rtt * 500),
        between: Duration::from_nanos(1_000_000_000 / options.speed),
        characters: options.characters as usize,
        prints,
        by_character,
    };
    path::measure(&typing).map_err(|what| {
        Error::Failed(format!("{what}. This is a defect of the stack: please report this line"))
    })
}

fn report(options: &Options, outcomes: &[Option<Outcome>]) -> Report {
    let row = |at: usize| {
        let ((prints, by_character), outcome) = (CASES[at], outcomes[at].as_ref());
        let of = |value: &dyn Fn(&Outcome) -> Value| outcome.map_or(Value::Null, value);
        // The row of line mode is the second of the two rows of a program.
        let line = outcomes[at | 1].as_ref().map(Outcome::packets);
        let ratio = outcome.zip(line).map(|(o, line)| o.packets() as f64 / line.max(1) as f64);
        vec![
            json!(if prints { "cat: prints the line" } else { "prints nothing" }),
            json!(if by_character { "character" } else { "line" }),
            of(&|o| json!(o.packets())),
            of(&|o| json!(o.up)),
            of(&|o| json!(o.down)),
            of(&|o| json!(o.bytes)),
            of(&|o| json!(o.echo.map(|span| span.mid))),
            of(&|o| json!(o.echo.map(|span| span.high))),
            json!(ratio),
        ]
    };
    let notes = vec![format!(
        "Virtual time; a line of {} characters and its end, {} characters a second, round trip {} \
         ms, no Nagle, IPv4, timestamps. Packets are counted from the first key until all data is \
         acknowledged.",
        options.characters, options.speed, options.rtt
    )];
    let unmeasured = outcomes.iter().filter(|outcome| outcome.is_none()).count();
    let notes = with_missing(notes, unmeasured, CASES.len(), "rows");
    let rows: Vec<_> = (0..CASES.len()).map(row).collect();
    Report {
        settings: json!({
            "rtt_ms": options.rtt,
            "characters_per_second": options.speed,
            "characters": options.characters,
        }),
        columns: COLUMNS.to_vec(),
        shows: shows(options.characters, &Figures::of(COLUMNS, &rows)),
        rows,
        fits: Vec::new(),
        samples: Vec::new(),
        notes,
        plot: Some(Plot::Dots(dots(outcomes))),
    }
}

/// Sentences on the figures: packets of both modes, and how long an echo takes.
fn shows(characters: u64, figures: &Figures<'_>) -> Vec<String> {
    let both = |program: &str, key: &str| {
        let of = |mode: &str| {
            let row = figures
                .rows()
                .find(|row| row.text("program") == program && row.text("mode") == mode)?;
            row.number(key)
        };
        Some((of("character")?, of("line")?))
    };
    let each = figures.texts("program").into_iter().filter_map(|program| {
        let (character, line) = both(program, "packets")?;
        let times = character / line.max(1.0);
        let name = program.split(':').next().unwrap_or(program);
        Some(format!(
            "{character:.0} packets instead of {line:.0} ({times:.0} times as many) where the \
             program {}",
            if name == "cat" { "is cat" } else { name }
        ))
    });
    let each: Vec<String> = each.collect();
    let mut said = Vec::new();
    if !each.is_empty() {
        said.push(format!(
            "Sent character by character, a line of {characters} costs {}.",
            each.join(", and ")
        ));
    }
    let echo = figures.texts("program").into_iter().find_map(|program| both(program, "echo_ms"));
    if let Some((character, line)) = echo {
        said.push(format!(
            "In that mode a character is seen {character:.0} ms after its key, in line mode \
             {line:.0} ms."
        ));
    }
    said
}

/// Packets of each program, by mode.
fn dots(outcomes: &[Option<Outcome>]) -> Dots {
    let points = outcomes.iter().zip(CASES).map(|(outcome, (prints, by_character))| Point {
        row: usize::from(prints),
        series: usize::from(!by_character),
        span: Span::of(outcome.as_ref().map(|outcome| outcome.packets() as f64)),
        quoted: None,
    });
    Dots {
        title: "Packets of a line that is typed".to_owned(),
        subtitle: "Both directions, ACKs too".to_owned(),
        axis: "packets".to_owned(),
        row_title: "program:".to_owned(),
        rows: vec!["prints nothing".to_owned(), "cat".to_owned()],
        series: vec!["character mode".to_owned(), "line mode".to_owned()],
        panels: vec![Panel { title: String::new(), rows: Vec::new(), points: points.collect() }],
        quoted: String::new(),
    }
}
