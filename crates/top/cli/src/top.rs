//! `wirespeed top`: the traffic of a running wirespeed or an interface, live.
//!
//! Called by: `lib.rs`. `report` draws what `run` has seen.
//!
//! Only the first bytes of each frame are looked at. Frames that are lost on the way here are
//! counted, and the figures are scaled up for them. `--batch` prints the same tables as text,
//! whole, for use without a terminal.

mod args;
mod besides;
mod interval;
mod limits;
mod port;
mod report;
mod run;
mod switches;
mod terminal;
mod traffic;
mod view;

use std::io::IsTerminal;

use anyhow::{Context, Result, bail};

pub(crate) use args::Args;

use crate::{Outcome, Usage, output};
use run::{Ended, Top};
use terminal::{Keys, stopped};

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if !(0.1..=3600.0).contains(&args.delay) {
        bail!(Usage("--delay takes 0.1 to 3600 seconds".to_owned()));
    }
    if !args.batch && !std::io::stdout().is_terminal() {
        bail!(Usage("standard output is no terminal: --batch prints screens as text".to_owned()));
    }
    let stop = stopped(!args.batch)?;
    let (mut top, mut source) = Top::new(args)?;
    let ended = if args.batch {
        top.run(args, source.as_mut(), &stop, Keys(None), |interval, view| {
            Ok(!output::read_by_someone(&report::text(interval, view))?)
        })
    } else {
        let mut terminal = ratatui::try_init().context("the terminal")?;
        let ended = top.run(args, source.as_mut(), &stop, Keys::open(), |interval, view| {
            terminal.draw(|frame| report::draw(frame, interval, view))?;
            Ok(false)
        });
        if terminal.show_cursor().and(ratatui::try_restore()).is_err() {
            // The terminal is gone. Dropping this would print to standard error, which is gone too,
            // and abort.
            std::mem::forget(terminal);
        }
        ended
    };
    if ended? == Ended::Source {
        output::err(&format!("{} has ended", top.what));
    }
    Ok(Outcome::Done)
}
