//! Calls of programs that open connections: connect, listen, accept, and TCP Fast Open (RFC 7413).
//!
//! Called by: programs that poll the stack, and crate `net`. Nothing here waits: an
//! [`Event`](crate::Event) reports the result. `passive.rs` has the code that connects and accepts
//! share, and handshakes that peers begin.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use base::{Counter, DropReason, Instant, Limit, Mss, Owner};
use inet::{FlowKey, Sender, Vrf};
use tcp::fast_open::OPTIONS_ROOM;
use tcp::usrreq;
use wire::tcp::FastOpen;

use crate::config::IpSettings;
use crate::handles::{ListenerHandle, TcpHandle};
use crate::next_hop::{is_ours, source};
use crate::resolving::NoSource;
use crate::socket::half_open::HalfOpen;
use crate::socket::listener::{FastOpenConfig, FastOpenListener, ListenConfig, Listener};
use crate::socket::passive;
use crate::stack::Stack;
use crate::{neighbours, tx};

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// Nothing can be sent to the destination, for this reason: no route, port or neighbour.
    Unreachable(DropReason),
    /// The requested local address is not ours or has another IP version; or no address of ours has
    /// the destination's version.
    NoAddress,
    /// The local port is in use, or none is free.
    AddressInUse,
    /// The limit on connections is reached.
    LimitReached,
}

/// Why a port could not be listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// The port is in use by a listener.
    AddressInUse,
    /// The limit on sockets is reached.
    LimitReached,
    /// The address is not one of ours.
    NoAddress,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectError::Unreachable(reason) => reason.meaning(),
            ConnectError::NoAddress => "no address of ours fits the destination",
            ConnectError::AddressInUse => {
                "the local port is in use, by a connection or by NAT, or none is free"
            }
            ConnectError::LimitReached => "the limit on connections is reached",
        })
    }
}

impl core::error::Error for ConnectError {}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ListenError::AddressInUse => "another listener has the port, or NAT",
            ListenError::LimitReached => "the limit on sockets is reached",
            ListenError::NoAddress => "the address is none of ours",
        })
    }
}

impl core::error::Error for ListenError {}

/// An active open whose SYN may carry the first bytes of the data (TCP Fast Open).
#[derive(Clone, Debug)]
pub struct FastConnect<'a> {
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The local address; see [`Stack::tcp_connect`].
    pub local: Option<SocketAddr>,
    /// Settings of the connection.
    pub config: &'a tcp::Config,
    /// Owner of the connection.
    pub owner: Owner,
    /// Settings for the IP header of the connection's packets.
    pub ip: IpSettings,
    /// The first data to send, such as a request that may be repeated: if the peer gets the SYN
    /// twice, its program may get the data twice (RFC 7413 section 2.1).
    pub first: &'a [u8],
    /// Send the data even if the peer's cookie is not known. Set it only if the peer requires no
    /// cookie, because one party controls both ends (RFC 7413 section 6.3, Linux's
    /// net.ipv4.tcp_fastopen & 4).
    pub without_cookie: bool,
}

impl From<NoSource> for ConnectError {
    fn from(why: NoSource) -> ConnectError {
        match why {
            NoSource::Unreachable(reason) => ConnectError::Unreachable(reason),
            NoSource::NoAddress => ConnectError::NoAddress,
        }
    }
}

