//! How connections come to be, for users of the polled API: connect, listen, accept; and the making
//! of a connection, which both sides share.
//!
//! Called by: programs, and by `passive.rs` for handshakes that others begin. Nothing here waits:
//! an [`Event`](crate::Event) tells how it went. RFC 6528 (sequence numbers).

use std::sync::Arc;

use core::net::{IpAddr, SocketAddr};

use base::{DropReason, Instant, IpVersion, Limit, Mss, Owner};
use inet::{FlowKey, Sender};
use tcp::Opening;
use tcp::usrreq;
use wire::protocol;

use crate::addresses::{self, NoSource};
use crate::connections::Pcb;
use crate::resolve::{self, Egress};
use crate::socket::half_open::HalfOpen;
use crate::socket::listener::{FastOpenListener, Listener};
use crate::{IpSettings, ListenConfig, ListenerHandle, Stack, TcpHandle, loopback, tx};

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// No route, port or neighbour for the destination: the named reason.
    Unreachable(DropReason),
    /// No address of ours has the destination's version, or the one asked for is not ours.
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
    /// The address is none of ours.
    NoAddress,
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
    /// Open a connection; [`tcp::Events::CONNECTED`] or `CLOSED` tells how it went. Without a
    /// local address one is chosen, with a port that was drawn (RFC 6056).
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

    /// [`Stack::tcp_connect`] with packets whose IP header says this.
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
        let handle = self
            .open((local, remote), owner, ip, None, |opening, cx| {
                usrreq::connect(&config, opening, cx)
            })
            .map_err(ConnectError::Unreachable)?;
        self.core.cx.counters.add(base::Counter::TcpConnects, 1);
        tx::output(self);
        Ok(handle)
    }

    /// What every active open begins with: may it be, from where, and with which settings?
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
                let is_ours = self.is_own(a.ip()) || ip.transparent;
                if !is_ours || a.is_ipv4() != remote.is_ipv4() {
                    return Err(ConnectError::NoAddress);
                }
                a.ip()
            }
            _ => addresses::source(self, remote, Sender::Socket { owner, mark: ip.mark })?,
        };
        let local = self.local_port(local_ip, local.map_or(0, |a| a.port()), remote)?;
        Ok((local, self.shared_config(config)))
    }

    /// Connections with the same settings share them: the last ones are kept for the next.
    fn shared_config(&mut self, config: &tcp::Config) -> Arc<tcp::Config> {
        match &self.last_config {
            Some(last) if **last == *config => last.clone(),
            _ => self.last_config.insert(Arc::new(*config)).clone(),
        }
    }

    /// A broadcast, multicast or unspecified address: no connection can have it.
    /// RFC 9293 MUST-46.
    fn is_no_host(&self, ip: IpAddr) -> bool {
        ip.is_unspecified() || ip.is_multicast() || self.ports.iter().any(|p| p.local.is_group(ip))
    }

    /// The port asked for, or a free one, drawn.
    fn local_port(
        &mut self,
        ip: IpAddr,
        port: u16,
        remote: SocketAddr,
    ) -> Result<SocketAddr, ConnectError> {
        let is_to_us = loopback::is_ours(self, remote);
        let is_free = |stack: &Stack, port: u16| {
            let key = FlowKey::new(ip, port, remote.ip(), remote.port());
            let key = if is_to_us { key.looped() } else { key };
            !stack.connections.is_taken(&key, &stack.core.secret)
        };
        let free = if port != 0 {
            is_free(self, port).then_some(port)
        } else {
            // Answers come to the shard that their hash selects.
            let is_here =
                |stack: &Stack, port| is_to_us || stack.has_flow(SocketAddr::new(ip, port), remote);
            self.ports_to_try().find(|&port| is_free(self, port) && is_here(self, port))
        };
        free.map(|port| SocketAddr::new(ip, port)).ok_or(ConnectError::AddressInUse)
    }

    /// Make a connection between two addresses; `make` makes its Tcb.
    pub(crate) fn open(
        &mut self,
        (local, remote): (SocketAddr, SocketAddr),
        owner: Owner,
        ip: IpSettings,
        listener: Option<ListenerHandle>,
        make: impl FnOnce(&Opening, &mut tcp::Cx) -> tcp::Tcb,
    ) -> Result<TcpHandle, DropReason> {
        // Looked at again before anything is sent if it changes, or is not known yet.
        let changes = self.changes();
        let Egress { port: port_id, mtu, template, is_complete, .. } =
            // RFC 9293 MUST-45.
            resolve::route(self, local, remote, protocol::TCP, &owner, ip)?;
        let port = self.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
        let version = IpVersion::of(&remote.ip());
        let key = FlowKey::new(local.ip(), local.port(), remote.ip(), remote.port());
        let key = if port_id == loopback::PORT { key.looped() } else { key };
        let hash = key.hash(&self.core.secret);
        let opening = Opening {
            // RFC 9293 MUST-67, SHLD-6.
            mss: port.mss(version),
            link_mss: Mss::for_mtu(mtu, version),
            path: self
                .path_mtus
                .known(remote.ip(), self.core.cx.now)
                .map(|(mtu, until)| (Mss::for_mtu(mtu, version), until)),
            default_mss: match version {
                IpVersion::V4 => Mss::DEFAULT_V4,
                IpVersion::V6 => Mss::DEFAULT_V6,
            },
            super_max_bytes: port.super_max_bytes(version),
            offload_checksum: port.limits.offloads.tx_checksum,
            pseudo_sum: inet::ip_input::pseudo_sum(local.ip(), remote.ip(), protocol::TCP),
            ports: (local.port(), remote.port()),
            ts_offset: (hash >> 32) as u32,
            iss: tcp::isn::initial_sequence_number(&self.core.secret, [hash, 1], self.core.cx.now),
        };
        let tcb = make(&opening, &mut self.core.cx);
        let pcb = Pcb {
            key,
            tcb,
            template,
            seen: if is_complete { changes } else { Pcb::NEVER_SEEN },
            is_resolved: is_complete,
            waiting: false,
            port: port_id,
            ready: false,
            in_table: true,
            orphan: false,
            blocked: false,
            wheel_at: Instant::NEVER,
            wheel_later: Instant::NEVER,
            listener,
            owner,
            mark: ip.mark,
            opened_at: self.core.cx.now,
        };
        Ok(self.connections.insert(pcb, &self.core.secret))
    }

    /// Listen on a port, at an address of ours unless [`IpSettings::transparent`] is set; an
    /// unspecified address means every address of ours, and an unspecified
    /// address with port 0 every destination at all, ours or not.
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
        if ip.is_some_and(|ip| !config.ip.transparent && !self.is_own(ip)) {
            return Err(ListenError::NoAddress);
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

    /// Take a connection that waits; an [`Event::Accept`] reported it.
    pub fn tcp_accept(&mut self, listener: ListenerHandle) -> Option<TcpHandle> {
        let listener = self.listeners.get_mut(listener)?;
        let handle = listener.accepted.pop_front()?;
        if let Some(pcb) = self.connections.get_mut(handle) {
            pcb.listener = None;
        }
        // What it has to tell was held back until now.
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
