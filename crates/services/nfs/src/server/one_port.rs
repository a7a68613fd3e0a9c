//! [`OnePort`]: answers in place of a port mapper that NFS and MOUNT are both at one port.
//!
//! Called by: servers of crate `rpc`. RFC 1833 section 3: only GETPORT of version 2.

use core::ops::RangeInclusive;

use rpc::portmap::{self, Mapping};
use rpc::server::{Refusal, Request, Service};
use rpc::xdr::Encode;

use crate::{mount, proto};

/// Answers that the served versions of NFS and MOUNT are at one port.
#[derive(Clone, Copy, Debug)]
pub struct OnePort {
    /// The port.
    pub port: u16,
    /// Is the port served over UDP as well as TCP?
    pub has_udp: bool,
}

impl OnePort {
    /// The port of the program that the caller asks for; `None` if it is not served.
    fn find(self, asked: &Mapping) -> Option<u16> {
        let served = [(proto::PROGRAM, proto::VERSION), (mount::PROGRAM, mount::VERSION)];
        let is_by = match asked.protocol {
            portmap::TCP => true,
            portmap::UDP => self.has_udp,
            _ => false,
        };
        (is_by && served.contains(&(asked.program, asked.version))).then_some(self.port)
    }
}

impl Service for OnePort {
    fn program(&self) -> u32 {
        portmap::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        2..=2
    }

    fn call(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if request.procedure != portmap::procedure::GET {
            return Err(Refusal::ProcedureUnavailable);
        }
        // RFC 1833 3.2-a: 0 if the program is not registered.
        u32::from(self.find(&request.decode()?).unwrap_or(0)).encode(out);
        Ok(())
    }

    fn is_idempotent(&self, _: u32) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_served_is_at_no_port() {
        let of = |has_udp, program, version, protocol| {
            let asked = Mapping { program, version, protocol, port: 0 };
            OnePort { port: 2_049, has_udp }.find(&asked)
        };
        for program in [proto::PROGRAM, mount::PROGRAM] {
            assert_eq!(of(false, program, 3, portmap::TCP), Some(2_049));
            assert_eq!(of(false, program, 3, portmap::UDP), None);
            assert_eq!(of(true, program, 3, portmap::UDP), Some(2_049));
            for (version, protocol) in [(1, 6), (2, 6), (4, 6), (0, 6), (3, 132), (3, 0)] {
                assert_eq!(of(true, program, version, protocol), None, "{version} {protocol}");
            }
        }
        assert_eq!(of(true, 100_021, 3, portmap::TCP), None);
    }
}
