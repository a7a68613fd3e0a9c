//! FRR's daemons on mirrors of our ports, and the same daemons on a kernel beyond a port: each
//! protocol comes up, and brings its route. Then the same after a crash of our worker.
//!
//! Called by: `mod.rs`. docs/decisions/0148-mirrors.md.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::Workbench;
use super::super::host::Host;
use super::super::ip::until;
use super::super::router::scene::{LAN, LIMIT, Scene, WAN, each, tail};
use super::daemons::Frr;

/// Networks beyond the host on the right, one for each protocol.
const BEYOND: [&str; 5] = [
    "addr add 10.61.0.1/32 dev lo",
    "addr add 10.62.0.1/32 dev lo",
    "addr add 10.63.0.1/32 dev lo",
    "addr add 2001:db8:61::1/128 dev lo nodad",
    "addr add 2001:db8:62::1/128 dev lo nodad",
];

/// A protocol: its daemon, its configurations on the mirror and beyond, the version of IP of its
/// route in the control namespace, and the network that it brings.
struct Protocol {
    daemon: &'static str,
    ours: &'static str,
    theirs: &'static str,
    brings: Option<(&'static str, &'static str)>,
}

const PROTOCOLS: [Protocol; 6] = [
    Protocol {
        daemon: "ospfd",
        ours: "interface lan\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n ip ospf bfd\n\
               router ospf\n ospf router-id 1.1.1.1\n network 198.51.100.0/24 area 0\n",
        theirs: "interface ws1\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n ip ospf bfd\n\
                 router ospf\n ospf router-id 2.2.2.2\n network 198.51.100.0/24 area 0\n \
                 network 10.61.0.0/16 area 0\n",
        brings: Some(("-4", "10.61.0.1")),
    },
    Protocol {
        daemon: "ospf6d",
        ours: "interface lan\n ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 4\n \
               ipv6 ospf6 area 0\nrouter ospf6\n ospf6 router-id 1.1.1.1\n",
        theirs: "interface ws1\n ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 4\n \
                 ipv6 ospf6 area 0\ninterface lo\n ipv6 ospf6 area 0\nrouter ospf6\n \
                 ospf6 router-id 2.2.2.2\n",
        brings: Some(("-6", "2001:db8:61::1")),
    },
    Protocol {
        daemon: "ripd",
        ours: "router rip\n network lan\n",
        theirs: "router rip\n network ws1\n network 10.62.0.0/16\n",
        brings: Some(("-4", "10.62.0.1")),
    },
    Protocol {
        daemon: "ripngd",
        ours: "router ripng\n network lan\n",
        theirs: "router ripng\n network ws1\n route 2001:db8:63::/64\n",
        brings: Some(("-6", "2001:db8:63::/64")),
    },
    Protocol {
        daemon: "bgpd",
        ours: "router bgp 65001\n bgp router-id 1.1.1.1\n no bgp ebgp-requires-policy\n \
               neighbor 198.51.100.2 remote-as 65002\n neighbor 198.51.100.2 timers 1 3\n \
               neighbor 198.51.100.2 timers connect 1\n",
        theirs: "router bgp 65002\n bgp router-id 2.2.2.2\n no bgp ebgp-requires-policy\n \
                 neighbor 198.51.100.1 remote-as 65001\n neighbor 198.51.100.1 timers 1 3\n \
                 neighbor 198.51.100.1 timers connect 1\n address-family ipv4 unicast\n  \
                 network 10.63.0.1/32\n",
        brings: Some(("-4", "10.63.0.1")),
    },
    // OSPF has it watch its neighbour.
    Protocol { daemon: "bfdd", ours: "", theirs: "", brings: None },
];

/// The keys of `[control]` for mirrors in the namespace of this host.
fn control(space: &str) -> String {
    format!("[control]\nmirrors = \"all\"\nnamespace = \"{space}\"\n")
}

pub(super) fn protocols(bench: &Workbench) -> Result<()> {
    let space = Host::without_tap(bench)?;
    let scene = Scene::plain(bench, &format!("{}{WAN}{LAN}", control(space.name())))?;
    each(&scene.right, &BEYOND)?;
    mirrors_are_there(bench, &scene, &space)?;
    let (mut ours, mut theirs) = (Frr::new(bench, "ours")?, Frr::new(bench, "theirs")?);
    let [here, there] = [&space, &scene.right].map(|host| (bench, host));
    ours.start(here, "zebra", "", &[])?;
    theirs.start(there, "zebra", "", &[])?;
    for protocol in PROTOCOLS.iter().rev() {
        theirs.start(there, protocol.daemon, protocol.theirs, &[])?;
        ours.start(here, protocol.daemon, protocol.ours, &[])?;
    }
    for (command, is) in [
        ("show ip ospf neighbor", "Full/"),
        ("show ipv6 ospf6 neighbor", "Full/"),
        ("show bfd peers", "Status: up"),
        ("show bgp neighbors 198.51.100.2", "BGP state = Established"),
    ] {
        let says = || Ok(ours.vtysh(here, &[command])?.contains(is));
        until(&format!("{command}: {is}"), LIMIT, says)
            .with_context(|| told(&scene, (&ours, here), command))?;
    }
    for Protocol { daemon, brings, .. } in &PROTOCOLS {
        let Some((version, network)) = brings else { continue };
        let has = || Ok(routes(bench, &space, version)?.contains(network));
        let what = format!("{daemon} brings {network}");
        until(&what, LIMIT, has).with_context(|| told(&scene, (&ours, here), "show ip route"))?;
    }
    let counters = scene.show("counters")?;
    println!(
        "  punted: {} packets of routing protocols, {} others; sent by mirrors: {}",
        counters["punted_routing"], counters["punted_other"], counters["mirror_out"]
    );
    let drops = scene.show("drops")?;
    println!("  drops: {drops}");
    ensure!(counters["punted_routing"].as_u64() > Some(20), "few were punted: {counters}");
    scene.end()
}

