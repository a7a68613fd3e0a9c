//! A pair of routers with keepalived (VRRP): the master is killed and comes back under a TCP
//! connection that is translated and passes by its state. The same with two kernels, which neither
//! filter nor translate, for the silences to be compared.
//!
//! Called by: `mod.rs`. RFC 9568; docs/decisions/0151-states-for-a-partner.md and
//! 0153-addresses-of-programs.md. The configurations are those of `examples/frr/vrrp`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::super::Workbench;
use super::super::host::{Host, Running};
use super::super::ip::{sysctl, until};
use super::super::outside::shown;
use super::super::router::scene::{LIMIT, tail};
use super::network::Kind;

macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../../../../examples/frr/vrrp/", $name))
    };
}

/// What `wirespeed up` and keepalived read at each router.
const FILES: [[&str; 2]; 2] = [
    [example!("r1.toml"), example!("r1.keepalived.conf")],
    [example!("r2.toml"), example!("r2.keepalived.conf")],
];
const BRIDGES: [&str; 3] = ["lan", "wan", "sync"];
const SERVER: &str = "203.0.113.9";
const SERVER6: &str = "2001:db8:f::9";
const GATEWAY: &str = "10.1.0.1";
/// RFC 9568 section 7.3, virtual router 51.
const VIRTUAL_MAC: &str = "00:00:5e:00:01:33";

/// Echoes what comes over one connection.
const ECHO: &str = "
import socket
s = socket.create_server(('', 7007))
print('listening', flush=True)
c, _ = s.accept()
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while b := c.recv(65536):
    c.sendall(b)
";

/// Sends 8 bytes each 10 ms, and says how many came back, and how long nothing did: the longest
/// silence since the last line that said one, in ms.
const CLIENT: &str = "
import os, socket, sys, time
to, stop = sys.argv[1:]
s = socket.create_connection((to, 7007), 20)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.settimeout(0.01)
begin = last = shown = time.monotonic()
sent = got = longest = 0
while time.monotonic() < begin + 300:
    ends = os.path.exists(stop)
    if ends and got >= sent:
        break
    if not ends:
        s.sendall(sent.to_bytes(8, 'big'))
        sent += 8
    try:
        came = len(s.recv(65536))
        if came == 0:
            sys.exit('the connection was closed')
        now = time.monotonic()
        longest, last, got = max(longest, now - last), now, got + came
        time.sleep(0.01)
    except TimeoutError:
        now = time.monotonic()
    if now > shown + 0.2:
        print(got, int(longest * 1000), flush=True)
        shown, longest = now, 0
print('ended', sent == got, flush=True)
";

/// A router of the pair.
struct Router<'a> {
    name: &'static str,
    /// Where its ports are.
    place: Host<'a>,
    /// Where keepalived is, if that is another namespace.
    control: Option<Host<'a>>,
    up: Option<Running>,
    keepalived: Option<Running>,
}

/// Two routers between a host and a server.
struct Scene<'a> {
    bench: &'a Workbench,
    kind: Kind,
    has_macs: bool,
    host: Host<'a>,
    server: Host<'a>,
    routers: [Router<'a>; 2],
    /// The switches that join them.
    _net: Host<'a>,
}

/// With the virtual router's link address.
pub(super) fn with_macs(bench: &Workbench) -> Result<()> {
    switch(bench, Kind::Kernel, true)?;
    switch(bench, Kind::Ours, true)
}

/// Only the addresses move.
pub(super) fn addresses(bench: &Workbench) -> Result<()> {
    switch(bench, Kind::Kernel, false)?;
    switch(bench, Kind::Ours, false)
}

