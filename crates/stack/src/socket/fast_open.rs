//! TCP Fast Open: whose cookies are good, how many connections may be open before their handshake
//! is done, and what peers' cookies were.
//!
//! Called by: `passive.rs` for a SYN with the option or with data, and when such a handshake is
//! over; programs, for connections whose SYN carries data. What a connection does with it is in
//! `tcp::fast_open`. RFC 7413; off unless a listener or a caller asks for it. Limits:
//! `fast_open_pending`, `fast_open_peers`, the listener's own. Counters: `tcp_fast_open_...`.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};

use base::{Budget, Counter, Duration, Instant, KeyedHash, Limit, Mss, Owner};
use mbuf::Mbuf;
use tcp::State;
use tcp::fast_open::{self, OPTIONS_ROOM, Outcome, Role};
use tcp::usrreq;
use wire::tcp::FastOpen;

use crate::event::Event;
use crate::socket::listener::FastOpenListener;
use crate::socket::open::ConnectError;
use crate::socket::passive::{self, Syn};
use crate::{IpSettings, ListenerHandle, Stack, TcpHandle, tx};

/// How long a connection that was reset before its handshake was done keeps its place among the
/// pending ones: who reflects data at a victim would have the victim's RSTs make room for more (RFC
/// 7413 section 5.1). Linux has it so, too.
const RESET_KEEPS_PLACE: Duration = Duration::from_secs(60);
/// After so many SYNs with data in a row that went unanswered, the next ones carry none,
const LOSSES_MAX: u8 = 1;
/// for this long, doubled with each further one (RFC 7413 section 4.1.3.1). Linux's figures.
const LOSS_PAUSE: Duration = Duration::from_secs(60);
/// The longest of these pauses is this many times as long.
const PAUSE_SHIFT_MAX: u8 = 10;

/// What is known of a peer.
#[derive(Clone, Copy)]
struct Peer {
    cookie: Option<FastOpen>,
    mss: u16,
    /// SYNs with data that were lost in a row, the last of them then.
    losses: u8,
    lost_at: Instant,
}

/// What a stack keeps for Fast Open.
pub(crate) struct FastOpens {
    /// What cookies are made with.
    key: KeyedHash,
    /// By our address and the peer's.
    peers: BTreeMap<(IpAddr, IpAddr), Peer>,
    /// The same, oldest first.
    order: VecDeque<(IpAddr, IpAddr)>,
    /// Those in SYN-RECEIVED whose user has them already, and whose listener counts them.
    pending: BTreeMap<TcpHandle, ListenerHandle>,
}

/// The key as Linux's net.ipv4.tcp_fastopen_key has it: 16 bytes, little-endian words.
pub(crate) fn keyed(key: [u8; 16]) -> KeyedHash {
    let key = u128::from_le_bytes(key);
    KeyedHash::new(key as u64, (key >> 64) as u64)
}

/// The cookie of a peer: SipHash-2-4 of both addresses in network order, so that a host of another
/// make behind the same name, with the same key, takes it.
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
    /// With a key drawn from the stack's secret.
    pub(crate) fn new(secret: &KeyedHash) -> FastOpens {
        // Sets this key apart from what else the secret makes.
        const KIND: u64 = 4;
        FastOpens {
            key: KeyedHash::new(secret.hash([KIND, 0]), secret.hash([KIND, 1])),
            peers: BTreeMap::new(),
            order: VecDeque::new(),
            pending: BTreeMap::new(),
        }
    }

    /// What to say to a peer, and the MSS it offered: unless its SYNs with data were lost of late.
    fn known(&self, ends: (IpAddr, IpAddr), now: Instant) -> Option<(FastOpen, u16)> {
        let peer = self.peers.get(&ends)?;
        (!peer.pauses(now)).then_some((peer.cookie?, peer.mss))
    }

    fn pauses(&self, ends: (IpAddr, IpAddr), now: Instant) -> bool {
        self.peers.get(&ends).is_some_and(|peer| peer.pauses(now))
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

/// What a listener does with a SYN that concerns Fast Open.
enum Verdict {
    /// Nothing: an ordinary handshake.
    Ordinary,
    /// The same, and the SYN-ACK tells the peer its cookie.
    Grant(FastOpen),
    /// Its data is the program's now.
    Open,
}

fn decide(stack: &mut Stack, syn: &Syn, bytes: usize) -> Verdict {
    let core = &mut stack.core;
    let Some(listener) = stack.listeners.get_mut(syn.listener) else { return Verdict::Ordinary };
    let waiting = listener.accepted.len() + listener.half_open.count();
    let crowded = waiting > listener.backlog;
    let settings = &mut listener.fast_open;
    if settings.max == 0 {
        return Verdict::Ordinary;
    }
    let key = settings.key.map_or(stack.fast_open.key, keyed);
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
            || !core.cx.budget.admits(Limit::FastOpenPending, stack.fast_open.pending.len()) =>
        {
            core.cx.counters.add(Counter::TcpFastOpenFull, 1);
            Verdict::Ordinary
        }
        _ => Verdict::Open,
    }
}

