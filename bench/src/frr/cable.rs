//! Two routers with two cables between them, and a host behind each. Each cable passes a namespace
//! in the middle, where `m1a` and `m1b` are the ends of the first one, so that it can be cut while
//! both routers keep their carrier, and so that datagrams on it are seen. Called by `cuts.rs`.
//!
//! The first router is `wirespeed up`, or a kernel with the same daemons; the second one is always
//! a kernel.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::net::if_::if_nametoindex;

use super::daemons::{Frr, MODULE};
use super::router::Router;
use super::space::{End, Running, Space, until};
use super::watch::{Flow, PORT, Seen, Watch};
use super::world::World;

/// What the first router is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `wirespeed up`; the daemons are in a namespace of mirrors.
    Ours,
    /// The kernel; the daemons are in its namespace.
    Kernel,
}

/// Which routes the routers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routing {
    /// OSPF and BFD, by the files of `examples/frr/ospf`.
    Ospf,
    /// The networks of the ports, and by the second cable a route to a larger network with that of
    /// the first cable in it.
    Connected,
}

/// The daemons of `examples/frr/ospf`, zebra apart.
const DAEMONS: [&str; 3] = ["bfdd", "ospfd", "ospf6d"];
const OURS: &str = include_str!("../../../examples/frr/ospf/r1.toml");
const FRR: [&str; 2] = [
    include_str!("../../../examples/frr/ospf/r1.conf"),
    include_str!("../../../examples/frr/ospf/r2.conf"),
];
/// Without daemons: the same ports, and the route.
const CONNECTED: &str = r#"
[[port]]
name = "cable1"
device = "packet:cable1"
addresses = ["192.0.2.1/30"]
[[port]]
name = "cable2"
device = "packet:cable2"
addresses = ["192.0.2.5/30"]
[[port]]
name = "lan"
device = "packet:lan"
addresses = ["10.1.0.1/24"]
[[route]]
to = "192.0.2.0/24"
via = "192.0.2.6"
"#;