fn switch(bench: &Workbench, kind: Kind, has_macs: bool) -> Result<()> {
    let mut scene = Scene::new(bench, kind, has_macs)?;
    let told = |scene: &Scene<'_>| scene.states();
    scene.start(0)?;
    scene.start(1)?;
    scene.reaches().with_context(|| told(&scene))?;
    let mut echo = scene.server.command("python3");
    let _echo = scene.server.start("echo", echo.args(["-c", ECHO]))?;
    until("the server listens", LIMIT, || Ok(scene.server.printed("echo").contains("listening")))?;
    let stop = bench.path("stop");
    let mut client = scene.host.command("python3");
    let client = scene.host.start("client", client.args(["-c", CLIENT, SERVER]).arg(&stop))?;
    scene.goes_on().with_context(|| told(&scene))?;
    scene.is_master(0).with_context(|| told(&scene))?;
    if kind == Kind::Ours {
        let has = || Ok(scene.asked(1, &["show", "states"])?.contains("established"));
        until("the partner has the state", LIMIT, has).with_context(|| told(&scene))?;
    }
    let ways = format!("{kind:?}, {}", if has_macs { "use_vmac" } else { "addresses alone" });
    let lines = scene.host.printed("client").lines().count();
    scene.kill(0)?;
    scene.is_master(1).with_context(|| told(&scene))?;
    scene.goes_on().with_context(|| told(&scene))?;
    println!("  {ways}: killed: {} ms of silence", scene.silence(lines)?);
    scene.reaches().with_context(|| told(&scene))?;
    let lines = scene.host.printed("client").lines().count();
    scene.start(0)?;
    scene.is_master(0).with_context(|| told(&scene))?;
    scene.goes_on().with_context(|| told(&scene))?;
    println!("  {ways}: back: {} ms of silence", scene.silence(lines)?);
    scene.reaches().with_context(|| told(&scene))?;
    std::fs::write(&stop, "")?;
    client.finish(LIMIT).with_context(|| told(&scene))?;
    std::fs::remove_file(&stop)?;
    let said = scene.host.printed("client");
    ensure!(said.ends_with("ended True\n"), "bytes were lost: {}", tail(&said));
    Ok(())
}

