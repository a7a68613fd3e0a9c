//! A steady flow of numbered datagrams, and who saw them when: a capture of all interfaces of a
//! namespace, with the kernel's times. Called by the rows of bench `frr` about links.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType,
    SockaddrStorage, recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeVal, TimeValLike};

use super::space::Space;

/// The port that the flow goes to.
pub(super) const PORT: u16 = 5_202;
/// The time between two datagrams.
pub(super) const INTERVAL: Duration = Duration::from_millis(1);
/// Bytes of a datagram; its number is at the beginning.
const PAYLOAD: usize = 18;
/// Where the datagram is behind the headers of Ethernet, IPv4 without options, and UDP.
const PAYLOAD_AT: usize = 14 + 20 + 8;
/// Datagrams that are remembered; those before are forgotten. It is a minute of the flow at four
/// interfaces.
const SEEN_MAX: usize = 240_000;
/// Bytes that wait in the capture's socket: some seconds of the flow.
const ROOM: usize = 16 << 20;
/// How long the capture sleeps until it looks whether it is to end.
const LOOK: i64 = 50;

/// A datagram at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// When, by the system's clock in nanoseconds.
    pub(super) at_ns: u64,
    /// The interface's number.
    pub(super) interface: u32,
    /// The datagram's number.
    pub(super) number: u64,
}

/// A thread that repeats something until this value is dropped.
pub(super) struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Repeats `step`, which should not take long.
    pub(super) fn new(mut step: impl FnMut() + Send + 'static) -> Worker {
        let stop = Arc::<AtomicBool>::default();
        let own = Arc::clone(&stop);
        let repeat = move || {
            while !own.load(Ordering::Relaxed) {
                step();
            }
        };
        Worker { stop, thread: Some(std::thread::spawn(repeat)) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("    a thread of a flow panicked");
        }
    }
}

/// The flow.
pub(super) struct Flow(Worker);

impl Flow {
    /// Begins to send to an address from a namespace, one datagram each [`INTERVAL`]. A datagram
    /// that is late is sent at once, so that none is left out.
    ///
    /// # Errors
    /// There is no such socket.
    pub(super) fn begin(space: &Space, to: SocketAddr) -> Result<Flow> {
        let socket = space.within(|| {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(to)?;
            Ok(socket)
        });
        let socket = socket.context("making the flow's socket")?;
        let (begun, mut number, mut payload) = (Instant::now(), 0_u64, [0; PAYLOAD]);
        Ok(Flow(Worker::new(move || {
            payload[..8].copy_from_slice(&number.to_be_bytes());
            // An error is an answer of a router to a datagram before: it was sent to say that
            // nothing arrives.
            let _ = socket.send(&payload);
            number += 1;
            let due = begun + INTERVAL * u32::try_from(number).unwrap_or(u32::MAX);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        })))
    }

    /// Does it go on?
    pub(super) fn is_alive(&self) -> bool {
        self.0.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

/// The capture.
pub(super) struct Watch {
    _worker: Worker,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Watch {
    /// Begins to capture the flow at all interfaces of a namespace.
    ///
    /// # Errors
    /// Without root.
    pub(super) fn at(space: &Space) -> Result<Watch> {
        let fd = space.within(|| {
            let protocol = SockProtocol::EthAll;
            let flags = SockFlag::SOCK_CLOEXEC;
            let fd = socket(AddressFamily::Packet, SockType::Raw, flags, protocol)?;
            setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
            setsockopt(&fd, sockopt::RcvBufForce, &ROOM)?;
            setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(LOOK))?;
            Ok(fd)
        });
        let fd = fd.context("capturing a flow")?;
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let own = Arc::clone(&seen);
        let worker = Worker::new(move || {
            let Some(one) = next(&fd) else { return };
            let mut seen = own.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() == SEEN_MAX {
                seen.clear();
            }
            seen.push(one);
        });
        Ok(Watch { _worker: worker, seen })
    }

    /// Takes what was seen since the last call, in the order in which it was captured.
    pub(super) fn take(&self) -> Vec<Seen> {
        core::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The next datagram of the flow; `None` if something else came, or nothing for a moment.
fn next(fd: &OwnedFd) -> Option<Seen> {
    let (mut frame, mut control) = ([0; 2_048], nix::cmsg_space!(TimeSpec));
    let mut room = [IoSliceMut::new(&mut frame)];
    let flags = MsgFlags::empty();
    let got = recvmsg::<SockaddrStorage>(fd.as_raw_fd(), &mut room, Some(&mut control), flags);
    let got = match got {
        Ok(got) => got,
        Err(Errno::EAGAIN | Errno::EINTR) => return None,
        Err(errno) => {
            eprintln!("    capturing a flow: {errno}");
            return None;
        }
    };
    let at = got.cmsgs().ok()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(at) => Some(at),
        _ => None,
    })?;
    let interface = got.address?.as_link_addr()?.ifindex();
    let len = got.bytes;
    let number = number_of(frame.get(..len)?)?;
    let at_ns = u64::try_from(at.num_nanoseconds()).ok()?;
    Some(Seen { at_ns, interface: u32::try_from(interface).ok()?, number })
}

/// The number of a datagram of the flow; `None` if the frame has none.
fn number_of(frame: &[u8]) -> Option<u64> {
    let is_udp = frame.get(12..15)? == [8, 0, 0x45] && frame.get(23) == Some(&17);
    let is_flow = is_udp && frame.get(36..38)? == PORT.to_be_bytes();
    let number = frame.get(PAYLOAD_AT..PAYLOAD_AT + 8)?.try_into().ok()?;
    is_flow.then(|| u64::from_be_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_is_known_by_its_port() {
        let mut frame = vec![0; 60];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[23] = 17;
        frame[36..38].copy_from_slice(&PORT.to_be_bytes());
        frame[49] = 7;
        assert_eq!(number_of(&frame), Some(7));
        assert_eq!(number_of(&frame[..49]), None);
        frame[37] ^= 1;
        assert_eq!(number_of(&frame), None);
        assert_eq!(number_of(&[]), None);
    }
}
