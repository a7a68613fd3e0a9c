//! The operator's text, read: rules of the filter and of NAT, sets, and everything that is wrong in
//! them.
//!
//! Called by: the router's configuration, `wirespeed filter check`. The language is in
//! docs/filter.md. All mistakes are found, each with its line and column and what to write instead;
//! text with a mistake makes no rules at all. Limits: `FilterRules`, `FilterSetNetworks`.

mod clauses;
mod filter;
mod lexer;
mod mistake;
mod names;
mod nat;
pub mod parts;
mod question;
mod sets;
mod values;

use base::Limit;

use crate::rules::{Action, Rules};
use mistake::{Fault, Log};

pub use mistake::{Location, Mistake};
pub use names::protocol_name;
pub use question::{Question, question};

/// The operator's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// Rules of the filter, a line each.
    pub rules: &'a str,
    /// Rules of NAT, a line each.
    pub nat: &'a str,
    /// `pass`, `block` (also `drop`) or `reject`; empty means `block`.
    pub default: &'a str,
    /// Names and entries of sets: an address, a network, or `file:NAME`.
    pub sets: &'a [(String, Vec<String>)],
}

/// How long the operator's text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Rules of the filter, and as many of NAT: [`Limit::FilterRules`].
    pub rules: usize,
    /// Networks in all sets: [`Limit::FilterSetNetworks`].
    pub networks: usize,
}

impl Default for Most {
    fn default() -> Most {
        Most {
            rules: Limit::FilterRules.default_value(),
            networks: Limit::FilterSetNetworks.default_value(),
        }
    }
}

/// Read the operator's text. `ports` are the router's ports with their numbers; `file` gives the
/// text of a file that a set names, or says why it cannot.
///
/// # Errors
///
/// Every mistake, the first hundred at most.
///
/// ```
/// use wirespeed_filter::text::{Source, parse};
///
/// let rules = "pass in lan out wan\npass in wan to 10.0.0.5 tcp 443 label web";
/// let source = Source { rules, ..Source::default() };
/// let ports = [("lan", 0), ("wan", 1)];
/// let rules = parse(&source, &ports, &|_| Err("no files".into())).expect("two rules");
/// assert_eq!(rules.filter[1].label.as_deref(), Some("web"));
///
/// let source = Source { rules: "pass in lna", ..Source::default() };
/// let mistakes = parse(&source, &ports, &|_| Err("no files".into())).expect_err("no such port");
/// assert_eq!(mistakes[0].to_string(),
///     "filter rules:1:9: unknown port `lna`: did you mean `lan`?");
/// ```
pub fn parse(
    source: &Source<'_>,
    ports: &[(&str, u16)],
    file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Rules, Vec<Mistake>> {
    parse_within(Most::default(), source, ports, file)
}

/// The same within other limits.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_within(
    most: Most,
    source: &Source<'_>,
    ports: &[(&str, u16)],
    file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Rules, Vec<Mistake>> {
    let mut log = Log::default();
    let default = default_action(source.default).unwrap_or_else(|fault| {
        log.add(&Location::Default, fault);
        Action::Block
    });
    let mut sets = sets::read(source.sets, most.networks, file, &mut log);
    let mut context = values::Context {
        ports,
        sets: &mut sets,
        rules_max: most.rules,
        log: &mut log,
        location: Location::Rules,
    };
    let filter = filter::read(source.rules, &mut context);
    context.location = Location::Nat;
    let nat = nat::read(source.nat, &mut context);
    if log.count() == 0 {
        Ok(Rules { default, filter, nat, sets: sets.finish() })
    } else {
        Err(log.into_mistakes())
    }
}

fn default_action(word: &str) -> Result<Action, Fault> {
    match word.trim() {
        "" | "block" | "drop" => Ok(Action::Block),
        "pass" => Ok(Action::Pass),
        "reject" => Ok(Action::Reject),
        other => {
            let known = ["pass", "block", "reject"];
            Err(Fault::at_start(&names::unknown("default", other, known.into_iter())))
        }
    }
}

#[cfg(test)]
mod tests;
