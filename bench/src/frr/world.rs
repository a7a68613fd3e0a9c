//! What all rows of bench `frr` share: the program that is measured, a folder for configurations,
//! sockets and logs, and the versions of the peers. Called by `mod.rs`.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::figures::Runs;
use super::space::run;
use crate::build::Scratch;
use crate::command_line::Programs;

const ZEBRA: &str = "/usr/lib/frr/zebra";

/// The programs and the folder of a run.
pub struct World {
    pub(super) scratch: Scratch,
    pub(super) wirespeed: PathBuf,
    /// "frr 8.4.4, bird 2.0.12".
    pub(super) versions: String,
    /// The version of zebra alone.
    pub(super) zebra: String,
    /// The runs with a recorded stream, without and with traffic.
    pub(super) streamed: [OnceCell<Result<Runs, String>>; 2],
}

impl World {
    /// Finds the programs, and makes the folder.
    ///
    /// # Errors
    /// A program is missing; the error says which package has it.
    pub(super) fn new(programs: &Programs) -> Result<World> {
        let wirespeed = programs.wirespeed.clone().context("no program to measure is named")?;
        let frr = "FRR is missing (Debian: apt install frr)";
        let zebra = run(Command::new(ZEBRA).arg("--version")).context(frr)?;
        let zebra = zebra.split_whitespace().nth(2).unwrap_or("of unknown version").to_owned();
        let mut bird = Command::new("bird");
        let bird = bird.arg("--version").output();
        let bird = bird.context("BIRD is missing (Debian: apt install bird2)")?;
        let bird = [bird.stdout, bird.stderr].concat();
        let bird = String::from_utf8_lossy(&bird).trim().replace("BIRD version", "bird");
        let scratch = Scratch::new()?;
        // The daemons run as user frr.
        fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o755))?;
        fs::create_dir(scratch.0.join("run"))?;
        let (versions, streamed) = (format!("frr {zebra}, {bird}"), Default::default());
        Ok(World { scratch, wirespeed, versions, zebra, streamed })
    }

    /// A path in the folder.
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.scratch.0.join(name)
    }
}
