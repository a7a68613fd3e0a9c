//! nmap: the ports that each kind of probe finds open, and nmap's measurements of our sequence
//! numbers and identifications.
//!
//! Called by: the suite `attacks`.

use super::super::Workbench;
use super::scene::Scene;
use anyhow::{Context, Result, ensure};

/// The ports of `wirespeed services`, among closed ones.
const PORTS: &str = "1-30,80,443,5001,8080";
const OPEN: [&str; 4] = ["7/tcp", "9/tcp", "13/tcp", "19/tcp"];
/// nmap's index of sequence number predictability; from 256 on it says "good luck". The value for a
/// keyed hash and a clock is never much below.
const INDEX_LEAST: u32 = 200;

/// A kind of probe, and what nmap must report of an open port and of a closed one; empty for no
/// report.
const SCANS: [(&str, &str, &str); 5] = [
    ("-sS", "open", "closed"),
    ("-sA", "unfiltered", "unfiltered"),
    ("-sF", "open|filtered", "closed"),
    ("-sN", "open|filtered", "closed"),
    ("-sX", "open|filtered", "closed"),
];
/// Wrong checksums, and fragments that are not reassembled, draw no answer.
const SILENT: [&str; 3] = ["-sS --badsum", "-sS -f", "-sS --mtu 8"];

pub(super) fn run(bench: &Workbench) -> Result<()> {
    let mut scene = Scene::new(bench)?;
    for (scan, open, closed) in SCANS {
        let printed = nmap(&scene, scan, PORTS)?;
        for port in OPEN {
            let state = state_of(&printed, port);
            ensure!(state == Some(open), "{scan}: {port} is {state:?}, not {open}: {printed}");
        }
        let state = state_of(&printed, "80/tcp");
        ensure!(state == Some(closed), "{scan}: 80/tcp is {state:?}, not {closed}: {printed}");
    }
    for scan in SILENT {
        let printed = nmap(&scene, scan, "7,9,80")?;
        for port in ["7/tcp", "80/tcp"] {
            let state = state_of(&printed, port);
            ensure!(state == Some("filtered"), "{scan}: {port} is {state:?}: {printed}");
        }
    }
    let datagrams = udp(&scene)?;
    let v6 = over_v6(&scene)?;
    let protocols = nmap(&scene, "-sO", "1,2,4,6,17,41,47,132")?;
    let scripts = nmap(&scene, "-sS --script ipidseq,path-mtu", "7,80")?;
    let system = nmap(&scene, "-O -d -v", "7,9,80,81")?;
    let sequence = sequence(&system)?;
    let seen = scene.end()?;
    let counted = seen.counted(&["tcp_checksum", "fragments_in", "tcp_no_socket"])?;
    let identification = scripts.lines().find(|line| line.contains("ipidseq")).unwrap_or_default();
    let spoken = protocols.lines().filter(|line| line.contains(" open ")).count();
    println!(
        "nmap's sweeps | ports 7, 9, 13 and 19 and nothing else, SP high, TI and II zero | \
         {sequence}; {}; {spoken} protocols; {datagrams}; {v6}; {counted}; {}",
        identification.trim_start_matches(['|', '_', ' ']),
        seen.text
    );
    Ok(())
}

/// Ports of UDP: an open one answers, or takes what nmap sends in silence; a closed one is refused.
fn udp(scene: &Scene<'_>) -> Result<String> {
    let printed = nmap(scene, "-sU", "7,9,13,19,80,161")?;
    for (port, states) in [
        ("7/udp", ["open", "open|filtered"]),
        ("9/udp", ["open", "open|filtered"]),
        ("80/udp", ["closed", "closed"]),
        ("161/udp", ["closed", "closed"]),
    ] {
        let state = state_of(&printed, port);
        let fits = state.is_some_and(|state| states.contains(&state));
        ensure!(fits, "-sU: {port} is {state:?}, not {}: {printed}", states[0]);
    }
    Ok("UDP 7 and 9 open".to_owned())
}

