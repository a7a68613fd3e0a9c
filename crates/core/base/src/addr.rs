//! Link addresses and networks. IP addresses are those of `core::net`.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// The two versions of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IP version 4, RFC 791.
    V4,
    /// IP version 6, RFC 8200.
    V6,
}

impl IpVersion {
    /// The IP version of an address.
    pub const fn of(addr: &IpAddr) -> IpVersion {
        match addr {
            IpAddr::V4(_) => IpVersion::V4,
            IpAddr::V6(_) => IpVersion::V6,
        }
    }
}

/// The header that a port's frames begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// An Ethernet header.
    Ethernet,
    /// The IP header itself (TUN, raw IP).
    Ip,
}

impl LinkKind {
    /// The length in bytes of the link header in front of the IP header.
    #[inline(always)]
    pub const fn header_len(self) -> usize {
        match self {
            LinkKind::Ethernet => 14,
            LinkKind::Ip => 0,
        }
    }
}

/// An Ethernet address.
///
/// ```
/// # use wirespeed_base as wirespeed;
/// use wirespeed::MacAddr;
///
/// let mac: MacAddr = "02:00:00:00:00:01".parse()?;
/// assert_eq!(mac, MacAddr([2, 0, 0, 0, 0, 1]));
/// assert!(!mac.is_group());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address, all ones.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Are the two addresses equal? Cheaper than `==` if both are in memory.
    #[inline(always)]
    pub const fn is(self, other: MacAddr) -> bool {
        let ([a, b, c, d, e, f], [k, l, m, n, o, p]) = (self.0, other.0);
        let first = u32::from_ne_bytes([a, b, c, d]) ^ u32::from_ne_bytes([k, l, m, n]);
        let rest = u16::from_ne_bytes([e, f]) ^ u16::from_ne_bytes([o, p]);
        first | rest as u32 == 0
    }

    /// Is it the broadcast address or a multicast address? Tests the group bit of the first byte
    /// (IEEE 802.3 section 3.2.3).
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Six bytes in hexadecimal, one or two digits each, separated by colons.
impl FromStr for MacAddr {
    type Err = InvalidMac;

    fn from_str(text: &str) -> Result<MacAddr, InvalidMac> {
        let (mut bytes, mut parts) = ([0; 6], text.split(':'));
        for byte in &mut bytes {
            let part = parts.next().ok_or(InvalidMac)?;
            let is_short =
                matches!(part.len(), 1 | 2) && part.bytes().all(|b| b.is_ascii_hexdigit());
            let read = u8::from_str_radix(part, 16).ok().filter(|_| is_short);
            *byte = read.ok_or(InvalidMac)?;
        }
        if parts.next().is_some() { Err(InvalidMac) } else { Ok(MacAddr(bytes)) }
    }
}

/// The error of parsing a [`MacAddr`]: the text is not six hexadecimal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMac;

impl fmt::Display for InvalidMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a link address has six bytes, as 02:0:0:0:0:1")
    }
}

impl core::error::Error for InvalidMac {}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An IP address with a prefix length, for example `192.0.2.1/24`.
///
/// ```
/// # use wirespeed_base as wirespeed;
/// use wirespeed::Cidr;
///
/// let cidr: Cidr = "192.0.2.1/24".parse()?;
/// assert!(cidr.contains("192.0.2.200".parse()?));
/// assert_eq!(cidr.network(), "192.0.2.0/24".parse()?);
/// assert!("192.0.2.1/33".parse::<Cidr>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    /// The address, with its host bits.
    pub addr: IpAddr,
    /// The prefix length in bits: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub prefix_len: u8,
}

impl Cidr {
    /// The network that contains only `addr`: `/32` or `/128`.
    pub const fn host(addr: IpAddr) -> Cidr {
        Cidr { addr, prefix_len: if addr.is_ipv4() { 32 } else { 128 } }
    }

    /// `addr/prefix_len`, or `None` if the prefix is longer than the address.
    pub const fn new(addr: IpAddr, prefix_len: u8) -> Option<Cidr> {
        let max = match addr {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        if prefix_len <= max { Some(Cidr { addr, prefix_len }) } else { None }
    }

    /// The network: the address without its host bits.
    pub fn network(&self) -> Cidr {
        let addr = match self.addr {
            IpAddr::V4(a) => IpAddr::V4((a.to_bits() & mask_v4(self.prefix_len)).into()),
            IpAddr::V6(a) => IpAddr::V6((a.to_bits() & mask_v6(self.prefix_len)).into()),
        };
        Cidr { addr, prefix_len: self.prefix_len }
    }

    /// Is `other` of the same version and inside this network?
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.addr, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let mask = mask_v4(self.prefix_len);
                a.to_bits() & mask == b.to_bits() & mask
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let mask = mask_v6(self.prefix_len);
                a.to_bits() & mask == b.to_bits() & mask
            }
            _ => false,
        }
    }
}

#[inline]
fn mask_v4(prefix_len: u8) -> u32 {
    (u64::from(u32::MAX) << (32 - u32::from(prefix_len).min(32))) as u32
}

#[inline]
fn mask_v6(prefix_len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix_len).min(128)).unwrap_or(0)
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix_len)
    }
}

/// The error of parsing a [`Cidr`]: the text is not `ADDRESS/LENGTH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CidrError;

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected ADDRESS/LENGTH, as in 192.0.2.1/24 or 2001:db8::1/64")
    }
}

impl core::error::Error for CidrError {}

impl FromStr for Cidr {
    type Err = CidrError;
    fn from_str(text: &str) -> Result<Cidr, CidrError> {
        let (addr, len) = text.split_once('/').ok_or(CidrError)?;
        let addr: IpAddr = addr.parse().map_err(|_| CidrError)?;
        Cidr::new(addr, len.parse().map_err(|_| CidrError)?).ok_or(CidrError)
    }
}

/// The all-zero address of an IP version; as a local address it means any address of this host.
pub const fn unspecified(version: IpVersion) -> IpAddr {
    match version {
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpVersion::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
