//! Programs of smoltcp's world over our stack: the forwarder of the crate netstack-smoltcp, which
//! is not changed, between a client and servers of the kernel. `xtask/netstack` builds and runs it.
//!
//! Called by: suite `programs`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::interop::{Case, Need, Workbench};

/// Fetching and compiling the programs.
const BUILD: Duration = Duration::from_secs(900);
/// One scene.
const SCENE: Duration = Duration::from_secs(120);

const IP: Need = Need::Program { program: "ip", package: "iproute2" };
const TUN: Need = Need::File("/dev/net/tun");
const CURL: Need = Need::Program { program: "curl", package: "curl" };
const NGINX: Need = Need::Program { program: "nginx", package: "nginx-light" };
const IPERF: Need = Need::Program { program: "iperf3", package: "iperf3" };
const PING: Need = Need::Program { program: "ping", package: "iputils-ping" };
const SOCAT: Need = Need::Program { program: "socat", package: "socat" };

pub(super) const CASES: &[Case] = &[
    Case {
        name: "netstack-smoltcp's own tests over our stack",
        needs: &[],
        run: |bench| {
            let mut test = build(bench, &["test", "--test", "regression"]);
            let printed = bench.run(&mut test, BUILD)?;
            ensure!(printed.contains("1 passed; 0 failed"), "{printed}");
            Ok(())
        },
    },
    Case {
        name: "netstack-smoltcp's forwarder over our stack: files of nginx by curl, both ways",
        needs: &[Need::Root, IP, TUN, CURL, NGINX],
        run: files,
    },
    Case {
        name: "netstack-smoltcp's forwarder over our stack: iperf3, datagrams of socat, pings",
        needs: &[Need::Root, IP, TUN, IPERF, SOCAT, PING],
        run: others,
    },
    Case {
        name: "smoltcp's TUN and TAP interfaces are ports",
        needs: &[Need::Root, TUN],
        run: |bench| bench.test_program("tuntap"),
    },
];

fn build(bench: &Workbench, command: &[&str]) -> Command {
    let mut build = Command::new(bench.root().join("xtask/netstack/build.sh"));
    build.arg("ours").args(command);
    build
}

/// The forwarder that uses TUN without offloads (tun2) or with them (tun-rs).
fn forwarder(bench: &Workbench, name: &str) -> Result<PathBuf> {
    bench.run(&mut build(bench, &["build", "--bins"]), BUILD)?;
    Ok(bench.root().join("target/netstack/ours/debug").join(name))
}

/// Run `command` on the client, with `servers` on the host beyond; returns what it printed.
fn scene(bench: &Workbench, program: &str, servers: &str, command: &str) -> Result<String> {
    let program = forwarder(bench, program)?;
    let mut scene = Command::new(bench.root().join("xtask/netstack/scene.sh"));
    scene.arg(program).arg(command).env("SERVERS", servers).env("F", bench.path(""));
    bench.run(&mut scene, SCENE)
}

const NGINX_CONF: &str = "
daemon off; pid F/pid; error_log stderr; master_process off;
events {}
http {
    access_log off; client_body_temp_path F/b; proxy_temp_path F/p; fastcgi_temp_path F/f;
    uwsgi_temp_path F/u; scgi_temp_path F/s; client_max_body_size 100m;
    server {
        listen 172.19.0.3:80; root F;
        location /put/ { dav_methods PUT; }
    }
}
";

/// Several files at once from nginx, one to it, each with the bytes that were sent.
fn files(bench: &Workbench) -> Result<()> {
    let file = bench.file("big", 20_000_000)?;
    let folder = file.parent().context("a folder")?.display().to_string();
    let conf = NGINX_CONF.replace('F', &folder);
    std::fs::create_dir(bench.path("put"))?;
    std::fs::write(bench.path("nginx.conf"), conf)?;
    let command = "\
        set -e; u=http://172.19.0.3; c='curl -sS --fail --retry 20 --retry-connrefused -m 60'
        $c -o $F/0 $u/big; cmp $F/0 $F/big
        for n in 1 2 3 4 5; do $c -o $F/$n $u/big & p=\"$p $!\"; done
        for p in $p; do wait $p; done
        for n in 1 2 3 4 5; do cmp $F/$n $F/big; done
        $c -T $F/big $u/put/copy; cmp $F/put/copy $F/big
        ! curl -sS -m 10 http://172.19.0.3:81/ 2> $F/refused
        echo all equal";
    for program in ["forward", "forward-offload-linux"] {
        let printed = scene(bench, program, "exec nginx -c $F/nginx.conf", command)?;
        ensure!(printed.contains("all equal"), "{program}: {printed}");
        println!("  {program}: 6 files down, 1 up, equal bytes");
        std::fs::remove_file(bench.path("put/copy"))?;
    }
    Ok(())
}

/// Both directions of iperf3, four connections at once; datagrams there and back; pings.
fn others(bench: &Workbench) -> Result<()> {
    let servers = "iperf3 -s -p 5201 & exec socat UDP4-RECVFROM:7,bind=172.19.0.3,fork EXEC:cat";
    let command = "\
        set -e
        ping -c 3 -i 0.2 -W 5 172.19.0.3
        for n in 1 2 3 4 5; do
            got=$(echo datagram $n | timeout 5 socat -t 1 - UDP4:172.19.0.3:7)
            [ \"$got\" = \"datagram $n\" ]
        done
        iperf3 -c 172.19.0.3 -p 5201 -n 20M -P 4
        iperf3 -c 172.19.0.3 -p 5201 -n 20M -P 4 -R
        echo all done";
    let printed = scene(bench, "forward", servers, command)?;
    ensure!(printed.contains("3 received, 0% packet loss"), "{printed}");
    ensure!(printed.contains("all done"), "{printed}");
    println!("  3 pings, 5 datagrams, iperf3 with 4 connections in each direction");
    Ok(())
}
