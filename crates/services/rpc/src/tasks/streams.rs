//! Connections to servers. Calls are read while there is memory for their replies, and several
//! calls are carried out at the same time.
//!
//! Called by: programs. Limits: [`Limits`], `HALF_RECORD`, `IDLE`. Drops: `RpcConnections`.

mod arriving;
mod lent;
mod replies;

use core::future::Future;
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use arriving::Arriving;
use base::DropReason;
pub use lent::{Arrived, Lender, Lent};
use lent::{Body, Filled, LendsNothing};
use replies::{Reply, write};
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant as Monotone, sleep, timeout_at};

use super::Room;
use super::server::{Answer, Message, Servers};
use crate::limits::{CONNECTION_CALLS, CONNECTIONS, HALF_RECORD, IDLE, RECORD_BYTES};
use crate::server::Transport;

/// The limits of a server over streams.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many connections may be open at a time; further ones are closed.
    pub connections: usize,
    /// How many calls of one connection may be carried out, or have replies that are not written
    /// yet.
    pub calls: usize,
    /// The most bytes of a record, received or sent.
    pub record_max: usize,
    /// What happens to calls that need not wait.
    pub at_once: AtOnce,
}

/// What happens to a call of which its service knows that it need not wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtOnce {
    /// It is treated like all others: the pool carries it out.
    Never,
    /// It is carried out on the task that has read it.
    Copied,
    /// It is carried out on the task that has read it. Long data stays in buffers of the stream, if
    /// the stream lends any.
    #[default]
    Lent,
}

impl Default for Limits {
    fn default() -> Limits {
        let at_once = AtOnce::default();
        let (connections, calls) = (CONNECTIONS, CONNECTION_CALLS);
        Limits { connections, calls, record_max: RECORD_BYTES, at_once }
    }
}

/// How long a server waits when it cannot accept a connection; descriptors may be free again after
/// that.
const PAUSE: core::time::Duration = core::time::Duration::from_millis(50);
/// How many times in a row accepting may fail. With the pauses that takes ten seconds.
const FAILURES_MAX: u32 = 200;

