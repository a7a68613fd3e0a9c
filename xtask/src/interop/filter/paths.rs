//! The way through a router that translates: traceroute's hops, tracepath's path MTU, and what a
//! STUN client says of the NAT.
//!
//! Called by: the suite `filter`. RFC 1191, RFC 8201 and RFC 5508 (errors about translated
//! packets), RFC 4787 and RFC 5780 (mapping and filtering).

use anyhow::{Context, Result, ensure};

use super::scene::{NAT, PORTS, Site, VERSIONS, config, has, script};
use crate::interop::Workbench;
use crate::interop::ip::until;
use crate::interop::router::PYTHON;
use crate::interop::router::scene::{LIMIT, tail};

const OUT: &str = "pass in lan out wan label out\n";

/// The router's addresses inside, and those of the host outside: the hops to the one behind it.
const HOPS: [[&str; 3]; 2] =
    [["10.0.0.1", "198.51.100.2", "203.0.113.2"], ["fd00:1::1", "2001:db8:2::2", "2001:db8:3::2"]];

/// traceroute with UDP, ICMP and TCP has each hop; tracepath has the narrow ones.
pub(super) fn traced(bench: &Workbench) -> Result<()> {
    let narrow = PORTS.replace(
        "device = \"tap:ws1\"\n",
        // The link of the host outside is as narrow, as both ends of a link are.
        "device = \"tap:ws1\"\nmtu = 1400\n",
    );
    let config = config(OUT, NAT).replace(PORTS, &narrow);
    let site = Site::new(bench, &config)?;
    site.scene.right.ip("link set f0 mtu 1300")?;
    site.is_up()?;
    for (version, hops) in VERSIONS.iter().zip(HOPS) {
        for kind in ["-U", "-I", "-T -p 80"] {
            let to = version.far;
            let command = format!("traceroute {kind} -n -q 1 -w 2 -m 5 {to}");
            let trace = site.said(&site.scene.left, &command)?;
            let lines = trace.lines().skip(1);
            let seen: Vec<&str> = lines.filter_map(|line| line.split_whitespace().nth(1)).collect();
            ensure!(seen == hops, "{}, {kind}: the hops are {trace}", version.name);
        }
        let trace = site.said(&site.scene.left, &format!("tracepath -n {}", version.far))?;
        for part in ["pmtu 1400", "pmtu 1300", "Resume: pmtu 1300 hops 3 back 3"] {
            has(&trace, part).context(version.name)?;
        }
        // The narrow links are named: the router's own error, and one from behind the translation.
        let line = |hop: &str, pmtu: &str| {
            trace.lines().any(|line| line.contains(hop) && line.contains(pmtu))
        };
        ensure!(line(hops[0], "pmtu 1400") && line(hops[1], "pmtu 1300"), "{trace}");
        println!("  {}: 3 hops by UDP, ICMP and TCP; pmtu 1500, 1400, 1300", version.name);
    }
    site.end()
}

/// The host outside has a second address, as RFC 5780 asks of a server.
const SECOND: &str = "198.51.100.3";

/// A STUN client names the mapping, which is endpoint-independent, and the filtering as configured.
pub(super) fn stun(bench: &Workbench) -> Result<()> {
    let nat = |filtering: &str| {
        format!("[nat]\nrules = 'source out wan from 10.0.0.0/8 to port{filtering}'\n")
    };
    let with = |filtering: &str| config(&format!("{OUT}{IN}"), &nat(filtering));
    let site = Site::new(bench, &with(""))?;
    site.scene.answers(VERSIONS[0].outside)?;
    site.scene.right.ip(&format!("addr add {SECOND}/24 dev ws1"))?;
    let program = script(bench, "stun.py")?;
    let serve = format!("{PYTHON} {program} serve 198.51.100.2 {SECOND} 3478");
    let _server = site.start(&site.scene.right, "stun", &serve)?;
    until("the STUN server is ready", LIMIT, || {
        Ok(site.scene.right.printed("stun").contains("ready"))
    })?;
    for (filtering, expected) in [
        ("", "address-dependent"),
        (" filtering independent", "endpoint-independent"),
        (" filtering port", "address-and-port-dependent"),
        (" filtering address", "address-dependent"),
    ] {
        if !filtering.is_empty() {
            site.reload(&with(filtering))?;
        }
        let ask = format!("{PYTHON} {program} ask 198.51.100.2 3478");
        let said = site.said(&site.scene.left, &ask)?;
        let wanted = format!("mapping endpoint-independent\nfiltering {expected}\nport kept\n");
        ensure!(said == wanted, "`source ... to port{filtering}`: {}", tail(&said));
        println!("  `to port{filtering}`: {}", said.trim().replace('\n', ", "));
    }
    site.end()
}

/// Packets to a mapping that another host sends begin flows of their own, which a rule passes.
const IN: &str = "pass in wan to 10.0.0.0/24 udp 1024-65535 label mapped\n";
