//! Suite `outside`: our stack over a TAP, with the kernel and its programs at the other end.

use super::host::Host;
use super::{Case, Need, Workbench, iperf};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(super) const TUN: Need = Need::File("/dev/net/tun");
pub(super) const IP: Need = Need::Program { program: "ip", package: "iproute2" };
pub(super) const SOCAT: Need = Need::Program { program: "socat", package: "socat" };
const PING: Need = Need::Program { program: "ping", package: "iputils-ping" };
const TSHARK: Need = Need::Program { program: "tshark", package: "tshark" };
pub(super) const CURL: Need = Need::Program { program: "curl", package: "curl" };
pub(super) const DNSMASQ: Need = Need::Program { program: "dnsmasq", package: "dnsmasq-base" };
pub(super) const NGINX: Need = Need::Program { program: "nginx", package: "nginx-light" };
pub(super) const SHA256SUM: Need = Need::Program { program: "sha256sum", package: "coreutils" };

/// Bytes of the file that is sent in each direction.
const FILE: usize = 1_000_000_000;
/// Bytes of the file that is sent over a wire with faults.
const SMALL_FILE: usize = 10_000_000;

/// Long enough for a gigabyte on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

pub(super) const TRANSFER: &[Need] = &[Need::Root, TUN, IP, SOCAT, SHA256SUM];

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a file of 1 GB from socat to us, IPv4",
        needs: TRANSFER,
        run: |b| from_socat(b, V4),
    },
    Case {
        name: "a file of 1 GB from us to socat, IPv4",
        needs: TRANSFER,
        run: |b| to_socat(b, V4),
    },
    Case {
        name: "a file of 1 GB from socat to us, IPv6",
        needs: TRANSFER,
        run: |b| from_socat(b, V6),
    },
    Case {
        name: "a file of 1 GB from us to socat, IPv6",
        needs: TRANSFER,
        run: |b| to_socat(b, V6),
    },
    Case {
        name: "ping and ping -6 are answered, and ours are",
        needs: &[Need::Root, TUN, IP, PING],
        run: pings,
    },
    Case {
        name: "10 MB with 10 % loss, 5 % reordering and 1 % corruption",
        needs: TRANSFER,
        run: faults,
    },
    Case {
        name: "a capture of ours opens in tshark without complaint",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TSHARK],
        run: capture,
    },
    Case {
        name: "curl from our server over TLS, our client from nginx, curl through the proxy",
        needs: &[Need::Root, TUN, IP, CURL, NGINX],
        run: |bench| bench.test_program("examples_real_peers"),
    },
    Case {
        name: "ping by a name that dnsmasq knows",
        needs: &[Need::Root, TUN, IP, DNSMASQ],
        run: names,
    },
    Case { name: "show --json on a running ttcp", needs: &[Need::Root, TUN, IP], run: show },
    iperf::IPV4,
    iperf::IPV6,
];

/// The addresses of a version of IP as socat and we write them.
#[derive(Clone, Copy)]
struct Version {
    /// socat's words to connect and to listen.
    connect: &'static str,
    listen: &'static str,
    kernel: &'static str,
}

const V4: Version =
    Version { connect: "TCP4:10.9.0.2:5001", listen: "TCP4-LISTEN:5001", kernel: "10.9.0.1" };
const V6: Version =
    Version { connect: "TCP6:[fd09::2]:5001", listen: "TCP6-LISTEN:5001", kernel: "fd09::1" };

fn from_socat(bench: &Workbench, version: Version) -> Result<()> {
    let (sent, received) = (bench.file("sent", FILE)?, bench.path("received"));
    let host = Host::new(bench)?;
    let mut ours = host.ours("ttcp")?;
    ours.args(["-r", "--json", "--file"]).arg(&received);
    let ours = host.start("ttcp", &mut ours)?;
    let retried = format!("{},retry=50,interval=0.2", version.connect);
    let mut socat = host.command("socat");
    socat.args(["-u", "-b", "131072", &format!("FILE:{}", shown(&sent)?), &retried]);
    bench.run(&mut socat, LIMIT)?;
    ours.finish(LIMIT)?;
    let sum = sum_of(bench, &sent)?;
    same(&sum, &sum_of(bench, &received)?)?;
    same(&sum, &reported(&host.printed("ttcp"), "sha256_received")?)
}

fn to_socat(bench: &Workbench, version: Version) -> Result<()> {
    send(bench, version, FILE, &[], |_| Ok(()))
}

/// 1 % of frames are corrupted, for the checksums; 10 % are lost, for the timers.
fn faults(bench: &Workbench) -> Result<()> {
    let faults = ["--fault", "drop=0.1,reorder=0.05,corrupt=0.01,seed=7", "--offload", "off"];
    send(bench, V4, SMALL_FILE, &faults, |_| Ok(()))
}

