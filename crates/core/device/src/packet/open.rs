//! Opens packet sockets: sets the options, makes the ring and binds, in the order that the kernel
//! requires.
//!
//! Called by: programs, once. Sources: packet(7), Linux `Documentation/networking/packet_mmap.rst`.

use core::ffi::c_uint;
use std::os::fd::{AsFd, OwnedFd};

use base::{Drops, LinkKind, Mtu};
use rustix::net::sockopt;

use super::error::refused;
use super::ring::{OVERHEAD, Ring, Shape};
use super::{LONGEST, PacketError, PacketSocket, limits, sys};
use crate::interface;

/// Blocks of the ring must be whole pages; no machine has pages larger than 64 KB.
const PAGE: usize = 64 << 10;

/// `ARPHRD_RAWIP` of Linux `uapi/linux/if_arp.h`.
const RAW_IP: u16 = 519;

/// The send buffer in bytes: it has room for 64 super-segments in the interface's queue.
const SEND_BYTES: usize = 4 << 20;

/// How the kernel delivers frames. docs/decisions/0049-packet-sockets.md compares the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// TPACKET_V2: one slot per frame, as long as the longest frame. We get each frame at once.
    Slots {
        /// The number of slots, from 2 to 4,096; each takes 70 KB.
        count: usize,
    },
    /// TPACKET_V3: blocks that contain as many frames as fit. We get a block when it is full or
    /// after a timeout.
    Blocks {
        /// The number of blocks, from 2 to 1,024.
        count: usize,
        /// Bytes per block: a multiple of 64 KB, from 128 KB to 4 MB.
        bytes: usize,
        /// The timeout of a block in ms, at least 1. A frame waits no longer than this for others.
        wait_ms: u32,
    },
}

impl Default for Receive {
    /// 512 slots, 36 MB of kernel memory: enough for every level of [`crate::mitigation`].
    fn default() -> Receive {
        Receive::Slots { count: 512 }
    }
}

impl Receive {
    /// 16 blocks of 256 KB and the shortest timeout: for floods of small frames.
    pub const BLOCKS: Receive = Receive::Blocks { count: 16, bytes: 256 << 10, wait_ms: 1 };

    pub(super) fn shape(self) -> Result<Shape, PacketError> {
        let bad = |why| Err(PacketError::BadRing { why });
        match self {
            Receive::Slots { count } if !(2..=4096).contains(&count) => {
                bad("it has 2 to 4,096 slots")
            }
            Receive::Blocks { count, .. } if !(2..=1024).contains(&count) => {
                bad("it has 2 to 1,024 blocks")
            }
            Receive::Blocks { bytes, .. }
                if bytes % PAGE != 0 || !(2 * PAGE..=4 << 20).contains(&bytes) =>
            {
                bad("a block has a multiple of 64 KB, from 128 KB to 4 MB")
            }
            Receive::Blocks { wait_ms: 0, .. } => bad("a frame waits 1 ms at least; or use slots"),
            Receive::Slots { count } => {
                let part_len = (LONGEST + OVERHEAD).next_multiple_of(16);
                // 14 slots per run waste less memory than any smaller number.
                let parts_a_run = 14.min(count);
                let run_len = (parts_a_run * part_len).next_multiple_of(PAGE);
                let runs = count.div_ceil(parts_a_run);
                Ok(Shape { blocks: false, part_len, parts_a_run, run_len, runs })
            }
            Receive::Blocks { count: runs, bytes: run_len, .. } => {
                Ok(Shape { blocks: true, part_len: run_len, parts_a_run: 1, run_len, runs })
            }
        }
    }
}

/// How the sockets of a fanout group share an interface's frames: packet(7), `PACKET_FANOUT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fanout {
    /// By flow; both directions of a flow go to the same socket.
    #[default]
    Hash,
    /// Round robin.
    RoundRobin,
    /// By the processor that received the frame.
    Cpu,
    /// To the first socket, and to the next one when its ring is full.
    Rollover,
    /// By the interface's receive queue.
    Queue,
}

impl Fanout {
    fn kind(self) -> c_uint {
        match self {
            Fanout::Hash => libc::PACKET_FANOUT_HASH,
            Fanout::RoundRobin => libc::PACKET_FANOUT_LB,
            Fanout::Cpu => libc::PACKET_FANOUT_CPU,
            Fanout::Rollover => libc::PACKET_FANOUT_ROLLOVER,
            Fanout::Queue => libc::PACKET_FANOUT_QM,
        }
    }
}

