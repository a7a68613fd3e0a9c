//! A TCP segment of no connection: for a TIME-WAIT record, a listener, or neither.
//!
//! Called by: `rx.rs`, which found no connection for it. RFC 9293 section 3.10.7.1.

use core::net::SocketAddr;

use base::{DropReason, Owner};
use inet::Ip;
use inet::flow::Addrs;
use mbuf::{Flags as MbufFlags, Mbuf};
use tcp::handshake::{self, Listen};
use tcp::timewait::Late;
use tcp::{Fate, Segment};
use wire::tcp::{Flags, Header};

use crate::local::{for_any_host, for_us, is_anycast};
use crate::rx::{any_segment, slow_segment};
use crate::socket::cookies;
use crate::socket::passive::{self, Iss, Syn};
use crate::{Stack, bare, loopback};

/// A segment of no connection: for a TIME-WAIT record, a listener, or neither (RFC 9293 section
/// 3.10.7.1).
#[cold]
#[inline(never)]
pub(crate) fn input<A: Addrs>(stack: &mut Stack, ip: Ip<A>, mut m: Mbuf) -> Fate {
    let (header, seg, options) = any_segment(&m, ip.is_ce())?;
    let key = ip.flow(Header::raw_ports(m.as_slice()));
    let key = if m.in_port() == loopback::PORT { key.looped() } else { key };
    // RFC 9293 MUST-57.
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
                // Behind what a window of the old connection could still hold.
                after = Some(entry.record.snd_nxt + (65_535 + 2));
                stack.connections.remove_time_wait(&key, &stack.core.secret);
            }
        }
    }
    if stack.listeners.takes_anything() {
        for_any_host(stack, &ip, &m)?;
    } else {
        for_us(stack, &ip, &m)?;
    }
    let Some(listener) = stack.listeners.find(ip.dst(), header.dst_port) else {
        if seg.flags.contains(Flags::RST) {
            return Err(DropReason::TcpNoSocketRst);
        }
        reset(stack, &ip, &header, &seg, (&Owner::program(), 0));
        return Err(DropReason::TcpNoSocket);
    };
    match handshake::listen(&seg) {
        Listen::Ignore(reason) => Err(reason),
        Listen::Reset(reason) => {
            let ends = ends(&ip, &header);
            if let Some(handle) = cookies::redeem(stack, listener, ends, &seg)? {
                return slow_segment(stack, handle, ip, m);
            }
            let whose = stack.listeners.get(listener).map(|l| (l.owner.clone(), l.ip.mark));
            if let Some((owner, mark)) = whose {
                reset(stack, &ip, &header, &seg, (&owner, mark));
            }
            Err(reason)
        }
        Listen::Open => {
            let (local, remote) = ends(&ip, &header);
            let iss = after.map_or(Iss::Any, Iss::Behind);
            m.trim_front(header.header_len);
            passive::passive_open(stack, &Syn { listener, local, remote, seg, options, iss }, m)
        }
    }
}

/// Our end and the other's.
fn ends<A: Addrs>(ip: &Ip<A>, header: &Header) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(ip.dst(), header.dst_port), SocketAddr::new(ip.src(), header.src_port))
}

/// Reset a segment without connection or listener, RFC 9293 section 3.10.7.1.
pub(crate) fn reset<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    header: &Header,
    seg: &Segment,
    whose: (&Owner, u32),
) {
    bare::reset(stack, ends(ip, header), seg, whose);
}
