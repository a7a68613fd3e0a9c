//! A border router: BIRD as its provider sends 100,000 routes by BGP, and withdraws them.
//!
//! Called by: `mod.rs`. The same routes go to a kernel with the same daemons. RFC 4271.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::super::Workbench;
use super::super::host::Running;
use super::super::ip::until;
use super::super::router::scene::LIMIT;
use super::network::{End, Kind, Network, Plan, Site, site};
use super::tables;

const ROUTES: u32 = 100_000;
/// The time within which all of them have come, or gone.
const PATIENCE: Duration = Duration::from_secs(120);

const BORDER: Plan = Plan {
    sites: &[site!("border", "router", &["bgpd"])],
    ends: &[
        End { name: "provider", addresses: &["192.0.2.1/30"], gateways: &[] },
        End { name: "h1", addresses: &["10.1.0.9/24"], gateways: &["10.1.0.1"] },
    ],
    cables: &[[("router", "wan"), ("provider", "eth0")], [("router", "lan"), ("h1", "eth0")]],
};

/// The provider's BIRD: its configuration, and where it is asked.
struct Provider<'a> {
    bench: &'a Workbench,
    _bird: Running,
}

impl<'a> Provider<'a> {
    fn start(bench: &'a Workbench, network: &Network<'_>) -> Result<Provider<'a>> {
        let mut config = "router id 192.0.2.1;\nprotocol device {}\n\
                          protocol bgp up {\n local 192.0.2.1 as 65020;\n \
                          neighbor 192.0.2.2 as 65010;\n connect delay time 1;\n \
                          ipv4 { import all; export all; next hop self; };\n}\n\
                          protocol static feed {\n ipv4;\n"
            .to_owned();
        for n in 0..ROUTES {
            let [_, a, b, c] = (n + (20 << 16)).to_be_bytes();
            writeln!(config, " route {a}.{b}.{c}.0/24 blackhole;")?;
        }
        config += "}\n";
        let file = bench.path("bird.conf");
        std::fs::write(&file, config)?;
        // Nobody listens at the socket of the case before.
        let _ = std::fs::remove_file(bench.path("bird.ctl"));
        let mut bird = network.command("provider", "bird")?;
        bird.arg("-f").arg("-c").arg(file).arg("-s").arg(bench.path("bird.ctl"));
        bird.arg("-P").arg(bench.path("bird.pid"));
        Ok(Provider { bench, _bird: network.place("provider")?.start("bird", &mut bird)? })
    }

    fn ask(&self, network: &Network<'_>, words: &[&str]) -> Result<String> {
        let mut birdc = network.command("provider", "birdc")?;
        birdc.arg("-s").arg(self.bench.path("bird.ctl")).args(words);
        self.bench.run(&mut birdc, LIMIT)
    }
}

/// Wait until a router has so many routes by its daemons; returns how long that took.
fn counted(network: &Network<'_>, count: usize) -> Result<Duration> {
    let (begun, mut last) = (Instant::now(), 0);
    let there = || {
        last = network.table("router")?.len();
        Ok(last == count)
    };
    until(&format!("{count} routes"), PATIENCE, there)
        .with_context(|| format!("{last} at last"))?;
    Ok(begun.elapsed())
}

pub(super) fn routes(bench: &Workbench) -> Result<()> {
    let mut both = Vec::new();
    for kind in [Kind::Kernel, Kind::Ours] {
        let network = Network::new(bench, &BORDER, kind)?;
        let provider = Provider::start(bench, &network)?;
        let came = counted(&network, ROUTES as usize)?;
        both.push(network.table("router")?);
        provider.ask(&network, &["disable", "feed"])?;
        let gone = counted(&network, 0)?;
        println!(
            "  {kind:?}: {ROUTES} routes in {:.1} s, withdrawn in {:.1} s",
            came.as_secs_f64(),
            gone.as_secs_f64()
        );
    }
    let [theirs, ours] = &both[..] else { return Ok(()) };
    ensure!(ours.len() == ROUTES as usize, "{} routes", ours.len());
    tables::same(ours, theirs)
}
