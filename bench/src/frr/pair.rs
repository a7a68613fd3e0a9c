//! A pair of routers that share addresses by VRRP: the master is killed, and flows that pass by a
//! state of the filter and by NAT go on at the other one. Called by the table of bench `frr`. Both
//! routers have the files of `examples/frr/vrrp`. A pair of kernels with the same keepalived, and
//! without states, is measured as well.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::router::Router;
use super::silence::Flow;
use super::space::{End, Running, Space, run, until};
use super::world;
use super::world::World;
use crate::harness::{Bench, Figure};
use crate::measure::median;

macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../../../examples/frr/vrrp/", $name))
    };
}

/// What `wirespeed up` and keepalived read at each router.
const FILES: [[&str; 2]; 2] = [
    [example!("r1.toml"), example!("r1.keepalived.conf")],
    [example!("r2.toml"), example!("r2.keepalived.conf")],
];
/// The switches, each with an interface of its name at each router.
const SWITCHES: [&str; 3] = ["lan", "wan", "sync"];
/// The virtual address in the network of the host.
const VIRTUAL: &str = "10.1.0.1/24";
const SERVER: core::net::Ipv4Addr = core::net::Ipv4Addr::new(203, 0, 113, 9);
/// How long the routers may take to agree on a master, and a flow to go on.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// How long flows run before the master is killed, and afterwards.
const STEADY: Duration = Duration::from_secs(2);

/// What the routers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ours,
    Kernel,
}

/// The namespaces of a pair, in the order of the routers.
struct Ground {
    places: [Space; 2],
    controls: [Space; 2],
    host: Space,
    server: Space,
    _switches: Space,
}

impl Ground {
    fn new(kind: Kind) -> Result<Ground> {
        let switches = Space::new("switches")?;
        for name in SWITCHES {
            switches.ip(&format!("link add {name} type bridge"))?;
            switches.ip(&format!("link set {name} up"))?;
        }
        let join = |space: &Space, (interface, peer): (&str, &str), switch: &str| {
            Space::join((space, interface, 0), (&switches, peer))?;
            switches.ip(&format!("link set {peer} master {switch}"))
        };
        let places = [Space::new("r1")?, Space::new("r2")?];
        for (number, place) in places.iter().enumerate() {
            if kind == Kind::Ours {
                // The kernel leaves the veths to us.
                place.set("ipv6/conf/default/disable_ipv6", "1")?;
            }
            for name in SWITCHES {
                join(place, (name, &format!("r{}-{name}", number + 1)), name)?;
            }
            if kind == Kind::Kernel {
                kernel(place, number + 2)?;
            }
        }
        let (host, server) = (Space::new("host")?, Space::new("server")?);
        join(&host, ("eth0", "host"), "lan")?;
        join(&server, ("eth0", "server"), "wan")?;
        host.ip("addr add 10.1.0.9/24 dev eth0")?;
        host.ip("route add default via 10.1.0.1")?;
        server.ip(&format!("addr add {SERVER}/24 dev eth0"))?;
        server.ip("route add default via 203.0.113.1")?;
        let controls = [Space::new("control1")?, Space::new("control2")?];
        Ok(Ground { places, controls, host, server, _switches: switches })
    }
}

/// A kernel that routes between the ports of a router.
fn kernel(place: &Space, last: usize) -> Result<()> {
    place.set("ipv6/conf/all/forwarding", "1")?;
    place.set("ipv6/conf/all/keep_addr_on_down", "1")?;
    for (port, v4, v6) in [("lan", "10.1.0", "2001:db8:1:"), ("wan", "203.0.113", "2001:db8:f:")] {
        place.ip(&format!("addr add {v4}.{last}/24 dev {port}"))?;
        place.ip(&format!("addr add {v6}:{last}/64 dev {port} nodad"))?;
    }
    Ok(())
}

/// A router that runs.
struct Member<'a> {
    // keepalived ends first: it says that it goes.
    keepalived: Running,
    router: Option<Router<'a>>,
}

/// A pair that runs.
struct Pair<'a> {
    kind: Kind,
    world: &'a World,
    ground: &'a Ground,
    members: [Option<Member<'a>>; 2],
}

