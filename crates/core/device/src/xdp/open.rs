//! Opens AF_XDP sockets: makes memory and rings, attaches the program, binds to the queues.
//!
//! Called by: programs, once. Source: Linux `Documentation/networking/af_xdp.rst`.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Drops, LinkKind, Mtu};
use mbuf::{Class, FrameLayout, Frames};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use super::error::refused;
use super::program::{Program, QUEUES_MAX};
use super::ring::{Mapping, Ring};
use super::{XdpError, XdpSocket, limits};
use crate::interface;

/// Entries of the receive and fill rings, and of the transmit and completion rings.
pub(super) const RECEIVE: u32 = 2048;
pub(super) const TRANSMIT: u32 = 1024;

/// Frames in the shared memory: enough for the rings, and `RECEIVE` more for programs to hold.
pub(super) const FRAMES: u32 = 2 * RECEIVE + TRANSMIT;

/// Headroom that the kernel keeps in front of each received frame, in bytes.
const KERNELS: usize = 256;

/// A link header with two tags.
const LINK_MAX: usize = 14 + 8;

/// The kernel requires whole pages; no machine has pages larger than this.
const PAGE: usize = 64 << 10;

/// The layout of the shared memory, and the chunk size that is given to the kernel, in bytes.
#[derive(Clone, Copy)]
struct Memory {
    layout: FrameLayout,
    chunk: usize,
}

impl Memory {
    /// For copy mode: chunks may have any address; these are chosen so that they spread over cache
    /// sets.
    const COPIED: [Memory; 2] = [
        Memory { layout: FrameLayout::of(Class::K2), chunk: 2048 },
        Memory { layout: FrameLayout::of(Class::K4), chunk: 4096 },
    ];
    /// For zero copy, where a device writes into the memory: no frame crosses a page.
    const PAGES: [Memory; 1] =
        [Memory { layout: FrameLayout { class: Class::K2, stride: 4096 }, chunk: 4096 }];

    fn choice(config: &Config) -> &'static [Memory] {
        if config.zero_copy { &Memory::PAGES } else { &Memory::COPIED }
    }

    /// The largest MTU of an interface whose packets fit into one frame, in bytes.
    fn mtu_max(&self) -> usize {
        self.chunk.min(self.layout.class.stride()) - KERNELS - LINK_MAX
    }

    fn flags(&self) -> XdpUmemRegFlags {
        if self.chunk == self.layout.stride {
            XdpUmemRegFlags::empty()
        } else {
            XdpUmemRegFlags::XDP_UMEM_UNALIGNED_CHUNK_FLAG
        }
    }
}

/// The interface to open.
#[derive(Clone, Debug)]
pub struct Config {
    /// The interface's name. It must exist and have no XDP program.
    pub name: String,
    /// Use generic XDP, which works with every driver, even if the driver has native XDP.
    pub generic: bool,
    /// Let the device access our memory itself. Untested, for lack of such a device.
    pub zero_copy: bool,
}

impl Config {
    /// The interface `name`, native XDP if the driver has it, copy mode.
    pub fn of(name: &str) -> Config {
        Config { name: name.to_owned(), generic: false, zero_copy: false }
    }
}

impl XdpSocket {
    /// Open queue 0 of an interface. Frames of other queues go to the kernel's stack.
    ///
    /// # Errors
    /// No privilege, no such interface, an unsupported link or MTU, or another XDP program.
    pub fn open(config: &Config) -> Result<XdpSocket, XdpError> {
        let mut queues = XdpSocket::open_queues(config, 1)?;
        let none = XdpError::NoQueue { name: config.name.clone(), queue: 0 };
        queues.pop().ok_or(none)
    }

    /// Open the first `count` queues of an interface (at least one), for as many stacks on as many
    /// threads. The device spreads flows over the queues. The XDP program is detached when the last
    /// of them is closed.
    ///
    /// # Errors
    /// As [`XdpSocket::open`], and [`XdpError::NoQueue`].
    pub fn open_queues(config: &Config, count: u32) -> Result<Vec<XdpSocket>, XdpError> {
        let name = config.name.as_str();
        let count = count.max(1);
        if count > QUEUES_MAX {
            return Err(XdpError::NoQueue { name: name.to_owned(), queue: QUEUES_MAX });
        }
        let asked = interface::inquirer(AddressFamily::INET).map_err(refused("asking", name))?;
        let index = interface::index(&asked, name).map_err(refused("the number", name))?;
        let (kind, _) = interface::hardware(&asked, name).map_err(refused("the kind", name))?;
        if kind != libc::ARPHRD_ETHER {
            return Err(XdpError::NotEthernet { name: name.to_owned() });
        }
        let mtu = interface::mtu(&asked, name).map_err(refused("the MTU", name))?;
        let choice = Memory::choice(config);
        let fitting = choice.iter().find(|memory| mtu <= memory.mtu_max());
        let Some((&memory, mtu)) = fitting.zip(Mtu::new(mtu)) else {
            let largest = choice.iter().map(Memory::mtu_max).max().unwrap_or(0);
            return Err(XdpError::MtuTooLarge { name: name.to_owned(), largest });
        };
        let program = Program::attach(index, config.generic);
        let program = Arc::new(program.map_err(refused("attaching the program", name))?);
        let queue = |queue| {
            let asked = asked.try_clone().map_err(|_| Errno::MFILE);
            let asked = asked.map_err(refused("asking", name))?;
            let mut socket = shared(config, asked, memory, program.clone(), queue)?;
            socket.limits = limits(mtu);
            socket.bind(index, queue, config.zero_copy)?;
            Ok(socket)
        };
        (0..count).map(queue).collect()
    }