impl<'a> Scene<'a> {
    fn new(bench: &'a Workbench, kind: Kind, has_macs: bool) -> Result<Scene<'a>> {
        std::fs::create_dir_all(bench.path("run"))?;
        let net = Host::without_tap(bench)?;
        for bridge in BRIDGES {
            net.ip(&format!("link add {bridge} type bridge"))?;
            net.ip(&format!("link set {bridge} up"))?;
        }
        let join = |host: &Host<'_>, name: &str, interface: &str, bridge: &str| {
            let peer = format!("{name}-{bridge}");
            let of = net.name();
            host.ip(&format!("link add name {interface} type veth peer name {peer} netns {of}"))?;
            net.ip(&format!("link set {peer} master {bridge} up"))?;
            host.ip(&format!("link set {interface} up"))
        };
        let router = |name| -> Result<Router<'a>> {
            let place = Host::without_tap(bench)?;
            if kind == Kind::Ours {
                // The kernel leaves the veths to us.
                sysctl(bench, &place, "ipv6/conf/default/disable_ipv6", "1")?;
            }
            for bridge in BRIDGES {
                join(&place, name, bridge, bridge)?;
            }
            let control = match kind {
                Kind::Ours => Some(Host::without_tap(bench)?),
                Kind::Kernel => None,
            };
            Ok(Router { name, place, control, up: None, keepalived: None })
        };
        let routers = [router("r1")?, router("r2")?];
        let (host, server) = (Host::without_tap(bench)?, Host::without_tap(bench)?);
        join(&host, "h1", "eth0", "lan")?;
        join(&server, "h2", "eth0", "wan")?;
        for (host, words) in [
            (&host, "addr add 10.1.0.9/24 dev eth0"),
            (&host, "addr add 2001:db8:1::9/64 dev eth0 nodad"),
            (&host, "route add default via 10.1.0.1"),
            (&host, "route add default via fe80::1:51 dev eth0"),
            (&server, "addr add 203.0.113.9/24 dev eth0"),
            (&server, "addr add 2001:db8:f::9/64 dev eth0 nodad"),
            (&server, "route add default via 203.0.113.1"),
            (&server, "route add default via 2001:db8:f::1"),
        ] {
            host.ip(words)?;
        }
        let key = bench.path("pair.key");
        std::fs::write(&key, "5a".repeat(32))?;
        bench.run(Command::new("chmod").arg("600").arg(&key), LIMIT)?;
        Ok(Scene { bench, kind, has_macs, host, server, routers, _net: net })
    }

    /// Start a router and its keepalived.
    fn start(&mut self, number: usize) -> Result<()> {
        let (bench, has_macs) = (self.bench, self.has_macs);
        let [config, vrrp] = FILES[number];
        let router = &mut self.routers[number];
        let (name, place) = (router.name, &router.place);
        if let Some(control) = &router.control {
            let space = format!("namespace = \"{}\"", control.name());
            let file = bench.path(&format!("{name}.toml"));
            std::fs::write(&file, config.replace("namespace = \"control\"", &space))?;
            let mut up = place.command(shown(&bench.wirespeed()?)?);
            router.up = Some(place.start(name, up.arg("up").arg(file))?);
            let log = || std::fs::read_to_string(bench.path(&format!("{name}.err")));
            let is_up = || Ok(log()?.contains("forwarding; SIGHUP reads"));
            until("the router forwards", LIMIT, is_up)
                .with_context(|| log().unwrap_or_default())?;
        } else {
            kernel(bench, place, number)?;
        }
        let file = bench.path(&format!("{name}.keepalived.conf"));
        let vmac = |line: &&str| has_macs || line.trim() != "use_vmac";
        std::fs::write(&file, vrrp.lines().filter(vmac).collect::<Vec<_>>().join("\n"))?;
        let at = router.control.as_ref().unwrap_or(place);
        let mut command = at.command("keepalived");
        command.args(["--dont-fork", "--log-console", "--log-detail", "--vrrp", "--use-file"]);
        command.arg(file);
        for (option, end) in [("--pid", "pid"), ("--vrrp_pid", "vrrp.pid")] {
            let file = bench.path(&format!("{name}.keepalived.{end}"));
            // One that was killed leaves it.
            let _ = std::fs::remove_file(&file);
            command.arg(option).arg(file);
        }
        router.keepalived = Some(at.start(&format!("{name}.keepalived"), &mut command)?);
        Ok(())
    }

    /// Kill a router with its keepalived: nothing is cleaned up. A kernel loses its links instead.
    fn kill(&mut self, number: usize) -> Result<()> {
        let router = &mut self.routers[number];
        if self.kind == Kind::Kernel {
            BRIDGES.iter().try_for_each(|b| router.place.ip(&format!("link set {b} down")))?;
        }
        for running in [router.up.take(), router.keepalived.take()].into_iter().flatten() {
            let id = running.id();
            let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
            let children = children.split_whitespace().map(str::parse);
            for process in children.chain([Ok(id as i32)]) {
                let process = Pid::from_raw(process?).context("no process")?;
                // A child may end with the other one.
                let _ = kill_process(process, Signal::KILL);
            }
        }
        if self.kind == Kind::Kernel {
            // A machine that begins anew has nothing of it.
            let macvlans = ["vrrp.51", "vrrp.52", "vrrp6.51", "vrrp6.52"];
            for macvlan in macvlans.iter().filter(|_| self.has_macs) {
                router.place.ip(&format!("link del {macvlan}"))?;
            }
            BRIDGES.iter().try_for_each(|b| router.place.ip(&format!("addr flush dev {b}")))?;
        }
        Ok(())
    }

    /// The output of `wirespeed WORDS` for a router of ours.
    fn asked(&self, number: usize, words: &[&str]) -> Result<String> {
        let router = &self.routers[number];
        let id = router.up.as_ref().context("the router does not run")?.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        let worker = children.split_whitespace().next().context("the router has no worker")?;
        let mut command = router.place.command(shown(&self.bench.wirespeed()?)?);
        command.args(words).args(["--pid", worker]);
        self.bench.run(&mut command, LIMIT)
    }

    /// Wait until a router, and not the other one, has the virtual addresses, and the host knows.
    fn is_master(&self, number: usize) -> Result<()> {
        let has = |number: usize| -> Result<bool> {
            let router = &self.routers[number];
            match &router.control {
                Some(_) if router.up.is_none() => Ok(false),
                Some(_) => Ok(self
                    .asked(number, &["show", "addresses"])?
                    .lines()
                    .any(|line| line.contains(GATEWAY) && line.contains("program"))),
                None => {
                    let mut ip = Command::new("ip");
                    ip.args(["-n", router.place.name(), "addr", "show", "up"]);
                    let is_away = router.keepalived.is_none();
                    Ok(!is_away && self.bench.run(&mut ip, LIMIT)?.contains("10.1.0.1/24"))
                }
            }
        };
        let alone = || Ok(has(number)? && !has(1 - number)?);
        until(&format!("r{} is the master", number + 1), 2 * LIMIT, alone)?;
        let known = || {
            let mut ip = Command::new("ip");
            ip.args(["-n", self.host.name(), "neigh", "show", GATEWAY]);
            let known = self.bench.run(&mut ip, LIMIT)?;
            Ok(known.contains(&self.mac(number)?))
        };
        until("the host has the master's link address", LIMIT, known)
    }

    /// The link address of the virtual router while this one is the master.
    fn mac(&self, number: usize) -> Result<String> {
        if self.has_macs {
            return Ok(VIRTUAL_MAC.to_owned());
        }
        let mut cat = self.routers[number].place.command("cat");
        Ok(self.bench.run(cat.arg("/sys/class/net/lan/address"), LIMIT)?.trim().to_owned())
    }

    /// Wait until the host reaches the server by both versions of IP.
    fn reaches(&self) -> Result<()> {
        for to in [SERVER, SERVER6] {
            let ping = || {
                let mut ping = self.host.command("ping");
                Ok(self.bench.run(ping.args(["-c", "1", "-W", "1", to]), LIMIT).is_ok())
            };
            until(&format!("the host gets answers from {to}"), 2 * LIMIT, ping)?;
        }
        Ok(())
    }

    /// Bytes of the connection that came back.
    fn got(&self) -> u64 {
        let said = self.host.printed("client");
        let last = said.lines().last().and_then(|line| line.split(' ').next());
        last.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Wait until more of the connection has come back, for a second and longer.
    fn goes_on(&self) -> Result<()> {
        let enough = self.got() + 400;
        until("the connection goes on", 2 * LIMIT, || Ok(self.got() > enough))
    }

    /// The longest silence of the connection in ms since it had said so many lines.
    fn silence(&self, lines: usize) -> Result<u64> {
        let said = self.host.printed("client");
        let silences = said.lines().skip(lines).filter_map(|line| line.split(' ').nth(1));
        let longest = silences.filter_map(|ms| ms.parse().ok()).max();
        longest.context("the client says nothing")
    }

    /// What routers and keepaliveds say, for an error.
    fn states(&self) -> String {
        let mut text = tail(&self.host.printed("client")).to_owned();
        for (number, router) in self.routers.iter().enumerate() {
            for end in ["err", "keepalived.out", "keepalived.err"] {
                let path = self.bench.path(&format!("{}.{end}", router.name));
                text += tail(&std::fs::read_to_string(path).unwrap_or_default());
            }
            for section in ["addresses", "pair", "drops"] {
                text += &self.asked(number, &["show", section]).unwrap_or_default();
            }
        }
        text
    }
}

/// A kernel that routes between the ports of a router.
fn kernel(bench: &Workbench, place: &Host<'_>, number: usize) -> Result<()> {
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        sysctl(bench, place, setting, "1")?;
    }
    sysctl(bench, place, "ipv6/conf/all/keep_addr_on_down", "1")?;
    BRIDGES.iter().try_for_each(|bridge| place.ip(&format!("link set {bridge} up")))?;
    let last = number + 2;
    for words in [
        format!("addr replace 10.1.0.{last}/24 dev lan"),
        format!("addr replace 203.0.113.{last}/24 dev wan"),
        format!("addr replace 2001:db8:1::{last}/64 dev lan nodad"),
        format!("addr replace 2001:db8:f::{last}/64 dev wan nodad"),
    ] {
        place.ip(&words)?;
    }
    // Addresses of the links' own are there.
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}
