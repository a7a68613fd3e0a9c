//! How a packet leaves: its translation, carried out.
//!
//! Called by: the stack, for a packet that is about to leave and may be written. RFC 1624, RFC 5508
//! section 4, RFC 6864. Counters: `filter_malformed`, `filter_icmp`.

use core::net::IpAddr;

use base::DropReason;
use wire::ipv4;

use super::Firewall;
use crate::nat::{Checksum, Options, identification, rewrite, rewrite_error};
use crate::packet::Tuple;

/// How a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// As it came.
    None,
    /// With this tuple.
    Packet(Tuple),
    /// An ICMP error: the packet that it quotes has this tuple, and the error goes to its source.
    Quoted(Tuple),
}

impl Change {
    /// The destination that it gives to a packet.
    #[must_use]
    pub fn dst(&self) -> Option<IpAddr> {
        match self {
            Change::None => None,
            Change::Packet(tuple) => Some(tuple.dst),
            Change::Quoted(tuple) => Some(tuple.src),
        }
    }
}

impl Firewall {
    /// Carry out `change` on an IP packet. `is_partial`: its transport checksum has the sum of the
    /// pseudo-header alone, and a device computes the rest.
    ///
    /// # Errors
    /// [`DropReason::FilterMalformed`], [`DropReason::FilterIcmp`].
    pub fn change(
        &self,
        change: &Change,
        packet: &mut [u8],
        is_partial: bool,
    ) -> Result<(), DropReason> {
        match change {
            Change::None => Ok(()),
            Change::Quoted(tuple) => rewrite_error(packet, tuple),
            Change::Packet(tuple) => {
                let checksum = if is_partial { Checksum::PseudoHeader } else { Checksum::Whole };
                let identification = self.identification(packet, tuple);
                rewrite(packet, tuple, Options { checksum, identification, ..Options::default() })
            }
        }
    }

    /// The identification of an IPv4 packet that may be in fragments, or be cut into fragments
    /// later (RFC 6864 section 4): hosts behind one address number theirs independently. RFC 7857
    /// 10-a.
    fn identification(&self, packet: &[u8], to: &Tuple) -> Option<u16> {
        let header = ipv4::Header::parse(packet).ok().filter(|_| to.src.is_ipv4())?;
        let original = Tuple {
            src: header.src.into(),
            dst: header.dst.into(),
            protocol: header.protocol,
            src_port: 0,
            dst_port: 0,
        };
        let may_be_cut = !header.dont_fragment || header.is_fragment();
        let is_other_source = original.src != to.src && may_be_cut;
        is_other_source.then(|| identification(&self.key, &original, header.id))
    }
}
