//! What `show` says of daemons' routes.
//!
//! Called by: the worker's answers (`daemon/beside.rs`).

use base::Cidr;
use control::protocol::{DaemonRoute, RouteSource};
use fpm::{Encapsulation, Limit};
use rib::Dest;

use super::Feed;

impl Feed {
    /// What is known of a daemon's route.
    pub(crate) fn daemon_route(&self, dest: Cidr, table: u32) -> Option<DaemonRoute> {
        let mut all = self.rib.candidates(Dest { table, prefix: dest });
        let known = all.find(|known| known.next.is_some())?;
        Some(DaemonRoute {
            protocol: protocol(known.protocol),
            age_s: self.now_s.saturating_sub(known.since_s).into(),
            stale: known.is_stale,
        })
    }

    /// zebra, and the kernel if it is asked.
    pub(crate) fn sources(&self) -> Vec<RouteSource> {
        let figures = self.figures();
        let pending = figures.pending as u64;
        let zebra = RouteSource {
            source: "fpm".to_owned(),
            peer: self.session.as_ref().map(|session| session.from.to_string()),
            routes: figures.routes as u64,
            nexthops: figures.nexthops as u64,
            pending,
            refused: refused(&figures.counts, figures.unknown_interfaces),
        };
        let kernel = figures.kernel.map(|_| RouteSource {
            source: "rtnetlink".to_owned(),
            routes: figures.kernel_routes as u64,
            pending,
            ..RouteSource::default()
        });
        [Some(zebra), kernel].into_iter().flatten().collect()
    }
}

/// The reasons that have occurred, by the names that metrics give them.
fn refused(counts: &fpm::Counts, unknown_interfaces: u64) -> Vec<String> {
    let encapsulated = Encapsulation::ALL
        .map(|which| (format!("encap_{}", which.name()), counts.encapsulated[which as usize]));
    let limited = Limit::ALL.map(|which| (which.name().to_owned(), counts.limited[which as usize]));
    let others = [
        ("unsupported".to_owned(), counts.unsupported_routes),
        ("unknown_interface".to_owned(), unknown_interfaces),
    ];
    let all = others.into_iter().chain(encapsulated).chain(limited);
    all.filter(|(_, count)| *count > 0).map(|(why, count)| format!("{why} {count}")).collect()
}

/// The name of a routing protocol by its number in the kernel: those of ip-route(8), and of FRR's
/// own file for it.
fn protocol(number: u8) -> String {
    let named = match number {
        4 | 196 => "static",
        11 => "zebra",
        12 => "bird",
        18 => "keepalived",
        42 => "babel",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        189 => "rip",
        190 => "ripng",
        191 => "nhrp",
        192 => "eigrp",
        193 => "ldp",
        194 => "sharp",
        195 => "pbr",
        197 => "openfabric",
        198 => "srte",
        other => return other.to_string(),
    };
    named.to_owned()
}
