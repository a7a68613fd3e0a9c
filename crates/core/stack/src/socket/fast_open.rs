//! TCP Fast Open: checks the cookies of SYNs, limits the connections that are open before their
//! handshake is done, and remembers the cookies of peers.
//! Called by: `passive.rs` for a SYN with the option or with data, and when such a handshake has
//! ended; `open.rs` for connections whose SYN carries data. The state of one connection is in
//! `tcp::fast_open`. RFC 7413; off unless a listener or a caller turns it on. Limits:
//! `fast_open_pending`, `fast_open_peers`, the listener's own. Counters: `tcp_fast_open_...`.

use core::net::IpAddr;
use std::collections::{BTreeMap, VecDeque};

use base::{Budget, Counter, Duration, Instant, KeyedHash, Limit};
use tcp::fast_open::Outcome;
use wire::tcp::FastOpen;

use crate::handles::{ListenerHandle, TcpHandle};
use crate::shared::Core;
use crate::socket::listener::{FastOpenListener, Listener, Listeners, Syn};

/// How long a connection that was reset before the end of its handshake counts as pending.
/// Otherwise, if an attacker reflects data at a victim, the victim's RSTs would make room for more
/// (RFC 7413 section 5.1). Linux does the same.
const RESET_KEEPS_PLACE: Duration = Duration::from_secs(60);
/// If more than this many consecutive SYNs with data were lost, the next ones carry none.
const LOSSES_MAX: u8 = 1;
/// For how long SYNs then carry no data; doubled for each further loss (RFC 7413 section 4.1.3.1).
/// Linux has the same values.
const LOSS_PAUSE: Duration = Duration::from_secs(60);
/// The time is doubled at most this many times.
const PAUSE_SHIFT_MAX: u8 = 10;

/// Fast Open state of a peer.
#[derive(Clone, Copy)]
struct Peer {
    cookie: Option<FastOpen>,
    mss: u16,
    /// Consecutive SYNs with data that were lost, and the time of the last loss.
    losses: u8,
    lost_at: Instant,
}

/// The stack's state of Fast Open.
pub(crate) struct FastOpens {
    /// The key from which cookies are made.
    key: KeyedHash,
    /// Peers, by our address and theirs.
    peers: BTreeMap<(IpAddr, IpAddr), Peer>,
    /// The keys of `peers`, oldest first.
    order: VecDeque<(IpAddr, IpAddr)>,
    /// Connections in SYN-RECEIVED that their user already has, and the listener that counts each
    /// of them.
    pending: BTreeMap<TcpHandle, ListenerHandle>,
}

/// A listener's decision about a SYN that concerns Fast Open.
pub(crate) enum Verdict {
    /// Nothing special: an ordinary handshake.
    Ordinary,
    /// An ordinary handshake, in which the SYN-ACK carries the peer's cookie.
    Grant(FastOpen),
    /// Accept the SYN's data: the program gets it now.
    Open,
}

/// A key in the format of Linux's net.ipv4.tcp_fastopen_key: 16 bytes, little-endian words.
pub(crate) fn keyed(key: [u8; 16]) -> KeyedHash {
    let key = u128::from_le_bytes(key);
    KeyedHash::new(key as u64, (key >> 64) as u64)
}

/// The cookie of a peer: SipHash-2-4 of both addresses in network order, as on other operating
/// systems. So another host of the same DNS name with the same key accepts it.
pub(crate) fn cookie(key: &KeyedHash, local: IpAddr, remote: IpAddr) -> [u8; 8] {
    let hash = match (remote.to_canonical(), local.to_canonical()) {
        (IpAddr::V4(remote), IpAddr::V4(local)) => {
            let low = u64::from(u32::from_le_bytes(remote.octets()));
            let high = u64::from(u32::from_le_bytes(local.octets()));
            key.hash_2_4([high << 32 | low])
        }
        (remote, local) => {
            let words = |ip: IpAddr| {
                let IpAddr::V6(ip) = ip else { return [0; 2] };
                let word = u128::from_le_bytes(ip.octets());
                [word as u64, (word >> 64) as u64]
            };
            let ([a, b], [c, d]) = (words(remote), words(local));
            key.hash_2_4([a, b, c, d])
        }
    };
    hash.to_le_bytes()
}

impl FastOpens {
    /// Create the state, with a key derived from the stack's secret.
    pub(crate) fn new(secret: &KeyedHash) -> FastOpens {
        // A constant that makes this key differ from other values derived from the secret.
        const KIND: u64 = 4;
        FastOpens {
            key: KeyedHash::new(secret.hash([KIND, 0]), secret.hash([KIND, 1])),
            peers: BTreeMap::new(),
            order: VecDeque::new(),
            pending: BTreeMap::new(),
        }
    }

    /// The cookie of a peer, and the MSS that it offered. `None` if no cookie is known, or after
    /// losses of SYNs with data.
    pub(crate) fn known(&self, ends: (IpAddr, IpAddr), now: Instant) -> Option<(FastOpen, u16)> {
        let peer = self.peers.get(&ends)?;
        (!peer.pauses(now)).then_some((peer.cookie?, peer.mss))
    }

