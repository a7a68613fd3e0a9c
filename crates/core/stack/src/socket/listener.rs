//! Listeners: the addresses where connections are accepted, and how many may wait. Also the SYNs
//! that wait for a decision of a listener's user.
//!
//! Called by: `no_connection.rs` and `passive.rs` for segments of no connection, `open.rs` and
//! `forward.rs` for users. A listener is found by address and port, then by port alone, then by
//! neither (a forwarder accepts anything).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use core::net::{IpAddr, SocketAddr};

use base::{Duration, Instant, Owner, SeqNumber};
use slotmap::SlotMap;
use tcp::Segment;
use wire::tcp::Options;

use crate::config::IpSettings;
use crate::handles::{ListenerHandle, RequestHandle, TcpHandle};
use crate::socket::half_open::HalfOpen;

/// Settings of a listener.
///
/// ```
/// # mod wirespeed { pub use {wirespeed_stack::*, tcp}; }
/// use wirespeed::pair::{PairConfig, pair};
/// use wirespeed::{ListenConfig, tcp};
///
/// let (mut end, _other) = pair(&PairConfig::new([1, 2]));
/// let tcp = tcp::Config { no_delay: true, ..tcp::Config::default() };
/// let config = ListenConfig { backlog: 64, tcp, ..ListenConfig::default() };
/// let listener = end.stack.tcp_listen("0.0.0.0:80".parse()?, config)?;
/// assert!(end.stack.tcp_accept(listener).is_none(), "nobody has connected");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// Maximum of connections that are half open or wait to be accepted. When there are that many,
    /// a new SYN is answered with a cookie, unless half of them wait to be accepted. Cookies that
    /// come back may raise the number of waiting connections to twice the maximum. Without cookies
    /// ([`base::Switch::SynCookies`]), and if `inspect` is set, a new SYN takes the place of the
    /// oldest half-open connection, if that one has waited for twice as long as handshakes take (10
    /// ms to 1 s). Otherwise the SYN is dropped.
    pub backlog: usize,
    /// Keep each SYN until [`crate::Stack::tcp_complete`] or another decision; see `forward.rs`.
    pub inspect: bool,
    /// Settings of the accepted connections.
    pub tcp: tcp::Config,
    /// Owner of the accepted connections.
    pub owner: Owner,
    /// Settings for the IP header of the connections' packets.
    pub ip: IpSettings,
    /// TCP Fast Open; off by default.
    pub fast_open: FastOpenConfig,
}

/// Settings of a listener for TCP Fast Open (RFC 7413). The default is off: SYNs that request a
/// cookie, or carry one, get an ordinary handshake. If Fast Open is on, a program may get the data
/// of a SYN twice (section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpenConfig {
    /// How many connections may be accepted before their handshake is done. Further SYNs get an
    /// ordinary handshake. 0 turns Fast Open off. TCP_FASTOPEN of Linux.
    pub pending_max: usize,
    /// Accept the data of SYNs without a cookie. Set it only if one party controls both ends, and
    /// nobody else can send packets to this host (RFC 7413 section 6.3). Linux's
    /// net.ipv4.tcp_fastopen & 0x200.
    pub without_cookie: bool,
    /// The key from which cookies are made; `None`: the stack's key
    /// ([`crate::Stack::set_fast_open_key`]).
    pub key: Option<[u8; 16]>,
}

/// Fast Open state of a listener.
#[derive(Default)]
pub(crate) struct FastOpenListener {
    pub(crate) max: usize,
    pub(crate) without_cookie: bool,
    pub(crate) key: Option<[u8; 16]>,
    /// Connections whose handshake is not done, and connections that were reset before that.
    pub(crate) pending: usize,
    /// Until when each reset connection still counts as pending, in order.
    pub(crate) reset: VecDeque<Instant>,
}

impl FastOpenListener {
    pub(crate) fn set(&mut self, config: FastOpenConfig) {
        (self.max, self.key) = (config.pending_max, config.key);
        self.without_cookie = config.without_cookie;
    }
}

impl Default for ListenConfig {
    fn default() -> ListenConfig {
        ListenConfig {
            backlog: 1024,
            inspect: false,
            tcp: tcp::Config::default(),
            owner: Owner::program(),
            ip: IpSettings::default(),
            fast_open: FastOpenConfig::default(),
        }
    }
}

pub(crate) struct Listener {
    pub(crate) local: (Option<IpAddr>, u16),
    pub(crate) backlog: usize,
    pub(crate) inspect: bool,
    pub(crate) config: Arc<tcp::Config>,
    pub(crate) owner: Owner,
    pub(crate) ip: IpSettings,
    pub(crate) fast_open: FastOpenListener,
    /// Connections in SYN-RECEIVED.
    pub(crate) half_open: HalfOpen,
    /// Open connections that are not accepted yet.
    pub(crate) accepted: VecDeque<TcpHandle>,
    /// SYNs that wait for a decision.
    pub(crate) requests: VecDeque<RequestHandle>,
}

/// All listeners of a shard.
#[derive(Default)]
pub(crate) struct Listeners {
    slots: SlotMap<ListenerHandle, Listener>,
    by_local: BTreeMap<(Option<IpAddr>, u16), ListenerHandle>,
    /// Half-open connections of all listeners.
    pub(crate) half_open: HalfOpen,
}

