//! `cargo xtask picture`: README's pictures, made again from a real run of its two commands.
//!
//! Called by: `main.rs`. The output of `ttcp` becomes docs/pictures/ttcp.svg, line by line;
//! experiments of the lab draw their own plots. All run as README says, so a picture shows what a
//! reader will get.

use crate::{cargo, process};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

/// Width of a character of the monospaced font at 14 px, and height of a line.
const CHAR_PX: f32 = 8.43;
const LINE_PX: usize = 19;
/// Around the text.
const MARGIN_PX: usize = 16;

/// Experiments with a picture.
const PLOTTED: [&str; 8] =
    ["wan", "fair", "mitigation", "elbow", "budget", "ablate", "knee", "ethernet1988"];

/// Run the commands and write their files.
pub(crate) fn run(root: &Path) -> Result<()> {
    let folder = root.join("docs/pictures");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    process::pass_on(cargo::cargo(root).args(["build", "--release"]))?;
    let program = cargo::Metadata::read(root)?.target_directory.join("release/wirespeed");
    let output = std::process::Command::new(&program)
        .arg("ttcp")
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(output.status.success(), "wirespeed ttcp: {}", output.status);
    let text = format!(
        "$ cargo run --release -- ttcp\n{}",
        String::from_utf8_lossy(&output.stdout).trim_end()
    );
    let file = folder.join("ttcp.svg");
    fs::write(&file, svg(&text)).with_context(|| format!("cannot write {}", file.display()))?;
    for experiment in PLOTTED {
        let plot = folder.join(format!("{experiment}.svg"));
        let mut lab = std::process::Command::new(&program);
        process::pass_on(lab.args(["lab", experiment, "--quick", "--plot"]).arg(&plot))?;
    }
    println!("the pictures in docs/pictures are new: look at them");
    Ok(())
}

/// Text as a terminal shows it. Colours suit a light and a dark page.
fn svg(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = (longest as f32 * CHAR_PX).ceil() as usize + 2 * MARGIN_PX;
    let height = lines.len() * LINE_PX + 2 * MARGIN_PX;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1f27\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"14\" fill=\"#d7dce5\" xml:space=\"preserve\">\n"
    );
    for (at, line) in lines.iter().enumerate() {
        let y = MARGIN_PX + at * LINE_PX + 14;
        let fill = if line.starts_with("$ ") { " fill=\"#8fd694\"" } else { "" };
        out.push_str(&format!(
            "<text x=\"{MARGIN_PX}\" y=\"{y}\"{fill}>{}</text>\n",
            escaped(line)
        ));
    }
    out.push_str("</g>\n</svg>\n");
    out
}

fn escaped(line: &str) -> String {
    line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_text_is_a_line_of_the_picture() {
        let picture = svg("$ a -> b\n1 & 2");
        assert!(picture.contains("y=\"30\" fill=\"#8fd694\">$ a -&gt; b</text>"), "{picture}");
        assert!(picture.contains("y=\"49\">1 &amp; 2</text>"), "{picture}");
        assert!(picture.contains("height=\"70\""), "{picture}");
    }
}
