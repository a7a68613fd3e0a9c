//! pcap files: a file header, then packets, each with a header of its own.
//!
//! Called by: `Reader`. Source: draft-ietf-opsawg-pcap; for files of old programs, libpcap: the
//! magic number of Kuznetsov's headers, and lengths in the other order before version 2.4.
//!
//! The file header is not trusted, because programs write snapshot lengths of 0, packets longer
//! than the snapshot length, and times with more microseconds than a second has.

use std::io::BufRead;

use crate::input::{Input, Order};
use crate::packet::{Error, Interface, LINK_BITS, PACKET_BYTES_MAX, Packet};

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;
/// The magic number of files with times in microseconds and 8 more bytes in each packet's header.
const LONGER: u32 = 0xa1b2_cd34;

/// The version in which the two lengths of a packet may be in either order. In earlier versions the
/// length on the wire is first.
const EITHER: (u16, u16) = (2, 3);

/// The version of one program that also has the length on the wire first.
const DG_UX: u16 = 543;

/// A pcap file.
#[derive(Debug)]
pub(crate) struct Pcap<R> {
    input: Input<R>,
    order: Order,
    version: (u16, u16),
    /// How many nanoseconds a unit of a time's fraction is.
    unit_ns: u64,
    /// How many bytes a packet's header has after its four words.
    more: u64,
    interface: [Interface; 1],
}

impl<R: BufRead> Pcap<R> {
    /// Read the file header after its magic number.
    pub(crate) fn new(mut input: Input<R>, magic: [u8; 4]) -> Result<Pcap<R>, Error> {
        let orders = [Order::Little, Order::Big].into_iter();
        let known = |order: Order| match order.u32(magic) {
            MICRO => Some((order, 1_000, 0)),
            NANO => Some((order, 1, 0)),
            LONGER => Some((order, 1_000, 8)),
            _ => None,
        };
        let (order, unit_ns, more) = orders.filter_map(known).next().ok_or(Error::NotOne)?;
        let version = (order.u16(input.exact()?), order.u16(input.exact()?));
        let [_zone, _accuracy, snaplen, link] = order.words(&input.exact::<16>()?);
        if !(version.0 == 2 || version.0 == DG_UX) {
            return Err(Error::Version(version.0, "pcap"));
        }
        let is_swapped = order.is_swapped();
        let interface = [Interface { name: None, link: link & LINK_BITS, snaplen, is_swapped }];
        Ok(Pcap { input, order, version, unit_ns, more, interface })
    }

    pub(crate) fn interfaces(&self) -> &[Interface] {
        &self.interface
    }

    pub(crate) fn packet(&mut self) -> Result<Option<Packet>, Error> {
        let Some(head) = self.input.first::<16>()? else { return Ok(None) };
        let [seconds, fraction, captured, wire] = self.order.words(&head);
        let is_turned = self.version < EITHER
            || self.version.0 == DG_UX
            || (self.version == EITHER && captured > wire);
        let (captured, wire) = if is_turned { (wire, captured) } else { (captured, wire) };
        if captured > PACKET_BYTES_MAX {
            return Err(Error::Length("packet", captured));
        }
        self.input.skip(self.more)?;
        let bytes = self.input.bytes(captured)?;
        Ok(Some(Packet {
            interface: 0,
            time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit_ns,
            wire_len: wire.max(captured),
            direction: None,
            bytes,
        }))
    }
}