/// The interface to open.
#[derive(Clone, Debug)]
pub struct Config {
    /// The interface's name. It must exist.
    pub name: String,
    /// How the kernel delivers frames.
    pub receive: Receive,
    /// Leave checksums and segmentation of sent frames to the kernel. Received frames may have
    /// unfinished checksums or be super-segments in any case; their virtio header says so.
    pub offload: bool,
    /// Receive frames for other stations too.
    pub promiscuous: bool,
    /// The largest packet, if that is less than the interface's MTU.
    pub mtu_max: Option<Mtu>,
    /// The owner waits for the socket's descriptor, and calls [`Device::check_link`] when that has
    /// an error. Otherwise the socket asks the kernel for errors whenever its ring is empty: a
    /// system call each time.
    ///
    /// [`Device::check_link`]: crate::Device::check_link
    pub watched: bool,
}

impl Config {
    /// The interface `name` with slots and offloads, not promiscuous.
    pub fn of(name: &str) -> Config {
        let (receive, name) = (Receive::default(), name.to_owned());
        let (offload, promiscuous, mtu_max, watched) = (true, false, None, false);
        Config { name, receive, offload, promiscuous, mtu_max, watched }
    }
}

impl PacketSocket {
    /// Open an interface. The kernel's own stack receives the interface's frames too, so it must
    /// not have an address there that our stack has. The interface may be down; it is used when it
    /// comes up.
    ///
    /// # Errors
    /// No privilege, no such interface, an unsupported link type, or an invalid ring.
    pub fn open(config: &Config) -> Result<PacketSocket, PacketError> {
        let name = config.name.as_str();
        let fd = sys::socket().map_err(refused("opening a packet socket", name))?;
        let index = interface::index(&fd, name).map_err(refused("reading the index", name))?;
        let link = link(&fd, name)?;
        let mtu = mtu(&fd, config)?;
        let ring = ring(&fd, name, config.receive, Frames::Received)?;
        // Without the privilege the buffer is smaller, and the rest of a burst is pushed back.
        let _ = sockopt::set_socket_send_buffer_size_force(&fd, SEND_BYTES)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&fd, SEND_BYTES));
        let changes = sys::listener().map_err(refused("listening for changes", name))?;
        let mut socket = PacketSocket {
            ring,
            fd,
            changes: Some(changes),
            name: name.to_owned(),
            promiscuous: config.promiscuous,
            grouped: false,
            adopted: false,
            watched: config.watched,
            limits: limits(link, config.offload, mtu),
            pushed_back: false,
            trouble: None,
            unplugged: None,
            drops: Drops::default(),
        };
        socket.bind(index).map_err(refused("binding", name))?;
        if !interface::is_up(&socket.fd, name).map_err(refused("reading the state", name))? {
            socket.down();
        }
        Ok(socket)
    }

    /// Open `count` queues of an interface (at least one), over which the kernel spreads frames:
    /// for as many stacks on as many threads. The interface must be up. Stacks that are not shards
    /// of one host should only listen, because the answer to a frame that one queue has sent may
    /// arrive in another queue.
    ///
    /// # Errors
    /// As [`PacketSocket::open`], and [`PacketError::Down`].
    pub fn open_queues(
        config: &Config,
        fanout: Fanout,
        count: usize,
    ) -> Result<Vec<PacketSocket>, PacketError> {
        let (mut queues, mut group) = (Vec::<PacketSocket>::new(), 0);
        for _ in 0..count.max(1) {
            let mut queue = PacketSocket::open(config)?;
            // The kernel picks an unused group ID for the first one.
            let unique = if queues.is_empty() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
            queue.join(group, fanout.kind() | unique)?;
            let asked = sys::fanout(&queue.fd);
            group = asked.map_err(refused("reading the fanout group", &config.name))?;
            queues.push(queue);
        }
        Ok(queues)
    }

    fn join(&mut self, group: u16, kind_and_flags: c_uint) -> Result<(), PacketError> {
        if let Some(PacketError::Down { name }) = &self.trouble {
            return Err(PacketError::Down { name: name.clone() });
        }
        let joined = sys::join_group(&self.fd, group, kind_and_flags);
        joined.map_err(refused("joining a group of sockets", &self.name))?;
        self.grouped = true;
        Ok(())
    }
}

/// The first Linux whose packet sockets take super-datagrams.
const CUTS_DATAGRAMS: (u32, u32) = (6, 2);

/// Does this kernel take super-datagrams from packet sockets? It says so nowhere but in the error
/// of a frame.
pub(super) fn cuts_datagrams() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_str().unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
    let version = numbers.next().zip(numbers.next());
    version.is_some_and(|version| version >= CUTS_DATAGRAMS)
}

