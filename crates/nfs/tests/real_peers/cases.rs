//! The cases.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Need, Running, ip, until};
use wirespeed_nfs::client::{Error, get_tree, put_tree};
use wirespeed_nfs::proto::Status;

use crate::rig::{
    Folder, GANESHA, OURS, are_same, ganesha, mounted, printed, runtime, serving, tree, within,
};

const RPCBIND: Need = Need::Program("rpcbind", "rpcbind");
const LIBNFS: Need = Need::Program("nfs-cp", "libnfs-utils");
const SERVER: Need = Need::Program("ganesha.nfsd", "nfs-ganesha");

pub(crate) const CASES: &[Case] = &[
    ("libnfs_lists_copies_and_prints_what_we_serve", &[LIBNFS], libnfs),
    ("a_tree_goes_to_ganesha_and_back", &[RPCBIND, SERVER], to_ganesha),
    ("a_tree_goes_over_udp_to_our_server_and_back", &[], over_udp),
    ("a_write_of_8_kb_over_udp_has_six_fragments", &[Need::TCPDUMP], fragments),
    ("a_full_disk_is_an_error_and_leaves_no_half_file", &[], full_disk),
];

fn libnfs() {
    let folder = Folder::new("libnfs");
    let (served, own) = (folder.join("served"), folder.join("own"));
    tree(&served, 40, 5_000_000);
    let _serving = serving(&served);
    let url = |path: &str| format!("nfs://127.0.0.1/{path}?nfsport=2049&mountport=2049");
    let listed = printed("nfs-ls", &[&url("d1/e1")]);
    assert_eq!(String::from_utf8_lossy(&listed).lines().count(), 2, "{listed:?}");
    assert!(String::from_utf8_lossy(&listed).contains("f 1\n"), "{listed:?}");
    let big = served.join("d0/e0/f 0");
    assert!(printed("nfs-cat", &[&url("d0/e0/f 0")]) == fs::read(&big).expect("it is there"));
    let own = own.to_str().expect("a path that is text");
    printed("nfs-cp", &[&url("d0/e0/f 0"), own]);
    assert!(fs::read(own).expect("it is there") == fs::read(&big).expect("it is there"));
    // libnfs 4.0 opens no file in the root: it mounts the empty path and gives up.
    printed("nfs-cp", &[own, &url("d1/copy")]);
    assert!(
        fs::read(served.join("d1/copy")).expect("it is there") == fs::read(own).expect("it is")
    );
}

/// There and back over a transport.
fn there_and_back(ports: [u16; 2], export: &Path, folder: &Folder, by_udp: bool) {
    let (own, back) = (folder.join("own"), folder.join(if by_udp { "back-udp" } else { "back" }));
    tree(&own, 100, if by_udp { 1_000_000 } else { 20_000_000 });
    let name: &[u8] = if by_udp { b"copy-udp" } else { b"copy" };
    let runtime = runtime();
    let copied = within(&runtime, async {
        let (nfs, root) = mounted(ports, export, by_udp).await;
        let put = put_tree(&nfs, &own, (root, name), 7).await.expect("it is copied");
        let copy = nfs.lookup(&root, name).await.expect("it is there");
        assert_eq!(get_tree(&nfs, copy, &back, 8).await.expect("it is copied"), put);
        put
    });
    assert_eq!(copied.files, 100);
    are_same(&own, &back);
}

fn to_ganesha() {
    let folder = Folder::new("ganesha");
    let served = folder.join("served");
    fs::create_dir_all(&served).expect("room");
    let _running = ganesha(&folder, &served);
    for by_udp in [false, true] {
        there_and_back(GANESHA, &served, &folder, by_udp);
        are_same(&folder.join("own"), &served.join(if by_udp { "copy-udp" } else { "copy" }));
    }
}

fn over_udp() {
    let folder = Folder::new("udp");
    let served = folder.join("served");
    fs::create_dir_all(&served).expect("room");
    let _serving = serving(&served);
    there_and_back(OURS, Path::new("/"), &folder, true);
    are_same(&folder.join("own"), &served.join("copy-udp"));
}

fn fragments() {
    let folder = Folder::new("fragments");
    let (served, own) = (folder.join("served"), folder.join("own"));
    fs::create_dir_all(&served).expect("room");
    fs::write(&own, [7; 8_192]).expect("room");
    let serving = serving(&served);
    assert!(ip("link set lo mtu 1500"));
    let mut tcpdump = Command::new("tcpdump");
    // A fragment: more follow, or it is not the first.
    tcpdump.args(["-i", "lo", "--immediate-mode", "-U", "-w"]).arg(folder.join("capture"));
    tcpdump.arg("ip[6:2] & 0x3fff != 0").stderr(Stdio::piped()).stdout(Stdio::piped());
    let tcpdump = Running(tcpdump.spawn().expect("it starts"));
    let written = |bytes| fs::metadata(folder.join("capture")).is_ok_and(|of| of.len() >= bytes);
    assert!(until(Duration::from_secs(10), || written(24)), "tcpdump does not begin");
    within(&serving, async {
        let (nfs, root) = mounted(OURS, Path::new("/"), true).await;
        put_tree(&nfs, &own, (root, b"f"), 7).await.expect("it is copied");
    });
    assert!(until(Duration::from_secs(10), || written(8_192)), "tcpdump sees no fragments");
    let (_, _, said) = tcpdump.end_by(Signal::INT);
    assert!(said.contains("6 packets captured"), "{said}");
    assert_eq!(fs::read(served.join("f")).expect("it is there"), [7; 8_192]);
}

/// A file system of one megabyte, gone with this.
struct Small(std::path::PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn full_disk() {
    let folder = Folder::new("full");
    let (served, own) = (folder.join("served"), folder.join("own"));
    fs::create_dir_all(&served).expect("room");
    fs::write(&own, vec![7; 4_000_000]).expect("room");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "wsnfs"]).arg(&served);
    assert!(mount.status().expect("it starts").success());
    let _small = Small(served.clone());
    let serving = serving(&served);
    let refused = within(&serving, async {
        let (nfs, root) = mounted(OURS, Path::new("/"), false).await;
        put_tree(&nfs, &own, (root, b"f"), 7).await
    });
    assert!(matches!(refused, Err(Error::Status(Status::NoSpace))), "{refused:?}");
    assert_eq!(fs::read_dir(&served).expect("a directory").count(), 0);
    drop(serving);
}
