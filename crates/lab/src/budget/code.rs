//! Which stage an address belongs to: the files that a process has mapped, and their line tables.
//!
//! Called by: `work.rs`, `counted.rs` and `live.rs`. A binary of ours has line tables unless it was
//! stripped; the C library has none, and is known by its symbols.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use addr2line::Loader;
use addr2line::gimli::Reader as _;
use object::read::ReadCache;
use object::{Object, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

use super::sampler::Sample;
use super::stage::{Owner, Stage, of_symbol, owner};
use crate::Error;

/// The code of a process.
pub(crate) struct Code {
    mapped: Vec<Mapped>,
    files: Vec<Binary>,
    /// Addresses that were looked up.
    known: HashMap<u64, Origin>,
}

/// Whose code an address is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Origin {
    stage: Option<Stage>,
    /// It is in the C library, or another file without line tables.
    is_foreign: bool,
}

/// A file that is mapped to be run.
struct Mapped {
    from: u64,
    to: u64,
    offset: u64,
    file: usize,
}

/// A binary file.
pub(super) struct Binary {
    /// As /proc has it.
    name: String,
    /// Offset in the file, length and address of what is loaded.
    segments: Vec<(u64, u64, u64)>,
    /// Address, size and name of its functions, in their order; only without line tables.
    functions: Vec<(u64, u64, String)>,
    lines: Option<Loader>,
}

impl Binary {
    /// Read a file; `name` is what it is known by.
    fn open(path: &Path, name: &str) -> Result<Binary, Error> {
        let wrong = |what: &dyn std::fmt::Display| {
            Error::Failed(format!("cannot read the symbols of {}: {what}", path.display()))
        };
        let file = File::open(path).map_err(|error| wrong(&error))?;
        let cache = ReadCache::new(file);
        let object = object::File::parse(&cache).map_err(|error| wrong(&error))?;
        let segments = object.segments().map(|segment| {
            let (offset, len) = segment.file_range();
            (offset, len, segment.address())
        });
        let segments = segments.collect();
        let has_lines = object.section_by_name(".debug_line").is_some_and(|s| s.size() > 0);
        let lines = match has_lines {
            true => Some(Loader::new(path).map_err(|error| wrong(&error))?),
            false => None,
        };
        let mut functions: Vec<(u64, u64, String)> = Vec::new();
        if lines.is_none() {
            let all = object.symbols().chain(object.dynamic_symbols());
            let named = all.filter(|s| s.kind() == SymbolKind::Text && s.size() > 0);
            functions.extend(named.filter_map(|symbol| {
                Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned()))
            }));
            functions.sort();
        }
        Ok(Binary { name: name.to_owned(), segments, functions, lines })
    }

    /// The address that the linker gave to what stands at an offset of the file.
    fn linked(&self, offset: u64) -> Option<u64> {
        let mut segments = self.segments.iter();
        let (at, _, address) = segments.find(|(at, len, _)| (*at..at + len).contains(&offset))?;
        Some(offset - at + address)
    }

    /// Whose code stands at an address that the linker gave.
    fn place(&self, address: u64) -> Origin {
        let Some(lines) = &self.lines else {
            let before = self.functions.partition_point(|(from, _, _)| *from <= address);
            let near = before.checked_sub(1).and_then(|at| self.functions.get(at));
            let inside = near.filter(|(from, size, _)| address - from < *size);
            let stage = inside.and_then(|(_, _, name)| of_symbol(name));
            return Origin { stage, is_foreign: true };
        };
        let Ok(mut frames) = lines.find_frames(address) else { return Origin::default() };
        let (mut stage, mut outer) = (None, false);
        while let Ok(Some(frame)) = frames.next() {
            let path = frame.location.as_ref().and_then(|at| at.file).unwrap_or("");
            let name = frame.function.as_ref().and_then(|f| f.name.to_string_lossy().ok());
            let name = name.unwrap_or_default();
            match (stage, owner(path, &name)) {
                (None, Owner::Stage(owner)) => stage = Some(owner),
                // A binary may have the C library's functions in it.
                (None, Owner::Caller) if !outer => stage = of_symbol(&name),
                // A step of a pass that copies and sums: the pass is the copy's.
                (Some(Stage::Checksum), Owner::Stage(Stage::Copy)) => stage = Some(Stage::Copy),
                _ => {}
            }
            outer = true;
        }
        Origin { stage, is_foreign: false }
    }
}

