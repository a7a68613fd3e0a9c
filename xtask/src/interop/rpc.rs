//! Suite `rpc`: `wirespeed rpcinfo` asks Debian's rpcbind, Debian's rpcinfo asks `wirespeed
//! rpcbind`, NFS goes both ways (`nfs.rs`), and the cases of the crates run.

mod nfs;

use super::host::{Host, Running};
use super::outside::{IP, TUN, shown};
use super::{Case, Need, Workbench};
use anyhow::{Result, ensure};
use std::process::Command;
use std::time::Duration;

const RPCBIND: Need = Need::Program { program: "rpcbind", package: "rpcbind" };
const RPCINFO: Need = Need::Program { program: "rpcinfo", package: "rpcbind" };

/// The time limit of any one program.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) const CASES: &[Case] = &[
    Case {
        name: "rpcinfo lists and calls what Debian's rpcbind has",
        needs: &[Need::Root, IP, RPCBIND],
        run: theirs,
    },
    Case {
        name: "Debian's rpcinfo lists and calls what our rpcbind has",
        needs: &[Need::Root, IP, RPCINFO],
        run: ours,
    },
    Case {
        name: "clients and servers of crate rpc, and Debian's",
        needs: &[Need::Root, IP, TUN, RPCBIND, RPCINFO],
        run: crates_own,
    },
    Case {
        name: "libnfs's tools list, print and copy what nfsd serves: 1 GB there and back",
        needs: &[Need::Root, IP, nfs::LIBNFS],
        run: nfs::libnfs,
    },
    Case {
        name: "Debian's showmount finds the export of nfsd by the port mapper",
        needs: &[Need::Root, IP, RPCBIND, nfs::SHOWMOUNT],
        run: nfs::showmount,
    },
    Case {
        name: "1,000 files and 1 GB go to nfs-ganesha and back",
        needs: &[Need::Root, IP, RPCBIND, RPCINFO, nfs::GANESHA, nfs::VFS],
        run: nfs::to_ganesha,
    },
    Case {
        name: "1,000 files and 1 GB go to nfsd over our stack and back",
        needs: &[Need::Root, IP, TUN],
        run: nfs::over_our_stack,
    },
    Case {
        name: "1,000 files and 1 GB go to nfsd and back, the client over our stack",
        needs: &[Need::Root, IP, TUN],
        run: nfs::by_our_stack,
    },
    Case {
        name: "client and server of crate nfs, libnfs and nfs-ganesha",
        needs: nfs::PEERS,
        run: |bench| bench.test_program("nfs_real_peers"),
    },
];

/// A port mapper, once it answers.
fn started(host: &Host<'_>, command: &mut Command) -> Result<Running> {
    let running = host.start("rpcbind", command)?;
    let listening = || {
        let mut command = host.command("sh");
        command.args(["-c", "ss -Hltn sport = :111 | grep -q LISTEN"]);
        Ok(command)
    };
    host.until(listening)?;
    Ok(running)
}

/// The output of `program WORDS` has all of these.
fn prints(
    bench: &Workbench,
    host: &Host<'_>,
    program: &[&str],
    words: &str,
    expected: &[&str],
) -> Result<()> {
    let mut command = host.command(program[0]);
    command.args(&program[1..]).args(words.split(' '));
    let text = bench.run(&mut command, LIMIT)?;
    let plain: Vec<String> =
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in expected {
        ensure!(plain.iter().any(|l| l.contains(line)), "no '{line}' after {words}: {text}");
    }
    Ok(())
}

fn theirs(bench: &Workbench) -> Result<()> {
    let host = Host::without_tap(bench)?;
    let mut rpcbind = host.command("rpcbind");
    let _running = started(&host, rpcbind.arg("-f"))?;
    let program = bench.wirespeed()?;
    let ours = [shown(&program)?, "rpcinfo"];
    for to in ["127.0.0.1", "::1"] {
        prints(bench, &host, &ours, &format!("-p {to}"), &["100000 4 tcp 111 portmapper"])?;
        prints(bench, &host, &ours, &format!("-s {to}"), &["100000 2,3,4", "superuser"])?;
        let ready = [2, 3, 4].map(|v| format!("program 100000 version {v} ready and waiting"));
        let ready = [0, 1, 2].map(|n| ready[n].as_str());
        prints(bench, &host, &ours, &format!("-t {to} 100000"), &ready)?;
        prints(bench, &host, &ours, &format!("-u {to} 100000"), &ready)?;
    }
    Ok(())
}

fn ours(bench: &Workbench) -> Result<()> {
    let host = Host::without_tap(bench)?;
    let program = bench.wirespeed()?;
    let mut rpcbind = host.command(shown(&program)?);
    let _running = started(&host, rpcbind.arg("rpcbind"))?;
    let theirs = ["rpcinfo"];
    for to in ["127.0.0.1", "::1"] {
        prints(bench, &host, &theirs, &format!("-s {to}"), &["100000 2,3,4", "superuser"])?;
    }
    prints(bench, &host, &theirs, "-p 127.0.0.1", &["100000 2 udp 111 portmapper"])?;
    for version in [2, 3, 4] {
        let ready = format!("program 100000 version {version} ready and waiting");
        for way in ["-t", "-u"] {
            let words = format!("{way} 127.0.0.1 100000 {version}");
            prints(bench, &host, &theirs, &words, &[&ready])?;
        }
    }
    Ok(())
}

fn crates_own(bench: &Workbench) -> Result<()> {
    bench.test_program("rpc_real_peers")
}
