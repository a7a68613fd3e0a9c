//! Opens a TAP or TUN by name, opens several queues of one, or adopts a descriptor.
//!
//! Called by: programs, once. Sources: the kernel's `Documentation/networking/tuntap.rst`,
//! `uapi/linux/if_tun.h`.

use core::ffi::c_int;
use std::os::fd::{AsFd, OwnedFd};

use base::{LinkKind, Mtu};
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::ring::Ring;
use super::{BURST_BYTES, Tap, TapError, Work, error, sys};
use crate::{interface, vnet};

/// The interface to open.
#[derive(Clone, Debug)]
pub struct Config {
    /// The interface's name, at most 15 bytes. If the interface does not exist it is created, and
    /// it is deleted with its last descriptor. `None`: the kernel chooses the first free name of
    /// `tap0`, `tap1` and so on, or `tun0`, `tun1` and so on.
    pub name: Option<String>,
    /// Ethernet frames (TAP) or bare IP packets (TUN).
    pub link: LinkKind,
    /// Use checksum offload and super-segments in both directions, with a virtio header before each
    /// frame.
    pub vnet_hdr: bool,
    /// Allow several queues: several [`Tap`]s of one interface, over which the kernel spreads
    /// flows.
    pub multi_queue: bool,
    /// Write a burst by one system call (io_uring) instead of one call for each frame. If the
    /// kernel lacks or forbids io_uring, each frame is a write.
    pub io_uring: bool,
    /// A received burst ends with the frame with which it has at least this many bytes.
    /// `usize::MAX` turns this limit off.
    pub burst_bytes: usize,
}

impl Default for Config {
    /// A TAP with offloads, named by the kernel, one queue, bursts by io_uring.
    fn default() -> Config {
        Config {
            name: None,
            link: LinkKind::Ethernet,
            vnet_hdr: true,
            multi_queue: false,
            io_uring: true,
            burst_bytes: BURST_BYTES,
        }
    }
}

/// What frames an adopted descriptor carries, if the kernel cannot be asked: the descriptor is a
/// socket, or queries are forbidden (Android). If the kernel answers for a TAP or TUN, its answer
/// counts instead, except for the MTU.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    /// The kind of link header.
    pub link: LinkKind,
    /// Bytes of virtio header before each frame: 0 for none, else 10 to 32.
    pub vnet_header_len: usize,
    /// The largest packet, link header not included. The kernel cannot be asked for it by a
    /// descriptor.
    pub mtu: Mtu,
    /// With a virtio header: do both sides leave super-segments of TCP and unfinished checksums to
    /// each other?
    pub offloads: bool,
    /// With `offloads`: super-datagrams of UDP too? [`Offloads::uso_max_bytes`] of the [`Tap`] that
    /// opened it says so.
    ///
    /// [`Offloads::uso_max_bytes`]: crate::Offloads::uso_max_bytes
    pub uso: bool,
}

impl Default for Declared {
    /// Bare IP packets of at most 1,500 bytes without a virtio header, as VPN services pass them.
    /// If there is a virtio header nevertheless, offloads for TCP.
    fn default() -> Declared {
        let (link, mtu) = (LinkKind::Ip, Mtu::ETHERNET);
        Declared { link, vnet_header_len: 0, mtu, offloads: true, uso: false }
    }
}

impl Tap {
    /// Open an interface, or create it if it does not exist. A new interface is down and has no
    /// addresses until [`Tap::configure`] or another program configures it.
    ///
    /// # Errors
    /// There is no driver or no privilege, or the name is too long, is in use, or is that of
    /// another kind of interface.
    pub fn open(config: &Config) -> Result<Tap, TapError> {
        let name = config.name.as_deref().unwrap_or("");
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = open("/dev/net/tun", flags, Mode::empty()).map_err(error::opening)?;
        let name =
            sys::set_iff(&fd, name, iff_flags(config)).map_err(|e| error::attaching(name, e))?;
        let mut header = (0, Work::None);
        if config.vnet_hdr {
            let refused = |e| error::refused("asking for offloads", &name, e);
            sys::set_vnet_header_len(&fd, vnet::LEN as c_int).map_err(refused)?;
            header = (vnet::LEN, ask_for_offloads(&fd).map_err(refused)?);
        }
        let mtu = interface::inquirer(AddressFamily::INET)
            .and_then(|asked| interface::mtu(&asked, &name));
        let mtu = mtu.ok().and_then(Mtu::new).unwrap_or(Mtu::ETHERNET);
        let mut tap = Tap::around(fd, name, config.link, header, mtu);
        tap.burst_bytes = config.burst_bytes;
        tap.ring = if config.io_uring { Ring::new().map(Box::new) } else { None };
        Ok(tap)
    }

    /// Turn offloads on or off for an interface that was opened with [`Config::vnet_hdr`]; each of
    /// its queues needs the call. Call it before a stack has the device: [`crate::Device::limits`]
    /// change.
    ///
    /// # Errors
    /// [`TapError::Refused`].
    pub fn set_offloads(&mut self, on: bool) -> Result<(), TapError> {
        if self.header_len == 0 || on == (self.work != Work::None) {
            return Ok(());
        }
        let asked = match on {
            true => ask_for_offloads(&self.fd),
            false => sys::set_offload(&self.fd, 0).map(|()| Work::None),
        };
        self.work = asked.map_err(|e| error::refused("asking for offloads", &self.name, e))?;
        self.set_mtu(self.limits.mtu);
        Ok(())
    }

