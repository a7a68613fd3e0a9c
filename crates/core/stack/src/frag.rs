//! Keeps received fragments until their datagram is complete. The datagram is then processed as if
//! it had arrived in one packet.
//!
//! Called by: `rx.rs` for each fragment, `Stack::poll` when a datagram's time is up. `output.rs`
//! sends fragments. The table is `inet::frag`. RFC 1122 section 3.3.2, RFC 8200 section 4.5, RFC
//! 6980.

pub(crate) mod output;

use core::net::IpAddr;

use base::{Counter, DropReason};
use inet::Ip;
use inet::flow::{Addrs, V4Addrs, V6Addrs};
use inet::frag::{Datagram, Joined, Key, Refused, TIMEOUT};
use inet::group::is_link_scoped;
use inet::icmp::Report;
use inet::ip_input::{Part, ipv4_made};
use mbuf::{Class, Flags, Mbuf};
use tcp::Fate;
use wire::checksum::Sum;
use wire::{icmpv6, ipv4, ipv6, protocol, udp};

use crate::for_us::{for_any_host, for_us_or_group};
use crate::stack::Stack;
use crate::{extension, icmp, shard};

/// While fewer bytes than this are held, buffers that belong to devices are held without a copy: a
/// datagram of 64 KB that arrives without a gap is copied once, when it is complete.
const LENT_BYTES: usize = 128 << 10;

/// A complete datagram, which begins with its IP header.
pub(crate) enum Whole {
    V4(Ip<V4Addrs>, Mbuf),
    V6(Ip<V6Addrs>, Mbuf),
}

/// Keep a fragment, whose IP header begins at `at`. If it completes its datagram, return the
/// datagram.
/// RFC 1122 3.3.2-c.
#[inline(never)]
pub(crate) fn input<A: Addrs>(
    stack: &mut Stack,
    ip: Ip<A>,
    part: Part,
    mut m: Mbuf,
    at: usize,
) -> Result<Option<Whole>, DropReason> {
    let key = Key::of(&ip, &part, m.in_port());
    // If this is the newest datagram, its previous fragment has passed this check.
    if !stack.frags.is_newest(&key) {
        match for_us_or_group(stack, &ip, &m) {
            Err(DropReason::IpNotForUs) if takes_for_others(stack, ip.protocol) => {
                for_any_host(stack, &ip, &m)?;
            }
            Err(DropReason::GroupNotJoined) if may_be_punted(stack, &ip, &m) => {}
            other => other?,
        }
        // If the datagram is new: when it is given up.
        stack.rare_timers.note(stack.core.cx.now + TIMEOUT);
    }
    let core = &mut stack.core;
    core.cx.counters.add(Counter::FragmentsIn, 1);
    m.keep(at, (ip.transport_at + ip.transport_len) as usize);
    // A remote host must not be able to hold a device's buffers for a minute, nor large buffers
    // with little data.
    let is_lent = !core.cx.pool.owns(&m) && stack.frags.bytes() >= LENT_BYTES;
    if is_lent || m.tailroom() > m.len() + Class::K2.capacity() {
        m = own_copy(stack, &m)?;
    }
    let core = &mut stack.core;
    let (budget, drops) = (&mut core.cx.budget, &mut core.drops);
    match stack.frags.insert(key, (&ip, part), m, core.cx.now, budget, drops) {
        Ok(None) => Ok(None),
        Ok(Some(datagram)) => complete(stack, datagram),
        Err(Refused { reason, report }) => {
            if let Some((problem, m)) = report {
                let ends = (ip.dst(), ip.src());
                icmp::report(stack, &m, m.as_slice(), ends, Report::Problem(problem));
            }
            Err(reason)
        }
    }
}

/// May a datagram of this protocol be the program's although it is for another host?
#[cold]
fn takes_for_others(stack: &Stack, protocol: u8) -> bool {
    let foreign = match protocol {
        protocol::UDP => stack.foreign.takes.udp,
        protocol::ICMP | protocol::ICMPV6 => stack.foreign.takes.echo,
        _ => false,
    };
    foreign || stack.listeners.takes_anything()
}

/// May a datagram be a mirror's although we have not joined its group?
#[cold]
fn may_be_punted<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> bool {
    is_link_scoped(ip.dst()) && stack.punt.as_ref().is_some_and(|punt| punt.is_of(m.in_port()))
}

fn own_copy(stack: &mut Stack, m: &Mbuf) -> Result<Mbuf, DropReason> {
    let mut copy = stack.core.cx.pool.copy_of(m.as_slice()).ok_or(DropReason::MbufExhausted)?;
    copy.set_in_port(m.in_port());
    copy.set(if m.has(Flags::LINK_GROUP) { Flags::LINK_GROUP } else { 0 });
    Ok(copy)
}