/// A port and its addresses.
type Port = (&'static str, &'static [&'static str]);
/// Those of both routers.
const PORTS: [[Port; 3]; 2] = [
    [
        ("cable1", &["192.0.2.1/30", "2001:db8:a::1/64"]),
        ("cable2", &["192.0.2.5/30", "2001:db8:b::1/64"]),
        ("lan", &["10.1.0.1/24", "2001:db8:1::1/64"]),
    ],
    [
        ("cable1", &["192.0.2.2/30", "2001:db8:a::2/64"]),
        ("cable2", &["192.0.2.6/30", "2001:db8:b::2/64"]),
        ("lan", &["10.2.0.1/24", "2001:db8:2::1/64"]),
    ],
];

/// How long neighbours may take to find each other.
const FULL: Duration = Duration::from_secs(90);
/// How long a network rests before a cut: OSPF makes an LSA anew each 5 s at most (RFC 2328
/// appendix B, `MinLSInterval`), and a network that has just changed would wait for that.
const REST: Duration = Duration::from_millis(5_500);
/// How long the flow may be without a way after a cut.
const SWITCHED: Duration = Duration::from_secs(20);
/// The time between two looks at daemons.
const LOOK: Duration = Duration::from_millis(200);

/// The namespaces of a network.
pub(super) struct Ground {
    pub(super) middle: Space,
    r1: Space,
    r2: Space,
    h1: Space,
    _h2: Space,
    /// For our router's daemons.
    control: Space,
}

impl Ground {
    /// Namespaces, and the cables between them.
    ///
    /// # Errors
    /// Without root or iproute2.
    pub(super) fn new() -> Result<Ground> {
        let [middle, r1, r2] = [Space::new("middle")?, Space::new("r1")?, Space::new("r2")?];
        let [h1, h2, control] = [Space::new("h1")?, Space::new("h2")?, Space::new("control")?];
        for n in [1, 2] {
            let (port, bridge) = (format!("cable{n}"), format!("br{n}"));
            let (near, far) = (format!("m{n}a"), format!("m{n}b"));
            Space::join((&middle, &near, 0), (&r1, &port))?;
            Space::join((&middle, &far, 0), (&r2, &port))?;
            middle.ip(&format!("link add {bridge} type bridge"))?;
            for end in [near, far] {
                middle.ip(&format!("link set {end} master {bridge}"))?;
            }
            middle.ip(&format!("link set {bridge} up"))?;
        }
        for (n, router, host) in [(1, &r1, &h1), (2, &r2, &h2)] {
            Space::join((router, "lan", 0), (host, "eth0"))?;
            host.ip(&format!("addr add 10.{n}.0.9/24 dev eth0"))?;
            host.ip(&format!("route add default via 10.{n}.0.1"))?;
        }
        Ok(Ground { middle, r1, r2, h1, _h2: h2, control })
    }
}

/// A network that runs.
pub(super) struct Network<'a> {
    pub(super) kind: Kind,
    pub(super) ground: &'a Ground,
    flow: Flow,
    watch: Watch,
    /// Both routers' daemons.
    frr: Vec<Frr<'a>>,
    _router: Option<Router<'a>>,
    /// The ends of the first cable in the middle, and the near end of the second.
    ends: [u32; 3],
    /// What the kernel of the first router says of links, with times.
    links: PathBuf,
    _monitor: Running,
}

impl<'a> Network<'a> {
    /// Starts all programs, and the flow.
    ///
    /// # Errors
    /// A program does not start.
    pub(super) fn new(
        world: &World,
        (kind, routing): (Kind, Routing),
        ground: &'a Ground,
    ) -> Result<Network<'a>> {
        let name = |what: &str| format!("{kind:?}-{routing:?}-{what}");
        kernel(&ground.r2, &PORTS[1])?;
        let router = match kind {
            Kind::Ours => Some(ours(world, routing, ground, &name("up"))?),
            Kind::Kernel => {
                kernel(&ground.r1, &PORTS[0])?;
                None
            }
        };
        let mut frr = Vec::new();
        let to = match routing {
            Routing::Ospf => {
                let (at, words) = match kind {
                    Kind::Ours => (&ground.control, &MODULE[..]),
                    Kind::Kernel => (&ground.r1, &[][..]),
                };
                frr.push(daemons(Frr::new(world, at, &name("frr1"))?, FRR[0], words)?);
                frr.push(daemons(Frr::new(world, &ground.r2, &name("frr2"))?, FRR[1], &[])?);
                [10, 2, 0, 9]
            }
            Routing::Connected => {
                if kind == Kind::Kernel {
                    // Without this a kernel goes on with routes whose link has no carrier.
                    for of in ["all", "cable1"] {
                        let setting = format!("ipv4/conf/{of}/ignore_routes_with_linkdown");
                        ground.r1.set(&setting, "1")?;
                    }
                    ground.r1.ip("route add 192.0.2.0/24 via 192.0.2.6")?;
                }
                [192, 0, 2, 2]
            }
        };
        let ends = ground.middle.within(|| {
            let index = |name| if_nametoindex(name).with_context(|| format!("no {name}"));
            Ok([index("m1a")?, index("m1b")?, index("m2a")?])
        })?;
        let links = world.path(name("links"));
        let mut monitor = ground.r1.command("ip");
        monitor.args(["-o", "-ts", "monitor", "link", "dev", "cable1"]).env("TZ", "UTC");
        let _monitor = Running::start(&mut monitor, &links, End::Killed)?;
        let watch = Watch::at(&ground.middle)?;
        let flow = Flow::begin(&ground.h1, SocketAddr::from((to, PORT)))?;
        Ok(Network { kind, ground, flow, watch, frr, _router: router, ends, links, _monitor })
    }

    /// Waits until the flow uses the first cable, all neighbours have found each other, and nothing
    /// has changed for a while.
    ///
    /// # Errors
    /// That does not come about; the error has what the daemons say.
    pub(super) fn settle(&self) -> Result<()> {
        let says = |command: &str| match self.frr.first() {
            Some(frr) => frr.vtysh(&[command]).unwrap_or_default(),
            None => String::new(),
        };
        let (neighbours, peers) = ("show ip ospf neighbor", "show bfd peers");
        // BFD watches both versions of IP by both cables.
        let are_full = || {
            self.frr.is_empty()
                || (says(neighbours).matches("Full/").count() == 2
                    && says(peers).matches("Status: up").count() == 4)
        };
        let rest = if self.frr.is_empty() { Duration::ZERO } else { REST };
        let is_settled = || {
            let is_first = are_full() && self.uses_first();
            if is_first {
                std::thread::sleep(rest);
            }
            Ok(is_first && are_full() && self.uses_first())
        };
        until("the network settles", FULL, LOOK, is_settled)
            .with_context(|| format!("{:?}: {}{}", self.kind, says(neighbours), says(peers)))
    }

    /// Does the flow arrive by the first cable?
    fn uses_first(&self) -> bool {
        self.watch.take();
        std::thread::sleep(Duration::from_millis(100));
        let seen = self.watch.take();
        seen.iter().filter(|seen| seen.interface == self.ends[1]).count() > 50
    }

    /// What happens to the flow when the first cable is cut by this command of `ip`.
    ///
    /// # Errors
    /// The flow does not use the first cable before, or not the second one afterwards.
    pub(super) fn cut(&self, cut: &str) -> Result<Switch> {
        ensure!(self.uses_first(), "the flow does not use the first cable before the cut");
        std::thread::sleep(Duration::from_millis(20));
        self.ground.middle.ip(cut)?;
        let (mut seen, mut switch) = (Vec::new(), None);
        let has_switched = || {
            seen.extend(self.watch.take());
            let before = std::mem::replace(&mut switch, Switch::of(&seen, self.ends));
            // Once more, for datagrams that still use the first cable.
            Ok(before.is_some())
        };
        let what = format!("{}: the flow uses the second cable", self.name());
        until(&what, SWITCHED, LOOK, has_switched)?;
        ensure!(self.flow.is_alive(), "the flow has ended");
        switch.context(what)
    }

    /// When the kernel of the first router said that the link of the first cable is down, in ms
    /// after a cut; `None` if it has not.
    pub(super) fn announced_ms(&self, switch: &Switch) -> Option<f64> {
        let log = std::fs::read_to_string(&self.links).unwrap_or_default();
        announced(&log, switch.cut_ns)
    }

    /// Its name in notes.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Ours => "ours",
            Kind::Kernel => "kernel",
        }
    }
}

