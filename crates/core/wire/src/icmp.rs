//! ICMP for IPv4: the eight bytes at the start of every message, and the checksum.
//!
//! Called by: `inet::icmp`. Echo data follows, or the packet that an error quotes (read it with
//! `ipv4::Header::parse_quoted`). RFC 792, RFC 1122 section 3.2.2, RFC 1191 section 4 (the MTU in
//! "fragmentation needed").

use core::net::Ipv4Addr;

use base::DropReason;

use crate::bytes::{be16, put};
use crate::checksum::{Ladder, Sum};

/// Bytes before the data or the quoted packet.
pub const HEADER_LEN: usize = 8;

/// Codes of [`Header::Unreachable`], RFC 792 and RFC 1122 section 3.2.2.1.
pub mod unreachable {
    /// No route to the network.
    pub const NET: u8 = 0;
    /// No answer from the host.
    pub const HOST: u8 = 1;
    /// The host does not support the protocol.
    pub const PROTOCOL: u8 = 2;
    /// No socket on the port.
    pub const PORT: u8 = 3;
    /// The packet is too big and may not be fragmented: [`super::Header::FragmentationNeeded`].
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Forbidden by policy, RFC 1812 section 5.2.7.1.
    pub const ADMIN_PROHIBITED: u8 = 13;
}

/// A message by type. `parse` never returns [`Header::Other`] for a type and code that have a
/// variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Type 8.
    EchoRequest {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Type 0.
    EchoReply {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Type 3, any code except 4.
    Unreachable {
        /// One of [`unreachable`], or another code.
        code: u8,
    },
    /// Type 3 code 4.
    FragmentationNeeded {
        /// MTU of the next hop in bytes; 0 from routers older than RFC 1191.
        mtu: u16,
    },
    /// Type 5, codes 0 to 3: for a network or a host, perhaps with a type of service.
    Redirect {
        /// 0: network; 1: host; 2 and 3: the same with a type of service.
        code: u8,
        /// The gateway to use.
        gateway: Ipv4Addr,
    },
    /// Type 11.
    TimeExceeded {
        /// 0: in transit; 1: in reassembly.
        code: u8,
    },
    /// Type 12.
    ParameterProblem {
        /// 0: see the pointer; 1: a required option is missing.
        code: u8,
        /// Offset of the wrong byte in the quoted packet.
        pointer: u8,
    },
    /// Any other type.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The four bytes after the checksum.
        rest: [u8; 4],
    },
}

impl Header {
    /// Parse `message`, which must be complete and cut to the IP payload.
    ///
    /// # Errors
    /// [`DropReason::IcmpMalformed`] below 8 bytes, or if the checksum is wrong.
    pub fn parse(message: &[u8]) -> Result<Header, DropReason> {
        let b = message.first_chunk::<HEADER_LEN>().ok_or(DropReason::IcmpMalformed)?;
        if !Ladder::best().sum(message).is_whole() {
            return Err(DropReason::IcmpMalformed);
        }
        let [kind, code, _, _, rest @ ..] = *b;
        Ok(match (kind, code) {
            (8, 0) => Header::EchoRequest { id: be16(b, 4), seq: be16(b, 6) },
            (0, 0) => Header::EchoReply { id: be16(b, 4), seq: be16(b, 6) },
            (3, 4) => Header::FragmentationNeeded { mtu: be16(b, 6) },
            (3, code) => Header::Unreachable { code },
            (5, 0..=3) => Header::Redirect { code, gateway: Ipv4Addr::from(rest) },
            (11, code) => Header::TimeExceeded { code },
            (12, code) => Header::ParameterProblem { code, pointer: rest[0] },
            (kind, code) => Header::Other { kind, code, rest },
        })
    }

    /// Write the 8 bytes to the start of `message`, with the checksum of the whole message, so the
    /// data after these bytes must be in place. `false` if `message` is shorter.
    pub fn emit(&self, message: &mut [u8]) -> bool {
        let Some((b, data)) = message.split_first_chunk_mut::<HEADER_LEN>() else { return false };
        let (kind, code, rest) = self.encode();
        put(b, 0, [kind, code, 0, 0]);
        put(b, 4, rest);
        let sum = Sum::from_u64s([u64::from_ne_bytes(*b)]).plus(Ladder::best().sum(data));
        put(b, 2, sum.field());
        true
    }

    /// Type, code, and the four bytes after the checksum.
    fn encode(&self) -> (u8, u8, [u8; 4]) {
        let pair = |first: u16, second: u16| {
            let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
            [a, b, c, d]
        };
        match *self {
            Header::EchoRequest { id, seq } => (8, 0, pair(id, seq)),
            Header::EchoReply { id, seq } => (0, 0, pair(id, seq)),
            Header::FragmentationNeeded { mtu } => (3, 4, pair(0, mtu)),
            Header::Unreachable { code } => (3, code, [0; 4]),
            Header::Redirect { code, gateway } => (5, code, gateway.octets()),
            Header::TimeExceeded { code } => (11, code, [0; 4]),
            Header::ParameterProblem { code, pointer } => (12, code, [pointer, 0, 0, 0]),
            Header::Other { kind, code, rest } => (kind, code, rest),
        }
    }

    /// Is it an error message? In answer to one, no error is sent (RFC 1122 section 3.2.2), nor in
    /// answer to source quench and redirect, for which the result is also `true`.
    pub const fn is_error(&self) -> bool {
        matches!(
            self,
            Header::Unreachable { .. }
                | Header::FragmentationNeeded { .. }
                | Header::Redirect { .. }
                | Header::TimeExceeded { .. }
                | Header::ParameterProblem { .. }
                | Header::Other { kind: 4 | 5, .. }
        )
    }
}

#[cfg(test)]
mod tests;
