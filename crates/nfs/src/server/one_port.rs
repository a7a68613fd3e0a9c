//! [`OnePort`]: the answer of a port mapper where there is none: everything is at this port.
//!
//! Called by: servers of crate `rpc`. RFC 1833 section 3: GETPORT of version 2 and nothing else.

use core::ops::RangeInclusive;

use rpc::portmap::{self, Mapping};
use rpc::server::{Refusal, Request, Service};
use rpc::xdr::Encode;

use crate::{mount, proto};

/// Says of NFS and MOUNT that they are at this port.
#[derive(Clone, Copy, Debug)]
pub struct OnePort(pub u16);

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
        let asked: Mapping = request.decode()?;
        let is_here = [proto::PROGRAM, mount::PROGRAM].contains(&asked.program);
        u32::from(if is_here { self.0 } else { 0 }).encode(out);
        Ok(())
    }

    fn is_idempotent(&self, _: u32) -> bool {
        true
    }
}
