//! pcapng files: sections of blocks. The interfaces of all sections get numbers that are unique in
//! the file.
//!
//! Called by: `Reader`. Each section numbers its interfaces from 0, so the numbers repeat in files
//! joined by `cat`. Here the interfaces of a section follow those of earlier sections.
//!
//! A block has its length twice. If the two differ, the first counts, provided that a block of a
//! known type follows. Otherwise the first is wrong, and nothing says where the next block begins.

use std::io::BufRead;

use crate::block::{self, Body, padded};
use crate::input::{Input, Order};
use crate::packet::{
    Clock, Direction, Error, INTERFACES_MAX, Interface, LINK_BITS, PACKET_BYTES_MAX, Packet,
};

/// The number of bytes of a block's type and its two lengths.
const AROUND: u32 = 12;

/// Codes of options.
mod option {
    pub(super) const IF_NAME: u16 = 2;
    pub(super) const IF_TSRESOL: u16 = 9;
    pub(super) const IF_TSOFFSET: u16 = 14;
    /// The option with a packet's flags: `epb_flags`, and `pack_flags` of old files.
    pub(super) const FLAGS: u16 = 2;
}

/// The bits of the flags that hold the direction.
const DIRECTION: u32 = 3;

/// A pcapng file.
#[derive(Debug)]
pub(crate) struct Pcapng<R> {
    input: Input<R>,
    order: Order,
    interfaces: Vec<Interface>,
    /// The clock of each interface.
    clocks: Vec<Clock>,
    /// The number of interfaces in earlier sections.
    base: usize,
    /// The two lengths of the previous block differ.
    is_doubtful: bool,
    /// The error to return after the packet that was returned last.
    trouble: Option<Error>,
}

/// What a block was, for a reader of packets.
enum Found {
    Packet(Packet),
    Other,
    End,
}

/// The fields of a packet, from any of the three block types that hold a packet.
struct Fields {
    interface: u32,
    /// The time in units of the clock; `None` in a block without a time.
    units: Option<u64>,
    captured: u32,
    wire_len: u32,
}

impl<R: BufRead> Pcapng<R> {
    /// Read the rest of the first section's header, after its type.
    pub(crate) fn new(input: Input<R>) -> Result<Pcapng<R>, Error> {
        let mut new = Pcapng {
            input,
            order: Order::Little,
            interfaces: Vec::new(),
            clocks: Vec::new(),
            base: 0,
            is_doubtful: false,
            trouble: None,
        };
        let len = new.input.exact()?;
        new.read(block::SECTION_BYTES, len)?;
        Ok(new)
    }

    pub(crate) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Read until there is an interface. No packet can come before the first interface.
    pub(crate) fn read_to_an_interface(&mut self) -> Result<(), Error> {
        while self.interfaces.is_empty() && !matches!(self.block()?, Found::End) {}
        Ok(())
    }

    pub(crate) fn packet(&mut self) -> Result<Option<Packet>, Error> {
        loop {
            match self.block()? {
                Found::Packet(packet) => return Ok(Some(packet)),
                Found::Other => {}
                Found::End => return Ok(None),
            }
        }
    }

    fn block(&mut self) -> Result<Found, Error> {
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble);
        }
        let Some(kind) = self.input.first()? else { return Ok(Found::End) };
        let len = self.input.exact()?;
        self.read(kind, len)
    }

    /// Read the rest of a block, after its type and its first length.
    fn read(&mut self, kind: [u8; 4], len: [u8; 4]) -> Result<Found, Error> {
        let mut read_of_body = 0;
        if kind == block::SECTION_BYTES {
            self.order = order(self.input.exact()?)?;
            read_of_body = 4;
        }
        let (kind, len) = (self.order.u32(kind), self.order.u32(len));
        if self.is_doubtful && !block::is_known(kind) {
            return Err(Error::Lengths);
        }
        if len < AROUND + read_of_body {
            return Err(Error::Length("block", len));
        }
        let left = padded(len) - u64::from(AROUND + read_of_body);
        let mut body = Body::new(&mut self.input, self.order, left);
        let found = match kind {
            block::SECTION => {
                self.base = self.interfaces.len();
                section(&mut body)?;
                Found::Other
            }
            block::INTERFACE => {
                if self.interfaces.len() >= INTERFACES_MAX {
                    return Err(Error::Interfaces);
                }
                let (interface, clock) = interface(&mut body, len)?;
                self.interfaces.push(interface);
                self.clocks.push(clock);
                Found::Other
            }
            block::ENHANCED_PACKET | block::PACKET | block::SIMPLE_PACKET => {
                let (interfaces, clocks) = (&self.interfaces, &self.clocks);
                let fields = fields(&mut body, kind, len)?;
                let number = self.base.saturating_add(fields.interface as usize);
                let (Some(interface), Some(clock)) = (interfaces.get(number), clocks.get(number))
                else {
                    return Err(Error::NoInterface(fields.interface));
                };
                Found::Packet(packet(&mut body, &fields, number, interface, *clock)?)
            }
            _ => Found::Other,
        };
        let rest = body.left;
        match (self.end(rest, len), &found) {
            (Ok(()), _) => {}
            // The packet itself is complete: it is returned first.
            (Err(trouble), Found::Packet(_)) => self.trouble = Some(trouble),
            (Err(trouble), _) => return Err(trouble),
        }
        Ok(found)
    }

    /// Skip the rest of a block, and compare its two lengths.
    fn end(&mut self, rest: u64, len: u32) -> Result<(), Error> {
        self.input.skip(rest)?;
        self.is_doubtful = self.order.u32(self.input.exact()?) != len;
        Ok(())
    }
}

