//! `wirespeed ip`: shows and changes the routes, rules, neighbours, addresses and links of a
//! running program. The command line, the printed lines and the JSON are like those of ip(8).
//!
//! Called by: `lib.rs`. `args` has the options, `words` parses the words after them, `run` asks the
//! program; `route`, `rule`, `neigh`, `addr`, `link` and `vrf` are the objects. Exit status as
//! ip(8): 1 for a wrong command line, or if no program runs; 2 if the program refuses or does not
//! answer, or if a lookup finds no route.

mod addr;
mod args;
mod get;
mod line;
mod link;
mod neigh;
mod route;
mod rule;
mod run;
mod vrf;
mod words;

use anyhow::Result;
use wirespeed::control::ControlError;

pub(crate) use args::{Args, normalised};
pub(crate) use get::lookup;
pub(crate) use rule::text_of as rule_text;
pub(crate) use vrf::table as vrf_table;
pub(crate) use words::Words;

use crate::running::Refused;
use crate::{Outcome, Usage, output};

/// A lookup found no route; the message has been printed already.
#[derive(Debug)]
struct Unreachable;

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no route leads there")
    }
}

impl std::error::Error for Unreachable {}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    match run(args) {
        Ok(text) => {
            output::out(&text)?;
            Ok(Outcome::Done)
        }
        Err(error) if error.is::<Unreachable>() => Ok(Outcome::Exit(2)),
        Err(error) => {
            let is_answer = error.is::<Refused>() || error.is::<ControlError>();
            let help = if error.is::<Usage>() { "\n\nSee 'wirespeed ip --help'." } else { "" };
            output::err(&format!("error: {error:#}{help}"));
            Ok(Outcome::Exit(if is_answer { 2 } else { 1 }))
        }
    }
}

fn run(args: &Args) -> Result<String> {
    let mut words = Words::new(&args.words);
    let Some(object) = words.next() else {
        return words::usage("an object is missing: give addr, route, rule, neigh, link or vrf");
    };
    let objects = ["address", "route", "rule", "neighbor", "neighbour", "link", "vrf", "help"];
    match objects.iter().find(|name| name.starts_with(object) && !object.is_empty()) {
        Some(&"address") => addr::run(args, words),
        Some(&"route") => route::run(args, words),
        Some(&"rule") => rule::run(args, words),
        Some(&"neighbor" | &"neighbour") => neigh::run(args, words),
        Some(&"link") => link::run(args, words),
        Some(&"vrf") => vrf::run(args, words),
        Some(_) => Ok(args::GRAMMAR.to_owned() + "\n"),
        None => words::usage(&format!(
            "object \"{object}\" is unknown: give addr, route, neigh, link, rule or vrf"
        )),
    }
}
