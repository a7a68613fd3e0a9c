//! Servers over datagrams: a repeated call gets the same reply again; one that is still being
//! carried out gets none.
//!
//! Called by: programs. Limits: those of the cache of duplicates; as many calls at a time as there
//! are servers; further calls wait in the socket's buffer. Drops: `RpcInProgress`.

use core::future::Future;
use core::net::SocketAddr;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use base::{DropReason, KeyedHash};
use tokio::task::JoinSet;

use super::Clock;
use super::server::{Message, Servers};
use crate::limits::DATAGRAM_BYTES;
use crate::server::{Duplicates, NoBulk, Transport};

/// A socket for datagrams.
pub trait Datagrams: Send + Sync + 'static {
    /// Send a datagram.
    ///
    /// # Errors
    /// The errors of the socket.
    fn send(&self, datagram: &[u8], to: SocketAddr) -> impl Future<Output = io::Result<()>> + Send;
    /// Receive a datagram; returns its source too. The future may be dropped without a loss.
    ///
    /// # Errors
    /// The errors of the socket.
    fn receive(
        &self,
        room: &mut [u8],
    ) -> impl Future<Output = io::Result<(usize, SocketAddr)>> + Send;
}

impl Datagrams for tokio::net::UdpSocket {
    async fn send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.send_to(datagram, to).await.map(drop)
    }

    async fn receive(&self, room: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.recv_from(room).await
    }
}

/// Serve the calls that come to a socket, `calls` at a time. `secret` is the key of a hash table.
///
/// # Errors
/// The errors of the socket, except errors that an ICMP message reports.
pub async fn serve_datagrams<D: Datagrams>(
    servers: Arc<Servers>,
    socket: D,
    secret: KeyedHash,
    calls: usize,
) -> io::Result<()> {
    let clock = Clock::start();
    let mut duplicates = Duplicates::new(secret);
    let mut in_progress = HashMap::new();
    let mut jobs = JoinSet::new();
    let mut room = vec![0; DATAGRAM_BYTES];
    loop {
        tokio::select! {
            received = socket.receive(&mut room), if jobs.len() < calls.max(1) => {
                let (bytes, from) = match received {
                    Ok(received) => received,
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                    Err(error) => return Err(error),
                };
                let call = room[..bytes].to_vec();
                let key = duplicates.key(&call, from);
                if let Some(reply) = duplicates.find(key, clock.now()) {
                    // A reply that cannot be sent is like a lost one: the caller asks again.
                    let _ = socket.send(reply, from).await;
                } else if let Entry::Vacant(place) = in_progress.entry(key) {
                    let servers = servers.clone();
                    let job = jobs.spawn(async move {
                        let keep = servers.must_keep(&call);
                        let (transport, reply_max) = (Transport::Datagram, DATAGRAM_BYTES);
                        let message = Message { record: call.into(), from, transport, reply_max };
                        let reply = match servers.answer_at_once(&message, &[], &mut NoBulk) {
                            Some(reply) => reply,
                            None => servers.answer(message).await,
                        };
                        (key, from, keep, reply.map(|reply| reply.bytes))
                    });
                    place.insert(job.id());
                } else {
                    servers.count(DropReason::RpcInProgress);
                }
            }
            Some(done) = jobs.join_next(), if !jobs.is_empty() => {
                let (key, from, keep, reply) = match done {
                    Ok(done) => done,
                    // A service panicked: the call has no reply, and may come again.
                    Err(panicked) => {
                        in_progress.retain(|_, job| *job != panicked.id());
                        continue;
                    }
                };
                in_progress.remove(&key);
                let Some(reply) = reply else { continue };
                if keep {
                    duplicates.insert(key, &reply, clock.now());
                }
                let _ = socket.send(&reply, from).await;
            }
        }
    }
}
