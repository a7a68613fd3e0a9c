//! A gateway in a process of its own, which has the host's network and nothing else of the host,
//! for guests that are not our processes.
//!
//! Called by: the tools for virtual machines, and the proxy. This is the user's process: it opens
//! what the gateway uses. The other process is `child.rs`.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::Result;
use jail::{Sees, Served, Serving};
use machine::parts::{Connection, Given as What, Settings};

use super::learning::Learns;
use super::open;
use super::options::Options;

/// How a gateway runs.
pub(crate) struct How<'a> {
    /// What it opens.
    pub(crate) options: &'a Options,
    /// What it has to know.
    pub(crate) settings: Settings,
    /// The rules that it learns.
    pub(crate) learns: Option<&'a Learns>,
    /// Descriptors besides those that all gateways have.
    pub(crate) more: Vec<(What, OwnedFd)>,
    /// It outlives this process, and its messages go there.
    pub(crate) leaves: Option<OwnedFd>,
}

/// A gateway that runs in its own process.
pub(crate) struct Running {
    served: Served,
    control: ControlSocket,
}

/// The file of the control socket.
struct ControlSocket;

impl Drop for ControlSocket {
    fn drop(&mut self) {
        open::remove_control_socket();
    }
}

/// Open what the options name, with the user's privileges, and start the gateway.
///
/// # Errors
/// Something cannot be opened, or the gateway cannot begin.
pub(crate) fn begin(how: How<'_>) -> Result<Running> {
    let How { options, mut settings, learns, more, leaves } = how;
    let serving = Serving::start(&sees(&more))?;
    let pid = if leaves.is_some() { serving.pid() } else { std::process::id() };
    let mut given = open::open(options, pid)?;
    let control = ControlSocket;
    if let Some(learns) = learns {
        given.push((What::Learn, learns.lines()?));
    }
    let (what, descriptors): (Vec<_>, Vec<_>) = given.into_iter().chain(more).unzip();
    settings.given = what;
    let served = serving.begin(serde_json::to_string(&settings)?, &descriptors, leaves)?;
    Ok(Running { served, control })
}

impl Running {
    /// Wait until it ends, by a signal or by itself.
    ///
    /// # Errors
    /// It failed, or something killed it.
    pub(crate) fn wait(self) -> Result<()> {
        Ok(self.served.wait()?)
    }

    /// The number of the gateway's process.
    pub(crate) fn pid(&self) -> u32 {
        self.served.pid()
    }

    /// Leave the gateway, and the file of its control socket.
    pub(crate) fn leave(self) {
        std::mem::forget(self.control);
        self.served.leave();
    }
}

/// What the gateway's process has to see of the host's files: datagrams are sent to a path.
fn sees(more: &[(What, OwnedFd)]) -> Sees {
    let mut folders: Vec<PathBuf> = Vec::new();
    for (what, _) in more {
        let What::Machine(connection) = what else { continue };
        match connection.plain() {
            // The path is the machine's, and not known before it sends.
            Connection::Datagram { remote: None, .. } => return Sees::All,
            Connection::Datagram { remote: Some(remote), .. } => {
                let folder = remote.parent().map(PathBuf::from);
                folders.extend(folder.filter(|folder| !folders.contains(folder)));
            }
            _ => {}
        }
    }
    Sees::Folders(folders)
}
