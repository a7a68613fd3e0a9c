//! The launcher: starts the gateway and the program, brings them together, and waits for both.
//!
//! Called by: programs such as `wirespeed netns`. It stays in the host's namespaces. It ends with
//! the program's exit status, or with an error if there is no program or no gateway any more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

use crate::error::{Error, ErrorKind, refused};
use crate::message::{
    self, DESCRIPTORS_MAX, FromGateway, FromProgram, Life, ToGateway, ToProgram, send,
};
use crate::options::Options;
use crate::process::{self, Change, Process, myself};
use crate::signals::Signals;

/// How long the gateway may take to end after the program: 2 s for queued data, and some more.
const END: Duration = Duration::from_secs(3);

/// Run a program behind a gateway, and wait for both; returns the program's exit status, which is
/// 128 and the signal's number if a signal ended it. `note` gets sentences about what the program
/// has to do without on this machine.
///
/// The process that calls this must begin with [`crate::child`]. Signals are taken meanwhile:
/// INT, QUIT and TSTP come from the terminal, which sends them to the program, too; TERM, HUP,
/// USR1, USR2 and CONT are passed on to the program.
///
/// # Errors
/// [`ErrorKind`]; nothing is left of the program and the gateway then.
pub fn launch(options: &Options, note: &mut dyn FnMut(&str)) -> Result<u8, Error> {
    // The link and the program's network are two more.
    let most = DESCRIPTORS_MAX - 2;
    if options.descriptors.len() + options.inside.len() > most {
        return Err(Error::not_started(format!("give fewer ports and files, {most} at most")));
    }
    let signals = Signals::catch()?;
    let mut gateway = Child::start(process::GATEWAY, |command| command.stdout(Stdio::null()))?;
    let mut program = Child::start(process::PROGRAM, |command| command.args(&options.command))?;
    let setup = ToProgram::Setup(options.setup());
    send(&program.socket, &setup, &[]).map_err(not_sent)?;
    let made = program.made(options.pid, note)?;
    let begin = ToGateway::Begin {
        settings: options.settings.clone(),
        descriptors: options.descriptors.len(),
        has_link: true,
        life: Life { launcher: !options.keep, network: options.keep },
        tap_mtu: None,
        stderr: false,
    };
    let (link, inside) = made.split_at(2.min(made.len()));
    gateway.begin(&begin, link.iter().chain(&options.descriptors).chain(inside))?;
    // From now on only the gateway has the packet socket and the program's network.
    drop(made);
    let stdin = std::io::stdin();
    let go = ToProgram::Go { keep: options.keep, user: options.user };
    send(&program.socket, &go, &[stdin.as_fd()]).map_err(not_sent)?;
    Running { signals, gateway, program, keep: options.keep }.watch()
}

/// A message to a child was not sent.
pub(crate) fn not_sent(why: std::io::Error) -> Error {
    match why.kind() {
        std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset => {
            Error::not_started("a child process ended too early: start it again")
        }
        std::io::ErrorKind::InvalidInput => {
            Error::not_started("the settings are longer than a message: make them shorter")
        }
        _ => refused("a child process is gone")(why),
    }
}

/// A child with its socket.
pub(crate) struct Child {
    pub(crate) process: Process,
    pub(crate) socket: OwnedFd,
}

impl Child {
    pub(crate) fn start(
        role: &str,
        more: impl FnOnce(&mut std::process::Command) -> &mut std::process::Command,
    ) -> Result<Child, Error> {
        let (socket, theirs) = message::pair().map_err(refused("no socket can be made"))?;
        let mut command = myself(role, theirs)?;
        more(&mut command);
        let process = Process::start(command).map_err(refused("no process can be started"))?;
        Ok(Child { process, socket })
    }

    /// Wait until the namespaces are made; returns the descriptors for the gateway.
    fn made(&mut self, pid: bool, note: &mut dyn FnMut(&str)) -> Result<Vec<OwnedFd>, Error> {
        if pid {
            // The first process of the PID namespace becomes our child when its parent ends.
            set_child_subreaper(Some(getpid())).map_err(refused("--pid is not possible"))?;
        }
        let (mut made, mut is_ready) = (None, !pid);
        loop {
            match (made, is_ready) {
                (Some(made), true) => return Ok(made),
                (before, _) => made = before,
            }
            self.wait_for_message()?;
            let (message, descriptors) = self.receive()?;
            match message {
                FromProgram::Made { notes, init } => {
                    notes.iter().for_each(|text| note(text));
                    made = Some(descriptors);
                    if let Some(pid) = init.and_then(Pid::from_raw) {
                        self.process.end();
                        self.process = Process::of(pid);
                    }
                }
                FromProgram::InitReady => is_ready = true,
                FromProgram::Failed(why) => return Err(why),
                FromProgram::Stopped | FromProgram::Joined { .. } => {}
            }
        }
    }