/// Sessions by link-local addresses, which the peers learn from each other's advertisements.
pub(super) fn unnumbered(bench: &Workbench) -> Result<()> {
    let space = Host::without_tap(bench)?;
    let scene = Scene::plain(bench, &format!("{}{WAN}{LAN}", control(space.name())))?;
    each(&scene.right, &BEYOND)?;
    mirrors_are_there(bench, &scene, &space)?;
    let (mut ours, mut theirs) = (Frr::new(bench, "ours")?, Frr::new(bench, "theirs")?);
    let [here, there] = [&space, &scene.right].map(|host| (bench, host));
    ours.start(here, "zebra", "", &[])?;
    theirs.start(there, "zebra", "", &[])?;
    let bgp = |number, interface, more: &str| {
        format!(
            "router bgp 6500{number}\n bgp router-id {number}.{number}.{number}.{number}\n \
             no bgp ebgp-requires-policy\n neighbor {interface} interface remote-as external\n \
             neighbor {interface} timers 1 3\n neighbor {interface} timers connect 1\n{more}"
        )
    };
    theirs.start(
        there,
        "bgpd",
        &bgp(2, "ws1", " address-family ipv4 unicast\n  network 10.63.0.1/32\n"),
        &[],
    )?;
    ours.start(here, "bgpd", &bgp(1, "lan", ""), &[])?;
    let has = || {
        let routes = routes(bench, &space, "-4")?;
        Ok(routes
            .lines()
            .any(|line| line.contains("10.63.0.1") && line.contains("via inet6 fe80::")))
    };
    until("the route has an IPv6 next hop", LIMIT, has)
        .with_context(|| told(&scene, (&ours, here), "show bgp neighbors"))?;
    scene.end()
}

/// A service of the host itself, where the router runs.
pub(super) fn host(bench: &Workbench) -> Result<()> {
    // A service that moves data has more packets than the default lets pass.
    let config = format!("{}punt_rate = 100000\n{WAN}{LAN}", control("host"));
    let scene = Scene::plain(bench, &config)?;
    mirrors_are_there(bench, &scene, &scene.middle)?;
    let mut server = scene.middle.command("iperf3");
    let _server = scene.middle.start("server", server.args(["-s", "-p", "5001"]))?;
    scene.middle.until_listening()?;
    for to in ["192.0.2.2", "2001:db8:1::2", "198.51.100.1"] {
        let moved = scene.transfer(&format!("-c {to} -t 2 -b 50M"))?;
        println!("  to the host's iperf3 at {to}: {moved:.3} Gb/s");
    }
    let mut ping = scene.middle.command("ping");
    bench.run(ping.args(["-c", "2", "-i", "0.2", "-W", "2", "198.51.100.2"]), LIMIT)?;
    scene.end()
}

fn mirrors_are_there(bench: &Workbench, scene: &Scene<'_>, space: &Host<'_>) -> Result<()> {
    let is_there = || {
        let mut ip = Command::new("ip");
        let said = bench.run(ip.args(["-n", space.name(), "addr", "show", "dev", "lan"]), LIMIT);
        Ok(said.is_ok_and(|said| said.contains("198.51.100.1/24") && said.contains("LOWER_UP")))
    };
    until("the mirror of lan is there", LIMIT, is_there)
        .with_context(|| tail(&scene.log()).to_owned())
}

/// The routes of FRR's daemons in the kernel of a namespace.
fn routes(bench: &Workbench, space: &Host<'_>, version: &str) -> Result<String> {
    let mut ip = Command::new("ip");
    let routes = bench.run(ip.args(["-n", space.name(), version, "route"]), LIMIT)?;
    Ok(routes.lines().filter(|line| !line.contains("proto kernel")).collect::<Vec<_>>().join("\n"))
}

fn told(scene: &Scene<'_>, (frr, at): (&Frr, (&Workbench, &Host<'_>)), command: &str) -> String {
    let said = frr.vtysh(at, &[command]).unwrap_or_else(|why| why.to_string());
    let drops = scene.show("drops").map(|drops| drops.to_string()).unwrap_or_default();
    format!("{said}\nthe router: {}\n{drops}", tail(&scene.log()))
}
