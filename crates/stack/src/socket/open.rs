//! How connections come to be, for users of the polled API: connect, listen, accept; and the making
//! of a connection, which both sides share.
//!
//! Called by: programs, and by `passive.rs` for handshakes that others begin. Nothing here waits:
//! an [`Event`](crate::Event) tells how it went. RFC 6056 (ports), RFC 6528 (sequence numbers).

use std::sync::Arc;

use core::net::{IpAddr, SocketAddr};

use base::{DropReason, Instant, IpVersion, Limit, Mss, Owner};
use inet::FlowKey;
use tcp::Opening;
use tcp::usrreq;
use wire::ipv4;

use crate::connections::Pcb;
use crate::resolve::{self, Way};
use crate::socket::half_open::HalfOpen;
use crate::socket::listener::Listener;
use crate::{IpSettings, ListenConfig, ListenerHandle, Stack, TcpHandle, tx};

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
    /// Somebody listens there.
    AddressInUse,
    /// The limit on sockets is reached.
    LimitReached,
}

/// Ports that are given to those who ask for none in particular: Linux's range.
pub const EPHEMERAL_PORTS: core::ops::Range<u16> = 32_768..61_000;

impl Stack {
    /// Open a connection; [`tcp::Events::CONNECTED`] or `CLOSED` tells how it went. Without a
    /// local address one is chosen, with a port drawn by keyed hash (RFC 6056).
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
        let used = self.connections.len();
        if !self.core.budget.admits(Limit::Connections, used) {
            return Err(ConnectError::LimitReached);
        }
        let local_ip = match local {
            Some(a) if !a.ip().is_unspecified() => a.ip(),
            _ => self.source_address(remote.ip(), &owner)?,
        };
        let local = self.local_port(local_ip, local.map_or(0, |a| a.port()), remote)?;
        let config = self.shared_config(config);
        let handle = self
            .open((local, remote), owner, ip, None, |opening, cx| {
                usrreq::connect(&config, opening, cx)
            })
            .map_err(ConnectError::Unreachable)?;
        self.core.counters.add(base::Counter::TcpConnects, 1);
        tx::output(self);
        Ok(handle)
    }

    /// Connections with the same settings share them: the last ones are kept for the next.
    fn shared_config(&mut self, config: &tcp::Config) -> Arc<tcp::Config> {
        match &self.last_config {
            Some(last) if **last == *config => last.clone(),
            _ => self.last_config.insert(Arc::new(*config)).clone(),
        }
    }

    fn source_address(&self, remote: IpAddr, owner: &Owner) -> Result<IpAddr, ConnectError> {
        let hop = self
            .routes
            .lookup(remote, None, owner, 0, inet::route::MAIN_TABLE)
            .ok_or(ConnectError::Unreachable(DropReason::IpNoRoute))?;
        let port =
            self.ports.get(hop.port).ok_or(ConnectError::Unreachable(DropReason::TxNoPort))?;
        port.address(IpVersion::of(&remote)).ok_or(ConnectError::NoAddress)
    }

    /// The port asked for, or a free one: RFC 6056 algorithm 3, an offset that only the secret
    /// and the destination determine, and a counter.
    fn local_port(
        &mut self,
        ip: IpAddr,
        port: u16,
        remote: SocketAddr,
    ) -> Result<SocketAddr, ConnectError> {
        const FIRST: u16 = EPHEMERAL_PORTS.start;
        const COUNT: u16 = EPHEMERAL_PORTS.end - FIRST;
        let secret = self.core.secret;
        if port != 0 {
            let key = FlowKey::new(ip, port, remote.ip(), remote.port());
            let taken = self.connections.is_taken(&key, &secret);
            return if taken {
                Err(ConnectError::AddressInUse)
            } else {
                Ok(SocketAddr::new(ip, port))
            };
        }
        let offset = FlowKey::new(ip, 0, remote.ip(), remote.port()).hash(&secret) as u16;
        for _ in 0..COUNT {
            self.next_port = self.next_port.wrapping_add(1);
            let port = FIRST + offset.wrapping_add(self.next_port) % COUNT;
            let key = FlowKey::new(ip, port, remote.ip(), remote.port());
            if !self.connections.is_taken(&key, &secret) {
                return Ok(SocketAddr::new(ip, port));
            }
        }
        Err(ConnectError::AddressInUse)
    }

    /// Make a connection between two addresses; `make` makes its Tcb.
    pub(crate) fn open(
        &mut self,
        (local, remote): (SocketAddr, SocketAddr),
        owner: Owner,
        ip: IpSettings,
        listener: Option<ListenerHandle>,
        make: impl FnOnce(&Opening, &mut tcp::Cx<'_>) -> tcp::Tcb,
    ) -> Result<TcpHandle, DropReason> {
        // Looked at again before anything is sent if it changes, or is not known yet.
        let changes = self.changes();
        let Way { port: port_id, template, is_complete, .. } =
            resolve::route(self, local, remote, ipv4::TCP, &owner, ip)?;
        let port = self.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
        let version = IpVersion::of(&remote.ip());
        let key = FlowKey::new(local.ip(), local.port(), remote.ip(), remote.port());
        let hash = key.hash(&self.core.secret);
        let opening = Opening {
            mss: port.mss(version),
            path: self
                .path_mtus
                .known(remote.ip(), self.core.now)
                .map(|(mtu, until)| (Mss::for_mtu(mtu, version), until)),
            default_mss: match version {
                IpVersion::V4 => Mss::DEFAULT_V4,
                IpVersion::V6 => Mss::DEFAULT_V6,
            },
            super_max_bytes: port.super_max_bytes(version),
            offload_checksum: port.limits.offloads.tx_checksum,
            pseudo_sum: inet::ip_input::pseudo_sum(local.ip(), remote.ip(), ipv4::TCP),
            ports: (local.port(), remote.port()),
            ts_offset: (hash >> 32) as u32,
            iss: tcp::isn::initial_sequence_number(&self.core.secret, [hash, 1], self.core.now),
        };
        let tcb = make(&opening, &mut self.core.tcp());
        let pcb = Pcb {
            key,
            tcb,
            template,
            seen: if is_complete { changes } else { Pcb::NEVER_SEEN },
            has_way: is_complete,
            waiting: false,
            port: port_id,
            ready: false,
            in_table: true,
            blocked: false,
            wheel_at: Instant::NEVER,
            wheel_later: Instant::NEVER,
            listener,
            owner,
        };
        Ok(self.connections.insert(pcb, &self.core.secret))
    }

    /// Listen on a port; an unspecified address means every address of ours, and an unspecified
    /// address with port 0 every destination at all, ours or not.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn tcp_listen(
        &mut self,
        local: SocketAddr,
        config: ListenConfig,
    ) -> Result<ListenerHandle, ListenError> {
        let used = self.listeners.len() + self.udp.len();
        if !self.core.budget.admits(Limit::Sockets, used) {
            return Err(ListenError::LimitReached);
        }
        let ip = (!local.ip().is_unspecified()).then_some(local.ip());
        self.listeners
            .insert(Listener {
                local: (ip, local.port()),
                backlog: config.backlog,
                inspect: config.inspect,
                config: Arc::new(config.tcp),
                owner: config.owner,
                ip: config.ip,
                half_open: HalfOpen::default(),
                accepted: Default::default(),
                requests: Default::default(),
            })
            .ok_or(ListenError::AddressInUse)
    }

    /// Take a connection that waits; an [`Event::Accept`] told of it.
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

    /// Stop listening; connections that nobody accepted are reset.
    pub fn tcp_unlisten(&mut self, handle: ListenerHandle) {
        let Some(listener) = self.listeners.remove(handle) else { return };
        self.requests.forget_listener(handle);
        for connection in listener.accepted {
            self.tcp_abort(connection);
        }
    }
}
