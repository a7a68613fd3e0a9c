//! The C library as its users have it: installed below a folder of its own, found by pkg-config,
//! and the examples of examples/c against programs of the kernel.
//!
//! Called by: the suite `programs-c`, and the case of the library's packages. The library is built
//! by `make` once; the compilers see only what `make install` copied. Each case runs the example
//! that each compiler here has made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::interop::host::{Host, Running};
use crate::interop::{Case, Need, Workbench, iperf};
use crate::process;

pub(super) const MAKE: Need = Need::Program { program: "make", package: "make" };
pub(super) const GCC: Need = Need::Program { program: "gcc", package: "gcc" };
const CLANG: Need = Need::Program { program: "clang", package: "clang" };
const PKG_CONFIG: Need = Need::Program { program: "pkg-config", package: "pkg-config" };
const TUN: Need = Need::File("/dev/net/tun");
const IP: Need = Need::Program { program: "ip", package: "iproute2" };
const PYTHON: Need = Need::Program { program: "python3", package: "python3" };
const MICROSOCKS: Need = Need::Program { program: "microsocks", package: "microsocks" };
const NGINX: Need = Need::Program { program: "nginx", package: "nginx-light" };
const CURL: Need = Need::Program { program: "curl", package: "curl" };
const NC: Need = Need::Program { program: "nc", package: "netcat-openbsd" };

const NM: Need = Need::Program { program: "nm", package: "binutils" };

pub(super) const ECHO: Case = Case {
    name: "C: the echo server with epoll, nc and 100 connections of Python",
    needs: &[MAKE, GCC, PKG_CONFIG, Need::Root, TUN, IP, NC, PYTHON],
    run: |bench| each(bench, echo),
};
pub(super) const SOCKS: Case = Case {
    name: "C: tun2socks, curl to nginx through microsocks",
    needs: &[MAKE, GCC, PKG_CONFIG, Need::Root, TUN, IP, MICROSOCKS, NGINX, CURL],
    run: |bench| each(bench, socks),
};
pub(super) const BULK: Case = Case {
    name: "C: tun2socks, iperf3 both ways through microsocks",
    needs: &[MAKE, GCC, PKG_CONFIG, Need::Root, TUN, IP, MICROSOCKS, iperf::IPERF3],
    run: |bench| each(bench, bulk),
};
pub(super) const GAME: Case = Case {
    name: "C: the game loop at 60 Hz, players in Python",
    needs: &[MAKE, GCC, PKG_CONFIG, Need::Root, TUN, IP, PYTHON],
    run: |bench| each(bench, game),
};
pub(super) const WITHOUT_GATEWAY: Case = Case {
    name: "C: the library without gateways lacks their functions alone",
    needs: &[MAKE, GCC, NM],
    run: without_gateway,
};
pub(super) const CLANG_TOO: Case = Case {
    name: "C: the examples by clang, with the static library",
    needs: &[MAKE, CLANG, PKG_CONFIG],
    run: |bench| examples(bench, "clang", true).map(drop),
};

/// How long a client may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The address of the server behind the proxy.
const SERVER: &str = "198.51.100.5";

/// A case with the examples of each compiler that is here.
fn each(bench: &Workbench, case: fn(&Workbench, &Path) -> Result<()>) -> Result<()> {
    for compiler in ["gcc", "clang"] {
        if process::find(compiler).is_some() {
            let programs = examples(bench, compiler, false)?;
            case(bench, &programs).with_context(|| format!("built by {compiler}"))?;
        }
    }
    Ok(())
}

/// The folder below which the library is installed, once for all cases.
fn installed(bench: &Workbench) -> Result<PathBuf> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let install = || {
        let root = bench.root().join("target/c/installed");
        install(bench, &root, "/usr/lib").map(|()| root)
    };
    let installed = INSTALLED.get_or_init(|| install().map_err(|why| format!("{why:#}")));
    installed.clone().map_err(|why| anyhow!(why))
}

/// Build the library, and install it below a folder.
pub(super) fn install(bench: &Workbench, root: &Path, libdir: &str) -> Result<()> {
    make(bench, &[])?;
    // Rust is not needed any more: without cargo on PATH nothing can be built.
    let (libdir, root) = (format!("LIBDIR={libdir}"), format!("DESTDIR={}", root.display()));
    make(bench, &["install", "CARGO=false", "PREFIX=/usr", &libdir, &root])
}

/// The library's Makefile.
fn make(bench: &Workbench, words: &[&str]) -> Result<()> {
    let capi = bench.root().join("crates/top/capi");
    process::pass_on(Command::new("make").arg("-s").arg("-C").arg(capi).args(words))
}

