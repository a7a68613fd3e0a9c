//! Scanners and forgers at a firewall: nmap sees what the rules say; hping3's and scapy's forged
//! segments, ICMP errors and fragments are dropped by name.
//!
//! Called by: the suite `filter`. RFC 5961 and RFC 5927 (forged RST and ICMP), RFC 1858
//! (fragments).

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::scene::{NAT, Site, VERSIONS, Version, config, has, script};
use crate::interop::Workbench;
use crate::interop::host::Running;
use crate::interop::ip::until;
use crate::interop::router::PYTHON;
use crate::interop::router::scene::{LIMIT, tail};

/// What nmap is shown of a host: one port for each thing that rules can do with it.
const SCANNED: &str = "\
pass   in lan
pass   in wan to {10.0.0.2, fd00:1::2} tcp {80, 81}
reject in wan tcp 82
block  in wan tcp 83
pass   in wan to {10.0.0.2, fd00:1::2} tcp 84 loose
pass   in wan to {10.0.0.2, fd00:1::2} udp {53, 54}
reject in wan udp 55
block  in wan udp 56
";

/// Ports with the states that nmap prints.
type Expected = &'static [(u16, &'static str)];

/// nmap's scans, the ports, and the state of each.
const SCANS: [(&str, &str, Expected); 3] = [
    (
        "-sS",
        "80-84",
        &[(80, "open"), (81, "closed"), (82, "closed"), (83, "filtered"), (84, "closed")],
    ),
    // An ACK without a flow passes by a rule that is `loose`, and a rejecting rule answers it.
    (
        "-sA",
        "80-84",
        &[
            (80, "filtered"),
            (81, "filtered"),
            (82, "unfiltered"),
            (83, "filtered"),
            (84, "unfiltered"),
        ],
    ),
    // A rule that rejects says "administratively prohibited" (RFC 1812, RFC 4443).
    ("-sU", "53-56", &[(53, "open"), (54, "closed"), (55, "filtered"), (56, "open|filtered")]),
];

/// The states of ports by nmap's `-oG` output: `80/open/tcp//http///, 81/...`.
fn ports(printed: &str) -> Result<BTreeMap<u16, String>> {
    let (_, list) = printed.split_once("Ports: ").context("nmap lists no ports")?;
    let list = list.split('\t').next().unwrap_or(list);
    let port = |entry: &str| {
        let mut parts = entry.trim().split('/');
        let number = parts.next()?.parse().ok()?;
        Some((number, parts.next()?.to_owned()))
    };
    Ok(list.split(',').filter_map(port).collect())
}

/// nmap's SYN, ACK and UDP scans from outside show each port as the rules treat it.
pub(super) fn nmap(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench, &config(SCANNED, ""))?;
    site.is_up()?;
    let _http = site.start(&site.server, "http", "socat TCP6-LISTEN:80,fork,reuseaddr EXEC:cat")?;
    let _dns = site.start(&site.server, "dns", "socat UDP6-LISTEN:53,fork,reuseaddr EXEC:cat")?;
    site.listens(&site.server, 80)?;
    for Version { name, server, .. } in &VERSIONS {
        let six = if server.contains(':') { "-6" } else { "" };
        for (scan, range, expected) in SCANS {
            let command = format!(
                "nmap {six} {scan} -n -Pn -p {range} --max-retries 2 --max-rtt-timeout 200ms \
                 -oG - {server}"
            );
            let printed = site.said(&site.scene.right, &command)?;
            let seen = ports(&printed).with_context(|| tail(&printed).to_owned())?;
            let expected: BTreeMap<u16, String> =
                expected.iter().map(|(port, state)| (*port, (*state).to_owned())).collect();
            ensure!(seen == expected, "{name}, nmap {scan} saw {seen:?}, not {expected:?}");
        }
        println!("  {name}: nmap -sS, -sA and -sU saw each port as the rules treat it");
    }
    site.end()
}

const FORGED: &str = "\
pass in lan out wan
pass in wan to {10.0.0.2, fd00:1::2} {tcp, udp} 5353
pass in wan to self icmp echo-request new 20/s
";

/// A connection of the client with the host outside that says a line each tenth of a second.
fn talk(site: &Site<'_>, version: &Version) -> Result<(Running, Running, Value)> {
    let kind = if version.outside.contains(':') { "TCP6" } else { "TCP4" };
    let name = format!("talk-{}", version.name);
    let listen = format!("socat {kind}-LISTEN:7,reuseaddr EXEC:cat");
    let server = site.start(&site.scene.right, &format!("{name}-server"), &listen)?;
    site.listens(&site.scene.right, 7)?;
    let say = "sh -c 'while echo still; do sleep 0.1; done'";
    let to = version.url(version.outside);
    let command = format!("sh -c \"{say} | socat -u - STDOUT | socat - {kind}:{to}:7\"");
    let client = site.start(&site.scene.left, &name, &command)?;
    goes_on(site, version)?;
    let state = site.state(&format!("proto tcp dport 7 dst {}", version.outside))?;
    Ok((server, client, state))
}

