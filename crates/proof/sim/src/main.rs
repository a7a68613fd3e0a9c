//! The program `wirespeed-sim`, which `cargo xtask sim` runs. Without a subcommand it simulates
//! worlds (hosts and links in virtual time), each made from a seed, and checks the laws of `oracle`
//! in them. `wirespeed-sim goodput` measures bulk flows over one path.
//!
//! Exit status: 0 if every law held, 1 if one did not, 2 if the command line was wrong. Results are
//! on standard output, as one JSON document with `--json`; progress is on standard error.

/// Print a line on standard output; a closed pipe is no error.
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($what)*);
    }};
}

mod goodput_command;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, Parser, Subcommand};
use serde_json::json;
use wirespeed_sim::run::{self, Campaign, Replay, Verdict, WorldKind};
use wirespeed_sim::units;

#[derive(Parser)]
#[command(
    name = "cargo xtask sim",
    about = "Simulates stacks and links in virtual time, one world for each seed"
)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    worlds: Worlds,
}

#[derive(Subcommand)]
enum Command {
    /// Goodput of bulk flows over one path, as a share of rate x 1448/1500
    Goodput(goodput_command::Options),
}

#[derive(Args)]
struct Worlds {
    /// Worlds with a gateway between a guest and a server
    #[arg(long)]
    gateway: bool,
    /// Replay this seed: print its plan and the last events; with --captures also capture every
    /// port
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Run this many seeds
    #[arg(long, value_name = "N", default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    first: u64,
    /// Run only part I of N parts, counted from 0: every N-th seed
    #[arg(long, value_name = "I/N", value_parser = units::shard, default_value = "0/1")]
    shard: (u64, u64),
    /// Threads that run seeds at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// One JSON document on standard output
    #[arg(long)]
    json: bool,
    /// For a seed that failed, how many of the last events to show
    #[arg(long, value_name = "N", default_value_t = 60)]
    rows: usize,
    /// Write a capture of every port of a replayed seed into this folder
    #[arg(long, value_name = "FOLDER")]
    captures: Option<PathBuf>,
}

impl Worlds {
    fn kind(&self) -> WorldKind {
        if self.gateway { WorldKind::Gateway } else { WorldKind::Hosts }
    }
}

/// How many failed seeds are replayed at once; the others are only listed.
const SHOWN: usize = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Some(Command::Goodput(options)) => {
            let start = Instant::now();
            goodput_command::run(options, || start.elapsed().as_secs_f64())
        }
        None => worlds(&cli.worlds),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::from(2)
        }
    }
}

/// The commit that was built; the program that starts this one sets it.
fn commit() -> String {
    std::env::var("WIRESPEED_COMMIT").unwrap_or_else(|_| "unknown".to_owned())
}

fn worlds(options: &Worlds) -> Result<bool, String> {
    if let Some(seed) = options.seed {
        let replay = replay(seed, options)?;
        if options.json {
            let text = json!({"commit": commit(), "verdict": replay.verdict, "plan": replay.plan,
                "rows": replay.rows});
            say!("{text:#}");
        } else {
            show(&replay);
        }
        return Ok(replay.verdict.failure.is_none());
    }
    let campaign = Campaign {
        kind: options.kind(),
        first: options.first,
        seeds: options.seeds,
        shard: options.shard,
        jobs: options.jobs,
    };
    let start = Instant::now();
    // A panic is reported as the failure of a seed, and its text is printed with the replay.
    std::panic::set_hook(Box::new(|_| {}));
    let failures = run::campaign(&campaign, |_| {});
    let _ = std::panic::take_hook();
    let seconds = start.elapsed().as_secs_f64();
    let (index, count) = options.shard;
    let ran = options.seeds.saturating_sub(index).div_ceil(count);
    if options.json {
        let list: Vec<_> = failures.iter().map(failure_json).collect();
        let text = json!({"seeds": ran, "failed": failures.len(), "seconds": seconds,
            "commit": commit(), "shard": format!("{index}/{count}"), "failures": list});
        say!("{text:#}");
        return Ok(failures.is_empty());
    }
    for verdict in &failures {
        if let Some((oracle, what)) = &verdict.failure {
            say!("seed {}: {oracle}: {what}", verdict.seed);
        }
    }
    for verdict in failures.iter().take(SHOWN) {
        say!();
        show(&replay(verdict.seed, options)?);
    }
    say!(
        "{} passed, {} failed, 0 skipped in {seconds:.1} s",
        ran - failures.len() as u64,
        failures.len()
    );
    Ok(failures.is_empty())
}

fn failure_json(verdict: &Verdict) -> serde_json::Value {
    let (oracle, what) = verdict.failure.clone().unwrap_or_default();
    json!({"seed": verdict.seed, "oracle": oracle, "what": what, "at_ns": verdict.at_ns,
        "replay": format!("cargo xtask sim --seed {}", verdict.seed)})
}

fn replay(seed: u64, options: &Worlds) -> Result<Replay, String> {
    let captures = match &options.captures {
        None => None,
        Some(folder) => {
            let cannot = |e| format!("cannot make {}: {e}; choose --captures", folder.display());
            fs::create_dir_all(folder).map_err(cannot)?;
            Some(folder.join(format!("seed-{seed}")))
        }
    };
    let replay = run::replay(options.kind(), seed, options.rows, captures.clone());
    replay.trouble.iter().for_each(|what| eprintln!("warning: no capture: {what}"));
    if let Some(prefix) = captures {
        eprintln!("captures: {}-host*.pcapng", prefix.display());
    }
    Ok(replay)
}

fn show(replay: &Replay) {
    let verdict = &replay.verdict;
    say!("seed {} of commit {}", verdict.seed, commit());
    replay.plan.iter().for_each(|line| say!("  {line}"));
    say!("the last {} events:", replay.rows.len());
    replay.rows.iter().for_each(|row| say!("{row}"));
    let at = verdict.at_ns as f64 / 1e9;
    match &verdict.failure {
        Some((oracle, what)) => say!("FAILED at {at:.6} s: {oracle}: {what}"),
        None => say!("every law held; ended at {at:.6} s of its time"),
    }
    say!("{} events, digest {:016x}", verdict.events, verdict.digest);
    say!("again: cargo xtask sim --seed {}", verdict.seed);
}
