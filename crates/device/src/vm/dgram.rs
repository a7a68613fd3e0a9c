//! Frames as datagrams.
//!
//! Called by: the stack; programs that open one. Must not know: what frames hold.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use base::{DropReason, Drops, Mtu};
use mbuf::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::name::Name;
use super::{LONGEST, VmError, limits, refused};
use crate::{Burst, Device, Limits};

/// A virtual machine's network over a datagram socket.
pub struct Dgram {
    socket: UnixDatagram,
    remote: PathBuf,
    limits: Limits,
    room: Vec<u8>,
    pushed_back: bool,
    drops: Drops,
    /// Kept for its end.
    _name: Name,
}

impl Dgram {
    /// Receive at `local`, which is made, and send to `remote`, which need not be there yet.
    ///
    /// # Errors
    /// The socket cannot be made, or something else is there.
    pub fn bind(local: &Path, remote: &Path) -> Result<Dgram, VmError> {
        let (socket, name) = Name::bind("receiving at", local, || UnixDatagram::bind(local))?;
        socket.set_nonblocking(true).map_err(VmError::refused("setting up", local))?;
        Ok(Dgram {
            socket,
            remote: remote.to_owned(),
            limits: limits(Mtu::ETHERNET),
            room: vec![0; LONGEST],
            pushed_back: false,
            drops: Drops::default(),
            _name: name,
        })
    }

    /// The largest packet, from now on; both ends have to agree. Before it is given to a stack.
    #[must_use]
    pub fn with_mtu(mut self, mtu: Mtu) -> Dgram {
        self.limits = limits(mtu);
        self
    }

    fn is_ready_for(&self, events: PollFlags) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.socket, events)], Some(&now)).is_ok_and(|n| n > 0)
    }
}

impl Device for Dgram {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        // As many looks as there is room, so that frames to be dropped cannot hold us here.
        for _ in 0..into.remaining_capacity() {
            let len = match self.socket.recv(&mut self.room) {
                Ok(len) => len,
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
        self.pushed_back = false;
        let mut taken = 0;
        while let Some(frame) = from.get(taken) {
            if frame.len() > self.limits.max_frame {
                self.drops.count(DropReason::DeviceFrameTooBig);
            } else {
                match self.socket.send_to(frame.as_slice(), &self.remote) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.pushed_back = true;
                        break;
                    }
                    Err(_) => self.drops.count(DropReason::DeviceLinkDown),
                }
            }
            taken += 1;
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        taken
    }

    fn rx_ready(&self) -> bool {
        self.is_ready_for(PollFlags::IN)
    }

    fn tx_ready(&self) -> bool {
        !self.pushed_back || self.is_ready_for(PollFlags::OUT)
    }

    fn link_up(&self) -> bool {
        true
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}
