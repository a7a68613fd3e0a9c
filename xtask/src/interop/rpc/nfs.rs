//! NFS: libnfs's tools and showmount against `wirespeed nfsd`, `wirespeed nfs` against nfs-ganesha
//! and against our own server over our stack; a tree of 1,000 files and a file of 1 GB, equal at
//! the end.

use super::super::host::{Host, OURS, Running};
use super::super::outside::shown;
use super::super::{Need, Workbench};
use super::{LIMIT, RPCBIND, started};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(super) const LIBNFS: Need = Need::Program { program: "nfs-cp", package: "libnfs-utils" };
pub(super) const GANESHA: Need = Need::Program { program: "ganesha.nfsd", package: "nfs-ganesha" };
pub(super) const VFS: Need =
    Need::Library { file: "ganesha/libfsalvfs.so", package: "nfs-ganesha-vfs" };
pub(super) const SHOWMOUNT: Need = Need::Program { program: "showmount", package: "nfs-common" };
pub(super) const PEERS: &[Need] = &[Need::Root, RPCBIND, LIBNFS, GANESHA, VFS];

/// The time limit of a copy of a gigabyte, on a machine that others use as well.
const LONG: Duration = Duration::from_secs(300);
const FILES: usize = 1_000;
const LARGEST: usize = 1_000_000_000;

/// The tree that is copied, `own`, and the directory that is served.
fn trees(bench: &Workbench) -> Result<()> {
    std::fs::create_dir(bench.path("served"))?;
    for n in 0..FILES {
        let dir = bench.path("own").join(format!("d{}", n % 9)).join(format!("e{}", n % 5));
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join(format!("f{n}")), vec![n as u8; n * 53 % 20_000])?;
    }
    std::fs::rename(bench.file("large", LARGEST)?, bench.path("own").join("large"))?;
    Ok(())
}

/// `nfsd` in a namespace, once it listens.
fn nfsd(bench: &Workbench, host: &Host<'_>, words: &[&str]) -> Result<Running> {
    let program = bench.wirespeed()?;
    let mut command = host.command(shown(&program)?);
    command.arg("nfsd").arg(bench.path("served")).args(words);
    let running = host.start("nfsd", &mut command)?;
    let begun = || {
        let mut command = Command::new("grep");
        command.arg("-q").arg("^serving").arg(bench.path("nfsd.out"));
        Ok(command)
    };
    host.until(begun)?;
    Ok(running)
}

/// `own` goes to a URL and comes back as `back`, and all three are equal.
fn there_and_back(bench: &Workbench, host: &Host<'_>, url: &str, more: &[&str]) -> Result<()> {
    let program = bench.wirespeed()?;
    let ours = || -> Result<Command> {
        let mut command = host.command(shown(&program)?);
        command.args(["nfs", "cp", "-r"]).args(more);
        Ok(command)
    };
    let (own, back) = (bench.path("own"), bench.path("back"));
    let there = format!("{url}/copy");
    let printed = bench.run(ours()?.arg(&own).arg(&there), LONG)?;
    ensure!(printed.starts_with("copied 1001 files"), "{printed}");
    bench.run(ours()?.arg(&there).arg(&back), LONG)?;
    same(bench, &own, &bench.path("served").join("copy"))?;
    same(bench, &own, &back)
}

fn same(bench: &Workbench, one: &Path, other: &Path) -> Result<()> {
    bench.run(Command::new("diff").arg("-r").arg(one).arg(other), LONG).map(drop)
}