/// The half-open connection `handle` was just made for `syn`, which had the option or the payload
/// `m`: what comes of that.
#[cold]
pub(crate) fn answer(stack: &mut Stack, syn: &Syn, handle: TcpHandle, m: Mbuf) {
    let verdict = decide(stack, syn, m.len());
    let core = &mut stack.core;
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    match verdict {
        Verdict::Ordinary => {}
        Verdict::Grant(cookie) => fast_open::grant(&mut pcb.tcb, cookie),
        Verdict::Open => {
            fast_open::accept(&mut pcb.tcb, m, &mut core.cx);
            core.cx.counters.add(Counter::TcpFastOpenAccepted, 1);
            core.cx.counters.add(Counter::TcpAccepts, 1);
            passive::embryo_gone(stack, syn.listener);
            stack.fast_open.pending.insert(handle, syn.listener);
            if let Some(listener) = stack.listeners.get_mut(syn.listener) {
                listener.fast_open.pending += 1;
                listener.accepted.push_back(handle);
            }
            stack.ready.push_back(Event::Accept(syn.listener));
            return;
        }
    }
    core.cx.pool.free(m);
}

/// A connection with something of Fast Open took a segment, or timed out: is its handshake over?
#[cold]
pub(crate) fn progress(stack: &mut Stack, handle: TcpHandle, role: Role) {
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    if matches!(pcb.tcb.state, State::SynSent | State::SynReceived) || !pcb.tcb.is_embryonic() {
        return;
    }
    pcb.tcb.handshake_ended();
    let open = pcb.tcb.state != State::Closed;
    if role == Role::Client {
        let ends = (pcb.key.local().ip(), pcb.key.remote().ip());
        if let Some(outcome) = pcb.tcb.fast_open_outcome() {
            note(stack, ends, &outcome, open);
        }
        return;
    }
    let Some(listener) = stack.fast_open.pending.remove(&handle) else { return };
    if let Some(listener) = stack.listeners.get_mut(listener) {
        let settings = &mut listener.fast_open;
        if open {
            settings.pending -= 1;
        } else {
            settings.reset.push_back(stack.core.cx.now + RESET_KEEPS_PLACE);
        }
    }
}

/// What is learnt of a peer by how a SYN to it fared.
fn note(stack: &mut Stack, ends: (IpAddr, IpAddr), outcome: &Outcome, open: bool) {
    let cx = &mut stack.core.cx;
    if outcome.syn_bytes > 0 && open && !outcome.taken {
        cx.counters.add(Counter::TcpFastOpenNotTaken, 1);
    }
    let lost = outcome.syn_bytes > 0 && outcome.went_again && !outcome.taken;
    if outcome.cookie.is_none() && !lost && !(open && outcome.taken) {
        return;
    }
    let now = cx.now;
    let peer = stack.fast_open.learn(ends, &mut cx.budget);
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

impl FastOpenListener {
    /// May one more be open before its handshake is done?
    fn has_room(&mut self, now: Instant) -> bool {
        while self.reset.front().is_some_and(|&until| until <= now) {
            self.reset.pop_front();
            self.pending -= 1;
        }
        self.pending < self.max
    }
}

/// An active open whose SYN may carry the first of the data.
#[derive(Clone, Debug)]
pub struct FastConnect<'a> {
    /// Whom to.
    pub remote: SocketAddr,
    /// From where; see [`Stack::tcp_connect`].
    pub local: Option<SocketAddr>,
    /// Settings of the connection.
    pub config: &'a tcp::Config,
    /// Whose it is.
    pub owner: Owner,
    /// What the IP header of its packets says.
    pub ip: IpSettings,
    /// What to send first. The peer's program may get it twice if the SYN does (RFC 7413 section
    /// 2.1): a request that may be repeated.
    pub first: &'a [u8],
    /// The peer wants no cookie: both ends are in one hand (RFC 7413 section 6.3, Linux's
    /// net.ipv4.tcp_fastopen & 4).
    pub without_cookie: bool,
}

