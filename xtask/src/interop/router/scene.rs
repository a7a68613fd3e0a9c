//! The setting of a case: `wirespeed up` runs in a namespace of its own, and its TAPs are in the
//! namespaces of the hosts on both sides, `left` and `right`.
//!
//! Called by: the cases of the suite `router`, and attacks at a router. The kernel's ends of the
//! TAPs are moved to the hosts once the router has opened them; they vanish when the router ends.

use super::super::host::{Host, Running};
use super::super::ip::{sysctl, until};
use super::super::outside::shown;
use super::super::{Workbench, iperf};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// The time limit of any one program, and of a router's reaction.
pub(in crate::interop) const LIMIT: Duration = Duration::from_secs(30);

/// `ip` commands that set up the host on the left: its addresses, its link, its default routes.
pub(in crate::interop) const LEFT: [&str; 6] = [
    "addr add 192.0.2.1/24 dev ws0",
    "addr add 2001:db8:1::1/64 dev ws0 nodad",
    "link set ws0 txqueuelen 10000",
    "link set ws0 up",
    "route add default via 192.0.2.2",
    "route add default via 2001:db8:1::2",
];

/// The same for the host on the right, on link `ws1`.
pub(in crate::interop) const RIGHT: [&str; 6] = [
    "addr add 198.51.100.2/24 dev ws1",
    "addr add 2001:db8:2::2/64 dev ws1 nodad",
    "link set ws1 txqueuelen 10000",
    "link set ws1 up",
    "route add default via 198.51.100.1",
    "route add default via 2001:db8:2::1",
];

/// Pairs of the host on the right and our router, as the host on the left addresses them.
pub(in crate::interop) const ENDS: [(&str, &str); 2] =
    [("198.51.100.2", "192.0.2.2"), ("2001:db8:2::2", "2001:db8:1::2")];

/// The router's port on the left, and its port on the right. They have no offloads, because
/// captures check the checksum and the length of each frame.
pub(in crate::interop) const WAN: &str = "[[port]]\nname = \"wan\"\ndevice = \"tap:ws0\"\n\
                              offloads = false\n\
                              addresses = [\"192.0.2.2/24\", \"2001:db8:1::2/64\"]\n";
pub(in crate::interop) const LAN: &str = "[[port]]\nname = \"lan\"\ndevice = \"tap:ws1\"\n\
                              offloads = false\n\
                              addresses = [\"198.51.100.1/24\", \"2001:db8:2::1/64\"]\n";

/// A running router, and the hosts on both sides.
pub(in crate::interop) struct Scene<'a> {
    pub(in crate::interop) bench: &'a Workbench,
    // Programs end before the namespaces that they are in.
    router: Option<Running>,
    pub(in crate::interop) left: Host<'a>,
    pub(in crate::interop) right: Host<'a>,
    pub(in crate::interop) middle: Host<'a>,
}

