//! Echo sockets: they send echo requests, and receive replies and errors with the time of arrival.
//!
//! Called by: `icmp.rs` for received messages. `calls.rs` has the calls of programs (`wirespeed
//! ping`). Each socket has an identifier of its own; replies with an unknown identifier are
//! dropped. RFC 792, RFC 4443 section 4. Limits: `ping_sockets`, `ping_replies`.

mod calls;

use std::collections::{BTreeMap, VecDeque};

use core::fmt;
use core::net::IpAddr;

use base::{Counter, DropReason, Instant, Limit, Mtu, Owner};
use inet::flow::Addrs;
use inet::icmp::{self, ErrorKind, Quoted, Unreachable};
use inet::{Ip, Selector};
use mbuf::{Mbuf, Pool};
use slotmap::SlotMap;
use tcp::{Cx, path};

use crate::config::MtuDiscovery;
use crate::handles::{Event, PingHandle, PortId};

/// The result of an echo request.
///
/// ```
/// # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
/// use wirespeed::pair::{PairConfig, pair};
/// use wirespeed::{Instant, Owner};
///
/// let (mut here, mut there) = pair(&PairConfig::new([1, 2]));
/// let ping = here.stack.ping_open(Owner::program())?;
/// let now = Instant::from_nanos(1);
/// here.stack.ping_send(ping, there.addr, 1, b"are you there?", now)?;
/// here.stack.poll(now); // the request leaves
/// there.stack.poll(now); // and is answered
/// here.stack.poll(now);
/// let echo = here.stack.ping_receive(ping).expect("an answer");
/// assert_eq!((echo.seq, echo.from), (1, there.addr));
/// assert_eq!(echo.outcome.expect("no error").as_slice(), b"are you there?");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Echo {
    /// The sender of the reply: the host that was pinged, or a router that reports why there is no
    /// reply.
    pub from: IpAddr,
    /// The sequence number of the request.
    pub seq: u16,
    /// TTL or hop limit that the reply arrived with; 0 for an error.
    pub ttl: u8,
    /// When the reply arrived: the `now` of the call that received it.
    pub at: Instant,
    /// The data of the reply, or the reason why there is none.
    pub outcome: Result<Mbuf, EchoError>,
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoError {
    /// The request did not reach its destination.
    Unreachable(Unreachable),
    /// The request was larger than the MTU of a link on the path, in bytes; 0: not reported.
    TooBig(usize),
    /// A router dropped the request because its hop limit was reached.
    TimeExceeded,
}

/// In the words of ping of iputils.
impl fmt::Display for EchoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EchoError::Unreachable(why) => why.fmt(f),
            EchoError::TooBig(mtu) => write!(f, "Frag needed and DF set (mtu = {mtu})"),
            EchoError::TimeExceeded => f.write_str("Time to live exceeded"),
        }
    }
}

impl core::error::Error for EchoError {}

struct Socket {
    id: u16,
    owner: Owner,
    by: Selector,
    mtu_discovery: MtuDiscovery,
    /// The port on whose link the socket's link-local destinations are.
    port: Option<PortId>,
    queue: VecDeque<Echo>,
    /// The path MTU reported last, and until when it is used. The report cannot be verified, so
    /// only this socket uses it.
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
    /// Note that the largest packet to `remote` that `id` may send is of `mtu` bytes, until
    /// `until`.
    fn too_big(&mut self, id: u16, remote: IpAddr, mtu: Mtu, until: Instant) {
        let handle = self.by_id.get(&id);
        if let Some(socket) = handle.and_then(|&handle| self.slots.get_mut(handle)) {
            socket.narrow = Some((remote, mtu, until));
        }
    }

    /// The owner and the selector of the socket with this identifier.
    pub(crate) fn sender(&self, id: u16) -> Option<(Owner, Selector)> {
        let socket = self.slots.get(*self.by_id.get(&id)?)?;
        Some((socket.owner.clone(), socket.by))
    }

    /// Process a reply: `m` is the whole message. Its socket gets an event when its queue was empty
    /// before.
    pub(crate) fn reply<A: Addrs>(
        &mut self,
        ip: &Ip<A>,
        (id, seq): (u16, u16),
        mut m: Mbuf,
        cx: &mut Cx,
    ) -> Result<Option<Event>, DropReason> {
        m.trim_front(icmp::HEADER_LEN);
        let echo = Echo { from: ip.src(), seq, ttl: ip.ttl, at: cx.now, outcome: Ok(m) };
        let event = self.deliver(id, echo, cx)?;
        cx.counters.add(Counter::IcmpEchoRepliesIn, 1);
        Ok(event)
    }

    /// Process an error about an echo request of ours.
    pub(crate) fn failed(
        &mut self,
        quoted: &Quoted<'_>,
        reported: ErrorKind,
        from: IpAddr,
        cx: &mut Cx,
    ) -> Result<Option<Event>, DropReason> {
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
            self.too_big(id, quoted.dst, mtu, cx.now + path::LIFE);
        }
        let outcome = Err(match reported {
            ErrorKind::Unreachable(why) => EchoError::Unreachable(why),
            ErrorKind::TooBig(mtu) => EchoError::TooBig(mtu),
            ErrorKind::Transient => EchoError::TimeExceeded,
        });
        self.deliver(id, Echo { from, seq, ttl: 0, at: cx.now, outcome }, cx)
    }

    /// Queue a result for `id`.
    fn deliver(&mut self, id: u16, echo: Echo, cx: &mut Cx) -> Result<Option<Event>, DropReason> {
        let handle = self.by_id.get(&id).copied();
        let Some((handle, socket)) = handle.and_then(|h| Some((h, self.slots.get_mut(h)?))) else {
            echo.free(&mut cx.pool);
            return Err(DropReason::IcmpEchoNoSocket);
        };
        if socket.queue.len() >= cx.budget.of(Limit::PingReplies) {
            cx.budget.admits(Limit::PingReplies, usize::MAX);
            echo.free(&mut cx.pool);
            return Err(DropReason::IcmpEchoQueueFull);
        }
        socket.queue.push_back(echo);
        Ok((socket.queue.len() == 1).then_some(Event::Ping(handle)))
    }
}

impl Echo {
    fn free(self, pool: &mut Pool) {
        if let Ok(m) = self.outcome {
            pool.free(m);
        }
    }
}