/// Our router.
fn ours<'a>(world: &World, routing: Routing, ground: &'a Ground, name: &str) -> Result<Router<'a>> {
    for (port, _) in PORTS[0] {
        ground.r1.leave_to_router(port)?;
    }
    let control = format!("\"{}\"", ground.control.name());
    let config = match routing {
        Routing::Ospf => OURS.replace("\"control\"", &control),
        Routing::Connected => CONNECTED.to_owned(),
    };
    Router::start(world, &ground.r1, name, &config)
}

/// zebra with these words, and the daemons of the example, with a configuration for all. A zebra
/// without FPM does not know the lines about it.
fn daemons<'a>(mut frr: Frr<'a>, config: &str, words: &[&str]) -> Result<Frr<'a>> {
    frr.start("zebra", "", words)?;
    for daemon in DAEMONS {
        frr.start(daemon, "", &[])?;
    }
    let lines = config.lines().filter(|line| !words.is_empty() || !line.starts_with("fpm "));
    frr.read(&lines.collect::<Vec<_>>().join("\n"))?;
    Ok(frr)
}

/// A kernel that routes between its ports.
fn kernel(space: &Space, ports: &[Port]) -> Result<()> {
    let settings = [
        ("ipv4/ip_forward", "1"),
        ("ipv6/conf/all/forwarding", "1"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv6/conf/all/keep_addr_on_down", "1"),
    ];
    for (setting, value) in settings {
        space.set(setting, value)?;
    }
    for (port, addresses) in ports {
        space.set(&format!("ipv4/conf/{port}/rp_filter"), "0")?;
        for address in *addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            space.ip(&format!("addr add {address} dev {port}{nodad}"))?;
        }
    }
    Ok(())
}