/// The connection still moves lines.
fn goes_on(site: &Site<'_>, version: &Version) -> Result<()> {
    let name = format!("talk-{}", version.name);
    let lines = || site.scene.left.printed(&name).lines().count();
    let before = lines();
    let what = format!("{name}: another line");
    until(&what, LIMIT, || Ok(lines() > before + 1))
}

/// The address and port of an end, as `show` writes it.
fn end_of(state: &Value, field: &str) -> Result<(String, u16)> {
    let text = state[field].as_str().with_context(|| format!("no {field} in {state}"))?;
    let (address, port) = text.rsplit_once(':').with_context(|| format!("no port: {text}"))?;
    Ok((address.trim_matches(['[', ']']).to_owned(), port.parse()?))
}

/// hping3 and scapy forge RSTs and ICMP errors of a flow; it goes on, and each is counted.
pub(super) fn forged(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench, &config(FORGED, NAT))?;
    site.is_up()?;
    for version in &VERSIONS {
        let (_server, _client, state) = talk(&site, version)?;
        let (mapped, port) = end_of(&state, "reply_dst")?;
        let before = site.drops()?;
        // Sequence numbers at random, from the address and the port of the flow.
        let forge = match version.outside.contains(':') {
            true => format!(
                "{PYTHON} {} rst {} {mapped} {port} ws1",
                script(bench, "frames.py")?,
                version.outside
            ),
            false => format!("hping3 -q -R -s 7 -k -p {port} -c 20 -i u2000 {mapped}"),
        };
        let said = site.said(&site.scene.right, &forge)?;
        site.dropped(&before, "filter_window", 15).with_context(|| tail(&said).to_owned())?;
        goes_on(&site, version).context("after forged RSTs")?;
        let state = site.state(&format!("proto tcp dport 7 dst {}", version.outside))?;
        ensure!(state["phase"] == "established", "after forged RSTs: {state}");
    }
    // Errors that quote a packet of no flow, to the router and to a host behind it.
    let before = site.drops()?;
    for (to, name) in [("198.51.100.1", "icmp_error_no_match"), ("10.0.0.3", "filter_icmp")] {
        let error = format!(
            "hping3 -q --icmp -C 3 -K 1 --icmp-ipsrc {to} --icmp-ipdst 198.51.100.2 \
             --icmp-srcport 9 --icmp-dstport 9 -c 10 -i u2000 {to}"
        );
        let said = site.said(&site.scene.right, &error)?;
        site.dropped(&before, name, 10).with_context(|| tail(&said).to_owned())?;
    }
    // Echo requests of forged sources beyond the rate of their rule.
    let flood = "hping3 -q --icmp --rand-source -c 200 -i u1000 198.51.100.1";
    let said = site.said(&site.scene.right, flood)?;
    site.dropped(&before, "filter_rate", 50).with_context(|| tail(&said).to_owned())?;
    println!("  forged RSTs, ICMP errors and echo requests: {:?}", site.grown(&before)?);
    site.end()
}

/// scapy's fragments: in order and reversed they arrive, overlapping and refused ones do not.
pub(super) fn fragments(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench, &config(FORGED, ""))?;
    site.is_up()?;
    let echo = "socat UDP6-LISTEN:5353,fork,reuseaddr EXEC:cat";
    let _echo = site.start(&site.server, "echo", echo)?;
    let discard = "socat -u TCP6-LISTEN:5353,fork,reuseaddr STDOUT";
    let _discard = site.start(&site.server, "discard", discard)?;
    site.listens(&site.server, 5353)?;
    for version in &VERSIONS {
        let run = |what: &str| {
            let command = format!(
                "{PYTHON} {} {what} {} {} 5353 ws1",
                script(bench, "frames.py")?,
                version.outside,
                version.server
            );
            site.said(&site.scene.right, &command)
        };
        for what in ["in-order", "reversed"] {
            has(&run(what)?, "answered").with_context(|| format!("{}: {what}", version.name))?;
        }
        for what in ["headless", "two-heads", "tiny", "overlapping"] {
            let before = site.drops()?;
            let what_said = run(what)?;
            has(&what_said, "silence").with_context(|| format!("{}: {what}", version.name))?;
            // Fragments wait two seconds for the first one.
            let mut grown = Vec::new();
            let named = until("a drop of the filter", LIMIT, || {
                grown = site.grown(&before)?;
                grown.retain(|(name, _)| name.starts_with("filter_"));
                Ok(!grown.is_empty())
            });
            named.with_context(|| format!("{}: {what}", version.name))?;
            println!("  {}: {what} fragments: {grown:?}", version.name);
        }
    }
    site.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_nmaps_line_are_read() {
        let line = "Host: 10.0.0.2 ()\tPorts: 80/open/tcp//http///, 83/filtered/tcp/////\tIgnored";
        let read = ports(line).unwrap();
        assert_eq!((&*read[&80], &*read[&83], read.len()), ("open", "filtered", 2));
        assert!(ports("Host: 10.0.0.2 ()\tStatus: Up").is_err());
    }
}
