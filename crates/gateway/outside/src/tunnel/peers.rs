//! Peers of a tunnel: whose address is whose, what is encrypted for whom, and when.
//!
//! Called by: `tunnel.rs`. Packets and datagrams as bytes; the protocol is crate boringtun's. A
//! peer's endpoint is where its last authentic datagram came from (roaming). The WireGuard paper,
//! sections 2.1 (cryptokey routing) and 6 (timers).

use core::net::{IpAddr, SocketAddr};

use base::{Cidr, Duration, Instant};
use boringtun::noise::handshake::parse_handshake_anon;
use boringtun::noise::{Packet, Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};

use super::config::TunnelConfig;

/// How long a peer may leave handshakes without an answer until flows through it fail: the third
/// handshake was sent then.
pub(super) const PATIENCE: Duration = Duration::from_secs(12);
/// How often timers of a peer are looked at: while it is asked for a handshake, and else.
const SOON: Duration = Duration::from_millis(250);
const SECOND: Duration = Duration::from_secs(1);
/// The timers of a session end three times its life after its handshake (section 6.1).
const SESSION: core::time::Duration = core::time::Duration::from_secs(3 * 180);
/// The first byte of a handshake's first message.
const INITIATION: u8 = 1;
/// Bytes that encryption adds at most, and of the longest message of a handshake.
pub(super) const OVERHEAD: usize = 160;

/// What comes of a datagram or a packet.
pub(super) enum Comes<'a> {
    /// A packet for our stack.
    Packet(&'a mut [u8]),
    /// A datagram for an endpoint.
    Datagram(&'a [u8], SocketAddr),
}

struct Peer {
    public_key: PublicKey,
    tunn: Tunn,
    endpoint: Option<SocketAddr>,
    keeps_alive: bool,
    /// A handshake is to be asked for, although nothing is to be sent.
    begins: bool,
    /// Since when handshakes have no answer.
    asked: Option<Instant>,
}

impl Peer {
    fn is_silent(&self, now: Instant, patience: Duration) -> bool {
        self.asked.is_some_and(|asked| now.since(asked) >= patience)
    }

    /// When its timers are due.
    fn due(&self, now: Instant) -> Instant {
        let has_session = self.tunn.time_since_last_handshake().is_some_and(|time| time < SESSION);
        match (self.asked, has_session || self.keeps_alive) {
            (Some(_), _) => now + SOON,
            (None, true) => now + SECOND,
            (None, false) => Instant::NEVER,
        }
    }

    /// Where to send what the protocol wants to be sent.
    fn sent<'a>(&mut self, datagram: &'a [u8], now: Instant) -> Option<Comes<'a>> {
        if datagram.first() == Some(&INITIATION) {
            self.asked.get_or_insert(now);
        }
        Some(Comes::Datagram(datagram, self.endpoint?))
    }
}

/// All peers.
pub(super) struct Peers {
    own: (StaticSecret, PublicKey),
    all: Vec<Peer>,
    /// The networks behind peers, the longest prefix first.
    routes: Vec<(Cidr, usize)>,
    /// When timers are due.
    due: Instant,
    /// How long handshakes may be without an answer.
    pub(super) patience: Duration,
}

impl Peers {
    /// The peers of a configuration, at these endpoints.
    pub(super) fn new(config: &TunnelConfig, endpoints: &[Option<SocketAddr>]) -> Peers {
        let own = config.private_key.clone();
        let (mut all, mut routes) = (Vec::new(), Vec::new());
        for (number, peer) in config.peers.iter().enumerate() {
            let (public, shared, alive) = (peer.public_key, peer.preshared_key, peer.keepalive);
            let tunn = Tunn::new(own.clone(), public, shared, alive, number as u32, None);
            all.push(Peer {
                public_key: public,
                tunn,
                endpoint: endpoints.get(number).copied().flatten(),
                keeps_alive: alive.is_some(),
                begins: alive.is_some(),
                asked: None,
            });
            routes.extend(peer.allowed_ips.iter().map(|&network| (network, number)));
        }
        routes.sort_by_key(|(network, _)| core::cmp::Reverse(network.prefix_len));
        let public = PublicKey::from(&own);
        let (due, patience) = (Instant::ZERO, PATIENCE);
        Peers { own: (own, public), all, routes, due, patience }
    }

    fn behind(&self, ip: IpAddr) -> Option<usize> {
        let ip = ip.to_canonical();
        self.routes.iter().find(|(network, _)| network.contains(ip)).map(|&(_, peer)| peer)
    }

