//! A virtual machine's network with one frame per datagram.
//!
//! Called by: the stack; programs that open one.
//!
//! A frame finds no room if our socket's buffer or the other end's queue is full. Only a connected
//! socket is notified of room in that queue, and our socket is not connected: otherwise the kernel
//! would refuse the frames of a restarted machine until something was sent to that machine. So
//! while the queue is full, a second socket is connected as a probe. The probe sends nothing.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use base::{DropReason, Drops, Mtu};
use mbuf::Pool;
use rustix::event::PollFlags;
use rustix::event::epoll::EventFlags;

use super::{Bound, Interest, LONGEST, Name, VmError, is_ready, limits, refused};
use crate::{Burst, Device, Limits};

/// The greeting of a machine of Apple's Virtualization framework, and of those that imitate it
/// (vfkit, libkrun): a datagram that is no frame.
const GREETING: &[u8] = b"VFKT";

/// Where a pushed-back frame waits for room.
#[derive(Clone, Copy)]
enum Full {
    /// In our socket's buffer.
    Ours,
    /// In the other end's queue.
    Theirs,
}

/// Where the machine is.
enum Machine {
    /// At this address.
    At(SocketAddr),
    /// It is the one that sent last; `None` until the first datagram.
    Last(Option<SocketAddr>),
    /// At the other end of the socket, which is connected.
    Peer,
}

impl Machine {
    /// The one with a socket there.
    fn of(local: &Path, remote: &Path) -> Result<Machine, VmError> {
        let remote = SocketAddr::from_pathname(remote);
        remote.map(Machine::At).map_err(VmError::refused("sending to", local))
    }
}

/// A virtual machine's network over a datagram socket.
pub struct Dgram {
    socket: UnixDatagram,
    /// A second socket. While it is connected, it is notified of room in the other end's queue.
    probe: UnixDatagram,
    machine: Machine,
    interest: Interest,
    limits: Limits,
    room: Vec<u8>,
    full: Option<Full>,
    drops: Drops,
    /// Removes its path, if that is ours to remove.
    _name: Option<Name>,
}

impl Dgram {
    /// Make a socket at `local`, and send to `remote`, which need not exist yet.
    ///
    /// # Errors
    /// The socket cannot be made, or another file is there.
    pub fn bind(local: &Path, remote: &Path) -> Result<Dgram, VmError> {
        Dgram::at(local, Machine::of(local, remote)?)
    }

    /// Make a socket at `local` for a machine that has a socket of its own and sends first: vfkit,
    /// libkrun and others that gvisor-tap-vsock serves. The machine is the one that sent last;
    /// until then frames are dropped as [`DropReason::DeviceLinkDown`]. Their greeting is no frame.
    ///
    /// # Errors
    /// The socket cannot be made, or another file is there.
    pub fn listen(local: &Path) -> Result<Dgram, VmError> {
        Dgram::at(local, Machine::Last(None))
    }

    /// As [`Dgram::bind`] with a `remote`, else as [`Dgram::listen`], with a socket that is bound
    /// to `local`. Its path is not removed.
    ///
    /// # Errors
    /// It cannot be set up.
    pub fn from_socket(
        socket: UnixDatagram,
        local: &Path,
        remote: Option<&Path>,
    ) -> Result<Dgram, VmError> {
        let machine = match remote {
            Some(remote) => Machine::of(local, remote)?,
            None => Machine::Last(None),
        };
        Dgram::over(socket, machine, local, None)
    }

    /// Use a socket that is connected, one end of a socketpair(2), with a machine at the other end.
    ///
    /// # Errors
    /// The socket cannot be set up.
    pub fn adopt(socket: UnixDatagram) -> Result<Dgram, VmError> {
        Dgram::over(socket, Machine::Peer, "a socket that was passed to us".as_ref(), None)
    }

    fn at(local: &Path, machine: Machine) -> Result<Dgram, VmError> {
        let Bound { socket, name } = Bound::datagram(local)?;
        Dgram::over(socket, machine, local, Some(name))
    }

