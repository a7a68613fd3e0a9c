//! Echo sockets: requests out, replies and errors in, each with its time.
//!
//! Called by: programs (`wirespeed ping`), and `icmp.rs` for what arrives. A socket has an
//! identifier of its own; replies with another one are dropped. RFC 792, RFC 4443 section 4.
//! Limits: `ping_sockets`, `ping_replies`.

use std::collections::{BTreeMap, VecDeque};

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, Instant, IpVersion, Limit, Mtu, Owner};
use inet::flow::Addrs;
use inet::icmp::{self, ErrorKind, Quoted, Unreachable};
use inet::{Ip, Sender};
use mbuf::{Mbuf, Pool};
use slotmap::{SlotMap, new_key_type};
use tcp::{Fate, path};
use wire::protocol;

use crate::event::Event;
use crate::{IpSettings, MtuDiscovery, PortId, Stack, UdpError, addresses, frag, resolve};

new_key_type! {
    /// An echo socket.
    pub struct PingHandle;
}

/// What came of an echo request.
pub struct Echo {
    /// Who sent this: the host asked, or a router that knows why there is no reply.
    pub from: IpAddr,
    /// Its sequence number.
    pub seq: u16,
    /// TTL or hop limit that was left; 0 for an error.
    pub ttl: u8,
    /// When it arrived: the `now` of the call that took it in.
    pub at: Instant,
    /// The data that came back, or what went wrong.
    pub outcome: Result<Mbuf, EchoError>,
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoError {
    /// The request did not arrive.
    Unreachable(Unreachable),
    /// It was larger than a link on the path carries, in bytes of packet; 0: not reported.
    TooBig(usize),
    /// It went in circles.
    TimeExceeded,
}

/// In ping's words, as iputils has them.
impl fmt::Display for EchoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EchoError::Unreachable(Unreachable::Net) => "Destination Net Unreachable",
            EchoError::Unreachable(Unreachable::Host) => "Destination Host Unreachable",
            EchoError::Unreachable(Unreachable::Port) => "Destination Port Unreachable",
            EchoError::Unreachable(Unreachable::Protocol) => "Destination Protocol Unreachable",
            EchoError::Unreachable(Unreachable::Prohibited) => "Packet filtered",
            EchoError::TooBig(mtu) => {
                return write!(f, "Frag needed and DF set (mtu = {mtu})");
            }
            EchoError::TimeExceeded => "Time to live exceeded",
        })
    }
}

struct Socket {
    id: u16,
    owner: Owner,
    mark: u32,
    mtu_discovery: MtuDiscovery,
    /// Of which link-local addresses are.
    port: Option<PortId>,
    queue: VecDeque<Echo>,
    /// The path MTU reported last, and until when it is used. It cannot be verified, so only this
    /// socket uses it.
    narrow: Option<(IpAddr, Mtu, Instant)>,
}

/// All echo sockets of a shard.
#[derive(Default)]
pub(crate) struct PingSockets {
    slots: SlotMap<PingHandle, Socket>,
    by_id: BTreeMap<u16, PingHandle>,
    next_id: u16,
}

impl PingSockets {
    /// The largest packet to `remote` that `id` may send now is of `mtu` bytes, until `until`.
    fn too_big(&mut self, id: u16, remote: IpAddr, mtu: Mtu, until: Instant) {
        let handle = self.by_id.get(&id);
        if let Some(socket) = handle.and_then(|&handle| self.slots.get_mut(handle)) {
            socket.narrow = Some((remote, mtu, until));
        }
    }

    /// The owner and the mark of the socket with this identifier.
    pub(crate) fn sender(&self, id: u16) -> Option<(Owner, u32)> {
        let socket = self.slots.get(*self.by_id.get(&id)?)?;
        Some((socket.owner.clone(), socket.mark))
    }

    /// Queue what came for `id`; returns its socket, and whether its queue was empty before.
    fn deliver(
        &mut self,
        id: u16,
        echo: Echo,
        most: usize,
    ) -> Result<(PingHandle, bool), (DropReason, Echo)> {
        let handle = self.by_id.get(&id).copied();
        let Some((handle, socket)) = handle.and_then(|h| Some((h, self.slots.get_mut(h)?))) else {
            return Err((DropReason::IcmpEchoNoSocket, echo));
        };
        if socket.queue.len() >= most {
            return Err((DropReason::IcmpEchoQueueFull, echo));
        }
        socket.queue.push_back(echo);
        Ok((handle, socket.queue.len() == 1))
    }
}

