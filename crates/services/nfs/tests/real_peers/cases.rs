//! The test cases.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rpc::xdr::{Bytes, Decode, Decoder};
use rustix::process::Signal;
use testbed::{Case, Need, Running, ip, until};
use tokio::runtime::Runtime;
use wirespeed_nfs::client::{Error, Unfinished, get_tree, put_tree};
use wirespeed_nfs::proto::{self, Attributes, Stable, Status, procedure};

use crate::rig::{
    Folder, GANESHA, OURS, are_same, client, ganesha, mounted, printed, runtime, serving, tree,
    within,
};

const RPCBIND: Need = Need::Program("rpcbind", "rpcbind");
const LIBNFS: Need = Need::Program("nfs-cp", "libnfs-utils");
const MKFS: Need = Need::Program("mkfs.ext4", "e2fsprogs");
const SERVER: Need = Need::Program("ganesha.nfsd", "nfs-ganesha");

pub(crate) const CASES: &[Case] = &[
    ("libnfs_lists_copies_and_prints_what_we_serve", &[LIBNFS], libnfs),
    ("a_tree_goes_to_ganesha_and_back", &[RPCBIND, SERVER], to_ganesha),
    ("a_tree_goes_over_udp_to_our_server_and_back", &[], over_udp),
    ("a_write_of_8_kb_over_udp_has_six_fragments", &[Need::TCPDUMP], fragments),
    ("a_full_disk_is_an_error_and_leaves_no_half_file", &[], full_disk),
    ("what_the_disk_did_not_take_is_not_committed", &[MKFS], failed_disk),
    ("a_client_that_lists_and_removes_on_overlayfs_misses_nothing", &[], overlay_listing),
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
    printed("nfs-cp", &[own, &url("d1/copy")]);
    // For a file in the root, libnfs takes the empty path as the export, mounts it, asks for the
    // exports, and gives up whatever the server answers. So the path contains one more name.
    fs::write(served.join("f"), "in the root").expect("room");
    assert_eq!(printed("nfs-cat", &[&url("./f")]), b"in the root");
    let alone = format!("{}&auto-traverse-mounts=0", url("f"));
    assert_eq!(printed("nfs-cat", &[&alone]), b"in the root");
    assert!(
        fs::read(served.join("d1/copy")).expect("it is there") == fs::read(own).expect("it is")
    );
}

