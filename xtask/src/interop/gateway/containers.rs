//! Drop-ins for containers: `pasta`, `slirp4netns` and `pesto` with the command lines that podman,
//! Docker and rootlesskit give them, in namespaces that unshare(1) makes.
//!
//! The suite `gateway-containers` runs podman and rootlesskit themselves (`podman.rs`); these cases
//! need neither.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::scene::Site;
use crate::interop::Workbench;
use crate::interop::host::Running;
use crate::interop::ip::until;
use crate::interop::router::scene::tail;

const SOON: Duration = Duration::from_secs(20);

/// A container: a user namespace and a network namespace, kept by a process.
struct Container<'s, 'a> {
    site: &'s Site<'a>,
    running: Option<Running>,
    pid: u32,
}

impl<'s, 'a> Container<'s, 'a> {
    fn new(site: &'s Site<'a>, name: &str) -> Result<Container<'s, 'a>> {
        let line = "unshare -rn sh -c 'echo begun $$; exec sleep 300'";
        let running = site.start(name, line)?;
        site.wait_for(&format!("{name}.out"), "begun")?;
        // unshare executes the shell, and the shell sleep: one process.
        let pid = running.id();
        Ok(Container { site, running: Some(running), pid })
    }

    /// Run a line in its user namespace, with the host's network: as podman does.
    fn outside(&self, line: &str) -> Result<(i32, String)> {
        self.site.on_host(&format!("nsenter -t {} -U --preserve-credentials {line}", self.pid))
    }

    /// Run a line in its network.
    fn inside(&self, line: &str) -> Result<(i32, String)> {
        self.site.on_host(&format!("nsenter -t {} -U -n --preserve-credentials {line}", self.pid))
    }

    /// Start a program in its network.
    fn start(&self, name: &str, line: &str) -> Result<Running> {
        let line = format!("nsenter -t {} -U -n --preserve-credentials {line}", self.pid);
        self.site.start(name, &line)
    }

    /// Wait until something listens at this TCP port inside.
    fn listens(&self, port: u16) -> Result<()> {
        let line = format!("ss -Hltn sport = :{port}");
        until(&format!("port {port} inside"), SOON, || Ok(self.inside(&line)?.1.contains("LISTEN")))
    }
}

/// The output of a line that has to end well.
fn good((code, text): (i32, String)) -> Result<String> {
    ensure!(code == 0, "exit {code}: {}", tail(&text));
    Ok(text)
}

/// A page from the host's address, as another machine asks for it.
fn from_router(site: &Site<'_>, url: &str) -> Result<String> {
    let mut curl = site.router.command("curl");
    site.bench.run(curl.args(["-sS", "-m", "5", url]), SOON)
}

/// podman's line: the container reaches names and hosts, a published port keeps the client's
/// address, ports come and go by pesto, and the end of the network is the end of the process.
pub(super) fn podman_lines(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench)?;
    let mut container = Container::new(&site, "container")?;
    let netns = format!("/proc/{}/ns/net", container.pid);
    let line = format!(
        "$WS pasta --config-net -t 18080-18080:80-80 --dns-forward 169.254.1.1 -t none -u none \
         -T none -U none --no-map-gw --quiet --netns {netns} --map-guest-addr 169.254.1.2 --pid \
         $F/home/pid -c $F/home/orders"
    );
    good(container.outside(&line)?)?;
    let addresses = good(container.inside("ip -br address show dev eth0")?)?;
    ensure!(addresses.contains("10.0.2.100/24"), "podman would show no address: {addresses}");
    let page = good(container.inside("curl -sS -m 10 http://web.example/")?)?;
    ensure!(page.contains("hello from the server"), "curl: {page}");
    let _server = container.start("server", "/usr/bin/python3 -m http.server 80")?;
    container.listens(80)?;
    from_router(&site, "http://10.77.0.2:18080/")?;
    site.wait_for("server.err", "10.77.0.1 - ")?;
    println!("  podman's line: address, names, port 18080 with the client's address");
    let closed = |port| from_router(&site, &format!("http://10.77.0.2:{port}/")).is_err();
    ensure!(closed(18081), "port 18081 is open too early");
    good(site.on_host("$WS pesto -A -t 18081:80 $F/home/orders")?)?;
    from_router(&site, "http://10.77.0.2:18081/")?;
    let shown = good(site.on_host("$WS pesto -s $F/home/orders")?)?;
    ensure!(shown.contains(":18081 -> 10.0.2.100 port 80"), "pesto -s: {shown}");
    good(site.on_host("$WS pesto -D -t 18081:80 $F/home/orders")?)?;
    ensure!(closed(18081), "port 18081 is not closed");
    let (code, text) = site.on_host("$WS pesto -D -t 18081:80 $F/home/orders")?;
    ensure!(code == 1 && text.contains("not published"), "pesto: exit {code}: {text}");
    println!("  pesto: added, shown, deleted");
    bridged(&container)?;
    let pid: u32 = site.read("home/pid").trim().parse().context("no --pid")?;
    drop(container.running.take());
    until("the gateway ends with the network", SOON, || {
        Ok(!std::path::Path::new(&format!("/proc/{pid}/exe")).exists())
    })?;
    println!("  the network ended, and so did the process");
    Ok(())
}

