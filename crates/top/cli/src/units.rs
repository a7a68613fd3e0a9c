//! The unit in which long writes go to the stack, as measured on this machine by `lab knee
//! --apply`, for the stacks of the tools.
//!
//! Called by: `network`, `ttcp`. A file that cannot be used is reported on standard error, and the
//! default is used.

use std::path::PathBuf;

use ::lab::knee::units;
use wirespeed::StackConfig;

use crate::output;

/// A unit, and its source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WriteUnit {
    pub(crate) bytes: usize,
    /// The file that has it; `None` for the default.
    pub(crate) file: Option<PathBuf>,
}

impl WriteUnit {
    pub(crate) const DEFAULT: WriteUnit =
        WriteUnit { bytes: StackConfig::WRITE_UNIT_BYTES, file: None };

    /// The unit of this machine.
    pub(crate) fn of_this_machine() -> WriteUnit {
        let Some(path) = units::path() else { return WriteUnit::DEFAULT };
        match units::load(&path) {
            Ok(Some(found)) => WriteUnit { bytes: found.write.unit_bytes, file: Some(path) },
            Ok(None) => WriteUnit::DEFAULT,
            Err(why) => {
                output::err(&why);
                WriteUnit::DEFAULT
            }
        }
    }

    /// Its source, for people and for documents.
    pub(crate) fn from(&self) -> String {
        self.file.as_ref().map_or_else(|| "default".to_owned(), |path| path.display().to_string())
    }
}
