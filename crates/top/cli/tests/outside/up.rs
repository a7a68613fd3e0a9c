//! `wirespeed up` between two hosts, which are the kernels of two namespaces: forwarding, changes
//! while a connection goes on, privileges, metrics, and the end.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Case, Namespace, Need, Running, ip, until};

pub(crate) const CASES: &[Case] = &[
    ("up_forwards_and_changes_while_a_connection_goes_on", &[Need::PING], changes),
    ("up_runs_its_stack_without_privileges", &[Need::PING], privileges),
    ("up_ends_when_its_worker_crashes", &[], crash),
    ("up_tells_the_service_manager", &[], notifies),
    ("up_serves_metrics_and_health", &[Need::PING], metrics),
    ("up_runs_in_one_process_if_asked", &[Need::PING], one_process),
];

pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const CONFIG: &str = r#"
[metrics]
listen = "127.0.0.1:9464"
[[port]]
name = "wan"
device = "tap:ws0"
addresses = "192.0.2.2/24"
[[port]]
name = "lan"
device = "tap:ws1"
addresses = "198.51.100.1/24"
"#;

/// A router, and a host behind its second port; this namespace is the host at the first.
pub(crate) struct World {
    running: Option<Running>,
    pub(crate) behind: Namespace,
    directory: PathBuf,
}

impl World {
    pub(crate) fn new(config: &str) -> World {
        World::with(config, |_| {})
    }

    pub(crate) fn with(config: &str, more: impl FnOnce(&mut Command)) -> World {
        World::begun(config, "", more).joined()
    }

    /// The host behind and this one are connected to the router's ports.
    fn joined(self) -> World {
        let world = self;
        world.says("forwarding; SIGHUP reads");
        // The kernel's ends: ours, and that of the host behind.
        assert!(ip("addr add 192.0.2.1/24 dev ws0") && ip("link set ws0 up"));
        assert!(ip("route add 198.51.100.0/24 via 192.0.2.2"));
        assert!(ip(&format!("link set ws1 netns {}", world.behind.name())));
        assert!(world.behind.ip("link set lo up"));
        assert!(world.behind.ip("addr add 198.51.100.2/24 dev ws1"));
        assert!(world.behind.ip("link set ws1 up"));
        assert!(world.behind.ip("route add default via 198.51.100.1"));
        world
    }

    /// The same, with files beside the configuration.
    pub(crate) fn with_files(config: &str, files: &[(&str, &str)]) -> World {
        World::begun_with(config, files, "", |_| {}).joined()
    }

    /// The router alone, between networks that are there already.
    pub(crate) fn started(config: &str) -> World {
        let world = World::begun(config, "", |_| {});
        world.says("forwarding; SIGHUP reads");
        world
    }

    /// A router that ends by itself, started by another program if there is one: its exit code
    /// and what it said.
    pub(crate) fn fails(config: &str, by: &str) -> (i32, String) {
        let mut world = World::begun(config, by, |_| {});
        let status = world.running.as_mut().expect("it was started").wait();
        (status.code().unwrap_or(-1), world.log())
    }

    fn begun(config: &str, by: &str, more: impl FnOnce(&mut Command)) -> World {
        World::begun_with(config, &[], by, more)
    }

    fn begun_with(
        config: &str,
        files: &[(&str, &str)],
        by: &str,
        more: impl FnOnce(&mut Command),
    ) -> World {
        let behind = Namespace::new().expect("root may");
        assert!(ip("link set lo up"));
        let directory = std::env::temp_dir().join(format!("{}-up", behind.name()));
        std::fs::create_dir_all(directory.join("run")).expect("a directory");
        let mut world = World { running: None, behind, directory };
        world.write(config);
        for (name, text) in files {
            std::fs::write(world.path(name), text).expect("room");
        }
        let mut words = by.split_whitespace().chain([env!("CARGO_BIN_EXE_wirespeed")]);
        let mut command = Command::new(words.next().expect("the program"));
        command.args(words).arg("up").arg(world.file());
        command.env("WIRESPEED_RUNTIME_DIR", world.path("run"));
        more(&mut command);
        let log = std::fs::File::create(world.path("log")).expect("a file");
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        world.running = Some(Running(child.expect("the program starts")));
        world
    }