pub(super) fn libnfs(bench: &Workbench) -> Result<()> {
    trees(bench)?;
    let host = Host::without_tap(bench)?;
    let _running = nfsd(bench, &host, &[])?;
    std::fs::create_dir(bench.path("served").join("sub"))?;
    let url = "nfs://127.0.0.1/sub/copy?nfsport=2049&mountport=2049";
    let large = bench.path("own").join("large");
    bench.run(host.command("nfs-cp").arg(&large).arg(url), LONG)?;
    same(bench, &large, &bench.path("served").join("sub/copy"))?;
    bench.run(host.command("nfs-cp").arg(url).arg(bench.path("back")), LONG)?;
    same(bench, &large, &bench.path("back"))?;
    let root = "nfs://127.0.0.1/sub?nfsport=2049&mountport=2049";
    let listed = bench.run(host.command("nfs-ls").arg(root), LIMIT)?;
    ensure!(listed.contains("1000000000 copy"), "{listed}");
    std::fs::write(bench.path("served").join("sub/small"), "a line\n")?;
    let small = "nfs://127.0.0.1/sub/small?nfsport=2049&mountport=2049";
    let printed = bench.run(host.command("nfs-cat").arg(small), LIMIT)?;
    ensure!(printed == "a line\n", "{printed}");
    // For a file in the root libnfs mounts the empty path, and then gives up by itself.
    std::fs::write(bench.path("served").join("top"), "another\n")?;
    let top = "nfs://127.0.0.1/./top?nfsport=2049&mountport=2049";
    let printed = bench.run(host.command("nfs-cat").arg(top), LIMIT)?;
    ensure!(printed == "another\n", "{printed}");
    Ok(())
}

pub(super) fn showmount(bench: &Workbench) -> Result<()> {
    std::fs::create_dir(bench.path("served"))?;
    let host = Host::without_tap(bench)?;
    let _rpcbind = started(&host, host.command("rpcbind").args(["-f", "-i"]))?;
    let _running = nfsd(bench, &host, &["--register", "--udp"])?;
    let exports = bench.run(host.command("showmount").args(["-e", "127.0.0.1"]), LIMIT)?;
    ensure!(exports.lines().any(|line| line.starts_with("/ ")), "{exports}");
    let program = bench.wirespeed()?;
    let mut list = host.command(shown(&program)?);
    bench.run(list.args(["nfs", "ls", "nfs://127.0.0.1/"]), LIMIT)?;
    Ok(())
}

/// nfs-ganesha, once it answers.
fn ganesha(bench: &Workbench, host: &Host<'_>) -> Result<[Running; 2]> {
    let rpcbind = started(host, host.command("rpcbind").args(["-f", "-i"]))?;
    let config = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = false;
           Enable_RQUOTA = false; Enable_UDP = true; }}
         EXPORT {{ Export_Id = 1; Path = {}; Pseudo = /x; Access_Type = RW; SecType = sys;
           Squash = No_Root_Squash; Protocols = 3; Transports = TCP, UDP; FSAL {{ Name = VFS; }} }}
         LOG {{ Default_Log_Level = EVENT; }}",
        bench.path("served").display()
    );
    std::fs::write(bench.path("config"), config)?;
    let mut command = host.command("ganesha.nfsd");
    command.arg("-F").arg("-f").arg(bench.path("config"));
    command.arg("-L").arg(bench.path("log")).arg("-p").arg(bench.path("pid"));
    let ganesha = host.start("ganesha", &mut command)?;
    let listening = || {
        let mut command = host.command("sh");
        command.args(["-c", "rpcinfo -t 127.0.0.1 100003 3 && rpcinfo -t 127.0.0.1 100005 3"]);
        Ok(command)
    };
    host.until(listening)?;
    Ok([rpcbind, ganesha])
}

pub(super) fn to_ganesha(bench: &Workbench) -> Result<()> {
    trees(bench)?;
    let host = Host::without_tap(bench)?;
    let _running = ganesha(bench, &host)?;
    there_and_back(bench, &host, &format!("nfs://127.0.0.1{}", bench.path("served").display()), &[])
}

pub(super) fn over_our_stack(bench: &Workbench) -> Result<()> {
    trees(bench)?;
    let host = Host::new(bench)?;
    let _running = nfsd(bench, &host, &OURS)?;
    there_and_back(bench, &host, "nfs://10.9.0.2:2049", &[])
}

pub(super) fn by_our_stack(bench: &Workbench) -> Result<()> {
    trees(bench)?;
    let host = Host::new(bench)?;
    let _running = nfsd(bench, &host, &["--listen", "10.9.0.1:2049"])?;
    there_and_back(bench, &host, "nfs://10.9.0.1:2049", &OURS)
}
