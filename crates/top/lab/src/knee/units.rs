//! The file with the write unit of a machine: `$XDG_CONFIG_HOME/wirespeed/units.toml`, else
//! `~/.config/wirespeed/units.toml`. `lab knee --apply` writes it; the tools read it and give the
//! unit to their stacks (`StackConfig::write_unit_bytes`).
//!
//! Called by: `knee.rs`, the tools. The file may have been written by hand, or by somebody else: if
//! it cannot be used, an error says so, and the default unit stays.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stack::StackConfig;

use crate::{Machine, replaced};

/// The most bytes that are read: we write no longer file.
const FILE_MAX_BYTES: u64 = 16 << 10;

/// The contents of the file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// The unit of writing.
    pub write: Write,
    /// The machine on which the unit was measured.
    pub machine: Measured,
}

/// The unit of writing.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The unit in bytes: the smallest measured size past the knee.
    pub unit_bytes: usize,
    /// The knee, in bytes.
    pub knee_bytes: f64,
    /// The interval that contains the knee with 95 %.
    pub knee_interval_bytes: [f64; 2],
}

/// The machine on which the unit was measured, and the version that measured it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The processor's name: a home directory may be on several machines.
    pub cpu_model: String,
    /// The version of wirespeed.
    pub version: String,
}

/// The path of the file. `None` without a home directory.
pub fn path() -> Option<PathBuf> {
    path_below(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"))
}

/// The base directory specification ignores paths that are not absolute.
fn path_below(
    config: Option<std::ffi::OsString>,
    home: Option<std::ffi::OsString>,
) -> Option<PathBuf> {
    let absolute = |path: std::ffi::OsString| Some(PathBuf::from(path)).filter(|p| p.is_absolute());
    let below = config
        .and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".config")))?;
    Some(below.join("wirespeed").join("units.toml"))
}

/// The unit of writing that a file has for this machine; `None` if there is no file.
///
/// # Errors
/// The file cannot be used; the sentence says why and what to do.
pub fn load(path: &Path) -> Result<Option<Units>, String> {
    let said = |why: &str| {
        format!(
            "{}: {why}. Writes have the default unit, {} bytes. Delete the file, or measure this \
             machine: wirespeed lab knee --apply",
            path.display(),
            StackConfig::WRITE_UNIT_BYTES
        )
    };
    let text = match read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // If `.config` is itself a file, our file does not exist.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(said(&error.to_string())),
    };
    parse(&text, &Machine::now().cpu_model).map(Some).map_err(|why| said(&why))
}

/// The text of a regular file of moderate length.
fn read(path: &Path) -> io::Result<String> {
    let mut options = File::options();
    options.read(true);
    // Without O_NONBLOCK opening a FIFO would wait for a writer.
    #[cfg(target_os = "linux")]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits() as i32,
    );
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("this is no regular file"));
    }
    let mut text = String::new();
    file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {FILE_MAX_BYTES} bytes")));
    }
    Ok(text)
}

/// Parse the file's text, for a machine with this processor.
fn parse(text: &str, cpu_model: &str) -> Result<Units, String> {
    let units: Units = toml::from_str(text).map_err(|error| shown(error.message()))?;
    let possible = StackConfig::WRITE_UNIT_MIN_BYTES..=StackConfig::WRITE_UNIT_MAX_BYTES;
    let unit = units.write.unit_bytes;
    if !possible.contains(&unit) {
        let (least, most) = possible.into_inner();
        return Err(format!("write.unit_bytes is {unit}, but a unit has {least} to {most} bytes"));
    }
    if units.machine.cpu_model != cpu_model {
        return Err(format!(
            "it was measured on another machine ({}), and this one is {cpu_model}",
            shown(&units.machine.cpu_model)
        ));
    }
    Ok(units)
}

/// Text of the file made safe for a terminal: control characters are replaced.
fn shown(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Check that the file can be written, before anything is measured. Nothing is created.
///
/// # Errors
/// Those of [`Units::store`].
pub fn can_store(path: &Path) -> Result<(), String> {
    let refused = |kind: io::ErrorKind| Err(cannot_write(path, &kind.into()));
    if path.is_dir() {
        return refused(io::ErrorKind::IsADirectory);
    }
    let Some(folder) = path.ancestors().skip(1).find(|folder| folder.exists()) else {
        return refused(io::ErrorKind::NotFound);
    };
    if !folder.is_dir() {
        return refused(io::ErrorKind::NotADirectory);
    }
    // On other systems this is only known when the file is written.
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Access, access};
        let may = access(folder, Access::WRITE_OK | Access::EXEC_OK);
        may.map_err(|error| cannot_write(path, &error.into()))?;
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!(
        "cannot write {}: {error}. Set XDG_CONFIG_HOME to a directory that you may write to",
        path.display()
    )
}

