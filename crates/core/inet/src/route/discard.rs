//! Routes that drop their packets: types `blackhole`, `unreachable` and `prohibit` of ip-route(8).
//!
//! Called by: `group.rs` keeps them, `lookup.rs` ends a lookup with them; programs make them by
//! [`Route::discarding`]. A longer prefix still leads somewhere. RFC 1812 section 5.2.7.1, RFC 4443
//! section 3.1.

use base::Cidr;

use super::rule::NoRoute;
use super::{NextHop, Route};

/// The port of a route that drops its packets: no port has this number.
pub const NO_PORT: u16 = u16::MAX - 1;

/// How a route drops its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Discard {
    /// In silence.
    Blackhole,
    /// The source of a forwarded packet gets an error that the host is unreachable.
    Unreachable,
    /// The source of a forwarded packet gets an error that the communication is prohibited.
    Prohibit,
}

impl Discard {
    /// All of them, by their names in `ip route` and in configuration files.
    pub const ALL: [(&'static str, Discard); 3] = [
        ("blackhole", Discard::Blackhole),
        ("unreachable", Discard::Unreachable),
        ("prohibit", Discard::Prohibit),
    ];

    /// The name, as in `ip route`.
    pub const fn name(self) -> &'static str {
        match self {
            Discard::Blackhole => "blackhole",
            Discard::Unreachable => "unreachable",
            Discard::Prohibit => "prohibit",
        }
    }

    /// The one with this name.
    pub fn of_name(name: &str) -> Option<Discard> {
        Discard::ALL.iter().find(|(known, _)| *known == name).map(|(_, discard)| *discard)
    }
}

impl From<Discard> for NoRoute {
    fn from(discard: Discard) -> NoRoute {
        match discard {
            Discard::Blackhole => NoRoute::Blackhole,
            Discard::Unreachable => NoRoute::Unreachable,
            Discard::Prohibit => NoRoute::Prohibit,
        }
    }
}

impl Route {
    /// A route of the main table that drops the packets to `dest`.
    pub fn discarding(dest: Cidr, how: Discard) -> Route {
        Route { discard: Some(how), ..Route::new(dest, None, NO_PORT) }
    }

    /// The next hop of a packet to `dst`, or why there is none.
    pub(super) fn leads(&self, dst: core::net::IpAddr) -> Result<NextHop, NoRoute> {
        self.discard.map_or_else(|| Ok(self.next_hop(dst)), |how| Err(how.into()))
    }
}
