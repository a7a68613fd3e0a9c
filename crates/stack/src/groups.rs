//! Multicast groups: which of them each port receives, and the IGMP and MLD messages that say so.
//!
//! Called by: `Stack::poll` when a message is due, `local.rs` for each packet to a group,
//! `addresses.rs` when addresses change. `membership.rs` is what sockets join, `input.rs` what
//! arrives, `output.rs` what sockets send to groups. The state machines are `inet::group`. RFC
//! 1112, RFC 3376, RFC 3810, RFC 4291 section 2.8. Limits: `groups_per_port`,
//! `memberships_per_socket`, `sources_per_group`, `group_reports_per_second`.

mod input;
mod membership;
mod output;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use base::{Counter, Duration, Instant, IpVersion, KeyedHash, Limit, LinkKind, PerSecond};
use inet::group::{self, Filter, Host};
use inet::nd::solicited_node;
use slotmap::SecondaryMap;

pub(crate) use input::{deliver, is_mld, message};
pub use membership::{GroupError, MulticastOptions, SourceChange};
pub(crate) use output::send;

use crate::port::Port;
use crate::socket::udp::UdpHandle;
use crate::{PortId, Stack, tx};

/// What all ports receive, and what all sockets have joined.
pub(crate) struct Groups {
    ports: BTreeMap<u16, PortGroups>,
    sockets: SecondaryMap<UdpHandle, membership::SocketGroups>,
    /// Who has joined a group on a port.
    members: BTreeMap<(u16, IpAddr), Vec<UdpHandle>>,
    /// Sockets that are bound to a group's address and a UDP port, which they share.
    bound: BTreeMap<(u16, IpAddr), Vec<UdpHandle>>,
    /// Who gets the datagram that is being delivered; empty in between.
    takers: Vec<UdpHandle>,
    secret: KeyedHash,
    /// Solicited-node groups are reported.
    reports_nodes: bool,
    reports: PerSecond,
    /// No message leaves before: the second's are used up.
    not_before: Instant,
    deadline: Instant,
}

struct PortGroups {
    v4: Host,
    v6: Host,
    /// The solicited-node groups of its addresses, those that are reported.
    nodes: BTreeSet<IpAddr>,
}

impl PortGroups {
    fn host(&self, group: IpAddr) -> &Host {
        if group.is_ipv4() { &self.v4 } else { &self.v6 }
    }

    fn host_mut(&mut self, version: IpVersion) -> &mut Host {
        if version == IpVersion::V4 { &mut self.v4 } else { &mut self.v6 }
    }

    fn next_deadline(&self) -> Instant {
        self.v4.next_deadline().min(self.v6.next_deadline())
    }
}

impl Groups {
    pub(crate) fn new(secret: KeyedHash, reports_nodes: bool) -> Groups {
        Groups {
            ports: BTreeMap::new(),
            sockets: SecondaryMap::new(),
            members: BTreeMap::new(),
            bound: BTreeMap::new(),
            takers: Vec::new(),
            secret,
            reports_nodes,
            reports: PerSecond::default(),
            not_before: Instant::ZERO,
            deadline: Instant::NEVER,
        }
    }

    /// When [`expire`] has something to do.
    #[inline(always)]
    pub(crate) fn next_deadline(&self) -> Instant {
        // NEVER is later than any time to wait for.
        self.deadline.max(self.not_before)
    }

    fn look_ahead(&mut self) {
        let first = self.ports.values().map(PortGroups::next_deadline).min();
        self.deadline = first.unwrap_or(Instant::NEVER);
    }

    fn port_mut(&mut self, id: u16) -> &mut PortGroups {
        let secret = self.secret;
        self.ports.entry(id).or_insert_with(|| {
            let salt = u64::from(id) << 1;
            PortGroups {
                v4: Host::new(IpVersion::V4, secret, salt),
                v6: Host::new(IpVersion::V6, secret, salt | 1),
                nodes: BTreeSet::new(),
            }
        })
    }

    /// Does a port receive what is sent to this group?
    /// RFC 1112 7.2-b.
    pub(crate) fn are_received(&self, port: &Port, group: IpAddr) -> bool {
        group::is_all_nodes(group)
            || self.ports.get(&port.id.0).is_some_and(|p| p.host(group).filter(group).is_some())
            || nodes_of(port).any(|node| node == group)
    }

