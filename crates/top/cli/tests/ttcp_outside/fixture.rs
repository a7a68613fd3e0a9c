//! A network namespace with a TUN, a directory for files, and programs in it; all are removed on
//! drop.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use sha2::{Digest, Sha256};
use testbed::{Namespace, Running};

/// The namespace and the directory.
pub(crate) struct Fixture {
    namespace: Namespace,
    pub(crate) folder: PathBuf,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let namespace = Namespace::new().expect("root may");
        let folder = std::env::temp_dir().join(namespace.name());
        std::fs::create_dir_all(folder.join("run")).expect("temporary files can be written");
        let fixture = Fixture { namespace, folder };
        assert!(fixture.ip("tuntap add dev ws0 mode tun vnet_hdr"));
        assert!(fixture.ip("addr add 10.9.0.1/24 dev ws0"));
        assert!(fixture.ip("addr add fd09::1/64 dev ws0 nodad"));
        assert!(fixture.ip("link set ws0 up"));
        fixture
    }

    /// Run `ip` in the namespace.
    pub(crate) fn ip(&self, arguments: &str) -> bool {
        self.namespace.ip(arguments)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// A command of `sh` in the namespace.
    fn command(&self, words: &str) -> Command {
        let mut command = self.namespace.command("sh");
        command.args(["-c", &format!("exec {words}")]);
        command.env("WIRESPEED_RUNTIME_DIR", self.folder.join("run")).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, words: &str) -> Running {
        Running(self.command(words).spawn().expect("it starts"))
    }

    /// Run the tool to its end, for a minute at most: exit code, standard output, standard error.
    pub(crate) fn tool(&self, words: &str) -> (i32, String, String) {
        self.run(&format!("timeout 60 {} {words}", env!("CARGO_BIN_EXE_wirespeed")))
    }

    /// The same with any program.
    pub(crate) fn run(&self, words: &str) -> (i32, String, String) {
        let output = self.command(words).output().expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    pub(crate) fn start_tool(&self, words: &str) -> Running {
        self.start(&format!("{} {words}", env!("CARGO_BIN_EXE_wirespeed")))
    }

    /// A file of `len` varied bytes; its SHA-256.
    pub(crate) fn file(&self, name: &str, len: u64) -> String {
        let bytes: Vec<u8> = (0..len).map(|i| (i * i / 251 + i) as u8).collect();
        std::fs::write(self.folder.join(name), bytes).expect("room on the disk");
        self.sum(name)
    }

    /// The SHA-256 of a file.
    pub(crate) fn sum(&self, name: &str) -> String {
        let bytes = std::fs::read(self.folder.join(name)).unwrap_or_default();
        Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Wait until `what` holds, for 20 s at most.
    pub(crate) fn until(&self, what: impl Fn() -> bool) {
        assert!(testbed::until(Duration::from_secs(20), what), "it did not come about");
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
