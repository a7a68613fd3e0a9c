//! `wirespeed man` and `wirespeed completions`, generated from the definition of the command line
//! at each call, so they are never out of date.
//!
//! Called by: `lib.rs`. docs/decisions/0062-pages-on-request.md says why no files are kept.

use std::io::{ErrorKind, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, anyhow};
use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;

use crate::output::EXIT;
use crate::{Outcome, Usage, output};

/// The options of `man`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
To read one:      wirespeed man ttcp
To install them:  wirespeed man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// A tool, or an experiment of lab as 'lab wan' [default: the program itself]
    #[arg(value_name = "TOOL", conflicts_with = "dir")]
    tool: Vec<String>,
    /// Write the pages of all tools into this directory, as wirespeed-TOOL.1
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
}

/// The options of `completions`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
For bash:  wirespeed completions bash > ~/.local/share/bash-completion/completions/wirespeed
For zsh:   wirespeed completions zsh > _wirespeed, in a directory of $fpath
For fish:  wirespeed completions fish > ~/.config/fish/completions/wirespeed.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

/// Run `man`.
pub(crate) fn man(args: &ManArgs) -> Result<Outcome> {
    let all = built();
    match &args.dir {
        Some(dir) => {
            let count = write_all(&all, dir)?;
            output::out(&format!("{count} pages in {}\n", dir.display()))?;
        }
        None => {
            let page = page(find(&all, &args.tool)?)?;
            if !std::io::stdout().is_terminal() || !shown_by_man(&page)? {
                output::out(&page)?;
            }
        }
    }
    Ok(Outcome::Done)
}

/// Show a page by man(1), as `git help` does; `false` if the machine has none.
fn shown_by_man(page: &str) -> Result<bool> {
    let man = std::process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
    let mut man = match man {
        Ok(man) => man,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error).context("cannot start man"),
    };
    // The user may end man(1) before it has read all.
    if let Some(mut input) = man.stdin.take() {
        let _ = input.write_all(page.as_bytes());
    }
    Ok(man.wait().context("man")?.success())
}

/// Run `completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "wirespeed", &mut text);
    output::out(&String::from_utf8_lossy(&text))?;
    Ok(Outcome::Done)
}

/// The command line with the full name of each tool, as `wirespeed-lab-wan`.
fn built() -> Command {
    let mut all = crate::command().disable_help_subcommand(true);
    all.build();
    all
}

fn find<'a>(all: &'a Command, path: &[String]) -> Result<&'a Command> {
    path.iter().try_fold(all, |command, name| {
        command.find_subcommand(name).ok_or_else(|| {
            let names: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
            let there = match names.is_empty() {
                true => format!("{} has no parts", command.get_name()),
                false => format!("there are: {}", names.join(", ")),
            };
            anyhow!(Usage(format!("'{name}' has no page; {there}")))
        })
    })
}

/// The page of a command.
fn page(command: &Command) -> Result<String> {
    let mut text = Vec::new();
    let name = command.get_display_name().unwrap_or("wirespeed").to_owned();
    let notes = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let bare = command.clone().after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    // clap_mangen leaves out the text of options that -h hides.
    let bare = bare.mut_args(|arg| arg.hide_short_help(false));
    let usage = bare.clone().render_usage().to_string();
    let man = Man::new(bare).title(name.to_uppercase()).manual("wirespeed");
    let man = man.source(concat!("wirespeed ", env!("WIRESPEED_VERSION")));
    man.render(&mut text).context("cannot make the page")?;
    let page = String::from_utf8(text).context("the page is no text")?;
    let mut page = with_synopsis(&page, usage.trim_start_matches("Usage: "));
    if let Some(notes) = notes {
        page += &section("NOTES", &notes);
    }
    if name != "wirespeed" {
        page += &section("EXIT STATUS", EXIT.trim_start_matches("Exit status: "));
    }
    Ok(page)
}

/// The page with the line of the help: clap_mangen's names options without their values.
fn with_synopsis(page: &str, usage: &str) -> String {
    const TITLE: &str = ".SH SYNOPSIS\n";
    let whole = page.split_once(TITLE).and_then(|(before, rest)| {
        let (_, after) = rest.split_once("\n.SH ")?;
        Some(format!("{before}{TITLE}{}\n.SH {after}", escaped(usage)))
    });
    whole.unwrap_or_else(|| page.to_owned())
}

/// A line that is no roff request.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

/// A section: sentences are filled, examples and columns keep their lines.
fn section(title: &str, text: &str) -> String {
    let mut roff = format!(".SH \"{title}\"\n");
    let mut was_kept = false;
    for line in text.lines() {
        if line.is_empty() {
            roff += ".PP\n";
            continue;
        }
        let is_kept = line.starts_with(' ') || line.contains("  ");
        match (was_kept, is_kept) {
            (false, true) => roff += ".nf\n",
            (true, false) => roff += ".fi\n",
            _ => {}
        }
        was_kept = is_kept;
        roff += &escaped(line);
        roff.push('\n');
    }
    if was_kept {
        roff += ".fi\n";
    }
    roff
}

/// Write a page for each visible command; returns how many.
fn write_all(command: &Command, dir: &Path) -> Result<usize> {
    let name = command.get_display_name().unwrap_or("wirespeed");
    let path = dir.join(format!("{name}.1"));
    lab::replaced::write(&path, page(command)?.as_bytes()).with_context(|| cannot_write(&path))?;
    let parts = command.get_subcommands().filter(|part| !part.is_hide_set());
    parts.map(|part| write_all(part, dir)).sum::<Result<usize>>().map(|count| count + 1)
}

fn cannot_write(path: &Path) -> String {
    let missing = path.parent().is_some_and(|dir| !dir.exists());
    let what_to_do = if missing { " (make the directory first: `mkdir -p`)" } else { "" };
    format!("cannot write {}{what_to_do}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_filled_and_examples_keep_their_lines() {
        let text = "One sentence,\nwith -x.\n\nAn example:\n  first\n  second\nA:  column\nEnd";
        let roff = ".SH \"NOTES\"\nOne sentence,\nwith \\-x.\n.PP\nAn example:\n.nf\n  first\n  \
                    second\nA:  column\n.fi\nEnd\n";
        assert_eq!(section("NOTES", text), roff);
    }

    #[test]
    fn the_synopsis_is_that_of_the_help() {
        let all = built();
        let dump = page(find(&all, &["dump".to_owned()]).expect("a tool")).expect("a page");
        let synopsis = "\n.SH SYNOPSIS\nwirespeed dump [OPTIONS] [FILTER]...\n.SH DESCRIPTION\n";
        assert!(dump.contains(synopsis), "{dump}");
    }
}
