//! Every package that a build can pull in carries a licence that deny.toml allows, so that the
//! rule is checked where cargo-deny is not installed.

use super::{Finding, Project};
use crate::cargo::Package;
use serde::Deserialize;

#[derive(Default, Deserialize)]
struct DenyFile {
    licenses: Licences,
}

/// The `[licenses]` table of deny.toml, as far as we read it.
#[derive(Default, Deserialize)]
pub(super) struct Licences {
    pub(super) allow: Vec<String>,
    #[serde(default)]
    pub(super) exceptions: Vec<Allowed>,
}

/// A licence allowed for one package only.
#[derive(Deserialize)]
pub(super) struct Allowed {
    #[serde(rename = "crate", alias = "name")]
    pub(super) name: String,
    pub(super) allow: Vec<String>,
}

const PATH: &str = "deny.toml";

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let fail = |what: String, remedy: &str| vec![Finding::new(PATH, 1, "file", what, remedy)];
    let Some(text) = project.tree.get(PATH) else {
        return fail("the file is missing".to_owned(), "restore it from the history");
    };
    let rules = match toml::from_str::<DenyFile>(text) {
        Ok(file) => file.licenses,
        Err(e) => return fail(format!("cannot be read: {}", e.message()), "correct it"),
    };
    project.metadata.packages.iter().filter_map(|package| judge(package, &rules)).collect()
}

fn judge(package: &Package, rules: &Licences) -> Option<Finding> {
    let own = rules.exceptions.iter().filter(|e| e.name == package.name);
    let own: Vec<&String> = own.flat_map(|e| &e.allow).collect();
    let ok = |id: &str| rules.allow.iter().chain(own.iter().copied()).any(|a| a == id);
    let licence = package.license.as_deref().unwrap_or("");
    if allowed(licence, &ok) {
        return None;
    }
    let (name, version) = (&package.name, &package.version);
    let what = format!("{name} {version} is under '{licence}'");
    let remedy = "use another package, or add an exception with its reason to deny.toml";
    Some(Finding::new(PATH, 1, name, what, remedy))
}

/// Is an SPDX expression satisfied by what `ok` accepts? `/` is the old spelling of OR.
pub(super) fn allowed(expression: &str, ok: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let value = any_of(&words, &mut at, ok);
    value && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, ok: &dyn Fn(&str) -> bool) -> bool {
    let mut value = all_of(words, at, ok);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        value |= all_of(words, at, ok);
    }
    value
}

fn all_of(words: &[&str], at: &mut usize, ok: &dyn Fn(&str) -> bool) -> bool {
    let mut value = one(words, at, ok);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        value &= one(words, at, ok);
    }
    value
}

fn one(words: &[&str], at: &mut usize, ok: &dyn Fn(&str) -> bool) -> bool {
    let Some(&word) = words.get(*at) else { return false };
    *at += 1;
    if word == "(" {
        let value = any_of(words, at, ok);
        *at += 1;
        return value;
    }
    // `Apache-2.0 WITH LLVM-exception` is judged as a whole; the exception only permits more.
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
    }
    ok(word)
}
