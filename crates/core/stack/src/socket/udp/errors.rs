//! Errors that the network reports about a socket's datagrams: the pending error that BSD keeps,
//! and the queue of errors that Linux has with IP_RECVERR.
//!
//! Called by: `icmp.rs` for ICMP errors and next hops that do not answer; programs. Anybody who
//! knows or guesses the ports can forge such a message. So it is only a hint, and only that socket
//! gets it. RFC 1122 section 4.1.3.3, RFC 5927. Limit: `udp_errors`. Counter: `udp_errors_queued`.

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, Instant, Limit, Mtu};
use inet::Vrf;
use inet::icmp::{ErrorKind, Quoted, Unreachable};
use tcp::{Fate, path};
use wire::udp;

use super::{Socket, UdpErrorReport};
use crate::config::MtuDiscovery;
use crate::handles::{Event, UdpHandle};
use crate::stack::Stack;

/// How many bytes of a datagram's payload its error report keeps.
const QUOTED_MAX: usize = 64;

/// The host that reports an error, and its message.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// A router or the destination; our own address if we found the error ourselves.
    pub(crate) from: IpAddr,
    /// The ICMP message's type and code; `None` if there was no message.
    pub(crate) icmp: Option<(u8, u8)>,
    /// The VRF that it came in, or that the datagram was sent in.
    pub(crate) vrf: Vrf,
}

/// Report an error about a datagram of ours to its socket.
pub(crate) fn about_datagram(
    stack: &mut Stack,
    quoted: &Quoted<'_>,
    reported: ErrorKind,
    source: Source,
) -> Fate {
    let (local, remote) = quoted.ports().ok_or(DropReason::IcmpMalformed)?;
    let local = SocketAddr::new(quoted.src, local);
    let remote = SocketAddr::new(quoted.dst, remote);
    let (kind, mtu) = match reported {
        ErrorKind::TooBig(reported) => {
            let mtu = quoted.path_mtu(reported).and_then(Mtu::new);
            let mtu = mtu.ok_or(DropReason::IcmpErrorIgnored)?;
            (ErrorKind::TooBig(mtu.bytes()), Some(mtu))
        }
        kind => (kind, None),
    };
    // A socket that is connected to another peer did not send the datagram. RFC 6936 4-e, RFC 8899
    // 4.6.1-a.
    let handle = stack.udp.find(local, remote).map_err(|_| DropReason::IcmpErrorNoMatch)?;
    let socket = stack.udp.get_mut(handle).filter(|socket| socket.ip.vrf == source.vrf);
    let socket = socket.ok_or(DropReason::IcmpErrorNoMatch)?;
    let is_queued = socket.options.error_queue;
    match kind {
        ErrorKind::Unreachable(why) => socket.errors.pending = Some((remote, why)),
        ErrorKind::TooBig(_) => note_path(socket, remote, mtu, stack.core.cx.now + path::LIFE),
        ErrorKind::Transient if is_queued => {}
        ErrorKind::Transient => return Err(DropReason::IcmpErrorIgnored),
    }
    if is_queued {
        let report = report(kind, source, (local, remote), quoted);
        queue(stack, handle, report)
    } else {
        if mtu.is_none() {
            stack.ready.push_back(Event::Udp(handle));
        }
        Ok(())
    }
}

/// From now on the socket sends no larger packets to `remote`, unless it probes the path itself.
fn note_path(socket: &mut Socket, remote: SocketAddr, mtu: Option<Mtu>, until: Instant) {
    let Some(mtu) = mtu else { return };
    if socket.options.mtu_discovery != MtuDiscovery::Probe {
        socket.errors.narrow = Some((remote.ip(), mtu, until));
        socket.flow = None;
    }
}

/// Make the report of an error, from the quoted datagram. RFC 8899 4.6.1-b.
fn report(
    kind: ErrorKind,
    source: Source,
    (local, remote): (SocketAddr, SocketAddr),
    quoted: &Quoted<'_>,
) -> UdpErrorReport {
    let transport = quoted.transport;
    // The length in the UDP header is that of the whole datagram, even if it is fragmented.
    let length = transport.get(4..6).and_then(|b| b.first_chunk()).map(|b| u16::from_be_bytes(*b));
    let payload_len = usize::from(length.unwrap_or(0)).saturating_sub(udp::HEADER_LEN);
    let payload = transport.get(udp::HEADER_LEN..).unwrap_or_default();
    let payload = payload[..payload.len().min(payload_len).min(QUOTED_MAX)].to_vec();
    let Source { from, icmp, .. } = source;
    UdpErrorReport { kind, icmp, from, local, remote, payload, payload_len }
}

fn queue(stack: &mut Stack, handle: UdpHandle, report: UdpErrorReport) -> Fate {
    let socket = stack.udp.get_mut(handle).ok_or(DropReason::IcmpErrorNoMatch)?;
    if !stack.core.cx.budget.admits(Limit::UdpErrors, socket.errors.queue.len()) {
        return Err(DropReason::UdpErrorQueueFull);
    }
    socket.errors.queue.push_back(report);
    stack.core.cx.counters.add(Counter::UdpErrorsQueued, 1);
    stack.ready.push_back(Event::Udp(handle));
    Ok(())
}

impl Stack {
    /// Take the last error that the network reported about a datagram of this socket, and the
    /// datagram's destination (RFC 1122 section 4.1.3.3). [`Event::Udp`] reported it. Such a
    /// message can be forged, so it is a hint and no proof.
    pub fn udp_take_error(&mut self, handle: UdpHandle) -> Option<(SocketAddr, Unreachable)> {
        self.udp.get_mut(handle)?.errors.pending.take()
    }

    /// Take all errors in the error queue of a socket that has one ([`super::UdpOptions`]); the
    /// oldest comes first. [`Event::Udp`] reported them. Such messages can be forged.
    pub fn udp_take_errors(&mut self, handle: UdpHandle) -> Vec<UdpErrorReport> {
        match self.udp.get_mut(handle) {
            Some(socket) => core::mem::take(&mut socket.errors.queue).into(),
            None => Vec::new(),
        }
    }
}
