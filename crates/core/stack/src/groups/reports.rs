//! Sends the IGMP and MLD messages that report which groups a port receives.
//!
//! Called by: `poll.rs` when a message is due, `addresses/calls.rs` when addresses change,
//! `change.rs` when a port is added or gets another device. RFC 3376, RFC 3810. Limit:
//! `group_reports_per_second`. Counter: `group_reports_out`.

use core::net::IpAddr;
use std::collections::BTreeSet;

use base::{Counter, Duration, Instant, IpVersion, Limit};
use inet::group::{self, Host};

use super::{GroupRow, nodes_of};
use crate::handles::PortId;
use crate::pace;
use crate::port::Port;
use crate::stack::Stack;

/// Update the solicited-node groups of a port whose addresses have changed.
/// RFC 3810 6-b.
pub(crate) fn addresses_changed(stack: &mut Stack, id: PortId) {
    let Stack { ports, groups, core, rare_timers, .. } = stack;
    let Some(port) = ports.get(id.0).filter(|_| groups.reports_nodes) else { return };
    let nodes: BTreeSet<IpAddr> = nodes_of(port).collect();
    let known = groups.ports.get(&id.0).map(|p| p.nodes.clone()).unwrap_or_default();
    if nodes == known {
        return;
    }
    let changed: Vec<IpAddr> = nodes.symmetric_difference(&known).copied().collect();
    groups.port_mut(id.0).nodes = nodes;
    let most = core.cx.budget.of(Limit::SourcesPerGroup);
    for group in changed {
        groups.refresh(id.0, group, most, core.cx.now);
    }
    rare_timers.note(groups.next_deadline());
}

/// Report the groups of a port that has another device to the routers of the new link.
#[cold]
pub(crate) fn rejoin(stack: &mut Stack, id: PortId) {
    let Some(groups) = stack.groups.ports.get_mut(&id.0) else { return };
    groups.v4.rejoin(stack.core.cx.now);
    groups.v6.rejoin(stack.core.cx.now);
    stack.groups.look_ahead();
    stack.rare_timers.note(stack.groups.next_deadline());
}

/// Send the messages that are due, as many as the limit per second admits.
#[cold]
pub(crate) fn expire(stack: &mut Stack) {
    let ids: Vec<u16> = stack.groups.ports.keys().copied().collect();
    let both = |id| [(id, IpVersion::V4), (id, IpVersion::V6)];
    // Once the limit is reached, all other messages wait for the next second.
    let _ = ids.into_iter().flat_map(both).all(|(id, version)| reports(stack, id, version));
    stack.groups.look_ahead();
}

/// Send the messages of one port and IP version; `false` if the limit was reached.
fn reports(stack: &mut Stack, id: u16, version: IpVersion) -> bool {
    let now = stack.core.cx.now;
    while let Some(groups) = stack.groups.ports.get_mut(&id) {
        let host = groups.host_mut(version);
        host.expire(now);
        if host.next_deadline() > now {
            break;
        }
        let budget = &mut stack.core.cx.budget;
        if !stack.groups.reports.admits(Limit::GroupReportsPerSecond, now, budget) {
            let second = Duration::from_secs(1).as_nanos();
            let next = (now.as_nanos() / second).saturating_add(1).saturating_mul(second);
            stack.groups.not_before = Instant::from_nanos(next);
            return false;
        }
        report(stack, id, version);
    }
    true
}

/// Send one message of one port and IP version.
/// RFC 3376 4.2.13-a, RFC 3810 5.2.13-a.
fn report(stack: &mut Stack, id: u16, version: IpVersion) {
    let Some(groups) = stack.groups.ports.get_mut(&id) else { return };
    let Some(port) = stack.ports.get(id) else {
        stack.groups.ports.remove(&id);
        return;
    };
    let src = source(port, version);
    let room = port.limits.mtu.bytes().min(ROOM_MAX).saturating_sub(group::PACKET_HEADERS_MAX);
    let host = groups.host_mut(version);
    let Some(message) = host.next_message(src, room) else { return };
    let frame = group::packet(port.limits.link, port.mac, src, &message);
    let core = &mut stack.core;
    match frame.and_then(|frame| core.cx.pool.copy_of(&frame)) {
        Some(frame) => {
            core.cx.counters.add(Counter::GroupReportsOut, 1);
            pace::put(stack, id, frame);
        }
        None => core.drops.count(base::DropReason::MbufExhausted),
    }
}

/// Bytes of the largest report, headers included. Reports are never fragmented, whatever the MTU.
const ROOM_MAX: usize = 1_500;

/// The source address of messages: with IPv6 a link-local address, or `::` while there is none.
fn source(port: &Port, version: IpVersion) -> IpAddr {
    let usable = port.addresses.iter().filter(|address| address.is_usable());
    let mut ours = usable.map(inet::Address::ip);
    match version {
        IpVersion::V4 => {
            ours.find(IpAddr::is_ipv4).unwrap_or(core::net::Ipv4Addr::UNSPECIFIED.into())
        }
        IpVersion::V6 => {
            let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(a) if a.is_unicast_link_local());
            ours.find(link_local).unwrap_or(core::net::Ipv6Addr::UNSPECIFIED.into())
        }
    }
}

impl Stack {
    /// The joined groups that ports receive. All-nodes groups are not in the list, nor
    /// solicited-node groups on ports that do not report them.
    pub(crate) fn group_rows(&self) -> impl Iterator<Item = GroupRow> {
        let now = self.core.cx.now;
        self.groups.ports.iter().flat_map(move |(&id, on)| {
            on.v4.rows().chain(on.v6.rows()).map(move |row| GroupRow {
                port: PortId(id),
                group: row.group,
                sockets: self.groups.members.get(&(id, row.group)).map_or(0, Vec::len),
                is_solicited_node: on.nodes.contains(&row.group),
                protocol: protocol(on.host(row.group), row.group, now),
                report_in: (row.report_at != Instant::NEVER).then(|| row.report_at.since(now)),
                filter: row.filter,
            })
        })
    }
}

fn protocol(host: &Host, group: IpAddr, now: Instant) -> &'static str {
    use wire::group::Version::{V1, V2, V3};
    if !group::is_reported(group) {
        return "none";
    }
    match (group.is_ipv4(), host.speaks(now)) {
        (true, V1) => "igmpv1",
        (true, V2) => "igmpv2",
        (true, V3) => "igmpv3",
        (false, V1 | V2) => "mldv1",
        (false, V3) => "mldv2",
    }
}