/// pesto leads to a container on a bridge in the network that pasta serves, as podman 6 asks.
fn bridged(container: &Container<'_, '_>) -> Result<()> {
    let site = container.site;
    let _behind = container.start("behind", "unshare -n sh -c 'echo begun $$; exec sleep 300'")?;
    site.wait_for("behind.out", "begun")?;
    let text = site.read("behind.out");
    let pid: u32 = text.trim().trim_start_matches("begun ").parse().context("no number")?;
    let within = |line: &str| format!("nsenter -t {pid} -n {line}");
    for line in [
        format!("ip link add bridge type veth peer name eth0 netns {pid}"),
        "ip address add 10.88.0.1/24 dev bridge".to_owned(),
        "ip link set bridge up".to_owned(),
        "sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'".to_owned(),
        within("ip address add 10.88.0.2/24 dev eth0"),
        within("ip link set eth0 up"),
        within("ip route add default via 10.88.0.1"),
    ] {
        good(container.inside(&line)?)?;
    }
    let line = within("/usr/bin/python3 -m http.server 80");
    let _server = container.start("bridged", &line)?;
    good(site.on_host("$WS pesto -A -t 18083:10.88.0.2/80 $F/home/orders")?)?;
    until("the container on the bridge answers", SOON, || {
        Ok(from_router(site, "http://10.77.0.2:18083/").is_ok())
    })?;
    site.wait_for("bridged.err", "10.77.0.1 - ")?;
    println!("  pesto: a container on a bridge sees the client's address");
    Ok(())
}

/// rootlesskit's lines, and those of slirp4netns.
pub(super) fn other_lines(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench)?;
    for (line, code, says) in [
        ("pasta --version", 0, "pasta 0.0~wirespeed."),
        ("pasta --host-lo-to-ns-lo --version", 0, "pasta 0.0"),
        ("pasta --no-such-option", 1, "unrecognized option '--no-such-option'"),
        ("slirp4netns --help", 0, "--disable-host-loopback"),
        ("pesto no-such-socket", 1, "no pasta is reached"),
    ] {
        let (is, text) = site.on_host(&format!("$WS {line}"))?;
        ensure!(is == code && text.contains(says), "{line}: exit {is}: {text}");
    }
    rootlesskit(&site)?;
    slirp(&site)
}

/// The interface is configured inside, and ports follow what listens there.
fn rootlesskit(site: &Site<'_>) -> Result<()> {
    let container = Container::new(site, "rootlesskit")?;
    let line = format!(
        "$WS pasta --foreground --stderr --ns-ifname=tap0 --mtu=65520 --no-dhcp --no-ra \
         --address=10.0.2.100 --netmask=24 --gateway=10.0.2.2 --dns-forward=10.0.2.3 --no-map-gw \
         --ipv4-only --tcp-ports=auto --udp-ports=auto {}",
        container.pid
    );
    let _pasta = site.start("pasta", &line)?;
    let has_link = || Ok(container.inside("ip -br link show dev tap0")?.1.contains("UP"));
    until("tap0", SOON, has_link)?;
    for line in ["address add 10.0.2.100/24 dev tap0", "route add default via 10.0.2.2"] {
        good(container.inside(&format!("ip {line}"))?)?;
    }
    let page = good(container.inside("curl -sS -m 10 http://web.example/")?)?;
    ensure!(page.contains("hello from the server"), "curl: {page}");
    let server = container.start("auto", "/usr/bin/python3 -m http.server 8099")?;
    until("port 8099 is published", SOON, || {
        Ok(from_router(site, "http://10.77.0.2:8099/").is_ok())
    })?;
    drop(server);
    until(
        "port 8099 is closed",
        SOON,
        || Ok(from_router(site, "http://10.77.0.2:8099/").is_err()),
    )?;
    println!("  rootlesskit's line: ports follow what listens inside");
    Ok(())
}

/// A request to the API of slirp4netns, and its answer.
const API: &str = "\
import socket, sys
api = socket.socket(socket.AF_UNIX)
api.connect(sys.argv[1])
api.sendall(sys.argv[2].encode())
print(api.recv(4096).decode())
";

/// A forward by the API's socket.
fn slirp(site: &Site<'_>) -> Result<()> {
    std::fs::write(site.bench.path("api.py"), API)?;
    let container = Container::new(site, "slirped")?;
    let line = format!(
        "sh -c 'mkfifo $F/home/exit; exec 3> $F/home/ready 4<> $F/home/exit; exec $WS slirp4netns \
         --disable-host-loopback --mtu=65520 --enable-sandbox --enable-seccomp --enable-ipv6 -c \
         -r 3 -e 4 --api-socket $F/home/api {} tap0'",
        container.pid
    );
    let _slirp = site.start("slirp", &line)?;
    site.wait_for("home/ready", "1")?;
    let page = good(container.inside("curl -sS -m 10 http://web.example/")?)?;
    ensure!(page.contains("hello from the server"), "curl: {page}");
    let _server = container.start("forwarded", "/usr/bin/python3 -m http.server 80")?;
    container.listens(80)?;
    let ask = |request: &str| {
        good(site.on_host(&format!("/usr/bin/python3 $F/api.py $F/home/api '{request}'"))?)
    };
    let port = r#"{"proto":"tcp","host_port":18082,"guest_port":80}"#;
    let added = ask(&format!(r#"{{"execute":"add_hostfwd","arguments":{port}}}"#))?;
    ensure!(added.contains(r#""id":1"#), "add_hostfwd: {added}");
    from_router(site, "http://10.77.0.2:18082/")?;
    site.wait_for("forwarded.err", "10.77.0.1 - ")?;
    let listed = ask(r#"{"execute":"list_hostfwd"}"#)?;
    ensure!(listed.contains(r#""host_port":18082"#), "list_hostfwd: {listed}");
    ask(r#"{"execute":"remove_hostfwd","arguments":{"id":1}}"#)?;
    ensure!(from_router(site, "http://10.77.0.2:18082/").is_err(), "remove_hostfwd");
    let wrong = ask(r#"{"execute":"x"}"#)?;
    ensure!(wrong.contains("error"), "an unknown request: {wrong}");
    println!("  slirp4netns: configured, and its API");
    Ok(())
}
