//! `wirespeed lab cray`: the table of 1989, memory to memory over TCP on supercomputers, measured
//! on this machine for each checksum and each MTU, and over channels with the rates of 1989.
//!
//! Called by: the lab.
//!
//! The rows in memory are in real time, with both ends on one thread (`joined.rs`). The rows over a
//! channel are in virtual time: the channel's rate is the limit, and the result is the share of it
//! that TCP carries.

mod cases;
mod channel;
mod results;
#[cfg(test)]
mod tests;

use clap::{ArgMatches, FromArgMatches};

use crate::joined::{Joined, memcpy};
use crate::{Error, Report, Run};
use cases::{Case, What};

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Seconds of processor time that a round of a row takes [default: 0.2, with --quick 0.05]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
}

/// A row and its rounds, in Mb/s.
struct Row {
    case: Case,
    rounds: Vec<f64>,
}

/// Measure all rows, round by round.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let seconds = options.seconds.unwrap_or(if run.common.quick { 0.05 } else { 0.2 });
    if !(0.01..=60.0).contains(&seconds) {
        return Err(Error::Usage("--seconds takes 0.01 to 60".to_owned()));
    }
    let rounds = if run.common.quick { 3 } else { 15 };
    let mut rows: Vec<Row> =
        cases::all().into_iter().map(|case| Row { case, rounds: Vec::new() }).collect();
    // Rounds go through all rows, so that a disturbance does not hit one row alone.
    for round in 0..rounds {
        for row in &mut rows {
            if run.is_stopped() {
                break;
            }
            // In virtual time every round has the same result.
            if round == 0 || !matches!(row.case.what, What::Channel { .. }) {
                row.rounds.extend(measure(&row.case, seconds, run)?);
            }
        }
    }
    Ok(results::report(&rows, seconds, rounds))
}

/// The throughput of a case in Mb/s; `None` if the run was stopped.
fn measure(case: &Case, seconds: f64, run: &Run<'_>) -> Result<Option<f64>, Error> {
    let mbps = |bytes_per_s: f64| bytes_per_s * 8e-6;
    match case.what {
        What::Memcpy(bytes) => Ok(Some(mbps(memcpy(bytes, seconds)))),
        What::Memory { rung, mtu } => {
            let joining = cases::joining(case.settings, rung, mtu);
            let joining =
                joining.ok_or_else(|| Error::Failed(format!("{mtu} bytes are no MTU")))?;
            Ok(Joined::new(&joining)?.measure(seconds, run)?.map(mbps))
        }
        What::Channel { mbps, mtu } => {
            let bps = channel::throughput(case.settings, mbps, mtu, run)?;
            Ok(bps.map(|bps| bps * 1e-6))
        }
    }
}