impl<'a> Scene<'a> {
    /// Start the router, and move the TAPs of these names to the hosts.
    pub(in crate::interop) fn new(
        bench: &'a Workbench,
        config: &str,
        (left_taps, right_taps): (&[&str], &[&str]),
    ) -> Result<Scene<'a>> {
        std::fs::create_dir_all(bench.path("run"))?;
        let host = || Host::without_tap(bench);
        let (left, right, middle) = (host()?, host()?, host()?);
        let mut scene = Scene { bench, router: None, left, right, middle };
        scene.write(config)?;
        let mut up = scene.middle.command(shown(&bench.wirespeed()?)?);
        up.arg("up").arg(bench.path("router.toml"));
        scene.router = Some(scene.middle.start("router", &mut up)?);
        scene.says("forwarding; SIGHUP reads", 1)?;
        for (taps, host) in [(left_taps, &scene.left), (right_taps, &scene.right)] {
            for setting in ["ipv4/conf/all/rp_filter", "ipv4/conf/default/rp_filter"] {
                sysctl(bench, host, setting, "0")?;
            }
            // A link that goes down and comes back keeps its addresses.
            sysctl(bench, host, "ipv6/conf/all/keep_addr_on_down", "1")?;
            for tap in taps {
                scene.middle.ip(&format!("link set {tap} netns {}", host.name()))?;
            }
        }
        Ok(scene)
    }

    /// Start a router between `ws0` on the left and `ws1` on the right; wait until it forwards.
    pub(in crate::interop) fn plain(bench: &'a Workbench, config: &str) -> Result<Scene<'a>> {
        let scene = Scene::new(bench, config, (&["ws0"], &["ws1"]))?;
        each(&scene.left, &LEFT)?;
        each(&scene.right, &RIGHT)?;
        for (host, _) in ENDS {
            scene.answers(host)?;
        }
        Ok(scene)
    }

    fn write(&self, config: &str) -> Result<()> {
        std::fs::write(self.bench.path("router.toml"), config).context("cannot write router.toml")
    }

    /// The router's log so far.
    pub(in crate::interop) fn log(&self) -> String {
        std::fs::read_to_string(self.bench.path("router.err")).unwrap_or_default()
    }

    /// How often the router's log has this text.
    pub(in crate::interop) fn times(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// Wait until the router's log has this text this many times.
    pub(in crate::interop) fn says(&self, text: &str, times: usize) -> Result<()> {
        until(text, LIMIT, || Ok(self.times(text) >= times))
            .with_context(|| format!("the router said: {}", tail(&self.log())))
    }

    /// Let the router read another configuration, and wait until its log says that this is done.
    pub(in crate::interop) fn reload(&self, config: &str, done: &str) -> Result<()> {
        let before = self.times(done);
        self.write(config)?;
        self.signal("-HUP")?;
        self.says(done, before + 1)
    }

    pub(in crate::interop) fn signal(&self, signal: &str) -> Result<()> {
        let id = self.router()?.id().to_string();
        self.bench.run(Command::new("kill").args([signal, &id]), LIMIT).map(drop)
    }

    fn router(&self) -> Result<&Running> {
        self.router.as_ref().context("the router has ended")
    }

    /// The router's two processes: the one with privileges, and the worker with the stack.
    pub(in crate::interop) fn processes(&self) -> Result<[u32; 2]> {
        let id = self.router()?.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.context("the router has ended")?;
        let worker = children.split_whitespace().next().context("the router has no worker")?;
        Ok([id, worker.parse()?])
    }

    /// The output of `wirespeed show SECTION --json` for the router.
    pub(in crate::interop) fn show(&self, section: &str) -> Result<Value> {
        let mut found = self.shown(&[section])?;
        Ok(found[section].take())
    }

    /// A part of the output of `wirespeed show SECTION --json` for the router.
    pub(in crate::interop) fn shown_of(&self, section: &str, part: &str) -> Result<Value> {
        let mut found = self.shown(&[section])?;
        Ok(found[part].take())
    }

    /// The output of `wirespeed show --json` for the router.
    pub(in crate::interop) fn show_all(&self) -> Result<Value> {
        self.shown(&[])
    }

    /// The output of `wirespeed show WORDS --json` for the router.
    pub(in crate::interop) fn shown(&self, sections: &[&str]) -> Result<Value> {
        let [_, worker] = self.processes()?;
        let mut show = self.middle.command(shown(&self.bench.wirespeed()?)?);
        show.arg("show").args(sections).args(["--json", "--pid", &worker.to_string()]);
        let text = self.bench.run(&mut show, LIMIT)?;
        let mut document: Value = serde_json::from_str(&text).context("show printed no JSON")?;
        let found = document.pointer_mut("/stacks/0").map(Value::take);
        found.with_context(|| format!("show has no stack: {text}"))
    }

    /// The output of `wirespeed ip WORDS` for the router.
    pub(in crate::interop) fn ip(&self, words: &[&str]) -> Result<String> {
        let [_, worker] = self.processes()?;
        let mut ip = self.middle.command(shown(&self.bench.wirespeed()?)?);
        ip.args(["ip", "--pid", &worker.to_string()]).args(words);
        self.bench.run(&mut ip, LIMIT)
    }

    /// How many times the router has seen a link go down or come up.
    pub(in crate::interop) fn link_changes(&self) -> Result<u64> {
        let counters = self.show("counters")?;
        counters["link_changes"].as_u64().context("show counts no link_changes")
    }

    /// `act` on a link, and wait until the router has noticed.
    pub(in crate::interop) fn link_changed(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = self.link_changes()?;
        act()?;
        until("the router notices the link", LIMIT, || Ok(self.link_changes()? > before))
    }

    /// Tell the router to end, and check that it ends well within its time to drain.
    pub(in crate::interop) fn end(mut self) -> Result<()> {
        self.signal("-TERM")?;
        let router = self.router.take().context("the router has ended")?;
        let ended = router.finish(LIMIT);
        ended.with_context(|| format!("the router said: {}", tail(&self.log())))?;
        ensure!(self.log().contains("ending: queued output is sent"), "{}", tail(&self.log()));
        // The router's TAPs vanish with it.
        until("the TAPs are gone", LIMIT, || Ok(self.left.ip("link show ws0").is_err()))
    }

    /// Check that the host on the left gets answers from this address.
    pub(in crate::interop) fn answers(&self, to: &str) -> Result<()> {
        let answered = self.left.until(|| {
            let mut ping = self.left.command("ping");
            ping.args(["-c", "1", "-W", "1", to]);
            Ok(ping)
        });
        answered.map(drop).with_context(|| format!("the router said: {}", tail(&self.log())))
    }

    /// The output of a command of the host on the left, whether it succeeds or not.
    pub(in crate::interop) fn said(&self, command: &str) -> Result<String> {
        said(self.bench, &self.left, command)
    }

    /// iperf3's server on the right.
    pub(in crate::interop) fn server(&self) -> Result<Running> {
        let mut server = self.right.command("iperf3");
        let server = self.right.start("server", server.args(["-s", "-p", "5001"]))?;
        self.right.until_listening()?;
        Ok(server)
    }

    /// Run iperf3 on the left, with these words; returns the rate in Gb/s. Between two tests
    /// iperf3's server closes its listening socket and opens it again, so a refused connection is
    /// tried again.
    pub(in crate::interop) fn transfer(&self, words: &str) -> Result<f64> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let said = self.bench.run(&mut self.client(words), LIMIT)?;
            if !said.contains("unable to connect") || Instant::now() > deadline {
                return iperf::moved(&said);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(in crate::interop) fn client(&self, words: &str) -> Command {
        let mut client = self.left.command("iperf3");
        client.args(["-p", "5001", "-J"]).args(words.split(' '));
        client
    }
}

/// `ip` with each of these lines.
pub(in crate::interop) fn each(host: &Host<'_>, lines: &[&str]) -> Result<()> {
    lines.iter().try_for_each(|line| host.ip(line))
}

/// The output of a command of a host, whether it succeeds or not.
pub(in crate::interop) fn said(
    bench: &Workbench,
    host: &Host<'_>,
    command: &str,
) -> Result<String> {
    let mut shell = host.command("sh");
    bench.run(shell.args(["-c", &format!("{command} 2>&1; true")]), LIMIT)
}

/// The end of a log.
pub(in crate::interop) fn tail(log: &str) -> &str {
    let from = log.len().saturating_sub(2_000);
    &log[log.ceil_char_boundary(from)..]
}
