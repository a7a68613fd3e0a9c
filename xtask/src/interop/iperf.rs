//! iperf3 at both ends, our stack and its proxy between them.
//!
//! Called by: the suite `outside`. iperf3's ends exchange data over a control connection before
//! they measure, so a discard or chargen service is not enough: a real client talks to a real
//! server through the program `proxy`. The client's namespace has one default route, our TUN. The
//! proxy accepts every connection that arrives there, to any destination, and connects onward from
//! the server's namespace. The proxy does not carry UDP, so iperf3's `-u` is not used.

use super::host::{Host, Running};
use super::{Case, Need, Workbench};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;

pub(super) const IPERF3: Need = Need::Program { program: "iperf3", package: "iperf3" };
const NEEDS: &[Need] = &[
    Need::Root,
    Need::File("/dev/net/tun"),
    Need::Program { program: "ip", package: "iproute2" },
    IPERF3,
];

pub(super) const IPV4: Case =
    Case { name: "iperf3 both ways through our proxy, IPv4", needs: NEEDS, run: |b| run(b, V4) };
pub(super) const IPV6: Case =
    Case { name: "iperf3 both ways through our proxy, IPv6", needs: NEEDS, run: |b| run(b, V6) };

/// The addresses of a version of IP.
#[derive(Clone, Copy)]
struct Version {
    name: &'static str,
    flag: &'static str,
    /// Addresses of the kernel and of our stack, at the ends of the TUN.
    kernel: &'static str,
    ours: &'static str,
    /// Address of the server, in a network of its own.
    server: &'static str,
}

const V4: Version = Version {
    name: "IPv4",
    flag: "-4",
    kernel: "10.8.0.1/24",
    ours: "10.8.0.2",
    server: "198.51.100.5",
};
const V6: Version = Version {
    name: "IPv6",
    flag: "-6",
    kernel: "fd08::1/64",
    ours: "fd08::2",
    server: "2001:db8:5::5",
};

/// How long each direction is measured, in seconds.
const SECONDS: &str = "3";
/// A connection with fewer bytes than this in that time has stalled.
const BYTES_MIN: f64 = 1e6;

fn run(bench: &Workbench, version: Version) -> Result<()> {
    let (near, far) = (Host::new(bench)?, Host::new(bench)?);
    let prefix = if version.flag == "-4" { 32 } else { 128 };
    far.ip(&format!("addr add {}/{prefix} dev lo", version.server))?;
    let mut server = far.command("iperf3");
    let _server = far.start("iperf3", server.args(["-s", version.flag]))?;
    far.until(|| {
        let mut listening = far.command("sh");
        listening.args(["-c", "ss -Hltn sport = :5201 | grep -q LISTEN"]);
        Ok(listening)
    })?;
    let _proxy = proxy(bench, &near, &far, version)?;
    for (words, ends) in [(&[][..], "client to server"), (&["-R"][..], "server to client")] {
        let measured = near.until(|| {
            let mut client = near.command("iperf3");
            client.args(["-c", version.server, "-J", "-t", SECONDS]).args(words);
            Ok(client)
        })?;
        let gbit_per_s = moved(&measured)?;
        println!("  iperf3 {}, {ends}, through our proxy: {gbit_per_s:.2} Gb/s", version.name);
    }
    Ok(())
}

/// The proxy in the namespace of `far`, and its TUN in that of `near`, where it is the default
/// route.
fn proxy<'a>(
    bench: &Workbench,
    near: &Host<'a>,
    far: &Host<'a>,
    version: Version,
) -> Result<Running> {
    let program = bench.built("proxy")?;
    let mut proxy = far.command(program.to_str().context("a path that is no text")?);
    proxy.args(["--dev", "wsx", "--kernel", version.kernel, "--ours", version.ours]);
    let running = far.start("proxy", &mut proxy)?;
    // The program opens the interface in its own namespace; the descriptor stays open when the
    // interface is moved.
    far.until(|| {
        let mut carrying = Command::new("grep");
        carrying.args(["-q", "carrying"]).arg(bench.path("proxy.out"));
        Ok(carrying)
    })?;
    far.ip(&format!("link set dev wsx netns {}", near.name()))?;
    for line in [
        &format!("addr add {} dev wsx nodad", version.kernel)[..],
        "link set wsx up",
        &format!("route add default via {} dev wsx", version.ours),
    ] {
        // IPv4 has no duplicate address detection, so `nodad` is left out.
        let line = if version.flag == "-4" { line.replace(" nodad", "") } else { line.to_owned() };
        near.ip(&format!("{} {line}", version.flag))?;
    }
    Ok(running)
}

/// The rate at the receiving end in Gb/s; an error unless both ends agree and bytes moved.
pub(super) fn moved(text: &str) -> Result<f64> {
    let report: Value = serde_json::from_str(text).context("iperf3 -J printed no JSON")?;
    if let Some(error) = report.get("error") {
        anyhow::bail!("iperf3 says: {error}");
    }
    let figure = |path: &str| {
        report.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path}: {text}"))
    };
    let (sent, received) = (figure("/end/sum_sent/bytes")?, figure("/end/sum_received/bytes")?);
    ensure!(received > BYTES_MIN, "iperf3 received {received} bytes of {sent} in {SECONDS} s");
    ensure!(received <= sent, "iperf3 received {received} bytes, and {sent} were sent");
    Ok(figure("/end/sum_received/bits_per_second")? / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_bytes_or_with_an_error_is_a_failure() {
        let end = |sent: u64, received: u64| {
            format!(
                r#"{{"end": {{"sum_sent": {{"bytes": {sent}}},
                    "sum_received": {{"bytes": {received}, "bits_per_second": 2.5e9}}}}}}"#
            )
        };
        assert_eq!(moved(&end(2_000_000, 1_500_000)).unwrap(), 2.5);
        assert!(moved(&end(2_000_000, 0)).is_err());
        assert!(moved(&end(1_500_000, 2_000_000)).is_err());
        assert!(moved(r#"{"error": "unable to connect"}"#).is_err());
        assert!(moved("iperf3: error").is_err());
    }
}
