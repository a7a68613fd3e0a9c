//! Attacks on a stack that gets its addresses from the link: by router advertisements (radvd) and
//! by DHCP (dnsmasq), in use and while it starts; and on the resolver.
//!
//! Called by: the suite `attacks`. Rows that need the same servers share one scene, which takes
//! seconds to start.

use super::super::host::{Host, OURS, Running};
use super::super::ip::{ours, sysctl};
use super::super::outside::{IP, TUN, shown};
use super::super::{Need, Workbench};
use super::Shot::{Python, Tool};
use super::scene::{Addresses, PROGRAM, PYTHON, Scene};
use super::{Attack, PING, SCAPY, THC, fire};
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::{Duration, Instant};

const RADVD: Need = Need::Program { program: "radvd", package: "radvd" };
const DNSMASQ: Need = Need::Program { program: "dnsmasq", package: "dnsmasq-base" };

pub(super) const BY_RADVD: &[Need] =
    &[Need::Root, TUN, IP, PING, Need::File(PYTHON), SCAPY, THC, RADVD];
pub(super) const BY_DNSMASQ: &[Need] =
    &[Need::Root, TUN, IP, PING, Need::File(PYTHON), SCAPY, DNSMASQ];

/// radvd's prefix.
pub(super) const PREFIX: &str = "fd0a:";
/// Within this time a start under attack has failed.
const START: Duration = Duration::from_secs(30);

/// Attacks on a port that radvd has configured. Its router is `fe80::1`.
const NEIGHBOUR_DISCOVERY: &[Attack] = &[
    Attack {
        name: "atk6-redir6",
        expected: "followed for that destination; who does not answer is forgotten",
        counted: &["redirects"],
        never: &[],
        shots: &[Tool("atk6-redir6 ws0 OURS6 fd77::1 fe80::1 fe80::66", 2)],
    },
    Attack {
        name: "atk6-flood_redir6",
        expected: "none that goes to everybody, or in a frame to everybody",
        counted: &["redirect_refused", "ip_link_broadcast"],
        never: &["redirects"],
        shots: &[Tool("atk6-flood_redir6 ws0", 1), Tool("atk6-flood_redir6 ws0 OURS6", 1)],
    },
    Attack {
        name: "IGMP and MLD queries",
        expected: "answered within group_reports_per_second",
        counted: &["group_queries_in", "group_reports_out"],
        never: &["mbuf_exhausted"],
        shots: &[Python("group_queries")],
    },
    Attack {
        name: "RA flood, a port that listens",
        expected: "lists and rate bounded, our addresses stay",
        counted: &["router_advertisements", "ra_rate_limited"],
        never: &["mbuf_exhausted"],
        shots: &[Tool("atk6-flood_router26 ws0", 3)],
    },
    Attack {
        name: "atk6-fake_router26",
        expected: "one router more; what we had stays",
        counted: &["router_advertisements"],
        never: &[],
        shots: &[Tool("atk6-fake_router26 -A fd66::/64 -D fd66::53 -s fe80::66 ws0", 3)],
    },
    Attack {
        name: "atk6-kill_router6",
        expected: "the link stays in use, routes come back with the next advertisement",
        counted: &["router_advertisements"],
        never: &[],
        shots: &[Tool("atk6-kill_router6 ws0 fe80::1", 2)],
    },
    Attack {
        name: "atk6-flood_advertise6",
        expected: "no entry from what nobody asked for",
        counted: &["nd_unsolicited"],
        never: &["mbuf_exhausted"],
        shots: &[Tool("atk6-flood_advertise6 ws0", 3)],
    },
    Attack {
        name: "atk6-flood_solicitate6",
        expected: "the table is bounded, answers are rate-limited",
        counted: &["nd_in|nd_not_for_us"],
        never: &["mbuf_exhausted"],
        shots: &[Tool("atk6-flood_solicitate6 ws0 OURS6 OURS6", 3)],
    },
    Attack {
        name: "atk6-parasite6",
        expected: "neighbours in use stay",
        counted: &[],
        never: &[],
        shots: &[Tool("atk6-parasite6 -R ws0 02:00:00:00:00:66", 3)],
    },
    Attack {
        name: "atk6-flood_mld6, _mld26, _mldrouter6",
        expected: "nothing for a host",
        counted: &["group_unhandled|group_malformed|group_not_joined|icmp_unhandled"],
        never: &["mbuf_exhausted"],
        shots: &[
            Tool("atk6-flood_mld6 ws0", 1),
            Tool("atk6-flood_mld26 ws0", 1),
            Tool("atk6-flood_mldrouter6 ws0", 1),
        ],
    },
    Attack {
        name: "atk6-flood_rs6, atk6-flood_unreach6",
        expected: "nothing for a host, nothing of ours",
        counted: &["icmp_error_no_match|icmp_error_ignored|icmp_malformed|icmp_unhandled"],
        never: &["mbuf_exhausted", "path_mtu_lowered"],
        shots: &[Tool("atk6-flood_rs6 ws0", 1), Tool("atk6-flood_unreach6 ws0 OURS6", 1)],
    },
    Attack {
        name: "atk6-toobig6",
        expected: "about nothing of ours: ignored",
        counted: &["icmp_error_no_match|icmp_error_ignored|icmp_error_out_of_window"],
        never: &["path_mtu_lowered"],
        shots: &[Tool("atk6-toobig6 -u ws0 OURS6 fd0a::1 1280", 2)],
    },
    Attack {
        name: "NDP exhaustion of the link's prefix",
        expected: "nothing forwarded, few solicitations, a bounded table",
        counted: &[
            "ip_not_for_us",
            "neighbour_rate_limited|neighbour_failures|neighbour_queue_full",
        ],
        never: &["mbuf_exhausted"],
        shots: &[Python("prefix_exhaustion"), Tool("atk6-ndpexhaust26 -p ws0 fd0a::", 2)],
    },
    Attack {
        name: "atk6-fuzz_ip6",
        expected: "delivered or dropped by name",
        counted: &["icmp_malformed|icmp_unhandled|ipv6_payload_length|ip_protocol_unknown"],
        never: &[],
        shots: &[
            Tool("atk6-fuzz_ip6 -F -S -D -H -R ws0 OURS6", 2),
            Tool("atk6-fuzz_ip6 -2 ws0 OURS6", 1),
            Tool("atk6-fuzz_ip6 -4 ws0 OURS6", 1),
            Tool("atk6-fuzz_ip6 -7 ws0 OURS6", 1),
        ],
    },
];

