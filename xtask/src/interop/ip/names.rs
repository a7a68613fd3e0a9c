//! Names that dnsmasq knows: addresses of both versions, aliases of aliases, and an answer that is
//! too long for a datagram. RFC 1035, RFC 3596, RFC 7766.

use super::capture::Capture;
use super::steps::{LIMIT, arrived, ours, sink, until};
use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use anyhow::{Context, Result, ensure};

/// Bytes of the file.
const FILE: usize = 1_000_000;
/// Addresses of `many.test`: more than fit into 1,232 bytes.
const MANY: usize = 200;

/// A name, whether its IPv6 address is asked for, and the address, or the beginning of it.
const NAMES: [(&str, bool, &str); 6] = [
    ("www.test", false, "10.9.0.1"),
    ("www.test", true, "fd09::1"),
    ("alias.test", false, "10.9.0.1"),
    ("two.test", false, "10.9.0.1"),
    ("two.test", true, "fd09::1"),
    ("many.test", false, "10.66.0."),
];

fn dnsmasq(host: &Host<'_>) -> Result<Running> {
    let mut dnsmasq = host.command("dnsmasq");
    dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    dnsmasq.args(["--pid-file=", "--user=root", "--bind-interfaces", "--local=/test/"]);
    dnsmasq.args(["--listen-address=10.9.0.1", "--host-record=www.test,10.9.0.1,fd09::1"]);
    dnsmasq.args(["--cname=alias.test,www.test", "--cname=two.test,alias.test"]);
    for last in 1..=MANY {
        dnsmasq.arg(format!("--host-record=many.test,10.66.0.{last}"));
    }
    let dnsmasq = host.start("dnsmasq", &mut dnsmasq)?;
    host.until(|| {
        let mut command = host.command("sh");
        command.args(["-c", "ss -Hltn sport = :53 | grep -q LISTEN"]);
        Ok(command)
    })?;
    Ok(dnsmasq)
}

pub(super) fn looked_up(bench: &Workbench) -> Result<()> {
    let sent = bench.file("sent", FILE)?;
    let host = Host::new(bench)?;
    // All addresses of `many.test` are the kernel's.
    host.ip("route add local 10.66.0.0/24 dev lo")?;
    let _dnsmasq = dnsmasq(&host)?;
    let capture = Capture::start(bench, &host, "ws0")?;
    for (name, is_v6, address) in NAMES {
        let socat = sink(bench, &host, if is_v6 { "TCP6" } else { "TCP4" })?;
        let mut sender = ours(bench, &host, "ttcp", &["10.9.0.2/24", "fd09::2/64"])?;
        sender.args(["--offload", "off", "--via", "10.9.0.1", "--dns", "10.9.0.1"]);
        sender.args([if is_v6 { "-6" } else { "-4" }, "-t", name, "--file"]).arg(&sent);
        bench.run(&mut sender, LIMIT)?;
        socat.finish(LIMIT)?;
        arrived(bench).with_context(|| format!("to {name}, {address}"))?;
        std::fs::remove_file(bench.path("received"))?;
    }
    let mut sender = ours(bench, &host, "ttcp", &["10.9.0.2/24"])?;
    sender.args(["--offload", "off", "--dns", "10.9.0.1", "-t", "no.test", "-s"]);
    let failed = bench.run(&mut sender, LIMIT).err().context("no.test was found")?;
    ensure!(failed.to_string().contains("there is no host 'no.test'"), "{failed}");
    // The last connection may end after its program.
    until("the connections have ended", LIMIT, || {
        let mut sockets = host.command("ss");
        sockets.args(["-Htn", "state", "established"]);
        Ok(bench.run(&mut sockets, LIMIT)?.is_empty())
    })?;

    let captured = capture.finish(bench)?;
    let connects = "tcp.flags.syn == 1 && tcp.flags.ack == 0 && tcp.dstport == 5001";
    let to = captured.lines(connects, &["ip.dst", "ipv6.dst"])?;
    let to: Vec<&str> = to.iter().map(|line| line.trim()).collect();
    let expected = NAMES.map(|(_, _, address)| address);
    let is_so = to.len() == expected.len()
        && to.iter().zip(expected).all(|(to, expected)| to.starts_with(expected));
    ensure!(is_so, "connections to {to:?}, expected {expected:?}");
    captured.has("udp.port == 53 && dns.flags.response == 1 && dns.flags.truncated == 1")?;
    captured.has(&format!("tcp.srcport == 53 && dns.count.answers == {MANY}"))?;
    captured.has("udp.srcport == 53 && dns.cname == \"alias.test\"")?;
    captured.is_clean()
}