impl Echo {
    fn free(self, pool: &mut Pool) {
        if let Ok(m) = self.outcome {
            pool.free(m);
        }
    }
}

/// A reply: `m` is the whole message.
pub(crate) fn reply<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    (id, seq): (u16, u16),
    mut m: Mbuf,
) -> Fate {
    m.trim_front(icmp::HEADER_LEN);
    let echo = Echo { from: ip.src(), seq, ttl: ip.ttl, at: stack.core.cx.now, outcome: Ok(m) };
    deliver(stack, id, echo)?;
    stack.core.cx.counters.add(Counter::IcmpEchoRepliesIn, 1);
    Ok(())
}

/// An error about an echo request of ours.
pub(crate) fn failed(
    stack: &mut Stack,
    quoted: &Quoted<'_>,
    reported: ErrorKind,
    from: IpAddr,
) -> Fate {
    let word = quoted.second_word().ok_or(DropReason::IcmpMalformed)?;
    let request = if quoted.src.is_ipv4() { 8 } else { 128 };
    if quoted.transport.first() != Some(&request) {
        return Err(DropReason::IcmpErrorNoMatch);
    }
    let (id, seq) = ((word >> 16) as u16, word as u16);
    // The next request leaves in fragments that fit (RFC 8201 section 4).
    if let ErrorKind::TooBig(mtu) = reported
        && let Some(mtu) = quoted.path_mtu(mtu).and_then(Mtu::new)
    {
        let until = stack.core.cx.now + path::LIFE;
        stack.pings.too_big(id, quoted.dst, mtu, until);
    }
    let outcome = Err(match reported {
        ErrorKind::Unreachable(why) => EchoError::Unreachable(why),
        ErrorKind::TooBig(mtu) => EchoError::TooBig(mtu),
        ErrorKind::Transient => EchoError::TimeExceeded,
    });
    deliver(stack, id, Echo { from, seq, ttl: 0, at: stack.core.cx.now, outcome })
}

fn deliver(stack: &mut Stack, id: u16, echo: Echo) -> Fate {
    let most = stack.core.cx.budget.of(Limit::PingReplies);
    match stack.pings.deliver(id, echo, most) {
        Ok((handle, first)) => {
            if first {
                stack.ready.push_back(Event::Ping(handle));
            }
            Ok(())
        }
        Err((reason, echo)) => {
            if reason == DropReason::IcmpEchoQueueFull {
                stack.core.cx.budget.admits(Limit::PingReplies, usize::MAX);
            }
            echo.free(&mut stack.core.cx.pool);
            Err(reason)
        }
    }
}

impl Stack {
    /// Open an echo socket.
    ///
    /// # Errors
    /// [`UdpError::LimitReached`].
    pub fn ping_open(&mut self, owner: Owner) -> Result<PingHandle, UdpError> {
        let used = self.pings.slots.len();
        if !self.core.cx.budget.admits(Limit::PingSockets, used) || used > usize::from(u16::MAX) {
            return Err(UdpError::LimitReached);
        }
        // Who cannot see our requests shall not guess the identifier: the secret chooses it.
        let offset = self.core.secret.hash([0x6563_686f]) as u16;
        let id = loop {
            self.pings.next_id = self.pings.next_id.wrapping_add(1);
            let id = offset.wrapping_add(self.pings.next_id);
            if !self.pings.by_id.contains_key(&id) {
                break id;
            }
        };
        let (mtu_discovery, queue) = (MtuDiscovery::default(), VecDeque::new());
        let socket = Socket { id, owner, mark: 0, mtu_discovery, queue, narrow: None, port: None };
        let handle = self.pings.slots.insert(socket);
        self.pings.by_id.insert(id, handle);
        Ok(handle)
    }

    /// What becomes of requests that are larger than the path is known to carry.
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn ping_set_mtu_discovery(
        &mut self,
        handle: PingHandle,
        discovery: MtuDiscovery,
    ) -> Result<(), UdpError> {
        self.pings.slots.get_mut(handle).ok_or(UdpError::Closed)?.mtu_discovery = discovery;
        Ok(())
    }