/// Serve the connections that `accept` returns. If the future is dropped, all connections end.
///
/// # Errors
/// The error of `accept`, if it fails for ten seconds. Shorter failures are often caused by a peer,
/// or by a lack of descriptors.
pub async fn listen<A, F, C>(servers: Arc<Servers>, mut accept: A, limits: Limits) -> io::Result<()>
where
    A: FnMut() -> F,
    F: Future<Output = io::Result<(C, SocketAddr)>>,
    C: Connection,
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
                Ok((connection, from)) => {
                    connections.spawn(connection.serve(servers.clone(), from, limits));
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

/// A connection that [`listen`] serves: any stream, or one that lends buffers.
pub trait Connection: Send + 'static {
    /// Serve the connection until it ends, as [`serve_stream`].
    fn serve(
        self,
        servers: Arc<Servers>,
        from: SocketAddr,
        limits: Limits,
    ) -> impl Future<Output = io::Result<()>> + Send;
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Connection for S {
    fn serve(
        self,
        servers: Arc<Servers>,
        from: SocketAddr,
        limits: Limits,
    ) -> impl Future<Output = io::Result<()>> + Send {
        serve_stream(servers, self, from, limits)
    }
}

/// Serve one connection until it ends.
///
/// # Errors
/// The stream's error, or `InvalidData` or `TimedOut` with the reason why the connection was ended.
pub async fn serve_stream<S: AsyncRead + AsyncWrite>(
    servers: Arc<Servers>,
    stream: S,
    from: SocketAddr,
    limits: Limits,
) -> io::Result<()> {
    let at_once = match limits.at_once {
        AtOnce::Lent => AtOnce::Copied,
        other => other,
    };
    let limits = Limits { at_once, ..limits };
    serve_lending(servers, split(stream), &LendsNothing, from, limits).await
}

/// Like [`serve_stream`], with a separate reader and writer, and with a lender of the buffers that
/// are sent to the peer.
///
/// # Errors
/// As for [`serve_stream`].
pub async fn serve_lending<L: Lender>(
    servers: Arc<Servers>,
    (reader, writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    lender: &L,
    from: SocketAddr,
    limits: Limits,
) -> io::Result<()> {
    let (replies, replied) = mpsc::channel(limits.calls.max(1) + 1);
    let writing = write(&servers.replies, writer, lender, replied);
    tokio::try_join!(calls(&servers, reader, lender, from, limits, replies), writing)?;
    Ok(())
}

/// Read calls, and let servers carry them out.
async fn calls<L: Lender>(
    servers: &Arc<Servers>,
    reader: impl AsyncRead + Unpin,
    lender: &L,
    from: SocketAddr,
    limits: Limits,
    replies: mpsc::Sender<Reply<L::Buffer>>,
) -> io::Result<()> {
    let lender = (limits.at_once == AtOnce::Lent).then_some(lender);
    let mut arriving = Arriving::new(servers, reader, lender, limits.record_max);
    let room = Arc::new(Semaphore::new(limits.calls.max(1)));
    let at_once = Arc::new(Semaphore::new(1));
    let mut jobs = JoinSet::new();
    let mut deadline = Monotone::now() + IDLE.into();
    let mut is_half = false;
    loop {
        while let Some(record) = arriving.next_call()? {
            let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
            while jobs.try_join_next().is_some() {}
            (is_half, deadline) = (false, Monotone::now() + IDLE.into());
            let (transport, reply_max) = (Transport::Stream, limits.record_max);
            let mut message = Message { record, from, transport, reply_max };
            if limits.at_once != AtOnce::Never {
                // Wait until the last long reply is written. Then this reply uses the same memory,
                // which is in the cache.
                let written = at_once.clone().acquire_owned().await.map_err(io::Error::other)?;
                let done = carried_out(servers, &message, &arriving.end(), lender);
                if let Some(body) = done {
                    servers.records.put(message.record.into_buffer());
                    arriving.forget();
                    if let Some((body, room)) = body {
                        let permit = if body.is_long() { written } else { permit };
                        // The channel has room for as many replies as there are permits, so this
                        // does not wait.
                        let _ = replies.send(Reply { body, permit, room }).await;
                    }
                    continue;
                }
            }
            arriving.join(&mut message.record);
            let call = servers.rooms.call(message.record.len()).await;
            let (servers, replies) = (servers.clone(), replies.clone());
            jobs.spawn(async move {
                let answer = servers.answer(message).await;
                drop(call);
                if let Some(Answer { bytes, room }) = answer {
                    // This does not wait either.
                    let _ = replies.send(Reply { body: Body::Bytes(bytes), permit, room }).await;
                }
            });
        }
        if arriving.is_inside() && !is_half {
            (is_half, deadline) = (true, Monotone::now() + HALF_RECORD.into());
        }
        let read = timeout_at(deadline, arriving.read()).await;
        let bytes =
            read.map_err(|_| io::Error::new(ErrorKind::TimedOut, "idle, or half a record"))?;
        if bytes? == 0 {
            break;
        }
    }
    drop(replies);
    // The peer sends no more calls. Those that it has sent are still carried out.
    while jobs.join_next().await.is_some() {}
    Ok(())
}

/// A reply, and its reserved memory.
type Ready<B> = (Body<B>, Option<Room>);

/// Carry out a call that need not wait. Returns its reply, if it has one. `None`: the call might
/// have to wait.
fn carried_out<L: Lender>(
    servers: &Arc<Servers>,
    message: &Message,
    more: &[&[u8]],
    lender: Option<&L>,
) -> Option<Option<Ready<L::Buffer>>> {
    let mut bulk = Filled::new(lender);
    let answer = servers.answer_at_once(message, more, &mut bulk)?;
    let body = |answer: Answer| (bulk.into_body(answer.bytes, &servers.replies), answer.room);
    Some(answer.map(body))
}
