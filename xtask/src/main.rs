//! All checks of the project: `cargo xtask test | tidy | bench | dump-corpus | fuzz | house |
//! icount | interop | mutants | package | packetdrill | picture | rfc | sanitize | sim |
//! situations`.
//!
//! Called by: people, `.ci/run`. It imports no crate of the stack: it reads source text, `cargo
//! metadata` and the output of programs. Exit status: 0 success, 1 a failure, 2 a wrong command
//! line.

mod bench;
mod cargo;
mod dump_corpus;
mod fuzz;
mod guard;
mod house;
mod icount;
mod interop;
mod mutants;
mod package;
mod packetdrill;
mod picture;
mod process;
mod report;
mod rfc;
mod sanitize;
mod sim;
mod situations;
mod test;
mod tidy;
mod tree;

use anyhow::Result;
use clap::{Parser, Subcommand};
use report::Tally;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, benchmarks and instruction counts of wirespeed")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Format, tidy, rfc and the tests that need nothing but Rust; ends with one line of totals
    Test {
        /// Also the tests that need root, devices and other programs, doc tests, clippy, fuzz
        /// targets on their seeds, loom, interop: what guards main
        #[arg(long)]
        all: bool,
        /// First install the Debian packages that these lack (needs root)
        #[arg(long, requires = "all")]
        install: bool,
    },
    /// The project's own rules, checked over its sources
    Tidy,
    /// The size of the project's files, and which of them import each other in circles
    House,
    /// Make README's pictures again, from a run of its commands
    Picture,
    /// Build and run a benchmark: `cargo xtask bench core --json --quick`
    #[command(disable_help_flag = true)]
    Bench {
        /// Which benchmark, and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        args: Vec<String>,
    },
    /// Instruction counts by valgrind, compared with docs/icount-baseline.json
    Icount {
        /// Print a list of {"case", "instructions"} on standard output
        #[arg(long)]
        json: bool,
        /// Write the counts to the baseline instead of comparing
        #[arg(long, conflicts_with = "case")]
        bless: bool,
        /// Count the profile `dist`, whose baseline is docs/icount-baseline-dist.json
        #[arg(long)]
        dist: bool,
        /// Count this case alone, without comparing it
        #[arg(long, value_name = "CASE")]
        case: Option<String>,
        /// Count a stack built without taps, to measure what they cost
        #[arg(long, requires = "case")]
        untapped: bool,
    },
    /// Worlds of stacks and links in virtual time: `cargo xtask sim --seeds 1000`
    #[command(disable_help_flag = true)]
    Sim {
        /// Arguments of the simulator; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// What people install: a Debian package, an RPM, a tar archive, with checksums
    Package(package::Options),
    /// packetdrill scripts against this stack in virtual time: `cargo xtask packetdrill DIR`
    Packetdrill(packetdrill::Options),
    /// `wirespeed dump` beside tcpdump over a folder of captures: `cargo xtask dump-corpus DIR`
    DumpCorpus(dump_corpus::Options),
    /// AddressSanitizer, valgrind, loom, Miri over what is unsafe or crosses threads; all, or one
    Sanitize {
        /// asan, valgrind, loom or miri
        tool: Option<String>,
    },
    /// Remove each guard of header prediction in turn and expect a test to fail; takes minutes
    Mutants,
    /// Requirements of docs/rfc against the code and the tests that cite them
    Rfc {
        /// Print each requirement, its exception and where it is cited
        #[arg(long)]
        list: bool,
    },
    /// Situations from bug reports of other stacks and tools (docs/situations.md), each a test
    Situations,
    /// Coverage-guided fuzzing of parsers, connections and whole stacks: `--seconds 600`
    Fuzz {
        /// For all targets together; building is not counted
        #[arg(long, value_name = "N", default_value_t = 60)]
        seconds: u64,
        /// This target only; an unknown name lists them
        #[arg(long, value_name = "NAME")]
        target: Option<String>,
        /// Targets at a time
        #[arg(long, value_name = "N", default_value_t = 2)]
        jobs: usize,
        /// Run the input of a finding once and show the output
        #[arg(long, value_name = "FILE")]
        replay: Option<PathBuf>,
    },
    /// Tests against real programs; all suites, or one by name
    Interop {
        /// The suite
        name: Option<String>,
        /// Only the cases with this in their names
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// First install the Debian packages that the suites lack (needs root)
        #[arg(long)]
        install: bool,
        /// The `wirespeed` to test [default: the one that tests run, which is built first]
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
        /// How long `router-soak`, `filter-soak` and `frr-soak` last [default: 600]
        #[arg(long, value_name = "N")]
        seconds: Option<u64>,
        /// Repeats what a soak did, which prints its seed
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    process::catch_interrupts();
    guard::guarded(|| match run(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(if e.is::<report::Usage>() { 2 } else { 1 })
        }
    })
}

fn run(command: Command) -> Result<u8> {
    let root = cargo::root()?;
    match command {
        Command::Test { all, install } => {
            close(|tally| test::run(&root, test::Options { all, install }, tally))
        }
        Command::Tidy => close(|tally| tidy::run(&root, tally)),
        Command::House => house::run(&root),
        Command::Picture => picture::run(&root).map(|()| 0),
        Command::Bench { args } => bench::run(&root, &args),
        Command::Sim { args } => sim::run(&root, &args),
        Command::Icount { json, bless, dist, case, untapped } => {
            icount::run(&root, &icount::Options { json, bless, dist, case, untapped })
        }
        Command::Package(options) => package::run_and_print(&root, &options),
        Command::Packetdrill(options) => close(|tally| packetdrill::run(&root, options, tally)),
        Command::DumpCorpus(options) => close(|tally| dump_corpus::run(&root, options, tally)),
        Command::Sanitize { tool } => {
            let tools = sanitize::choose(tool.as_deref())?;
            close(|tally| sanitize::run(&root, &tools, tally))
        }
        Command::Fuzz { seconds, target, jobs, replay } => {
            let options = fuzz::Options { seconds, target, jobs, replay };
            close(|tally| fuzz::run(&root, &options, tally))
        }
        Command::Mutants => close(|tally| mutants::run(&root, tally)),
        Command::Situations => close(|tally| situations::run(&root, tally)),
        Command::Rfc { list } => close(|tally| rfc::run(&root, list, tally)),
        Command::Interop { name, only, install, program, seconds, seed } => {
            let suites = interop::choose(name.as_deref())?;
            let (only, program) = (only.as_deref(), program.as_deref());
            let soak = interop::Soak { seconds, seed };
            let asked = interop::Asked { only, install, soak, program, ran: &[] };
            close(|tally| interop::run(&root, &suites, asked, tally))
        }
    }
}

/// Run work that counts cases; the last line on standard output is their sum.
fn close(work: impl FnOnce(&mut Tally) -> Result<()>) -> Result<u8> {
    let mut tally = Tally::default();
    match work(&mut tally) {
        // A step that could not even start is one more failure: the sum is still printed.
        Err(e) if !e.is::<report::Usage>() => tally.fail("xtask", &format!("{e:#}")),
        outcome => outcome?,
    }
    if process::interrupted() {
        tally.fail("interrupted", "Ctrl-C: the steps after it were not run");
    }
    print!("{}", tally.closing());
    Ok(u8::from(tally.failed > 0))
}
