//! Rules of the filter, read: an action, and clauses in any order.
//!
//! Called by: `text`. A mistake in a clause does not end the rule: the clauses behind it are read,
//! so that all mistakes are reported at once.

use super::clauses::Clauses;
use super::lexer::{Cursor, Token, on_one_line};
use super::mistake::Fault;
use super::names;
use super::values::{Context, bounded_statements, count, count_of, is_clause};
use crate::rules::{Action, Match, Rate, Rule};

/// All rules of the filter; those with mistakes are not among them.
pub(super) fn read(text: &str, context: &mut Context<'_>) -> Vec<Rule> {
    let statements = bounded_statements(text, context);
    statements.iter().filter_map(|words| rule(words, context)).collect()
}

fn rule(words: &[Token<'_>], context: &mut Context<'_>) -> Option<Rule> {
    let mut cursor = Cursor::new(words);
    let first = cursor.next()?;
    let action = match first.text {
        "pass" => Action::Pass,
        "block" => Action::Block,
        "reject" => Action::Reject,
        other => {
            let known = ["pass", "block", "reject"];
            context.note(first.fault(names::unknown("action", other, known.into_iter())));
            return None;
        }
    };
    let mut rule = Rule {
        text: on_one_line(words),
        line: first.line,
        action,
        matches: Match::default(),
        rate: None,
        states_per_source: None,
        label: None,
        log: false,
        loose: false,
        stateless: false,
    };
    let mut clauses = Clauses::default();
    let before = context.log.count();
    while cursor.peek().is_some() {
        if let Err(fault) = clause(&mut rule, &mut clauses, &mut cursor, context) {
            context.note(fault);
            cursor.skip_to(is_clause);
        }
    }
    if context.log.count() > before {
        return None;
    }
    let contradiction = contradiction(&rule, &clauses);
    match contradiction.map_or_else(|| clauses.finish(), Err) {
        Ok(matches) => Some(Rule { matches, ..rule }),
        Err(fault) => {
            context.note(fault);
            None
        }
    }
}

fn clause<'a>(
    rule: &mut Rule,
    clauses: &mut Clauses<'a>,
    cursor: &mut Cursor<'a, '_>,
    context: &mut Context<'_>,
) -> Result<(), Fault> {
    if clauses.read(cursor, context)? {
        return Ok(());
    }
    let Some(word) = cursor.peek() else { return Ok(()) };
    match word.text {
        "new" => {
            clauses.begin("new", cursor, word)?;
            rule.rate = Some(rate(cursor)?);
        }
        "states" => {
            clauses.begin("states", cursor, word)?;
            let what = "`states` needs a number: `states 100 per source`";
            rule.states_per_source = Some(count(cursor, what)?);
            let (per, source) = (cursor.accept("per"), cursor.accept("source"));
            if !(per && source) {
                return Err(word.fault("write `states N per source`"));
            }
        }
        "label" => {
            clauses.begin("label", cursor, word)?;
            let label = cursor.expect("`label` needs a word")?;
            if matches!(label.text, "{" | "}" | "," | "!") {
                return Err(label.fault("`label` needs a word"));
            }
            rule.label = Some(label.text.to_owned());
        }
        "log" => {
            clauses.begin("log", cursor, word)?;
            rule.log = true;
        }
        "loose" => {
            clauses.begin("loose", cursor, word)?;
            rule.loose = true;
        }
        "stateless" => {
            clauses.begin("stateless", cursor, word)?;
            rule.stateless = true;
        }
        other => {
            cursor.next();
            return Err(word.fault(unknown_clause(other, FILTER)));
        }
    }
    Ok(())
}

/// Clauses of rules of the filter, as they are offered for an unknown word.
const FILTER: &[&str] =
    &["in", "out", "from", "to", "flags", "new", "states", "label", "log", "loose", "stateless"];

/// What to write for a word that begins no clause.
pub(super) fn unknown_clause(word: &str, clauses: &'static [&'static str]) -> String {
    if word == "port" {
        return "`port` stands behind hosts: `to any port 443`; or write `tcp 443`".to_owned();
    }
    if word.parse::<u16>().is_ok() {
        return format!("`{word}` stands alone: write a port behind its protocol: `tcp {word}`");
    }
    if word.contains('/') || word.starts_with('@') || word.parse::<core::net::IpAddr>().is_ok() {
        return format!("`{word}` stands alone: write `from {word}` or `to {word}`");
    }
    let protocols = names::PROTOCOLS.iter().map(|&(name, _)| name);
    names::unknown("clause", word, clauses.iter().copied().chain(protocols))
}

/// `200/s`, `200/s per source`.
fn rate(cursor: &mut Cursor<'_, '_>) -> Result<Rate, Fault> {
    let what = "`new` needs flows in a second: `new 200/s`, `new 200/s per source`";
    let word = cursor.expect(what)?;
    let number = word.text.strip_suffix("/s").ok_or_else(|| word.fault(what))?;
    let per_second = count_of(word, number, what)?;
    let per_source = cursor.accept("per");
    if per_source && !cursor.accept("source") {
        return Err(word.fault(what));
    }
    Ok(Rate { per_second, per_source })
}

/// Clauses that exclude each other.
fn contradiction(rule: &Rule, clauses: &Clauses<'_>) -> Option<Fault> {
    let of_states = ["new", "states", "loose", "stateless"];
    if rule.action != Action::Pass
        && let Some(word) = of_states.iter().find_map(|name| clauses.token(name))
    {
        let what = format!("`{}` is about flows that pass: leave it out", word.text);
        return Some(word.fault(what));
    }
    let with_state = ["new", "states", "loose"];
    if rule.stateless
        && let Some(word) = with_state.iter().find_map(|name| clauses.token(name))
    {
        let what = format!("`{}` needs states: leave out `stateless`", word.text);
        return Some(word.fault(what));
    }
    None
}
