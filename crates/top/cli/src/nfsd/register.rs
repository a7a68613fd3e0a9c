//! What the port mapper of this machine is told.
//!
//! Called by: `run.rs`. RFC 1833 section 3, version 2.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, bail};
use rpc::blocking::Caller;
use rpc::portmap::{Mapping, PORT, PROGRAM, TCP, UDP, procedure};

/// Programs that a port mapper knows of, as long as this lives.
pub(super) struct Registered(Vec<Mapping>);

/// Tell it that NFS and MOUNT are at that port.
pub(super) fn register(port: u16, with_udp: bool) -> Result<Registered> {
    let mut registered = Registered(Vec::new());
    let mut mapper = mapper().context("cannot reach the port mapper: start rpcbind")?;
    for program in [::nfs::proto::PROGRAM, ::nfs::mount::PROGRAM] {
        let protocols = [TCP, UDP].into_iter().take(1 + usize::from(with_udp));
        for protocol in protocols {
            let mapping = Mapping { program, version: 3, protocol, port: port.into() };
            let is_set: bool =
                mapper.call(procedure::SET, &mapping).context("the port mapper does not answer")?;
            if !is_set {
                bail!(
                    "the port mapper refuses program {program}: end the server that has it \
                     (`wirespeed rpcinfo -p`)"
                );
            }
            registered.0.push(mapping);
        }
    }
    Ok(registered)
}

fn mapper() -> std::io::Result<impl Caller> {
    crate::rpcinfo::udp(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), PROGRAM, 2)
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Ok(mut mapper) = mapper() else { return };
        for mapping in &self.0 {
            let _ = mapper.call::<_, bool>(procedure::UNSET, mapping);
        }
    }
}
