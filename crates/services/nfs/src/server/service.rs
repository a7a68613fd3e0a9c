//! The services: which procedure a call is for, the decoding of its arguments, and the reply to a
//! call that fails.
//!
//! Called by: servers of crate `rpc`. RFC 1813 sections 3.3 and 5.2.

use core::ops::RangeInclusive;
use std::sync::Arc;

use rpc::auth::{AUTH_NONE, AUTH_SYS};
use rpc::server::{Bulk, Refusal, Request, Service, Transport};
use rpc::xdr::{Bounded, Bytes, Encode, List, Opaque};

use super::dirs::From;
use super::files::transfer_max;
use super::{Export, Reply};
use crate::limits::{PATH_BYTES, RESULTS_BYTES, STRANGERS_TRANSFER};
use crate::mount::{self, Mounted};
use crate::proto::{self, At, Handle, Status, Write, procedure};

/// NFS version 3.
#[derive(Clone, Debug)]
pub struct Nfs(pub Arc<Export>);

impl Service for Nfs {
    fn program(&self) -> u32 {
        proto::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        proto::VERSION..=proto::VERSION
    }

    fn call(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let at = out.len();
        if let Err(status) = self.reply(request, out)? {
            out.truncate(at);
            status.encode(out);
            // Append no attributes: all optional parts of the results of a failed call are absent.
            (0..absent(request.procedure)).for_each(|_| false.encode(out));
        }
        Ok(())
    }

    fn call_at_once(
        &mut self,
        request: &Request<'_>,
        out: &mut Vec<u8>,
        bulk: &mut dyn Bulk,
    ) -> Option<Result<(), Refusal>> {
        let export = &*self.0;
        // Return `None` for malformed arguments: `call` answers them.
        match request.procedure {
            procedure::READ => {
                let most = export.data_max(request);
                export.read_at_once(request.decode().ok()?, most, out, bulk)?;
            }
            procedure::WRITE => export.write_at_once(request, out)?,
            _ => return None,
        }
        Some(Ok(()))
    }

    fn is_idempotent(&self, number: u32) -> bool {
        use procedure as p;
        !matches!(
            number,
            p::SETATTR
                | p::WRITE
                | p::CREATE
                | p::MKDIR
                | p::SYMLINK
                | p::REMOVE
                | p::RMDIR
                | p::RENAME
                | p::LINK
        )
    }
}