    fn over(
        socket: UnixDatagram,
        machine: Machine,
        local: &Path,
        name: Option<Name>,
    ) -> Result<Dgram, VmError> {
        let refused = || VmError::refused("setting up", local);
        socket.set_nonblocking(true).map_err(refused())?;
        let probe = UnixDatagram::unbound().map_err(refused())?;
        let interest = Interest::new().map_err(refused())?;
        interest.add(&socket, EventFlags::IN).map_err(refused())?;
        Ok(Dgram {
            socket,
            probe,
            machine,
            interest,
            limits: limits(Mtu::ETHERNET),
            room: vec![0; LONGEST],
            full: None,
            drops: Drops::default(),
            _name: name,
        })
    }

    /// Set the largest packet; both ends have to agree. Call this before a stack has the device.
    #[must_use]
    pub fn with_mtu(mut self, mtu: Mtu) -> Dgram {
        self.limits = limits(mtu);
        self
    }

    /// A frame found no room: find out where room is missing, and wait for room there. If that
    /// fails because the other end is gone, `full` is `None`, and the frame can be offered again at
    /// once.
    fn wait_for_room(&mut self) {
        let waits = if is_ready(&self.socket, PollFlags::OUT) {
            // Connect again each time: there may be another machine at that path.
            let connected = match &self.machine {
                Machine::At(remote) | Machine::Last(Some(remote)) => {
                    self.probe.connect_addr(remote)
                }
                Machine::Last(None) | Machine::Peer => Ok(()),
            };
            let waits = connected.and_then(|()| self.interest.add(&self.probe, EventFlags::OUT));
            waits.map(|()| Full::Theirs)
        } else {
            let events = EventFlags::IN | EventFlags::OUT;
            self.interest.change(&self.socket, events).map(|()| Full::Ours)
        };
        self.full = waits.ok();
    }

    fn send(&self, frame: &[u8]) -> io::Result<usize> {
        match &self.machine {
            Machine::At(remote) | Machine::Last(Some(remote)) => {
                self.socket.send_to_addr(frame, remote)
            }
            Machine::Last(None) => Err(ErrorKind::NotConnected.into()),
            Machine::Peer => self.socket.send(frame),
        }
    }

    fn wait_no_longer(&mut self) {
        match self.full.take() {
            Some(Full::Theirs) => self.interest.remove(&self.probe),
            Some(Full::Ours) => {
                // The socket is registered, so this cannot fail.
                let _ = self.interest.change(&self.socket, EventFlags::IN);
            }
            None => {}
        }
    }
}

impl Device for Dgram {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        // A driver that was woken for room may have nothing to send any more, so stop waiting for
        // room.
        if self.full.is_some() && self.tx_ready() {
            self.wait_no_longer();
        }
        let before = into.len();
        // Take no more frames than there was room for, so that dropped frames cannot keep this loop
        // running.
        for _ in 0..into.remaining_capacity() {
            let len = match self.socket.recv_from(&mut self.room) {
                Ok((len, from)) => {
                    if let Machine::Last(last) = &mut self.machine {
                        *last = Some(from).filter(|from| !from.is_unnamed());
                    }
                    if !matches!(self.machine, Machine::At(_)) && &self.room[..len] == GREETING {
                        continue;
                    }
                    len
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            if let Some(reason) = refused(len, &self.limits) {
                self.drops.count(reason);
            } else if let Some(frame) = pool.copy_of(&self.room[..len]) {
                into.push(frame);
            } else {
                self.drops.count(DropReason::MbufExhausted);
            }
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        if self.full.is_some() && !self.tx_ready() {
            // A stack offers frames in every call: one system call is enough to refuse them.
            return 0;
        }
        self.wait_no_longer();
        let mut taken = 0;
        while let Some(frame) = from.get(taken) {
            if frame.len() > self.limits.max_frame {
                self.drops.count(DropReason::DeviceFrameTooBig);
            } else {
                match self.send(frame.as_slice()) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.wait_for_room();
                        break;
                    }
                    // There is no receiver. For the next frame the path is looked up again.
                    Err(_) => self.drops.count(DropReason::DeviceLinkDown),
                }
            }
            taken += 1;
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        taken
    }

    fn rx_ready(&self) -> bool {
        is_ready(&self.socket, PollFlags::IN)
    }

    fn tx_ready(&self) -> bool {
        match self.full {
            None => true,
            Some(Full::Ours) => is_ready(&self.socket, PollFlags::OUT),
            Some(Full::Theirs) => is_ready(&self.probe, PollFlags::OUT),
        }
    }

    fn link_up(&self) -> bool {
        true
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.interest.as_fd())
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}