fn capture(bench: &Workbench) -> Result<()> {
    let path = bench.path("frames.pcapng");
    let options = ["--capture", shown(&path)?];
    send(bench, V4, SMALL_FILE, &options, |bench| {
        let mut tshark = Command::new("tshark");
        tshark.args(["-r", shown(&path)?, "-q", "-z", "io,phs"]);
        let seen = bench.run(&mut tshark, LIMIT)?;
        ensure!(seen.contains("tcp"), "tshark saw no TCP in the capture: {seen}");
        let mut tshark = Command::new("tshark");
        tshark.args(["-r", shown(&path)?, "-Y", "_ws.malformed"]);
        let malformed = bench.run(&mut tshark, LIMIT)?;
        ensure!(malformed.trim().is_empty(), "tshark calls frames malformed: {malformed}");
        Ok(())
    })
}

fn send(
    bench: &Workbench,
    version: Version,
    bytes: usize,
    options: &[&str],
    afterwards: impl FnOnce(&Workbench) -> Result<()>,
) -> Result<()> {
    let (sent, received) = (bench.file("sent", bytes)?, bench.path("received"));
    let host = Host::new(bench)?;
    let mut socat = host.command("socat");
    let to = format!("CREATE:{}", shown(&received)?);
    socat.args(["-u", "-b", "131072", &format!("{},reuseaddr", version.listen), &to]);
    let socat = host.start("socat", &mut socat)?;
    host.until_listening()?;
    let mut ours = host.ours("ttcp")?;
    ours.args(["-t", version.kernel, "--json", "--file"]).arg(&sent).args(options);
    let report = bench.run(&mut ours, LIMIT)?;
    socat.finish(LIMIT)?;
    let sum = sum_of(bench, &sent)?;
    same(&sum, &sum_of(bench, &received)?)?;
    same(&sum, &reported(&report, "sha256_sent")?)?;
    afterwards(bench)
}

fn names(bench: &Workbench) -> Result<()> {
    let host = Host::new(bench)?;
    let mut dnsmasq = host.command("dnsmasq");
    dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    dnsmasq.args(["--pid-file=", "--user=root", "--bind-interfaces", "--local=/test/"]);
    dnsmasq.args(["--listen-address=10.9.0.1", "--host-record=kernel.test,10.9.0.1,fd09::1"]);
    let _dnsmasq = host.start("dnsmasq", &mut dnsmasq)?;
    for (version, address) in [("-4", "10.9.0.1"), ("-6", "fd09::1")] {
        // Repeat until it listens.
        let printed = host.until(|| {
            let mut ours = host.ours("ping")?;
            ours.args(["--dns", "10.9.0.1", "-c", "1", version, "kernel.test"]);
            Ok(ours)
        })?;
        let expected = format!("PING kernel.test ({address})");
        ensure!(printed.contains(&expected), "no '{expected}' in {printed}");
    }
    Ok(())
}

fn pings(bench: &Workbench) -> Result<()> {
    let host = Host::new(bench)?;
    for kernel in ["10.9.0.1", "fd09::1"] {
        let mut ours = host.ours("ping")?;
        let printed = bench.run(ours.args(["-c", "3", "-i", "0.2", kernel]), LIMIT)?;
        ensure!(printed.contains("3 packets transmitted, 3 received"), "{printed}");
    }
    let mut ours = host.ours("ttcp")?;
    let _answers = host.start("ttcp", ours.args(["-r", "-s"]))?;
    for address in ["10.9.0.2", "fd09::2"] {
        host.until(|| {
            let mut ping = host.command("ping");
            ping.args(["-c", "3", "-i", "0.2", "-W", "2", address]);
            Ok(ping)
        })?;
    }
    Ok(())
}

fn show(bench: &Workbench) -> Result<()> {
    let host = Host::new(bench)?;
    std::fs::create_dir_all(bench.path("run"))?;
    let mut ours = host.ours("ttcp")?;
    let _runs = host.start("ttcp", ours.args(["-r", "-s"]))?;
    let program = bench.wirespeed()?;
    let text = host.until(|| {
        let mut show = host.command(shown(&program)?);
        show.args(["show", "--json"]);
        Ok(show)
    })?;
    let document: Value = serde_json::from_str(&text).context("show --json printed no JSON")?;
    let stack = document.pointer("/stacks/0").context("show has no stack")?;
    for section in ["ports", "counters", "limits", "switches"] {
        ensure!(stack.get(section).is_some(), "show has no {section}: {text}");
    }
    Ok(())
}

pub(super) fn sum_of(bench: &Workbench, path: &Path) -> Result<String> {
    let text = bench.run(Command::new("sha256sum").arg(path), LIMIT)?;
    Ok(text.split_whitespace().next().context("sha256sum printed nothing")?.to_owned())
}

fn reported(text: &str, key: &str) -> Result<String> {
    let report: Value = serde_json::from_str(text).context("ttcp --json printed no JSON")?;
    Ok(report[key].as_str().with_context(|| format!("the report has no {key}: {text}"))?.to_owned())
}

pub(super) fn same(sent: &str, received: &str) -> Result<()> {
    ensure!(sent == received, "sums differ: {sent} was sent, {received} received");
    Ok(())
}

pub(super) fn shown(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}
