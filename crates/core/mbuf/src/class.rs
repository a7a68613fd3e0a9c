//! Size classes. A buffer object is [header: one cache line][headroom: two lines][payload: n
//! lines], so the payload starts on a cache line. Every stride is an odd number of lines, so that
//! the headers of adjacent objects do not fall into the same set of the cache.

/// Bytes of a new buffer in front of its payload, for headers: Ethernet with two tags (22), IPv6
/// (40) and TCP with all its options (60) fit.
pub const HEADROOM: usize = 128;

/// Bytes of a cache line. Under loom, whose cells are larger, enough bytes for a header.
pub(crate) const LINE: usize = if cfg!(loom) { 4096 } else { 64 };

/// The size and kind of the memory that an mbuf's header describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// A header without a cluster, which points into another buffer's cluster.
    Share = 0,
    /// 1,920 bytes after the headroom: an Ethernet frame.
    K2 = 1,
    /// 3,968 bytes after the headroom.
    K4 = 2,
    /// 16,256 bytes after the headroom.
    K16 = 3,
    /// 65,664 bytes after the headroom: the largest IP packet.
    K64 = 4,
}

impl Class {
    pub(crate) const COUNT: usize = 5;
    pub(crate) const CLUSTERS: [Class; 4] = [Class::K2, Class::K4, Class::K16, Class::K64];

    /// The smallest class that has room for `bytes` after the headroom. `None` for more than
    /// 65,664.
    #[inline]
    pub const fn for_len(bytes: usize) -> Option<Class> {
        if bytes <= Class::K2.capacity() {
            Some(Class::K2)
        } else if bytes <= Class::K4.capacity() {
            Some(Class::K4)
        } else if bytes <= Class::K16.capacity() {
            Some(Class::K16)
        } else if bytes <= Class::K64.capacity() {
            Some(Class::K64)
        } else {
            None
        }
    }

    /// Size of the whole object in cache lines of 64 bytes, by class. A table avoids a branch on
    /// the class.
    const LINES: [u16; Class::COUNT] = [1, 33, 65, 257, 1029];

    /// Size of the whole object in bytes.
    #[inline(always)]
    pub const fn stride(self) -> usize {
        Class::LINES[self as usize] as usize * LINE
    }

    /// Bytes of the cluster, headroom included.
    #[inline(always)]
    pub(crate) const fn cluster(self) -> usize {
        self.stride() - LINE
    }

    const CAPACITIES: [u32; Class::COUNT] = {
        let (mut capacities, mut i) = ([0; Class::COUNT], 0);
        while i < Class::COUNT {
            let bytes = Class::LINES[i] as usize * LINE;
            capacities[i] = bytes.saturating_sub(LINE + HEADROOM) as u32;
            i += 1;
        }
        capacities
    };

    /// Bytes after the headroom.
    #[inline(always)]
    pub const fn capacity(self) -> usize {
        Class::CAPACITIES[self as usize] as usize
    }

    /// Objects per slab: 260 to 528 KB of buffers, or 16 KB of shares.
    pub(crate) const fn slab_objects(self) -> usize {
        match self {
            Class::Share => 256,
            Class::K2 => 256,
            Class::K4 => 64,
            Class::K16 => 32,
            Class::K64 => 8,
        }
    }
}
