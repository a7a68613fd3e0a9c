//! The names of the files of `-w`.
//!
//! Called by: `write.rs`, for each file, and `args`, which checks the name beforehand. With `-G`
//! conversions of strftime(3) in the name are replaced by the time, as in tcpdump; a name that was
//! used before in this run gets a number behind it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::Usage;

/// Names that are remembered. With more files, names either contain the date or repeat sooner.
const NAMES_MAX: usize = 1 << 17;

/// When a file is full, and how many files there may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rotation {
    /// Millions of bytes.
    pub(crate) megabytes: Option<u64>,
    /// Seconds, by the packets' times.
    pub(crate) seconds: Option<u64>,
    /// Maximum number of files.
    pub(crate) files: Option<u64>,
}

/// The names so far.
pub(in crate::dump) struct Names {
    path: PathBuf,
    /// The time zone for conversions, if the name has any that are replaced.
    zone: Option<TimeZone>,
    /// By name, the number that it gets when it is used again.
    used: HashMap<PathBuf, u64>,
    current: PathBuf,
    limit: Limit,
    /// Number of files begun.
    begun: u64,
}

/// The meaning of `-W`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    None,
    /// With `-C`: after this many files the first is overwritten. All numbers have as many digits
    /// as the last one's.
    Ring {
        files: u64,
        digits: usize,
    },
    /// With `-G`: no more files after this many.
    Last(u64),
}

impl Limit {
    fn of(rotation: Rotation) -> Limit {
        match (rotation.files, rotation.seconds) {
            (None, _) => Limit::None,
            (Some(files), Some(_)) => Limit::Last(files),
            (Some(files), None) => {
                let digits = (files.max(2) - 1).to_string().len();
                Limit::Ring { files, digits }
            }
        }
    }
}

impl Names {
    /// # Errors
    /// [`Usage`]: standard output cannot be several files; or, with `-G`, the name is no valid
    /// format.
    pub(in crate::dump) fn new(path: &Path, rotation: Rotation) -> Result<Names> {
        let is_one = rotation.megabytes.is_none() && rotation.seconds.is_none();
        if path.as_os_str() == "-" && !is_one {
            bail!(Usage(
                "-w - is standard output, which is one file: name one, or leave out -C and -G"
                    .to_owned()
            ));
        }
        let has_conversions = path.as_os_str().as_encoded_bytes().contains(&b'%');
        let zone = (rotation.seconds.is_some() && has_conversions).then(TimeZone::system);
        let current = path.to_owned();
        let (path_, limit) = (path.to_owned(), Limit::of(rotation));
        let names = Names { path: path_, zone, used: HashMap::new(), current, limit, begun: 0 };
        // Report it now, not when the first file is full.
        if let Err(why) = names.at(0) {
            bail!(Usage(format!(
                "-w {}: with -G this has the time in it as strftime(3) writes it, where %% is a \
                 percent sign: {why:#}",
                path.display()
            )));
        }
        Ok(names)
    }

    /// The name of the current file.
    pub(super) fn current(&self) -> &Path {
        &self.current
    }

    /// Is the current file the last one?
    pub(super) fn is_last(&self) -> bool {
        matches!(self.limit, Limit::Last(files) if self.begun >= files)
    }

    /// The name of a file that begins at `time_ns`.
    pub(super) fn next(&mut self, time_ns: u64) -> Result<&Path> {
        let first = self.at(time_ns)?;
        self.begun += 1;
        if let Limit::Ring { files, digits } = self.limit {
            let number = (self.begun - 1) % files;
            let mut name = first.into_os_string();
            name.push(format!("{number:0digits$}"));
            self.current = name.into();
            return Ok(&self.current);
        }
        let mut number = self.used.get(&first).copied().unwrap_or(0);
        self.current = numbered(&first, number);
        if self.zone.is_some() {
            // The name with a number may be the name of another time.
            while self.used.contains_key(&self.current) {
                number += 1;
                self.current = numbered(&first, number);
            }
            if self.used.len() >= NAMES_MAX {
                self.used.clear();
            }
            self.used.insert(self.current.clone(), 1);
        }
        self.used.insert(first, number + 1);
        Ok(&self.current)
    }