    /// Wait until the socket has a message or is closed. A process that was killed may leave it
    /// open, because the first process of the PID namespace has the same socket: that is an error.
    fn wait_for_message(&mut self) -> Result<(), Error> {
        while !message::is_readable(&self.socket) {
            if let Some(Change::Ended(code)) = self.process.change()
                && !message::is_readable(&self.socket)
            {
                return Err(ended("the program's process", Some(Change::Ended(code))));
            }
            let time = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&time));
        }
        Ok(())
    }

    pub(crate) fn receive(&mut self) -> Result<(FromProgram, Vec<OwnedFd>), Error> {
        let received = message::receive(&self.socket);
        let received = received.map_err(refused("the program's process is not understood"))?;
        received.ok_or_else(|| ended("the program's process", self.process.end()))
    }

    /// Give the gateway what it needs, and wait until it is ready.
    pub(crate) fn begin<'a>(
        &mut self,
        begin: &ToGateway,
        descriptors: impl Iterator<Item = &'a OwnedFd>,
    ) -> Result<(), Error> {
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.map(AsFd::as_fd).collect();
        // If it is gone, its last message says why.
        let sent = send(&self.socket, begin, &descriptors);
        match message::receive(&self.socket).map_err(refused("the gateway is not understood"))? {
            Some((FromGateway::Ready, _)) => Ok(()),
            Some((FromGateway::Failed(why), _)) => Err(why),
            None => {
                sent.map_err(not_sent)?;
                Err(ended("the gateway", self.process.end()))
            }
        }
    }
}

impl Child {
    /// Ask the gateway to end; returns by when it should have done so.
    pub(crate) fn end(&self) -> Instant {
        // If it is gone already, it needs no message.
        let _ = send(&self.socket, &ToGateway::End, &[]);
        Instant::now() + END
    }
}

/// A child ended before the program began.
fn ended(who: &str, how: Option<Change>) -> Error {
    let how = match how {
        Some(Change::Ended(code)) => status(code),
        _ => "for an unknown reason".to_owned(),
    };
    Error::not_started(format!("{who} ended too early ({how}): start it again"))
}

/// The program runs.
struct Running {
    signals: Signals,
    gateway: Child,
    program: Child,
    keep: bool,
}

impl Running {
    fn watch(mut self) -> Result<u8, Error> {
        let mut hears = true;
        loop {
            match self.program.process.change() {
                Some(Change::Ended(code)) => {
                    // It may not have been executed.
                    while hears && message::is_readable(&self.program.socket) {
                        hears = self.hear()?;
                    }
                    self.finish();
                    return Ok(code);
                }
                Some(change) if change.is_stop_of_terminal() => stop_myself(),
                _ => {}
            }
            if let Some(Change::Ended(code)) = self.gateway.process.change() {
                return Err(no_gateway(code));
            }
            wait(&self.signals, hears.then_some(&self.program.socket), None);
            if hears && message::is_readable(&self.program.socket) {
                hears = self.hear()?;
            }
            for signal in self.signals.take_for_program() {
                self.program.process.send(signal);
            }
        }
    }

    /// Take a message of the program's process; false at the end of its messages.
    fn hear(&mut self) -> Result<bool, Error> {
        match message::receive(&self.program.socket) {
            Ok(Some((FromProgram::Failed(why), _))) => return Err(why),
            Ok(Some((FromProgram::Stopped, _))) => stop_myself(),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return Ok(false),
        }
        Ok(true)
    }

    /// The program has ended: let the gateway send what is queued. With `keep`, wait until it ends
    /// by itself, because no process is left in the program's network.
    fn finish(&mut self) {
        let deadline = (!self.keep).then(|| self.gateway.end());
        while !matches!(self.gateway.process.change(), Some(Change::Ended(_))) {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            wait(&self.signals, None, left);
            let passed_on = self.signals.take_for_program();
            if passed_on.contains(&Signal::TERM) || passed_on.contains(&Signal::HUP) {
                return;
            }
        }
    }
}

fn no_gateway(code: u8) -> Error {
    let text = format!(
        "the gateway ended ({}), so the program was ended, too: start it again, and report it if \
         nobody killed the gateway",
        status(code)
    );
    Error::new(ErrorKind::GatewayEnded, text)
}

/// An exit status in words.
pub(crate) fn status(code: u8) -> String {
    match code {
        129.. => format!("signal {}", code - 128),
        code => format!("exit status {code}"),
    }
}

/// The terminal stopped the program: stop as well, so that the shell takes the terminal back. The
/// shell continues both.
fn stop_myself() {
    let _ = kill_process(getpid(), Signal::STOP);
}

/// Wait for a signal or a message, for `time` at most.
pub(crate) fn wait(signals: &Signals, socket: Option<&OwnedFd>, time: Option<Duration>) {
    let mut asked = vec![PollFd::new(signals, PollFlags::IN)];
    asked.extend(socket.map(|socket| PollFd::new(socket, PollFlags::IN)));
    let time = time.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    // A signal interrupts it, and is in the descriptor then.
    let _ = poll(&mut asked, time.as_ref());
}
