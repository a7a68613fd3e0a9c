//! What a machine's frontend has told us: features, memory, rings. Here the requests of vhost-user
//! have their effect.
//!
//! Called by: `session.rs`, through crate `vhost`, which has parsed the message; `vhost_user.rs`.
//! QEMU, `docs/interop/vhost-user.rst`. A request that does not fit is an error, which ends the
//! session.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use device::vm::Interest;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_bindings::bindings::{virtio_config, virtio_net, virtio_ring};

use crate::memory::{Memory, REGIONS_MAX};
use crate::ring::Ring;

/// The rings of the one pair of queues: what the guest receives, and what it sends.
pub(crate) const TO_GUEST: usize = 0;
pub(crate) const FROM_GUEST: usize = 1;

/// The number at which a ring's kick is reported: this, and the ring's.
pub(crate) const KICK: u64 = 8;

const fn bit(number: u32) -> u64 {
    1 << number
}

/// The work that the guest leaves to us, and the one that we leave to it. Sections 5.1.3, 6.
pub(crate) mod feature {
    use super::{bit, virtio_config, virtio_net, virtio_ring};

    pub(crate) const GUEST_CSUM: u64 = bit(virtio_net::VIRTIO_NET_F_GUEST_CSUM);
    pub(crate) const GUEST_TSO4: u64 = bit(virtio_net::VIRTIO_NET_F_GUEST_TSO4);
    pub(crate) const GUEST_TSO6: u64 = bit(virtio_net::VIRTIO_NET_F_GUEST_TSO6);
    pub(crate) const GUEST_ECN: u64 = bit(virtio_net::VIRTIO_NET_F_GUEST_ECN);
    pub(crate) const GUEST_USO: u64 =
        bit(virtio_net::VIRTIO_NET_F_GUEST_USO4) | bit(virtio_net::VIRTIO_NET_F_GUEST_USO6);
    pub(crate) const MRG_RXBUF: u64 = bit(virtio_net::VIRTIO_NET_F_MRG_RXBUF);
    pub(crate) const VERSION_1: u64 = bit(virtio_config::VIRTIO_F_VERSION_1);
    pub(crate) const EVENT_IDX: u64 = bit(virtio_ring::VIRTIO_RING_F_EVENT_IDX);

    /// All that we offer to a guest.
    pub(crate) const OFFERED: u64 = GUEST_CSUM
        | GUEST_TSO4
        | GUEST_TSO6
        | GUEST_ECN
        | GUEST_USO
        | MRG_RXBUF
        | VERSION_1
        | EVENT_IDX
        | bit(virtio_ring::VIRTIO_RING_F_INDIRECT_DESC)
        | bit(virtio_net::VIRTIO_NET_F_CSUM)
        | bit(virtio_net::VIRTIO_NET_F_HOST_TSO4)
        | bit(virtio_net::VIRTIO_NET_F_HOST_TSO6)
        | bit(virtio_net::VIRTIO_NET_F_HOST_ECN)
        | bit(virtio_net::VIRTIO_NET_F_HOST_USO);
}

const PROTOCOL: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

/// A machine.
pub(crate) struct Guest {
    interest: Arc<Interest>,
    pub(crate) features: u64,
    /// Are requests answered whose sender asks for it?
    pub(crate) answers: bool,
    pub(crate) memory: Memory,
    pub(crate) rings: [Ring; 2],
}

impl Guest {
    pub(crate) fn new(interest: Arc<Interest>) -> Guest {
        let rings = [Ring::new(), Ring::new()];
        Guest { interest, features: 0, answers: false, memory: Memory::default(), rings }
    }

    /// Has the guest started its card?
    #[inline]
    pub(crate) fn runs(&self) -> bool {
        self.rings.iter().all(Ring::runs)
    }

    /// Bytes of the header in front of each frame.
    #[inline]
    pub(crate) fn header_len(&self) -> usize {
        if self.features & (feature::VERSION_1 | feature::MRG_RXBUF) == 0 { 10 } else { 12 }
    }

    fn ring(&mut self, index: u32) -> Result<&mut Ring> {
        let ring = usize::try_from(index).ok().and_then(|index| self.rings.get_mut(index));
        ring.ok_or(Error::InvalidParam)
    }