/// The same over IPv6, and nmap's guess at the system there.
fn over_v6(scene: &Scene<'_>) -> Result<String> {
    for (scan, port, state) in [("-sS", "7/tcp", "open"), ("-sS", "80/tcp", "closed")] {
        let printed = nmap_to(scene, &format!("-6 {scan}"), "7,9,80", "OURS6")?;
        let found = state_of(&printed, port);
        ensure!(found == Some(state), "-6 {scan}: {port} is {found:?}, not {state}: {printed}");
    }
    let printed = nmap_to(scene, "-6 -sU", "7,80", "OURS6")?;
    let found = state_of(&printed, "80/udp");
    ensure!(found == Some("closed"), "-6 -sU: 80/udp is {found:?}, not closed: {printed}");
    let printed = nmap_to(scene, "-6 -sO", "0,6,17,43,44,58,59,132", "OURS6")?;
    let spoken = printed.lines().filter(|line| line.contains(" open ")).count();
    nmap_to(scene, "-6 -O", "7,80", "OURS6")?;
    Ok(format!("IPv6 the same, {spoken} protocols"))
}

fn nmap(scene: &Scene<'_>, scan: &str, ports: &str) -> Result<String> {
    nmap_to(scene, scan, ports, "10.9.0.2")
}

fn nmap_to(scene: &Scene<'_>, scan: &str, ports: &str, to: &str) -> Result<String> {
    let words = format!("nmap -n -Pn -T4 --max-retries 1 --reason {scan} -p {ports} -e ws0 {to}");
    let printed = scene.tool(&words, 40)?;
    ensure!(printed.contains("Nmap done"), "`{words}` did not end: {printed}");
    Ok(printed)
}

/// nmap's state of a port; many ports with the same state share one line.
fn state_of<'a>(printed: &'a str, port: &str) -> Option<&'a str> {
    let line = printed.lines().find(|line| line.split_whitespace().next() == Some(port));
    match line {
        Some(line) => line.split_whitespace().nth(1),
        None => {
            let all = printed.lines().find(|line| line.starts_with("Not shown:"))?;
            ["open|filtered", "unfiltered", "filtered", "closed"]
                .into_iter()
                .find(|state| all.split_whitespace().any(|word| word == *state))
        }
    }
}

/// nmap's SEQ line, after checking its values.
fn sequence(printed: &str) -> Result<String> {
    let at = printed.find("SEQ(").context("nmap -O printed no SEQ line")?;
    let line = printed[at..].split(')').next().unwrap_or_default();
    // Long lines are wrapped after OS:.
    let line = line.replace("\nOS:", "") + ")";
    let field = |name: &str| {
        let fields = line.trim_start_matches("SEQ(").trim_end_matches(')').split('%');
        fields
            .filter_map(|f| f.split_once('='))
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v.to_owned())
    };
    let index = field("SP").context("no SP")?;
    let index = u32::from_str_radix(&index, 16).context("SP is no number")?;
    ensure!(index >= INDEX_LEAST, "nmap could foretell sequence numbers: {line}");
    // II is present if nmap's unusual echo requests were answered.
    for (name, kind) in [("TI", field("TI")), ("II", field("II").or(Some("Z".to_owned())))] {
        ensure!(kind.as_deref() == Some("Z"), "{name} is {kind:?}, not zero: {line}");
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Not shown: 30 closed tcp ports (reset)\n\
        PORT     STATE SERVICE REASON\n7/tcp    open  echo    syn-ack ttl 64\n";

    #[test]
    fn states_are_read_from_lines_and_from_what_is_not_shown() {
        assert_eq!(state_of(PRINTED, "7/tcp"), Some("open"));
        assert_eq!(state_of(PRINTED, "80/tcp"), Some("closed"));
        assert_eq!(state_of("", "80/tcp"), None);
    }

    #[test]
    fn a_sequence_that_can_be_foretold_is_a_failure() {
        let line = |sp: &str, ti: &str| {
            format!("OS:SCAN(V=7)\nOS:SEQ(SP={sp}%GCD=1%ISR=10\nOS:A%TI={ti}%CI=Z%II=Z%TS=A)OPS(")
        };
        assert_eq!(
            sequence(&line("106", "Z")).unwrap(),
            "SEQ(SP=106%GCD=1%ISR=10A%TI=Z%CI=Z%II=Z%TS=A)"
        );
        assert!(sequence(&line("1F", "Z")).is_err());
        assert!(sequence(&line("106", "I")).is_err());
        assert!(sequence("").is_err());
    }
}