impl Code {
    /// The code of a process, as it is mapped now; of this one, if it is `None`.
    ///
    /// # Errors
    /// If it may not be read, or has no line tables; the text says what helps.
    pub(crate) fn of(process: Option<u32>) -> Result<Code, Error> {
        let at = process.map_or_else(|| "self".to_owned(), |id| id.to_string());
        let root = PathBuf::from("/proc").join(&at);
        let maps = fs::read_to_string(root.join("maps")).map_err(|error| {
            let who = "as the program's own user, or as root";
            Error::Failed(format!("cannot read what process {at} has mapped: {error}; try {who}"))
        })?;
        let exe = root.join("exe");
        let own = fs::read_link(&exe).unwrap_or_default();
        let own = own.to_string_lossy().into_owned();
        let mut code = Code { mapped: Vec::new(), files: Vec::new(), known: HashMap::new() };
        let mut failed = None;
        for line in maps.lines().filter_map(Line::parse).take(MAPPED_MAX) {
            let known = code.files.iter().position(|file| file.name == line.name);
            let file = known.or_else(|| {
                let path = if line.name == own { &exe } else { Path::new(line.name) };
                match Binary::open(path, line.name) {
                    Ok(file) => code.files.push(file),
                    // A library that was replaced meanwhile is not the program.
                    Err(error) if line.name == own => failed = Some(error),
                    Err(_) => return None,
                }
                code.files.len().checked_sub(1).filter(|_| failed.is_none())
            });
            let Some(file) = file else { continue };
            code.mapped.push(Mapped { from: line.from, to: line.to, offset: line.offset, file });
        }
        match failed {
            Some(error) => Err(error),
            None if code.files.iter().any(|file| file.name == own && file.lines.is_some()) => {
                Ok(code)
            }
            None => Err(Error::Failed(format!(
                "{own} has no line tables, so that its code is not known to be any stage's: run a \
                 binary that is not stripped, built with `debug = \"line-tables-only\"` in its \
                 profile, as `cargo build --release` does it here"
            ))),
        }
    }

    /// The stage of a sample.
    pub(crate) fn stage(&mut self, sample: &Sample) -> Stage {
        let place = self.at(sample.address);
        if let Some(stage) = place.stage {
            return stage;
        }
        // A function that keeps nothing on the stack was called from the top of it: one of the C
        // library moves bytes, another is a helper of its caller.
        if !sample.in_kernel {
            let caller = self.at(sample.top.wrapping_sub(1));
            if let Some(stage) = caller.stage.filter(|_| !caller.is_foreign) {
                return if place.is_foreign { Stage::Copy } else { stage };
            }
        }
        Stage::Other
    }

    fn at(&mut self, address: u64) -> Origin {
        if let Some(place) = self.known.get(&address) {
            return *place;
        }
        let found = self.mapped.iter().find(|m| (m.from..m.to).contains(&address));
        let place = found.and_then(|m| {
            let file = self.files.get(m.file)?;
            Some(file.place(file.linked(address - m.from + m.offset)?))
        });
        // What is mapped from no file: the clock of the kernel, code made at run time.
        let place = place.unwrap_or_default();
        if self.known.len() < KNOWN_MAX {
            self.known.insert(address, place);
        }
        place
    }

    /// The stage of an address of the program's own file, as the linker gave it.
    pub(super) fn stage_of_linked(&self, file: &str, address: u64) -> Stage {
        let file = self.files.iter().find(|known| known.name == file);
        file.and_then(|file| file.place(address).stage).unwrap_or(Stage::Other)
    }
}

/// The most mappings that are looked at.
const MAPPED_MAX: usize = 4_096;
/// The most addresses that are remembered.
const KNOWN_MAX: usize = 1 << 20;

/// A line of /proc/PID/maps that maps a file to be run.
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
