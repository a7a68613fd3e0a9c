//! Datagrams and echo requests for other hosts that arrive: checked like those for us, and put into
//! the program's queue.
//!
//! Called by: `socket/udp/input.rs` and `rx/unusual.rs`, for packets that are not for us; nothing
//! here runs for the others. RFC 768, RFC 792, RFC 4443 section 4.1, RFC 6935.

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, IpVersion, Switch};
use inet::Ip;
use inet::flow::Addrs;
use inet::icmp::{self, ErrorKind, Message};
use inet::ip_input::is_martian_source;
use mbuf::{Flags, Mbuf};
use tcp::Fate;
use wire::protocol;

use super::{ForeignDatagram, ForeignError, ForeignFlow, ForeignKind};
use crate::handles::PortId;
use crate::next_hop::scoped;
use crate::stack::Stack;

/// A UDP datagram that is refused for `reason`; its header begins at `begin` in `m`, and `len`
/// bytes of it and its payload follow. It is the program's if it is for another host.
///
/// # Errors
/// `reason`, or what is wrong with the datagram.
#[cold]
pub(crate) fn udp<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    mut m: Mbuf,
    (begin, len): (usize, usize),
    reason: DropReason,
) -> Fate {
    if !stack.foreign.takes.udp || !is_for_another(ip.dst(), &m, reason)? {
        return Err(reason);
    }
    let bytes = m.as_slice().get(begin..begin + len).unwrap_or_default();
    let cx = &stack.core.cx;
    let verify = cx.switches.on(Switch::ChecksumRx) && !m.has(Flags::CSUM_VERIFIED);
    let header = inet::udp::udp_input(ip, bytes, verify, cx.ladder)?;
    // Only tunnels send such datagrams, and only to receivers that ask for them (RFC 6935).
    if header.checksum == [0, 0] && ip.src().is_ipv6() {
        return Err(DropReason::UdpZeroChecksum);
    }
    let header_len = wire::udp::HEADER_LEN;
    m.keep(begin + header_len, usize::from(header.length) - header_len);
    keep(stack, ip, (header.src_port, header.dst_port), ForeignKind::Udp, m)
}

/// A checked UDP datagram for an address of ours that no socket takes: its payload, alone in `m`.
///
/// # Errors
/// There is no room.
#[cold]
pub(crate) fn unclaimed<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    m: Mbuf,
    ports: (u16, u16),
) -> Fate {
    keep(stack, ip, ports, ForeignKind::Udp, m)
}

/// An ICMP message, alone in `m`, that is refused for `reason`. It is the program's if it is an
/// echo request for another host, or an error about a datagram in another host's name.
///
/// # Errors
/// `reason`, or what is wrong with the message.
#[cold]
pub(crate) fn message<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    mut m: Mbuf,
    reason: DropReason,
) -> Fate {
    let takes = stack.foreign.takes;
    if !(takes.echo || takes.udp) || !is_for_another(ip.dst(), &m, reason)? {
        return Err(reason);
    }
    match icmp::icmp_input(ip, m.as_slice())? {
        Message::EchoRequest if takes.echo => {}
        Message::Error(error) if takes.udp => return error_about(stack, ip, &m, error),
        _ => return Err(reason),
    }
    let Some(&[_, _, _, _, a, b, c, d]) = m.as_slice().first_chunk() else { return Err(reason) };
    let (id, seq) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    m.trim_front(icmp::HEADER_LEN);
    keep(stack, ip, (0, 0), ForeignKind::Echo { id, seq }, m)
}

