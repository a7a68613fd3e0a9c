//! A network namespace with a TUN, a folder for files, and programs in it; all gone at the end,
//! however the case ends.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};

/// What is missing of `programs` and of what every case needs.
pub(crate) fn missing(programs: &[&'static str]) -> Option<String> {
    let mut tun = std::fs::File::options();
    if tun.read(true).write(true).open("/dev/net/tun").is_err() {
        return Some("needs /dev/net/tun, and to be allowed to open it".to_owned());
    }
    let probe = format!("wsout-{}-probe", std::process::id());
    if !ip(&format!("netns add {probe}")) {
        return Some("needs root and iproute2: `ip netns add` was refused".to_owned());
    }
    ip(&format!("netns del {probe}"));
    let absent = |p: &&&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {p}")]).output();
        !found.is_ok_and(|o| o.status.success())
    };
    programs.iter().find(absent).map(|p| format!("needs {p} (Debian: apt install {p})"))
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

/// A program that ends with its case.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Wait for its end, for a minute at most.
    fn wait(&mut self) -> ExitStatus {
        for _ in 0..600 {
            if let Some(status) = self.0.try_wait().expect("it is a child") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("it did not end within a minute");
    }

    /// It ends by itself, content.
    pub(crate) fn succeeds(&mut self) -> bool {
        self.wait().success()
    }

    /// Send it a signal and wait for its end: code, standard output, standard error.
    pub(crate) fn end_by(mut self, signal: Signal) -> (i32, String, String) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
        // What it prints fits into the pipes.
        self.wait();
        let (mut out, mut err) = (String::new(), String::new());
        let stdout = self.0.stdout.take().expect("piped").read_to_string(&mut out);
        let stderr = self.0.stderr.take().expect("piped").read_to_string(&mut err);
        stdout.and(stderr).expect("text");
        (self.wait().code().unwrap_or(-1), out, err)
    }
}

/// The place.
pub(crate) struct Place {
    namespace: String,
    pub(crate) folder: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("wsout-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&namespace);
        std::fs::create_dir_all(folder.join("run")).expect("temporary files can be written");
        assert!(ip(&format!("netns add {namespace}")));
        let place = Place { namespace, folder };
        assert!(place.ip("tuntap add dev ws0 mode tun vnet_hdr"));
        assert!(place.ip("addr add 10.9.0.1/24 dev ws0"));
        assert!(place.ip("addr add fd09::1/64 dev ws0 nodad"));
        assert!(place.ip("link set ws0 up"));
        place
    }

    /// `ip` in the namespace.
    pub(crate) fn ip(&self, arguments: &str) -> bool {
        ip(&format!("-n {} {arguments}", self.namespace))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// A program in the namespace, `sh` words.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, "sh", "-c", &format!("exec {words}")]);
        command.env("XDG_RUNTIME_DIR", self.folder.join("run")).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, words: &str) -> Running {
        Running(self.command(words).spawn().expect("it starts"))
    }

    /// Run the tool to its end, for a minute at most: code, standard output, standard error.
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

    /// A file of `len` bytes that are not all alike; its sum.
    pub(crate) fn file(&self, name: &str, len: u64) -> String {
        let bytes: Vec<u8> = (0..len).map(|i| (i * i / 251 + i) as u8).collect();
        std::fs::write(self.folder.join(name), bytes).expect("room on the disk");
        self.sum(name)
    }

    /// The sum of a file, once it has stopped growing.
    pub(crate) fn sum(&self, name: &str) -> String {
        let bytes = std::fs::read(self.folder.join(name)).unwrap_or_default();
        Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Wait for something, for 20 seconds at most.
    pub(crate) fn until(&self, what: impl Fn() -> bool) {
        for _ in 0..400 {
            if what() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it did not come about");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
        if !ip(&format!("netns del {}", self.namespace)) {
            eprintln!("namespace {0} stays; remove it: ip netns del {0}", self.namespace);
        }
    }
}
