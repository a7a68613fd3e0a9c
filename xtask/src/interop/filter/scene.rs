//! The setting of cases with real programs: a client and a server in one network behind the
//! router, and two hosts outside, the second of them behind the first.
//!
//! ```text
//!          10.0.0.0/24                198.51.100.0/24          203.0.113.0/24
//! client .3 --+--.1 router (lan, wan) .1 ------- .2 outside .1 ------ .2 far
//! server .2 --+   fd00:1::1    2001:db8:2::1       2001:db8:3::1
//! ```
//!
//! Called by: the cases beside this file. The hosts are kernels of other namespaces.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use crate::interop::ip::sysctl;
use crate::interop::outside::shown;
use crate::interop::router::scene::{RIGHT, Scene, each, said, tail};

/// The two versions of IP: the host outside, the router's address there, the server inside, the
/// host behind the one outside.
pub(super) struct Version {
    pub(super) name: &'static str,
    pub(super) outside: &'static str,
    pub(super) router: &'static str,
    pub(super) server: &'static str,
    pub(super) client: &'static str,
    pub(super) far: &'static str,
}

impl Version {
    /// An address as URLs have it.
    pub(super) fn url(&self, address: &str) -> String {
        if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
    }
}

pub(super) const VERSIONS: [Version; 2] = [
    Version {
        name: "IPv4",
        outside: "198.51.100.2",
        router: "198.51.100.1",
        server: "10.0.0.2",
        client: "10.0.0.3",
        far: "203.0.113.2",
    },
    Version {
        name: "IPv6",
        outside: "2001:db8:2::2",
        router: "2001:db8:2::1",
        server: "fd00:1::2",
        client: "fd00:1::3",
        far: "2001:db8:3::2",
    },
];

/// The prefix that hosts inside have outside, by [`NAT`].
pub(super) const OUTSIDE_PREFIX: &str = "2001:db8:f:";

