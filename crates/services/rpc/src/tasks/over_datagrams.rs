//! The task of a client over datagrams: sends calls within the window, and again when they are due.
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

/// Serve the handles until all are gone.
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
            // A datagram that cannot be sent is like a lost one: it is sent again.
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
                // The error comes from an ICMP message: the call's time-out leads to the same.
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

/// An address in the form for comparisons: IPv4 may be given as IPv6, and scopes may be missing.
fn plain(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}
