//! The operator's text, read: rules of the filter and of NAT, sets, and everything that is wrong in
//! them.
//!
//! Called by: the router's configuration, `wirespeed filter check`. The language is in
//! docs/filter.md. All mistakes are found, each with its line and column and what to write instead;
//! text with a mistake makes no rules at all. Limits: `FilterRules`, `FilterSetNetworks`.

mod clauses;
mod filter;
mod lexer;
mod names;
mod nat;
mod question;
mod sets;
mod values;

use core::fmt;

use base::Limit;

use crate::rules::{Action, Rules};

pub use names::protocol_name;
pub use question::{Question, question};

/// Mistakes that are reported; the last one says how many more there are.
const MISTAKES_MAX: usize = 100;

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

/// The text in which a mistake is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The rules of the filter.
    Rules,
    /// The rules of NAT.
    Nat,
    /// The default of the filter.
    Default,
    /// A set; the line is the number of its entry.
    Set(String),
    /// A file of networks.
    File(String),
    /// A question of `filter explain`.
    Question,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Rules => f.write_str("filter rules"),
            Location::Nat => f.write_str("nat rules"),
            Location::Default => f.write_str("filter default"),
            Location::Set(name) => write!(f, "set {name}"),
            Location::File(name) => f.write_str(name),
            Location::Question => f.write_str("question"),
        }
    }
}

/// Something that is wrong in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// In which text.
    pub location: Location,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What is wrong, and what to write instead.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.location, self.line, self.column, self.what)
    }
}

impl core::error::Error for Mistake {}

/// A mistake whose text is known from where it is read.
#[derive(Clone, Debug)]
struct Fault {
    line: u32,
    column: u32,
    what: String,
}

impl Fault {
    fn at_start(what: &str) -> Fault {
        Fault { line: 1, column: 1, what: what.to_owned() }
    }

    fn in_text(self, location: &Location) -> Mistake {
        let Fault { line, column, what } = self;
        Mistake { location: location.clone(), line, column, what }
    }
}

/// The mistakes that were found, the first ones of them.
#[derive(Debug, Default)]
struct Log {
    mistakes: Vec<Mistake>,
    more: usize,
}

impl Log {
    fn add(&mut self, location: &Location, fault: Fault) {
        if self.mistakes.len() < MISTAKES_MAX {
            self.mistakes.push(fault.in_text(location));
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// How many there are.
    fn count(&self) -> usize {
        self.mistakes.len().saturating_add(self.more)
    }

    fn into_mistakes(mut self) -> Vec<Mistake> {
        if self.more > 0
            && let Some(last) = self.mistakes.last_mut()
        {
            last.what = format!("{} (and {} more mistakes)", last.what, self.more);
        }
        self.mistakes
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
    let mut log = Log::default();
    let default = default_action(source.default).unwrap_or_else(|fault| {
        log.add(&Location::Default, fault);
        Action::Block
    });
    let mut sets = sets::read(source.sets, file, &mut log);
    let mut context =
        clauses::Context { ports, sets: &mut sets, log: &mut log, location: Location::Rules };
    let filter = filter::read(source.rules, &mut context);
    context.location = Location::Nat;
    let nat = nat::read(source.nat, &mut context);
    if log.mistakes.is_empty() {
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

/// The statements of a text, at most as many as there may be rules.
fn bounded_statements<'t>(
    text: &'t str,
    context: &mut clauses::Context<'_>,
) -> Vec<Vec<lexer::Token<'t>>> {
    let (mut statements, faults) = lexer::statements(text);
    for fault in faults {
        context.note(fault);
    }
    let max = Limit::FilterRules.default_value();
    if let Some(first) = statements.get(max).and_then(|words| words.first()) {
        let many = format!("{} rules: {max} are allowed (filter_rules)", statements.len());
        context.note(first.fault(many));
        statements.truncate(max);
    }
    statements
}

#[cfg(test)]
mod tests;