impl<'a> Pair<'a> {
    fn new(world: &'a World, kind: Kind, ground: &'a Ground) -> Result<Pair<'a>> {
        let mut pair = Pair { kind, world, ground, members: [None, None] };
        pair.start(0)?;
        pair.start(1)?;
        pair.is_master(0)?;
        Ok(pair)
    }

    fn control(&self, number: usize) -> &'a Space {
        match self.kind {
            Kind::Ours => &self.ground.controls[number],
            Kind::Kernel => &self.ground.places[number],
        }
    }

    fn start(&mut self, number: usize) -> Result<()> {
        let (world, ground) = (self.world, self.ground);
        let [config, vrrp] = FILES[number];
        let name = |end: &str| format!("{:?}-r{}.{end}", self.kind, number + 1);
        let control = self.control(number);
        let router = match self.kind {
            Kind::Ours => {
                let space = format!("namespace = \"{}\"", control.name());
                let config = config.replace("namespace = \"control\"", &space);
                Some(Router::start(world, &ground.places[number], &name("up"), &config)?)
            }
            Kind::Kernel => {
                ground.places[number].set("ipv4/ip_forward", "1")?;
                None
            }
        };
        let file = world.path(name("keepalived.conf"));
        std::fs::write(&file, vrrp)?;
        let mut command = control.command("keepalived");
        command.args(["--dont-fork", "--log-console", "--log-detail", "--vrrp", "--use-file"]);
        command.arg(file);
        for (option, end) in [("--pid", "pid"), ("--vrrp_pid", "vrrp.pid")] {
            let file = world.path(name(end));
            // As after a start of the machine. The processes of the file were killed, and the
            // number of one that nobody has waited for yet is still taken.
            let _ = std::fs::remove_file(&file);
            command.arg(option).arg(file);
        }
        let keepalived = Running::start(&mut command, &world.path(name("log")), End::Asked)?;
        self.members[number] = Some(Member { keepalived, router });
        Ok(())
    }

    /// Kills a router and its keepalived: nothing is said to anybody. A kernel stops forwarding.
    fn kill(&mut self, number: usize) -> Result<()> {
        let member = self.members[number].take().context("the router does not run")?;
        let mut processes = Vec::new();
        for id in [Some(member.keepalived.id()), member.router.as_ref().map(Router::id)] {
            let Some(id) = id else { continue };
            let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
            for child in children.split_whitespace() {
                processes.push(child.parse()?);
            }
            processes.push(id.cast_signed());
        }
        for process in processes {
            kill_process(Pid::from_raw(process).context("no process")?, Signal::KILL)?;
        }
        if self.kind == Kind::Kernel {
            self.ground.places[number].set("ipv4/ip_forward", "0")?;
        }
        Ok(())
    }

    /// Waits until a router has the virtual address, and the other one has not.
    fn is_master(&self, number: usize) -> Result<()> {
        let has = |number: usize| -> Result<bool> {
            if self.members[number].is_none() {
                return Ok(false);
            }
            let mut ip = Command::new("ip");
            ip.args(["-n", self.control(number).name(), "addr", "show"]);
            Ok(run(&mut ip)?.contains(VIRTUAL))
        };
        let alone = || Ok(has(number)? && !has(1 - number)?);
        let what = format!("r{} is the master", number + 1);
        until(&what, LIMIT, LOOK, alone).with_context(|| self.said())
    }

    /// The last words of both routers and keepaliveds.
    fn said(&self) -> String {
        let mut text = String::new();
        for number in [1, 2] {
            for end in ["up.log", "log"] {
                let path = self.world.path(format!("{:?}-r{number}.{end}", self.kind));
                let said = std::fs::read_to_string(path).unwrap_or_default();
                let from = said.lines().count().saturating_sub(5);
                said.lines().skip(from).for_each(|line| text += &format!("{line}\n"));
            }
        }
        text
    }

    /// Begins flows, kills the master, and starts it again. Returns the longest silences in ms, of
    /// a connection and of datagrams.
    fn switch(&mut self) -> Result<[f64; 2]> {
        let (host, server) = (&self.ground.host, &self.ground.server);
        let flows = [Flow::tcp(host, server, SERVER)?, Flow::datagrams(host, server, SERVER)?];
        sleep(STEADY);
        flows.iter().for_each(Flow::begin);
        self.kill(0)?;
        // Both are heard for a moment after the kill.
        sleep(STEADY);
        let go_on = || Ok(flows.iter().all(Flow::is_heard));
        until("the flows go on", LIMIT, LOOK, go_on).with_context(|| self.said())?;
        sleep(STEADY);
        let [tcp, datagrams] = &flows;
        let silences = [tcp.longest_ms()?, datagrams.longest_ms()?];
        drop(flows);
        self.start(0)?;
        self.is_master(0)?;
        Ok(silences)
    }
}

/// The longest silence of a flow while the pair switches.
pub(super) fn switch(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let version = Command::new("keepalived").arg("--version").output();
    let version = version.context("keepalived is missing (Debian: apt install keepalived)")?;
    let version = String::from_utf8_lossy(&version.stderr);
    let version = version.split_whitespace().nth(1).unwrap_or("of unknown version").to_owned();
    let key = world.path("pair.key");
    std::fs::write(&key, "5a".repeat(32))?;
    run(Command::new("chmod").arg("600").arg(&key))?;
    let rounds = if b.is_quick { 3 } else { 5 };
    let mut notes = Vec::new();
    let mut samples = Vec::new();
    for kind in [Kind::Kernel, Kind::Ours] {
        let ground = Ground::new(kind)?;
        let mut pair = Pair::new(world, kind, &ground)?;
        let mut silences = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            let [tcp, datagrams] = pair.switch()?;
            eprintln!("    {kind:?}: TCP {tcp:.0} ms, datagrams {datagrams:.0} ms");
            silences[0].push(tcp);
            silences[1].push(datagrams);
        }
        let [tcp, datagrams] = silences.map(|all| (median(&all), all));
        let name = if kind == Kind::Ours { "ours" } else { "kernel" };
        notes.push(format!("{name} TCP {:.0} ms, datagrams {:.0} ms", tcp.0, datagrams.0));
        samples = tcp.1;
    }
    let note = format!(
        "{}; a TCP connection with state and NAT (the kernel: without), 16 bytes each ms from the \
         server, retransmissions after 200, 400 ms and so on; SIGKILL of router and keepalived \
         {version}; the files of examples/frr/vrrp",
        notes.join(", ")
    );
    Ok(Figure { value: median(&samples), samples, note })
}
