//! A network of routers that is built from one description in two ways: with `wirespeed up` and the
//! daemons in a namespace of mirrors, or with the kernel that the same daemons program.
//!
//! Called by: the cases of the suite `frr`. Each router is a namespace with veths, whose names are
//! those of the router's ports. Ours uses them as packet sockets; the kernel's have the addresses.

mod deaths;
mod patch;

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::super::Workbench;
use super::super::host::{Host, Running};
use super::super::ip::{sysctl, until};
use super::super::outside::shown;
use super::super::router::scene::{LIMIT, tail};
use super::daemons::Frr;
use super::tables::{self, Table};
pub(super) use deaths::Victim;
use patch::Patch;

/// A router: an example of the project.
pub(super) struct Site {
    pub(super) name: &'static str,
    /// What `wirespeed up` reads.
    pub(super) router: &'static str,
    /// What `vtysh` reads.
    pub(super) frr: &'static str,
    /// Daemons of FRR, zebra apart.
    pub(super) daemons: &'static [&'static str],
}

/// An example of the folder `examples/frr`.
macro_rules! site {
    ($folder:literal, $name:literal, $daemons:expr) => {
        Site {
            name: $name,
            router: include_str!(concat!(
                "../../../../examples/frr/",
                $folder,
                "/",
                $name,
                ".toml"
            )),
            frr: include_str!(concat!("../../../../examples/frr/", $folder, "/", $name, ".conf")),
            daemons: $daemons,
        }
    };
}
pub(super) use site;

/// A host with one interface `eth0`: its name, its addresses, its gateways.
pub(super) struct End {
    pub(super) name: &'static str,
    pub(super) addresses: &'static [&'static str],
    pub(super) gateways: &'static [&'static str],
}

/// A cable between two interfaces, each with the name of its router or host.
pub(super) type Cable = [(&'static str, &'static str); 2];

/// What to build.
pub(super) struct Plan {
    pub(super) sites: &'static [Site],
    pub(super) ends: &'static [End],
    pub(super) cables: &'static [Cable],
}

/// The routers of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `wirespeed up`, with the daemons in a namespace of mirrors.
    Ours,
    /// The kernel, with the daemons in its namespace.
    Kernel,
}

impl Kind {
    /// What `vtysh` of a site reads.
    fn told(self, site: &Site) -> String {
        match self {
            Kind::Ours => site.frr.to_owned(),
            Kind::Kernel => {
                let lines = site.frr.lines().filter(|line| !line.starts_with("fpm "));
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// A router that runs.
struct Router<'a> {
    /// `None` for a kernel's.
    up: Option<Running>,
    frr: Frr,
    /// Where the daemons are.
    control: Host<'a>,
    /// What zebra said to be installed before it was killed.
    last_said: Option<Table>,
}

/// A network that runs.
pub(super) struct Network<'a> {
    bench: &'a Workbench,
    kind: Kind,
    plan: &'a Plan,
    // Programs end before the namespaces that they are in.
    routers: BTreeMap<&'static str, Router<'a>>,
    /// Routers whose daemons have a namespace of their own, and hosts.
    places: BTreeMap<&'static str, Host<'a>>,
    /// Where cables between routers go through.
    patch: Option<Patch<'a>>,
}

impl<'a> Network<'a> {
    /// Build it and start all programs.
    pub(super) fn new(bench: &'a Workbench, plan: &'a Plan, kind: Kind) -> Result<Network<'a>> {
        Network::build((bench, plan, kind), None)
    }

    /// The same, with cables between routers that can be cut silently.
    pub(super) fn patched(bench: &'a Workbench, plan: &'a Plan, kind: Kind) -> Result<Network<'a>> {
        Network::build((bench, plan, kind), Some(Patch::new(bench)?))
    }

