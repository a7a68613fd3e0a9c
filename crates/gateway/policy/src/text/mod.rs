//! The text of a policy, read: a file in TOML, and options of the command line; and everything that
//! is wrong in them.
//!
//! Called by: `netns` and `gateway`, for `--policy`, `--allow`, `--deny`, `--default`, `--ask`;
//! `policy check`. The language is in docs/gateway.md. All mistakes are found, the first hundred
//! are reported, each with its line and column and what to write instead; a text with a mistake
//! makes no policy. Limits: [`BYTES_MAX`], [`RULES_MAX`], [`NETWORKS_MAX`].

mod arguments;
mod file;
mod publish;
mod section;
mod words;

use filter::text::parts::{Fault, Log, Sets, read_sets};
use filter::text::{Location, Mistake};
use toml::de::DeTable;

use crate::rules::{Action, Dns, RULES_MAX, Rule, Rules};
use section::{At, Notes, Section};

pub use publish::publish;

/// The longest file, in bytes.
pub const BYTES_MAX: usize = 1 << 20;
/// Networks in all sets of a policy.
pub const NETWORKS_MAX: usize = 262_144;

/// A rule of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// `--allow X`.
    Allow(&'a str),
    /// `--deny X`.
    Deny(&'a str),
}

/// The text of a policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// The name of the file, and its text.
    pub file: Option<(&'a str, &'a str)>,
    /// Rules of the command line, which come before those of the file.
    pub arguments: &'a [Argument<'a>],
    /// `--default`: also over the one of the file. Without it and without a file everything is
    /// allowed that no rule denies; nothing else if a rule allows something.
    pub default: Option<Action>,
}

/// Read a policy. `text_of` gives the text of a file that a set names, or says why it cannot.
///
/// # Errors
/// Every mistake, in order, the first hundred at most.
///
/// ```
/// use wirespeed_policy::text::{Argument, Source, parse};
///
/// let text = "[[rule]]\nallow = [\"github.com\", \"10.0.0.1/8\"]\nports = [\"443\"]\n";
/// let no_files = |_: &str| Err("no files".to_owned());
/// let source = Source { file: Some(("policy.toml", text)), ..Source::default() };
/// let mistakes = parse(&source, &no_files).expect_err("a network with host bits");
/// assert_eq!(mistakes[0].to_string(),
///     "policy.toml:2:25: `10.0.0.1/8` has host bits: write 10.0.0.0/8");
///
/// let arguments = [Argument::Allow("github.com:22,443")];
/// let source = Source { arguments: &arguments, ..Source::default() };
/// let rules = parse(&source, &no_files).expect("one rule");
/// assert_eq!(rules.rules[0].services.len(), 2);
/// ```
pub fn parse(
    source: &Source<'_>,
    text_of: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Rules, Vec<Mistake>> {
    let mut log = Log::default();
    let mut sets = Sets::default();
    let from_file =
        source.file.map(|(name, text)| read_file(name, text, text_of, &mut sets, &mut log));
    let mut rules = from_file.unwrap_or_else(|| {
        let allows = source.arguments.iter().any(|one| matches!(one, Argument::Allow(_)));
        let default = if allows { Action::Deny } else { Action::Allow };
        let refuses_rebinding = allows && source.default != Some(Action::Allow);
        let dns = Dns { refuses_rebinding, ..Dns::default() };
        Rules { default, dns, ..Rules::default() }
    });
    rules.default = source.default.unwrap_or(rules.default);
    let own = read_arguments(source.arguments, &mut sets, &mut log);
    rules.rules.splice(0..0, own);
    rules.sets = sets.finish();
    if rules.rules.len() > RULES_MAX && log.count() == 0 {
        let what = format!("{} rules: a policy may have {RULES_MAX}", rules.rules.len());
        log.add(&Location::File("policy".to_owned()), Fault { line: 1, column: 1, what });
    }
    // Only the compiler knows how many kinds of addresses the rules make.
    if log.count() == 0
        && let Err(why) =
            crate::compiled::Compiled::new(&rules, &crate::group::HostAddresses::default())
    {
        let name = source.file.map_or("policy", |(name, _)| name);
        let fault = Fault { line: 1, column: 1, what: why.to_string() };
        log.add(&Location::File(name.to_owned()), fault);
    }
    if log.count() == 0 { Ok(rules) } else { Err(log.into_mistakes()) }
}

fn read_arguments(arguments: &[Argument<'_>], sets: &mut Sets, log: &mut Log) -> Vec<Rule> {
    let (mut rules, mut counts) = (Vec::new(), [0_u32; 2]);
    for argument in arguments {
        let (option, action, text, count) = match argument {
            Argument::Allow(text) => ("--allow", Action::Allow, text, &mut counts[0]),
            Argument::Deny(text) => ("--deny", Action::Deny, text, &mut counts[1]),
        };
        *count += 1;
        match arguments::rule(*count, action, text, sets) {
            Ok(rule) => rules.push(rule),
            Err(wrong) => {
                for (column, what) in wrong {
                    let location = Location::File(option.to_owned());
                    log.add(&location, Fault { line: *count, column, what });
                }
            }
        }
    }
    rules
}

fn read_file(
    name: &str,
    text: &str,
    text_of: &dyn Fn(&str) -> Result<String, String>,
    sets: &mut Sets,
    log: &mut Log,
) -> Rules {
    let notes = Notes::new(text);
    let mut rules = Rules::default();
    if text.len() > BYTES_MAX {
        notes.add(0, format!("the file is longer than {BYTES_MAX} bytes: put networks into sets"));
    } else {
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            notes.add(at, format!("{}: see https://toml.io for the syntax", error.message()));
        }
        if errors.is_empty() {
            let file = Section::new(table.get_ref(), 0, "the file", &notes);
            *sets = sets_of(&file, text_of, log);
            rules = file::read(&file, sets);
            rules.file = name.to_owned();
        }
    }
    let location = Location::File(name.to_owned());
    let place = Notes::new(text);
    for (at, what) in notes.finish() {
        let (line, column) = place.place(at);
        log.add(&location, Fault { line, column, what });
    }
    rules
}

/// `[sets]`, by the firewall's reader; its mistakes get their places in this file.
fn sets_of(
    file: &Section<'_>,
    text_of: &dyn Fn(&str) -> Result<String, String>,
    log: &mut Log,
) -> Sets {
    let Some(section) = file.one("sets", "[sets]") else { return Sets::default() };
    let lists = section.lists();
    let texts = |entries: &[At<'_>]| entries.iter().map(|one| one.text.to_owned()).collect();
    let source: Vec<(String, Vec<String>)> =
        lists.iter().map(|(name, entries)| (name.text.to_owned(), texts(entries))).collect();
    let mut own = Log::default();
    let sets = read_sets(&source, NETWORKS_MAX, text_of, &mut own);
    for mistake in own.into_mistakes() {
        match &mistake.location {
            Location::Set(set) => {
                let found = lists.iter().find(|(name, _)| name.text == set);
                let entry = found.and_then(|(_, all)| all.get(mistake.line as usize - 1));
                let name = found.map_or(section.at, |(name, _)| name.at);
                file.notes.add(entry.map_or(name, |entry| entry.at), mistake.what);
            }
            location => {
                let Mistake { line, column, what, .. } = mistake.clone();
                log.add(location, Fault { line, column, what });
            }
        }
    }
    sets
}

#[cfg(test)]
mod tests;