    /// Is the address behind a peer?
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        self.behind(ip).is_some()
    }

    /// Does the peer in front of an address not answer?
    pub(super) fn is_silent(&self, ip: IpAddr, now: Instant) -> bool {
        let peer = self.behind(ip).and_then(|peer| self.all.get(peer));
        peer.is_some_and(|peer| peer.is_silent(now, self.patience))
    }

    /// Does any peer not answer?
    pub(super) fn has_silent(&self, now: Instant) -> bool {
        self.all.iter().any(|peer| peer.is_silent(now, self.patience))
    }

    /// When to call [`Peers::tick`].
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    fn arm(&mut self, now: Instant) {
        self.due = self.all.iter().map(|peer| peer.due(now)).min().unwrap_or(Instant::NEVER);
    }

    /// Something has happened: timers may be due sooner.
    fn hurry(&mut self, number: usize, now: Instant) {
        let due = self.all.get(number).map_or(Instant::NEVER, |peer| peer.due(now));
        self.due = self.due.min(due);
    }

    /// Encrypt a packet of our stack.
    pub(super) fn encrypt<'a>(
        &mut self,
        packet: &[u8],
        buffer: &'a mut [u8],
        now: Instant,
    ) -> Option<Comes<'a>> {
        let number = self.behind(Tunn::dst_address(packet)?)?;
        let peer = self.all.get_mut(number)?;
        let comes = match peer.tunn.encapsulate(packet, buffer) {
            TunnResult::WriteToNetwork(datagram) => peer.sent(datagram, now),
            _ => None,
        };
        self.hurry(number, now);
        comes
    }

    /// Decrypt a datagram; an empty one asks for what is left to send to the peer of the last one.
    pub(super) fn decrypt<'a>(
        &mut self,
        (datagram, from): (&[u8], SocketAddr),
        last: &mut Option<usize>,
        buffer: &'a mut [u8],
        now: Instant,
    ) -> Option<Comes<'a>> {
        let number = match datagram.is_empty() {
            true => (*last)?,
            false => self.sender(datagram)?,
        };
        let peer = self.all.get_mut(number)?;
        let source = if datagram.is_empty() { None } else { Some(from.ip()) };
        let result = peer.tunn.decapsulate(source, datagram, buffer);
        if let TunnResult::Err(_) = result {
            return None;
        }
        let is_cookie = |datagram: &[u8]| datagram.first() == Some(&3);
        // What has passed the checks comes from the peer; a cookie is asked for before them.
        let is_authentic = !datagram.is_empty()
            && !is_cookie(datagram)
            && !matches!(&result, TunnResult::WriteToNetwork(answer) if is_cookie(answer));
        if let TunnResult::WriteToNetwork(answer) = &result
            && is_cookie(answer)
        {
            return Some(Comes::Datagram(answer_of(result)?, from));
        }
        if is_authentic {
            peer.endpoint = Some(from);
            peer.asked = None;
        }
        *last = Some(number);
        let comes = match result {
            TunnResult::WriteToNetwork(datagram) => peer.sent(datagram, now),
            TunnResult::WriteToTunnelV4(packet, source) => {
                self.from(number, source.into()).then_some(Comes::Packet(packet))
            }
            TunnResult::WriteToTunnelV6(packet, source) => {
                self.from(number, source.into()).then_some(Comes::Packet(packet))
            }
            TunnResult::Done | TunnResult::Err(_) => None,
        };
        self.hurry(number, now);
        comes
    }

    /// May the peer send from this address?
    fn from(&self, number: usize, source: IpAddr) -> bool {
        self.behind(source) == Some(number)
    }

    /// Whose datagram is this?
    fn sender(&self, datagram: &[u8]) -> Option<usize> {
        let index = match Tunn::parse_incoming_packet(datagram).ok()? {
            Packet::HandshakeInit(init) => {
                let half = parse_handshake_anon(&self.own.0, &self.own.1, &init).ok()?;
                let key = PublicKey::from(half.peer_static_public);
                return self.all.iter().position(|peer| peer.public_key == key);
            }
            Packet::HandshakeResponse(response) => response.receiver_idx,
            Packet::PacketCookieReply(reply) => reply.receiver_idx,
            Packet::PacketData(data) => data.receiver_idx,
        };
        // The lower bits number the peer's sessions.
        Some((index >> 8) as usize).filter(|&number| number < self.all.len())
    }

    /// Ask the peer in front of an address for a handshake, unless one is under way.
    pub(super) fn ask<'a>(
        &mut self,
        ip: IpAddr,
        buffer: &'a mut [u8],
        now: Instant,
    ) -> Option<Comes<'a>> {
        let number = self.behind(ip)?;
        let peer = self.all.get_mut(number)?;
        match peer.tunn.format_handshake_initiation(buffer, false) {
            TunnResult::WriteToNetwork(datagram) => peer.sent(datagram, now),
            _ => None,
        }
    }

    /// Look at the timers of a peer, by its number.
    pub(super) fn tick<'a>(
        &mut self,
        number: usize,
        buffer: &'a mut [u8],
        now: Instant,
    ) -> Option<Comes<'a>> {
        let peer = self.all.get_mut(number)?;
        let result = match core::mem::take(&mut peer.begins) {
            true => peer.tunn.format_handshake_initiation(buffer, false),
            false => peer.tunn.update_timers(buffer),
        };
        match result {
            TunnResult::WriteToNetwork(datagram) => peer.sent(datagram, now),
            TunnResult::Err(_) => {
                // It gave up: the next packet begins anew, or the next tick.
                peer.asked = None;
                peer.begins = peer.keeps_alive;
                None
            }
            _ => None,
        }
    }

    /// Every one has had its tick.
    pub(super) fn ticked(&mut self, now: Instant) {
        self.arm(now);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

fn answer_of(result: TunnResult<'_>) -> Option<&[u8]> {
    match result {
        TunnResult::WriteToNetwork(datagram) => Some(datagram),
        _ => None,
    }
}
