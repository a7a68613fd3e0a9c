//! The role of each end: it connects, or it accepts.
//!
//! Called by: `ttcp.rs` and `run.rs`.

use std::net::IpAddr;

use anyhow::Result;
use wirespeed::IpVersion;

use super::args::Args;
use crate::clock::Interrupt;
use crate::names;
use crate::outside::Outside;

/// What we do for a connection with a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Connect(IpAddr),
    Accept,
}

impl Role {
    /// Does the command line ask for a transfer with a host?
    pub(super) fn is_asked_for(args: &Args) -> bool {
        args.transmit.is_some() || args.receive
    }

    /// The role on the command line, with the host's name looked up; `None` after Ctrl-C.
    ///
    /// # Errors
    /// The errors of [`names::resolve`].
    pub(super) fn of(
        args: &Args,
        outside: &mut Outside,
        interrupt: &Interrupt,
    ) -> Result<Option<Role>> {
        let Some(host) = &args.transmit else { return Ok(Some(Role::Accept)) };
        let options = (&args.outside, &args.names);
        let version = match (args.v4, args.v6) {
            (true, _) => Some(IpVersion::V4),
            (_, true) => Some(IpVersion::V6),
            _ => None,
        };
        let address = names::resolve(outside, options, host, version, interrupt)?;
        Ok(address.map(Role::Connect))
    }
}
