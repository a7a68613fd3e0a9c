//! The rows of bench `frr`: `wirespeed up` with FRR and BIRD as its control plane, beside a kernel
//! with the same daemons. Called by `main.rs`. `space` makes network namespaces and starts programs
//! in them, `daemons` runs FRR and BIRD, `router` runs ours, `feed` makes prefixes, `scene`
//! networks, `monitor` watches a kernel's routes. `routes` and `stream` are rows, with `figures`;
//! so are `cuts`, of links between the routers of `cable` with the datagrams of `watch`, `pair`
//! with the flows of
//! `silence`, and `punting` with the frames of `load`. It needs root, for namespaces, and Debian's
//! packages frr, bird2 and keepalived.

mod cable;
mod cuts;
mod daemons;
mod feed;
mod figures;
mod load;
mod monitor;
mod pair;
mod punting;
mod router;
mod routes;
mod scene;
mod silence;
mod space;
mod stream;
mod watch;
pub mod world;

use anyhow::{Result, anyhow};

use self::world::World;
use crate::harness::{Bench, Better, Spec, spec};
use crate::measure::pin;

/// The programs and folders of this run, which are found once. The calling thread, and so each
/// program that it starts, gets all cores.
fn world(b: &Bench) -> Result<&World> {
    pin(&b.cores.both())?;
    let make = || World::new(&b.programs).map_err(|why| format!("{why:#}"));
    let made = b.learned.frr.get_or_init(make);
    made.as_ref().map_err(|why| anyhow!("{why}"))
}

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "100,000 routes replayed by zebra into our FIB, seconds / zebra's own time to send \
             them",
            Lower,
            3.0,
            1.5,
            "x",
            routes::replayed,
        ),
        spec(
            "100,000 BGP routes from BIRD through FRR, first to last in our FIB / the same into \
             the kernel",
            Lower,
            1.3,
            1.05,
            "x",
            routes::by_bgp,
        ),
        spec(
            "1,000,000 routes (IPv4 900,000, IPv6 100,000) from a recorded FPM stream, seconds",
            Lower,
            5.0,
            2.5,
            "s",
            stream::seconds,
        ),
        spec(
            "bytes of memory a route at a million, direct-index arrays apart",
            Lower,
            120.0,
            60.0,
            "bytes",
            stream::memory,
        ),
        spec(
            "longest pause of forwarding meanwhile, us of CPU time",
            Lower,
            100.0,
            20.0,
            "us",
            stream::pause,
        ),
        spec(
            "link cut silently with carrier up: ms to the last packet sent by the old route, OSPF \
             with BFD at 3 x 50 ms",
            Lower,
            300.0,
            180.0,
            "ms",
            cuts::silent,
        ),
        spec(
            "link cut to the route gone, connected port, ms",
            Lower,
            100.0,
            30.0,
            "ms",
            cuts::carrier,
        ),
        spec(
            "switch of the VRRP pair: longest silence of a flow with state, ms",
            Lower,
            1500.0,
            700.0,
            "ms",
            pair::switch,
        ),
        spec(
            "forwarding at ten times the punt limit / without",
            Higher,
            0.95,
            0.99,
            "x",
            punting::beyond_the_limit,
        ),
        spec(
            "64-byte forwarding with mirrors and FPM on / off",
            Higher,
            0.98,
            1.0,
            "x",
            punting::with_mirrors,
        ),
    ]
};