    fn build(
        (bench, plan, kind): (&'a Workbench, &'a Plan, Kind),
        patch: Option<Patch<'a>>,
    ) -> Result<Network<'a>> {
        std::fs::create_dir_all(bench.path("run"))?;
        let (routers, places) = (BTreeMap::new(), BTreeMap::new());
        let mut network = Network { bench, kind, plan, routers, places, patch };
        let names = plan.sites.iter().map(|site| site.name);
        for name in names.chain(plan.ends.iter().map(|end| end.name)) {
            network.places.insert(name, Host::without_tap(bench)?);
        }
        for (number, cable) in plan.cables.iter().enumerate() {
            network.join(number, cable)?;
        }
        for end in plan.ends {
            network.end(end)?;
        }
        for site in plan.sites {
            network.start(site)?;
        }
        Ok(network)
    }

    /// A host, or a router whose daemons have a namespace of their own.
    pub(super) fn place(&self, name: &str) -> Result<&Host<'a>> {
        self.places.get(name).with_context(|| format!("nothing is called {name}"))
    }

    fn join(&self, number: usize, [(a, at_a), (b, at_b)]: &Cable) -> Result<()> {
        let (one, other) = (self.place(a)?, self.place(b)?);
        let is_router = |name: &str| self.plan.sites.iter().any(|site| site.name == name);
        if let Some(patch) = self.patch.as_ref().filter(|_| is_router(a) && is_router(b)) {
            return patch.join(number, [(one, at_a), (other, at_b)]);
        }
        one.ip(&format!("link add name {at_a} type veth peer name {at_b} netns {}", other.name()))?;
        one.ip(&format!("link set {at_a} up"))?;
        other.ip(&format!("link set {at_b} up"))
    }

    fn end(&self, end: &End) -> Result<()> {
        let host = self.place(end.name)?;
        for address in end.addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            host.ip(&format!("addr add {address} dev eth0{nodad}"))?;
        }
        for gateway in end.gateways {
            host.ip(&format!("route add default via {gateway}"))?;
        }
        Ok(())
    }

    fn start(&mut self, site: &'static Site) -> Result<()> {
        let control = match self.kind {
            Kind::Ours => Host::without_tap(self.bench)?,
            // The namespace of the router itself is the daemons'.
            Kind::Kernel => self.places.remove(site.name).context("no such router")?,
        };
        let folder = format!("{:?}-{}", self.kind, site.name);
        let frr = Frr::new(self.bench, &folder)?;
        if self.kind == Kind::Kernel {
            kernel(self.bench, site, &control)?;
        }
        self.routers.insert(site.name, Router { up: None, frr, control, last_said: None });
        self.boot(site)
    }

    /// Start all programs of a router.
    fn boot(&mut self, site: &Site) -> Result<()> {
        if self.kind == Kind::Ours {
            let up = self.up(site, &self.router(site.name)?.control)?;
            self.router_mut(site.name)?.up = Some(up);
        }
        self.daemons(site)
    }

    /// Start the daemons of a router.
    fn daemons(&mut self, site: &Site) -> Result<()> {
        // Without that module zebra knows no FPM, and a kernel needs none.
        let words: &[&str] = match self.kind {
            Kind::Ours => &["-M", "dplane_fpm_nl"],
            Kind::Kernel => &[],
        };
        let (bench, kind) = (self.bench, self.kind);
        let Router { frr, control, .. } = self.router_mut(site.name)?;
        frr.start((bench, control), "zebra", "", words)?;
        for daemon in site.daemons {
            frr.start((bench, control), daemon, "", &[])?;
        }
        frr.read((bench, control), &kind.told(site))
    }

    /// What `wirespeed up` reads, with mirrors in `control`.
    fn config(site: &Site, control: &Host<'_>) -> Result<String> {
        let namespace = format!("namespace = \"{}\"", control.name());
        let config = site.router.replace("namespace = \"control\"", &namespace);
        ensure!(config != site.router, "{} names no namespace control", site.name);
        Ok(config)
    }

    /// The log of `wirespeed up` for a site.
    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.bench.path(&format!("{name}.err"))).unwrap_or_default()
    }

    /// `wirespeed up` for a site.
    fn up(&self, site: &Site, control: &Host<'_>) -> Result<Running> {
        let place = self.place(site.name)?;
        for port in ports(site)? {
            // The kernel leaves the veth to us.
            sysctl(self.bench, place, &format!("ipv6/conf/{}/disable_ipv6", port.name), "1")?;
        }
        let file = self.bench.path(&format!("{}.toml", site.name));
        std::fs::write(&file, Network::config(site, control)?)?;
        let mut up = place.command(shown(&self.bench.wirespeed()?)?);
        let running = place.start(site.name, up.arg("up").arg(file))?;
        let forwards = || Ok(self.log(site.name).contains("forwarding; SIGHUP reads"));
        until("the router forwards", LIMIT, forwards)
            .with_context(|| format!("{} said: {}", site.name, tail(&self.log(site.name))))?;
        Ok(running)
    }

    fn router(&self, name: &str) -> Result<&Router<'a>> {
        self.routers.get(name).with_context(|| format!("no router is called {name}"))
    }

    /// What `vtysh` prints for a command to the daemons of a router.
    pub(super) fn vtysh(&self, name: &str, command: &str) -> Result<String> {
        let router = self.router(name)?;
        router.frr.vtysh((self.bench, &router.control), &[command])
    }

    fn router_mut(&mut self, name: &str) -> Result<&mut Router<'a>> {
        self.routers.get_mut(name).with_context(|| format!("no router is called {name}"))
    }

    /// A program at a host.
    pub(super) fn command(&self, name: &str, program: &str) -> Result<Command> {
        Ok(self.place(name)?.command(program))
    }

    /// The process of our router that runs its stack.
    fn worker(&self, name: &str) -> Result<u32> {
        let id = self.router(name)?.up.as_ref().context("a kernel has no process")?.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.context("the router has ended")?;
        let first = children.split_whitespace().next().context("the router has no worker")?;
        Ok(first.parse()?)
    }

    /// The output of a tool of `wirespeed` about a router of ours.
    fn asked(&self, name: &str, tool: &str, words: &[&str]) -> Result<String> {
        let worker = self.worker(name)?.to_string();
        let mut asked = self.place(name)?.command(shown(&self.bench.wirespeed()?)?);
        self.bench.run(asked.args([tool, "--pid", &worker]).args(words), LIMIT)
    }

    /// The routes that a router's daemons have made.
    pub(super) fn table(&self, name: &str) -> Result<Table> {
        let router = self.router(name)?;
        match self.kind {
            Kind::Kernel => tables::of_kernel(self.bench, &router.control),
            Kind::Ours => tables::of_program("fpm", |words| self.asked(name, "ip", words)),
        }
    }

    /// A cable is cut or fixed at one end: both ends lose their carrier.
    pub(super) fn set_cable(
        &self,
        (place, interface): (&str, &str),
        up_or_down: &str,
    ) -> Result<()> {
        let host = match self.kind {
            Kind::Kernel if self.routers.contains_key(place) => &self.router(place)?.control,
            _ => self.place(place)?,
        };
        host.ip(&format!("link set {interface} {up_or_down}"))
    }

    /// Wait until a host gets answers from an address.
    pub(super) fn answers(&self, from: &str, to: &str) -> Result<()> {
        let host = self.place(from)?;
        let ping = || {
            let mut ping = host.command("ping");
            ping.args(["-c", "1", "-W", "1", to]);
            Ok(self.bench.run(&mut ping, LIMIT).is_ok())
        };
        until(&format!("{from} gets answers from {to}"), 3 * LIMIT, ping)
            .with_context(|| self.states().unwrap_or_else(|why| format!("{why:#}")))
    }

    /// Tables, drops and logs of all routers, for an error.
    pub(super) fn states(&self) -> Result<String> {
        let mut text = String::new();
        for site in self.plan.sites {
            text += &format!("{}: {:?}\n", site.name, self.table(site.name)?);
            if self.kind == Kind::Ours {
                text += &self.asked(site.name, "show", &["drops"])?;
            }
            text += tail(&self.log(site.name));
            let mut asked = vec!["show ip route", "show ipv6 route", "show nexthop-group rib"];
            if site.daemons.contains(&"bgpd") {
                asked.extend(["show bgp summary", "show bgp ipv4 unicast", "show bgp nexthop"]);
            }
            text += &self.tell(site.name, &asked)?;
            for daemon in site.daemons {
                text += tail(&self.router(site.name)?.frr.log(self.bench, daemon));
            }
        }
        Ok(text)
    }
}

