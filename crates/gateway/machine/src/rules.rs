//! What may be reached: from the options and the file of `--policy` to the fence.
//!
//! Called by: `running.rs` and tools, which read the files and report mistakes; `machine.rs`, which
//! has no files and reads the same texts again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow};
use control::advice;
use policy::text::{Argument, BYTES_MAX, Source};
use policy::{Action, Rules};
use serde::{Deserialize, Serialize};

use super::values::{DefaultAction, Usage};

/// The texts of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Texts {
    /// The name of the file and its text.
    file: Option<(String, String)>,
    allow: Vec<String>,
    deny: Vec<String>,
    default: Option<DefaultAction>,
    /// The files of its sets.
    sets: BTreeMap<String, String>,
}

impl Texts {
    /// These arguments, before the rules of a file.
    pub fn new(allow: &[String], deny: &[String], default: Option<DefaultAction>) -> Texts {
        Texts { allow: allow.to_vec(), deny: deny.to_vec(), default, ..Texts::default() }
    }

    /// Read the file and those of its sets, and check the rules.
    ///
    /// # Errors
    /// A file cannot be read; the mistakes, one a line.
    pub fn read(mut self, path: Option<&Path>) -> Result<Texts> {
        if let Some(path) = path {
            let text = text_of(path).map_err(|why| {
                anyhow!("cannot read {}: {why}{}", path.display(), advice::to_read(&why))
            })?;
            self.file = Some((path.display().to_string(), text));
        }
        let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
        let sets = RefCell::new(BTreeMap::new());
        self.rules(&|name| {
            let text = text_of(&folder.join(name)).map_err(|why| why.to_string())?;
            sets.borrow_mut().insert(name.to_owned(), text.clone());
            Ok(text)
        })?;
        self.sets = sets.into_inner();
        Ok(self)
    }

    /// The texts of a file alone.
    ///
    /// # Errors
    /// As [`Texts::read`].
    pub fn of_file(path: &Path) -> Result<Texts> {
        Texts::default().read(Some(path))
    }

    /// The texts of a policy that is in memory. Files of its sets are read as their names say.
    ///
    /// # Errors
    /// As [`Texts::read`].
    pub(super) fn of_text(text: &str) -> Result<Texts> {
        let file = Some(("policy".to_owned(), text.to_owned()));
        Texts { file, ..Texts::default() }.read(None)
    }

    /// The rules, with the sets that were read before.
    pub fn known_rules(&self) -> Result<Rules> {
        self.rules(&|name| self.sets.get(name).cloned().ok_or("it was not read".to_owned()))
    }

    fn rules(&self, text_of: &dyn Fn(&str) -> Result<String, String>) -> Result<Rules> {
        let allow = self.allow.iter().map(|text| Argument::Allow(text));
        let arguments: Vec<Argument<'_>> =
            allow.chain(self.deny.iter().map(|text| Argument::Deny(text))).collect();
        let source = Source {
            file: self.file.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
            arguments: &arguments,
            default: self.default.map(|default| match default {
                DefaultAction::Allow => Action::Allow,
                DefaultAction::Deny => Action::Deny,
                DefaultAction::Ask => Action::Ask,
            }),
        };
        policy::text::parse(&source, text_of).map_err(|mistakes| {
            let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            match self.file {
                Some(_) => anyhow!("{}", lines.join("\n")),
                None => Usage(lines.join("\n")).into(),
            }
        })
    }
}

/// The text of a file, which is not read beyond the limit of policies.
fn text_of(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path)?.take(BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}