/// Copy a tree to the server and back over one transport.
fn there_and_back(ports: [u16; 2], export: &Path, folder: &Folder, by_udp: bool) {
    let (own, back) = (folder.join("own"), folder.join(if by_udp { "back-udp" } else { "back" }));
    tree(&own, 100, if by_udp { 1_000_000 } else { 20_000_000 });
    let name: &[u8] = if by_udp { b"copy-udp" } else { b"copy" };
    let runtime = runtime();
    let copied = within(&runtime, async {
        let (nfs, root) = mounted(ports, export, by_udp).await;
        let put =
            put_tree(&nfs, &own, (root, name), &Unfinished::new(7)).await.expect("it is copied");
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
    // Capture fragments only: more fragments follow, or the offset is not 0.
    tcpdump.args(["-i", "lo", "--immediate-mode", "-U", "-w"]).arg(folder.join("capture"));
    tcpdump.arg("ip[6:2] & 0x3fff != 0").stderr(Stdio::piped()).stdout(Stdio::piped());
    let tcpdump = Running(tcpdump.spawn().expect("it starts"));
    let written = |bytes| fs::metadata(folder.join("capture")).is_ok_and(|of| of.len() >= bytes);
    assert!(until(Duration::from_secs(10), || written(24)), "tcpdump does not begin");
    within(&serving, async {
        let (nfs, root) = mounted(OURS, Path::new("/"), true).await;
        put_tree(&nfs, &own, (root, b"f"), &Unfinished::new(7)).await.expect("it is copied");
    });
    assert!(until(Duration::from_secs(10), || written(8_192)), "tcpdump sees no fragments");
    let (_, _, said) = tcpdump.end_by(Signal::INT);
    assert!(said.contains("6 packets captured"), "{said}");
    assert_eq!(fs::read(served.join("f")).expect("it is there"), [7; 8_192]);
}

/// A mounted file system, which is unmounted when this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(words: &[&str], at: PathBuf) -> Mounted {
        let status = Command::new("mount").args(words).arg(&at).status();
        assert!(status.expect("it starts").success());
        Mounted(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn full_disk() {
    let folder = Folder::new("full");
    let (served, own) = (folder.join("served"), folder.join("own"));
    fs::create_dir_all(&served).expect("room");
    fs::write(&own, vec![7; 4_000_000]).expect("room");
    let _small = Mounted::new(&["-t", "tmpfs", "-o", "size=1m", "wsnfs"], served.clone());
    let serving = serving(&served);
    let refused = within(&serving, async {
        let (nfs, root) = mounted(OURS, Path::new("/"), false).await;
        put_tree(&nfs, &own, (root, b"f"), &Unfinished::new(7)).await
    });
    assert!(matches!(refused, Err(Error::Status(Status::NoSpace))), "{refused:?}");
    assert_eq!(fs::read_dir(&served).expect("a directory").count(), 0);
    drop(serving);
}

/// A disk that claims 64 MB but has room for 16 MB. The system accepts writes, and fails when they
/// have to go to the disk.
fn failed_disk() {
    let folder = Folder::new("failed");
    let (below, served) = (folder.join("below"), folder.join("served"));
    for dir in [&below, &served] {
        fs::create_dir_all(dir).expect("room");
    }
    let _below = Mounted::new(&["-t", "tmpfs", "-o", "size=16m", "wsnfs"], below.clone());
    let image = below.join("image");
    let made = fs::File::create(&image).and_then(|file| file.set_len(64 << 20));
    made.expect("room");
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard"]).arg(&image);
    assert!(mkfs.status().expect("it starts").success());
    let image = image.to_str().expect("a path that is text");
    let _disk = Mounted::new(&["-o", "loop", image], served.clone());
    let serving = serving(&served);
    within(&serving, async {
        let (nfs, root) = mounted(OURS, Path::new("/"), false).await;
        let mut files = Vec::new();
        for name in [b"f", b"d", b"s"] {
            files.push(nfs.create(&root, name, 0o644).await.expect("it is on the disk"));
        }
        // Fill the space on which the disk is stored.
        let _ = fs::write(below.join("fill"), vec![0; 16 << 20]);
        let file = files[0];
        let data = vec![7; 1_000_000];
        let written = nfs.write(&file, 0, &data, Stable::Unstable).await;
        let verifier = written.expect("the system has it").verifier;
        let committed = nfs.commit(&file).await;
        let is_failed =
            |error: &Error| matches!(error, Error::Status(Status::NoSpace | Status::Io));
        assert!(committed.as_ref().is_err_and(is_failed), "{committed:?}");
        // If another client has written to the file, the system does not report the failure to it
        // again.
        let again = nfs.commit(&file).await;
        assert!(again.as_ref().map_or_else(is_failed, |now| *now != verifier), "{again:?}");
        for (file, stable) in files[1..].iter().zip([Stable::DataSync, Stable::FileSync]) {
            let written = nfs.write(file, 0, &data, stable).await;
            assert!(written.as_ref().is_err_and(is_failed), "{stable:?} {written:?}");
        }
    });
    // The server has to end before the disk is removed.
    drop(serving);
}

/// Mounts overlayfs over a directory that `fill` fills, and serves it.
fn overlay(name: &str, fill: impl FnOnce(&Path)) -> (Folder, PathBuf, Mounted, Runtime) {
    let folder = Folder::new(name);
    let [low, up, work, served] = ["low", "up", "work", "served"].map(|name| folder.join(name));
    for dir in [&low, &up, &work, &served] {
        fs::create_dir_all(dir).expect("room");
    }
    fill(&low);
    let [low, up, work] = [&low, &up, &work].map(|dir| dir.to_str().expect("text"));
    let how = format!("lowerdir={low},upperdir={up},workdir={work}");
    let mounted = Mounted::new(&["-t", "overlay", "-o", &how, "wsnfs"], served.clone());
    let serving = serving(&served);
    (folder, served, mounted, serving)
}

fn overlay_listing() {
    let fill = |low: &Path| {
        fs::create_dir(low.join("d")).expect("room");
        (0..400).for_each(|n| fs::write(low.join(format!("d/low{n}")), "").expect("room"));
    };
    let (_folder, served, _mounted, serving) = overlay("listing", fill);
    (0..400).for_each(|n| fs::write(served.join(format!("d/up{n}")), "").expect("room"));
    within(&serving, async {
        let (nfs, root) = mounted(OURS, Path::new("/"), false).await;
        let (dir, _) = nfs.lookup(&root, b"d").await.expect("it is there");
        let calls = client(proto::PROGRAM, OURS[0], false).await;
        let (mut cookie, mut is_end) = (0_u64, false);
        while !is_end {
            let args = (dir, cookie, (0_u64, 2_000_u32));
            let results = calls.call_raw(procedure::READDIR, &args).await.expect("results");
            let mut from = Decoder::new(&results);
            let _: (Status, Option<Attributes>, u64) = Decode::decode(&mut from).expect("a list");
            while bool::decode(&mut from).expect("results") {
                let (_, name, at): (u64, Bytes, u64) = Decode::decode(&mut from).expect("an entry");
                cookie = at;
                if !matches!(&name.0[..], b"." | b"..") {
                    nfs.remove(&dir, &name.0).await.expect("it is there");
                }
            }
            is_end = bool::decode(&mut from).expect("results");
        }
    });
    assert_eq!(fs::read_dir(served.join("d")).expect("a directory").count(), 0);
    drop(serving);
}
