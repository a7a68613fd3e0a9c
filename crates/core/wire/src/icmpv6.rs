//! ICMPv6: the eight bytes at the start of every message, and the checksum with the pseudo-header.
//!
//! Called by: `inet::icmp`, `inet::nd`. Echo data follows, or the packet that an error quotes
//! (`ipv6::Header::parse_quoted`), or the rest of a neighbour discovery message (`nd`). RFC 4443
//! sections 2 to 4, RFC 8200 section 8.1.

use base::DropReason;
use core::net::Ipv6Addr;

use crate::bytes::{be16, be32, put};
use crate::checksum::{Ladder, Sum};
use crate::protocol;

/// Bytes before the data or the quoted packet.
pub const HEADER_LEN: usize = 8;

/// Codes of [`Header::Unreachable`], RFC 4443 section 3.1.
pub mod unreachable {
    /// No route.
    pub const NO_ROUTE: u8 = 0;
    /// Forbidden by policy.
    pub const ADMIN_PROHIBITED: u8 = 1;
    /// The source and the destination are of different scopes.
    pub const BEYOND_SCOPE: u8 = 2;
    /// No answer from the address.
    pub const ADDRESS: u8 = 3;
    /// No socket on the port.
    pub const PORT: u8 = 4;
}

/// The type of a redirect, RFC 4861 section 4.5.
pub const REDIRECT: u8 = 137;

/// Is this the type of a neighbour discovery message, RFC 4861 section 4?
pub const fn is_neighbour_discovery(kind: u8) -> bool {
    matches!(kind, 133..=137)
}

/// A message by type. `parse` never returns [`Header::Other`] for a type and code that have a
/// variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Type 128.
    EchoRequest {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Type 129.
    EchoReply {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Type 1.
    Unreachable {
        /// One of [`unreachable`], or another code.
        code: u8,
    },
    /// Type 2.
    PacketTooBig {
        /// MTU of the next hop in bytes; not valid below 1280.
        mtu: u32,
    },
    /// Type 3.
    TimeExceeded {
        /// 0: in transit; 1: in reassembly.
        code: u8,
    },
    /// Type 4.
    ParameterProblem {
        /// 0: erroneous field; 1: unknown next header; 2: unknown option.
        code: u8,
        /// Offset of the wrong byte in the quoted packet.
        pointer: u32,
    },
    /// Any other type, such as neighbour discovery.
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
    /// Parse `message`, which must be complete and cut to the IP payload, in a packet with these
    /// addresses.
    ///
    /// # Errors
    /// [`DropReason::IcmpMalformed`] below 8 bytes, or if the checksum is wrong.
    pub fn parse(message: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Header, DropReason> {
        let b = message.first_chunk::<HEADER_LEN>().ok_or(DropReason::IcmpMalformed)?;
        if !pseudo(src, dst, message.len()).plus(Ladder::best().sum(message)).is_whole() {
            return Err(DropReason::IcmpMalformed);
        }
        let [kind, code, _, _, rest @ ..] = *b;
        Ok(match (kind, code) {
            (128, 0) => Header::EchoRequest { id: be16(b, 4), seq: be16(b, 6) },
            (129, 0) => Header::EchoReply { id: be16(b, 4), seq: be16(b, 6) },
            (1, code) => Header::Unreachable { code },
            // RFC 4443 section 3.2: the sender sets the code to zero and the receiver ignores it.
            (2, _) => Header::PacketTooBig { mtu: be32(b, 4) },
            (3, code) => Header::TimeExceeded { code },
            (4, code) => Header::ParameterProblem { code, pointer: be32(b, 4) },
            (kind, code) => Header::Other { kind, code, rest },
        })
    }

    /// Write the 8 bytes to the start of `message`, with the checksum of the whole message and the
    /// pseudo-header, so the data after these bytes must be in place. `false` if `message` is
    /// shorter.
    pub fn emit(&self, message: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        let Some(b) = message.first_chunk_mut::<HEADER_LEN>() else { return false };
        let (kind, code, rest) = self.encode();
        put(b, 0, [kind, code, 0, 0]);
        put(b, 4, rest);
        let field = pseudo(src, dst, message.len()).plus(Ladder::best().sum(message)).field();
        if let Some(b) = message.first_chunk_mut::<HEADER_LEN>() {
            put(b, 2, field);
        }
        true
    }

    /// Type, code, and the four bytes after the checksum.
    fn encode(&self) -> (u8, u8, [u8; 4]) {
        let pair = |first: u16, second: u16| {
            let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
            [a, b, c, d]
        };
        match *self {
            Header::EchoRequest { id, seq } => (128, 0, pair(id, seq)),
            Header::EchoReply { id, seq } => (129, 0, pair(id, seq)),
            Header::Unreachable { code } => (1, code, [0; 4]),
            Header::PacketTooBig { mtu } => (2, 0, mtu.to_be_bytes()),
            Header::TimeExceeded { code } => (3, code, [0; 4]),
            Header::ParameterProblem { code, pointer } => (4, code, pointer.to_be_bytes()),
            Header::Other { kind, code, rest } => (kind, code, rest),
        }
    }

    /// Is it an error message? Those have types below 128 (RFC 4443 section 2.1). No error is sent
    /// in answer to an error, nor to a redirect (section 2.4(e)), for which the result is also
    /// `true`.
    pub const fn is_error(&self) -> bool {
        match self {
            Header::EchoRequest { .. } | Header::EchoReply { .. } => false,
            Header::Other { kind, .. } => *kind < 128 || *kind == REDIRECT,
            _ => true,
        }
    }
}

/// The sum of the pseudo-header, whose length field has 32 bits.
pub(crate) fn pseudo(src: Ipv6Addr, dst: Ipv6Addr, len: usize) -> Sum {
    Sum::pseudo_v6(src, dst, protocol::ICMPV6)
        .plus(Sum::of_be16(len as u16))
        .plus(Sum::of_be16((len >> 16) as u16))
}

#[cfg(test)]
mod tests;
