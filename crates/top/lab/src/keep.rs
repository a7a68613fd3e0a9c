//! Files that are written at the end of a run. Whether a file can be written is checked before
//! anything is measured, so that a wrong name is reported at once and not after minutes. The old
//! content stays until there is a result (`replaced`).
//!
//! Called by: the lab.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::{Error, replaced};

/// A file to be written.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
}

impl Kept {
    /// Check that the file can be written, without changing anything.
    pub(crate) fn open(path: &Path) -> Result<Kept, Error> {
        match replaced::check(path) {
            Ok(()) => Ok(Kept { path: path.to_owned() }),
            Err(error) => Err(Error::Failed(cannot(path, &error))),
        }
    }

    /// The same check for a plot, whose name must end in `.svg`.
    pub(crate) fn plot(path: &Path) -> Result<Kept, Error> {
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        let is_device = path.starts_with("/dev");
        match kind.to_ascii_lowercase().as_str() {
            "svg" => Kept::open(path),
            _ if is_device => Kept::open(path),
            "png" | "pdf" => Err(Error::Usage(format!(
                "plots are written as SVG: ask for --plot {0}, then `rsvg-convert -f {kind} -o \
                 {1} {0}` (Debian: librsvg2-bin)",
                path.with_extension("svg").display(),
                path.display(),
            ))),
            _ => Err(Error::Usage(format!(
                "plots are written as SVG: '{}' has to end in .svg",
                path.display()
            ))),
        }
    }

    /// Replace the content; returns a message with the path.
    pub(crate) fn write(&mut self, text: &str) -> Result<String, Error> {
        let all = replaced::write(&self.path, text.as_bytes());
        all.map_err(|error| Error::Failed(cannot(&self.path, &error)))?;
        Ok(format!("wrote {}", self.path.display()))
    }
}

/// The failure, and what to do about it.
fn cannot(path: &Path, error: &io::Error) -> String {
    let helps = match error.kind() {
        ErrorKind::NotFound => "make the folder first: `mkdir -p`",
        ErrorKind::PermissionDenied => "choose a folder that you may write to",
        ErrorKind::IsADirectory => "this is a folder: name a file in it",
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only: choose another",
        ErrorKind::StorageFull => "make room on the disk: `df -h`",
        ErrorKind::QuotaExceeded => "make room under your quota: `quota`",
        _ => "choose another file",
    };
    format!("cannot write {}: {error} ({helps})", path.display())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_there_stays_until_there_is_something_new() {
        let path = std::env::temp_dir().join(format!("wirespeed-lab-{}.svg", std::process::id()));
        fs::write(&path, "an older and longer plot").expect("a file");
        drop(Kept::plot(&path).expect("it can be written"));
        assert_eq!(fs::read_to_string(&path).expect("kept"), "an older and longer plot");
        let mut kept = Kept::plot(&path).expect("it can be written");
        kept.write("new").expect("there is room");
        assert_eq!(fs::read_to_string(&path).expect("written"), "new");
        fs::remove_file(&path).expect("it was there");
        drop(Kept::plot(&path).expect("it can be made"));
        assert!(!path.exists(), "an empty file is left");
    }

    #[test]
    fn a_plot_of_another_kind_is_refused_with_what_to_do() {
        let says = |name: &str| Kept::plot(Path::new(name)).expect_err("no SVG").to_string();
        assert!(says("a.png").contains("rsvg-convert -f png -o a.png a.svg"));
        assert!(says("plot").contains("has to end in .svg"));
        assert!(says("/does/not/exist/a.svg").contains("mkdir -p"));
    }
}
