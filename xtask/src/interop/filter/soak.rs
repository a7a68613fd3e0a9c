//! `filter-soak`: rules, links and the address of a masqueraded port change at random while flows
//! pass; sniffers on both sides see that nothing passes against the rules.
//!
//! Called by: the suite `filter-soak`, by its name alone. A flow that all rules pass is never lost,
//! unless its translated address is taken away by the DHCP server. At the end, without states, the
//! router holds as little as at the start. The seed that is printed repeats all steps.

mod plan;
mod sniffed;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use plan::{Epoch, Plan};
use serde_json::Value;
use sniffed::{Judged, Side};

use super::scene::script;
use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use crate::interop::ip::until;
use crate::interop::outside::shown;
use crate::interop::router::PYTHON;
use crate::interop::router::scene::{LIMIT, Scene, each, tail};
use crate::interop::soaking::{Random, have_not_grown, length_and_seed, resident_kb};
use crate::process;

/// After this round the processes have what they need.
const FIRST_ROUNDS: u64 = 20;
/// Time between two addresses of the port with DHCP.
const KEEPS: Duration = Duration::from_secs(20);
/// A mapping of NAT is held for two minutes for its source.
const ENDS: Duration = Duration::from_secs(180);
/// The lease of the DHCP server. A client whose renewal and rebinding are both lost with a link
/// that is down asks again when half of the rest is over, or begins anew at the end.
const LEASE: Duration = Duration::from_secs(120);

const LEFT: [&str; 6] = [
    "addr add 10.0.0.2/24 dev ws0",
    "addr add fd00:1::2/64 dev ws0 nodad",
    "link set ws0 txqueuelen 10000",
    "link set ws0 up",
    "route add default via 10.0.0.1",
    "route add default via fd00:1::1",
];
const RIGHT: [&str; 6] = [
    "addr add 198.51.100.2/24 dev ws1",
    "addr add 2001:db8:2::2/64 dev ws1 nodad",
    "link set ws1 up",
    "addr add 203.0.113.2/24 dev ws2",
    "addr add 2001:db8:3::2/64 dev ws2 nodad",
    "link set ws2 up",
];
/// Routes of a link that go with it.
const ROUTES: [(&str, &[&str]); 3] = [
    ("ws0", &["route replace default via 10.0.0.1", "route replace default via fd00:1::1"]),
    ("ws1", &["route replace 2001:db8:f::/48 via 2001:db8:2::1"]),
    (
        "ws2",
        &[
            "route replace 10.0.0.0/24 via 203.0.113.1",
            "route replace fd00:1::/64 via 2001:db8:3::1",
        ],
    ),
];

/// The steps that were done.
#[derive(Default)]
struct Done {
    reloads: u64,
    broken: u64,
    flaps: u64,
    renumbered: u64,
}

/// The router, and all that goes on around it.
struct Soak<'a> {
    scene: Scene<'a>,
    dnsmasq: Option<Running>,
    /// The third number of dnsmasq's range.
    range: u64,
    since: Instant,
    plan: Plan,
    epochs: Vec<Epoch>,
    random: Random,
    done: Done,
}

