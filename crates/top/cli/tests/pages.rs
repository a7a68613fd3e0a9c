//! Man pages and completions contain all options of all tools, and `--version` has the commit.

use clap::{Arg, Command};

use crate::common::{code, run, stderr};

/// The command line with full names.
fn built() -> Command {
    let mut all = wirespeed_cli::command();
    all.build();
    all
}

/// All tools and experiments, by their words.
fn tools(command: &Command, path: &[String], found: &mut Vec<(Vec<String>, Command)>) {
    found.push((path.to_vec(), command.clone()));
    let parts = command.get_subcommands().filter(|part| part.get_name() != "help");
    for part in parts.filter(|part| !part.is_hide_set()) {
        tools(part, &[path, &[part.get_name().to_owned()]].concat(), found);
    }
}

fn all() -> Vec<(Vec<String>, Command)> {
    let mut found = Vec::new();
    tools(&built(), &[], &mut found);
    found
}

fn text(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set())
}

#[test]
fn every_tool_has_a_page_with_every_option_and_its_sentence() {
    let plain = |text: &str| {
        text.replace("\\-", "-").replace("\\*(Aq", "'").replace("\\fR", "").replace("\\fB", "")
    };
    let tools = all();
    assert!(tools.len() > 12, "{} tools", tools.len());
    for (path, command) in tools {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let page = plain(&text(&[&["man"], words.as_slice()].concat()));
        assert!(page.starts_with(".ie") || page.contains(".TH"), "{path:?}: {page}");
        for arg in shown(&command) {
            let option = arg.get_long().map(|long| format!("--{long}"));
            let option = option.or(arg.get_short().map(|short| format!("-{short}")));
            if let Some(option) = option {
                assert!(page.contains(&option), "{path:?}: no {option} in the page");
            }
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let words: Vec<&str> = help.split(' ').take(2).collect();
            assert!(page.contains(&words.join(" ")), "{path:?}: no '{help}' in the page");
        }
    }
}

#[test]
fn pages_of_all_tools_are_written_into_a_directory() {
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pages");
    let _ = std::fs::remove_dir_all(&dir);
    let dir = dir.to_str().expect("a plain name");
    let missing = run(&["man", "--dir", dir]);
    assert_eq!(code(&missing), 1);
    assert!(stderr(&missing).contains("mkdir -p"), "{}", stderr(&missing));
    std::fs::create_dir(dir).expect("room for a directory");
    text(&["man", "--dir", dir]);
    let names = std::fs::read_dir(dir).expect("it is there").flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name().into_string()).collect();
    names.sort();
    let wanted = ["wirespeed.1", "wirespeed-ttcp.1", "wirespeed-lab-wan.1"].map(str::to_owned);
    assert!(wanted.iter().all(|name| names.contains(&Ok(name.clone()))), "{names:?}");
    assert_eq!(names.len(), all().len());
}

#[test]
fn completions_know_every_option() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = text(&["completions", shell]);
        for (path, command) in all() {
            for long in shown(&command).filter_map(Arg::get_long) {
                // fish writes the dashes as a flag.
                let is_there =
                    text.contains(&format!("--{long}")) || text.contains(&format!("-l {long}"));
                assert!(is_there, "{shell}: {path:?} has no --{long}");
            }
        }
    }
}

#[test]
fn the_version_has_the_commit() {
    let version = text(&["--version"]);
    let package = env!("CARGO_PKG_VERSION");
    assert!(version.starts_with(&format!("wirespeed {package}")), "{version}");
    let git = std::process::Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).output();
    let head = git.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    if let (Some(head), None) = (head, option_env!("WIRESPEED_COMMIT")) {
        let head = String::from_utf8_lossy(&head).trim().to_owned();
        assert_eq!(version.trim_end(), format!("wirespeed {package} ({head})"));
    }
}

/// The help of every tool is output like any other: a full disk is a failure, a reader that has
/// gone away is none.
#[cfg(target_os = "linux")]
#[test]
fn a_help_that_cannot_be_written_is_a_failure() {
    use std::process::Stdio;
    let with = |args: &[String], option: &str, to: Stdio| {
        let mut command = crate::common::program();
        command.args(args).arg(option).stdout(to).stderr(Stdio::piped());
        let output = command.output().expect("it starts");
        (code(&output), stderr(&output))
    };
    for (path, _) in all() {
        let options: &[&str] =
            if path.is_empty() { &["--help", "-h", "--version"] } else { &["--help", "-h"] };
        for option in options {
            let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux");
            let (code, said) = with(&path, option, full.into());
            assert_eq!(code, 1, "{path:?} {option}: {said}");
            assert!(said.contains("cannot write to standard output"), "{path:?} {option}: {said}");
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            assert_eq!(with(&path, option, writer.into()), (0, String::new()), "{path:?} {option}");
        }
    }
}