    pub(crate) fn pauses(&self, ends: (IpAddr, IpAddr), now: Instant) -> bool {
        self.peers.get(&ends).is_some_and(|peer| peer.pauses(now))
    }

    /// The MSS that a peer offered last; 0 if it is not known.
    pub(crate) fn mss(&self, ends: (IpAddr, IpAddr)) -> u16 {
        self.peers.get(&ends).map_or(0, |peer| peer.mss)
    }

    pub(crate) fn set_key(&mut self, key: [u8; 16]) {
        self.key = keyed(key);
    }

    pub(crate) fn forget_peers(&mut self) {
        self.peers.clear();
        self.order.clear();
    }

    /// Decide what a listener does with a SYN that has the option, or carries `bytes` bytes.
    pub(crate) fn decide(
        &self,
        listener: &mut Listener,
        syn: &Syn,
        bytes: usize,
        core: &mut Core,
    ) -> Verdict {
        let waiting = listener.accepted.len() + listener.half_open.count();
        let crowded = waiting > listener.backlog;
        let settings = &mut listener.fast_open;
        if settings.max == 0 {
            return Verdict::Ordinary;
        }
        let key = settings.key.map_or(self.key, keyed);
        let good = cookie(&key, syn.local.ip(), syn.remote.ip());
        let trusted = settings.without_cookie && bytes > 0;
        match syn.options.fast_open {
            Some(said) if !trusted && said.cookie() != good => {
                if !said.is_request() {
                    core.cx.counters.add(Counter::TcpFastOpenRefused, 1);
                }
                core.cx.counters.add(Counter::TcpFastOpenCookiesSent, 1);
                FastOpen::new(&good, said.experimental).map_or(Verdict::Ordinary, Verdict::Grant)
            }
            None if !trusted => Verdict::Ordinary,
            _ if crowded
                || !settings.has_room(core.cx.now)
                || !core.cx.budget.admits(Limit::FastOpenPending, self.pending.len()) =>
            {
                core.cx.counters.add(Counter::TcpFastOpenFull, 1);
                Verdict::Ordinary
            }
            _ => Verdict::Open,
        }
    }

    /// Note that a connection goes to its user before its handshake is done; its listener counts
    /// it.
    pub(crate) fn enter(&mut self, handle: TcpHandle, at: ListenerHandle, listener: &mut Listener) {
        self.pending.insert(handle, at);
        listener.fast_open.pending += 1;
    }

    /// Note that the handshake of such a connection has ended: the connection is open, or closed.
    pub(crate) fn leave(
        &mut self,
        handle: TcpHandle,
        open: bool,
        listeners: &mut Listeners,
        now: Instant,
    ) {
        let Some(listener) = self.pending.remove(&handle) else { return };
        let Some(listener) = listeners.get_mut(listener) else { return };
        if open {
            listener.fast_open.pending -= 1;
        } else {
            listener.fast_open.reset.push_back(now + RESET_KEEPS_PLACE);
        }
    }

    /// Note what the outcome of a SYN shows about the peer.
    pub(crate) fn note(
        &mut self,
        ends: (IpAddr, IpAddr),
        outcome: &Outcome,
        open: bool,
        cx: &mut tcp::Cx,
    ) {
        if outcome.syn_bytes > 0 && open && !outcome.taken {
            cx.counters.add(Counter::TcpFastOpenNotTaken, 1);
        }
        let lost = outcome.syn_bytes > 0 && outcome.went_again && !outcome.taken;
        if outcome.cookie.is_none() && !lost && !(open && outcome.taken) {
            return;
        }
        let now = cx.now;
        let peer = self.learn(ends, &mut cx.budget);
        if outcome.peer_mss > 0 {
            peer.mss = outcome.peer_mss;
        }
        if let Some(cookie) = outcome.cookie {
            peer.cookie = Some(cookie);
        }
        if lost {
            peer.losses = peer.losses.saturating_add(1);
            peer.lost_at = now;
        } else {
            peer.losses = 0;
        }
    }

    fn learn(&mut self, ends: (IpAddr, IpAddr), budget: &mut Budget) -> &mut Peer {
        if !self.peers.contains_key(&ends) {
            let full = !budget.admits(Limit::FastOpenPeers, self.peers.len());
            if let Some(oldest) = self.order.front().copied().filter(|_| full) {
                self.order.pop_front();
                self.peers.remove(&oldest);
            }
            self.order.push_back(ends);
        }
        let nothing = Peer { cookie: None, mss: 0, losses: 0, lost_at: Instant::ZERO };
        self.peers.entry(ends).or_insert(nothing)
    }
}

impl Peer {
    fn pauses(&self, now: Instant) -> bool {
        let pause = LOSS_PAUSE.saturating_mul(1 << self.losses.min(PAUSE_SHIFT_MAX));
        self.losses > LOSSES_MAX && now < self.lost_at + pause
    }
}

impl FastOpenListener {
    /// May one more connection be open before its handshake is done?
    fn has_room(&mut self, now: Instant) -> bool {
        while self.reset.front().is_some_and(|&until| until <= now) {
            self.reset.pop_front();
            self.pending -= 1;
        }
        self.pending < self.max
    }
}