/// The ports, and the way to hosts outside.
pub(super) const PORTS: &str = "\
[[port]]
name = \"lan\"
device = \"tap:ws0\"
addresses = [\"10.0.0.1/24\", \"fd00:1::1/64\"]
[[port]]
name = \"wan\"
device = \"tap:ws1\"
addresses = [\"198.51.100.1/24\", \"2001:db8:2::1/64\"]
[[route]]
to = \"0.0.0.0/0\"
via = \"198.51.100.2\"
[[route]]
to = \"::/0\"
via = \"2001:db8:2::2\"
";

/// What hosts inside have outside, and the way in.
pub(super) const NAT: &str = "
[nat]
rules = '''
source out wan from 10.0.0.0/8 to port
prefix out wan fd00:1::/48 to 2001:db8:f::/48
dest in {lan, wan} to 198.51.100.1 tcp 8080 to 10.0.0.2:80
dest in {lan, wan} to 2001:db8:2::1 tcp 8080 to [fd00:1::2]:80
'''
";

/// The configuration with these rules, and more behind them.
pub(super) fn config(rules: &str, more: &str) -> String {
    format!("{PORTS}[filter]\nrules = '''\n{rules}'''\n{more}")
}

/// The hosts around a router that filters. Its left is the client, its right the host outside.
pub(super) struct Site<'a> {
    pub(super) scene: Scene<'a>,
    pub(super) server: Host<'a>,
    pub(super) far: Host<'a>,
}

impl<'a> Site<'a> {
    /// Start the router, and connect the hosts.
    pub(super) fn new(bench: &'a Workbench, config: &str) -> Result<Site<'a>> {
        let scene = Scene::new(bench, config, (&["ws0"], &["ws1"]))?;
        let site =
            Site { scene, server: Host::without_tap(bench)?, far: Host::without_tap(bench)? };
        let Site { scene, server, far } = &site;
        let to_server = format!("link add s0 type veth peer name s1 netns {}", server.name());
        each(&scene.left, &["link add br0 type bridge", &to_server])?;
        each(&scene.left, &["link set ws0 master br0", "link set s0 master br0"])?;
        each(&scene.left, &["link set ws0 up", "link set s0 up", "link set br0 up"])?;
        inside(&scene.left, "br0", VERSIONS.each_ref().map(|version| version.client))?;
        inside(server, "s1", VERSIONS.each_ref().map(|version| version.server))?;
        each(&scene.right, &RIGHT)?;
        let to_far = format!("link add f0 type veth peer name f1 netns {}", far.name());
        let addresses =
            ["addr add 203.0.113.1/24 dev f0", "addr add 2001:db8:3::1/64 dev f0 nodad"];
        each(&scene.right, &[&to_far, addresses[0], addresses[1], "link set f0 up"])?;
        each(
            far,
            &[
                "addr add 203.0.113.2/24 dev f1",
                "addr add 2001:db8:3::2/64 dev f1 nodad",
                "link set f1 up",
                "route add default via 203.0.113.1",
                "route add default via 2001:db8:3::1",
            ],
        )?;
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            sysctl(bench, &scene.right, setting, "1")?;
        }
        Ok(site)
    }

    /// Wait until the client gets answers from both hosts outside. Rules have to pass its echoes.
    pub(super) fn is_up(&self) -> Result<()> {
        for version in &VERSIONS {
            self.scene.answers(version.outside)?;
            self.scene.answers(version.far)?;
        }
        Ok(())
    }

    /// Let the router filter by these rules.
    pub(super) fn reload(&self, config: &str) -> Result<()> {
        self.scene.reload(config, "changes took effect, 0 failed")
    }

    /// The output of a shell's command of a host, whether it succeeds or not.
    pub(super) fn said(&self, host: &Host<'_>, command: &str) -> Result<String> {
        said(self.scene.bench, host, command)
    }

    /// Start a shell's command on a host; its output is in the files `name`.
    pub(super) fn start(&self, host: &Host<'_>, name: &str, command: &str) -> Result<Running> {
        let mut shell = host.command("sh");
        host.start(name, shell.args(["-c", &format!("exec {command}")]))
    }

    /// Wait until a program of a host listens at this TCP port.
    pub(super) fn listens(&self, host: &Host<'_>, port: u16) -> Result<()> {
        let listening = || {
            let mut shell = host.command("sh");
            let script = format!("ss -Hltn sport = :{port} | grep -q LISTEN");
            shell.args(["-c", &script]);
            Ok(shell)
        };
        host.until(listening).map(drop).with_context(|| format!("nobody listens at {port}"))
    }

    /// The rows of `wirespeed show states FILTER --json`.
    pub(super) fn states(&self, filter: &str) -> Result<Vec<Value>> {
        let words: Vec<&str> = ["states"].into_iter().chain(filter.split(' ')).collect();
        let mut shown = self.scene.shown(&words)?;
        match shown["states"].take() {
            Value::Array(rows) => Ok(rows),
            other => anyhow::bail!("show has no states: {other}"),
        }
    }

    /// The only state that this filter takes.
    pub(super) fn state(&self, filter: &str) -> Result<Value> {
        let mut rows = self.states(filter)?;
        ensure!(rows.len() == 1, "the states of {filter} are {rows:?}");
        rows.pop().context("no state")
    }

    /// Drops by name that have grown since `before`, as [`Site::drops`] returned it.
    pub(super) fn grown(&self, before: &Value) -> Result<Vec<(String, u64)>> {
        let after = self.drops()?;
        let count = |drops: &Value, name: &str| drops[name].as_u64().unwrap_or(0);
        let names = after.as_object().context("show has no drops")?.keys();
        let grown = names.map(|name| (name.clone(), count(&after, name) - count(before, name)));
        Ok(grown.filter(|(_, more)| *more > 0).collect())
    }

    /// The drops so far.
    pub(super) fn drops(&self) -> Result<Value> {
        self.scene.show("drops")
    }

    /// Drops of this name have grown by `least` or more since `before`.
    pub(super) fn dropped(&self, before: &Value, name: &str, least: u64) -> Result<()> {
        let grown = self.grown(before)?;
        let is_it = |(of, more): &(String, u64)| of == name && *more >= least;
        ensure!(grown.iter().any(is_it), "fewer than {least} {name}: {grown:?}");
        Ok(())
    }

    /// End the router.
    pub(super) fn end(self) -> Result<()> {
        self.scene.end()
    }
}

/// The addresses of a host inside, and its way out.
fn inside(host: &Host<'_>, link: &str, [v4, v6]: [&str; 2]) -> Result<()> {
    each(
        host,
        &[
            &format!("addr add {v4}/24 dev {link}"),
            &format!("addr add {v6}/64 dev {link} nodad"),
            &format!("link set {link} up"),
            "route add default via 10.0.0.1",
            "route add default via fd00:1::1",
        ],
    )
}

/// A text of a program that is to be in another one.
pub(super) fn has(printed: &str, text: &str) -> Result<()> {
    ensure!(printed.contains(text), "no '{text}' in: {}", tail(printed));
    Ok(())
}

/// The path of a file of this suite.
pub(super) fn script(bench: &Workbench, name: &str) -> Result<String> {
    let path = bench.root().join("xtask/src/interop/filter").join(name);
    Ok(shown(&path)?.to_owned())
}