/// Attacks on a port that dnsmasq has configured.
const DHCP: &[Attack] = &[Attack {
    name: "rogue DHCP server, in use",
    expected: "no transaction of ours: the address stays",
    counted: &["udp_in"],
    never: &["mbuf_exhausted"],
    shots: &[Python("rogue_dhcp_messages")],
}];

/// The kernel forwards, and takes no advertisements or redirects.
pub(super) fn be_a_router(bench: &Workbench, host: &Host<'_>) -> Result<()> {
    sysctl(bench, host, "ipv6/conf/all/forwarding", "1")
}

/// The program that configures our stack.
pub(super) fn server(
    bench: &Workbench,
    host: &Host<'_>,
    addresses: Addresses,
) -> Result<Option<Running>> {
    match addresses {
        Addresses::Fixed => Ok(None),
        Addresses::Auto => {
            host.ip("link set ws0 addrgenmode none")?;
            host.ip("addr add fe80::1/64 dev ws0 nodad")?;
            host.ip("addr add fd0a::1/64 dev ws0 nodad")?;
            let config = "interface ws0 { IgnoreIfMissing on; AdvSendAdvert on; \
                          MinRtrAdvInterval 3; MaxRtrAdvInterval 4; prefix fd0a::/64 { }; };";
            let (file, pid) = (bench.path("radvd.conf"), bench.path("radvd.pid"));
            std::fs::write(&file, config)?;
            let mut radvd = host.command("radvd");
            radvd.args(["--nodaemon", "--logmethod", "stderr", "--config"]).arg(&file);
            host.start("radvd", radvd.arg("--pidfile").arg(&pid)).map(Some)
        }
        Addresses::Dhcp => {
            let mut dnsmasq = host.command("dnsmasq");
            dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv"]);
            dnsmasq.args(["--no-hosts", "--pid-file=", "--user=root", "--interface=ws0"]);
            dnsmasq.args(["--bind-interfaces", "--no-ping", "--leasefile-ro", "--port=0"]);
            dnsmasq.args(["--dhcp-authoritative", "--dhcp-range=10.9.0.2,10.9.0.2,10m"]);
            host.start("dnsmasq", &mut dnsmasq).map(Some)
        }
    }
}

