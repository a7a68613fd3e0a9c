//! The drop-ins: programs that others start by name, with those programs' own command lines:
//! `pasta`, `passt`, `pesto`, `slirp4netns`.
//!
//! Called by: `lib.rs`, before its own command line is parsed, because these programs follow
//! getopt(3) and have exit codes and messages that their callers parse. `wirespeed pasta ARGS` is
//! the same as a link named `pasta` to this program. `getopt.rs` parses all of them; each program
//! has a file. docs/gateway.md is the user's guide.

mod attach;
mod getopt;
mod passt;
mod pasta;
mod pesto;
mod ports;
mod slirp4netns;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// A drop-in's function: gets the name by which it was called, for messages, and the words after
/// it.
type Main = fn(&str, &[OsString]) -> ExitCode;

/// All of them, by the names of their files.
const PROGRAMS: &[(&str, Main)] = &[
    ("passt", passt::main),
    ("pasta", pasta::main),
    ("pesto", pesto::main),
    ("slirp4netns", slirp4netns::main),
];

/// Their names.
pub(crate) const NAMES: [&str; 4] = ["pasta", "passt", "pesto", "slirp4netns"];

/// The command line of a drop-in, for help and manual pages: the words are the program's own.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Words {
    /// The program's own options; --help lists them
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Words {
    /// Be the drop-in of this name.
    pub(crate) fn run(&self, name: &str) -> ExitCode {
        let main = PROGRAMS.iter().find(|(known, _)| *known == name);
        main.map_or(ExitCode::FAILURE, |(name, main)| main(name, &self.words))
    }
}

/// If this process was called as a drop-in, by its file's name or by its first word, be that
/// program.
pub(crate) fn called() -> Option<ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let (name, main, rest) = of(&words)?;
    Some(main(name, rest))
}

fn of(words: &[OsString]) -> Option<(&'static str, Main, &[OsString])> {
    let (file, rest) = words.split_first()?;
    let called = |word: &OsString| {
        let name = Path::new(word).file_name()?.to_str()?;
        // Distributions have a second file for processors with AVX2.
        let name = name.strip_suffix(".avx2").unwrap_or(name);
        PROGRAMS.iter().find(|(known, _)| *known == name)
    };
    if let Some(&(name, main)) = called(file) {
        return Some((name, main, rest));
    }
    let (first, rest) = rest.split_first()?;
    let &(name, main) = PROGRAMS.iter().find(|(known, _)| first == known)?;
    Some((name, main, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_names() {
        assert_eq!(NAMES.len(), PROGRAMS.len());
        assert!(PROGRAMS.iter().all(|(name, _)| NAMES.contains(name)));
    }

    #[test]
    fn the_files_name_or_the_first_word_is_the_program() {
        let name = |text: &str| {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            of(&words).map(|(name, _, rest)| (name, rest.len()))
        };
        assert_eq!(name("/usr/libexec/wirespeed/pasta --quiet"), Some(("pasta", 1)));
        assert_eq!(name("pasta.avx2"), Some(("pasta", 0)));
        assert_eq!(name("/usr/bin/wirespeed pesto -s x"), Some(("pesto", 2)));
        assert_eq!(name("passt pasta"), Some(("passt", 1)));
        assert_eq!(name("wirespeed netns -- pasta"), None);
        assert_eq!(name("wirespeed"), None);
    }
}
