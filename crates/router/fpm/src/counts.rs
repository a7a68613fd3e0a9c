//! What was received, ignored and refused, by name.
//!
//! Called by: `session.rs` counts; the router's metrics and its log read.

/// An encapsulation that the forwarding plane does not have, by the names of `ip route`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Encapsulation {
    /// Labels of MPLS (`LWTUNNEL_ENCAP_MPLS`), or a route of labels.
    Mpls,
    /// IP in IPv4, as for VXLAN (`LWTUNNEL_ENCAP_IP`).
    Ip,
    /// Identifier-locator addressing.
    Ila,
    /// IP in IPv6, as for VXLAN (`LWTUNNEL_ENCAP_IP6`).
    Ip6,
    /// Segment routing over IPv6 (RFC 8754).
    Seg6,
    /// A program of BPF.
    Bpf,
    /// A local segment of SRv6 (RFC 8986).
    Seg6Local,
    /// RPL source routing (RFC 6554).
    Rpl,
    /// In-situ OAM (RFC 9486).
    Ioam6,
    /// IPsec.
    Xfrm,
    /// The VXLAN of FRR's own number (100), as SONiC uses it.
    Vxlan,
    /// A number that has no name here.
    Unknown,
}

impl Encapsulation {
    /// All of them, in order.
    pub const ALL: [Encapsulation; 12] = [
        Encapsulation::Mpls,
        Encapsulation::Ip,
        Encapsulation::Ila,
        Encapsulation::Ip6,
        Encapsulation::Seg6,
        Encapsulation::Bpf,
        Encapsulation::Seg6Local,
        Encapsulation::Rpl,
        Encapsulation::Ioam6,
        Encapsulation::Xfrm,
        Encapsulation::Vxlan,
        Encapsulation::Unknown,
    ];

    /// That of the kernel's number; `None` is no encapsulation.
    pub(crate) fn of(number: u16) -> Option<Encapsulation> {
        match number {
            0 => None,
            1..=10 => Some(Encapsulation::ALL[usize::from(number) - 1]),
            100 => Some(Encapsulation::Vxlan),
            _ => Some(Encapsulation::Unknown),
        }
    }

    /// The name, as `ip route` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Encapsulation::Mpls => "mpls",
            Encapsulation::Ip => "ip",
            Encapsulation::Ila => "ila",
            Encapsulation::Ip6 => "ip6",
            Encapsulation::Seg6 => "seg6",
            Encapsulation::Bpf => "bpf",
            Encapsulation::Seg6Local => "seg6local",
            Encapsulation::Rpl => "rpl",
            Encapsulation::Ioam6 => "ioam6",
            Encapsulation::Xfrm => "xfrm",
            Encapsulation::Vxlan => "vxlan",
            Encapsulation::Unknown => "unknown",
        }
    }
}

/// What is bounded. At a limit the message is refused and counted, and the session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Limit {
    /// Numbers of nexthops and groups.
    Nexthops,
    /// Members of one group, and next hops of one route.
    Members,
    /// Members of all groups.
    AllMembers,
}

impl Limit {
    /// All of them, in order.
    pub const ALL: [Limit; 3] = [Limit::Nexthops, Limit::Members, Limit::AllMembers];

    /// The most of it.
    pub const fn most(self) -> usize {
        match self {
            Limit::Nexthops => 65_536,
            Limit::Members => 256,
            Limit::AllMembers => 262_144,
        }
    }

    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Nexthops => "fpm_nexthops",
            Limit::Members => "fpm_members",
            Limit::AllMembers => "fpm_all_members",
        }
    }
}

/// Numbers since the program began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes.
    pub bytes: u64,
    /// Frames of FPM.
    pub frames: u64,
    /// Messages that add or change a route.
    pub new_routes: u64,
    /// Messages that delete a route.
    pub deleted_routes: u64,
    /// Messages that add or change a nexthop or a group.
    pub new_nexthops: u64,
    /// Messages that delete a nexthop or a group.
    pub deleted_nexthops: u64,
    /// Routes of the kernel and of connected networks, and local ones, which are ours to know.
    pub kernel_routes: u64,
    /// Messages of another kind, such as neighbours of EVPN.
    pub other_messages: u64,
    /// Routes of a type, a source prefix or a version that the forwarding plane does not have.
    pub unsupported_routes: u64,
    /// Routes and nexthops with an encapsulation, by [`Encapsulation`].
    pub encapsulated: [u64; Encapsulation::ALL.len()],
    /// Messages refused at a limit, by [`Limit`].
    pub limited: [u64; Limit::ALL.len()],
}

impl Counts {
    pub(crate) fn note_encapsulation(&mut self, which: Encapsulation) {
        self.encapsulated[which as usize] += 1;
    }

    pub(crate) fn note_limit(&mut self, which: Limit) {
        self.limited[which as usize] += 1;
    }
}