    /// The name for this time.
    fn at(&self, time_ns: u64) -> Result<PathBuf> {
        let Some(zone) = &self.zone else { return Ok(self.path.clone()) };
        let time = Timestamp::from_nanosecond(i128::from(time_ns))?.to_zoned(zone.clone());
        Ok(strtime::format(self.path.as_os_str().as_encoded_bytes(), &time)?.into())
    }
}

/// The number 0 is not appended.
fn numbered(name: &Path, number: u64) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    if number > 0 {
        name.push(number.to_string());
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn names(path: &str, seconds: Option<u64>) -> Names {
        let megabytes = Some(1);
        Names::new(Path::new(path), Rotation { megabytes, seconds, files: None }).expect("a name")
    }

    fn next(names: &mut Names, time_ns: u64) -> String {
        names.next(time_ns).expect("a time").display().to_string()
    }

    #[test]
    fn a_name_has_a_time_with_a_period_alone() {
        let mut by_size = names("cap-%s", None);
        assert_eq!(next(&mut by_size, HOUR_NS), "cap-%s");
        assert_eq!(next(&mut by_size, HOUR_NS), "cap-%s1");
        let mut by_time = names("cap-%s.pcapng", Some(60));
        assert_eq!(next(&mut by_time, HOUR_NS), "cap-3600.pcapng");
        assert_eq!(next(&mut by_time, 2 * HOUR_NS), "cap-7200.pcapng");
        assert_eq!(names("100%%", Some(60)).next(0).expect("a time"), Path::new("100%"));
    }

    #[test]
    fn a_number_comes_behind_a_name_that_was_there() {
        let mut names = names("cap", Some(60));
        let shown: Vec<_> = (0..3).map(|_| next(&mut names, 0)).collect();
        assert_eq!(shown, ["cap", "cap1", "cap2"]);
        let mut by_second = self::names("cap%s", Some(60));
        let times = [1, 1, 11, 1];
        let shown: Vec<_> =
            times.iter().map(|second| next(&mut by_second, second * 1_000_000_000)).collect();
        assert_eq!(shown, ["cap1", "cap11", "cap111", "cap12"]);
    }

    #[test]
    fn files_by_size_are_a_ring_and_files_by_time_come_to_an_end() {
        let of = |megabytes, seconds, files| {
            let rotation = Rotation { megabytes, seconds, files: Some(files) };
            Names::new(Path::new("cap"), rotation).expect("a name")
        };
        let mut ring = of(Some(1), None, 11);
        let shown: Vec<_> = (0..12).map(|_| next(&mut ring, 0)).collect();
        assert_eq!((shown[0].as_str(), shown[10].as_str()), ("cap00", "cap10"));
        assert_eq!(shown[11], "cap00");
        assert!(!ring.is_last());
        let mut by_time = of(None, Some(60), 2);
        assert_eq!(next(&mut by_time, 0), "cap");
        assert!(!by_time.is_last());
        assert_eq!(next(&mut by_time, 0), "cap1");
        assert!(by_time.is_last());
    }

    #[test]
    fn what_is_no_name_is_said_at_once() {
        let refused = |path: &str, megabytes, seconds| {
            let refused = Names::new(Path::new(path), Rotation { megabytes, seconds, files: None });
            refused.err().map(|error| (error.is::<Usage>(), error.to_string()))
        };
        for (megabytes, seconds) in [(Some(1), None), (None, Some(60))] {
            let said = refused("-", megabytes, seconds);
            assert!(said.is_some_and(|(usage, said)| usage && said.contains("-C and -G")));
        }
        assert_eq!(refused("-", None, None), None);
        for bad in ["cap-%", "cap-%!"] {
            let said = refused(bad, None, Some(60));
            assert!(said.is_some_and(|(usage, said)| usage && said.contains("strftime")), "{bad}");
            assert_eq!(refused(bad, Some(1), None), None, "{bad}");
        }
    }
}
