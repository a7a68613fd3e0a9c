//! `wirespeed states kill`: ends states of a running router's firewall.
//!
//! Called by: `lib.rs`; `show states` has the same FILTER (`show/states.rs`). A flow whose state
//! ended is judged again at its next packet, as one that begins: a TCP connection in the middle is
//! refused unless its rule is `loose`.

use anyhow::{Result, bail};
use wirespeed::control::protocol::{FilterCall, Killed, Question};

use crate::filter::Program;
use crate::running::{ask, typed};
use crate::show::chosen;
use crate::{Outcome, Usage, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
FILTER is that of `show states`; a state has to match all of it.
  wirespeed show states proto tcp dport 22
  sudo wirespeed states kill src 10.0.0.7
  sudo wirespeed states kill rule web
  sudo wirespeed states kill all")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// End the states that match FILTER
    Kill {
        /// proto P, src NET, dst NET, host NET, sport N, dport N, in PORT, out PORT, phase WORD,
        /// rule R; or all
        #[arg(required = true, value_name = "FILTER")]
        words: Vec<String>,
        #[command(flatten)]
        program: Program,
    },
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let What::Kill { words, program } = &args.what;
    let chosen = chosen(if words == &["all"] { &[] } else { words })?;
    let mut client = program.connect()?;
    let about = ask(&mut client, &Question::Program)?.program.unwrap_or_default();
    if about.stacks.is_empty() {
        bail!(Usage("the program has no stacks".to_owned()));
    }
    let mut all = 0;
    for stack in 0..about.stacks.len() {
        let mut cursor = 0;
        loop {
            let call = FilterCall::Kill { chosen: chosen.clone(), cursor };
            let answer = ask(&mut client, &Question::Filter { stack, call })?;
            let Killed { killed } = typed(answer.body)?;
            all += killed;
            match answer.next {
                Some(next) if next > cursor => cursor = next,
                _ => break,
            }
        }
    }
    output::out(&format!("{all} state{} ended\n", if all == 1 { "" } else { "s" }))?;
    Ok(Outcome::Done)
}
