//! Multicast groups: which groups each port receives, and which sockets have joined them.
//!
//! Called by: `for_us.rs` for each packet to a group, and the other files of this folder.
//! `reports.rs` sends the messages that are due, `membership.rs` has the calls by which sockets
//! join, `input.rs` handles received packets, `output.rs` sends the datagrams of sockets to groups.
//! The state machines are `inet::group`. RFC 1112, RFC 3376, RFC 3810, RFC 4291 section 2.8.
//! Limits: `groups_per_port`, `memberships_per_socket`, `sources_per_group`,
//! `group_reports_per_second`.

mod input;
mod membership;
mod output;
mod reports;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use base::{Duration, Instant, IpVersion, KeyedHash, LinkKind, PerSecond};
use inet::group::{self, Filter, Host};
use inet::nd::solicited_node;
use slotmap::SecondaryMap;

pub(crate) use input::{are_taken, deliver, is_mld, message};
pub use membership::{GroupError, SourceChange};
pub(crate) use output::send;
pub(crate) use reports::{addresses_changed, expire, rejoin};

use crate::handles::{PortId, UdpHandle};
use crate::port::Port;

/// The groups that all ports receive, and that all sockets have joined.
pub(crate) struct Groups {
    ports: BTreeMap<u16, PortGroups>,
    sockets: SecondaryMap<UdpHandle, SocketGroups>,
    /// The sockets that have joined a group on a port.
    members: BTreeMap<(u16, IpAddr), Vec<UdpHandle>>,
    /// Sockets that are bound to a group's address and a UDP port, which they share.
    bound: BTreeMap<(u16, IpAddr), Vec<UdpHandle>>,
    /// The sockets that get the datagram that is being delivered; empty when none is.
    takers: Vec<UdpHandle>,
    secret: KeyedHash,
    /// Solicited-node groups are reported.
    reports_nodes: bool,
    reports: PerSecond,
    /// No message leaves before this time: as many as the limit allows have left in the current
    /// second.
    not_before: Instant,
    deadline: Instant,
}

struct PortGroups {
    v4: Host,
    v6: Host,
    /// The solicited-node groups of the port's addresses that are reported by MLD.
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

    /// Is any socket bound to a group's address at this UDP port?
    pub(crate) fn has_port(&self, udp_port: u16) -> bool {
        let lowest = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
        let first = self.bound.range((udp_port, lowest)..).next();
        first.is_some_and(|(&(port, _), _)| port == udp_port)
    }

    /// Note that a socket is bound to a group's address. It shares the address and the UDP port
    /// with others.
    pub(crate) fn bind(&mut self, handle: UdpHandle, group: IpAddr, udp_port: u16) {
        self.bound.entry((udp_port, group)).or_default().push(handle);
    }