    /// Fill the fill ring, bind to the queue, and redirect the queue's frames to this socket.
    fn bind(&mut self, index: i32, queue: u32, zero_copy: bool) -> Result<(), XdpError> {
        let name = self.name.clone();
        self.index = index;
        self.refill();
        let how =
            if zero_copy { SocketAddrXdpFlags::XDP_ZEROCOPY } else { SocketAddrXdpFlags::XDP_COPY };
        let how = how | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let address = SocketAddrXdp::new(how, index as u32, queue);
        patiently(|| bind(&self.fd, &address)).map_err(|errno| match errno {
            Errno::INVAL | Errno::OPNOTSUPP => XdpError::NoQueue { name: name.clone(), queue },
            errno => refused("binding to a queue", &name)(errno),
        })?;
        let given = self.program.give(queue, &self.fd);
        given.map_err(refused("handing a queue to the socket", &name))?;
        if interface::is_up(&self.asked, &name) != Ok(true) {
            self.trouble = Some(XdpError::Down { name });
        }
        Ok(())
    }
}

/// How long to wait until a queue is free, and the interval of the tries.
const TIMEOUT: Duration = Duration::from_secs(2);
const TRY_INTERVAL: Duration = Duration::from_millis(5);

/// Try again while the queue is busy: the kernel frees the queue of a closed socket later, in a
/// worker thread.
fn patiently(mut bind: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    let start = Instant::now();
    loop {
        match bind() {
            Err(Errno::BUSY) if start.elapsed() < TIMEOUT => std::thread::sleep(TRY_INTERVAL),
            bound => return bound,
        }
    }
}

/// A socket with its memory and rings, not bound yet.
fn shared(
    config: &Config,
    asked: OwnedFd,
    memory: Memory,
    program: Arc<Program>,
    queue: u32,
) -> Result<XdpSocket, XdpError> {
    let name = config.name.as_str();
    let refused = |what| refused(what, name);
    let flags = SocketFlags::CLOEXEC;
    let fd = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
        .map_err(refused("opening an AF_XDP socket"))?;
    let bytes = (FRAMES as usize * memory.layout.stride).next_multiple_of(PAGE);
    let frames = Mapping::anonymous(bytes)
        .and_then(|mapping| Frames::new(memory.layout, mapping).ok_or(Errno::NOMEM));
    let mut frames = frames.map_err(refused("memory for frames"))?;
    let registered = XdpUmemReg {
        addr: frames.address(),
        len: frames.bytes() as u64,
        chunk_size: memory.chunk as u32,
        headroom: 0,
        flags: memory.flags(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(&fd, registered).map_err(refused("sharing memory"))?;
    sockopt::set_xdp_umem_fill_ring_size(&fd, RECEIVE)
        .and_then(|()| sockopt::set_xdp_umem_completion_ring_size(&fd, TRANSMIT))
        .and_then(|()| sockopt::set_xdp_rx_ring_size(&fd, RECEIVE))
        .and_then(|()| sockopt::set_xdp_tx_ring_size(&fd, TRANSMIT))
        .map_err(refused("making the rings"))?;
    let at = sockopt::xdp_mmap_offsets(&fd).map_err(refused("making the rings"))?;
    let map = "mapping the rings";
    // Frames are sent from after the reserved bytes, which still belong to the mbuf.
    let lent = (0..TRANSMIT).filter_map(|_| frames.lend());
    let free = lent.map(|offset| offset + Frames::RESERVED as u64).collect();
    Ok(XdpSocket {
        fill: Ring::map(&fd, XDP_UMEM_PGOFF_FILL_RING, at.fr, RECEIVE).map_err(refused(map))?,
        completion: Ring::map(&fd, XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, TRANSMIT)
            .map_err(refused(map))?,
        rx: Ring::map(&fd, XDP_PGOFF_RX_RING, at.rx, RECEIVE).map_err(refused(map))?,
        tx: Ring::map(&fd, XDP_PGOFF_TX_RING, at.tx, TRANSMIT).map_err(refused(map))?,
        fd,
        asked,
        program,
        frames,
        emptied: Vec::with_capacity(RECEIVE as usize),
        free,
        name: name.to_owned(),
        index: 0,
        queue,
        limits: limits(Mtu::ETHERNET),
        pushed_back: false,
        fruitless: 0,
        idle: 0,
        lost: [0; 3],
        trouble: None,
        drops: Drops::default(),
    })
}

const _: () = assert!(RECEIVE.is_power_of_two() && TRANSMIT.is_power_of_two());
const _: () = assert!(LINK_MAX == LinkKind::Ethernet.header_len() + 8);
