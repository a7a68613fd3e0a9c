//! The lab: experiments that all have the same form. Each answers a question with a table for
//! people, a document for programs (`--json`) and, where it helps, a plot.
//!
//! Called by: `wirespeed lab`, through [`Args`] and [`perform`]. The program handles exit codes and
//! standard output.
//!
//! A new experiment is a module with options and a function from [`Run`] to [`Report`], and an
//! entry in [`EXPERIMENTS`]. docs/lab.md is the user's guide.

mod ablate;
mod all;
pub mod budget;
mod compare;
pub mod compiled;
pub mod contest;
mod cray;
pub mod elbow;
mod envelope;
mod ethernet1988;
mod experiments;
mod explained;
pub mod fair;
mod figures;
pub mod forward;
mod joined;
mod keep;
pub mod knee;
pub mod livelock;
mod machine;
mod mitigation;
#[cfg(target_os = "linux")]
mod namespace;
mod noise;
mod options;
mod plot;
mod pool;
mod pps;
#[cfg(target_os = "linux")]
pub mod real;
pub mod replaced;
mod report;
mod run;
pub mod storm;
mod table;
pub mod tap;
pub mod telnet;
#[cfg(test)]
mod tests;
mod wan;

pub use envelope::Envelope;
pub use experiments::{EXPERIMENTS, Experiment};
pub use machine::Machine;
pub use noise::Noise;
pub use options::Args;
use options::{Asked, One};
pub use plot::{Dots, Lines, Panel, Plot, Point, Series, Strip};
pub use report::{Column, Format, Report, Span};
pub use run::{Common, Error, Finished, Run};

/// Do what the command line asks for; `stopped` is polled to end early.
///
/// # Errors
/// [`Error::Usage`] for an invalid command line, and an error for files that cannot be written,
/// before anything is measured; [`Error::Failed`] if the experiment itself failed.
pub fn perform(args: &Args, stopped: &(dyn Fn() -> bool + Sync)) -> Result<Finished, Error> {
    match &args.0 {
        Asked::One(one) => perform_one(one, stopped),
        Asked::All(options) => all::perform(options, stopped),
        Asked::Compare(options) => compare::perform(options),
    }
}

/// The page of `lab all`, as text; `stopped` is polled to end early.
///
/// # Errors
/// Those of [`perform`].
pub fn page(quick: bool, stopped: &(dyn Fn() -> bool + Sync)) -> Result<String, Error> {
    all::page(quick, stopped)
}

fn perform_one(one: &One, stopped: &(dyn Fn() -> bool + Sync)) -> Result<Finished, Error> {
    one.refuse_unused()?;
    let common = &one.common;
    let mut plot = common.plot.as_deref().map(keep::Kept::plot).transpose()?;
    let mut out = common.out.as_deref().map(keep::Kept::open).transpose()?;
    let (report, envelope) = one.run(stopped).map_err(|(error, _)| error)?;
    let document = report.document(&envelope);
    let (mut remarks, mut trouble) = (Vec::new(), None);
    let mut write = |kept: &mut Option<keep::Kept>, text: &dyn Fn() -> Result<String, Error>| {
        let Some(kept) = kept else { return };
        match text().and_then(|text| kept.write(&text)) {
            Ok(said) => remarks.push(said),
            Err(error) => trouble = trouble.take().or(Some(error)),
        }
    };
    write(&mut out, &|| Ok(document.clone()));
    write(&mut plot, &|| match &report.plot {
        Some(plot) => plot.svg(&envelope),
        None => Err(Error::Failed(format!("{} has no plot", one.experiment.name))),
    });
    let text = if common.json { document } else { table::text(&report, &envelope) };
    Ok(Finished { text, remarks, interrupted: envelope.interrupted, trouble })
}
