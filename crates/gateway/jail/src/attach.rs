//! A gateway for a network namespace that is there: a container's, made by another program.
//!
//! Called by: the drop-ins for containers. The link is made by a process that enters the namespaces
//! (`inside.rs`) and ends. The gateway ends with the network, and, unless it is left, with the
//! process that started it.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use base::MacAddr;

use crate::error::{Error, refused};
use crate::launch::{Child, not_sent};
use crate::message::{DESCRIPTORS_MAX, FromProgram, Life, Near, ToGateway, ToInside, send};
use crate::options::{Options, Setup};
use crate::process::{self, Change};
use crate::signals::Signals;

/// How often a process that waits for the gateway looks although no signal came.
const LOOK: Duration = Duration::from_secs(3_600);

/// A network namespace, and the link that is made in it.
#[derive(Debug)]
pub struct Attach {
    /// The network namespace.
    pub network: OwnedFd,
    /// The user namespace that owns it, to be entered before; `None` if this process has
    /// CAP_SYS_ADMIN and CAP_NET_ADMIN over it already.
    pub user: Option<OwnedFd>,
    /// The interface, its addresses and routes, the sockets inside, and what the gateway gets; the
    /// command and the files mean nothing.
    pub options: Options,
    /// The hardware address of the interface.
    pub mac: Option<MacAddr>,
    /// The interface may be a TAP that is there. Without it, it is made.
    pub may_be_tap: bool,
    /// Give it the addresses and routes. Without this it is up, and has none.
    pub is_configured: bool,
    /// Give the gateway /proc/net/tcp, tcp6, udp and udp6 of the network, behind the sockets
    /// inside. They keep the network: the gateway has to learn of its end in another way.
    pub has_tables: bool,
    /// The gateway outlives this process, and reports to this descriptor once it is ready.
    pub leaves: Option<OwnedFd>,
}

/// A gateway that has begun, and has no link yet.
pub struct Attaching {
    gateway: Child,
}

/// A gateway with a link.
pub struct Attached {
    gateway: Child,
}

impl Attaching {
    /// Start the process of the gateway.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn start() -> Result<Attaching, Error> {
        let gateway = Child::start(process::GATEWAY, |command| command.stdout(Stdio::null()))?;
        Ok(Attaching { gateway })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.gateway.process.pid()
    }

    /// Make the link, and wait until packets pass. `note` gets sentences about what the network has
    /// to do without on this machine.
    ///
    /// # Errors
    /// The namespaces cannot be entered, the interface is not to be had, or the gateway cannot
    /// begin; nothing is left then.
    pub fn begin(mut self, what: &Attach, note: &mut dyn FnMut(&str)) -> Result<Attached, Error> {
        let options = &what.options;
        let most = DESCRIPTORS_MAX - 2 - 4 - 1;
        if options.descriptors.len() + options.inside.len() > most {
            return Err(Error::not_started(format!("give fewer ports and files, {most} at most")));
        }
        let (made, tap_mtu) = link(what, note)?;
        let begin = ToGateway::Begin {
            settings: options.settings.clone(),
            descriptors: options.descriptors.len(),
            has_link: true,
            life: Life { launcher: what.leaves.is_none(), network: true },
            tap_mtu,
            stderr: what.leaves.is_some(),
        };
        let (link, inside) = made.split_at(2.min(made.len()));
        let all = link.iter().chain(&options.descriptors).chain(inside).chain(&what.leaves);
        self.gateway.begin(&begin, all)?;
        Ok(Attached { gateway: self.gateway })
    }
}

/// The link, the network, the sockets inside and the tables; and the MTU, if it is a TAP.
fn link(what: &Attach, note: &mut dyn FnMut(&str)) -> Result<(Vec<OwnedFd>, Option<u32>), Error> {
    let mut inside = Child::start(process::INSIDE, |command| command.stdout(Stdio::null()))?;
    let near = Near {
        may_be_tap: what.may_be_tap,
        is_configured: what.is_configured,
        mac: what.mac.map(|mac| mac.0),
        has_tables: what.has_tables,
    };
    let setup: Setup = what.options.setup();
    let namespaces: Vec<_> =
        [Some(&what.network), what.user.as_ref()].into_iter().flatten().map(AsFd::as_fd).collect();
    send(&inside.socket, &ToInside::Make { setup, near }, &namespaces).map_err(not_sent)?;
    match inside.receive()? {
        (FromProgram::Joined { notes, tap_mtu }, made) => {
            notes.iter().for_each(|text| note(text));
            Ok((made, tap_mtu))
        }
        (FromProgram::Failed(why), _) => Err(why),
        _ => Err(Error::not_started("a child process is not understood: start it again")),
    }
}

impl Attached {
    /// The number of the gateway's process.
    pub fn pid(&self) -> u32 {
        self.gateway.process.pid()
    }

    /// Leave the gateway: it runs until the network is gone.
    pub fn leave(self) {
        self.gateway.process.leave();
    }

    /// Wait until the gateway has ended; TERM, HUP, INT and QUIT end it. Returns its exit status, 0
    /// after a signal.
    ///
    /// # Errors
    /// Signals cannot be caught.
    pub fn wait(mut self) -> Result<u8, Error> {
        let mut signals = Signals::catch()?;
        loop {
            if let Some(Change::Ended(code)) = self.gateway.process.change() {
                return Ok(code);
            }
            if signals.take_end() {
                return Ok(0);
            }
            crate::launch::wait(&signals, None, Some(LOOK));
        }
    }
}

/// Is this the user namespace of this process? Nobody can enter it again.
pub(crate) fn is_own_user_namespace(user: &OwnedFd) -> Result<bool, Error> {
    let why = || refused("the user namespace cannot be compared");
    let own = rustix::fs::stat("/proc/self/ns/user").map_err(why())?;
    let other = rustix::fs::fstat(user).map_err(why())?;
    Ok((own.st_dev, own.st_ino) == (other.st_dev, other.st_ino))
}
