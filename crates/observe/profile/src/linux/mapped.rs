//! The files that a process has mapped as code. They are kept open, because the process may have
//! ended when their symbols are read.
//!
//! Called by: `look.rs`; `code.rs`, which reads the symbols.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::{Object, ObjectSection as _};

use crate::Error;

/// The code that a process has mapped.
pub(super) struct Mapped {
    pub(super) ranges: Vec<Range>,
    pub(super) files: Vec<Named>,
}

/// A range of addresses that is mapped from a file.
pub(super) struct Range {
    pub(super) from: u64,
    pub(super) to: u64,
    /// The offset in the file where the range begins.
    pub(super) offset: u64,
    /// The index of the file in [`Mapped::files`].
    pub(super) file: usize,
}

/// A mapped file.
pub(super) struct Named {
    /// The name in /proc.
    pub(super) name: String,
    pub(super) file: File,
    /// The file is the program itself, not a library.
    pub(super) is_program: bool,
}

/// The most mappings that are used.
const MAPPED_MAX: usize = 4_096;

impl Mapped {
    /// The code of a process as it is mapped now; `None` stands for this process.
    ///
    /// # Errors
    /// The mappings may not be read, or the program has no line tables; the text gives advice.
    pub(super) fn of(process: Option<u32>) -> Result<Mapped, Error> {
        let at = process.map_or_else(|| "self".to_owned(), |id| id.to_string());
        let root = PathBuf::from("/proc").join(&at);
        let maps = fs::read_to_string(root.join("maps")).map_err(|error| {
            let who = "as the program's own user, or as root";
            Error(format!("cannot read what process {at} has mapped: {error}; try {who}"))
        })?;
        let exe = root.join("exe");
        let own = fs::read_link(&exe).unwrap_or_default();
        let own = own.to_string_lossy().into_owned();
        let mut mapped = Mapped { ranges: Vec::new(), files: Vec::new() };
        let mut has_lines = false;
        for line in maps.lines().filter_map(Line::parse).take(MAPPED_MAX) {
            let known = mapped.files.iter().position(|file| file.name == line.name);
            if known.is_none() {
                let is_program = line.name == own;
                let path = if is_program { &exe } else { Path::new(line.name) };
                let file = match File::open(path) {
                    Ok(file) => file,
                    Err(error) if is_program => return Err(unreadable(line.name, &error)),
                    // The file cannot be opened, for example a library that was replaced meanwhile.
                    // It is not the program.
                    Err(_) => continue,
                };
                has_lines |= is_program && lines_in(&file, line.name)?;
                mapped.files.push(Named { name: line.name.to_owned(), file, is_program });
            }
            let file = known.unwrap_or(mapped.files.len() - 1);
            mapped.ranges.push(Range { from: line.from, to: line.to, offset: line.offset, file });
        }
        match has_lines {
            true => Ok(mapped),
            false => Err(Error(format!(
                "{own} has no line tables, so the stages of its code are not known: run a binary \
                 that is not stripped, built with `debug = \"line-tables-only\"` in its profile, \
                 as with `cargo build --release` here"
            ))),
        }
    }

    /// The range that contains an address.
    pub(super) fn range(&self, address: u64) -> Option<&Range> {
        self.ranges.iter().find(|range| (range.from..range.to).contains(&address))
    }

    /// Is there code at an address?
    pub(super) fn is_code(&self, address: u64) -> bool {
        self.range(address).is_some()
    }
}

/// Does a binary have line tables?
fn lines_in(file: &File, name: &str) -> Result<bool, Error> {
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache).map_err(|error| unreadable(name, &error))?;
    Ok(object.section_by_name(".debug_line").is_some_and(|section| section.size() > 0))
}

/// The error for a file whose symbols cannot be read.
pub(super) fn unreadable(name: &str, why: &dyn std::fmt::Display) -> Error {
    Error(format!("cannot read the symbols of {name}: {why}"))
}

/// A line of /proc/PID/maps that maps a file as code.
struct Line<'a> {
    from: u64,
    to: u64,
    offset: u64,
    name: &'a str,
}

impl Line<'_> {
    fn parse(line: &str) -> Option<Line<'_>> {
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.trim_start().split_once(' ')?;
            rest = after;
            Some(word)
        };
        let (range, permissions, offset) = (word()?, word()?, word()?);
        let (_device, _inode) = (word()?, word()?);
        let name = rest.trim();
        let (from, to) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let is_code = permissions.contains('x') && name.starts_with('/');
        let line = Line { from: number(from)?, to: number(to)?, offset: number(offset)?, name };
        is_code.then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read_and_others_are_not() {
        let line = "55d0-55ff r-xp 00001000 fe:01 1234    /opt/a b/wirespeed (deleted)";
        let read = Line::parse(line).expect("code");
        assert_eq!((read.from, read.to, read.offset), (0x55d0, 0x55ff, 0x1000));
        assert_eq!(read.name, "/opt/a b/wirespeed (deleted)");
        for other in [
            "55d0-55ff rw-p 00001000 fe:01 1234    /opt/wirespeed",
            "7ffd-7fff r-xp 00000000 00:00 0       [vdso]",
            "7ffd-7fff r-xp 00000000 00:00 0",
            "x-y r-xp 0 0 0 /a",
            "",
        ] {
            assert!(Line::parse(other).is_none(), "{other}");
        }
    }
}
