//! A virtual machine at the other end of a socket, in QEMU's framing: `-netdev stream`, where each
//! frame is preceded by its length (32 bits, big-endian), and `-netdev dgram`, one frame per
//! datagram. vfkit and libkrun have datagrams, too, and [`Dgram::listen`] is for them; passt's
//! socket is a [`Stream`].
//!
//! Called by: the stack, once per burst; programs that open one; crate `virtio`, whose machines
//! share their memory, for [`Interest`] and [`Name`]. Counters: [`drops`](crate::Device::drops), by
//! reason. Source: QEMU, `docs/system/devices/net.rst`, `net/stream.c`.
//!
//! ```no_run
//! # mod wirespeed { pub use wirespeed_device as device; }
//! use wirespeed::device::vm::Stream;
//!
//! // qemu-system-x86_64 -netdev stream,id=n,server=off,addr.type=unix,addr.path=/run/vm.sock ...
//! let mut port = Stream::listen("/run/vm.sock".as_ref())?;
//! # Ok::<(), wirespeed::device::vm::VmError>(())
//! ```
//!
//! There are no offloads: a frame arrives as it was sent.
//!
//! A process that has given up the files may use sockets that another one made: [`Bound`] makes
//! one, and [`Stream::from_listener`] and [`Dgram::from_socket`] use it.
//!
//! # When the other end goes
//! - A [`Stream`] that listens: frames for it are freed and counted as
//!   [`DropReason::DeviceLinkDown`] until the next machine connects, which then uses the link.
//! - A [`Stream`] that connected: gone for good.
//! - An invalid length: the stream is out of sync, and the connection is closed.
//! - A [`Dgram`] is not connected: frames without a receiver are dropped and counted.
//!
//! [`Device::as_fd`](crate::Device::as_fd) is one descriptor for a port's whole life, over all
//! connections. It is readable when there are frames, when a machine connects or disconnects, and
//! when a socket can take more of the bytes that wait to be sent; the driver need not ask for that.

mod dgram;
mod error;
mod stream;

use std::fs::Metadata;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::{fs, io};

use arrayvec::ArrayVec;
use base::{DropReason, LinkKind, Mtu};
pub use dgram::Dgram;
pub use error::VmError;
use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
pub use stream::Stream;

use crate::{Limits, Offloads};

/// The longest frame that QEMU sends or accepts, `NET_BUFSIZE`.
const LONGEST: usize = 4096 + 65536;

/// The most numbers of one call of [`Interest::news`]; the others are due at the next one.
const NEWS: usize = 8;

/// The declared transmit depth; only a hint.
const DEPTH: usize = 256;

fn limits(mtu: Mtu) -> Limits {
    Limits {
        link: LinkKind::Ethernet,
        mtu,
        // An Ethernet header with two tags.
        max_frame: mtu.bytes() + 14 + 8,
        max_segments: 1,
        tx_depth: DEPTH,
        offloads: Offloads::default(),
    }
}

/// The reason to drop a received frame of this length, if any.
fn refused(len: usize, limits: &Limits) -> Option<DropReason> {
    (len > limits.max_frame).then_some(DropReason::DeviceFrameTooBig)
}

/// Is one of these events pending now, or an error or hang-up?
pub fn is_ready(fd: &impl AsFd, events: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, events)], Some(&now)).is_ok_and(|n| n > 0)
}

// The descriptor on which a driver sleeps for a port's whole life: an epoll instance that is
// readable when a socket in it has an awaited event.
//
// A driver registers a descriptor by its number, and the kernel drops the registration when the
// descriptor is closed. If the driver got the sockets themselves, a second machine's socket could
// get the same number, and its events would be missed. The epoll instance also reports that
// a socket is writable. The driver would not wait for that, because it does not know that bytes are
// waiting. And each port of a VLAN trunk keeps a duplicate of the descriptor: a duplicate of a
// socket would keep its connection open, a duplicate of the epoll instance does not.

/// The events that a port waits for at its sockets.
pub struct Interest(OwnedFd);

