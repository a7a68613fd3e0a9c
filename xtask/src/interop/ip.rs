//! Suite `ip`: IPv4 and IPv6 as a host among others: routers that advertise and redirect,
//! neighbours that come and go, fragments, paths and neighbours with MTUs of their own. The kernel
//! and its programs are at the other end of a TAP.

pub(super) mod capture;
mod dhcp;
mod groups;
mod links;
mod names;
mod neighbours;
mod steps;

use anyhow::{Context, Result, ensure};
use capture::Capture;
use steps::{LIMIT, arrived, show, sink, with_control};
pub(super) use steps::{ours, sysctl, until};

use super::outside::{IP, SHA256SUM, SOCAT, TUN};
use super::{Case, Need};
use crate::interop::Workbench;
use crate::interop::host::Host;
use crate::interop::outside::shown;

const BRIDGE: Need = Need::Program { program: "bridge", package: "iproute2" };
pub(super) const DNSMASQ: Need = Need::Program { program: "dnsmasq", package: "dnsmasq-base" };
pub(super) const PING: Need = Need::Program { program: "ping", package: "iputils-ping" };
pub(super) const RADVD: Need = Need::Program { program: "radvd", package: "radvd" };
pub(super) const TCPDUMP: Need = Need::Program { program: "tcpdump", package: "tcpdump" };
pub(super) const TSHARK: Need = Need::Program { program: "tshark", package: "tshark" };

pub(super) const CASES: &[Case] = &[
    Case {
        name: "neighbours are asked, found and confirmed; one that goes away is noticed",
        needs: &[Need::Root, TUN, IP, SOCAT, TCPDUMP, TSHARK, PING],
        run: neighbours::come_and_go,
    },
    Case {
        name: "datagrams of 64 KB in fragments, both ways, IPv4 and IPv6",
        needs: CAPTURED,
        run: echoed,
    },
    Case {
        name: "a redirect of the kernel's is followed, IPv6",
        needs: CAPTURED,
        run: |b| links::redirected(b, &links::V6),
    },
    Case {
        name: "a redirect of the kernel's is followed, IPv4",
        needs: CAPTURED,
        run: |b| links::redirected(b, &links::V4),
    },
    Case {
        name: "a neighbour's link address changes in mid-transfer, IPv4 and IPv6",
        needs: CAPTURED,
        run: links::neighbour_moves,
    },
    Case {
        name: "a lease of dnsmasq: address, router, names; renewed and given back",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, DNSMASQ],
        run: dhcp::leased,
    },
    Case {
        name: "names of dnsmasq: A, AAAA, aliases, an answer that takes TCP",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, DNSMASQ],
        run: names::looked_up,
    },
    Case {
        name: "groups: the kernel's bridge has our reports in its table, IGMPv3 and MLDv2",
        needs: &[Need::Root, TUN, IP, BRIDGE, SOCAT, SHA256SUM, TCPDUMP, TSHARK],
        run: groups::joined,
    },
    Case {
        name: "an address of the kernel's is found to be taken, IPv4 and IPv6",
        needs: &[Need::Root, TUN, IP, TCPDUMP, TSHARK],
        run: groups::taken,
    },
];

/// Cases that move much data, with every frame captured.
pub(super) const TRANSFERS: &[Case] = &[
    Case {
        name: "100 MB each way over IPv6, by SLAAC and a link-local gateway",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, RADVD],
        run: transfer,
    },
    Case {
        name: "the path's MTU shrinks in mid-transfer, IPv4 and IPv6",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, PING],
        run: links::path_shrinks,
    },
    Case {
        name: "neighbours at 1500 and 65521 on one wire each get their best size",
        needs: CAPTURED,
        run: links::neighbours_differ,
    },
];

const CAPTURED: &[Need] = &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK];

/// For each version of IP: the address of our echo service for socat, a display filter for packets
/// from it, and the bytes of a datagram; over IPv4 the largest possible.
const ENDS: [(&str, &str, usize); 2] = [
    ("UDP4:10.9.0.2:7", "ip.src == 10.9.0.2", 65_507),
    ("UDP6:[fd09::2]:7", "ipv6.src == fd09::2", 65_000),
];

/// Number of fragments: of 1,480 bytes over IPv4, of 1,448 over IPv6.
const FRAGMENTS: &str = "45";

