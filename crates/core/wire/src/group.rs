//! The common parts of IGMP and MLD messages: queries, group records, codes of times.
//!
//! Called by: `igmp`, `mld`, which check the header that precedes these parts, and `inet::group`.
//! IGMPv3 and MLDv2 differ in the size of an address and in one code. RFC 3376 sections 4.1 and
//! 4.2, RFC 3810 sections 5.1 and 5.2.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{DropReason, Duration, IpVersion};

use crate::bytes::{array, be16};

/// Bytes before the records of a report; also the bytes of a message of the older versions of IGMP.
pub const HEADER_LEN: usize = 8;

/// The version of a message by IGMP's numbers. MLDv1 corresponds to IGMPv2 and MLDv2 to IGMPv3 (RFC
/// 3810 section 1); no MLD has [`Version::V1`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// IGMPv1, RFC 1112.
    V1,
    /// IGMPv2, RFC 2236; MLDv1, RFC 2710.
    V2,
    /// IGMPv3, RFC 3376; MLDv2, RFC 3810.
    V3,
}

/// A message of IGMP or MLD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A query from a router.
    Query(Query<'a>),
    /// A host of an older version reports that it is a member.
    Report(Version, IpAddr),
    /// A host of an older version has left the group (MLDv1: done).
    Leave(IpAddr),
    /// The groups that a host has joined, with a record for each group.
    Records(Records<'a>),
}

/// A query for memberships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// The version of its sender.
    pub version: Version,
    /// The queried group; `None`: all groups.
    pub group: Option<IpAddr>,
    /// Answers are to be sent within this time.
    pub max_response: Duration,
    /// The querier's robustness variable; 0: unknown.
    pub robustness: u8,
    /// The querier's query interval; zero: unknown.
    pub interval: Duration,
    /// The queried sources; empty: all sources.
    pub sources: Addresses<'a>,
}

/// Consecutive addresses of one IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses<'a> {
    bytes: &'a [u8],
    version: IpVersion,
}

impl<'a> Addresses<'a> {
    /// No addresses.
    pub(crate) const NONE: Addresses<'static> = Addresses { bytes: &[], version: IpVersion::V4 };

    /// Returns the first `count` addresses in `bytes`, and the bytes that follow them.
    pub(crate) fn split(
        bytes: &'a [u8],
        count: u16,
        version: IpVersion,
    ) -> Result<(Addresses<'a>, &'a [u8]), DropReason> {
        let len = usize::from(count) * address_len(version);
        let (bytes, rest) = bytes.split_at_checked(len).ok_or(DropReason::GroupMalformed)?;
        Ok((Addresses { bytes, version }, rest))
    }

    /// The number of addresses.
    pub fn len(&self) -> usize {
        self.bytes.len() / address_len(self.version)
    }

    /// Are there no addresses?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The addresses in their order.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + 'a {
        let version = self.version;
        self.bytes.chunks_exact(address_len(version)).filter_map(move |b| address(b, version))
    }
}

/// Bytes of an address.
pub(crate) const fn address_len(version: IpVersion) -> usize {
    match version {
        IpVersion::V4 => 4,
        IpVersion::V6 => 16,
    }
}

/// The address at the start of `bytes`.
pub(crate) fn address(bytes: &[u8], version: IpVersion) -> Option<IpAddr> {
    Some(match version {
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk::<4>()?)),
        IpVersion::V6 => IpAddr::V6(Ipv6Addr::from(*bytes.first_chunk::<16>()?)),
    })
}

/// The type of a record: what it reports about its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// The filter is INCLUDE with these sources.
    IsInclude = 1,
    /// The filter is EXCLUDE with these sources.
    IsExclude = 2,
    /// The filter has become INCLUDE with these sources.
    ToInclude = 3,
    /// The filter has become EXCLUDE with these sources.
    ToExclude = 4,
    /// These sources are also received from now on.
    Allow = 5,
    /// These sources are no longer received.
    Block = 6,
}

impl RecordKind {
    fn of(number: u8) -> Option<RecordKind> {
        Some(match number {
            1 => RecordKind::IsInclude,
            2 => RecordKind::IsExclude,
            3 => RecordKind::ToInclude,
            4 => RecordKind::ToExclude,
            5 => RecordKind::Allow,
            6 => RecordKind::Block,
            _ => return None,
        })
    }
}

/// A group record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its type.
    pub kind: RecordKind,
    /// The group that it is about.
    pub group: IpAddr,
    /// The sources that it is about.
    pub sources: Addresses<'a>,
}

/// The records of a report; records of unknown types are left out (RFC 3376 section 4.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    bytes: &'a [u8],
    count: u16,
    version: IpVersion,
}

