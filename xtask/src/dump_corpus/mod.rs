//! `cargo xtask dump-corpus DIR`: runs tcpdump and `wirespeed dump` with the same flags over every
//! capture below a folder, and reports how many lines are equal, and which differ.
//!
//! Called by: `main.rs`. `run` runs a program over a capture, `compare` compares two outputs. A
//! capture is a case: it fails if `dump` crashes or does not end, not because a line differs. The
//! captures are the user's; docs/dump.md says where to find many.

mod compare;
mod run;

use crate::report::{Tally, Usage, step};
use crate::{cargo, process};
use anyhow::{Result, bail};
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use compare::{Compared, Example, Share};
use run::{Ended, Program};

/// The options of the command line.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The folder with captures: files whose names end with .pcap, .pcapng, .cap or .dmp
    dir: PathBuf,
    /// Flags of both programs, each after a comma: -n,-v; `--number` is always there
    #[arg(
        long,
        value_name = "FLAGS",
        value_delimiter = ',',
        default_value = "-n",
        allow_hyphen_values = true
    )]
    flags: Vec<String>,
    /// Only the captures with this in their names
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only this many captures, the first by name
    #[arg(long, value_name = "N")]
    first: Option<usize>,
    /// The wirespeed program, instead of one that is built
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Seconds that a program may take over a capture
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    /// Kinds of lines that differ to show, the most frequent first
    #[arg(long, value_name = "N", default_value_t = 30)]
    kinds: usize,
    /// A line for each capture, and the first that differs
    #[arg(long, short)]
    verbose: bool,
}

/// The sum over all captures.
#[derive(Default)]
struct Total {
    captures: usize,
    share: Share,
    /// Captures of which `dump` prints no packet though tcpdump does.
    unread: Vec<String>,
    /// Kinds of lines that differ: how many, and the first of them in both versions.
    kinds: BTreeMap<String, (u64, Example)>,
}

/// Compare them all; a capture is a case.
pub(crate) fn run(root: &Path, options: Options, tally: &mut Tally) -> Result<()> {
    let captures = captures(&options)?;
    if process::find("tcpdump").is_none() {
        tally.skip("dump-corpus", "tcpdump (apt-get install tcpdump)");
        return Ok(());
    }
    let limit = Duration::from_secs(options.timeout);
    let wirespeed = match &options.program {
        Some(program) => program
            .canonicalize()
            .map_err(|e| Usage(format!("cannot run {}: {e}", program.display())))?,
        None => cargo::release_binary(root, "wirespeed-cli", "wirespeed")?,
    };
    let theirs = Program::new("tcpdump".into(), &[], &options.flags, limit);
    let ours = Program::new(wirespeed, &["dump"], &options.flags, limit);
    step(&format!("dump-corpus, {} captures", captures.len()), tally, |tally| {
        let mut total = Total::default();
        for capture in &captures {
            if process::interrupted() {
                return Ok(());
            }
            one(&options, capture, (&theirs, &ours), &mut total, tally)?;
        }
        report(&options, &total);
        Ok(())
    })
}

/// The captures below the folder, by name.
fn captures(options: &Options) -> Result<Vec<PathBuf>> {
    let dir = options.dir.display();
    let entries = std::fs::read_dir(&options.dir)
        .map_err(|e| Usage(format!("cannot read {dir}: {e}; see docs/dump.md for captures")))?;
    let is_capture = |path: &PathBuf| {
        let ending = path.extension().and_then(|e| e.to_str());
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        matches!(ending, Some("pcap" | "pcapng" | "cap" | "dmp"))
            && options.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    };
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_capture).collect();
    found.sort();
    found.truncate(options.first.unwrap_or(usize::MAX));
    if found.is_empty() {
        bail!(Usage(format!("no capture in {dir}")));
    }
    Ok(found)
}

fn one(
    options: &Options,
    capture: &Path,
    (theirs, ours): (&Program, &Program),
    total: &mut Total,
    tally: &mut Tally,
) -> Result<()> {
    let name = capture.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (expected, _) = theirs.over(capture)?;
    let (printed, ended) = ours.over(capture)?;
    match ended {
        Ended::ByItself => tally.pass(),
        Ended::Crashed(how) => tally.fail(&name, &how),
        Ended::Never => tally.fail(&name, &format!("no end within {} s", options.timeout)),
    }
    let Compared { share, differences } = compare::compare(&expected, &printed);
    total.captures += 1;
    total.share.equal += share.equal;
    total.share.lines += share.lines;
    if printed.is_empty() && share.lines > 0 {
        total.unread.push(name.clone());
    }
    if options.verbose {
        println!("{:>6} of {:>6}  {name}", share.equal, share.lines);
        if let Some((_, example)) = differences.first() {
            println!("        tcpdump {}\n        ours    {}", example.theirs, example.ours);
        }
    }
    for (kind, example) in differences {
        total.kinds.entry(kind).or_insert((0, example)).0 += 1;
    }
    Ok(())
}

fn report(options: &Options, total: &Total) {
    let mut kinds: Vec<_> = total.kinds.iter().collect();
    kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (kind, (count, example)) in kinds.into_iter().take(options.kinds) {
        println!("{count:>6}  {kind}");
        println!("        tcpdump {}\n        ours    {}", example.theirs, example.ours);
    }
    for name in &total.unread {
        println!("no packet of {name} is read, and tcpdump reads some");
    }
    let Share { equal, lines } = total.share;
    println!(
        "{} captures, {} not read, flags {}: {equal} of {lines} lines are equal, {:.1} %",
        total.captures,
        total.unread.len(),
        options.flags.join(" "),
        100.0 * equal as f64 / lines.max(1) as f64
    );
}