pub(super) fn run(bench: &Workbench) -> Result<()> {
    let (length, seed) = length_and_seed("filter-soak", bench.soak())?;
    let mut soak = Soak::new(bench, seed)?;
    let start = soak.holdings()?;
    let sniffers = soak.sniffers()?;
    let traffic = [soak.traffic("inside")?, soak.traffic("outside")?];
    let processes = soak.scene.processes()?;
    let (begun, mut first_kb) = (Instant::now(), None);
    for round in 1.. {
        if begun.elapsed() >= length {
            break;
        }
        ensure!(!process::interrupted(), "interrupted");
        let step = soak.step();
        step.with_context(|| format!("seed {seed}, round {round}; {}", soak.plan.text()))?;
        ensure!(soak.scene.processes()? == processes, "a process was started again");
        if round == FIRST_ROUNDS {
            first_kb = Some(resident_kb(processes)?);
        }
    }
    soak.end_epoch();
    let last_kb = resident_kb(processes)?;
    let told = traffic.iter().map(|one| soak.told(one)).collect::<Result<Vec<_>>>()?;
    drop(traffic);
    let judged = soak.judged(sniffers)?;
    let Done { reloads, broken, flaps, renumbered } = soak.done;
    println!(
        "  {reloads} reloads, {broken} files that are not valid, {flaps} flaps, {renumbered} other \
         addresses by DHCP"
    );
    soak.flows(&told)?;
    let first_kb = first_kb.unwrap_or(last_kb);
    println!("  resident memory {first_kb:?} KB, then {last_kb:?} (first process, worker)");
    nothing_passed(&judged).with_context(|| format!("seed {seed}"))?;
    have_not_grown(first_kb, last_kb)?;
    soak.is_as_at_the_start(&start)?;
    soak.scene.end()
}

/// Nothing passed that rules do not pass, and what they pass did.
fn nothing_passed(judged: &Judged) -> Result<()> {
    let (sent, arrived) = judged.datagrams();
    println!(
        "  {} forbidden packets were sent, {} passed; {} allowed ones passed; {arrived} of {sent} \
         allowed datagrams arrived while all links were up",
        judged.forbidden,
        judged.passed.len(),
        judged.allowed
    );
    let some = &judged.passed[..judged.passed.len().min(20)];
    ensure!(some.is_empty(), "these packets passed: {some:#?}");
    ensure!(judged.forbidden > 100 && sent > 100, "too little traffic to judge");
    // The machine is busy, and a reload or the end of a flap is seen a little later.
    ensure!(arrived * 100 >= sent * 99, "{arrived} of {sent} allowed datagrams arrived");
    Ok(())
}

/// What the router holds while nothing passes.
#[derive(Debug, PartialEq, Eq)]
struct Holdings {
    states: usize,
    mappings: usize,
    /// Of buffers with packets, about.
    bytes: u64,
}