    /// When `reports::expire` has something to do.
    #[inline(always)]
    pub(crate) fn next_deadline(&self) -> Instant {
        // NEVER is later than any `not_before`.
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

    /// Does a port receive packets to this group?
    /// RFC 1112 7.2-b.
    pub(crate) fn are_received(&self, port: &Port, group: IpAddr) -> bool {
        group::is_all_nodes(group)
            || self.ports.get(&port.id.0).is_some_and(|p| p.host(group).filter(group).is_some())
            || nodes_of(port).any(|node| node == group)
    }

    /// How a socket sends to groups; the defaults if it is closed.
    fn options(&self, handle: UdpHandle) -> MulticastOptions {
        self.sockets.get(handle).map(|socket| socket.options).unwrap_or_default()
    }

    /// Has a socket joined the group on this port?
    fn is_joined(&self, port: u16, group: IpAddr) -> bool {
        self.members.contains_key(&(port, group))
    }

    /// The merged filters of all sockets that joined a group on a port. If it would list more than
    /// `most` sources, it admits all.
    fn merged(&self, port: u16, group: IpAddr, most: usize) -> Filter {
        let is_node = self.ports.get(&port).is_some_and(|p| p.nodes.contains(&group));
        let members = self.members.get(&(port, group)).into_iter().flatten();
        let theirs = members.filter_map(|&handle| self.sockets.get(handle)?.filter(port, group));
        let merged = Filter::merged(theirs.chain(is_node.then_some(&Filter::ANYTHING)));
        if merged.sources.len() > most { Filter::ANYTHING } else { merged }
    }

    /// The members of a group, or their filters, have changed: set what the port receives.
    fn refresh(&mut self, port: u16, group: IpAddr, most: usize, now: Instant) {
        let merged = self.merged(port, group, most);
        let version = IpVersion::of(&group);
        self.port_mut(port).host_mut(version).set(group, merged, now);
        self.look_ahead();
    }

    /// A port was removed: end all memberships on it.
    pub(crate) fn forget_port(&mut self, port: u16) {
        self.ports.remove(&port);
        self.members.retain(|&(on, _), _| on != port);
        self.sockets.values_mut().for_each(|socket| socket.forget_port(port));
        self.look_ahead();
    }
}

/// How a socket sends to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastOptions {
    /// TTL or hop limit (IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS); with 0 nothing leaves the host.
    pub hops: u8,
    /// Whether sockets of this host that have joined get a copy (IP_MULTICAST_LOOP), the sender
    /// included.
    pub loops: bool,
    /// The port to send by (IP_MULTICAST_IF); `None`: by the scope identifier, the bound address,
    /// the routes, or the only port.
    pub port: Option<PortId>,
}

impl Default for MulticastOptions {
    /// RFC 1112 6.1-a, RFC 1112 6.1-b: one hop, and copies for this host.
    fn default() -> MulticastOptions {
        MulticastOptions { hops: 1, loops: true, port: None }
    }
}

/// The memberships and the multicast options of a socket.
#[derive(Default)]
struct SocketGroups {
    joined: Vec<Membership>,
    options: MulticastOptions,
}

struct Membership {
    port: u16,
    group: IpAddr,
    filter: Filter,
}

impl SocketGroups {
    fn filter(&self, port: u16, group: IpAddr) -> Option<&Filter> {
        let found = self.joined.iter().find(|m| m.group == group && m.port == port)?;
        Some(&found.filter)
    }

    fn forget_port(&mut self, port: u16) {
        self.joined.retain(|membership| membership.port != port);
    }

    /// Set the filter of a membership. A filter that admits nothing ends the membership.
    fn set(&mut self, port: u16, group: IpAddr, filter: Filter) {
        let at = self.joined.iter().position(|m| m.group == group && m.port == port);
        match at {
            Some(at) if filter.is_nothing() => {
                self.joined.swap_remove(at);
            }
            Some(at) => self.joined[at].filter = filter,
            None if filter.is_nothing() => {}
            None => self.joined.push(Membership { port, group, filter }),
        }
    }
}

/// The solicited-node groups of a port's addresses. Tentative addresses are included: duplicate
/// address detection needs the messages to the group (RFC 4862 section 5.4.2).
fn nodes_of(port: &Port) -> impl Iterator<Item = IpAddr> {
    let has_nodes = port.limits.link == LinkKind::Ethernet;
    let addresses = port.addresses.iter().filter(move |_| has_nodes);
    addresses.filter_map(|address| match address.ip() {
        IpAddr::V6(a) => Some(IpAddr::V6(solicited_node(a))),
        IpAddr::V4(_) => None,
    })
}

/// A group that a port receives, for output.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// The port.
    pub port: PortId,
    /// The group.
    pub group: IpAddr,
    /// The sources whose packets are accepted, for all sockets together.
    pub filter: Filter,
    /// Number of sockets that have joined the group.
    pub sockets: usize,
    /// The group is the solicited-node group of one of our addresses.
    pub is_solicited_node: bool,
    /// The protocol by which the group is reported to routers, in the version that they speak.
    pub protocol: &'static str,
    /// The time until the next message about the group; `None` if none is to be sent.
    pub report_in: Option<Duration>,
}
