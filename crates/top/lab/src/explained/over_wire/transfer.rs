//! Runs one draw of `lab explain --over wire` in real time, which is a connection with a known
//! limit and parameters drawn by seed. `wirespeed wire` joins two TAPs of a network namespace.
//! `ttcp` runs on the first TAP, and a thread of this program uses the kernel's TCP at the second.
//! `wirespeed explain` asks ttcp, by its control socket, what limits the connection.
//!
//! Called by: `explained.rs`. It runs only on Linux, and needs root. Nothing is left behind: the
//! namespace has no name, and ends with the TAPs in it when its last process ends. The processes
//! are killed at the end of a draw, and a Ctrl-C at the terminal reaches them too. The wire ends
//! after two minutes in any case.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use device::namespace::Namespace;
use explain::Limit;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Pace, Wired};
use crate::Error;
use crate::namespace::{ip, new_namespace};

/// How long `explain` observes the connection, in seconds.
const LOOKS: &str = "5";
/// The longest pause of the wire in a valid draw. After a longer one the verdict may be about this
/// machine, not about the connection.
const PAUSE_MS_MOST: f64 = 50.0;
/// How often a draw is repeated because of such a pause; the last repetition counts in any case.
const AGAIN: u32 = 3;
/// Time between two checks whether something has happened.
const STEP: Duration = Duration::from_millis(20);
/// How long a process may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
const OURS: &str = "10.97.0.1/24";
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 97, 0, 2);
const OUR_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 97, 0, 1)), 5001);

/// What `wirespeed explain` said about a draw.
pub(in super::super) struct Heard {
    pub(in super::super) limit: Option<Limit>,
    pub(in super::super) words: String,
    /// The longest pause of the wire, in ms; `None` if the wire did not report it.
    pub(in super::super) pause_ms: Option<f64>,
}