/// Join the fragments of a complete datagram.
#[inline(always)]
fn complete(stack: &mut Stack, datagram: Datagram) -> Result<Option<Whole>, DropReason> {
    let core = &mut stack.core;
    let count = datagram.len() as u64;
    let joined =
        stack.frags.join(datagram, &mut core.cx.pool, core.cx.ladder).inspect_err(|&reason| {
            // The caller counts the last fragment.
            core.drops.count_many(reason, count.saturating_sub(1));
        });
    let Joined { packet: mut m, data_at, data_sum } = joined?;
    let sum = (data_at, data_sum);
    core.cx.counters.add(Counter::FragmentsJoined, count);
    core.cx.counters.add(Counter::DatagramsReassembled, 1);
    if m.as_slice().first().is_some_and(|b| b >> 4 == 4) {
        let ip = ipv4_made(m.as_slice())?;
        note_checksum(&ip, &mut m, sum);
        return Ok(to_its_shard(stack, m).map(|m| Whole::V4(ip, m)));
    }
    match extension::walk(stack, &m, 0)? {
        (ip, None) => {
            refuse_nd(&ip, &m, 0)?;
            note_checksum(&ip, &mut m, sum);
            Ok(to_its_shard(stack, m).map(|m| Whole::V6(ip, m)))
        }
        // A fragment of a fragment: no sender has a reason to make one.
        (_, Some(_)) => Err(DropReason::Ipv6ExtensionHeader),
    }
}

/// Pass a datagram to the shard of its flow. Its fragments were steered by their addresses alone,
/// so another shard may have the flow. Returns the datagram if it belongs here.
fn to_its_shard(stack: &mut Stack, m: Mbuf) -> Option<Mbuf> {
    if stack.membership.is_none() || m.has(Flags::LINK_GROUP) {
        return Some(m);
    }
    shard::rehome(stack, m)
}

/// The sum of a datagram's data is known. If it shows that the checksum is right, UDP need not read
/// the data again. If not, UDP finds out itself.
fn note_checksum<A: Addrs>(ip: &Ip<A>, m: &mut Mbuf, (data_at, sum): (u32, Sum)) {
    let transport = m.as_slice().get(ip.transport_at as usize..).unwrap_or_default();
    // If there were extension headers in the fragments, the sum is not that of the transport header
    // and data alone.
    let is_all = (ip.transport_at, ip.transport_len) == (data_at, transport.len() as u32);
    let is_udp = ip.protocol == protocol::UDP
        && udp::Header::parse(transport).is_ok_and(|h| u32::from(h.length) == ip.transport_len);
    if is_all && is_udp && ip.with_pseudo_header(sum).is_whole() {
        m.set(Flags::CSUM_VERIFIED);
    }
}

/// Refuse a neighbour discovery message that came in fragments, or in a packet with a fragment
/// header.
///
/// # Errors
/// [`DropReason::NdFragmented`].
fn refuse_nd<A: Addrs>(ip: &Ip<A>, m: &Mbuf, at: usize) -> Fate {
    let kind = m.as_slice().get(at + ip.transport_at as usize).copied();
    // RFC 6980 5-a.
    if ip.protocol == protocol::ICMPV6 && kind.is_some_and(icmpv6::is_neighbour_discovery) {
        return Err(DropReason::NdFragmented);
    }
    Ok(())
}

/// Check an IPv6 packet with extension headers that is not one of several fragments. An atomic
/// fragment is processed like a whole packet, except for neighbour discovery.
/// RFC 6946 4-a.
pub(crate) fn check_atomic<A: Addrs>(ip: &Ip<A>, m: &Mbuf, at: usize) -> Fate {
    let packet = m.as_slice().get(at..).unwrap_or_default();
    match ipv6::has_fragment_header(packet) {
        true => refuse_nd(ip, m, at),
        false => Ok(()),
    }
}

/// Drop datagrams whose time is up; send an ICMP error to the sender if the first fragment arrived.
#[cold]
pub(crate) fn expire(stack: &mut Stack) {
    let now = stack.core.cx.now;
    while let Some(expired) = stack.frags.expire(now, &mut stack.core.drops) {
        // RFC 1122 3.3.2-b, RFC 8200 4.5-c.
        let Some(first) = expired.first else { continue };
        if let Some(ends) = ends(first.as_slice()) {
            icmp::report(stack, &first, first.as_slice(), ends, Report::ReassemblyTime);
        }
        stack.core.cx.pool.free(first);
    }
}

/// The destination and the source of a packet.
fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    if packet.first()? >> 4 == 4 {
        let h = ipv4::Header::parse_quoted(packet).ok()?;
        return Some((h.dst.into(), h.src.into()));
    }
    let h = ipv6::Header::parse_quoted(packet).ok()?;
    Some((h.dst.into(), h.src.into()))
}
