//! Types for units that must not be confused; each converts to plain integers in one place.

/// The largest packet that a link or a path carries, in bytes, with the IP header but without the
/// link header.
///
/// An MTU is from 68 (RFC 791) to 65,535 bytes; a link for IPv6 needs at least 1280 (RFC 8200
/// section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mtu(u16);

impl Mtu {
    /// The smallest MTU of an IPv4 link, RFC 791 section 3.2.
    pub const MIN_V4: Mtu = Mtu(68);
    /// The smallest MTU of an IPv6 link, RFC 8200 section 5.
    pub const MIN_V6: Mtu = Mtu(1280);
    /// The MTU of Ethernet.
    pub const ETHERNET: Mtu = Mtu(1500);
    /// The largest IP packet.
    pub const MAX: Mtu = Mtu(65_535);

    /// `bytes` as an MTU, or `None` outside 68 to 65,535.
    pub const fn new(bytes: usize) -> Option<Mtu> {
        if bytes >= 68 && bytes <= 65_535 { Some(Mtu(bytes as u16)) } else { None }
    }

    /// The MTU in bytes.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

/// The maximum TCP payload in a segment without options, in bytes (RFC 9293, 3.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mss(pub u16);

impl Mss {
    /// RFC 9293 MUST-15: the MSS to assume for an IPv4 peer that sends no MSS option.
    pub const DEFAULT_V4: Mss = Mss(536);
    /// RFC 9293 MUST-15: the MSS to assume for an IPv6 peer that sends no MSS option.
    pub const DEFAULT_V6: Mss = Mss(1220);

    /// The MSS to announce on a link of this MTU: the MTU less the fixed IP and TCP headers, RFC
    /// 6691 section 2.
    pub const fn for_mtu(mtu: Mtu, version: crate::IpVersion) -> Mss {
        let headers = match version {
            crate::IpVersion::V4 => 20 + 20,
            crate::IpVersion::V6 => 40 + 20,
        };
        Mss((mtu.bytes().saturating_sub(headers)) as u16)
    }

    /// The MTU for which [`Mss::for_mtu`] gives this MSS; `None` if it would be outside 68 to
    /// 65,535 bytes.
    pub const fn mtu(self, version: crate::IpVersion) -> Option<Mtu> {
        let headers = match version {
            crate::IpVersion::V4 => 20 + 20,
            crate::IpVersion::V6 => 40 + 20,
        };
        Mtu::new(self.bytes() + headers)
    }

    /// The MSS in bytes.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

/// The shift of the window scale option, 0 to 14 (RFC 7323 section 2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowScale(u8);

impl WindowScale {
    /// The largest shift that is allowed.
    pub const MAX: WindowScale = WindowScale(14);

    /// A received shift; above 14 counts as 14, RFC 7323 section 2.3.
    pub const fn new(shift: u8) -> WindowScale {
        WindowScale(if shift > 14 { 14 } else { shift })
    }

    /// The smallest shift with which a 16-bit field can express `bytes`, at most 14.
    pub const fn for_window(bytes: usize) -> WindowScale {
        let mut shift = 0;
        while shift < 14 && (65_535usize << shift) < bytes {
            shift += 1;
        }
        WindowScale(shift)
    }

    /// The shift in bits.
    #[inline(always)]
    pub const fn shift(self) -> u8 {
        self.0
    }

    /// The window in bytes that the window field `field` stands for.
    #[inline(always)]
    pub const fn unscale(self, field: u16) -> u32 {
        (field as u32) << self.0
    }

    /// The field value for `bytes`, rounded down, at most 65,535.
    #[inline(always)]
    pub const fn scale(self, bytes: u32) -> u16 {
        let field = bytes >> self.0;
        if field > 0xffff { 0xffff } else { field as u16 }
    }
}
