//! How a port and a machine find each other, and what wakes the port: its listener or its timer,
//! the machine's socket, the kicks of its rings.
//!
//! Called by: `vhost_user.rs`.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use core::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use base::{Drops, Mtu};
use device::vm::{Bound, Interest, Name, VmError};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{VhostUser, limits};
use crate::error::VhostError;
use crate::session::{Session, Turn};
use crate::transmit::Scratch;

/// The numbers of descriptors in the port's epoll instance; those of kicks are in `guest.rs`.
const LISTENER: u64 = 0;
const SOCKET: u64 = 1;
const TIMER: u64 = 2;

/// While the stack never rests, sockets are looked at after this many bursts.
const LOOK: u32 = 64;

/// How we and a machine find each other.
pub(super) enum Role {
    /// It connects to us.
    Listener {
        listener: UnixListener,
        /// Removes the path, if that is ours to remove.
        _name: Option<Name>,
    },
    /// We connect to it, and try again when this timer rings.
    Timer(OwnedFd),
}

impl VhostUser {
    /// Listen for a machine (`-chardev socket,path=PATH`), and for the next one when it has gone. A
    /// dead socket at `path` is replaced.
    ///
    /// # Errors
    /// The socket cannot be made, or another file is there.
    pub fn listen(path: &Path) -> Result<VhostUser, VhostError> {
        let (listener, name) = Bound::listener(path)?.into_parts();
        VhostUser::at(listener, path, Some(name))
    }

    /// The same with a socket that listens at `path` already. Its path is not removed.
    ///
    /// # Errors
    /// The socket cannot be set up.
    pub fn from_listener(listener: UnixListener, path: &Path) -> Result<VhostUser, VhostError> {
        VhostUser::at(listener, path, None)
    }

    fn at(
        listener: UnixListener,
        path: &Path,
        _name: Option<Name>,
    ) -> Result<VhostUser, VhostError> {
        let refused = || VmError::refused("setting up", path);
        listener.set_nonblocking(true).map_err(refused())?;
        let port = VhostUser::new(path, Role::Listener { listener, _name })?;
        if let Role::Listener { listener, .. } = &port.role {
            port.interest.report(listener, LISTENER).map_err(refused())?;
        }
        Ok(port)
    }

    /// Connect to a machine that listens (`-chardev socket,path=PATH,server=on`), and again when it
    /// has gone.
    ///
    /// # Errors
    /// Nothing listens there, or the socket cannot be set up.
    pub fn connect(path: &Path) -> Result<VhostUser, VhostError> {
        let refused = || VmError::refused::<std::io::Error>("connecting to", path);
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags);
        let timer = timer.map_err(|e| refused()(e.into()))?;
        let mut port = VhostUser::new(path, Role::Timer(timer))?;
        if let Role::Timer(timer) = &port.role {
            port.interest.report(timer, TIMER).map_err(refused())?;
        }
        let socket = connected(path).map_err(refused())?;
        port.begin(socket)?;
        Ok(port)
    }

    fn new(path: &Path, role: Role) -> Result<VhostUser, VhostError> {
        let interest = Interest::new().map_err(VmError::refused("setting up", path))?;
        let mut port = VhostUser {
            session: None,
            role,
            path: path.to_owned(),
            interest: Arc::new(interest),
            limits: limits(Mtu::ETHERNET),
            is_armed: Cell::new(true),
            bursts: 0,
            has_more: false,
            is_refused: false,
            parts: VecDeque::new(),
            full: None,
            scratch: Scratch::default(),
            trouble: None,
            broken: VhostError::Ring { place: path.display().to_string() },
            drops: Drops::default(),
        };
        port.trouble = Some(port.nobody());
        Ok(port)
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// The error while there is no machine.
    fn nobody(&self) -> VhostError {
        match self.role {
            Role::Listener { .. } => VhostError::Waiting { place: self.place() },
            Role::Timer(_) => VhostError::Gone { place: self.place() },
        }
    }

    fn begin(&mut self, socket: UnixStream) -> Result<(), VmError> {
        let session = Session::new(socket, self.interest.clone(), SOCKET);
        self.session = Some(session.map_err(VmError::refused("setting up", &self.path))?);
        self.trouble = Some(VhostError::NotStarted { place: self.place() });
        // It may have said something already.
        self.has_more = true;
        Ok(())
    }

    /// The machine has gone, or was sent away.
    fn end(&mut self, why: Option<String>) {
        self.session = None;
        self.has_more = false;
        self.forget_frames();
        let place = self.place();
        let why = why.map(|why| VhostError::Protocol { place, why });
        self.trouble = Some(why.unwrap_or_else(|| self.nobody()));
        self.set_timer(1);
        self.accept();
    }

    /// Let the timer ring each so many seconds; 0: never.
    fn set_timer(&self, tv_sec: i64) {
        if let Role::Timer(timer) = &self.role {
            let each = Timespec { tv_sec, tv_nsec: 0 };
            let each = Itimerspec { it_interval: each, it_value: each };
            // The descriptor is a timer, so this cannot fail.
            let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &each);
        }
    }

    /// Accept a waiting connection, if there is one, or try to connect.
    fn accept(&mut self) {
        if self.session.is_some() {
            return;
        }
        let found = match &self.role {
            Role::Listener { listener, .. } => listener.accept().map(|(socket, _)| socket),
            Role::Timer(_) => connected(&self.path),
        };
        let listens = matches!(self.role, Role::Listener { .. });
        let begun = match found {
            Ok(socket) => {
                self.set_timer(0);
                self.begin(socket)
            }
            Err(error) if !listens || error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(VmError::refused("accepting at", &self.path)(error)),
        };
        // Without a free descriptor the connection stays in the backlog, and no event comes again.
        self.is_refused = begun.is_err();
        if let Err(error) = begun {
            self.trouble = Some(error.into());
        }
    }

    /// Take the news of the descriptors, if they may have any.
    pub(super) fn look(&mut self) {
        self.bursts += 1;
        if self.bursts < LOOK && !self.is_armed.get() && !self.has_more && !self.is_refused {
            return;
        }
        self.bursts = 0;
        self.is_armed.set(false);
        // Kicks need no answer: the rings are read in any case.
        for number in self.interest.news() {
            match number {
                LISTENER | TIMER => self.accept(),
                SOCKET => self.has_more = true,
                _ => {}
            }
        }
        if self.is_refused {
            self.accept();
        }
        if std::mem::take(&mut self.has_more)
            && let Some(session) = &mut self.session
        {
            let turn = session.turn();
            let runs = session.guest().runs();
            match turn {
                Turn::Done => {}
                Turn::More => self.has_more = true,
                Turn::Ended(why) => return self.end(why.map(|why| why.to_string())),
            }
            // It may be another ring now.
            self.full = None;
            let place = self.place();
            self.trouble = (!runs).then_some(VhostError::NotStarted { place });
        }
    }
}

/// Connect without waiting for room in the other's backlog.
fn connected(path: &Path) -> std::io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
