//! Policies for our gateway, as files. Called by `world.rs` and `contestant.rs`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Everything is allowed, and there may be any number of connects.
pub(super) const UNLIMITED: &str = "unlimited.toml";
/// The same, behind rules none of which is about the bench's server.
pub(super) const RULES: &str = "rules.toml";

/// How many rules there are, and names that the gateway remembers.
const COUNT: usize = 1000;
pub(super) const NAMES: u16 = 4096;

/// Writes the files.
///
/// # Errors
/// There is no room.
pub(super) fn write(folder: &Path) -> Result<()> {
    let limits = "[limits]\ngateway_connects_per_second = 10000000\n";
    for (name, rules) in [(UNLIMITED, String::new()), (RULES, rules())] {
        let text = format!("default = \"allow\"\n{rules}{limits}");
        fs::write(folder.join(name), text).with_context(|| format!("writing {name}"))?;
    }
    Ok(())
}

/// Half of the rules are about names, half about networks.
fn rules() -> String {
    let mut text = "[dns]\nnames = \"all\"\n".to_owned();
    for number in 0..COUNT {
        let what = match number % 2 {
            0 => format!("*.of{number}.example"),
            _ => format!("192.88.{}.{}/32", number / 256, number % 256),
        };
        let verdict = if number % 4 < 2 { "deny" } else { "allow" };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "[[rule]]\n{verdict} = [\"{what}\"]\nports = [\"1-65535\"]");
    }
    text
}