/// A library without gateways exports everything else, and is smaller.
fn without_gateway(bench: &Workbench) -> Result<()> {
    let out = bench.path("small");
    make(bench, &["GATEWAY=no", &format!("BUILD={}", out.display())])?;
    let shared = |folder: &Path| folder.join("libwirespeed.so.0.1.0");
    let exported = |file: &Path| {
        let mut nm = Command::new("nm");
        let nm = nm.args(["-D", "--defined-only", "--no-demangle", "--format=just-symbols"]);
        let text = bench.run(nm.arg(file), PATIENCE)?;
        let names = text.lines().filter_map(|line| line.strip_suffix("@@WIRESPEED_0.1"));
        anyhow::Ok(names.map(str::to_owned).collect::<BTreeSet<_>>())
    };
    let (small, whole) = (shared(&out), shared(&installed(bench)?.join("usr/lib")));
    let lacks = exported(&whole)?.difference(&exported(&small)?).cloned().collect::<Vec<_>>();
    let only_gateways = lacks.iter().all(|name| name.starts_with("ws_gateway_"));
    ensure!(lacks.len() == 4 && only_gateways, "the small library lacks {lacks:?}");
    let bytes = |file: &Path| std::fs::metadata(file).map(|file| file.len());
    let (small, whole) = (bytes(&small)?, bytes(&whole)?);
    ensure!(small < whole / 2, "the small library has {small} bytes, the whole one {whole}");
    Ok(())
}

/// Build the examples; returns their folder.
fn examples(bench: &Workbench, compiler: &str, is_static: bool) -> Result<PathBuf> {
    let installed = installed(bench)?;
    let out = bench.path(compiler);
    std::fs::create_dir_all(&out)?;
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(bench.root().join("examples/c"));
    make.arg(format!("CC={compiler}")).arg(format!("OUT={}", out.display()));
    if is_static {
        make.arg("STATIC=--static");
    }
    make.env("PKG_CONFIG_SYSROOT_DIR", &installed);
    make.env("PKG_CONFIG_LIBDIR", installed.join("usr/lib/pkgconfig"));
    // The folder is what the compiler of a user has by default.
    make.env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1").env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1");
    bench.run(&mut make, Duration::from_secs(120))?;
    for program in ["echo", "tun2socks", "game"] {
        ensure!(out.join(program).exists(), "make did not build {program}");
    }
    Ok(out)
}

/// Start an example in a namespace, and wait until it has printed `ready`.
fn start(
    bench: &Workbench,
    host: &Host<'_>,
    program: &Path,
    words: &[&str],
    ready: &str,
) -> Result<Running> {
    let mut command = host.command(program.to_str().context("a path that is no text")?);
    command.env("LD_LIBRARY_PATH", installed(bench)?.join("usr/lib")).args(words);
    let mut running = host.start("example", &mut command)?;
    let printed = host.until(|| {
        let mut look = Command::new("grep");
        look.args(["-q", ready]).arg(bench.path("example.out"));
        Ok(look)
    });
    let complaint = || std::fs::read_to_string(bench.path("example.err")).unwrap_or_default();
    printed.with_context(complaint)?;
    ensure!(running.is_alive()?, "it ended: {}", complaint());
    Ok(running)
}

fn python(host: &Host<'_>, bench: &Workbench, text: &str) -> Result<String> {
    bench.run(host.command("python3").args(["-c", text]), PATIENCE)
}

fn echo(bench: &Workbench, programs: &Path) -> Result<()> {
    let host = Host::without_tap(bench)?;
    let words = ["ws0", "10.9.0.1/24", "10.9.0.2/24", "7"];
    let mut server = start(bench, &host, &programs.join("echo"), &words, "listening")?;
    let mut nc = host.command("sh");
    nc.args(["-c", "echo hello, stack | nc -N 10.9.0.2 7"]);
    ensure!(bench.run(&mut nc, PATIENCE)? == "hello, stack\n", "nc got another text");
    // Each connection sends a megabyte that does not repeat, and reads it in between.
    let clients = "
import socket, threading, random
def one(seed):
    data = random.Random(seed).randbytes(1 << 20)
    s = socket.create_connection(('10.9.0.2', 7))
    threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR))).start()
    got = bytearray()
    while chunk := s.recv(65536):
        got += chunk
    results.append(bytes(got) == data)
results = []
threads = [threading.Thread(target=one, args=(n,)) for n in range(100)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(results), all(results))
";
    let printed = python(&host, bench, clients)?;
    ensure!(printed == "100 True\n", "the clients of Python printed {printed}");
    ensure!(server.is_alive()?, "the server ended");
    Ok(())
}