/// A kernel that routes between a site's ports.
fn kernel(bench: &Workbench, site: &Site, host: &Host<'_>) -> Result<()> {
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        sysctl(bench, host, setting, "1")?;
    }
    for (setting, value) in
        [("ipv4/conf/all/rp_filter", "0"), ("ipv6/conf/all/keep_addr_on_down", "1")]
    {
        sysctl(bench, host, setting, value)?;
    }
    for Port { name, addresses } in ports(site)? {
        if addresses.iter().any(|address| address.starts_with("fe80:")) {
            // Daemons would advertise one of two link-local addresses, and connect from the other.
            sysctl(bench, host, &format!("ipv6/conf/{name}/addr_gen_mode"), "1")?;
            host.ip(&format!("-6 addr flush dev {name} scope link"))?;
        }
        for address in addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            host.ip(&format!("addr add {address} dev {name}{nodad}"))?;
        }
    }
    Ok(())
}

/// A port, as a kernel needs to know it.
#[derive(Deserialize)]
struct Port {
    name: String,
    #[serde(default)]
    addresses: Vec<String>,
}

/// The ports of a site.
fn ports(site: &Site) -> Result<Vec<Port>> {
    #[derive(Deserialize)]
    struct File {
        port: Vec<Port>,
    }
    let file: File = toml::from_str(site.router).with_context(|| site.name.to_owned())?;
    Ok(file.port)
}

/// Wait until each router of ours has the routes of the kernel's router of the same name.
pub(super) fn equal(ours: &Network<'_>, theirs: &Network<'_>) -> Result<()> {
    for site in ours.plan.sites {
        let compare = || tables::same(&ours.table(site.name)?, &theirs.fib(site.name)?);
        let are_equal = || Ok(compare().is_ok() && !ours.table(site.name)?.is_empty());
        let states = || [theirs, ours].map(|of| of.states().unwrap_or_default()).join("\n");
        until("the routes of both are equal", 2 * LIMIT, are_equal)
            .or_else(|why| compare().and(Err(why)))
            .with_context(|| format!("router {}\n{}", site.name, states()))?;
    }
    ensure!(ours.kind == Kind::Ours && theirs.kind == Kind::Kernel, "it compares ours with theirs");
    Ok(())
}