impl Stack {
    /// Open a connection; [`tcp::Events::CONNECTED`] or `CLOSED` reports the result. If `local` is
    /// not given, the stack chooses an address and a random port (RFC 6056).
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn tcp_connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        config: &tcp::Config,
        owner: Owner,
        now: Instant,
    ) -> Result<TcpHandle, ConnectError> {
        self.tcp_connect_with(remote, local, config, owner, IpSettings::default(), now)
    }

    /// [`Stack::tcp_connect`] with these settings of the IP header.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn tcp_connect_with(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        config: &tcp::Config,
        owner: Owner,
        ip: IpSettings,
        now: Instant,
    ) -> Result<TcpHandle, ConnectError> {
        self.core.set_now(now);
        let (local, config) = self.active_open(remote, local, config, (&owner, ip))?;
        let handle = passive::open(self, (local, remote), owner, ip, None, |opening, cx| {
            usrreq::connect(&config, opening, cx)
        })
        .map_err(ConnectError::Unreachable)?;
        self.core.cx.counters.add(Counter::TcpConnects, 1);
        neighbours::act(self);
        tx::output(self);
        Ok(handle)
    }

    /// The first step of every active open: check that it is possible, and choose the local address
    /// and port. Returns them, and the settings in shared memory.
    pub(crate) fn active_open(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        config: &tcp::Config,
        (owner, ip): (&Owner, IpSettings),
    ) -> Result<(SocketAddr, Arc<tcp::Config>), ConnectError> {
        if self.is_no_host(remote.ip()) {
            return Err(ConnectError::Unreachable(DropReason::TcpGroupAddress));
        }
        let used = self.connections.len();
        if !self.core.cx.budget.admits(Limit::Connections, used) {
            return Err(ConnectError::LimitReached);
        }
        let local_ip = match local {
            // RFC 9293 MUST-43.
            Some(a) if !a.ip().is_unspecified() => {
                let is_ours = self.is_own_in(a.ip(), ip.vrf) || ip.transparent;
                if !is_ours || a.is_ipv4() != remote.is_ipv4() {
                    return Err(ConnectError::NoAddress);
                }
                a.ip()
            }
            _ => source(self, remote, Sender::Socket { owner, by: ip.selector() })?,
        };
        let local = (local_ip, local.map_or(0, |a| a.port()));
        let local = self.local_port(local, remote, ip.vrf)?;
        Ok((local, self.shared_config(config)))
    }

    /// Returns the settings in memory that connections share. Equal settings share the memory of
    /// the last connection.
    fn shared_config(&mut self, config: &tcp::Config) -> Arc<tcp::Config> {
        match &self.last_config {
            Some(last) if **last == *config => last.clone(),
            _ => self.last_config.insert(Arc::new(*config)).clone(),
        }
    }

    /// Is this a broadcast, multicast or unspecified address? No connection can have such a peer.
    /// RFC 9293 MUST-46.
    fn is_no_host(&self, ip: IpAddr) -> bool {
        ip.is_unspecified() || ip.is_multicast() || self.ports.iter().any(|p| p.local.is_group(ip))
    }

    /// Returns the local port: `port`, if no connection to `remote` has it; a random free port if
    /// `port` is 0.
    fn local_port(
        &mut self,
        (ip, port): (IpAddr, u16),
        remote: SocketAddr,
        vrf: Vrf,
    ) -> Result<SocketAddr, ConnectError> {
        let is_to_us = is_ours(self, remote, vrf);
        let is_free = |stack: &Stack, port: u16| {
            if stack.is_translated_tcp(SocketAddr::new(ip, port)) {
                return false;
            }
            let key = FlowKey::new(ip, port, remote.ip(), remote.port());
            let key = if is_to_us { key.looped() } else { key.within(vrf) };
            !stack.connections.is_taken(&key, &stack.core.secret)
        };
        let free = if port != 0 {
            is_free(self, port).then_some(port)
        } else {
            // Answers go to the shard that the hash of their flow selects, which has to be this
            // shard.
            let is_here =
                |stack: &Stack, port| is_to_us || stack.has_flow(SocketAddr::new(ip, port), remote);
            self.ports_to_try().find(|&port| is_free(self, port) && is_here(self, port))
        };
        free.map(|port| SocketAddr::new(ip, port)).ok_or(ConnectError::AddressInUse)
    }

    /// Open a connection whose SYN carries the first bytes of the data, if the peer's cookie is
    /// known. If it is not known, the SYN requests a cookie. Returns how many bytes the SYN
    /// carries, possibly none; the caller writes the remaining bytes as usual.
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
                let mss = self.fast_open.mss(ends);
                Some((None, if mss > 0 { mss } else { u16::MAX }))
            }
            None => None,
        };
        let mut carried = 0;
        let handle = passive::open(
            self,
            (local, *remote),
            owner.clone(),
            *ip,
            None,
            |opening, cx| match says {
                Some((option, mss)) => {
                    let path = opening.path.map_or(Mss(u16::MAX), |(mss, _)| mss);
                    let most = opening.link_mss.0.min(path.0).min(config.mss_max).min(mss);
                    let fits = first.len().min(usize::from(most).saturating_sub(OPTIONS_ROOM));
                    let tcb =
                        usrreq::connect_fast_open(&config, opening, option, &first[..fits], cx);
                    // If there was no buffer for the data, the SYN carries none.
                    carried = tcb.fast_open_outcome().map_or(0, |o| o.syn_bytes as usize);
                    tcb
                }
                None if pauses => usrreq::connect(&config, opening, cx),
                None => {
                    usrreq::connect_fast_open(&config, opening, Some(FastOpen::REQUEST), &[], cx)
                }
            },
        )
        .map_err(ConnectError::Unreachable)?;
        let counters = &mut self.core.cx.counters;
        counters.add(Counter::TcpConnects, 1);
        counters.add(Counter::TcpFastOpenSent, u64::from(carried > 0));
        neighbours::act(self);
        tx::output(self);
        Ok((handle, carried))
    }

    /// Is the cookie of `remote` known, so that a SYN to it may carry data?
    pub fn fast_open_knows(&self, remote: SocketAddr, local: Option<SocketAddr>) -> bool {
        let local = match local {
            Some(local) if !local.ip().is_unspecified() => Ok(local.ip()),
            _ => source(self, remote, Sender::Program),
        };
        let now = self.core.cx.now;
        local.is_ok_and(|local| self.fast_open.known((local, remote.ip()), now).is_some())
    }

    /// Set the key from which cookies are made. Without this call the key is derived from the
    /// stack's secret. Hosts that share a DNS name should share a key. Linux's
    /// net.ipv4.tcp_fastopen_key.
    pub fn set_fast_open_key(&mut self, key: [u8; 16]) {
        self.fast_open.set_key(key);
    }

    /// Forget every peer's cookie.
    pub fn forget_fast_open_peers(&mut self) {
        self.fast_open.forget_peers();
    }

    /// Change a listener's Fast Open settings from now on; `None` if the listener is gone.
    pub fn tcp_set_fast_open(
        &mut self,
        listener: ListenerHandle,
        settings: FastOpenConfig,
    ) -> Option<()> {
        self.listeners.get_mut(listener)?.fast_open.set(settings);
        Some(())
    }

    /// Listen on a port. The address has to be ours, unless [`IpSettings::transparent`] is set. The
    /// unspecified address means every address of ours. With port 0 it means every destination,
    /// ours or not.
    ///
    /// # Errors
    /// [`ListenError`].
    /// RFC 9293 MUST-42.
    pub fn tcp_listen(
        &mut self,
        local: SocketAddr,
        config: ListenConfig,
    ) -> Result<ListenerHandle, ListenError> {
        let used = self.listeners.len() + self.udp.len();
        if !self.core.cx.budget.admits(Limit::Sockets, used) {
            return Err(ListenError::LimitReached);
        }
        let ip = (!local.ip().is_unspecified()).then_some(local.ip());
        let is_ours = |ip| config.ip.transparent || self.is_own_in(ip, config.ip.vrf);
        if ip.is_some_and(|ip| !is_ours(ip)) {
            return Err(ListenError::NoAddress);
        }
        if self.is_translated_tcp(local) {
            return Err(ListenError::AddressInUse);
        }
        let mut fast_open = FastOpenListener::default();
        fast_open.set(config.fast_open);
        self.listeners
            .insert(Listener {
                local: (ip, local.port()),
                backlog: config.backlog,
                inspect: config.inspect,
                config: Arc::new(config.tcp),
                owner: config.owner,
                ip: config.ip,
                fast_open,
                half_open: HalfOpen::default(),
                accepted: Default::default(),
                requests: Default::default(),
            })
            .ok_or(ListenError::AddressInUse)
    }

    /// Take a connection that waits to be accepted. An [`Event::Accept`](crate::Event) reported it.
    pub fn tcp_accept(&mut self, listener: ListenerHandle) -> Option<TcpHandle> {
        let listener = self.listeners.get_mut(listener)?;
        let handle = listener.accepted.pop_front()?;
        if let Some(pcb) = self.connections.get_mut(handle) {
            pcb.listener = None;
        }
        // Events of the connection were held back until now.
        self.connections.mark_dirty(handle);
        tx::output(self);
        Some(handle)
    }

    /// Stop listening; connections that were not accepted are reset.
    pub fn tcp_unlisten(&mut self, handle: ListenerHandle) {
        let Some(listener) = self.listeners.remove(handle) else { return };
        self.requests.forget_listener(handle);
        for connection in listener.accepted {
            self.tcp_abort(connection);
        }
    }
}
