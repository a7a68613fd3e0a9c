//! `wirespeed nfsd` and `wirespeed nfs`: over our stack and over the kernel's sockets, TCP and UDP,
//! and their messages when something is wrong.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Case, Running, ip, until};

use crate::host::{KERNEL, OURS, TAP, set_up_tap};

pub(crate) const CASES: &[Case] = &[
    ("nfsd_over_our_stack_serves_a_tree_over_tcp_and_udp", &[], over_our_stack),
    ("nfs_over_our_stack_copies_from_the_kernels_sockets", &[], by_our_stack),
    ("nfsd_and_nfs_say_what_is_wrong", &[], trouble),
    ("a_copy_that_is_ended_leaves_nothing_at_the_server", &[], ended),
    ("nfs_says_what_it_waits_for_and_waits_ten_seconds", &[], silence),
    ("a_copy_goes_on_when_nfsd_was_started_anew", &[], restart),
];

const TIMEOUT: Duration = Duration::from_secs(20);

/// A folder that is removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wscli-nfs-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("served")).expect("room");
        let own = path.join("own/a/b");
        fs::create_dir_all(&own).expect("room");
        fs::write(own.join("large"), (0..3_000_001).map(|n| (n / 7) as u8).collect::<Vec<_>>())
            .expect("room");
        fs::write(path.join("own/small"), "a line\n").expect("room");
        std::os::unix::fs::symlink("a/b/large", path.join("own/link")).expect("room");
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path that is text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn wirespeed(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(words: &[&str]) -> Output {
    wirespeed(words).output().expect("it starts")
}

/// The output of `nfs`, if it succeeds.
fn printed(words: &[&str]) -> String {
    let output = output(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The server, once it answers at `url`.
fn started(words: &[&str], url: &str, how: &[&str]) -> Running {
    let running = Running(wirespeed(words).spawn().expect("it starts"));
    let answers = || output(&[&["nfs", "ls", url], how].concat()).status.success();
    assert!(until(TIMEOUT, answers), "it does not answer");
    running
}

/// Two trees have the same content, as diff(1) sees it.
fn are_same(one: &Path, other: &Path) {
    let mut diff = Command::new("diff");
    let diff = diff.args(["-r", "--no-dereference"]).arg(one).arg(other).output();
    let diff = diff.expect("it starts");
    assert!(diff.status.success(), "{diff:?}");
}

/// There and back again.
fn there_and_back(folder: &Folder, host: &str, more: &[&str]) {
    let url = format!("nfs://{host}:2049");
    let there = format!("{url}/copy");
    let (own, back) = (folder.path("own"), folder.path("back"));
    let said = printed(&[&["nfs", "cp", "-r", &own, &there], more].concat());
    assert!(said.starts_with("copied 2 files, 3 directories, 1 links, 3000008 bytes"), "{said}");
    printed(&[&["nfs", "cp", "-r", &there, &back], more].concat());
    are_same(&folder.0.join("own"), &folder.0.join("served/copy"));
    are_same(&folder.0.join("own"), &folder.0.join("back"));
    let small = format!("{there}/small");
    assert_eq!(printed(&[&["nfs", "cat", &small], more].concat()), "a line\n");
    assert_eq!(printed(&[&["nfs", "ls", &there], more].concat()), "a\nlink\nsmall\n");
    let long = printed(&[&["nfs", "ls", "-l", &small], more].concat());
    assert!(long.starts_with("-rw-r--r--") && long.contains(" 7 "), "{long}");
    fs::remove_dir_all(folder.0.join("served/copy")).expect("it is there");
    fs::remove_dir_all(folder.0.join("back")).expect("it is there");
}

fn over_our_stack() {
    let folder = Folder::new("over");
    set_up_tap();
    let (dev, addr) = (format!("tap:{TAP}"), format!("{}/24", OURS[0]));
    let served = folder.path("served");
    let words = ["nfsd", &served, "--udp", "--dev", &dev, "--addr", &addr];
    let url = format!("nfs://{}:2049/", OURS[0]);
    let running = started(&words, &url, &[]);
    there_and_back(&folder, OURS[0], &[]);
    there_and_back(&folder, OURS[0], &["--udp"]);
    let (code, text, errors) = running.end_by(Signal::INT);
    assert_eq!(code, 0, "{text}{errors}");
    assert!(text.contains("calls answered"), "{text}");
}

fn by_our_stack() {
    let folder = Folder::new("by");
    set_up_tap();
    assert!(ip("link set lo up"));
    let served = folder.path("served");
    let at = format!("{}:2049", KERNEL[0]);
    let url = format!("nfs://{at}/");
    let _running = started(&["nfsd", &served, "--udp", "--listen", &at], &url, &[]);
    let (dev, addr) = (format!("tap:{TAP}"), format!("{}/24", OURS[0]));
    let how = ["--dev", &dev, "--addr", &addr];
    there_and_back(&folder, KERNEL[0], &how);
    there_and_back(&folder, KERNEL[0], &[&how[..], &["--udp"]].concat());
}

fn trouble() {
    let folder = Folder::new("trouble");
    assert!(ip("link set lo up"));
    let said = |code: i32, words: &[&str]| {
        let output = output(words);
        assert_eq!(output.status.code(), Some(code), "{words:?} {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(1, &["nfsd", "/nowhere"]).contains("cannot serve '/nowhere'"));
    assert!(said(2, &["nfs", "ls", "http://a/b"]).contains("nfs://"));
    assert!(said(2, &["nfs", "cp", "a", "b"]).contains("URL"));
    assert!(said(1, &["nfs", "ls", "nfs://127.0.0.1/"]).contains("give the port"));
    let served = folder.path("served");
    let url = "nfs://127.0.0.1:2049/";
    let _running = started(&["nfsd", &served, "--read-only"], url, &[]);
    assert!(said(1, &["nfsd", &served]).contains("cannot listen at 127.0.0.1:2049"));
    let small = folder.path("own/small");
    assert!(said(1, &["nfs", "cp", &small, url]).contains("NFS3ERR_ROFS"));
    assert!(said(1, &["nfs", "cp", &folder.path("own"), url]).contains("-r"));
    assert!(said(1, &["nfs", "cat", &format!("{url}none")]).contains("NFS3ERR_NOENT"));
    assert_eq!(fs::read_dir(&served).expect("a directory").count(), 0);
}

/// Ctrl-C in a copy: the file that was begun is removed, and named. If the server is silent then,
/// the file is only named, and soon.
fn ended() {
    let folder = Folder::new("ended");
    assert!(ip("link set lo up"));
    let (served, large) = (folder.path("served"), folder.path("large"));
    let file = fs::File::create(&large).expect("room");
    file.set_len(8 << 30).expect("a file of holes");
    let url = "nfs://127.0.0.1:2049/";
    let server = started(&["nfsd", &served], url, &[]);
    let begun = || fs::read_dir(&served).expect("a directory").count() > 0;
    let copying = || {
        let running = Running(wirespeed(&["nfs", "cp", &large, url]).spawn().expect("it starts"));
        assert!(until(TIMEOUT, begun), "it does not begin");
        running
    };
    let (code, _, said) = copying().end_by(Signal::INT);
    assert_eq!(code, 130, "{said}");
    assert!(said.contains("removed '.wirespeed-"), "{said}");
    assert!(until(TIMEOUT, || !begun()), "it is left");
    let running = copying();
    let process = Pid::from_child(&server.0);
    kill_process(process, Signal::STOP).expect("it is ours");
    let (code, _, said) = running.end_by(Signal::INT);
    assert_eq!(code, 130, "{said}");
    assert!(said.contains("is left at the server") && said.contains("find DIR"), "{said}");
    kill_process(process, Signal::CONT).expect("it is ours");
}

/// A server that accepts and says nothing.
fn silence() {
    assert!(ip("link set lo up"));
    let _listener = TcpListener::bind("127.0.0.1:2049").expect("the port is free");
    let _socket = UdpSocket::bind("127.0.0.1:2049").expect("the port is free");
    let words = ["nfs", "ls", "nfs://127.0.0.1:2049/"];
    for how in [&[][..], &["--udp"]] {
        let output = output(&[&words[..], how].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("waiting for MOUNT of 127.0.0.1, port 2049; Ctrl-C"), "{said}");
        assert!(said.contains("cannot ask 127.0.0.1, port 2049 for exports"), "{said}");
        assert!(said.contains("no reply in time"), "{said}");
    }
}

/// The server ends in the middle of a copy, and is started again after the user
/// was told.
fn restart() {
    let folder = Folder::new("restart");
    assert!(ip("link set lo up"));
    let (served, large) = (folder.path("served"), folder.path("large"));
    fs::File::create(&large).and_then(|file| file.set_len(1 << 30)).expect("a file of holes");
    let url = "nfs://127.0.0.1:2049/";
    let server = started(&["nfsd", &served], url, &[]);
    let begun = || fs::read_dir(&served).expect("a directory").count() > 0;
    let mut copying = wirespeed(&["nfs", "cp", &large, url]);
    let errors = folder.0.join("errors");
    copying.stderr(fs::File::create(&errors).expect("room"));
    let mut copying = Running(copying.spawn().expect("it starts"));
    assert!(until(TIMEOUT, begun), "it does not begin");
    server.end_by(Signal::TERM);
    let said = || fs::read_to_string(&errors).expect("it is there");
    let waits = || said().contains("waiting for NFS of 127.0.0.1, port 2049");
    assert!(until(TIMEOUT, waits), "{}", said());
    let _server = started(&["nfsd", &served], url, &[]);
    assert!(copying.succeeds(), "{}", said());
    assert!(said().contains("NFS of 127.0.0.1, port 2049 answers again"), "{}", said());
    assert_eq!(fs::metadata(folder.0.join("served/large")).expect("it is there").len(), 1 << 30);
    assert_eq!(fs::read_dir(&served).expect("a directory").count(), 1);
}
