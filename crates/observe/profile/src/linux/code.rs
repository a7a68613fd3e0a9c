//! Finds the stage that an address belongs to, from the files that a process has mapped and their
//! line tables.
//!
//! Called by: `look.rs`, and the lab for its own process. A binary of ours has line tables unless
//! it was stripped. The C library has none, so its functions are recognized by their symbols.

use std::collections::HashMap;
use std::os::fd::AsRawFd as _;

use addr2line::Loader;
use addr2line::gimli::Reader as _;
use object::read::ReadCache;
use object::{Object, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

use super::mapped::{Mapped, Named, unreadable};
use super::owner::{Owner, of_symbol, owner};
use super::sampler::Location;
use crate::{Error, Stage};

/// The code of a process.
pub struct Code {
    mapped: Mapped,
    /// The files of `mapped`, as far as they could be read.
    files: Vec<Option<Binary>>,
    /// The addresses that were looked up before.
    known: HashMap<u64, Origin>,
}

/// The stage and the kind of the code at an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Origin {
    stage: Option<Stage>,
    /// The code is in the C library, or in another file without line tables.
    is_foreign: bool,
}

/// A binary file.
struct Binary {
    /// The loaded segments: offset in the file, length and address.
    segments: Vec<(u64, u64, u64)>,
    /// The functions, in the order of addresses: address, size and name. Only used without line
    /// tables.
    functions: Vec<(u64, u64, String)>,
    lines: Option<Loader>,
}

impl Binary {
    /// Read a file.
    fn read(named: &Named) -> Result<Binary, Error> {
        let wrong = |what: &dyn std::fmt::Display| unreadable(&named.name, what);
        let cache = ReadCache::new(&named.file);
        let object = object::File::parse(&cache).map_err(|error| wrong(&error))?;
        let segments = object.segments().map(|segment| {
            let (offset, len) = segment.file_range();
            (offset, len, segment.address())
        });
        let segments = segments.collect();
        let has_lines = object.section_by_name(".debug_line").is_some_and(|s| s.size() > 0);
        let lines = match has_lines {
            // This path leads to the opened file, even if another file has its name now.
            true => {
                let path = format!("/proc/self/fd/{}", named.file.as_raw_fd());
                Some(Loader::new(path).map_err(|error| wrong(&error))?)
            }
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
        Ok(Binary { segments, functions, lines })
    }

    /// The address that the linker gave to the code at an offset of the file.
    fn linked(&self, offset: u64) -> Option<u64> {
        let mut segments = self.segments.iter();
        let (at, _, address) = segments.find(|(at, len, _)| (*at..at + len).contains(&offset))?;
        Some(offset - at + address)
    }

    /// The origin of the code at an address that the linker gave.
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
                // A binary may contain functions of the C library.
                (None, Owner::Caller) if !outer => stage = of_symbol(&name),
                // A checksum step of a pass that copies and sums: the whole pass belongs to the
                // copy.
                (Some(Stage::Checksum), Owner::Stage(Stage::Copy)) => stage = Some(Stage::Copy),
                _ => {}
            }
            outer = true;
        }
        Origin { stage, is_foreign: false }
    }
}

impl Code {
    /// The code of a process as it is mapped now; `None` stands for this process.
    ///
    /// # Errors
    /// The code may not be read, or has no line tables; the text gives advice.
    pub fn of(process: Option<u32>) -> Result<Code, Error> {
        Code::read(Mapped::of(process)?)
    }

    /// Read the symbols of the files that a process has mapped.
    pub(super) fn read(mapped: Mapped) -> Result<Code, Error> {
        let mut files = Vec::with_capacity(mapped.files.len());
        for named in &mapped.files {
            match Binary::read(named) {
                Ok(binary) => files.push(Some(binary)),
                Err(error) if named.is_program => return Err(error),
                Err(_) => files.push(None),
            }
        }
        Ok(Code { mapped, files, known: HashMap::new() })
    }

    /// The stage of the code at a location.
    pub fn stage(&mut self, place: &Location) -> Stage {
        let origin = self.at(place.address);
        if let Some(stage) = origin.stage {
            return stage;
        }
        // If a function keeps nothing on the stack, its return address is on top of the stack.
        // Among functions of the C library, those that move bytes are like that; any other such
        // function is a helper of its caller.
        if !place.in_kernel {
            let caller = self.at(place.top.wrapping_sub(1));
            if let Some(stage) = caller.stage.filter(|_| !caller.is_foreign) {
                return if origin.is_foreign { Stage::Copy } else { stage };
            }
        }
        Stage::Other
    }

    fn at(&mut self, address: u64) -> Origin {
        if let Some(place) = self.known.get(&address) {
            return *place;
        }
        // This address is not mapped from a file: it is the kernel's clock, code generated at run
        // time, or any value on a stack. Such addresses are not remembered, because there may be
        // any number of them.
        let Some(range) = self.mapped.range(address) else { return Origin::default() };
        let file = self.files.get(range.file).and_then(Option::as_ref);
        let linked = |file: &Binary| file.linked(address - range.from + range.offset);
        let place = file.and_then(|file| Some(file.place(linked(file)?))).unwrap_or_default();
        if self.known.len() < KNOWN_MAX {
            self.known.insert(address, place);
        }
        place
    }

    /// The stage of an address in a file, as assigned by the linker.
    pub fn stage_of_linked(&self, file: &str, address: u64) -> Stage {
        let at = self.mapped.files.iter().position(|named| named.name == file);
        let file = at.and_then(|at| self.files.get(at)?.as_ref());
        file.and_then(|file| file.place(address).stage).unwrap_or(Stage::Other)
    }
}

/// The most addresses that are remembered.
const KNOWN_MAX: usize = 1 << 20;
