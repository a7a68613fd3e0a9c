//! The table of the port mapper.
//!
//! Called by: `service.rs`. Limits: `MAPPINGS_MAX`, `STRING_MAX`. Only root may remove or replace a
//! mapping that root has made (that is, a caller with a port below 1024).

use super::{LOCAL, Rpcb, is_path, network, socket_address};
use crate::limits::{MAPPINGS_MAX, STRING_MAX};

/// The owner of mappings that come from ports below 1024.
pub(super) const SUPERUSER: &str = "superuser";
/// The owner of other mappings.
pub(super) const UNKNOWN: &str = "unknown";

/// Why a mapping was not set or removed. The caller's answer is only "false".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The version has another mapping on this transport.
    #[error("the version has an address on this transport already: remove that first")]
    Taken,
    /// The network id or the address is invalid.
    #[error("the network id or the address is none of udp, tcp, udp6, tcp6 and local")]
    NoAddress,
    /// There are as many mappings as the limit allows.
    #[error("there are {MAPPINGS_MAX} mappings, the most that are kept: remove some")]
    Full,
    /// Only root may do it.
    #[error("only root may do it: the mapping is root's, or the port is below 1024")]
    NotRoot,
}

/// Check that the address belongs to its network id, and that the caller may set it.
fn check(mapping: &Rpcb, by_root: bool) -> Result<(), SetError> {
    if mapping.netid == LOCAL {
        return if is_path(&mapping.address) { Ok(()) } else { Err(SetError::NoAddress) };
    }
    let ip = network(&mapping.netid).map(|(_, ip)| ip);
    let address = socket_address(&mapping.address).filter(|_| mapping.address.len() <= STRING_MAX);
    let (Some(ip), Some(address)) = (ip, address) else { return Err(SetError::NoAddress) };
    if ip.is_ipv4() != address.is_ipv4() || address.port() == 0 {
        return Err(SetError::NoAddress);
    }
    if address.port() < 1024 && !by_root {
        return Err(SetError::NotRoot);
    }
    Ok(())
}

/// The mappings: programs, and the addresses where they listen.
#[derive(Clone, Debug, Default)]
pub struct Mappings(Vec<Rpcb>);

impl Mappings {
    /// Add a mapping.
    ///
    /// # Errors
    /// The mapping was not added.
    pub fn set(&mut self, mapping: &Rpcb, by_root: bool) -> Result<(), SetError> {
        check(mapping, by_root)?;
        let is_there = |m: &Rpcb| {
            (m.program, m.version, &m.netid) == (mapping.program, mapping.version, &mapping.netid)
        };
        if let Some(there) = self.0.iter().find(|m| is_there(m)) {
            // As in other port mappers, setting the same mapping again is not an error.
            return if there.address == mapping.address { Ok(()) } else { Err(SetError::Taken) };
        }
        if self.0.len() >= MAPPINGS_MAX {
            return Err(SetError::Full);
        }
        let owner = if by_root { SUPERUSER } else { UNKNOWN }.to_owned();
        self.0.push(Rpcb { owner, ..mapping.clone() });
        Ok(())
    }

    /// Remove the mappings of a version on a transport, or on all transports if `netid` is empty.
    /// True if there were such mappings.
    ///
    /// # Errors
    /// One of the mappings is root's.
    pub fn unset(
        &mut self,
        program: u32,
        version: u32,
        netid: &str,
        by_root: bool,
    ) -> Result<bool, SetError> {
        let is_meant = |m: &Rpcb| {
            (m.program, m.version) == (program, version) && (netid.is_empty() || m.netid == netid)
        };
        if !by_root && self.0.iter().any(|m| is_meant(m) && m.owner == SUPERUSER) {
            return Err(SetError::NotRoot);
        }
        let before = self.0.len();
        self.0.retain(|m| !is_meant(m));
        Ok(self.0.len() < before)
    }

    /// The mapping of that version on a transport. If there is none, that of any other version,
    /// unless `exact`.
    pub fn find(&self, program: u32, version: u32, netid: &str, exact: bool) -> Option<&Rpcb> {
        let of = |m: &&Rpcb| m.program == program && m.netid == netid;
        let same = self.0.iter().filter(of).find(|m| m.version == version);
        same.or_else(|| self.0.iter().find(of).filter(|_| !exact))
    }

    /// All mappings, in the order in which they were set.
    pub fn all(&self) -> &[Rpcb] {
        &self.0
    }
}