impl Listeners {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// All listeners, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ListenerHandle, &Listener)> {
        self.slots.iter()
    }

    pub(crate) fn get(&self, handle: ListenerHandle) -> Option<&Listener> {
        self.slots.get(handle)
    }

    pub(crate) fn get_mut(&mut self, handle: ListenerHandle) -> Option<&mut Listener> {
        self.slots.get_mut(handle)
    }

    /// Add a listener; `None` if the address and port are taken. RFC 9293 MUST-41.
    pub(crate) fn insert(&mut self, listener: Listener) -> Option<ListenerHandle> {
        if self.by_local.contains_key(&listener.local) {
            return None;
        }
        let local = listener.local;
        let handle = self.slots.insert(listener);
        self.by_local.insert(local, handle);
        Some(handle)
    }

    pub(crate) fn remove(&mut self, handle: ListenerHandle) -> Option<Listener> {
        let listener = self.slots.remove(handle)?;
        self.by_local.remove(&listener.local);
        Some(listener)
    }

    /// Is there a listener at exactly this address and port? `None` as address: at every address of
    /// ours.
    pub(crate) fn has(&self, ip: Option<IpAddr>, port: u16) -> bool {
        self.by_local.contains_key(&(ip, port))
    }

    /// The listener for a segment to `addr` and `port`.
    pub(crate) fn find(&self, addr: IpAddr, port: u16) -> Option<ListenerHandle> {
        let exact = self.by_local.get(&(Some(addr), port));
        let by_port = exact.or_else(|| self.by_local.get(&(None, port)));
        by_port.or_else(|| self.by_local.get(&(None, 0))).copied()
    }

    /// Does a listener accept segments to `ip` (`None`: any address of ours) and `port`?
    pub(crate) fn overlaps(&self, ip: Option<IpAddr>, port: u16) -> bool {
        let meets = |other: Option<IpAddr>| ip.is_none() || other.is_none() || ip == other;
        self.by_local.keys().any(|&(other, p)| p == port && meets(other))
    }

    /// Note how long a handshake for `listener` took.
    pub(crate) fn took(&mut self, listener: Option<ListenerHandle>, round_trip: Duration) {
        self.half_open.took(round_trip);
        if let Some(listener) = listener.and_then(|handle| self.slots.get_mut(handle)) {
            listener.half_open.took(round_trip);
        }
    }

    /// Note that a half-open connection of `listener` opened, or was removed.
    pub(crate) fn embryo_gone(&mut self, listener: ListenerHandle) {
        self.half_open.leave();
        if let Some(listener) = self.slots.get_mut(listener) {
            listener.half_open.leave();
        }
    }

    /// Does any listener accept segments to every destination, ours or not?
    pub(crate) fn takes_anything(&self) -> bool {
        self.by_local.contains_key(&(None, 0))
    }
}

/// A SYN for a listener.
#[derive(Clone, Copy)]
pub(crate) struct Syn {
    pub(crate) listener: ListenerHandle,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) seg: Segment,
    pub(crate) options: Options,
    pub(crate) iss: Iss,
}

/// How our initial sequence number is chosen.
#[derive(Clone, Copy)]
pub(crate) enum Iss {
    /// As usual.
    Any,
    /// A number after this one, because the connection takes the place of one in TIME-WAIT (RFC
    /// 1122, 4.2.2.13).
    Behind(SeqNumber),
    /// This number, from a cookie.
    Said(SeqNumber),
}

/// How long a record may wait after the last SYN of its peer. A peer with the usual six SYN
/// retransmissions sends the last one after 63 s and gives up 64 s later.
pub(crate) const REQUEST_WAIT: Duration = Duration::from_secs(65);

pub(crate) struct Request {
    pub(crate) syn: Syn,
    /// When its peer has last sent the SYN.
    pub(crate) last: Instant,
}

/// All SYNs of a shard that wait for a decision.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) slots: SlotMap<RequestHandle, Request>,
    pub(crate) by_flow: BTreeMap<(SocketAddr, SocketAddr), RequestHandle>,
    /// All records, in the order of their last SYNs.
    order: BTreeSet<(Instant, RequestHandle)>,
}

impl Requests {
    pub(crate) fn add(&mut self, syn: Syn, now: Instant) -> RequestHandle {
        let flow = (syn.local, syn.remote);
        let handle = self.slots.insert(Request { syn, last: now });
        self.by_flow.insert(flow, handle);
        self.order.insert((now, handle));
        handle
    }

    /// Is the SYN of this flow kept? If this one is a repetition, its peer still waits.
    pub(crate) fn is_kept(&mut self, syn: &Syn, now: Instant) -> bool {
        let Some(&handle) = self.by_flow.get(&(syn.local, syn.remote)) else { return false };
        if let Some(request) = self.slots.get_mut(handle)
            && request.syn.seg.seq == syn.seg.seq
        {
            let last = core::mem::replace(&mut request.last, now);
            self.order.remove(&(last, handle));
            self.order.insert((now, handle));
        }
        true
    }

    pub(crate) fn take(&mut self, handle: RequestHandle) -> Option<Request> {
        let request = self.slots.remove(handle)?;
        self.by_flow.remove(&(request.syn.local, request.syn.remote));
        self.order.remove(&(request.last, handle));
        Some(request)
    }

    /// Forget SYNs that waited too long.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some(&(last, oldest)) = self.order.first()
            && now.since(last) >= REQUEST_WAIT
        {
            self.take(oldest);
        }
    }

    /// Forget the SYNs of a listener that was removed.
    pub(crate) fn forget_listener(&mut self, listener: ListenerHandle) {
        self.slots.retain(|_, request| request.syn.listener != listener);
        let slots = &self.slots;
        self.by_flow.retain(|_, handle| slots.contains_key(*handle));
        self.order.retain(|&(_, handle)| slots.contains_key(handle));
    }
}