/// An error about a datagram that the program has sent in the name of the message's destination.
fn error_about<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf, error: ErrorKind) -> Fate {
    let packet = m.as_slice().get(icmp::HEADER_LEN..).unwrap_or_default();
    let quoted = icmp::quoted(packet, IpVersion::of(&ip.src()))?;
    let ports = quoted.ports().filter(|_| quoted.protocol == protocol::UDP);
    let Some((from, to)) = ports.filter(|_| quoted.src == ip.dst()) else {
        return Err(DropReason::IcmpErrorNoMatch);
    };
    let src = scoped(SocketAddr::new(quoted.src, from), m.in_port());
    let dst = scoped(SocketAddr::new(quoted.dst, to), m.in_port());
    let about = ForeignFlow { src, dst, kind: ForeignKind::Udp };
    let cx = &mut stack.core.cx;
    let event = stack.foreign.push_error(ForeignError { about, error, from: ip.src() }, cx)?;
    stack.ready.extend(event);
    stack.core.cx.counters.add(Counter::IcmpErrorsIn, 1);
    Ok(())
}

/// Was a packet refused only because another host has its destination? Broadcasts and groups are
/// refused for other reasons.
///
/// # Errors
/// [`DropReason::IpMartianDestination`].
fn is_for_another(dst: IpAddr, m: &Mbuf, reason: DropReason) -> Result<bool, DropReason> {
    if reason != DropReason::IpNotForUs || m.has(Flags::LINK_GROUP) {
        return Ok(false);
    }
    // The rule for a source holds for any address of one host.
    if is_martian_source(dst) { Err(DropReason::IpMartianDestination) } else { Ok(true) }
}

fn keep<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    (from, to): (u16, u16),
    kind: ForeignKind,
    payload: Mbuf,
) -> Fate {
    let port = payload.in_port();
    let src = scoped(SocketAddr::new(ip.src(), from), port);
    let dst = scoped(SocketAddr::new(ip.dst(), to), port);
    let segment_size = payload.segment_size();
    let flow = ForeignFlow { src, dst, kind };
    let datagram = ForeignDatagram {
        flow,
        port: PortId(port),
        ttl: ip.ttl,
        tos: ip.tos,
        segment_size,
        payload,
    };
    let event = stack.foreign.push(datagram, &mut stack.core.cx)?;
    stack.ready.extend(event);
    stack.core.cx.counters.add(Counter::ForeignIn, 1);
    Ok(())
}

impl Stack {
    /// Move the oldest datagrams for other hosts, at most `most`, to the end of `into`; returns how
    /// many. [`crate::Event::Foreign`] reports the first one that waits; see [`crate::Foreign`].
    pub fn foreign_receive(&mut self, into: &mut Vec<ForeignDatagram>, most: usize) -> usize {
        self.foreign.take(into, most)
    }

    /// The oldest error about a datagram of [`Stack::udp_send_between`], as a guest's host sends it
    /// that has no socket for the datagram. [`crate::Event::Foreign`] reports the first one that
    /// waits. Anybody on the link can make such a message: it says no more than that.
    ///
    /// ```
    /// # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
    /// use wirespeed::pair::{PairConfig, pair};
    /// use wirespeed::{ErrorKind, Foreign, Instant, IpSettings, Route, StackConfig, Unreachable};
    ///
    /// let foreign = Foreign { udp: true, ..Foreign::default() };
    /// let stack = StackConfig { foreign, ..StackConfig::new([1, 2]) };
    /// let (mut guest, mut gateway) = pair(&PairConfig { stack, ..PairConfig::new([1, 2]) });
    /// guest.stack.add_route(Route::new("0.0.0.0/0".parse()?, Some(gateway.addr), guest.port.0));
    /// let now = Instant::from_nanos(1);
    /// let (from, to) = ("198.51.100.53:53".parse()?, (guest.addr, 4_000).into());
    /// gateway.stack.udp_send_between(from, to, IpSettings::default(), b"too late", now)?;
    /// gateway.stack.poll(now);
    /// guest.stack.poll(now);
    /// gateway.stack.poll(now);
    /// let error = gateway.stack.foreign_take_error().expect("nobody has this port");
    /// assert_eq!((error.about.src, error.about.dst), (from, to));
    /// assert_eq!(error.error, ErrorKind::Unreachable(Unreachable::Port));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn foreign_take_error(&mut self) -> Option<ForeignError> {
        self.foreign.take_error()
    }
}