    /// Go on in other memory. Rings that are not in it stop.
    fn use_memory(&mut self, memory: Memory) {
        self.memory = memory;
        for ring in &mut self.rings {
            if ring.is_started {
                ring.start(self.memory.regions());
            }
        }
    }

    fn forget(&mut self) {
        self.features = 0;
        for index in 0..self.rings.len() {
            self.stop(index);
        }
    }

    fn stop(&mut self, index: usize) {
        let ring = &mut self.rings[index];
        ring.stop();
        ring.is_enabled = false;
        if let Some(kick) = ring.kick.take() {
            self.interest.remove(&kick);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A child of this process may hold them for a moment longer.
        self.rings.iter().filter_map(|ring| ring.kick.as_ref()).for_each(|kick| {
            self.interest.remove(kick);
        });
    }
}

/// A descriptor at which no call waits.
fn without_waiting(file: File) -> Result<OwnedFd> {
    let fd = OwnedFd::from(file);
    let flags = fcntl_getfl(&fd).map_err(|e| Error::ReqHandlerError(e.into()))?;
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(|e| Error::ReqHandlerError(e.into()))?;
    Ok(fd)
}

/// A request that we have not offered.
fn not_offered<T>() -> Result<T> {
    Err(Error::InvalidOperation("a request that was not offered"))
}

impl VhostUserBackendReqHandlerMut for Guest {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.forget();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.forget();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(feature::OFFERED | PROTOCOL)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !(feature::OFFERED | PROTOCOL) != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        for ring in &mut self.rings {
            ring.set_event_idx(features & feature::EVENT_IDX != 0);
            // Without this feature a ring is enabled from its start.
            if features & PROTOCOL == 0 {
                ring.is_enabled = true;
            }
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let memory = Memory::map(regions, files)?;
        self.use_memory(memory);
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let ring = self.ring(index)?;
        if ring.is_started || !ring.set_size(num) {
            return Err(Error::InvalidParam);
        }
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let places = [descriptor, available, used].map(|at| self.memory.of_frontend(at));
        let [Some(table), Some(available), Some(used)] = places else {
            return Err(Error::InvalidParam);
        };
        let ring = self.ring(index)?;
        if ring.is_started || !ring.set_addresses([table, available, used]) {
            return Err(Error::InvalidParam);
        }
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        let ring = self.ring(index)?;
        if ring.is_started {
            return Err(Error::InvalidParam);
        }
        ring.set_base(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let base = self.ring(index)?.base();
        let is_enabled = self.ring(index)?.is_enabled;
        self.stop(index as usize);
        // A ring that is started again later is as enabled as it was.
        self.ring(index)?.is_enabled = is_enabled;
        Ok(VhostUserVringState::new(index, u32::from(base)))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.ring(u32::from(index))?;
        let Guest { interest, rings, memory, .. } = self;
        let ring = &mut rings[usize::from(index)];
        if let Some(old) = ring.kick.take() {
            interest.remove(&old);
        }
        if let Some(file) = file {
            let kick = without_waiting(file)?;
            let number = KICK + u64::from(index);
            interest.report(&kick, number).map_err(Error::ReqHandlerError)?;
            ring.kick = Some(kick);
        }
        // A ring whose driver is notified of a new kick goes on where it is.
        if !ring.is_started && !ring.start(memory.regions()) {
            return Err(Error::InvalidParam);
        }
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = file.map(without_waiting).transpose()?;
        self.ring(u32::from(index))?.call = call;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        self.ring(u32::from(index)).map(drop)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS | VhostUserProtocolFeatures::RESET_DEVICE)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        self.answers = features & VhostUserProtocolFeatures::REPLY_ACK.bits() != 0;
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        not_offered()
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.ring(index)?.is_enabled = enable;
        Ok(())
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        not_offered()
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        not_offered()
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        not_offered()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        not_offered()
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        not_offered()
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        not_offered()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        let memory = self.memory.clone().with(region, file)?;
        self.use_memory(memory);
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let memory = self.memory.clone().without(region)?;
        self.use_memory(memory);
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        not_offered()
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        not_offered()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        not_offered()
    }
}
