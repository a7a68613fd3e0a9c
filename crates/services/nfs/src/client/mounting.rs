//! MOUNT: gets the file handle of an exported path (RFC 1813 section 5.2).
//!
//! Called by: programs, with an RPC client of program 100005 version 3.

use rpc::tasks::Client;
use rpc::xdr::{Decode, Decoder, List, Opaque};

use super::Error;
use crate::mount::{Export, Mounted, procedure};
use crate::proto::{Handle, Status};

/// The paths that a server exports.
///
/// # Errors
/// The call failed; there are no results.
pub async fn exports(client: &Client) -> Result<Vec<Vec<u8>>, Error> {
    let list: List<Export> = client.call(procedure::EXPORT, &()).await?;
    Ok(list.0.into_iter().map(|export| export.dir.0.0).collect())
}

/// The handle of an exported path.
///
/// # Errors
/// The call failed; there are no results.
pub async fn mount(client: &Client, path: &[u8]) -> Result<Handle, Error> {
    let results = client.call_raw(procedure::MNT, &Opaque(path)).await?;
    let mut from = Decoder::new(&results);
    match Status::decode(&mut from)? {
        Status::Ok => Ok(Mounted::decode(&mut from)?.handle),
        status => Err(Error::Status(status)),
    }
}