    /// A file of the case's own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("router.toml")
    }

    /// The output of `wirespeed show SECTION` for the router.
    pub(crate) fn show(&self, section: &str) -> String {
        self.shown(&[section])
    }

    /// The same as JSON.
    pub(crate) fn show_json(&self, section: &str) -> String {
        self.shown(&[section, "--json"])
    }

    fn shown(&self, words: &[&str]) -> String {
        let mut show = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        show.arg("show").args(words).args(["--pid", &self.worker().to_string()]);
        let shown = show.env("WIRESPEED_RUNTIME_DIR", self.path("run")).output();
        let shown = shown.expect("the program starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&shown.stdout) + &text(&shown.stderr)
    }

    /// The exit code and the output of a tool for the router, by the words of its command line. A
    /// word cannot have a blank.
    pub(crate) fn tool(&self, words: &str) -> (i32, String) {
        self.local(&format!("{words} --pid {}", self.worker()))
    }

    /// The same without the router's process.
    pub(crate) fn local(&self, words: &str) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        let ran = command.args(words.split(' ')).env("WIRESPEED_RUNTIME_DIR", self.path("run"));
        let ran = ran.output().expect("the program starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ran.status.code().unwrap_or(-1), text(&ran.stdout) + &text(&ran.stderr))
    }

    pub(crate) fn write(&self, config: &str) {
        std::fs::write(self.file(), config).expect("room");
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).expect("a log")
    }

    /// Wait until the log contains `text`.
    pub(crate) fn says(&self, text: &str) {
        assert!(until(TIMEOUT, || self.log().contains(text)), "no '{text}' in: {}", self.log());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let running = self.running.as_ref().expect("it was started");
        kill_process(Pid::from_child(&running.0), signal).expect("it runs");
    }

    /// Let another configuration take effect, and wait until the log says `text`.
    pub(crate) fn reload(&self, config: &str, text: &str) {
        self.write(config);
        self.signal(Signal::HUP);
        self.says(text);
    }

    /// The process that has the stack: the only one if it was told not to have two.
    pub(crate) fn worker(&self) -> u32 {
        let id = self.running.as_ref().expect("it was started").0.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let children = std::fs::read_to_string(path).expect("it runs");
        children.split_whitespace().next().map_or(id, |child| child.parse().expect("a number"))
    }

    /// End it; returns its exit code.
    pub(crate) fn end(mut self, signal: Signal) -> i32 {
        self.signal(signal);
        let status = self.running.as_mut().expect("it was started").wait();
        status.code().unwrap_or(-1)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub(crate) fn pings(to: &str) -> bool {
    let args = ["-c", "1", "-W", "1", to];
    let output = Command::new("ping").args(args).stdout(Stdio::null()).status();
    output.is_ok_and(|status| status.success())
}

pub(crate) fn asked(path: &str) -> String {
    let mut stream = TcpStream::connect("127.0.0.1:9464").expect("metrics are served");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n").expect("it takes it");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

fn changes() {
    let world = World::new(CONFIG);
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    // An echo server on the host behind.
    let (told, listens) = mpsc::channel();
    std::thread::scope(|scope| {
        let behind = &world.behind;
        scope.spawn(move || {
            let echo = || {
                let listener = TcpListener::bind("198.51.100.2:7007").expect("the port is free");
                told.send(()).expect("it waits");
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut room = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut room) {
                    stream.write_all(&room[..count]).expect("it takes it");
                }
            };
            behind.inside(echo).expect("no panic");
        });
        listens.recv().expect("it listens");
        let mut stream = TcpStream::connect("198.51.100.2:7007").expect("it is forwarded");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
        let mut echoes = |what: &str| {
            stream.write_all(b"hello").expect("it takes it");
            let mut room = [0; 5];
            stream.read_exact(&mut room).unwrap_or_else(|why| panic!("{what}: {why}"));
        };
        echoes("at first");
        let more = "[[port]]\nname = \"guests\"\nparent = \"lan\"\nvlan = 20\n\
                    addresses = \"203.0.113.1/24\"\n\
                    [[route]]\nto = \"10.9.0.0/16\"\nvia = \"192.0.2.1\"\n";
        world.reload(&format!("{CONFIG}{more}"), "4 changes took effect, 0 failed");
        assert!(!world.log().contains("port wan: opened anew"), "{}", world.log());
        echoes("with a VLAN and a route");
        assert!(ip("route add 203.0.113.0/24 via 192.0.2.2"));
        assert!(until(TIMEOUT, || pings("203.0.113.1")), "{}", world.log());
        // An invalid file changes nothing.
        world.reload(&format!("{CONFIG}mtuu = 9\n"), "router.toml:12:1: ");
        world.says("did you mean 'mtu'?");
        world.says("the running configuration stays");
        echoes("with an invalid file");
        world.reload(CONFIG, "2 changes took effect, 0 failed");
        world.says("port guests: removed");
        echoes("as before");
    });
    assert_eq!(world.end(Signal::TERM), 0);
    // The router's TAPs went with it.
    assert!(until(TIMEOUT, || !ip("link show ws0")));
}

fn status(pid: u32, key: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let of = |path: &Path| {
        let text = std::fs::read_to_string(path.join("status")).expect("a thread");
        let line = text.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel's key");
        line.trim().to_owned()
    };
    threads.flatten().map(|thread| of(&thread.path())).collect()
}

fn privileges() {
    let world = World::new(CONFIG);
    let worker = world.worker();
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    for (key, wanted) in [
        ("CapEff:", "0000000000000000"),
        ("CapPrm:", "0000000000000000"),
        ("CapInh:", "0000000000000000"),
        ("CapBnd:", "0000000000000000"),
        ("CapAmb:", "0000000000000000"),
        ("NoNewPrivs:", "1"),
        // 2: a filter.
        ("Seccomp:", "2"),
    ] {
        let all = status(worker, key);
        assert!(all.len() >= 2, "the driver's thread, and the other");
        assert!(all.iter().all(|value| value == wanted), "{key} {all:?}");
    }
    // A user of its own, in no other group.
    let ids = |key: &str| {
        let all = status(worker, key);
        let ids = all.iter().flat_map(|line| line.split_whitespace());
        ids.map(|id| id.parse::<u32>().expect("a number")).collect::<BTreeSet<u32>>()
    };
    let (uids, gids) = (ids("Uid:"), ids("Gid:"));
    assert!(uids.len() == 1 && uids.iter().all(|&uid| uid > 60_000), "{uids:?}");
    assert!(uids == gids && ids("Groups:").is_empty(), "{gids:?}");
    // The control socket is served under the filter, and reloads take effect.
    let text = world.show("routes");
    assert!(text.contains("198.51.100.0/24"), "{text}");
    let narrow = CONFIG.replacen("device = \"tap:ws0\"", "device = \"tap:ws0\"\nmtu = 1400", 1);
    world.reload(&narrow, "1 changes took effect, 0 failed");
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    assert_eq!(world.end(Signal::INT), 0);
}

fn crash() {
    let mut world = World::new(CONFIG);
    let pid = Pid::from_raw(world.worker() as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
    let status = world.running.as_mut().expect("it was started").wait();
    assert_eq!(status.code(), Some(137), "{}", world.log());
    assert!(world.log().contains("the worker was ended by signal 9"), "{}", world.log());
}

fn notifies() {
    let path = std::env::temp_dir().join(format!("ws-notify-{}", std::process::id()));
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a time");
    let told = || {
        let mut room = [0; 512];
        let count = socket.recv(&mut room).expect("a message");
        String::from_utf8_lossy(&room[..count]).into_owned()
    };
    let world = World::with(CONFIG, |command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
        command.env_remove("WATCHDOG_PID");
    });
    assert_eq!(told().trim(), "READY=1");
    assert_eq!(told().trim(), "WATCHDOG=1");
    world.signal(Signal::HUP);
    let next = || (0..20).map(|_| told()).find(|text| !text.contains("WATCHDOG"));
    let reloading = next().expect("a message");
    assert!(reloading.contains("RELOADING=1") && reloading.contains("MONOTONIC_USEC="));
    assert_eq!(next().as_deref().map(str::trim), Some("READY=1"));
    world.signal(Signal::TERM);
    assert_eq!(next().as_deref().map(str::trim), Some("STOPPING=1"));
    drop(world);
    let _ = std::fs::remove_file(path);
}

fn metrics() {
    let world = World::new(CONFIG);
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    let text = asked("/metrics");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    let body = text.split("\r\n\r\n").nth(1).expect("a body");
    let value = |name: &str| {
        let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}: {body}")).parse::<u64>().expect("a number")
    };
    assert_eq!((value("wirespeed_ports"), value("wirespeed_forwarding")), (2, 1));
    assert!(value("wirespeed_forwarded_total") >= 2);
    assert!(value("wirespeed_port_receive_frames_total{port=\"wan\"}") > 0);
    assert!(value("wirespeed_port_transmit_bytes_total{port=\"lan\"}") > 0);
    assert_eq!(value("wirespeed_port_up{port=\"lan\"}"), 1);
    assert!(asked("/healthz").ends_with("\r\n\r\nok\n"));
    if let Ok(path) = std::env::var("PROMTOOL") {
        let child = Command::new(path).args(["check", "metrics"]).stdin(Stdio::piped()).spawn();
        let mut child = child.expect("promtool starts");
        child.stdin.take().expect("piped").write_all(body.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success());
    }
    // A port whose link is down is reported.
    assert!(ip("link set ws0 down"));
    assert!(until(TIMEOUT, || asked("/healthz").starts_with("HTTP/1.1 503 ")));
    assert_eq!(world.end(Signal::TERM), 0);
}

fn one_process() {
    let world = World::new(&format!("{CONFIG}[privileges]\nseparate = false\n"));
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    assert!(world.log().contains("port wan: added"), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}