    /// Open `count` queues of one interface (at least one), for as many stacks on as many threads.
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn open_queues(config: &Config, count: usize) -> Result<Vec<Tap>, TapError> {
        let mut config = Config { multi_queue: true, ..config.clone() };
        let mut queues = vec![Tap::open(&config)?];
        config.name = Some(queues[0].name().to_owned());
        while queues.len() < count {
            queues.push(Tap::open(&config)?);
        }
        Ok(queues)
    }

    /// Adopt a descriptor that another program opened and configured: a TAP, a TUN, a macvtap, or a
    /// datagram or seqpacket socket with one frame per message. The kernel is asked what the
    /// descriptor is; if that fails, `declared` counts. The descriptor becomes non-blocking, for
    /// everyone who shares it; nothing else changes, so this needs no privilege.
    ///
    /// # Errors
    /// [`TapError::BadDescriptor`], with the reason.
    pub fn adopt(fd: OwnedFd, declared: &Declared) -> Result<Tap, TapError> {
        usable(&fd)?;
        let (name, link, header_len) = match sys::iff(&fd) {
            Ok((_, flags)) if flags & libc::IFF_NO_PI == 0 => {
                return Err(bad("it was opened without IFF_NO_PI"));
            }
            Ok((name, flags)) => {
                let tap = flags & libc::IFF_TAP != 0;
                let link = if tap { LinkKind::Ethernet } else { LinkKind::Ip };
                let vnet = flags & libc::IFF_VNET_HDR != 0;
                let len = if vnet { header_len_of(&fd, declared) } else { 0 };
                (name, link, len)
            }
            Err(Errno::BADFD) => return Err(bad("it is not attached to an interface yet")),
            Err(_) => (String::new(), declared.link, declared.vnet_header_len),
        };
        if header_len != 0 && !(vnet::LEN..=vnet::LEN_MAX).contains(&header_len) {
            return Err(bad("its virtio header is not of 10 to 32 bytes"));
        }
        let work = match (header_len > 0 && declared.offloads, declared.uso) {
            (false, _) => Work::None,
            (true, false) => Work::Tcp,
            (true, true) => Work::TcpAndUdp,
        };
        let unblocked = fcntl_getfl(&fd).and_then(|f| fcntl_setfl(&fd, f | OFlags::NONBLOCK));
        unblocked.map_err(|_| bad("it cannot be made non-blocking"))?;
        Ok(Tap::around(fd, name, link, (header_len, work), declared.mtu))
    }
}

fn iff_flags(config: &Config) -> c_int {
    let kind = match config.link {
        LinkKind::Ethernet => libc::IFF_TAP,
        LinkKind::Ip => libc::IFF_TUN,
    };
    let when = |on, flag| if on { flag } else { 0 };
    kind | libc::IFF_NO_PI
        | when(config.vnet_hdr, libc::IFF_VNET_HDR)
        | when(config.multi_queue, libc::IFF_MULTI_QUEUE)
}

/// Let the kernel send us frames with unfinished checksums, and super-segments. We also ask for
/// those of connections with ECN, and for super-datagrams of UDP. If the kernel refuses these two,
/// it is asked again without them.
fn ask_for_offloads(fd: impl AsFd) -> Result<Work, Errno> {
    let plain = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    let with_ecn = plain | libc::TUN_F_TSO_ECN;
    let with_udp = with_ecn | libc::TUN_F_USO4 | libc::TUN_F_USO6;
    sys::set_offload(&fd, with_udp)
        .map(|()| Work::TcpAndUdp)
        .or_else(|_| sys::set_offload(&fd, with_ecn).map(|()| Work::Tcp))
        .or_else(|_| sys::set_offload(&fd, plain).map(|()| Work::Tcp))
}

fn header_len_of(fd: impl AsFd, declared: &Declared) -> usize {
    let fallback = if declared.vnet_header_len == 0 { vnet::LEN } else { declared.vnet_header_len };
    sys::vnet_header_len(fd).map_or(fallback, |len| usize::try_from(len).unwrap_or(0))
}

/// Check that the descriptor can carry frames in both directions and keeps them apart.
fn usable(fd: &OwnedFd) -> Result<(), TapError> {
    let flags = fcntl_getfl(fd).map_err(|_| bad("it is not open"))?;
    if flags & OFlags::RWMODE != OFlags::RDWR {
        return Err(bad("it is not open for both reading and writing"));
    }
    let stat = fstat(fd).map_err(|_| bad("it is not open"))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => Ok(()),
        FileType::Socket => match sockopt::socket_type(fd) {
            Ok(SocketType::DGRAM | SocketType::SEQPACKET | SocketType::RAW) => Ok(()),
            _ => Err(bad("a stream socket does not keep frames apart")),
        },
        _ => Err(bad("it is neither a device nor a socket")),
    }
}

fn bad(why: &'static str) -> TapError {
    TapError::BadDescriptor { why }
}
