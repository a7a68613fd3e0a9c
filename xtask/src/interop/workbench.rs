//! Shared by all interop cases: a folder that is removed at the end, our binary, and a function
//! that runs a program with a time limit.

use super::{Asked, Soak};
use crate::{cargo, process};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The surroundings of one case.
pub(crate) struct Workbench {
    root: PathBuf,
    folder: PathBuf,
    soak: Soak,
    /// The `wirespeed` to test, if it is not the one that tests run.
    program: Option<PathBuf>,
    /// Test programs that have run already.
    ran: Vec<String>,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Workbench {
    /// A fresh folder below the system's temporary one.
    pub(super) fn new(root: &Path, asked: Asked<'_>) -> Result<Workbench> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wirespeed-interop-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Workbench {
            root: root.to_owned(),
            folder,
            soak: asked.soak,
            program: asked.program.map(Path::to_owned),
            ran: asked.ran.to_vec(),
        })
    }

    /// The workspace.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The length of a case whose length can be chosen.
    pub(super) fn soak(&self) -> Soak {
        self.soak
    }

    /// A path in the case's own folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The `wirespeed` program: the one asked for, or one that is built once for all cases.
    pub(crate) fn wirespeed(&self) -> Result<PathBuf> {
        self.program.clone().map_or_else(|| self.built("wirespeed"), Ok)
    }

    /// A program of the workspace, or an example as `examples/NAME`. They are those that the tests
    /// run, with their assertions, so that nothing is compiled twice.
    pub(crate) fn built(&self, name: &str) -> Result<PathBuf> {
        static FOLDER: OnceLock<PathBuf> = OnceLock::new();
        if let Some(folder) = FOLDER.get() {
            return Ok(folder.join(name));
        }
        process::pass_on(cargo::cargo(&self.root).args(["test", "--workspace", "--no-run", "-q"]))?;
        let folder = cargo::Metadata::read(&self.root)?.target_directory.join("debug");
        Ok(FOLDER.get_or_init(|| folder).join(name))
    }

    /// Run a test program of a crate: a skip in it is a failure here, because its needs are met. It
    /// is built with the options of the workspace's tests, so that nothing is compiled again after
    /// them. If it has run among them, it does not run again.
    pub(crate) fn test_program(&self, name: &str) -> Result<()> {
        if self.ran.iter().any(|ran| ran.rsplit(' ').next() == Some(name)) {
            return Ok(());
        }
        let mut cases = Command::new("cargo");
        cases.args(["test", "--workspace", "--test", name]);
        let printed = self.run(cases.current_dir(&self.root), Duration::from_secs(900))?;
        ensure!(printed.contains(" 0 failed; 0 ignored"), "{printed}");
        Ok(())
    }

    /// A file of `bytes` bytes that do not repeat, the same in every run.
    pub(crate) fn file(&self, name: &str, bytes: usize) -> Result<PathBuf> {
        let path = self.path(name);
        let mut out = BufWriter::new(File::create(&path)?);
        let (mut state, mut left) = (0x9e37_79b9_7f4a_7c15_u64, bytes);
        while left > 0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let word = state.to_le_bytes();
            let n = left.min(word.len());
            out.write_all(&word[..n])?;
            left -= n;
        }
        out.flush()?;
        Ok(path)
    }

    /// Run a program to its end and return what it printed on standard output. Past `limit` it is
    /// killed; both that and a failure are errors that show its standard error.
    pub(crate) fn run(&self, command: &mut Command, limit: Duration) -> Result<String> {
        self.run_both(command, limit).map(|(printed, _)| printed)
    }

    /// The same, with the text on standard error: a program that succeeds may still complain there.
    pub(super) fn run_both(
        &self,
        command: &mut Command,
        limit: Duration,
    ) -> Result<(String, String)> {
        let shown = process::shown(command);
        let (out, err) = (self.path("stdout"), self.path("stderr"));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()
            .with_context(|| format!("cannot run {shown}"))?;
        let outcome = wait(&mut child, limit);
        let complaint = std::fs::read_to_string(&err).unwrap_or_default();
        match outcome? {
            Some(status) if status.success() => Ok((std::fs::read_to_string(&out)?, complaint)),
            Some(status) => bail!("`{shown}` ended with {status}: {}", complaint.trim()),
            None => bail!("`{shown}` was killed after {} s: {}", limit.as_secs(), complaint.trim()),
        }
    }
}

/// The exit status; None if the child had to be killed.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline || process::interrupted() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for Workbench {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("warning: {} is left behind: {e}", self.folder.display());
        }
    }
}