/// A process, which is killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // If it has ended, the kill fails, which does not matter.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Run a draw, again if the wire paused for too long; `None` if it was stopped.
pub(in super::super) fn said(
    wired: &Wired,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Heard>, Error> {
    let mut left = AGAIN;
    loop {
        let heard = Bench::new()?.said(wired, seed, stop)?;
        let is_quiet = |h: &Heard| h.pause_ms.is_none_or(|ms| ms <= PAUSE_MS_MOST);
        if left == 0 || heard.as_ref().is_none_or(is_quiet) {
            return Ok(heard);
        }
        left -= 1;
    }
}

/// The place where a draw runs: its folder and its namespace.
struct Bench {
    namespace: Namespace,
    /// The folder for the control socket and the processes' messages.
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    fn new() -> Result<Bench, Error> {
        let folder =
            tempfile::tempdir().map_err(|e| failed("cannot make a temporary folder", &e))?;
        let program = std::env::current_exe()
            .map_err(|e| failed("cannot find this program's own path", &e))?;
        Ok(Bench { namespace: new_namespace()?, folder, program })
    }

    fn inside<T: Send>(&self, what: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        self.namespace.inside(what).map_err(|error| Error::Failed(error.to_string()))?
    }

    /// Start a tool of ours in the namespace.
    fn start(&self, command: &mut Command) -> Result<Process, Error> {
        command.env("WIRESPEED_RUNTIME_DIR", self.folder.path());
        let spawn = || command.spawn().map_err(|e| failed("cannot start wirespeed", &e));
        self.inside(spawn).map(Process)
    }

    fn tool(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Start the wire. Returns it once it has made its devices, with the reader of its standard
    /// error.
    fn wire(&self, wired: &Wired, seed: u64) -> Result<(Process, impl Read + use<>), Error> {
        let words = ["wire", "tap:w0", "tap:w1", "--every", "0s", "--json", "--time", "120s"];
        let mut command = self.tool(&words);
        command.args(["--seed", &seed.to_string()]).args(&wired.wire);
        let mut wire = self.start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let mut says = BufReader::new(wire.0.stderr.take().expect("piped"));
        let mut line = String::new();
        let read = says.read_line(&mut line);
        if read.is_err() || !line.contains("are joined") {
            return Err(Error::Failed(format!("wirespeed wire: {}", line.trim())));
        }
        let address = format!("{KERNEL}/24");
        self.inside(|| ip(&["addr", "add", &address, "dev", "w1"]))?;
        Ok((wire, says))
    }

    fn ttcp(&self, wired: &Wired) -> Result<Process, Error> {
        let to = KERNEL.to_string();
        let mut command = self.tool(&["ttcp", "--dev", "packet:w0", "--addr", OURS]);
        command.args(&wired.ttcp).stderr(self.errors()?);
        match (wired.receives, wired.writes) {
            (true, _) => command.args(["-r", "-s"]),
            (false, Pace::All) => command.args(["-t", &to, "-s", "--seconds", "120"]),
            (false, _) => command.args(["-t", &to]).stdin(Stdio::piped()),
        };
        self.start(&mut command)
    }

    /// The file for ttcp's standard error.
    fn errors(&self) -> Result<std::fs::File, Error> {
        let path = self.folder.path().join("errors");
        std::fs::File::create(path)
            .map_err(|e| failed("cannot make the file for ttcp's errors", &e))
    }

    fn said(
        &self,
        wired: &Wired,
        seed: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Heard>, Error> {
        let (wire, _says) = self.wire(wired, seed)?;
        let begun = Instant::now();
        let listener = if wired.receives { None } else { Some(self.listen(wired)?) };
        let mut ttcp = self.ttcp(wired)?;
        let over = AtomicBool::new(false);
        let input = ttcp.0.stdin.take();
        thread::scope(|scope| {
            let (over, writes) = (&over, wired.writes);
            if let Some(mut input) = input {
                scope.spawn(move || go(writes, over, |data| input.write(data)));
            }
            scope.spawn(move || match listener {
                Some(listener) => read(&listener, wired.reads, over),
                None => self.send(writes, over),
            });
            let heard = self.hear(wired, &mut ttcp, begun, stop);
            // A thread that writes to ttcp ends when ttcp does.
            over.store(true, Ordering::Relaxed);
            drop(ttcp);
            let pause_ms = pause_ms(wire);
            Ok(heard?.map(|(limit, words)| Heard { limit, words, pause_ms }))
        })
    }

    /// Carry out the draw's event, if it has one, and run `explain` when its time has come; `None`
    /// if the experiment was stopped.
    fn hear(
        &self,
        wired: &Wired,
        ttcp: &mut Process,
        begun: Instant,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<(Option<Limit>, String)>, Error> {
        if let Some((at, event)) = wired.event {
            if !wait_until(begun + at.into(), stop) {
                return Ok(None);
            }
            self.inside(|| ip(&[&["link", "set", "dev"], event].concat()))?;
        }
        if !wait_until(begun + wired.from.into(), stop) {
            return Ok(None);
        }
        if let Ok(Some(status)) = ttcp.0.try_wait() {
            let said = std::fs::read_to_string(self.folder.path().join("errors"));
            let said = said.unwrap_or_default();
            return Ok(Some((None, format!("ttcp ended ({status}): {}", said.trim()))));
        }
        self.explain(stop)
    }

    fn explain(&self, stop: &dyn Fn() -> bool) -> Result<Option<(Option<Limit>, String)>, Error> {
        let mut command = self.tool(&["explain", "--json", "--seconds", LOOKS]);
        let mut explain = self.start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        // Its output fits into the pipe, so that `explain` can end before the output is read.
        while matches!(explain.0.try_wait(), Ok(None)) {
            if stop() {
                return Ok(None);
            }
            thread::sleep(STEP);
        }
        let document: Value =
            serde_json::from_str(&all_of(explain.0.stdout.take())).unwrap_or_default();
        let said = &document["connections"][0];
        let limit = Limit::ALL.into_iter().find(|limit| said["limit"] == limit.name());
        let words = said["words"].as_str().map(str::to_owned);
        Ok(Some((limit, words.unwrap_or_else(|| all_of(explain.0.stderr.take())))))
    }

    /// A listener of the kernel's TCP at the second TAP.
    fn listen(&self, wired: &Wired) -> Result<TcpListener, Error> {
        let listen = || -> io::Result<TcpListener> {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
            if let Some(bytes) = wired.receive_buffer {
                socket.set_recv_buffer_size(bytes)?;
            }
            socket.bind(&SocketAddr::new(KERNEL.into(), OUR_PORT.port()).into())?;
            socket.listen(1)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        };
        self.inside(|| listen().map_err(|e| failed("cannot listen at the kernel's address", &e)))
    }

    /// Connect from the kernel's TCP to ttcp as soon as ttcp listens, and write.
    fn send(&self, writes: Pace, over: &AtomicBool) {
        let connect = || TcpStream::connect_timeout(&OUR_PORT, Duration::from_secs(1));
        while !over.load(Ordering::Relaxed) {
            if let Ok(Ok(mut stream)) = self.namespace.inside(connect) {
                // Without the timeout a write waits for longer, but it fails when ttcp ends.
                let _ = stream.set_write_timeout(Some(STEP));
                return go(writes, over, |data| stream.write(data));
            }
            thread::sleep(STEP);
        }
    }
}

/// Accept a connection at the kernel's listener, and read.
fn read(listener: &TcpListener, reads: Pace, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            thread::sleep(STEP);
            continue;
        };
        let set = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(STEP)));
        if set.is_ok() {
            go(reads, over, |data| stream.read(data));
        }
        return;
    }
}