    /// Has a socket joined the group on this port?
    fn is_joined(&self, port: u16, group: IpAddr) -> bool {
        self.members.contains_key(&(port, group))
    }

    /// What all who want packets of a group say, of a port of which no more than `most` sources are
    /// to be named.
    fn merged(&self, port: u16, group: IpAddr, most: usize) -> Filter {
        let is_node = self.ports.get(&port).is_some_and(|p| p.nodes.contains(&group));
        let members = self.members.get(&(port, group)).into_iter().flatten();
        let theirs = members.filter_map(|&handle| self.sockets.get(handle)?.filter(port, group));
        let merged = Filter::merged(theirs.chain(is_node.then_some(&Filter::ANYTHING)));
        if merged.sources.len() > most { Filter::ANYTHING } else { merged }
    }

    /// The members of a group have changed: the port is to receive what they want now.
    fn refresh(&mut self, port: u16, group: IpAddr, most: usize, now: Instant) {
        let merged = self.merged(port, group, most);
        let version = IpVersion::of(&group);
        self.port_mut(port).host_mut(version).set(group, merged, now);
        self.look_ahead();
    }

    /// A port is gone; who had joined groups there has not any more.
    pub(crate) fn forget_port(&mut self, port: u16) {
        self.ports.remove(&port);
        self.members.retain(|&(on, _), _| on != port);
        self.sockets.values_mut().for_each(|socket| socket.forget_port(port));
        self.look_ahead();
    }
}

/// The solicited-node groups of a port's addresses, of those too that are still tentative: who
/// detects a duplicate has to hear of it (RFC 4862 section 5.4.2).
fn nodes_of(port: &Port) -> impl Iterator<Item = IpAddr> {
    let has_nodes = port.limits.link == LinkKind::Ethernet;
    let addresses = port.addresses.iter().filter(move |_| has_nodes);
    addresses.filter_map(|address| match address.ip() {
        IpAddr::V6(a) => Some(IpAddr::V6(solicited_node(a))),
        IpAddr::V4(_) => None,
    })
}

/// The addresses of a port have changed, and with them its solicited-node groups.
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

/// A port has another device: the routers of its link are to hear of its groups.
#[cold]
pub(crate) fn rejoin(stack: &mut Stack, id: PortId) {
    let Some(groups) = stack.groups.ports.get_mut(&id.0) else { return };
    groups.v4.rejoin(stack.core.cx.now);
    groups.v6.rejoin(stack.core.cx.now);
    stack.groups.look_ahead();
    stack.rare_timers.note(stack.groups.next_deadline());
}

/// Send the messages that are due, as many as a second may have.
#[cold]
pub(crate) fn expire(stack: &mut Stack) {
    let ids: Vec<u16> = stack.groups.ports.keys().copied().collect();
    let both = |id| [(id, IpVersion::V4), (id, IpVersion::V6)];
    // Beyond the limit all wait for the next second.
    let _ = ids.into_iter().flat_map(both).all(|(id, version)| reports(stack, id, version));
    stack.groups.look_ahead();
}

/// Those of one port and version; `false` at the limit.
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

/// Send one message.
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
            tx::put(stack, id, frame);
        }
        None => core.drops.count(base::DropReason::MbufExhausted),
    }
}

/// Bytes of the largest report, headers included: no fragments, whatever the MTU.
const ROOM_MAX: usize = 1_500;

/// The source of messages: link-local over IPv6; unspecified while there is none.
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

/// A group that a port receives, as it is shown.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// The port.
    pub port: PortId,
    /// The group, and the sources that are taken.
    pub group: IpAddr,
    /// The sources that are taken, of all sockets together.
    pub filter: Filter,
    /// Sockets that have joined it.
    pub sockets: usize,
    /// It belongs to one of our addresses.
    pub is_solicited_node: bool,
    /// The protocol by which routers hear of it, in the version that they speak.
    pub protocol: &'static str,
    /// Until the next message about it; `None` if none is to be sent.
    pub report_in: Option<Duration>,
}

impl Stack {
    /// The groups that ports receive, of those that are joined; all nodes and, on ports that do
    /// not report them, solicited nodes are not listed.
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