impl Nfs {
    fn reply(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<Reply, Refusal> {
        let (export, over) = (&*self.0, request.transport);
        Ok(match request.procedure {
            procedure::GETATTR => export.getattr(&request.decode()?, out),
            procedure::SETATTR => export.setattr(&request.decode()?, out),
            procedure::LOOKUP => export.lookup(&request.decode()?, out),
            procedure::ACCESS => export.access(request.decode()?, out),
            procedure::READLINK => export.readlink(&request.decode()?, out),
            procedure::READ => export.read(request.decode()?, export.data_max(request), out),
            procedure::WRITE => {
                let Write { head, data } = request.decode()?;
                export.write(&head, &[data.0], out)
            }
            procedure::CREATE => export.create(&request.decode()?, out),
            procedure::MKDIR => export.mkdir(&request.decode()?, out),
            procedure::SYMLINK => export.symlink(&request.decode()?, out),
            // The arguments of MKNOD depend on the type of the node. They are not decoded, because
            // no node is made.
            procedure::MKNOD => Err(Status::NotSupported),
            procedure::REMOVE => export.remove(&request.decode()?, false, out),
            procedure::RMDIR => export.remove(&request.decode()?, true, out),
            procedure::RENAME => export.rename(&request.decode::<(At<'_>, At<'_>)>()?, out),
            procedure::LINK => export.link(&request.decode()?, out),
            procedure::READDIR => {
                let (dir, cookie, _, count): (_, _, u64, u32) = request.decode()?;
                let (names_max, bytes_max) = (u32::MAX, count);
                let from = From { dir, cookie, names_max, bytes_max, is_plus: false };
                export.readdir(from, export.data_max(request), out)
            }
            procedure::READDIRPLUS => {
                let (dir, cookie, (_, names_max, bytes_max)): (_, _, (u64, _, _)) =
                    request.decode()?;
                let from = From { dir, cookie, names_max, bytes_max, is_plus: true };
                export.readdir(from, export.data_max(request), out)
            }
            procedure::FSSTAT => export.fsstat(&request.decode()?, out),
            procedure::FSINFO => export.fsinfo(&request.decode()?, over, out),
            procedure::PATHCONF => export.pathconf(&request.decode()?, out),
            procedure::COMMIT => {
                let (file, _, _): (Handle, u64, u32) = request.decode()?;
                export.commit(&file, out)
            }
            _ => return Err(Refusal::ProcedureUnavailable),
        })
    }
}

/// How many optional parts the results of a procedure contain if the call fails.
fn absent(procedure: u32) -> u32 {
    match procedure {
        procedure::GETATTR => 0,
        procedure::RENAME => 4,
        procedure::LINK => 3,
        procedure::SETATTR
        | procedure::WRITE
        | procedure::CREATE
        | procedure::MKDIR
        | procedure::SYMLINK
        | procedure::MKNOD
        | procedure::REMOVE
        | procedure::RMDIR
        | procedure::COMMIT => 2,
        _ => 1,
    }
}

/// MOUNT version 3. Its only export is `/`; every directory below it can be mounted.
#[derive(Clone, Debug)]
pub struct Mount(pub Arc<Export>);

impl Service for Mount {
    fn program(&self) -> u32 {
        mount::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        mount::VERSION..=mount::VERSION
    }

    fn call(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        use mount::procedure as p;
        match request.procedure {
            p::MNT => {
                let path: Opaque<'_> = request.decode()?;
                match self.0.mount(path.0) {
                    Ok(handle) => {
                        if request.transport == Transport::Stream {
                            self.0.callers.insert(request.from.ip());
                        }
                        let flavors = vec![AUTH_SYS, AUTH_NONE];
                        (Status::Ok, Mounted { handle, flavors }).encode(out);
                    }
                    Err(status) => mount::status(status).encode(out),
                }
            }
            // DUMP is empty: the server keeps no list of mounts, which would only repeat claims of
            // clients.
            p::DUMP => List::<()>::default().encode(out),
            p::UMNT | p::UMNTALL => {}
            p::EXPORT => {
                let dir = Bounded(Bytes(b"/".to_vec()));
                List(vec![mount::Export { dir, groups: List::default() }]).encode(out);
            }
            _ => return Err(Refusal::ProcedureUnavailable),
        }
        Ok(())
    }

    fn is_idempotent(&self, _: u32) -> bool {
        true
    }
}

impl Export {
    /// How many bytes of data or entries the results of a call may contain. There are fewer if the
    /// reply is to be brief, and only as many as fit into one packet if the source of the call may
    /// be forged.
    fn data_max(&self, request: &Request<'_>) -> u32 {
        let over = transfer_max(request.transport);
        let known = match request.transport {
            Transport::Datagram if !self.callers.has(request.from.ip()) => STRANGERS_TRANSFER,
            _ => over,
        };
        let room = u32::try_from(request.room).unwrap_or(u32::MAX).saturating_sub(RESULTS_BYTES);
        known.min(room.max(STRANGERS_TRANSFER))
    }

    /// The handle of the directory at a path from the root.
    fn mount(&self, path: &[u8]) -> Result<Handle, Status> {
        if path.len() > PATH_BYTES {
            return Err(Status::NameTooLong);
        }
        let mut handle = self.tree.root()?;
        for name in path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
            let name = super::tree::new_name(name).map_err(|_| Status::Access)?;
            let dir = self.tree.dir(&handle)?;
            handle = self.tree.handle(self.tree.child(&dir, name)?.0)?;
        }
        self.tree.dir(&handle)?;
        Ok(handle)
    }
}