/// How the flow went from the first cable to the second, in ms of the capture's times. The cut is
/// the last datagram that passed the first cable, which is up to one interval before the cut
/// itself, so that no figure is too small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Switch {
    /// When the cut was, by the system's clock in nanoseconds.
    pub(super) cut_ns: u64,
    /// From the cut to the last datagram that the router sent into the first cable.
    pub(super) last_old_ms: f64,
    /// From the cut to the first datagram that it sent into the second one.
    pub(super) first_new_ms: f64,
}

impl Switch {
    /// Of the near and far end of the first cable, and the near end of the second; `None` if no
    /// datagram took the first cable before, or the second one later.
    fn of(seen: &[Seen], [near, far, other]: [u32; 3]) -> Option<Switch> {
        let at = |interface| seen.iter().filter(move |seen| seen.interface == interface);
        let cut = at(far).next_back()?;
        let last = at(near).next_back()?;
        let first = at(other).find(|seen| seen.number > cut.number)?;
        let ms = |seen: &Seen| seen.at_ns.saturating_sub(cut.at_ns) as f64 * 1e-6;
        Some(Switch { cut_ns: cut.at_ns, last_old_ms: ms(last), first_new_ms: ms(first) })
    }
}

/// The ms from a moment to the first line of `ip -ts -o monitor link` after it that says that there
/// is no carrier. Its times are those of the day: `[2026-11-29T12:18:51.123456] 5: cable1...`.
fn announced(log: &str, since_ns: u64) -> Option<f64> {
    const DAY_MS: f64 = 86_400_000.0;
    let since = (since_ns % 86_400_000_000_000) as f64 * 1e-6;
    let after = |line: &str| {
        let time = line.strip_prefix('[')?.split(']').next()?.split('T').nth(1)?;
        let mut parts = time.split(':').map(str::parse::<f64>);
        let (h, m, s) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
        let after = (h * 3_600.0 + m * 60.0 + s) * 1e3 - since;
        // The clocks of the capture and of `ip` are read one after the other.
        let after = if after < -1_000.0 { after + DAY_MS } else { after };
        (line.contains("NO-CARRIER") && (0.0..60_000.0).contains(&after)).then_some(after)
    };
    log.lines().find_map(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_when_a_carrier_is_lost() {
        let log = "[2026-11-29T00:00:01.000000] 5: cable1@if3: <UP,LOWER_UP> mtu 1500\n\
                   [2026-11-29T00:00:02.000500] 5: cable1@if3: <NO-CARRIER,UP> mtu 1500\n";
        let day = 20_786 * 86_400_000_000_000;
        let ms = announced(log, day + 2_000_000_000).expect("the second line");
        assert!((ms - 0.5).abs() < 1e-6, "{ms}");
        assert_eq!(announced(log, day + 3_000_000_000), None, "it is before");
        assert_eq!(announced("[x] NO-CARRIER", 0), None);
    }

    #[test]
    fn a_switch_is_measured_from_the_last_datagram_that_passed() {
        let seen = |ms: u64, interface, number| Seen { at_ns: ms * 1_000_000, interface, number };
        let mut all = vec![seen(1, 1, 1), seen(1, 2, 1), seen(2, 1, 2)];
        assert_eq!(Switch::of(&all, [1, 2, 3]), None, "nothing took the second cable");
        all.extend([seen(150, 1, 150), seen(152, 3, 151)]);
        let switch = Switch { cut_ns: 1_000_000, last_old_ms: 149.0, first_new_ms: 151.0 };
        assert_eq!(Switch::of(&all, [1, 2, 3]), Some(switch));
        assert_eq!(Switch::of(&all[2..], [1, 2, 3]), None, "nothing passed before");
    }
}
