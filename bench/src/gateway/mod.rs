//! The rows of bench `gateway`: `wirespeed netns` beside pasta and slirp4netns of Debian sid, and
//! `wirespeed gateway` beside passt, in one run. Called by `main.rs`. `world` makes the network,
//! `peers` finds the peers, `machine` makes virtual machines, `contestant` runs a gateway with the
//! client of `load` behind it, `traffic` and `processes` count, `rows` and `life` are the rows,
//! `server` is the server. It needs root, for namespaces; the gateways run as an ordinary user.

mod contestant;
mod life;
pub mod load;
mod machine;
mod peers;
mod policies;
pub(crate) mod processes;
mod rows;
mod server;
mod traffic;
pub mod world;

use anyhow::{Result, anyhow};

use self::world::World;
use crate::harness::{Bench, Better, Spec, spec};

/// The network of this run, which is made once.
fn world(b: &Bench) -> Result<&World> {
    let make = || World::new(&b.programs, b.cores).map_err(|why| format!("{why:#}"));
    let made = b.learned.gateways.get_or_init(make);
    made.as_ref().map_err(|why| anyhow!("{why}"))
}

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "up, Gb per helper CPU-second, ours / pasta",
            Higher,
            1.5,
            2.5,
            "x",
            rows::up_against_pasta,
        ),
        spec(
            "down, Gb per helper CPU-second, ours / pasta",
            Higher,
            1.1,
            1.3,
            "x",
            rows::down_against_pasta,
        ),
        spec(
            "up and down, Gb per helper CPU-second, ours / slirp4netns, the lesser of the two \
             ratios",
            Higher,
            2.5,
            4.0,
            "x",
            rows::against_slirp,
        ),
        spec(
            "up, wall clock, ours / kernel direct",
            Higher,
            0.5,
            0.75,
            "x",
            rows::up_against_direct,
        ),
        spec(
            "both directions at once: smaller / larger",
            Higher,
            0.6,
            0.85,
            "x",
            rows::both_directions,
        ),
        spec(
            "4 flows down, Gb per helper CPU-second, ours / pasta",
            Higher,
            1.0,
            1.5,
            "x",
            rows::four_down_against_pasta,
        ),
        spec(
            "connections per helper CPU-second, 16 at once, ours / pasta",
            Higher,
            1.4,
            2.0,
            "x",
            rows::connections,
        ),
        spec(
            "UDP 64 bytes up, packets per helper CPU-second, ours / the best peer",
            Higher,
            1.0,
            1.5,
            "x",
            rows::small_datagrams_up,
        ),
        spec(
            "UDP 1400 bytes down, packets per helper CPU-second, ours / the best peer",
            Higher,
            1.5,
            3.0,
            "x",
            rows::datagrams_down,
        ),
        spec(
            "64-byte round trip, CPU us of the helper, ours / pasta",
            Lower,
            1.0,
            0.5,
            "x",
            rows::round_trips,
        ),
        spec("idle memory, MB (PSS)", Lower, 10.0, 6.0, "MB", life::idle_memory),
        spec("memory per 1,000 TCP flows, MB", Lower, 2.0, 1.0, "MB", life::memory_of_flows),
        spec("`netns -- true`, ms", Lower, 60.0, 25.0, "ms", life::start),
        spec(
            "with rate=100mbit,delay=20ms: goodput / the model's",
            Higher,
            0.93,
            0.96,
            "x",
            life::goodput,
        ),
        spec(
            "QEMU stream, MTU 65520 at both, up and down, Mb/s, ours / passt, the lesser of the \
             two ratios",
            Higher,
            0.8,
            1.1,
            "x",
            rows::against_passt,
        ),
        spec(
            "1,000 rules and 4,096 pins: connections a second / none",
            Higher,
            0.9,
            0.98,
            "x",
            rows::rules,
        ),
        spec("wake-ups a second of an idle gateway", Lower, 0.2, 0.0, "/s", life::idle_wakeups),
    ]
};