/// The largest packet of an interface, or that of `config` if it is less.
pub(super) fn mtu(fd: &OwnedFd, config: &Config) -> Result<Mtu, PacketError> {
    let name = config.name.as_str();
    let mtu = interface::mtu(fd, name).map_err(refused("reading the MTU", name))?;
    let mtu = Mtu::new(mtu.min(Mtu::MAX.bytes())).unwrap_or(Mtu::ETHERNET);
    Ok(config.mtu_max.map_or(mtu, |most| most.min(mtu)))
}

/// The kind of link header of an interface.
pub(super) fn link(fd: &OwnedFd, name: &str) -> Result<LinkKind, PacketError> {
    let (kind, _) = interface::hardware(fd, name).map_err(refused("reading the type", name))?;
    match kind {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(LinkKind::Ethernet),
        libc::ARPHRD_NONE | RAW_IP => Ok(LinkKind::Ip),
        kind => Err(PacketError::OtherLink { name: name.to_owned(), kind }),
    }
}

/// Which frames a socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frames {
    /// The frames that the interface receives.
    Received,
    /// The frames that the interface receives or sends.
    Both,
}

impl Frames {
    /// Which frames to receive so that each frame of an interface is received once: a loopback
    /// interface receives all frames that it sends.
    pub(super) fn all_of(fd: &OwnedFd, name: &str) -> Result<Frames, PacketError> {
        let (kind, _) = interface::hardware(fd, name).map_err(refused("reading the type", name))?;
        Ok(if kind == libc::ARPHRD_LOOPBACK { Frames::Received } else { Frames::Both })
    }
}

/// Make and map the socket's ring. Before the ring is made, the kernel has to be told its version,
/// and that frames have a virtio header.
pub(super) fn ring(
    fd: &OwnedFd,
    name: &str,
    receive: Receive,
    wanted: Frames,
) -> Result<Ring, PacketError> {
    let shape = receive.shape()?;
    let version = if shape.blocks {
        libc::tpacket_versions::TPACKET_V3
    } else {
        libc::tpacket_versions::TPACKET_V2
    };
    let set = |what, option, value| sys::set_number(fd, option, value).map_err(refused(what, name));
    set("asking for this version of rings", libc::PACKET_VERSION, version as i32)?;
    set("asking for offloads", libc::PACKET_VNET_HDR, 1)?;
    let ignored = i32::from(wanted == Frames::Received);
    set("asking for received frames only", libc::PACKET_IGNORE_OUTGOING, ignored)?;
    let frames = shape.parts_a_run * shape.runs;
    let made = match receive {
        Receive::Slots { .. } => sys::set_ring(
            fd,
            &libc::tpacket_req {
                tp_block_size: shape.run_len as c_uint,
                tp_block_nr: shape.runs as c_uint,
                tp_frame_size: shape.part_len as c_uint,
                tp_frame_nr: frames as c_uint,
            },
        ),
        Receive::Blocks { wait_ms, .. } => sys::set_ring(
            fd,
            &libc::tpacket_req3 {
                tp_block_size: shape.run_len as c_uint,
                tp_block_nr: shape.runs as c_uint,
                tp_frame_size: shape.part_len as c_uint,
                tp_frame_nr: frames as c_uint,
                tp_retire_blk_tov: wait_ms,
                tp_sizeof_priv: 0,
                tp_feature_req_word: 0,
            },
        ),
    };
    made.map_err(refused("making the receive ring", name))?;
    Ring::map(fd.as_fd(), shape).map_err(refused("mapping the receive ring", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(receive: Receive) -> usize {
        receive.shape().expect("a good ring").depth()
    }

    #[test]
    fn a_ring_knows_how_many_frames_it_holds() {
        for count in [2, 14, 15, 512, 4096] {
            // The last run has as many slots as the others.
            let slots = depth(Receive::Slots { count });
            assert!((count..count + 14).contains(&slots), "{slots} for {count}");
        }
        assert!(depth(Receive::default()) >= 512 && depth(Receive::BLOCKS) >= 512, "every level");
        let tight = depth(Receive::Blocks { count: 2, bytes: 128 << 10, wait_ms: 1 });
        assert!((256..512).contains(&tight), "{tight}: not for level 5");
    }

    #[test]
    fn the_default_takes_36_mb() {
        let shape = Receive::default().shape().expect("a good ring");
        assert_eq!(shape.run_len * shape.runs, 37 * (960 << 10));
    }
}
