//! A machine's memory, as its frontend describes it: regions of files, each at an address of the
//! guest and at one of the frontend. Addresses of rings are the frontend's.
//!
//! Called by: `guest.rs`. QEMU, `docs/interop/vhost-user.rst`, "Memory region description".
//!
//! A frontend that makes a file shorter while it is mapped ends this process (SIGBUS): that is in
//! the power of the machine's monitor, which runs for the same user, and not of the guest. QEMU's
//! memfd is sealed against it.

use std::fs::File;
use std::sync::Arc;

use vhost::vhost_user::Error;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap};

/// Regions at most: as many as one message has room for.
pub(crate) const REGIONS_MAX: usize = 32;

/// The mapped regions.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    regions: GuestMemoryMmap,
    spans: Vec<Span>,
}

/// Where a region is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Span {
    guest: u64,
    frontend: u64,
    bytes: u64,
}

impl Span {
    fn of(region: &VhostUserMemoryRegion) -> Span {
        let VhostUserMemoryRegion { guest_phys_addr: guest, user_addr: frontend, .. } = *region;
        Span { guest, frontend, bytes: region.memory_size }
    }
}

impl Memory {
    /// Map these regions, in the place of all others.
    ///
    /// # Errors
    /// The files are too few or too short, or regions overlap.
    pub(crate) fn map(
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> Result<Memory, Error> {
        if regions.len() != files.len() {
            return Err(Error::IncorrectFds);
        }
        let mut both = regions.iter().zip(files);
        both.try_fold(Memory::default(), |memory, (region, file)| memory.with(region, file))
    }

    /// Map one region more.
    ///
    /// # Errors
    /// As [`Memory::map`]; there are too many regions.
    pub(crate) fn with(
        mut self,
        region: &VhostUserMemoryRegion,
        file: File,
    ) -> Result<Memory, Error> {
        let span = Span::of(region);
        // Two regions at one address of the frontend would give an address two meanings.
        let overlaps = |other: &Span| {
            span.frontend < other.frontend.saturating_add(other.bytes)
                && other.frontend < span.frontend.saturating_add(span.bytes)
        };
        let is_too_much = self.spans.len() >= REGIONS_MAX;
        if is_too_much || usize::try_from(span.bytes).is_err() || self.spans.iter().any(overlaps) {
            return Err(Error::InvalidParam);
        }
        let mapped = region.mmap_region(file)?;
        let guest = GuestAddress(span.guest);
        let mapped = GuestRegionMmap::new(mapped, guest).ok_or(Error::InvalidParam)?;
        let all = self.regions.insert_region(Arc::new(mapped));
        self.regions = all.map_err(|_| Error::InvalidParam)?;
        self.spans.push(span);
        Ok(self)
    }

    /// Unmap a region.
    ///
    /// # Errors
    /// There is no such region.
    pub(crate) fn without(mut self, region: &VhostUserMemoryRegion) -> Result<Memory, Error> {
        let span = Span::of(region);
        let at = self.spans.iter().position(|known| *known == span);
        let at = at.ok_or(Error::InvalidParam)?;
        let rest = self.regions.remove_region(GuestAddress(span.guest), span.bytes);
        (self.regions, _) = rest.map_err(|_| Error::InvalidParam)?;
        self.spans.swap_remove(at);
        Ok(self)
    }

    /// The guest's address for one of the frontend's.
    pub(crate) fn of_frontend(&self, address: u64) -> Option<u64> {
        self.spans.iter().find_map(|span| {
            let within = address.checked_sub(span.frontend)?;
            (within < span.bytes).then(|| span.guest + within)
        })
    }

    /// The regions, for reading and writing.
    pub(crate) fn regions(&self) -> &GuestMemoryMmap {
        &self.regions
    }
}
