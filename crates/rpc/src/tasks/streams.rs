//! Connections to servers: calls are read while there is room for their replies, and carried out at
//! the same time; replies are written as they are made.
//!
//! Called by: programs. Limits: [`Limits`], `HALF_RECORD`, `IDLE`, `STALL`. Drops: `RpcRecord`,
//! `RpcConnections`.

use core::future::Future;
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use base::DropReason;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant as Monotone, sleep, timeout, timeout_at};

use super::Servers;
use crate::limits::{
    BUFFER_UNIT, CONNECTION_CALLS, CONNECTIONS, HALF_RECORD, IDLE, RECORD_BYTES, STALL,
};
use crate::message::{BadCall, Call};
use crate::record::RecordReader;
use crate::server::{SessionError, Transport};

/// What a server over streams bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; more are closed.
    pub connections: usize,
    /// Calls of one connection that are carried out, or whose replies are not written yet.
    pub calls: usize,
    /// Bytes of a record, either way.
    pub record_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: CONNECTIONS, calls: CONNECTION_CALLS, record_max: RECORD_BYTES }
    }
}

/// A reply, and the right to the memory that it takes.
type Reply = (Vec<u8>, OwnedSemaphorePermit);

/// How long a server waits when it cannot accept: descriptors may be free again.
const PAUSE: core::time::Duration = core::time::Duration::from_millis(50);
/// Times in a row that it may fail: ten seconds.
const FAILURES_MAX: u32 = 200;

/// Serve the connections that `accept` returns. Dropping the future ends them all.
///
/// # Errors
/// Those of `accept`, if they do not pass within ten seconds: many are the peer's fault, or a lack
/// of descriptors.
pub async fn listen<A, F, S>(servers: Arc<Servers>, mut accept: A, limits: Limits) -> io::Result<()>
where
    A: FnMut() -> F,
    F: Future<Output = io::Result<(S, SocketAddr)>>,
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut failures = 0;
    loop {
        tokio::select! {
            accepted = accept() => match accepted {
                Ok(_) if connections.len() >= limits.connections => {
                    servers.count(DropReason::RpcConnections);
                    failures = 0;
                }
                Ok((stream, from)) => {
                    connections.spawn(serve_stream(servers.clone(), stream, from, limits));
                    failures = 0;
                }
                Err(error) if failures >= FAILURES_MAX => return Err(error),
                Err(_) => {
                    failures += 1;
                    sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Serve one connection until it ends.
///
/// # Errors
/// The stream's, or `InvalidData` or `TimedOut` with the reason why the connection was ended.
pub async fn serve_stream<S: AsyncRead + AsyncWrite>(
    servers: Arc<Servers>,
    stream: S,
    from: SocketAddr,
    limits: Limits,
) -> io::Result<()> {
    let (reader, writer) = split(stream);
    let (replies, replied) = mpsc::channel(limits.calls.max(1) + 1);
    let writing = write(servers.clone(), writer, replied);
    tokio::try_join!(calls(servers, reader, from, limits, replies), writing)?;
    Ok(())
}

/// Read calls and have them carried out.
async fn calls(
    servers: Arc<Servers>,
    mut reader: impl AsyncRead + Unpin,
    from: SocketAddr,
    limits: Limits,
    replies: mpsc::Sender<Reply>,
) -> io::Result<()> {
    let mut records = RecordReader::new(BUFFER_UNIT, limits.record_max);
    let room = Arc::new(Semaphore::new(limits.calls.max(1)));
    let at_once = Arc::new(Semaphore::new(1));
    let mut jobs = JoinSet::new();
    let mut deadline = Monotone::now() + IDLE.into();
    let mut is_half = false;
    loop {
        loop {
            let record = match records.take_record(|| servers.records.take_full()) {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    servers.count(DropReason::RpcRecord);
                    return Err(invalid(error.into()));
                }
            };
            if let Err(BadCall::Malformed) = Call::parse(&record) {
                servers.count(DropReason::RpcMalformed);
                return Err(invalid(SessionError::Malformed));
            }
            let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
            while jobs.try_join_next().is_some() {}
            // When the last long one has left, this reply has its buffer, which is in the cache.
            let is_written = at_once.clone().acquire_owned().await.map_err(io::Error::other)?;
            (is_half, deadline) = (false, Monotone::now() + IDLE.into());
            let most = limits.record_max;
            let record = match servers.answer_at_once(record, from, Transport::Stream, most) {
                Ok(Some(reply)) => {
                    let until = if reply.len() < BUFFER_UNIT { permit } else { is_written };
                    // There is room for as many as there are permits.
                    let _ = replies.send((reply, until)).await;
                    continue;
                }
                Ok(None) => continue,
                Err(record) => record,
            };
            let (servers, replies) = (servers.clone(), replies.clone());
            jobs.spawn(async move {
                let answer = servers.answer(record, from, Transport::Stream, most);
                if let Some(reply) = answer.await {
                    // There is room for as many as there are permits.
                    let _ = replies.send((reply, permit)).await;
                }
            });
        }
        if records.is_inside() && !is_half {
            (is_half, deadline) = (true, Monotone::now() + HALF_RECORD.into());
        }
        let read = timeout_at(deadline, reader.read(records.room())).await;
        let bytes =
            read.map_err(|_| io::Error::new(ErrorKind::TimedOut, "idle, or half a record"))?;
        match bytes? {
            0 => break,
            bytes => records.filled(bytes),
        }
    }
    drop(replies);
    // The peer sends no more; what it has called is carried out.
    while jobs.join_next().await.is_some() {}
    Ok(())
}

fn invalid(error: SessionError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// Write replies. A peer that takes none of one for too long ends the connection.
async fn write(
    servers: Arc<Servers>,
    mut writer: impl AsyncWrite + Unpin,
    mut replied: mpsc::Receiver<Reply>,
) -> io::Result<()> {
    while let Some((mut reply, permit)) = replied.recv().await {
        let mut permits = vec![permit];
        // Short replies leave together.
        while reply.len() < BUFFER_UNIT
            && let Ok((next, permit)) = replied.try_recv()
        {
            reply.extend_from_slice(&next);
            servers.replies.put(next);
            permits.push(permit);
        }
        let mut written = 0;
        while written < reply.len() {
            let some = timeout(STALL.into(), writer.write(&reply[written..])).await;
            match some.map_err(|_| io::Error::from(ErrorKind::TimedOut))?? {
                0 => return Err(ErrorKind::WriteZero.into()),
                bytes => written += bytes,
            }
        }
        if replied.is_empty() {
            timeout(STALL.into(), writer.flush()).await??;
        }
        servers.replies.put(reply);
        drop(permits);
    }
    writer.shutdown().await
}