impl Interest {
    /// No events yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Interest> {
        epoll::create(CreateFlags::CLOEXEC).map(Interest).map_err(io::Error::from)
    }

    /// Report `number` once for each time at which this descriptor becomes readable, or has an
    /// error. A descriptor of a peer that stays readable wakes nobody for ever.
    ///
    /// # Errors
    /// The descriptor is of a kind that cannot be waited for, or is registered already.
    pub fn report(&self, descriptor: &impl AsFd, number: u64) -> io::Result<()> {
        let events = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.0, descriptor, EventData::new_u64(number), events).map_err(io::Error::from)
    }

    /// Take the numbers that are due, by one call.
    pub fn news(&self) -> ArrayVec<u64, NEWS> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; NEWS];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&self.0, &mut events[..], Some(&now)).unwrap_or(0);
        events.iter().take(count).map(|event| event.data.u64()).collect()
    }

    /// Wait for these events at a new socket.
    fn add(&self, socket: &impl AsFd, events: EventFlags) -> io::Result<()> {
        epoll::add(&self.0, socket, EventData::new_u64(0), events).map_err(io::Error::from)
    }

    /// Change the events to wait for at a socket. Events that are pending
    /// already are reported, too.
    fn change(&self, socket: &impl AsFd, events: EventFlags) -> io::Result<()> {
        epoll::modify(&self.0, socket, EventData::new_u64(0), events).map_err(io::Error::from)
    }

    /// Remove a socket. Closing it is not enough: a child of this process may hold it for a moment
    /// longer.
    pub fn remove(&self, socket: &impl AsFd) {
        // An error means that the socket is not registered, which is what the caller wants.
        let _ = epoll::delete(&self.0, socket);
    }

    /// Is an awaited event pending?
    pub fn has_news(&self) -> bool {
        is_ready(&self.0, PollFlags::IN)
    }
}

impl AsFd for Interest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

// The path of our socket in the file system. It is created if the path is free or has a dead
// socket, and it is removed with the socket. Any other file is not touched.

/// A socket at a path, which is removed with this.
pub struct Bound<S> {
    socket: S,
    name: Name,
}

impl<S> Bound<S> {
    /// The socket, and what removes its path.
    pub fn into_parts(self) -> (S, Name) {
        (self.socket, self.name)
    }
}

impl Bound<UnixListener> {
    /// A listener for [`Stream::from_listener`]. A dead socket at `path` is replaced.
    ///
    /// # Errors
    /// The socket cannot be made, or another file is there.
    pub fn listener(path: &Path) -> Result<Self, VmError> {
        Name::bind("listening at", path, || UnixListener::bind(path))
    }
}

impl Bound<UnixDatagram> {
    /// A socket for [`Dgram::from_socket`]. A dead socket at `path` is replaced.
    ///
    /// # Errors
    /// As [`Bound::listener`].
    pub fn datagram(path: &Path) -> Result<Self, VmError> {
        Name::bind("receiving at", path, || UnixDatagram::bind(path))
    }
}

impl<S> Bound<S> {
    /// The socket.
    pub fn socket(&self) -> &S {
        &self.socket
    }
}

/// A path that is removed when this is dropped, unless another file has replaced it.
pub struct Name {
    path: PathBuf,
    /// The file's identity: device and inode.
    file: (u64, u64),
}

impl Name {
    /// Make a socket at `path` with `bind`; `what` describes the attempt in an error.
    ///
    /// # Errors
    /// Another file is there, or a socket that somebody uses; the errors of `bind`.
    pub fn bind<S>(
        what: &'static str,
        path: &Path,
        bind: impl FnOnce() -> io::Result<S>,
    ) -> Result<Bound<S>, VmError> {
        remove_stale(path)?;
        let socket = bind().map_err(VmError::refused(what, path))?;
        let made = fs::symlink_metadata(path).map_err(VmError::refused(what, path))?;
        Ok(Bound { socket, name: Name { path: path.to_owned(), file: file(&made) } })
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|there| file(&there) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Remove the socket of a program that ended without removing it.
fn remove_stale(path: &Path) -> Result<(), VmError> {
    // If the path cannot be read, making the socket will return the reason.
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
    let place = || path.display().to_string();
    // connect(2) fails with the same error for a file that is not a socket as for a dead socket.
    if !there.file_type().is_socket() {
        return Err(VmError::NotASocket { place: place() });
    }
    // Probe with a datagram socket, whatever the type of the other socket is. A stream listener
    // would have to accept a stream connection or keep it waiting, but to a datagram socket Linux
    // answers EPROTOTYPE.
    let asked = UnixDatagram::unbound().and_then(|asker| asker.connect(path));
    let Err(error) = asked else { return Err(VmError::InUse { place: place() }) };
    match Errno::from_io_error(&error) {
        Some(Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(VmError::refused("removing the dead socket at", path))
        }
        Some(Errno::NOENT) => Ok(()),
        // A live socket of another type, or a socket that is connected to another peer.
        Some(Errno::PROTOTYPE | Errno::PERM) => Err(VmError::InUse { place: place() }),
        _ => Err(error).map_err(VmError::refused("looking who is at", path)),
    }
}
