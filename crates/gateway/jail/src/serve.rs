//! A gateway without a program: the process that starts it keeps the user's files and signals, and
//! the gateway's process has the sockets, TAPs and files that it was given.
//!
//! Called by: programs such as `wirespeed gateway`, which serves virtual machines. The gateway is
//! the same as beside a program (`gateway.rs`).

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::gateway::{ALL_FILES, FOLDERS};
use crate::launch::{self, Child};
use crate::message::{DESCRIPTORS_MAX, Life, ToGateway};
use crate::process::{self, Change};
use crate::signals::Signals;

/// What the gateway's process sees of the host's files; it can open none of them. If the machine
/// permits no namespaces, it sees all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sees {
    /// All of them: its peers may have their sockets anywhere.
    All,
    /// These folders, by their absolute names, which exist and have its peers' sockets.
    Folders(Vec<PathBuf>),
}

/// A gateway that has begun, and has nothing to serve yet.
pub struct Serving {
    gateway: Child,
}

/// A gateway that runs. It ends with this, unless it is left.
pub struct Served {
    /// Caught while somebody waits for the gateway.
    signals: Option<Signals>,
    gateway: Child,
}

impl Serving {
    /// Start the process of the gateway. The process that calls this must begin with
    /// [`crate::child`].
    ///
    /// # Errors
    /// The system refuses it.
    pub fn start(sees: &Sees) -> Result<Serving, Error> {
        let (first, folders) = match sees {
            Sees::All => (ALL_FILES, &[][..]),
            Sees::Folders(folders) => (FOLDERS, &folders[..]),
        };
        let folders = folders.iter().map(|folder| folder.as_os_str());
        let arguments = [OsStr::new(first)].into_iter().chain(folders);
        let gateway = Child::start(process::GATEWAY, |command| {
            command.args(arguments).stdout(Stdio::null())
        })?;
        Ok(Serving { gateway })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.gateway.process.pid()
    }

    /// Pass it `settings` as they are, and descriptors, and wait until it is ready. With `leaves`
    /// it outlives this process, and reports to this descriptor once it is ready; without, INT,
    /// QUIT, TERM and HUP are taken from now on.
    ///
    /// # Errors
    /// [`ErrorKind::NotStarted`]: nothing is left of the gateway.
    pub fn begin(
        mut self,
        settings: String,
        descriptors: &[OwnedFd],
        leaves: Option<OwnedFd>,
    ) -> Result<Served, Error> {
        let most = DESCRIPTORS_MAX - 1;
        if descriptors.len() > most {
            return Err(Error::not_started(format!("give fewer ports and files, {most} at most")));
        }
        let signals = leaves.is_none().then(Signals::catch_ends).transpose()?;
        let begin = ToGateway::Begin {
            settings,
            descriptors: descriptors.len(),
            has_link: false,
            life: Life { launcher: leaves.is_none(), network: false },
            tap_mtu: None,
            stderr: leaves.is_some(),
        };
        self.gateway.begin(&begin, descriptors.iter().chain(&leaves))?;
        Ok(Served { signals, gateway: self.gateway })
    }
}

impl Served {
    /// The number of the gateway's process.
    pub fn pid(&self) -> u32 {
        self.gateway.process.pid()
    }

    /// Leave the gateway: it runs until it ends by itself, or is killed.
    pub fn leave(self) {
        self.gateway.process.leave();
    }

    /// Wait until the gateway has ended by itself, or a signal came: then it has three seconds to
    /// end, and a second signal ends it at once.
    ///
    /// # Errors
    /// [`ErrorKind::GatewayEnded`]: it failed, or something killed it.
    pub fn wait(mut self) -> Result<(), Error> {
        let mut deadline = None;
        let mut signals = self.signals.take().map_or_else(Signals::catch_ends, Ok)?;
        loop {
            if let Some(Change::Ended(code)) = self.gateway.process.change() {
                let is_wanted = code == 0 || deadline.is_some();
                return if is_wanted { Ok(()) } else { Err(ended(code)) };
            }
            let left = deadline.map(|at: Instant| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            launch::wait(&signals, None, left);
            if signals.take_end() {
                if deadline.is_some() {
                    return Ok(());
                }
                deadline = Some(self.gateway.end());
            }
        }
    }
}

fn ended(code: u8) -> Error {
    let how = launch::status(code);
    let text = format!(
        "the gateway's process ended ({how}): start it again, and report it if nobody killed it"
    );
    Error::new(ErrorKind::GatewayEnded, text)
}
