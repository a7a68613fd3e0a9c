//! Servers over datagrams: a repeated call gets the same reply again. If the first call is still
//! being carried out, the repeated one gets no reply.
//!
//! Called by: programs. Limits: those of the duplicate cache; as many calls at a time as there are
//! servers. Further calls stay in the socket's buffer. Drops: `RpcInProgress`.

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

/// A datagram socket.
pub trait Datagrams: Send + Sync + 'static {
    /// Send a datagram.
    ///
    /// # Errors
    /// The errors of the socket.
    fn send(&self, datagram: &[u8], to: SocketAddr) -> impl Future<Output = io::Result<()>> + Send;
    /// Receive a datagram. Returns its length and source. If the future is dropped, no datagram is
    /// lost.
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

/// Serve the calls that arrive at a socket, `calls` at a time. `secret` is the key of a hash table.
///
/// # Errors
/// The errors of the socket, except those that an ICMP message caused.
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
                    // If the reply cannot be sent, that is like a lost reply: the caller repeats
                    // its call.
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
                    // A service panicked. The call has no reply, and the caller may repeat it.
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
