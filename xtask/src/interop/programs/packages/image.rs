//! A container's image by its recipe, and a router in it.
//!
//! Called by: `mod.rs`. The script is `image.sh`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::machine::{isolated, tree};
use super::{LONG, packages, page};
use crate::interop::Workbench;
use crate::interop::outside::shown;
use crate::package::Format;

/// The image has the program, and a router in a container forwards.
pub(super) fn forwards(bench: &Workbench) -> Result<()> {
    let (root, tree) = (bench.root(), tree(bench)?);
    let case = packages(bench, "case", &[Format::Deb], 1)?;
    // The file of the page, between `cat >> ... <<'EOF'` and `EOF`, after what the package has.
    let text = fs::read_to_string(root.join("docs/packages.md"))?;
    let block = page::blocks(&text, "Configure")?.swap_remove(0);
    let ports = block.split_once("<<'EOF'\n").and_then(|(_, rest)| rest.split_once("\nEOF"));
    let (ports, _) = ports.context("the page configures by no here-document")?;
    fs::write(case.join("router.toml"), ports)?;
    let script = root.join("xtask/src/interop/programs/packages/image.sh");
    let recipe = root.join("dist/Containerfile");
    let words = [shown(&script)?, shown(&tree)?, shown(&recipe)?, shown(&case)?];
    let said = bench.run(isolated(&mut Command::new("unshare"), &words), LONG)?;
    ensure!(said.contains("wirespeed ") && said.contains("ttl=63"), "{said}");
    Ok(())
}
