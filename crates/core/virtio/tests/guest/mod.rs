//! A machine in front of our port: the frontend is crate `vhost`'s, and the driver of its network
//! card is written here, small. It is a [`Device`] itself, so a stack can be the guest.

pub(crate) mod driver;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use base::{LinkKind, Mtu};
use device::{Burst, Device, Limits, Offloads, vnet};
use mbuf::{Mbuf, Pool};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use vhost::vhost_user::{
    Frontend, VhostUserFrontend, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
};
use vmm_sys_util::eventfd::EventFd;

pub(crate) use driver::Driver;

/// Features, by their numbers in VIRTIO 1.2.
pub(crate) const CSUM: u64 = 1;
pub(crate) const GUEST_CSUM: u64 = 1 << 1;
pub(crate) const GUEST_TSO: u64 = 1 << 7 | 1 << 8;
pub(crate) const HOST_TSO: u64 = 1 << 11 | 1 << 12;
pub(crate) const MRG_RXBUF: u64 = 1 << 15;
pub(crate) const INDIRECT: u64 = 1 << 28;
pub(crate) const EVENT_IDX: u64 = 1 << 29;
pub(crate) const VERSION_1: u64 = 1 << 32;
pub(crate) const ALL: u64 =
    CSUM | GUEST_CSUM | GUEST_TSO | HOST_TSO | MRG_RXBUF | INDIRECT | EVENT_IDX | VERSION_1;

/// Where the guest's memory begins, and its bytes.
pub(crate) const MEMORY: u64 = 0x1000_0000;
pub(crate) const BYTES: u64 = 24 << 20;

/// Entries of each ring.
pub(crate) const SIZE: u16 = 128;

/// The rings: what the guest receives, what it sends.
pub(crate) const RX: usize = 0;
pub(crate) const TX: usize = 1;

/// A machine with its network card.
pub(crate) struct Guest {
    pub(crate) frontend: Frontend,
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) rings: [Driver; 2],
    pub(crate) features: u64,
    pub(crate) offered: u64,
    mtu: Mtu,
    /// What wakes the guest: the eventfd of its receiving ring.
    called: OwnedFd,
}

/// Make the memory of a guest.
pub(crate) fn memory() -> GuestMemoryMmap {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory");
    ftruncate(&file, BYTES).expect("memory");
    let file = FileOffset::new(File::from(file), 0);
    let range = (GuestAddress(MEMORY), BYTES as usize, Some(file));
    GuestMemoryMmap::from_ranges_with_files([range]).expect("it can be mapped")
}

impl Guest {
    /// Connect to the port at `path`, and start the card with those of `features` that are offered.
    /// Each of its buffers has `room` bytes.
    pub(crate) fn connect(path: &Path, features: u64, room: u32) -> Guest {
        Guest::start_at(Frontend::connect(path, 2).expect("it listens"), features, room)
    }

    /// The same at a frontend that is connected.
    pub(crate) fn start_at(mut frontend: Frontend, features: u64, room: u32) -> Guest {
        let offered = frontend.get_features().expect("an answer");
        let features = features & offered;
        frontend.set_owner().expect("it is ours");
        let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        frontend.set_features(features | protocol).expect("they were offered");
        let known = frontend.get_protocol_features().expect("an answer");
        assert!(known.contains(VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS));
        frontend
            .set_protocol_features(VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
            .expect("they were offered");
        let memory = memory();
        let rings = [RX, TX].map(|number| Driver::new(number, room, features));
        let called = copy_of(rings[RX].call.as_raw_fd());
        let mtu = Mtu::ETHERNET;
        let mut guest = Guest { frontend, memory, rings, features, offered, mtu, called };
        guest.start();
        guest
    }

    pub(crate) fn with_mtu(mut self, mtu: Mtu) -> Guest {
        self.mtu = mtu;
        self
    }

    /// The frontend's address of one of the guest.
    fn at(&self, address: u64) -> u64 {
        self.memory.get_host_address(GuestAddress(address)).expect("it is there") as u64
    }

    fn start(&mut self) {
        let region = self.memory.iter().next().expect("one");
        let file = region.file_offset().expect("a file");
        let info = VhostUserMemoryRegionInfo {
            guest_phys_addr: MEMORY,
            memory_size: BYTES,
            userspace_addr: self.at(MEMORY),
            mmap_offset: 0,
            mmap_handle: file.file().as_raw_fd(),
        };
        self.frontend.set_mem_table(&[info]).expect("it takes memory");
        for number in [RX, TX] {
            self.rings[number].reset(&self.memory);
            self.start_ring(number);
        }
    }

    /// Set a ring up, and enable it.
    pub(crate) fn start_ring(&mut self, number: usize) {
        let ring = &self.rings[number];
        let config = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: self.at(ring.table),
            used_ring_addr: self.at(ring.used),
            avail_ring_addr: self.at(ring.available),
            log_addr: None,
        };
        self.frontend.set_vring_num(number, SIZE).expect("a size");
        self.frontend.set_vring_base(number, ring.base()).expect("a base");
        self.frontend.set_vring_addr(number, &config).expect("addresses");
        self.frontend.set_vring_call(number, &ring.call).expect("an eventfd");
        self.frontend.set_vring_kick(number, &ring.kick).expect("an eventfd");
        self.frontend.set_vring_enable(number, true).expect("it can be enabled");
    }