impl Stack {
    /// Open a connection with the first of the data in the SYN, if the peer's cookie is known;
    /// without it the SYN asks for one. Returns how many bytes the SYN carries: what is behind
    /// them, all perhaps, is to be written as usual.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn tcp_connect_first(
        &mut self,
        connect: &FastConnect<'_>,
        now: Instant,
    ) -> Result<(TcpHandle, usize), ConnectError> {
        self.core.set_now(now);
        let FastConnect { remote, local, owner, ip, first, .. } = connect;
        let (local, config) = self.active_open(*remote, *local, connect.config, (owner, *ip))?;
        let ends = (local.ip(), remote.ip());
        let pauses = self.fast_open.pauses(ends, now);
        let says = match self.fast_open.known(ends, now) {
            Some((cookie, mss)) => Some((Some(cookie), mss)),
            None if connect.without_cookie && !pauses => {
                let mss = self.fast_open.peers.get(&ends).map_or(0, |peer| peer.mss);
                Some((None, if mss > 0 { mss } else { u16::MAX }))
            }
            None => None,
        };
        let mut carried = 0;
        let handle = self
            .open((local, *remote), owner.clone(), *ip, None, |opening, cx| match says {
                Some((option, mss)) => {
                    let path = opening.path.map_or(Mss(u16::MAX), |(mss, _)| mss);
                    let most = opening.link_mss.0.min(path.0).min(config.mss_max).min(mss);
                    let fits = first.len().min(usize::from(most).saturating_sub(OPTIONS_ROOM));
                    let tcb =
                        usrreq::connect_fast_open(&config, opening, option, &first[..fits], cx);
                    // Nothing, if there was no buffer for it.
                    carried = tcb.fast_open_outcome().map_or(0, |o| o.syn_bytes as usize);
                    tcb
                }
                None if pauses => tcp::usrreq::connect(&config, opening, cx),
                None => {
                    usrreq::connect_fast_open(&config, opening, Some(FastOpen::REQUEST), &[], cx)
                }
            })
            .map_err(ConnectError::Unreachable)?;
        let counters = &mut self.core.cx.counters;
        counters.add(Counter::TcpConnects, 1);
        counters.add(Counter::TcpFastOpenSent, u64::from(carried > 0));
        tx::output(self);
        Ok((handle, carried))
    }

    /// Is the cookie of `remote` known, so that a SYN to it may carry data?
    pub fn fast_open_knows(&self, remote: SocketAddr, local: Option<SocketAddr>) -> bool {
        let local = match local {
            Some(local) if !local.ip().is_unspecified() => Ok(local.ip()),
            _ => crate::addresses::source(self, remote, inet::Sender::Program),
        };
        let now = self.core.cx.now;
        local.is_ok_and(|local| self.fast_open.known((local, remote.ip()), now).is_some())
    }

    /// Set the key that cookies are made with, in place of one drawn from the stack's secret: hosts
    /// behind one name share one. Linux's net.ipv4.tcp_fastopen_key.
    pub fn set_fast_open_key(&mut self, key: [u8; 16]) {
        self.fast_open.key = keyed(key);
    }

    /// Forget every peer's cookie.
    pub fn forget_fast_open_peers(&mut self) {
        self.fast_open.peers.clear();
        self.fast_open.order.clear();
    }

    /// Change what a listener does with Fast Open from now on; `None` if it is gone.
    pub fn tcp_set_fast_open(
        &mut self,
        listener: ListenerHandle,
        settings: crate::FastOpenConfig,
    ) -> Option<()> {
        self.listeners.get_mut(listener)?.fast_open.set(settings);
        Some(())
    }
}
