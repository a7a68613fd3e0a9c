//! Handles a TCP segment that belongs to no connection: it may be for a TIME-WAIT record or a
//! listener. A SYN for a listener creates a connection in SYN-RECEIVED, or is answered with a
//! cookie.
//!
//! Called by: `rx.rs`, when it finds no connection. RFC 9293 section 3.10.7, RFC 4987.

use core::net::SocketAddr;

use base::{DropReason, Limit, Owner, Switch};
use inet::flow::Addrs;
use inet::{Ip, Selector};
use mbuf::{Flags as MbufFlags, Mbuf};
use tcp::handshake::{self, Listen};
use tcp::timewait::Late;
use tcp::{Fate, Segment};
use wire::tcp::{Flags, Header};

use crate::for_us::{for_any_host, for_us, is_anycast};
use crate::handles::{ListenerHandle, TcpHandle};
use crate::port::LOOPBACK;
use crate::socket::listener::{Iss, Syn};
use crate::socket::{cookies, forward, passive};
use crate::stack::Stack;
use crate::{bare, vrf};

/// Process a segment that belongs to no connection: it may be for a TIME-WAIT record, a listener,
/// or neither (RFC 9293 section 3.10.7.1). A segment with a valid cookie is returned, with the new
/// connection.
#[cold]
#[inline(never)]
pub(crate) fn input<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    mut m: Mbuf,
) -> Result<Option<(TcpHandle, Mbuf)>, DropReason> {
    let (header, seg, options) = Segment::parse(m.as_slice(), ip.is_ce())?;
    let key = ip.flow(Header::raw_ports(m.as_slice()));
    let vrf = vrf::of_packet(stack, m.in_port(), (ip.src(), ip.dst()));
    let key = if m.in_port() == LOOPBACK { key.looped() } else { key.within(vrf) };
    // RFC 9293 MUST-57: a SYN to a broadcast or multicast address is ignored.
    if m.has(MbufFlags::LINK_GROUP) || is_anycast(stack, ip.dst(), &m) {
        return Err(DropReason::TcpGroupAddress);
    }
    if ip.src() == ip.dst() && header.src_port == header.dst_port {
        return Err(DropReason::TcpLand);
    }
    let mut after = None;
    if let Some(entry) = stack.connections.time_wait(&key, &stack.core.secret).cloned() {
        match entry.record.input(&seg) {
            Late::Ignore(reason) => return Err(reason),
            Late::End => {
                stack.connections.remove_time_wait(&key, &stack.core.secret);
                return Err(DropReason::TcpRst);
            }
            Late::Answer => {
                bare::answer_time_wait(stack, &entry, &seg);
                return Err(DropReason::TcpTimeWait);
            }
            Late::Reopen => {
                // RFC 1122 4.2.2.13-a.
                // The new sequence numbers begin after the largest window of the old connection.
                after = Some(entry.record.snd_nxt + (65_535 + 2));
                stack.connections.remove_time_wait(&key, &stack.core.secret);
            }
        }
    }
    if stack.listeners.takes_anything() {
        for_any_host(stack, ip, &m)?;
    } else {
        for_us(stack, ip, &m)?;
    }
    let listener = stack.listeners.find(ip.dst(), header.dst_port);
    let is_of_vrf = |handle: &ListenerHandle| {
        let listener = stack.listeners.get(*handle);
        listener.is_some_and(|l| vrf::admits(stack, m.in_port(), ip.dst(), l.ip.vrf))
    };
    let Some(listener) = listener.filter(is_of_vrf) else {
        if seg.flags.contains(Flags::RST) {
            return Err(DropReason::TcpNoSocketRst);
        }
        bare::reset(stack, ends(ip, &header), &seg, (&Owner::program(), Selector::of_vrf(vrf)));
        return Err(DropReason::TcpNoSocket);
    };
    match handshake::listen(&seg) {
        Listen::Ignore(reason) => Err(reason),
        Listen::Reset(reason) => {
            let ends = ends(ip, &header);
            if let Some(handle) = cookies::redeem(stack, listener, ends, &seg)? {
                return Ok(Some((handle, m)));
            }
            let whose = stack.listeners.get(listener).map(|l| (l.owner.clone(), l.ip.selector()));
            if let Some((owner, by)) = whose {
                bare::reset(stack, ends, &seg, (&owner, by));
            }
            Err(reason)
        }
        Listen::Open => {
            let (local, remote) = ends(ip, &header);
            let iss = after.map_or(Iss::Any, Iss::Behind);
            m.trim_front(header.header_len);
            passive_open(stack, &Syn { listener, local, remote, seg, options, iss }, m)?;
            Ok(None)
        }
    }
}

/// Returns our address and port, and those of the other end.
pub(crate) fn ends<A: Addrs>(ip: &Ip<A>, header: &Header) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(ip.dst(), header.dst_port), SocketAddr::new(ip.src(), header.src_port))
}

/// Process a SYN with payload `m` for a listener: create a connection in SYN-RECEIVED if limits
/// admit one, or else send a cookie.
fn passive_open(stack: &mut Stack, syn: &Syn, m: Mbuf) -> Fate {
    let Some(listener) = stack.listeners.get_mut(syn.listener) else {
        return Err(DropReason::TcpNoSocket);
    };
    if listener.inspect {
        return forward::hold(stack, syn);
    }
    if stack.core.cx.switches.on(Switch::SynCookies) && wants_cookie(stack, syn.listener) {
        return cookies::offer_in_time(stack, syn);
    }
    passive::make_room(stack, syn.listener)?;
    let handle = passive::complete_open(stack, syn)?;
    if syn.options.fast_open.is_some() || !m.is_empty() {
        passive::answer_fast_open(stack, syn, handle, m);
    }
    Ok(())
}

/// Is a cookie to be sent, because the listener or the stack has its maximum of half-open
/// connections? If connections that wait to be accepted fill half of the backlog, none is sent: the
/// program is slow, and a cookie would promise room that does not exist. The SYN is dropped then;
/// the peer retransmits it.
fn wants_cookie(stack: &Stack, handle: ListenerHandle) -> bool {
    let of_all = stack.listeners.half_open.count();
    let Some(listener) = stack.listeners.get(handle) else { return false };
    let waiting = listener.accepted.len();
    2 * waiting < listener.backlog
        && (waiting + listener.half_open.count() >= listener.backlog
            || of_all >= stack.core.cx.budget.of(Limit::HalfOpen))
}