/// Two hosts: the clients' kernel, and that of the proxy, tun2socks and the servers behind them.
/// The TUN of tun2socks is moved to the clients, whose default route it is.
struct Behind<'a> {
    near: Host<'a>,
    far: Host<'a>,
    example: Running,
    _proxy: Running,
}

fn behind<'a>(bench: &'a Workbench, programs: &Path) -> Result<Behind<'a>> {
    let (near, far) = (Host::without_tap(bench)?, Host::without_tap(bench)?);
    far.ip(&format!("addr add {SERVER}/32 dev lo"))?;
    let mut proxy = far.command("microsocks");
    let proxy = far.start("microsocks", proxy.args(["-i", "127.0.0.1", "-p", "1080"]))?;
    let words = ["ws0", "10.9.0.1/24", "10.9.0.2/24", "127.0.0.1", "1080"];
    let example = start(bench, &far, &programs.join("tun2socks"), &words, "forwarding")?;
    // The descriptor stays open when the interface is moved.
    far.ip(&format!("link set dev ws0 netns {}", near.name()))?;
    for line in ["addr add 10.9.0.1/24 dev ws0", "link set ws0 up", "route add default dev ws0"] {
        near.ip(line)?;
    }
    Ok(Behind { near, far, example, _proxy: proxy })
}

fn socks(bench: &Workbench, programs: &Path) -> Result<()> {
    let Behind { near, far, mut example, _proxy } = behind(bench, programs)?;
    let file = bench.file("served", 20 << 20)?;
    let folder = bench.path("");
    let config = format!(
        "user root; daemon off; master_process off; pid {0}nginx.pid; error_log {0}nginx.log;\n\
         events {{}}\nhttp {{ access_log off; server {{ listen {SERVER}:80; root {0}; }} }}\n",
        folder.display()
    );
    std::fs::write(bench.path("nginx.conf"), config)?;
    let mut nginx = far.command("nginx");
    let _nginx = far.start("nginx", nginx.arg("-c").arg(bench.path("nginx.conf")))?;
    let (url, got) = (format!("http://{SERVER}/served"), bench.path("got"));
    near.until(|| {
        let mut curl = near.command("curl");
        curl.args(["-sS", "--fail", "--max-time", "50", "-o"]).arg(&got).arg(&url);
        Ok(curl)
    })?;
    ensure!(std::fs::read(&got)? == std::fs::read(&file)?, "curl got other bytes");
    // Nobody listens there: the proxy says so, and the connection is refused. 7: cannot connect.
    let mut refused = near.command("curl");
    refused.args(["-s", "--max-time", "20", &format!("http://{SERVER}:81/")]);
    let status = refused.status()?;
    ensure!(status.code() == Some(7), "curl to a closed port ended with {status}");
    ensure!(example.is_alive()?, "tun2socks ended");
    Ok(())
}

fn bulk(bench: &Workbench, programs: &Path) -> Result<()> {
    let Behind { near, far, mut example, _proxy } = behind(bench, programs)?;
    let mut server = far.command("iperf3");
    let _server = far.start("iperf3", server.args(["-s", "-4"]))?;
    for (words, ends) in [(&[][..], "client to server"), (&["-R"][..], "server to client")] {
        let measured = near.until(|| {
            let mut client = near.command("iperf3");
            client.args(["-c", SERVER, "-J", "-t", "3"]).args(words);
            Ok(client)
        })?;
        let gbit_per_s = iperf::moved(&measured)?;
        println!("  iperf3, {ends}, through tun2socks in C: {gbit_per_s:.2} Gb/s");
    }
    ensure!(example.is_alive()?, "tun2socks ended");
    Ok(())
}

fn game(bench: &Workbench, programs: &Path) -> Result<()> {
    let host = Host::without_tap(bench)?;
    let words = ["ws0", "10.9.0.1/24", "10.9.0.2/24", "7777", "600"];
    let server = start(bench, &host, &programs.join("game"), &words, "playing")?;
    let players = "
import socket
players = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
for step in range(20):
    for number, player in enumerate(players):
        player.settimeout(1)
        player.sendto(b'%d %d' % (step, number), ('10.9.0.2', 7777))
    for player in players:
        try:
            world = player.recv(2048).decode()
        except TimeoutError:
            pass
seen = {tuple(map(int, line.split()[1:])) for line in world.splitlines()}
print(len(world.splitlines()), len({y for _, y in seen}))
";
    let printed = python(&host, bench, players)?;
    ensure!(printed == "4 4\n", "the players saw {printed}");
    server.finish(PATIENCE)?;
    let said = host.printed("example");
    ensure!(said.ends_with("4 players\n"), "the game said {said}");
    Ok(())
}
