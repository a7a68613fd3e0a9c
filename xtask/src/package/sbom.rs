//! `--sbom`: a list of the crates in the program, with versions and licences, in CycloneDX's form.
//!
//! Called by: `mod.rs`. `cargo cyclonedx` writes it, and it knows all that any package of the
//! workspace asks for, tests included; `cargo tree` knows what the program is compiled from.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::release::Release;
use crate::{cargo, process};

const PROGRAM: &str = "wirespeed-cli";
/// `cargo cyclonedx` writes a file of this name beside each manifest of the workspace.
const MAKING: &str = "wirespeed-sbom-being-made";

/// Write the list into `out`; returns its name.
pub(super) fn write(root: &Path, release: &Release, out: &Path) -> Result<String> {
    let metadata = cargo::Metadata::read(root)?;
    let beside = |manifest: &str| Path::new(manifest).with_file_name(format!("{MAKING}.json"));
    let written: Vec<_> = metadata.members().map(|m| beside(&m.manifest_path)).collect();
    let program = metadata.members().find(|package| package.name == PROGRAM);
    let program = &program.context("the workspace has no wirespeed-cli")?.manifest_path;
    let text = by_cyclonedx(root, release, program, &beside(program));
    for file in written {
        // One that was not written is not there.
        let _ = fs::remove_file(file);
    }
    let root = root.to_str().context("a folder's name is no text: use another one")?;
    let mut sbom: Value = serde_json::from_str(&text?.replace(root, "/usr/src/wirespeed"))
        .context("cannot read what cargo cyclonedx wrote")?;
    let mut tree = cargo::cargo(Path::new(root));
    tree.args(["tree", "--locked", "--package", PROGRAM, "--edges", "normal,build"]);
    tree.args(["--prefix", "none", "--no-dedupe"]);
    keep(&mut sbom, &compiled(&process::output(&mut tree)?))?;
    let name = format!("wirespeed-{}-{}.cdx.json", release.version, release.revision);
    let text = serde_json::to_string_pretty(&sbom)? + "\n";
    fs::write(out.join(&name), text).with_context(|| format!("cannot write {name}"))?;
    Ok(name)
}

fn by_cyclonedx(root: &Path, release: &Release, manifest: &str, file: &PathBuf) -> Result<String> {
    let mut cyclonedx = cargo::cargo(root);
    cyclonedx.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5"]);
    cyclonedx.args(["--override-filename", MAKING, "--manifest-path", manifest]);
    process::output(cyclonedx.env("SOURCE_DATE_EPOCH", &release.epoch))
        .context("--sbom needs `cargo install --locked cargo-cyclonedx`")?;
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The crates of a tree's lines, `name vVERSION`, as `name VERSION`.
fn compiled(lines: &str) -> BTreeSet<String> {
    let named = |line: &str| {
        let mut words = line.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?.strip_prefix('v')?))
    };
    lines.lines().filter_map(named).collect()
}

/// Leave the crates that are compiled, and what these say of each other.
fn keep(sbom: &mut Value, compiled: &BTreeSet<String>) -> Result<()> {
    const ODD: &str = "cargo cyclonedx wrote another form than that of version 0.5";
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let called = |one: &Value| format!("{} {}", text(one, "name"), text(one, "version"));
    let program = sbom["metadata"]["component"].clone();
    let crates = sbom["components"].as_array_mut().context(ODD)?;
    crates.retain(|one| compiled.contains(&called(one)));
    let listed: BTreeSet<_> = crates.iter().chain([&program]).map(called).collect();
    let missing: Vec<_> = compiled.difference(&listed).collect();
    ensure!(missing.is_empty(), "cargo cyclonedx does not list {missing:?}");
    let known: BTreeSet<_> =
        crates.iter().chain([&program]).map(|one| text(one, "bom-ref")).collect();
    let edges = sbom["dependencies"].as_array_mut().context(ODD)?;
    edges.retain(|edge| known.contains(&text(edge, "ref")));
    for edge in edges {
        // Indexing would add a null.
        if let Some(on) = edge.get_mut("dependsOn").and_then(Value::as_array_mut) {
            on.retain(|name| name.as_str().is_some_and(|name| known.contains(name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sbom() -> Value {
        let one = |name: &str| {
            let at = format!("at/{name}");
            serde_json::json!({ "name": name, "version": "1.0.0", "bom-ref": at })
        };
        serde_json::json!({
            "metadata": { "component": one("program") },
            "components": [one("inside"), one("of-tests")],
            "dependencies": [
                { "ref": "at/program", "dependsOn": ["at/inside", "at/of-tests"] },
                { "ref": "at/inside" },
                { "ref": "at/of-tests" },
            ],
        })
    }

    #[test]
    fn crates_of_tests_are_left_out() {
        let mut sbom = sbom();
        let tree = "program v1.0.0 (/a/folder)\ninside v1.0.0\ninside v1.0.0 (proc-macro)\n";
        keep(&mut sbom, &compiled(tree)).expect("all are listed");
        assert_eq!(sbom["components"].as_array().expect("crates").len(), 1);
        let edges = serde_json::json!([
            { "ref": "at/program", "dependsOn": ["at/inside"] },
            { "ref": "at/inside" },
        ]);
        assert_eq!(sbom["dependencies"], edges);
    }

    #[test]
    fn a_crate_that_is_not_listed_is_an_error() {
        let why =
            keep(&mut sbom(), &compiled("program v1.0.0\nother v2.0.0\n")).expect_err("other");
        assert!(why.to_string().contains("other 2.0.0"), "{why}");
    }
}
