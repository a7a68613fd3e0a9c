//! What the program may reach: from the options and the file of `--policy` to the fence.
//!
//! Called by: `launch.rs`, which reads the files and reports mistakes; `gateway.rs`, which has no
//! files and reads the same texts again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use policy::text::{Argument, BYTES_MAX, Source};
use policy::{Action, Rules};
use serde::{Deserialize, Serialize};

use super::args::{Args, DefaultAction};
use crate::Usage;

/// The texts of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Texts {
    /// The name of the file and its text.
    file: Option<(String, String)>,
    allow: Vec<String>,
    deny: Vec<String>,
    /// Is what no rule matches allowed?
    default: Option<bool>,
    /// The files of its sets.
    sets: BTreeMap<String, String>,
}

impl Texts {
    /// Read the files, and check the rules.
    ///
    /// # Errors
    /// A file cannot be read; the mistakes, one a line.
    pub(super) fn read(args: &Args) -> Result<Texts> {
        let mut texts = Texts {
            allow: args.allow.clone(),
            deny: args.deny.clone(),
            default: args.default.map(|default| default == DefaultAction::Allow),
            ..Texts::default()
        };
        if let Some(path) = &args.policy {
            let text = text_of(path).with_context(|| format!("cannot read {}", path.display()))?;
            texts.file = Some((path.display().to_string(), text));
        }
        let folder = args.policy.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let sets = RefCell::new(BTreeMap::new());
        texts.rules(&|name| {
            let text = text_of(&folder.join(name)).map_err(|why| why.to_string())?;
            sets.borrow_mut().insert(name.to_owned(), text.clone());
            Ok(text)
        })?;
        texts.sets = sets.into_inner();
        Ok(texts)
    }

    /// The rules, with the sets that were read before.
    pub(super) fn known_rules(&self) -> Result<Rules> {
        self.rules(&|name| self.sets.get(name).cloned().ok_or("it was not read".to_owned()))
    }

    fn rules(&self, text_of: &dyn Fn(&str) -> Result<String, String>) -> Result<Rules> {
        let allow = self.allow.iter().map(|text| Argument::Allow(text));
        let arguments: Vec<Argument<'_>> =
            allow.chain(self.deny.iter().map(|text| Argument::Deny(text))).collect();
        let source = Source {
            file: self.file.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
            arguments: &arguments,
            default: self.default.map(|allow| if allow { Action::Allow } else { Action::Deny }),
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