impl<'a> Records<'a> {
    /// The records that follow a report's header. Each of them is checked.
    pub(crate) fn parse(message: &'a [u8], version: IpVersion) -> Result<Records<'a>, DropReason> {
        let (b, bytes) =
            message.split_first_chunk::<HEADER_LEN>().ok_or(DropReason::GroupMalformed)?;
        let all = Records { bytes, count: be16(b, 6), version };
        let mut rest = bytes;
        for _ in 0..all.count {
            rest = split_record(rest, version)?.1;
        }
        Ok(all)
    }

    /// The records in their order.
    pub fn iter(&self) -> impl Iterator<Item = Record<'a>> + 'a {
        let (mut rest, version) = (self.bytes, self.version);
        let one = move |_| {
            let (record, behind) = split_record(rest, version).ok()?;
            rest = behind;
            Some(record)
        };
        (0..self.count).map_while(one).flatten()
    }
}

/// Returns a record, or `None` if its type is unknown, and the bytes that follow it.
fn split_record(
    bytes: &[u8],
    version: IpVersion,
) -> Result<(Option<Record<'_>>, &[u8]), DropReason> {
    const SHORT: DropReason = DropReason::GroupMalformed;
    let (head, rest) = bytes.split_first_chunk::<4>().ok_or(SHORT)?;
    let group = address(rest, version).ok_or(SHORT)?;
    let rest = rest.get(address_len(version)..).ok_or(SHORT)?;
    let (sources, rest) = Addresses::split(rest, be16(head, 2), version)?;
    // Auxiliary data, in words of 4 bytes, is skipped.
    let rest = rest.get(usize::from(head[1]) * 4..).ok_or(SHORT)?;
    let record = RecordKind::of(head[0]).map(|kind| Record { kind, group, sources });
    Ok((record, rest))
}

/// The time that a code of 8 bits stands for, in its unit: RFC 3376 sections 4.1.1 and 4.1.7.
pub const fn of_code(code: u8) -> u64 {
    let (exponent, mantissa) = ((code >> 4) & 7, code as u64 & 0xf);
    if code < 128 { code as u64 } else { (mantissa | 0x10) << (exponent + 3) }
}

/// The time that a code of 16 bits stands for, in its unit: RFC 3810 section 5.1.3.
pub const fn of_long_code(code: u16) -> u64 {
    let (exponent, mantissa) = ((code >> 12) & 7, code as u64 & 0xfff);
    if code < 32_768 { code as u64 } else { (mantissa | 0x1000) << (exponent + 3) }
}

/// The fields after the group in a query of IGMPv3 and MLDv2: flags, interval, sources.
pub(crate) fn query_tail(
    message: &[u8],
    at: usize,
    version: IpVersion,
) -> Result<(u8, Duration, Addresses<'_>), DropReason> {
    let tail = message.get(at..).unwrap_or_default();
    let (b, rest) = tail.split_first_chunk::<4>().ok_or(DropReason::GroupMalformed)?;
    // More bytes may follow the sources; they are ignored (RFC 3376 section 4.1.10).
    let (sources, _) = Addresses::split(rest, be16(b, 2), version)?;
    let [flags, interval] = array::<_, 2>(b, 0);
    Ok((flags & 7, Duration::from_secs(of_code(interval)), sources))
}

/// Writes the records of a report after its header, which `igmp` or `mld` fill in.
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
    count: u16,
}

impl<'a> Writer<'a> {
    /// A report without records; `None` if `buf` is shorter than a header.
    pub fn new(buf: &'a mut [u8]) -> Option<Writer<'a>> {
        buf.get_mut(..HEADER_LEN)?.fill(0);
        Some(Writer { buf, len: HEADER_LEN, count: 0 })
    }

    /// How many sources a record of this version may have if it is appended now; `None` if there is
    /// no room for a record.
    pub fn room(&self, version: IpVersion) -> Option<usize> {
        let head = 4 + address_len(version);
        let room = self.buf.len().checked_sub(self.len + head)?;
        Some((room / address_len(version)).min(usize::from(u16::MAX)))
    }

    /// Append a record. `false`, with nothing written, if there is no room or if the addresses
    /// differ in version.
    pub fn push<'s>(
        &mut self,
        kind: RecordKind,
        group: IpAddr,
        sources: impl ExactSizeIterator<Item = &'s IpAddr>,
    ) -> bool {
        let version = IpVersion::of(&group);
        let count = sources.len();
        if self.room(version).is_none_or(|room| count > room) || self.count == u16::MAX {
            return false;
        }
        let begin = self.len;
        let [high, low] = (count as u16).to_be_bytes();
        self.put(&[kind as u8, 0, high, low]);
        self.put_address(group);
        for source in sources {
            if IpVersion::of(source) != version {
                self.len = begin;
                return false;
            }
            self.put_address(*source);
        }
        self.count += 1;
        true
    }

    fn put_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(a) => self.put(&a.octets()),
            IpAddr::V6(a) => self.put(&a.octets()),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(to) = self.buf.get_mut(self.len..self.len + bytes.len()) {
            to.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Are there no records yet?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the message with the number of its records. `igmp` or `mld` fill in type and
    /// checksum.
    pub(crate) fn finish(self, kind: u8) -> &'a mut [u8] {
        let message = self.buf.get_mut(..self.len).unwrap_or_default();
        if let Some(b) = message.first_chunk_mut::<HEADER_LEN>() {
            b[0] = kind;
            b[6..8].copy_from_slice(&self.count.to_be_bytes());
        }
        message
    }
}
