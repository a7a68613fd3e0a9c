//! Writes replies as they are made: short ones together, long ones from their own buffers.
//!
//! Called by: `streams.rs`. Limit: `STALL`.

use core::future::Future;
use std::io::{self, ErrorKind};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::lent::{Body, Lender};
use crate::limits::{BUFFER_UNIT, STALL};
use crate::tasks::{Room, Spares};

/// A reply, and the right to the memory that it occupies.
pub(super) struct Reply<B> {
    pub(super) body: Body<B>,
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) room: Option<Room>,
}

/// Write replies. If the peer reads no byte for too long, the connection is ended.
pub(super) async fn write<L: Lender>(
    spares: &Spares,
    mut writer: impl AsyncWrite + Unpin,
    lender: &L,
    mut replied: mpsc::Receiver<Reply<L::Buffer>>,
) -> io::Result<()> {
    let mut next = None;
    loop {
        let reply = match next.take() {
            Some(reply) => reply,
            None => match replied.recv().await {
                Some(reply) => reply,
                None => break,
            },
        };
        let mut permits = vec![(reply.permit, reply.room)];
        match reply.body {
            Body::Lent(buffers) => {
                for buffer in buffers {
                    unless_it_stalls(lender.send(buffer)).await?;
                }
            }
            Body::Bytes(mut bytes) => {
                // Write short replies together.
                while bytes.len() < BUFFER_UNIT
                    && let Ok(reply) = replied.try_recv()
                {
                    let Body::Bytes(more) = reply.body else {
                        next = Some(reply);
                        break;
                    };
                    bytes.extend_from_slice(&more);
                    spares.put(more);
                    permits.push((reply.permit, reply.room));
                }
                write_all(&mut writer, &bytes).await?;
                spares.put(bytes);
            }
        }
        if next.is_none() && replied.is_empty() {
            unless_it_stalls(writer.flush()).await?;
        }
    }
    writer.shutdown().await
}

async fn write_all(writer: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match unless_it_stalls(writer.write(bytes)).await? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

async fn unless_it_stalls<T>(write: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(STALL.into(), write).await.map_err(|_| io::Error::from(ErrorKind::TimedOut))?
}
