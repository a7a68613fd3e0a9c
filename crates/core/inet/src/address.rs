//! An address of this host on one of its ports: its network, its state and its lifetimes.
//!
//! Called by: `stack/addresses.rs`, and `select.rs`, which selects an address as the source of a
//! packet. RFC 4862 sections 2 and 5.5.4 (the states and the lifetimes, used for IPv4 as well), RFC
//! 5227 (an IPv4 address is tentative too).

use core::fmt;
use core::net::IpAddr;

use base::{Cidr, Instant};

/// What an address may be used for, RFC 4862 section 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// Being checked for duplicates: only packets of the check use it.
    Tentative,
    /// The address may be used without restriction.
    Preferred,
    /// Valid, but new communication should use another address.
    Deprecated,
    /// Another host has the address: it is not used.
    Duplicated,
}

/// How an address came to be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Set by the user.
    Static,
    /// A lease of a DHCP server (RFC 2131, RFC 8415).
    Dhcp,
    /// Link-local, made by the stack (RFC 3927, RFC 4862 section 5.3).
    LinkLocal,
    /// From a router's prefix, stable on this network (RFC 7217).
    Stable,
    /// From a router's prefix, changed from time to time (RFC 8981).
    Temporary,
    /// A program at the port's mirror has it: a virtual router's (RFC 9568), while this router is
    /// the master.
    Program,
}

/// An address of this host on one of its ports ("an address of ours").
///
/// An address without and with the check that no other host has it:
/// ```
/// # mod wirespeed { pub use {base::*, wirespeed_inet::*}; }
/// use wirespeed::{Address, AddressState};
///
/// let address = Address::fixed("192.0.2.7/24".parse()?); // for `Stack::add_address`
/// assert!(address.is_usable(), "the address is not usable at once");
/// let checked = Address { state: AddressState::Tentative, ..address };
/// assert!(!checked.is_usable(), "not before the check has ended");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address with the length of its network's prefix.
    pub cidr: Cidr,
    /// What the address may be used for.
    pub state: AddressState,
    /// How the address came to be ours.
    pub origin: Origin,
    /// The address is deprecated from this time on; [`Instant::NEVER`]: never.
    pub preferred_until: Instant,
    /// The address is no longer ours from this time on; [`Instant::NEVER`]: it stays ours.
    pub valid_until: Instant,
}

impl Address {
    /// An address that the user sets: preferred at once, without end.
    pub fn fixed(cidr: Cidr) -> Address {
        Address {
            cidr,
            state: AddressState::Preferred,
            origin: Origin::Static,
            preferred_until: Instant::NEVER,
            valid_until: Instant::NEVER,
        }
    }

    /// The address itself.
    #[inline]
    pub fn ip(&self) -> IpAddr {
        self.cidr.addr
    }

    /// Does the address show that its network is on the link? An address made from a router's
    /// prefix does not: only the router announces which prefixes are on the link (RFC 5942 section
    /// 4).
    #[inline]
    pub fn implies_network(&self) -> bool {
        !matches!(self.origin, Origin::Stable | Origin::Temporary)
    }

    /// May the address be the source and the destination of packets?
    #[inline]
    pub fn is_usable(&self) -> bool {
        matches!(self.state, AddressState::Preferred | AddressState::Deprecated)
    }
}

impl AddressState {
    /// The name in output: the one that `ip address` prints, if it has one.
    pub const fn name(self) -> &'static str {
        match self {
            AddressState::Tentative => "tentative",
            AddressState::Preferred => "preferred",
            AddressState::Deprecated => "deprecated",
            AddressState::Duplicated => "dadfailed",
        }
    }
}

impl Origin {
    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Static => "static",
            Origin::Dhcp => "dhcp",
            Origin::LinkLocal => "link-local",
            Origin::Stable => "stable-privacy",
            Origin::Temporary => "temporary",
            Origin::Program => "program",
        }
    }
}

impl fmt::Display for AddressState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
