//! `wirespeed filter`: checks the rules of a router's file, says what rules make of a packet, and
//! tries rules in a running router, which goes back to the old rules unless they are confirmed.
//!
//! Called by: `lib.rs`. `explain` has the packet's way through the rules. docs/filter.md. The
//! running program ends a trial (`observe`), so it ends in time even if nobody reaches the machine.
//!
//! # The document of `filter explain --json`
//! `{"tool": "filter", "version", "explained": {"packet", "in_dev", "out_dev", "dest", "always",
//! "steps": [{"rule", "text", "why"}], "action", "rule", "source"}}`.

mod explain;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use router::config::{Config, Filter, count, text_of};
use router::machine::Machine;
use wirespeed::control::Client;
use wirespeed::control::protocol::{FilterCall, OnTrial, Question, RuleText};

use crate::output::what_to_do_to_read;
use crate::running::{TIMEOUT, ask, find, typed};
use crate::{Outcome, Usage, output};

/// Bytes of rules in a request: a message of the control socket has a million.
const REQUEST_MAX: usize = 900_000;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  wirespeed filter check router.toml        count the rules, or say what is wrong in them
  wirespeed filter explain in wan '198.51.100.7:999 > 10.0.0.5:443' tcp syn
  wirespeed filter explain --file router.toml 'in lan 10.0.0.5 > 192.0.2.1 icmp echo-request'
  sudo wirespeed filter apply new.toml --confirm 60s
  sudo wirespeed filter confirm             keep them until the configuration is read again

`apply` takes [filter], [nat] and [sets] of the file, and leaves the rest of the router as it is.
`wirespeed show filter`, `show nat` and `show states` have the rules that run, and what they did.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Count the rules of a router's file, or say what is wrong in them
    Check {
        /// The router's file
        file: PathBuf,
    },
    /// Say which rule decides about a packet, and why those before it do not match
    Explain {
        /// The packet: in PORT [out PORT] SRC:PORT > DST:PORT PROTOCOL [FLAGS or TYPE]
        #[arg(required = true, value_name = "PACKET")]
        packet: Vec<String>,
        /// By the rules of this file [default: by those of the running router]
        #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "pid"])]
        file: Option<PathBuf>,
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        program: Program,
    },
    /// Filter by the rules of a file; the old rules return unless these are confirmed
    Apply {
        /// A router's file
        file: PathBuf,
        /// How long they stay without `filter confirm`: 60s, 5m
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = seconds)]
        confirm: u32,
        #[command(flatten)]
        program: Program,
    },
    /// Keep the rules that were applied last, until the configuration is read again
    Confirm {
        #[command(flatten)]
        program: Program,
    },
}

/// Which running program.
#[derive(clap::Args, Debug)]
pub(crate) struct Program {
    /// The control socket of the program
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub(crate) socket: Option<PathBuf>,
    /// The program's process number [default: the only one that runs]
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

impl Program {
    pub(crate) fn connect(&self) -> Result<Client> {
        Ok(Client::connect(&find(self.socket.as_deref(), self.pid)?, TIMEOUT)?)
    }
}

/// A time such as `60s`, `5m` or `90`, in seconds.
fn seconds(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
    seconds.ok_or_else(|| "write 1s to 86400s, or minutes as 5m".to_owned())
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    match &args.what {
        What::Check { file } => return check(file),
        What::Explain { packet, file, json, program } => {
            let packet = packet.join(" ");
            let explained = match file {
                Some(file) => explain::by_file(&configuration(file)?, &packet)?,
                None => explain::by_program(&mut program.connect()?, &packet)?,
            };
            let text = match json {
                true => explain::json(&explained)?,
                false => explain::text(&explained),
            };
            output::out(&text)?;
        }
        What::Apply { file, confirm, program } => {
            let text = rules_of(file)?;
            let call = FilterCall::Apply { text: Box::new(text), confirm_s: *confirm };
            let OnTrial { rules, nat } = on_trial(program, call)?;
            let rules = count(rules as usize, "rule");
            output::out(&format!(
                "{rules}, {nat} of NAT, for {confirm} s: `wirespeed filter confirm` keeps them\n"
            ))?;
        }
        What::Confirm { program } => {
            let OnTrial { rules, nat } = on_trial(program, FilterCall::Confirm)?;
            let rules = count(rules as usize, "rule");
            output::out(&format!(
                "{rules}, {nat} of NAT, until the configuration is read again: write them into it\n"
            ))?;
        }
    }
    Ok(Outcome::Done)
}

fn on_trial(program: &Program, call: FilterCall) -> Result<OnTrial> {
    let mut client = program.connect()?;
    // The first stack speaks for the others.
    typed(ask(&mut client, &Question::Filter { stack: 0, call })?.body)
}

/// The configuration of a router's file.
fn configuration(file: &Path) -> Result<Config> {
    let name = file.display().to_string();
    let text = text_of(file);
    let text = text.map_err(|error| {
        let what = what_to_do_to_read(&error);
        anyhow::Error::new(error).context(format!("cannot read {name}{what}"))
    })?;
    Ok(Config::parse_with(&name, &text, &mut Machine::beside(file))?)
}

fn check(file: &Path) -> Result<Outcome> {
    let config = match configuration(file) {
        Ok(config) => config,
        Err(error) if error.is::<router::config::Problems>() => {
            output::err(&error.to_string());
            return Ok(Outcome::Exit(1));
        }
        Err(error) => return Err(error),
    };
    let counts = |filter: &Filter| {
        let rules = filter.rules();
        let (of_filter, of_nat) = (count(rules.filter.len(), "rule"), rules.nat.len());
        let sets = count(filter.sets(), "set");
        let networks = count(filter.networks(), "network");
        format!("{of_filter}, {of_nat} of NAT, {sets} with {networks}")
    };
    let text = config.filter.as_ref().map_or("no rules: every packet passes".to_owned(), counts);
    output::out(&(text + "\n"))?;
    Ok(Outcome::Done)
}

/// The rules of a file, as they are sent.
fn rules_of(file: &Path) -> Result<RuleText> {
    let config = configuration(file)?;
    let Some(filter) = &config.filter else {
        let why = format!("{} has neither [filter] nor [nat]", file.display());
        bail!(Usage(why));
    };
    let text = filter.text();
    let len = serde_json::to_vec(&text).context("cannot write JSON")?.len();
    if len > REQUEST_MAX {
        bail!(Usage(format!(
            "the rules and their sets have {len} bytes, and a trial takes {REQUEST_MAX}: write \
             them into the router's file, and let it be read again"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_seconds_or_minutes() {
        assert_eq!((seconds("60s"), seconds("90"), seconds("5m")), (Ok(60), Ok(90), Ok(300)));
        for wrong in ["", "s", "0", "1h", "-1", "86401", "1441m", "99999999999m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
