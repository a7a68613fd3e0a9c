//! A lease of dnsmasq: its address, router, name server and search list are used, it is renewed
//! while the program runs, and given back at its end. RFC 2131, RFC 2132.

use super::capture::Capture;
use super::steps::{LIMIT, arrived, ours, sink, until};
use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use crate::interop::outside::shown;
use anyhow::{Context, Result, ensure};

/// Bytes of the file.
const FILE: usize = 10_000_000;

/// The server behind the router, called `server.test`.
const SERVER: &str = "10.77.0.1";

/// dnsmasq sets the time of renewal to five seconds: its shortest lease is of two minutes.
fn dnsmasq(bench: &Workbench, host: &Host<'_>) -> Result<Running> {
    let log = bench.path("log");
    let mut dnsmasq = host.command("dnsmasq");
    dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    dnsmasq.args(["--pid-file=", "--user=root", "--interface=ws0", "--bind-interfaces"]);
    dnsmasq.args(["--leasefile-ro", "--dhcp-authoritative", "--no-ping", "--log-dhcp"]);
    dnsmasq.arg(format!("--log-facility={}", shown(&log)?));
    dnsmasq.arg("--dhcp-range=10.9.0.50,10.9.0.59,255.255.255.0,2m");
    dnsmasq.args(["--dhcp-option=option:T1,5", "--dhcp-option=option:T2,60"]);
    dnsmasq.args(["--dhcp-option=option:domain-search,test", "--local=/test/"]);
    dnsmasq.arg(format!("--host-record=server.test,{SERVER}"));
    let dnsmasq = host.start("dnsmasq", &mut dnsmasq)?;
    until("dnsmasq serves", LIMIT, || Ok(logged(bench, "IP range") > 0))?;
    Ok(dnsmasq)
}

/// How often a text is in dnsmasq's log.
fn logged(bench: &Workbench, text: &str) -> usize {
    std::fs::read_to_string(bench.path("log")).unwrap_or_default().matches(text).count()
}

pub(super) fn leased(bench: &Workbench) -> Result<()> {
    let sent = bench.file("sent", FILE)?;
    let host = Host::new(bench)?;
    host.ip(&format!("addr add {SERVER}/32 dev lo"))?;
    let _dnsmasq = dnsmasq(bench, &host)?;
    let capture = Capture::start(bench, &host, "ws0")?;

    let socat = sink(bench, &host, "TCP4")?;
    let mut sender = ours(bench, &host, "ttcp", &["dhcp"])?;
    // The search list makes it `server.test`, the name server knows that, the router leads there.
    sender.args(["--offload", "off", "-t", "server", "--file"]).arg(&sent);
    let (_, said) = bench.run_both(&mut sender, LIMIT)?;
    for line in ["by DHCP from 10.9.0.1", "; router 10.9.0.1;", "; name server 10.9.0.1\n"] {
        ensure!(said.contains(line), "no '{line}' in {said}");
    }
    socat.finish(LIMIT)?;
    arrived(bench).context("to the server")?;
    until("the lease is given back", LIMIT, || Ok(logged(bench, "DHCPRELEASE(ws0)") == 1))?;

    std::fs::remove_file(bench.path("received"))?;
    let before = logged(bench, "DHCPACK(ws0)");
    let mut receiver = ours(bench, &host, "ttcp", &["dhcp"])?;
    receiver.args(["--offload", "off", "-r", "--file"]).arg(bench.path("received"));
    let receiver = host.start("ttcp", &mut receiver)?;
    until("the lease is renewed twice", LIMIT, || Ok(logged(bench, "DHCPACK(ws0)") >= before + 3))?;
    let said = std::fs::read_to_string(bench.path("ttcp.err"))?;
    let address = said.split_once("address: ").and_then(|(_, rest)| rest.split_once('/'));
    let (address, _) = address.with_context(|| format!("no address in {said}"))?;
    let to = format!("TCP4:{address}:5001,bind={SERVER}");
    let mut socat = host.command("socat");
    socat.args(["-u", "-b", "131072", &format!("FILE:{}", shown(&sent)?), &to]);
    bench.run(&mut socat, LIMIT)?;
    receiver.finish(LIMIT)?;
    arrived(bench).context("from the server")?;
    until("the lease is given back", LIMIT, || Ok(logged(bench, "DHCPRELEASE(ws0)") == 2))?;

    let captured = capture.finish(bench)?;
    // A request that renews has our address as source, and is for the server alone.
    captured.has(&format!("dhcp.option.dhcp == 3 && ip.src == {address} && ip.dst == 10.9.0.1"))?;
    captured.is_clean()
}
