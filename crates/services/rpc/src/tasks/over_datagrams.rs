//! The task of a client over datagrams: sends calls as the window allows, and again when they are
//! due.
//!
//! Called by: `client.rs`. Limits: `Config::calls`, `Config::timeout`, those of `DatagramClient`.

use core::net::{IpAddr, SocketAddr};
use std::collections::HashMap;

use base::KeyedHash;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::client::{Answer, Asked};
use super::{Clock, Datagrams};
use crate::client::{CallError, CallId, Config, DatagramClient};
use crate::limits::DATAGRAM_BYTES;

/// Carry out the calls of the handles until all handles are dropped.
pub(super) async fn run<D: Datagrams>(
    config: Config,
    secret: KeyedHash,
    socket: D,
    server: SocketAddr,
    mut asked: mpsc::Receiver<Asked>,
) {
    let (calls, clock) = (config.calls, Clock::start());
    let mut client = DatagramClient::new(config, secret);
    let mut waiting: HashMap<CallId, Answer> = HashMap::new();
    let mut room = vec![0; DATAGRAM_BYTES];
    let mut is_over = false;
    while !(is_over && client.waiting() == 0) {
        let now = clock.now();
        while let Some(id) = client.next_expired(now) {
            waiting.remove(&id).map(|reply| reply.send(Err(CallError::TimedOut)));
        }
        while let Some(datagram) = client.next_datagram(now) {
            // If a datagram cannot be sent, that is like a lost datagram: it is sent again.
            let _ = socket.send(datagram, server).await;
        }
        let due = clock.at(client.deadline());
        tokio::select! {
            call = asked.recv(), if !is_over && client.waiting() < calls => match call {
                Some(call) => match client.call(call.procedure, &call, clock.now()) {
                    Ok(id) => drop(waiting.insert(id, call.reply)),
                    Err(error) => drop(call.reply.send(Err(error))),
                },
                None => is_over = true,
            },
            received = socket.receive(&mut room) => {
                // An ICMP message caused the error. It needs no action, because the call will time
                // out.
                let Ok((bytes, from)) = received else { continue };
                if plain(from) != plain(server) {
                    continue;
                }
                if let Some((id, results)) = client.on_datagram(&room[..bytes], clock.now())
                    && let Some(reply) = waiting.remove(&id)
                {
                    let _ = reply.send(results.map(|results| results.to_vec().into()));
                }
            }
            () = sleep_until(due) => {}
        }
    }
}

/// An address in a form that can be compared: IPv4-mapped IPv6 addresses become IPv4, and scopes
/// are removed.
fn plain(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}