    /// Stop the rings, and begin again with empty ones.
    pub(crate) fn restart(&mut self) {
        for number in [RX, TX] {
            self.frontend.get_vring_base(number).expect("an answer");
        }
        for number in [RX, TX] {
            self.rings[number].reset(&self.memory);
            self.start_ring(number);
        }
    }

    /// Bytes in front of each frame.
    pub(crate) const HEADER: usize = 12;

    /// Send a frame with a virtio header, in one buffer. `false`: the ring is full.
    pub(crate) fn send(&mut self, header: [u8; 10], frame: &[u8]) -> bool {
        let mut bytes = vec![0; Guest::HEADER + frame.len()];
        bytes[..10].copy_from_slice(&header);
        bytes[Guest::HEADER..].copy_from_slice(frame);
        self.rings[TX].collect(&self.memory, |_, _| {});
        self.rings[TX].send(&self.memory, &bytes)
    }

    /// The next received frame with its header, of the buffers that it came in.
    pub(crate) fn receive(&mut self) -> Option<(vnet::Header, Vec<u8>)> {
        let (mut bytes, mut rest) = (Vec::new(), 1_u16);
        let (memory, ring) = (&self.memory, &mut self.rings[RX]);
        while rest > 0 {
            let (at, len) = match ring.take(memory) {
                Some(taken) => taken,
                None => {
                    assert!(bytes.is_empty(), "a frame became visible in parts");
                    return None;
                }
            };
            let mut part = vec![0; len as usize];
            memory.read_slice(&mut part, GuestAddress(at)).expect("it is there");
            if bytes.is_empty() {
                rest = u16::from_le_bytes([part[10], part[11]]);
                assert!(rest >= 1, "a frame in no buffer");
            }
            bytes.extend_from_slice(&part);
            rest -= 1;
        }
        ring.refill(memory);
        let mut header = [0; vnet::LEN_MAX];
        header[..10].copy_from_slice(&bytes[..10]);
        Some((vnet::Header::from_bytes(&header), bytes.split_off(Guest::HEADER)))
    }

    /// Was the guest called for this ring since the last time?
    pub(crate) fn was_called(&self, ring: usize) -> bool {
        self.rings[ring].call.read().is_ok()
    }
}

/// A descriptor of ours once more: the eventfd cannot be borrowed.
fn copy_of(fd: RawFd) -> OwnedFd {
    let own = Pid::from_raw(std::process::id() as i32).expect("a process");
    let own = pidfd_open(own, PidfdFlags::empty()).expect("a descriptor");
    pidfd_getfd(own, fd, PidfdGetfdFlags::empty()).expect("it is open")
}

/// An eventfd that does not wait.
pub(crate) fn eventfd() -> EventFd {
    EventFd::new(rustix::event::EventfdFlags::NONBLOCK.bits() as i32).expect("an eventfd")
}

impl Device for Guest {
    fn limits(&self) -> Limits {
        let has = |bits| self.features & bits != 0;
        let most = |bits| if has(bits) { 65_535 + 14 } else { 0 };
        Limits {
            link: LinkKind::Ethernet,
            mtu: self.mtu,
            max_frame: self.mtu.bytes() + 22,
            max_segments: 1,
            tx_depth: usize::from(SIZE),
            offloads: Offloads {
                tx_checksum: has(CSUM),
                rx_checksum: has(GUEST_CSUM),
                tso_max_bytes: most(HOST_TSO),
                ..Offloads::default()
            },
        }
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        self.was_called(RX);
        while !into.is_full() {
            let Some((header, bytes)) = self.receive() else { break };
            let mut frame = pool.copy_of(&bytes).expect("memory");
            header.describe(&mut frame).expect("it fits");
            into.push(frame);
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let mut taken = 0;
        let send = |guest: &mut Guest, frame: &Mbuf| {
            let header = vnet::Header::of(frame, LinkKind::Ethernet).expect("it is right");
            guest.send(header.to_bytes(), frame.as_slice())
        };
        while taken < from.len() && send(self, &from[taken]) {
            taken += 1;
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        taken
    }

    fn rx_ready(&self) -> bool {
        self.rings[RX].ask_for_calls(&self.memory);
        self.rings[RX].has_used(&self.memory)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.called.as_fd())
    }

    fn tx_ready(&self) -> bool {
        self.rings[TX].has_used(&self.memory) || self.rings[TX].has_free()
    }

    /// Nothing wakes the guest when its ring for sending has room again.
    fn is_unfinished(&self) -> bool {
        !self.rings[TX].has_free()
    }

    fn link_up(&self) -> bool {
        true
    }
}
