//! Addresses and gateway by router advertisements: radvd is the router, and the server is not on
//! the link. RFC 4861, RFC 4862.

use super::capture::Capture;
use super::steps::{LIMIT, arrived, ours, sink, sysctl, until};
use crate::interop::Workbench;
use crate::interop::host::Host;
use crate::interop::outside::shown;
use anyhow::{Context, Result, ensure};

/// Bytes of the file.
const FILE: usize = 100_000_000;

/// The prefix on the link, and the server behind the router.
const PREFIX: &str = "fd0a:";
const SERVER: &str = "fd0b::1";

pub(super) fn transfer(bench: &Workbench) -> Result<()> {
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
