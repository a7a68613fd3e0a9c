//! A transfer with a live page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use testbed::Running;

/// How long anything may take on a machine with much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A transfer in memory, and where its page is.
pub(crate) struct Live {
    _running: Running,
    folder: PathBuf,
    /// The URL that it printed.
    pub(crate) url: String,
}

impl Live {
    /// Start it with this value of `--http`, and these options.
    pub(crate) fn start(http: &str, options: &[&str]) -> Live {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wslive-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("room for a folder");
        let mut program = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        program.args(["ttcp", "--seconds", "600", "--http", http]).args(options);
        program.env("WIRESPEED_RUNTIME_DIR", &folder).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = Running(program.spawn().expect("the program starts"));
        let mut said = BufReader::new(running.0.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says where the page is");
        let url = line.trim().strip_prefix("live page: ").unwrap_or_else(|| panic!("{line}"));
        let url = url.split_whitespace().next().expect("a URL").to_owned();
        Live { url, _running: running, folder }
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        let rest = self.url.rsplit_once(':').expect("a port").1;
        rest.split('/').next().and_then(|port| port.parse().ok()).expect("a number")
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream
    }

    /// The answer to a request: its head, and its body.
    pub(crate) fn ask(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it takes it");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers, and closes");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    /// The status of an answer.
    pub(crate) fn status(&self, request: &str) -> u16 {
        let (head, _) = self.ask(request);
        head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status")
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