fn echoed(bench: &Workbench) -> Result<()> {
    with_control(bench)?;
    let host = Host::new(bench)?;
    let mut services = ours(bench, &host, "services", &["10.9.0.2/24", "fd09::2/64"])?;
    let _services = host.start("services", services.args(["--offload", "off"]))?;
    // Once the program answers at its control socket, it serves.
    show(bench, &host, "frag")?;
    let capture = Capture::start(bench, &host, "ws0")?;
    for (to, _, bytes) in ENDS {
        bench.file("sent", bytes)?;
        // Half a second after the end of its input, socat ends.
        let script = format!("socat -t 0.5 -b 70000 - '{to}' < sent > received");
        let mut socat = host.command("sh");
        bench.run(socat.args(["-c", &script]).current_dir(bench.path("")), LIMIT)?;
        arrived(bench).with_context(|| format!("back from {to}"))?;
    }
    let counts = show(bench, &host, "frag")?;
    for name in ["datagrams_fragmented", "datagrams_reassembled"] {
        ensure!(counts[name] == 2, "{name} is not 2: {counts}");
    }
    let captured = capture.finish(bench)?;
    captured.is_clean()?;
    let fields = ["udp.length", "udp.checksum.status", "ip.fragment.count", "ipv6.fragment.count"];
    for (_, from_us, bytes) in ENDS {
        let length = bytes + 8;
        for filter in [from_us.to_owned(), format!("!({from_us})")] {
            let lines = captured.lines(&format!("udp.length == {length} && {filter}"), &fields)?;
            let words: Vec<Vec<&str>> =
                lines.iter().map(|line| line.split_whitespace().collect()).collect();
            let expected = vec![vec![length.to_string(), "1".into(), FRAGMENTS.into()]];
            ensure!(words == expected, "tshark sees {words:?}, expected {expected:?}");
        }
    }
    Ok(())
}

/// Bytes of the file.
const FILE: usize = 100_000_000;

/// The prefix on the link, and the server behind the router.
const PREFIX: &str = "fd0a:";
const SERVER: &str = "fd0b::1";

fn transfer(bench: &Workbench) -> Result<()> {
    let sent = bench.file("sent", FILE)?;
    let host = Host::new(bench)?;
    host.ip("addr add fe80::1/64 dev ws0 nodad")?;
    host.ip(&format!("addr add {SERVER}/128 dev lo"))?;
    host.ip("route add fd0a::/64 dev ws0")?;
    sysctl(bench, &host, "ipv6/conf/all/forwarding", "1")?;
    let config = "interface ws0 { IgnoreIfMissing on; AdvSendAdvert on; MinRtrAdvInterval 3; \
                  MaxRtrAdvInterval 4; prefix fd0a::/64 { }; };";
    let (file, pid) = (bench.path("radvd.conf"), bench.path("radvd.pid"));
    std::fs::write(&file, config)?;
    let mut radvd = host.command("radvd");
    radvd.args(["--nodaemon", "--logmethod", "stderr", "--config"]).arg(&file);
    let _radvd = host.start("radvd", radvd.arg("--pidfile").arg(&pid))?;

    let capture = Capture::start(bench, &host, "ws0")?;
    let socat = sink(bench, &host, "TCP6")?;
    let mut sender = ours(bench, &host, "ttcp", &["auto"])?;
    sender.args(["--offload", "off", "-t", SERVER, "--file"]).arg(&sent);
    let (_, said) = bench.run_both(&mut sender, LIMIT)?;
    ensure!(said.contains("; router fe80::"), "no link-local gateway: {said}");
    socat.finish(LIMIT)?;
    arrived(bench).context("to the server")?;
    capture.finish(bench)?.is_clean().context("to the server")?;

    std::fs::remove_file(bench.path("received"))?;
    let capture = Capture::start(bench, &host, "ws0")?;
    let mut receiver = ours(bench, &host, "ttcp", &["auto"])?;
    receiver.args(["--offload", "off", "-r", "--file"]).arg(bench.path("received"));
    let receiver = host.start("ttcp", &mut receiver)?;
    let mut address = None;
    until("our stack has an address", LIMIT, || {
        let said = std::fs::read_to_string(bench.path("ttcp.err"))?;
        let words = said.lines().flat_map(|line| line.split(' '));
        let mut made = words.filter_map(|word| word.strip_suffix("/64"));
        address = made.find(|word| word.starts_with(PREFIX)).map(str::to_owned);
        Ok(address.is_some())
    })?;
    let address = address.context("no address")?;
    let to = format!("TCP6:[{address}]:5001,bind=[{SERVER}],retry=50,interval=0.2");
    let mut socat = host.command("socat");
    socat.args(["-u", "-b", "131072", &format!("FILE:{}", shown(&sent)?), &to]);
    bench.run(&mut socat, LIMIT)?;
    receiver.finish(LIMIT)?;
    arrived(bench).context("from the server")?;
    let captured = capture.finish(bench)?;
    captured.has("icmpv6.type == 134")?;
    captured.is_clean().context("from the server")
}
