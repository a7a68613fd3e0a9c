//! Services over UDP. A source address may be forged, so the services must be useless for attacks
//! on third parties: they do not reply to ports of other services (such a loop never ends), a reply
//! has at most three times the bytes of its request, and replies per second are limited.
//!
//! Called by: `services.rs`. RFC 862, RFC 863, RFC 864, RFC 867; CERT advisory CA-1996-01 describes
//! the loops. The factor of three is the limit of RFC 9000 section 8.1 for unvalidated addresses.

use core::net::{IpAddr, SocketAddr};

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use wirespeed::{Duration, Instant, Owner, Stack, UdpHandle};

use super::service::{SERVICES, Service, daytime, pattern};
use super::{Fate, Moved};

/// Services have ports below this. No client sends from one, so such a request is forged.
const SERVICES_END: u16 = 1024;
/// Characters of a chargen reply (RFC 864).
const CHARACTERS_MAX: usize = 512;
/// A reply has at most so many times the bytes of its request, headers included.
const AMPLIFICATION_MAX: usize = 3;

/// All sockets. Each is bound to one of our addresses, so none receives multicast or broadcast.
pub(super) struct Datagrams {
    sockets: Vec<(UdpHandle, Service)>,
    limit: Limiter,
    pattern: Vec<u8>,
}

impl Datagrams {
    /// Bind all services at all our addresses; at most `rate` datagrams a second are answered.
    pub(super) fn bind(
        stack: &mut Stack,
        addresses: impl Iterator<Item = IpAddr>,
        rate: u32,
    ) -> Result<Datagrams> {
        let mut sockets = Vec::new();
        for address in addresses {
            for (port, service) in SERVICES {
                let socket = stack.udp_bind(SocketAddr::new(address, port), Owner::program());
                let socket = socket.map_err(|e| anyhow!("cannot bind UDP port {port}: {e}"))?;
                sockets.push((socket, service));
            }
        }
        Ok(Datagrams { sockets, limit: Limiter::new(rate), pattern: pattern() })
    }

    /// Answer the datagrams of a socket.
    pub(super) fn serve(
        &mut self,
        handle: UdpHandle,
        stack: &mut Stack,
        now: Instant,
        moved: &mut Moved,
    ) {
        let Some(&(_, service)) = self.sockets.iter().find(|(socket, _)| *socket == handle) else {
            return;
        };
        // ICMP errors about replies are ignored.
        let _ = stack.udp_take_error(handle);
        while let Some(datagram) = stack.udp_receive(handle) {
            let bytes = datagram.payload.as_slice();
            let fate = match self.answer(service, datagram.from, bytes, now) {
                Err(fate) => fate,
                Ok(answer) => match stack.udp_send(handle, datagram.from, &answer, now) {
                    Ok(()) => Fate::Answered,
                    Err(_) => Fate::Unsent,
                },
            };
            stack.give_back(datagram.payload);
            moved.note(fate);
        }
    }

    /// The reply to a datagram, or why there is none.
    fn answer(
        &mut self,
        service: Service,
        from: SocketAddr,
        bytes: &[u8],
        now: Instant,
    ) -> Result<Vec<u8>, Fate> {
        if service == Service::Discard {
            return Err(Fate::Discarded);
        }
        if from.port() < SERVICES_END {
            return Err(Fate::FromService);
        }
        if !self.limit.admits(now) {
            return Err(Fate::OverLimit);
        }
        let headers = 8 + if from.is_ipv4() { 20 } else { 40 };
        let most = AMPLIFICATION_MAX * (headers + bytes.len()) - headers;
        let mut answer = match service {
            Service::Echo | Service::Discard => bytes.to_vec(),
            Service::Daytime => daytime(Timestamp::now()),
            Service::Chargen => self.pattern[..CHARACTERS_MAX].to_vec(),
        };
        answer.truncate(most);
        Ok(answer)
    }
}

/// A token bucket that holds one second's tokens.
struct Limiter {
    rate: u64,
    /// In billionths of a token.
    left: u64,
    at: Instant,
}

const WHOLE: u64 = 1_000_000_000;

impl Limiter {
    fn new(rate: u32) -> Limiter {
        let rate = u64::from(rate);
        Limiter { rate, left: rate * WHOLE, at: Instant::ZERO }
    }

    /// Take a token, if there is one.
    fn admits(&mut self, now: Instant) -> bool {
        let passed = now.since(self.at).min(Duration::from_secs(1));
        self.at = now;
        self.left = (self.left + passed.as_nanos() * self.rate).min(self.rate * WHOLE);
        let is_admitted = self.left >= WHOLE;
        self.left -= if is_admitted { WHOLE } else { 0 };
        is_admitted
    }
}

#[cfg(test)]
mod tests;
