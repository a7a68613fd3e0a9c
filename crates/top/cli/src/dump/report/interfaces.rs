//! `-D`: the interfaces of this machine, as tcpdump lists them, or as JSON.
//!
//! Called by: `report.rs`. Source: /sys/class/net.

use anyhow::{Context, Result};
use serde_json::json;

use crate::dump::run::source::ANY;
use crate::{Outcome, output};

const TABLE: &str = "/sys/class/net";

/// Flags of an interface (`IFF_`).
const UP: u32 = 0x1;
const LOOPBACK: u32 = 0x8;
const RUNNING: u32 = 0x40;

/// An interface, as the kernel describes it.
struct Interface {
    name: String,
    flags: u32,
    /// As in RFC 2863: up, down, unknown.
    state: String,
}

/// List them.
pub(in crate::dump) fn print(as_json: bool) -> Result<Outcome> {
    let mut all = read()?;
    // Interfaces that are up first, loopback behind the others.
    all.sort_by_key(|i| (i.flags & UP == 0, i.flags & LOOPBACK != 0, i.name.clone()));
    let text = if as_json { document(&all) } else { lines(&all) };
    output::out(&text)?;
    Ok(Outcome::Done)
}

fn read() -> Result<Vec<Interface>> {
    let entries = std::fs::read_dir(TABLE).with_context(|| format!("cannot read {TABLE}"))?;
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {TABLE}"))?;
        let word = |file: &str| {
            let text = std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            text.trim().to_owned()
        };
        let flags = u32::from_str_radix(word("flags").trim_start_matches("0x"), 16);
        // A file that is not an interface has no flags.
        let Ok(flags) = flags else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        all.push(Interface { name, flags, state: word("operstate") });
    }
    Ok(all)
}

fn words(interface: &Interface) -> Vec<&'static str> {
    let mut words = Vec::new();
    if interface.flags & UP != 0 {
        words.push("Up");
    }
    if interface.flags & RUNNING != 0 || interface.state == "up" {
        words.push("Running");
    }
    if interface.flags & LOOPBACK != 0 {
        words.push("Loopback");
    } else {
        match interface.state.as_str() {
            "up" => words.push("Connected"),
            "down" | "lowerlayerdown" | "notpresent" => words.push("Disconnected"),
            _ => {}
        }
    }
    words
}

fn lines(all: &[Interface]) -> String {
    let mut text = String::new();
    let mut number = 0;
    let mut line = |name: &str, what: &str| {
        number += 1;
        text += &format!("{number}.{name}{what}\n");
    };
    for interface in all {
        let words = words(interface);
        line(
            &interface.name,
            &match words.is_empty() {
                true => String::new(),
                false => format!(" [{}]", words.join(", ")),
            },
        );
    }
    line(ANY, " (all interfaces that are up)");
    text
}

fn document(all: &[Interface]) -> String {
    let rows: Vec<_> = all
        .iter()
        .map(|i| json!({ "name": i.name, "flags": words(i), "state": i.state }))
        .collect();
    format!("{}\n", json!({ "interfaces": rows }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_listed_with_what_it_is() {
        let of = |flags, state: &str| Interface {
            name: "eth0".to_owned(),
            flags,
            state: state.to_owned(),
        };
        let text = lines(&[of(UP, "up"), of(UP | LOOPBACK | RUNNING, "unknown"), of(0, "down")]);
        let expected = "1.eth0 [Up, Running, Connected]\n2.eth0 [Up, Running, Loopback]\n\
                        3.eth0 [Disconnected]\n4.any (all interfaces that are up)\n";
        assert_eq!(text, expected);
        let document: serde_json::Value =
            serde_json::from_str(&document(&[of(UP, "up")])).expect("one document");
        assert_eq!(document["interfaces"][0]["name"], "eth0");
        assert_eq!(document["interfaces"][0]["flags"][2], "Connected");
    }
}
