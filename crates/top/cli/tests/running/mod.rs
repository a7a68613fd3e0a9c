//! A transfer that runs during a test, and other commands that look at it.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::program;

/// A transfer in memory, and the directory of its socket; both end on drop.
pub(crate) struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
    /// With this number of threads, for a minute at most.
    pub(crate) fn start(threads: &str) -> Running {
        Running::with(&["--threads", threads])
    }

    /// With these options, for a minute at most unless they say otherwise.
    pub(crate) fn with(options: &[&str]) -> Running {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("wsrunning-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("room for a folder");
        let child = program()
            .arg("ttcp")
            .args(if options.contains(&"--seconds") { &[][..] } else { &["--seconds", "60"] })
            .args(options)
            .env("WIRESPEED_RUNTIME_DIR", &folder)
            .stdout(Stdio::null())
            .spawn();
        Running { child: child.expect("the program starts"), folder }
    }

    /// Kill it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// A command that finds this program.
    pub(crate) fn beside(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.args(args).env("WIRESPEED_RUNTIME_DIR", &self.folder);
        command
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Output {
        self.beside(args).output().expect("the program starts")
    }

    /// Run a script in which `$WIRESPEED` is a command that finds this program.
    pub(crate) fn shell(&self, script: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env("WIRESPEED_RUNTIME_DIR", &self.folder);
        shell.env("WIRESPEED", env!("CARGO_BIN_EXE_wirespeed")).output().expect("there is a shell")
    }

    /// Wait until its socket answers.
    pub(crate) fn ready(self) -> Running {
        for _ in 0..200 {
            if self.ask(&["show", "stack", "--json"]).status.success() {
                return self;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the transfer does not answer");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

static STARTED: AtomicUsize = AtomicUsize::new(0);
