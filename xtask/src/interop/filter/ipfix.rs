//! Flow export: the router between two hosts translates, and nfcapd behind one of its ports
//! collects. nfdump prints the flows, and tshark reads each message.
//!
//! Called by: the suite `filter`. RFC 7011, RFC 8158. docs/filter.md.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::interop::Workbench;
use crate::interop::host::Running;
use crate::interop::ip::capture::Capture;
use crate::interop::ip::until;
use crate::interop::outside::shown;
use crate::interop::router::scene::{LAN, LIMIT, Scene, WAN};

/// Hosts on the left have the router's address on the right.
const RULES: &str = "[filter]\nrules = 'pass'\n[nat]\n\
                     rules = 'source out lan from 192.0.2.0/24 to port'\n";
const EXPORT: &str = "[ipfix]\ncollector = \"198.51.100.2:4739\"\nactive = \"2s\"\n\
                      template = \"2s\"\ndomain = 7\ndestinations = true\n";
const DONE: &str = "changes took effect";

/// Bytes of the file that curl gets.
const FILE: u64 = 300_000;

/// nfcapd on the right, which writes to a folder of its own.
struct Collector<'a> {
    scene: &'a Scene<'a>,
    name: &'a str,
    running: Running,
    folder: PathBuf,
}

impl<'a> Collector<'a> {
    fn start(scene: &'a Scene<'a>, name: &'a str) -> Result<Collector<'a>> {
        let folder = scene.bench.path(name);
        std::fs::create_dir(&folder)?;
        let mut nfcapd = scene.right.command("nfcapd");
        nfcapd.args(["-w", shown(&folder)?, "-p", "4739", "-t", "2"]);
        let running = scene.right.start(name, &mut nfcapd)?;
        let collector = Collector { scene, name, running, folder };
        until("nfcapd listens", LIMIT, || Ok(collector.said()?.contains("Startup nfcapd")))?;
        Ok(collector)
    }

    /// What it has said so far.
    fn said(&self) -> Result<String> {
        let errors = self.scene.bench.path(&format!("{}.err", self.name));
        Ok(std::fs::read_to_string(errors)? + &self.scene.right.printed(self.name))
    }

    /// The flows in the files that are complete; nfcapd completes one each two seconds.
    fn flows(&self) -> Result<Vec<Value>> {
        let mut nfdump = Command::new("nfdump");
        nfdump.args(["-R", shown(&self.folder)?, "-o", "json"]);
        // There may be no file yet.
        let text = self.scene.bench.run(&mut nfdump, LIMIT).unwrap_or_default();
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Wait for a flow with these fields.
    fn until_flow(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        let (mut found, mut all) = (None, Vec::new());
        let waited = until(what, LIMIT, || {
            all = self.flows()?;
            found = all.iter().find(|flow| is_it(flow)).cloned();
            Ok(found.is_some())
        });
        waited.with_context(|| format!("nfdump has {}", Value::from(all)))?;
        found.context("no flow")
    }

    fn kill(self) -> Result<()> {
        let id = self.running.id().to_string();
        self.scene.bench.run(Command::new("kill").args(["-KILL", &id]), LIMIT)?;
        self.running.for_at_most(LIMIT)
    }
}

fn is(flow: &Value, fields: &[(&str, &str)]) -> bool {
    fields.iter().all(|(name, value)| match &flow[*name] {
        Value::String(text) => text == value,
        other => format!("{other}") == *value,
    })
}

fn count(flow: &Value, name: &str) -> u64 {
    flow[name].as_u64().unwrap_or(0)
}

/// curl on the left gets the file from the right.
fn get(scene: &Scene<'_>, host: &str) -> Result<()> {
    let mut curl = scene.left.command("curl");
    curl.args(["-sSf", "-m", "20", "-o", "/dev/null", "-w", "%{size_download}"]);
    let got = scene.bench.run(curl.arg(format!("http://{host}:5001/file")), LIMIT)?;
    ensure!(got.trim() == FILE.to_string(), "curl got {got} bytes");
    Ok(())
}

fn exported(scene: &Scene<'_>, what: &str) -> Result<u64> {
    let rows = scene.shown_of("filter", "ipfix")?;
    rows[0][what].as_u64().with_context(|| format!("show filter has no {what}: {rows}"))
}

/// Memory of the worker, in KB.
fn memory(scene: &Scene<'_>) -> Result<u64> {
    let [_, worker] = scene.processes()?;
    let status = std::fs::read_to_string(format!("/proc/{worker}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

pub(super) fn collected(bench: &Workbench) -> Result<()> {
    let plain = [WAN, LAN, RULES].concat();
    let scene = Scene::plain(bench, &plain)?;
    bench.file("file", FILE as usize)?;
    let mut server = scene.right.command("python3");
    server.args(["-m", "http.server", "5001", "--bind", "::", "--directory"]);
    server.arg(shown(&bench.path("."))?);
    let server = scene.right.start("server", &mut server)?;
    scene.right.until_listening()?;
    let capture = Capture::start(bench, &scene.right, "ws1")?;
    let collector = Collector::start(&scene, "flows")?;
    // Flow export begins with a reload.
    scene.reload(&(plain.clone() + EXPORT), DONE)?;
    flows(&scene, &collector)?;
    lasting(&scene, &collector)?;

    // The collector goes away: traffic goes on, ICMP errors are counted, memory is bounded.
    collector.kill()?;
    let before = memory(&scene)?;
    for _ in 0..20 {
        get(&scene, "198.51.100.2")?;
    }
    until("ICMP errors", LIMIT, || Ok(exported(&scene, "icmp_errors")? > 0))?;
    let away = "ipfix: 198.51.100.2:4739 cannot be reached: Destination Port Unreachable";
    until("the log says that it is away", LIMIT, || Ok(scene.times(away) == 1))?;
    let rows = scene.shown_of("filter", "ipfix")?;
    let failure = rows[0]["failure"].as_str().unwrap_or_default();
    ensure!(failure == "Destination Port Unreachable, from 198.51.100.2", "{rows}");
    let after = memory(&scene)?;
    ensure!(after < before + 16_384, "the worker had {before} KB, and has {after} KB");

    // It comes back and has no templates, which come again; records before them are lost.
    let collector = Collector::start(&scene, "again")?;
    until("a flow after the collector is back", LIMIT, || {
        get(&scene, "198.51.100.2")?;
        std::thread::sleep(Duration::from_millis(500));
        let all = collector.flows()?;
        Ok(all.iter().any(|flow| is(flow, &[("src4_addr", "192.0.2.1"), ("dst_port", "5001")])))
    })?;
    let back = "ipfix: 198.51.100.2:4739 can be reached again";
    until("the log says that it is back", LIMIT, || Ok(scene.times(back) == 1))?;
    ensure!(scene.times(away) == 1, "{}", scene.log());
    ensure!(exported(&scene, "lost")? == 0 && exported(&scene, "unsent")? == 0);

    // Another reload ends it.
    scene.reload(&plain, DONE)?;
    ensure!(scene.times("ipfix: removed") == 1, "{}", scene.log());
    // No record was lost on the way.
    let said = collector.said()?;
    ensure!(said.contains("Sequence Errors: 0"), "nfcapd said nothing of sequences: {said}");
    let errors = said
        .lines()
        .find(|line| line.contains("Sequence Errors") && !line.contains("Sequence Errors: 0"));
    ensure!(errors.is_none(), "{said}");
    drop((collector, server));
    let captured = capture.finish(bench)?;
    captured.is_sound()?;
    let (all, read) =
        (captured.count("udp.port == 4739 && !icmp")?, captured.count("cflow && !icmp")?);
    ensure!(all > 0 && all == read, "tshark reads {read} of {all} messages");
    captured.has("cflow.nat_event == 4")?;
    let gaps = captured.count("cflow && !icmp && _ws.expert.message contains \"sequence\"")?;
    ensure!(gaps == 0, "tshark misses records {gaps} times");
    scene.end()
}

/// TCP, UDP and ICMP in both directions, with their translation.
fn flows(scene: &Scene<'_>, collector: &Collector<'_>) -> Result<()> {
    get(scene, "198.51.100.2")?;
    get(scene, "[2001:db8:2::2]")?;
    scene.said("echo words | socat -u - UDP4:198.51.100.2:9")?;
    scene.answers("198.51.100.2")?;
    let there = collector.until_flow("curl's flow", |flow| {
        is(flow, &[("src4_addr", "192.0.2.1"), ("dst_port", "5001"), ("proto", "6")])
            && count(flow, "in_packets") > 0
    })?;
    let port = there["src_xlt_port"].as_str().context("no translated port")?.to_owned();
    ensure!(
        is(&there, &[("src4_xlt_ip", "198.51.100.1"), ("dst4_addr", "198.51.100.2")]),
        "{there}"
    );
    let back = collector.until_flow("the answer's flow", |flow| {
        is(flow, &[("src4_addr", "198.51.100.2"), ("src_port", "5001"), ("dst_port", &port)])
            && count(flow, "in_packets") > 0
    })?;
    ensure!(
        is(&back, &[("dst4_addr", "198.51.100.1"), ("dst4_xlt_ip", "192.0.2.1")])
            && back["dst_xlt_port"].as_str() == Some(&there["src_port"].to_string()),
        "{back}"
    );
    ensure!(there["input_snmp"] == back["output_snmp"], "{there} {back}");
    // All bytes of the file, and not twice.
    let sum = |name: &str| -> Result<u64> {
        let all = collector.flows()?;
        let ours = all.iter().filter(|flow| {
            is(flow, &[("src4_addr", "198.51.100.2"), ("dst_port", &port), ("src_port", "5001")])
        });
        Ok(ours.map(|flow| count(flow, name)).sum())
    };
    let bytes = sum("in_bytes")?;
    ensure!((FILE..FILE + FILE / 10).contains(&bytes), "{bytes} bytes for a file of {FILE}");
    collector.until_flow("a session", |flow| {
        is(flow, &[("nat_event", "NAT44 session create"), ("src_xlt_port", &port)])
    })?;
    collector.until_flow("IPv6", |flow| {
        is(flow, &[("src6_addr", "2001:db8:2::2"), ("src_port", "5001")])
            && count(flow, "in_bytes") > FILE
    })?;
    collector.until_flow("the datagram", |flow| {
        is(flow, &[("proto", "17"), ("dst_port", "9"), ("in_packets", "1"), ("in_bytes", "34")])
    })?;
    collector.until_flow("the ping", |flow| {
        is(flow, &[("proto", "1"), ("icmp_type", "8"), ("in_bytes", "84")])
    })?;
    Ok(())
}

/// A flow that lasts has a record each two seconds.
fn lasting(scene: &Scene<'_>, collector: &Collector<'_>) -> Result<()> {
    let mut ping = scene.left.command("ping");
    ping.args(["-n", "-i", "0.2", "-c", "40", "-s", "1000", "198.51.100.2"]);
    let ping = scene.left.start("ping", &mut ping)?;
    let mut records = Vec::new();
    until("three records of a flow that lasts", Duration::from_secs(40), || {
        let all = collector.flows()?;
        let ours = all.into_iter().filter(|flow| {
            is(flow, &[("src4_addr", "192.0.2.1"), ("icmp_type", "8")])
                && count(flow, "in_bytes") == 1_028 * count(flow, "in_packets")
        });
        records = ours.collect();
        Ok(records.len() >= 3)
    })?;
    ping.finish(LIMIT)?;
    let packets: u64 = records.iter().map(|flow| count(flow, "in_packets")).sum();
    ensure!(packets <= 40, "{packets} packets in {records:?}");
    Ok(())
}