    /// Of which port's link the link-local addresses are that it asks; `None` leaves that to the
    /// routes (RFC 4007 section 6).
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn ping_set_port(
        &mut self,
        handle: PingHandle,
        port: Option<PortId>,
    ) -> Result<(), UdpError> {
        self.pings.slots.get_mut(handle).ok_or(UdpError::Closed)?.port = port;
        Ok(())
    }

    /// Set the mark of its packets, which rules select by ([`IpSettings::mark`]).
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn ping_set_mark(&mut self, handle: PingHandle, mark: u32) -> Result<(), UdpError> {
        self.pings.slots.get_mut(handle).ok_or(UdpError::Closed)?.mark = mark;
        Ok(())
    }

    /// Send an echo request with sequence number `seq` and `payload`; returns our address that it
    /// was sent from. One that is larger than the path is known to carry leaves in fragments,
    /// unless [`Stack::ping_set_mtu_discovery`] says otherwise. [`Event::Ping`] tells when
    /// something came of it.
    ///
    /// # Errors
    /// [`UdpError`]: no route, a broadcast address, larger than an IP packet can be, or the device
    /// is full.
    pub fn ping_send(
        &mut self,
        handle: PingHandle,
        remote: IpAddr,
        seq: u16,
        payload: &[u8],
        now: Instant,
    ) -> Result<IpAddr, UdpError> {
        self.core.set_now(now);
        let socket = self.pings.slots.get(handle).ok_or(UdpError::Closed)?;
        let (id, owner) = (socket.id, socket.owner.clone());
        let settings = IpSettings { mark: socket.mark, ..IpSettings::default() };
        let sender = Sender::Socket { owner: &owner, mark: settings.mark };
        let (narrow, discovery) = (socket.narrow, socket.mtu_discovery);
        let to = SocketAddr::new(remote, 0);
        let to = socket.port.map_or(to, |port| resolve::scoped(to, port.0));
        let local = addresses::source(self, to, sender)?;
        let protocol = match IpVersion::of(&remote) {
            IpVersion::V4 => protocol::ICMP,
            IpVersion::V6 => protocol::ICMPV6,
        };
        let ends = (SocketAddr::new(local, 0), to);
        let egress = resolve::route(self, ends.0, ends.1, protocol, &owner, settings)
            .map_err(UdpError::Unsendable)?;
        // Nobody should answer (RFC 1122 section 3.2.2.6), and all have to read it.
        if egress.is_broadcast {
            return Err(UdpError::Broadcast);
        }
        let now = self.core.cx.now;
        let path = self.path_mtus.mtu(remote, egress.mtu, now);
        let told = narrow.filter(|&(ip, _, until)| ip == remote && now < until);
        let mut most = told.map_or(path, |(_, mtu, _)| mtu.min(path));
        if discovery == MtuDiscovery::Probe {
            most = egress.mtu;
        }
        let headers_len = egress.template.len() - egress.template.link_len() + icmp::HEADER_LEN;
        if discovery != MtuDiscovery::Want && headers_len + payload.len() > most.bytes() {
            return Err(UdpError::TooBig(most));
        }
        if icmp::HEADER_LEN + payload.len() > frag::output::transport_max(remote) {
            return Err(UdpError::Unsendable(DropReason::IpTooBig));
        }
        self.check_room(egress.port, remote)?;
        let core = &mut self.core;
        let exhausted = UdpError::Unsendable(DropReason::MbufExhausted);
        let mut m = core.cx.pool.copy_of(payload).ok_or(exhausted)?;
        m.prepend(icmp::HEADER_LEN).ok_or(exhausted)?;
        icmp::echo_request(m.as_mut_slice().ok_or(exhausted)?, id, seq, local, remote);
        let sent = frag::output::send(self, &egress, &[], m.as_slice(), most);
        self.core.cx.pool.free(m);
        sent.map_err(UdpError::Unsendable)?;
        self.core.cx.counters.add(Counter::IcmpEchoRequests, 1);
        Ok(local)
    }

    /// Take the oldest thing that came of a socket's requests.
    pub fn ping_receive(&mut self, handle: PingHandle) -> Option<Echo> {
        self.pings.slots.get_mut(handle)?.queue.pop_front()
    }

    /// Close an echo socket; what it had not read is gone.
    pub fn ping_close(&mut self, handle: PingHandle) {
        if let Some(socket) = self.pings.slots.remove(handle) {
            self.pings.by_id.remove(&socket.id);
            for echo in socket.queue {
                echo.free(&mut self.core.cx.pool);
            }
        }
    }
}