/// The byte order of a section, by its magic number.
fn order(magic: [u8; 4]) -> Result<Order, Error> {
    const MAGIC: u32 = 0x1a2b_3c4d;
    let is_it = |order: &Order| order.u32(magic) == MAGIC;
    [Order::Little, Order::Big].into_iter().find(is_it).ok_or(Error::NotOne)
}

/// Check the version of a section, and skip its length and options.
fn section<R: BufRead>(body: &mut Body<'_, R>) -> Result<(), Error> {
    let Some([a, b, _, _]) = body.fields()? else { return Ok(()) };
    match body.order.u16([a, b]) {
        1 => Ok(()),
        version => Err(Error::Version(version, "pcapng")),
    }
}

fn interface<R: BufRead>(body: &mut Body<'_, R>, len: u32) -> Result<(Interface, Clock), Error> {
    let order = body.order;
    let Some([a, b, _, _, snaplen @ ..]) = body.fields::<8>()? else {
        return Err(Error::Length("block", len));
    };
    let (mut name, mut resolution, mut offset) = (None, None, None);
    body.options(|code, value| match (code, value) {
        (option::IF_NAME, value) if name.is_none() => {
            name = Some(String::from_utf8_lossy(value).into_owned());
        }
        (option::IF_TSRESOL, [value]) => resolution = resolution.or(Some(*value)),
        (option::IF_TSOFFSET, value) => {
            offset = offset.or(value.try_into().ok().map(|value| order.i64(value)));
        }
        _ => {}
    })?;
    let interface = Interface {
        name: name.filter(|name| !name.is_empty()),
        link: u32::from(order.u16([a, b])) & LINK_BITS,
        snaplen: order.u32(snaplen),
        is_swapped: order.is_swapped(),
    };
    Ok((interface, Clock::new(resolution, offset)))
}

fn fields<R: BufRead>(body: &mut Body<'_, R>, kind: u32, len: u32) -> Result<Fields, Error> {
    let order = body.order;
    let time = |high: u32, low: u32| Some(u64::from(high) << 32 | u64::from(low));
    let fields = match kind {
        // A simple packet has neither time nor direction, and belongs to the section's first
        // interface.
        block::SIMPLE_PACKET => body.fields()?.map(|bytes| {
            let wire_len = order.u32(bytes);
            Fields { interface: 0, units: None, captured: wire_len, wire_len }
        }),
        kind => body.fields::<20>()?.map(|bytes| {
            let [mut interface, high, low, captured, wire_len] = order.words(&bytes);
            if kind == block::PACKET {
                // The interface has only 16 bits; the other 16 bits hold a number of drops.
                let [a, b, ..] = bytes;
                interface = order.u16([a, b]).into();
            }
            Fields { interface, units: time(high, low), captured, wire_len }
        }),
    };
    fields.ok_or(Error::Length("block", len))
}

fn packet<R: BufRead>(
    body: &mut Body<'_, R>,
    fields: &Fields,
    number: usize,
    interface: &Interface,
    clock: Clock,
) -> Result<Packet, Error> {
    let order = body.order;
    let captured = match (fields.units, interface.snaplen) {
        // A simple packet has no captured length: its captured bytes are limited by the interface's
        // snapshot length.
        (None, snaplen @ 1..) => fields.captured.min(snaplen),
        _ => fields.captured,
    };
    let bytes = body.data(captured, PACKET_BYTES_MAX)?;
    let mut flags = 0;
    if fields.units.is_some() {
        body.options(|code, value| {
            if let (option::FLAGS, Ok(value)) = (code, value.try_into()) {
                flags = order.u32(value);
            }
        })?;
    }
    Ok(Packet {
        interface: number,
        time_ns: fields.units.map_or(0, |units| clock.ns(units)),
        wire_len: fields.wire_len.max(bytes.len() as u32),
        direction: match flags & DIRECTION {
            1 => Some(Direction::In),
            2 => Some(Direction::Out),
            _ => None,
        },
        bytes,
    })
}