/// `wirespeed services` with these addresses.
pub(super) fn services(
    bench: &Workbench,
    host: &Host<'_>,
    addresses: Addresses,
) -> Result<Command> {
    let mut command = match addresses {
        Addresses::Fixed => host.ours("services")?,
        Addresses::Auto => ours(bench, host, "services", &["10.9.0.2/24", "auto"])?,
        Addresses::Dhcp => ours(bench, host, "services", &["fd09::2/64", "dhcp"])?,
    };
    if addresses == Addresses::Fixed {
        command.args(["--via", "10.9.0.1", "--via", "fd09::1"]);
    }
    Ok(command)
}

pub(super) fn by_radvd(bench: &Workbench) -> Result<()> {
    in_one_scene(bench, Addresses::Auto, NEIGHBOUR_DISCOVERY)
}

pub(super) fn by_dnsmasq(bench: &Workbench) -> Result<()> {
    in_one_scene(bench, Addresses::Dhcp, DHCP)
}

fn in_one_scene(bench: &Workbench, addresses: Addresses, attacks: &[Attack]) -> Result<()> {
    let mut scene = Scene::with(bench, addresses)?;
    for attack in attacks {
        scene.begin().with_context(|| format!("before {}", attack.name))?;
        fire(&mut scene, attack).with_context(|| attack.name)?;
    }
    Ok(())
}

/// Start a server of the Python program, and wait until it listens.
fn start_server(bench: &Workbench, host: &Host<'_>, name: &str) -> Result<Running> {
    let mut server = host.command(PYTHON);
    server.arg(bench.root().join(PROGRAM)).arg(name).arg(bench.path("ready"));
    let server = host.start("server", &mut server)?;
    host.until(|| {
        let mut ready = Command::new("test");
        ready.arg("-e").arg(bench.path("ready"));
        Ok(ready)
    })?;
    Ok(server)
}

/// Start `services` while it is attacked; it must end by itself, and say `complaint`.
fn start_fails(
    bench: &Workbench,
    host: &Host<'_>,
    address: &str,
    complaint: &str,
) -> Result<String> {
    std::fs::create_dir_all(bench.path("run"))?;
    let begun = Instant::now();
    let mut ours = host.start("ours", &mut ours(bench, host, "services", &[address])?)?;
    while ours.is_alive()? {
        ensure!(begun.elapsed() < START, "it goes on for {} s", START.as_secs());
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = std::fs::read_to_string(bench.path("ours.err"))?;
    ensure!(said.contains(complaint), "it said: {said}");
    Ok(format!("after {:.1} s: {}", begun.elapsed().as_secs_f64(), said.trim()))
}

/// atk6-dos-new-ip6: somebody has every address that is asked for.
pub(super) fn denied_dad(bench: &Workbench) -> Result<()> {
    let host = Host::new(bench)?;
    let mut attacker = host.command("atk6-dos-new-ip6");
    let _attacker = host.start("attacker", attacker.arg("ws0"))?;
    let complaint = "other hosts on the link have all the link-local addresses";
    let seen = start_fails(bench, &host, "auto", complaint)?;
    println!("denial of duplicate address detection | three tries, then it says so | {seen}");
    Ok(())
}

/// A server whose offers are of no use.
pub(super) fn rogue_dhcp(bench: &Workbench) -> Result<()> {
    let host = Host::new(bench)?;
    let _server = start_server(bench, &host, "rogue_dhcp_server")?;
    let seen = start_fails(bench, &host, "dhcp", "answers were of no use")?;
    println!("rogue DHCP server | offers that no host can use are refused | {seen}");
    Ok(())
}

/// A name server's answers among forged ones.
pub(super) fn forged_dns(bench: &Workbench) -> Result<()> {
    let host = Host::new(bench)?;
    let server = start_server(bench, &host, "name_server")?;
    let mut ping = host.command(shown(&bench.wirespeed()?)?);
    ping.args(["ping"]).args(OURS).args(["--dns", "10.9.0.1", "-c", "1", "kernel.test"]);
    let printed = bench.run(&mut ping, START)?;
    ensure!(printed.contains("PING kernel.test (10.9.0.1)"), "it went elsewhere: {printed}");
    drop(server);
    let seen = host.printed("server");
    println!(
        "forged answers of name servers | the right one is taken | {}",
        seen.trim().replace('\n', "; ")
    );
    Ok(())
}