impl Units {
    /// Write the file as a whole: a reader finds either the old file or the new one.
    ///
    /// # Errors
    /// The file system's error; the sentence says what to do.
    pub fn store(&self, path: &Path) -> Result<(), String> {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| replaced::write(path, self.text().as_bytes()));
        written.map_err(|error| cannot_write(path, &error))
    }

    fn text(&self) -> String {
        let Units { write, machine } = self;
        let [low, high] = write.knee_interval_bytes;
        let quoted = |text: &str| toml::Value::from(text).to_string();
        format!(
            "# The write unit of this machine, by `wirespeed lab knee --apply`. Without this file\n\
             # it is {} bytes.\n\
             [write]\n\
             unit_bytes = {}\n\
             knee_bytes = {:.1}\n\
             knee_interval_bytes = [{low:.1}, {high:.1}]\n\n\
             [machine]\n\
             cpu_model = {}\n\
             version = {}\n",
            StackConfig::WRITE_UNIT_BYTES,
            write.unit_bytes,
            write.knee_bytes,
            quoted(&machine.cpu_model),
            quoted(&machine.version)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(unit_bytes: usize) -> Units {
        Units {
            write: Write {
                unit_bytes,
                knee_bytes: 9_000.5,
                knee_interval_bytes: [8_000.0, 11_000.0],
            },
            machine: Measured {
                cpu_model: Machine::now().cpu_model,
                version: "0.1 \"quoted\"".to_owned(),
            },
        }
    }

    fn scratch(name: &str) -> PathBuf {
        let at = std::env::temp_dir().join(format!("wirespeed-units-{}", std::process::id()));
        at.join(name).join("units.toml")
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let path = scratch("stored");
        assert_eq!(load(&path), Ok(None));
        assert_eq!((can_store(&path), load(&path)), (Ok(()), Ok(None)));
        units(8_192).store(&path).expect("a directory of ours");
        units(16_384).store(&path).expect("it is replaced");
        assert_eq!(load(&path), Ok(Some(units(16_384))));
        let there = fs::read_dir(path.parent().expect("below")).expect("a directory").count();
        assert_eq!(there, 1, "nothing else is left");
        fs::remove_dir_all(path.parent().expect("below")).expect("it was there");
    }

    #[test]
    fn a_bad_file_is_a_sentence_and_never_more() {
        let good = units(16_384).text();
        let cases = [
            (String::new(), "missing field"),
            ("unit_bytes = 5".to_owned(), "unknown field"),
            (good.replace("16384", "1023"), "1024 to 65536 bytes"),
            (good.replace("16384", "70000"), "1024 to 65536 bytes"),
            (good.replace("16384", "-1"), "invalid value"),
            (good.replace("16384", "99999999999999999999"), ""),
            (good.replace("cpu_model = \"", "cpu_model = \"\\u001b[31m"), "another machine"),
            (good.replace("[write]", "[[write]]"), ""),
            ("[".repeat(10_000), ""),
            ("a = \"".to_owned(), ""),
            (good.clone() + "more = 1", "unknown field"),
        ];
        for (text, says) in cases {
            let error = parse(&text, &Machine::now().cpu_model).expect_err(&text);
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains('\u{1b}') && error.len() < 1_000, "{error}");
        }
    }

    #[test]
    fn what_is_no_file_of_ours_is_refused_and_not_waited_for() {
        let path = scratch("refused");
        fs::create_dir_all(&path).expect("a directory in its place");
        let refused = can_store(&path).expect_err("a directory");
        assert!(refused.contains("Set XDG_CONFIG_HOME"), "{refused}");
        let error = load(&path).expect_err("a directory");
        assert!(error.contains("no regular file") && error.contains("lab knee --apply"), "{error}");
        fs::remove_dir(&path).expect("it was there");
        assert!(can_store(&scratch("refused/units.toml")).is_ok(), "nothing is there yet");
        fs::write(&path, vec![b'#'; 20_000]).expect("a file");
        assert!(can_store(&path).is_ok(), "it is replaced");
        let below = can_store(&path.join("units.toml")).expect_err("below a file");
        assert!(below.contains("cannot write"), "{below}");
        assert!(load(&path).expect_err("long").contains("more than 16384 bytes"));
        fs::write(&path, [0xff, 0xfe]).expect("a file");
        assert!(load(&path).is_err_and(|error| error.contains("UTF-8")));
        fs::remove_file(&path).expect("it was there");
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
            assert!(load(&path).expect_err("a FIFO").contains("no regular file"));
        }
        fs::remove_dir_all(path.parent().expect("below")).expect("it was there");
    }

    #[test]
    fn the_place_is_that_of_the_base_directory_specification() {
        let at = |config: Option<&str>, home: Option<&str>| {
            path_below(config.map(Into::into), home.map(Into::into))
        };
        let is = |path: &str| Some(PathBuf::from(path));
        assert_eq!(at(Some("/c"), Some("/h")), is("/c/wirespeed/units.toml"));
        assert_eq!(at(Some("c"), Some("/h")), is("/h/.config/wirespeed/units.toml"));
        assert_eq!(at(None, Some("/h")), is("/h/.config/wirespeed/units.toml"));
        assert_eq!(at(None, Some("h")), None);
        assert_eq!(at(None, None), None);
    }
}
