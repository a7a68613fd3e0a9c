//! The scripts below a folder, and the options on their first lines.
//!
//! Called by: `packetdrill/mod.rs`.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) path: PathBuf,
    /// Its path below the given folder, without `.pkt`.
    pub(crate) name: String,
    /// The folder part of `name`.
    pub(crate) folder: String,
    /// Our addresses that it asks for (`--local_ip`).
    pub(crate) locals: Vec<String>,
    /// The IP version that it asks for itself (`--ip_version`).
    pub(crate) version: Option<Version>,
}

/// The values of `--ip_version`. IPv4 through IPv6 sockets (`ipv4-mapped-ipv6`) is IPv4 on the
/// wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

impl Version {
    fn named(name: &str) -> Version {
        if name.trim() == "ipv6" { Version::V6 } else { Version::V4 }
    }
}

/// All of them, sorted by name.
pub(crate) fn below(dir: &Path) -> Result<Vec<Script>> {
    let mut scripts = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            // Links to folders may form a cycle, so only real folders are followed.
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "pkt") {
                scripts.push(script(dir, path)?);
            }
        }
    }
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scripts)
}

fn script(dir: &Path, path: PathBuf) -> Result<Script> {
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    let short = path.strip_prefix(dir).unwrap_or(&path).with_extension("");
    let folder = short.parent().map(|p| p.display().to_string()).unwrap_or_default();
    let options: Vec<_> = text.lines().map(str::trim).filter(|l| l.starts_with("--")).collect();
    let locals = options.iter().filter_map(|o| o.strip_prefix("--local_ip="));
    let version = options.iter().find_map(|o| o.strip_prefix("--ip_version="));
    Ok(Script {
        name: short.display().to_string(),
        folder,
        locals: locals.map(|l| l.trim().to_owned()).collect(),
        version: version.map(Version::named),
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_says_its_address_on_its_first_lines() {
        let dir = std::env::temp_dir().join(format!("wirespeed-pkt-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("tcp/close")).unwrap();
        let text = "--ip_version=ipv6\n--local_ip=fd::1\n\n 0 socket(...) = 3\n";
        std::fs::write(dir.join("tcp/close/a.pkt"), text).unwrap();
        std::fs::write(dir.join("tcp/close/a.txt"), text).unwrap();
        let found = below(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        let found = found.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name.as_str(), found[0].folder.as_str()),
            ("tcp/close/a", "tcp/close")
        );
        assert_eq!(found[0].locals, ["fd::1"]);
        assert_eq!(found[0].version, Some(Version::V6));
    }
}
