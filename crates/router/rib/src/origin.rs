//! Where routes come from, and who wins.
//!
//! Called by: `rib.rs`; the router's output names origins by [`Origin::name`].

/// Where a route comes from. Of the candidates of a prefix the one with the lowest distance is
/// used, then the one with the lowest metric, then the one whose origin comes first here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Origin {
    /// The network of an address of the router.
    Connected,
    /// The configuration file.
    File,
    /// A command, as `ip route add`.
    Command,
    /// FRR's zebra, by FPM. zebra has chosen among its protocols by their own distances.
    Fpm,
    /// The routes of the kernel of the control namespace, as BIRD writes them.
    Rtnetlink,
    /// A DHCP server.
    Dhcp,
    /// A router advertisement.
    Ra,
}

impl Origin {
    /// All of them, in order.
    pub const ALL: [Origin; 7] = [
        Origin::Connected,
        Origin::File,
        Origin::Command,
        Origin::Fpm,
        Origin::Rtnetlink,
        Origin::Dhcp,
        Origin::Ra,
    ];

    /// The administrative distance; the lower one wins.
    pub const fn distance(self) -> u8 {
        match self {
            Origin::Connected => 0,
            Origin::File | Origin::Command => 1,
            Origin::Fpm | Origin::Rtnetlink => 20,
            Origin::Dhcp => 210,
            Origin::Ra => 220,
        }
    }

    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Connected => "connected",
            Origin::File => "file",
            Origin::Command => "command",
            Origin::Fpm => "fpm",
            Origin::Rtnetlink => "rtnetlink",
            Origin::Dhcp => "dhcp",
            Origin::Ra => "ra",
        }
    }
}
