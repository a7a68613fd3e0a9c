//! The commands of docs/packages.md: what an operator would paste, by the title of the section.
//!
//! Called by: `machine.rs`. A block is what stands between "```sh" and "```".

use anyhow::{Context, Result};

/// The blocks of a section of the page, in order.
pub(super) fn blocks(page: &str, title: &str) -> Result<Vec<String>> {
    let heading = format!("\n## {title}\n");
    let (_, behind) = page.split_once(&heading).with_context(|| format!("no section {title}"))?;
    let section = behind.split("\n## ").next().unwrap_or(behind);
    let blocks = section.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split_once("```").map(|(block, _)| block.to_owned()));
    blocks.collect::<Option<_>>().with_context(|| format!("a block of {title} has no end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_their_section() {
        let page = "# P\n\n## A\n\n```sh\none\ntwo\n```\n\n```text\nno\n```\n```sh\n\
                    three\n```\n\n## B\n\n```sh\nfour\n```\n";
        assert_eq!(blocks(page, "A").expect("a section"), ["one\ntwo\n", "three\n"]);
        assert_eq!(blocks(page, "B").expect("a section"), ["four\n"]);
        assert!(blocks(page, "C").is_err());
    }
}