impl<'a> Soak<'a> {
    fn new(bench: &'a Workbench, seed: u64) -> Result<Soak<'a>> {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        let scene = Scene::new(bench, &plan.text(), (&["ws0"], &["ws1", "ws2"]))?;
        each(&scene.left, &LEFT)?;
        each(&scene.right, &RIGHT)?;
        for (link, routes) in &ROUTES[1..] {
            each(&scene.right, routes).with_context(|| format!("the routes of {link}"))?;
        }
        let epochs = vec![plan.in_force()];
        let (since, done) = (Instant::now(), Done::default());
        let mut soak = Soak { scene, dnsmasq: None, range: 4, since, plan, epochs, random, done };
        soak.renumber()?;
        soak.done.renumbered = 0;
        Ok(soak)
    }

    /// One thing that happens.
    fn step(&mut self) -> Result<()> {
        std::thread::sleep(Duration::from_millis(100 + self.random.below(900)));
        match self.random.below(20) {
            0..12 => self.reload(),
            12..14 => {
                self.done.broken += 1;
                let file = Plan::broken(&mut self.random);
                self.scene.reload(&file, "the running configuration stays")
            }
            19 if self.since.elapsed() > KEEPS => self.renumber(),
            _ => self.flap(),
        }
    }

    fn reload(&mut self) -> Result<()> {
        self.plan.change(&mut self.random);
        self.end_epoch();
        self.scene.reload(&self.plan.text(), ", 0 failed")?;
        self.epochs.push(self.plan.in_force());
        self.done.reloads += 1;
        Ok(())
    }

    /// The rules in force may change from now on.
    fn end_epoch(&mut self) {
        if let Some(last) = self.epochs.last_mut() {
            last.until = SystemTime::now();
        }
    }

    fn disturbed(&mut self) {
        if let Some(last) = self.epochs.last_mut() {
            last.is_disturbed = true;
        }
    }

    /// A link goes down and comes back.
    fn flap(&mut self) -> Result<()> {
        self.disturbed();
        let (link, routes) = ROUTES[self.random.below(3) as usize];
        let down = Duration::from_millis(50 + self.random.below(950));
        let host = if link == "ws0" { &self.scene.left } else { &self.scene.right };
        self.scene.link_changed(|| host.ip(&format!("link set {link} down")))?;
        std::thread::sleep(down);
        self.scene.link_changed(|| host.ip(&format!("link set {link} up")))?;
        until("the kernel's routes", LIMIT, || {
            Ok(routes.iter().all(|route| host.ip(route).is_ok()))
        })?;
        self.done.flaps += 1;
        Ok(())
    }

    /// Another range of the DHCP server, so that the port with DHCP gets another address.
    fn renumber(&mut self) -> Result<()> {
        self.disturbed();
        drop(self.dnsmasq.take());
        self.range = if self.range == 7 { 5 } else { self.range + 1 };
        let first = format!("198.51.100.{}0", self.range);
        let mut dnsmasq = self.scene.right.command("dnsmasq");
        dnsmasq.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
        ]);
        dnsmasq.args([
            "--pid-file=",
            "--user=root",
            "--interface=ws1",
            "--bind-dynamic",
            "--port=0",
        ]);
        dnsmasq.args(["--leasefile-ro", "--dhcp-authoritative", "--no-ping"]);
        // One address, which is renewed after five seconds.
        let lease = LEASE.as_secs();
        dnsmasq.arg(format!("--dhcp-range={first},{first},255.255.255.0,{lease}"));
        dnsmasq.args(["--dhcp-option=option:T1,5", "--dhcp-option=option:T2,10"]);
        self.dnsmasq = Some(self.scene.right.start("dnsmasq", &mut dnsmasq)?);
        until("the port has the address of DHCP", LEASE + LIMIT, || {
            let rows = self.scene.show("addresses")?;
            let text = rows.to_string();
            Ok(text.contains(&format!("\"{first}/24\"")))
        })?;
        self.since = Instant::now();
        self.done.renumbered += 1;
        Ok(())
    }

    /// A program of traffic; it has connections when this returns.
    fn traffic(&self, side: &str) -> Result<(String, Running)> {
        let bench = self.scene.bench;
        let host = if side == "inside" { &self.scene.left } else { &self.scene.right };
        let mut traffic = host.command(PYTHON);
        traffic.args([&script(bench, "soak/traffic.py")?, side]);
        let running = host.start(side, &mut traffic)?;
        let said = bench.path(&format!("{side}.err"));
        until("traffic begins", LIMIT, || {
            Ok(std::fs::read_to_string(&said).unwrap_or_default().contains("ready"))
        })?;
        Ok((side.to_owned(), running))
    }

    /// The report of a program of traffic so far.
    fn told(&self, (name, running): &(String, Running)) -> Result<Value> {
        let bench = self.scene.bench;
        let id = running.id().to_string();
        bench.run(Command::new("kill").args(["-TERM", &id]), LIMIT)?;
        let printed = || self.scene.left.printed(name);
        let is_told = until("a report of traffic", LIMIT, || Ok(printed().ends_with('\n')));
        let said = std::fs::read_to_string(bench.path(&format!("{name}.err"))).unwrap_or_default();
        is_told.with_context(|| tail(&said).to_owned())?;
        let printed = printed();
        serde_json::from_str(&printed).with_context(|| format!("no report of traffic: {printed}"))
    }

    /// No steady flow was lost but with its address.
    fn flows(&self, told: &[Value]) -> Result<()> {
        for report in told {
            let failed = report["failed"].as_array().is_none_or(|failed| !failed.is_empty());
            ensure!(!failed, "traffic failed: {report}");
            for (name, flow) in report["flows"].as_object().context("no flows")? {
                let losses = flow["losses"].as_array().context("no losses")?;
                let echoes = flow["echoes"].as_u64().unwrap_or(0);
                println!("  flow {name}: {echoes} echoes, lost {} times", losses.len());
                let may = if name == "v4 wan" { self.done.renumbered as usize } else { 0 };
                ensure!(losses.len() <= may && echoes > 10, "flow {name}: {flow}");
            }
        }
        Ok(())
    }

    /// tcpdump on each link of the hosts.
    fn sniffers(&self) -> Result<Vec<Sniffer>> {
        let sniffer = |(host, link, side): (&Host<'_>, &str, Side)| {
            let bench = self.scene.bench;
            let path = bench.path(&format!("{link}.pcap"));
            let mut tcpdump = host.command("tcpdump");
            tcpdump.args([
                "-i",
                link,
                "-s",
                "96",
                "-B",
                "65536",
                "-Z",
                "root",
                "-w",
                shown(&path)?,
            ]);
            let name = format!("tcpdump-{link}");
            let running = host.start(&name, tcpdump.args(["tcp or udp"]))?;
            let said = bench.path(&format!("{name}.err"));
            until("tcpdump listens", LIMIT, || {
                Ok(std::fs::read_to_string(&said)?.contains("listening on"))
            })?;
            Ok(Sniffer { side, path, said, running })
        };
        let (left, right) = (&self.scene.left, &self.scene.right);
        [(left, "ws0", Side::Inside), (right, "ws1", Side::Wan), (right, "ws2", Side::Dmz)]
            .map(sniffer)
            .into_iter()
            .collect()
    }

    /// The frames of all sniffers, judged.
    fn judged(&self, sniffers: Vec<Sniffer>) -> Result<Judged> {
        let mut judged = Judged::default();
        for Sniffer { side, path, said, running } in sniffers {
            let id = running.id().to_string();
            self.scene.bench.run(Command::new("kill").args(["-INT", &id]), LIMIT)?;
            running.finish(LIMIT)?;
            let said = std::fs::read_to_string(said)?;
            ensure!(said.contains("\n0 packets dropped by kernel"), "a sniffer missed: {said}");
            judged.side(side, &sniffed::frames(&path)?, &self.epochs);
        }
        Ok(judged)
    }

    fn holdings(&self) -> Result<Holdings> {
        let rows = |section: &str| -> Result<usize> {
            let shown = self.scene.show(section)?;
            shown.as_array().map(Vec::len).with_context(|| format!("show has no {section}"))
        };
        let mappings = self.scene.shown(&["nat"])?;
        let mappings = mappings["mappings"].as_array().context("show has no mappings")?.len();
        let stack = self.scene.show("stack")?;
        let bytes = stack["pool_used_bytes"].as_u64().context("show has no pool_used_bytes")?;
        Ok(Holdings { states: rows("states")?, mappings, bytes })
    }

    /// All states end; then the router holds what it held at the start.
    fn is_as_at_the_start(&self, start: &Holdings) -> Result<()> {
        let [_, worker] = self.scene.processes()?;
        let mut kill = self.scene.middle.command(shown(&self.scene.bench.wirespeed()?)?);
        kill.args(["states", "kill", "all", "--pid", &worker.to_string()]);
        let killed = self.scene.bench.run(&mut kill, LIMIT)?;
        let mut holds = self.holdings()?;
        let ended = until("the router holds what it held at the start", ENDS, || {
            std::thread::sleep(Duration::from_millis(500));
            holds = self.holdings()?;
            let has_none = holds.states == 0 && holds.mappings == 0;
            Ok(has_none && holds.bytes <= start.bytes)
        });
        println!("  at the end {}; held: {holds:?}, at the start {start:?}", killed.trim());
        ended
    }
}

/// tcpdump on a link.
struct Sniffer {
    side: Side,
    path: PathBuf,
    said: PathBuf,
    running: Running,
}