/// Move data by `call` at this pace until `over` is set, or the connection ends or fails.
fn go(pace: Pace, over: &AtomicBool, mut call: impl FnMut(&mut [u8]) -> io::Result<usize>) {
    let (bytes, pause) = match pace {
        Pace::All => (64 << 10, None),
        Pace::Steps(bytes, pause) => (bytes, Some(pause.into())),
        Pace::Once(bytes) => (bytes, Some(Duration::MAX)),
    };
    let mut data = vec![0x5a; bytes];
    loop {
        let mut done = 0;
        while done < bytes {
            if over.load(Ordering::Relaxed) {
                return;
            }
            match call(&mut data[done..]) {
                Ok(0) => return,
                Ok(count) => done += count,
                Err(error) if is_pause(&error) => {}
                Err(_) => return,
            }
        }
        let Some(pause) = pause else { continue };
        let begun = Instant::now();
        while begun.elapsed() < pause && !over.load(Ordering::Relaxed) {
            thread::sleep(STEP.min(pause - begun.elapsed().min(pause)));
        }
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Wait until this time; `false` if the experiment was stopped before.
fn wait_until(then: Instant, stop: &dyn Fn() -> bool) -> bool {
    while Instant::now() < then && !stop() {
        thread::sleep(STEP);
    }
    !stop()
}

/// End the wire, and return its longest pause in ms, from its JSON.
fn pause_ms(mut wire: Process) -> Option<f64> {
    kill_process(Pid::from_child(&wire.0), Signal::INT).ok()?;
    let begun = Instant::now();
    while matches!(wire.0.try_wait(), Ok(None)) && begun.elapsed() < PATIENCE {
        thread::sleep(STEP);
    }
    let output = wire.0.stdout.take();
    drop(wire);
    serde_json::from_str::<Value>(all_of(output).lines().last()?).ok()?["pause_max_ms"].as_f64()
}

fn all_of(from: Option<impl Read>) -> String {
    let mut text = String::new();
    if let Some(mut from) = from {
        // Output that is not text counts as no output.
        let _ = from.read_to_string(&mut text);
    }
    text.trim().to_owned()
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::Failed(format!("{what}: {error}"))
}
