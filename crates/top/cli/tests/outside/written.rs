//! Files that tools write: captures are whole after one signal in any wait, periods go by the
//! clock, and a file that is to be replaced stays as it was if the disk is full.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Running, ip, until};

pub(crate) const CASES: &[Case] = &[
    ("captures_are_whole_after_one_signal_in_any_wait", &[], signals),
    ("periods_of_an_idle_line_end_by_the_clock", &[], idle_periods),
    ("a_full_disk_leaves_the_old_result_whole", &[], full_disk),
];

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn started(args: &[&str]) -> Running {
    let mut program = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    program.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running(program.spawn().expect("the program starts"))
}

/// A capture of as many packets of raw IP.
fn capture(packets: u32) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101]);
    for second in 0..packets {
        bytes.extend(words(&[second, 0, 20, 20]));
        bytes.extend([69, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    }
    bytes
}

/// How many packets the program reads in a file, to its end.
fn whole(path: &Path) -> usize {
    let mut program = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    let output = program.args(["dump", "-t", "-r"]).arg(path).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.starts_with('\t')).count()
}

fn signals() {
    assert!(ip("link set lo up"));
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        // The signal comes in the middle of a packet that a pipe brings.
        let path = place("signal-pipe.pcapng");
        let _ = std::fs::remove_file(&path);
        let name = path.to_str().expect("UTF-8");
        let mut dump = started(&["dump", "-r", "-", "-U", "-w", name]);
        let mut pipe = dump.0.stdin.take().expect("piped");
        let bytes = capture(3);
        pipe.write_all(&bytes[..bytes.len() - 5]).expect("it reads");
        let two = || {
            std::fs::read(&path)
                .is_ok_and(|file| file.windows(4).filter(|w| w == b"\x45\0\0\x14").count() >= 2)
        };
        assert!(until(Duration::from_secs(20), two), "two packets are whole");
        let (code, _, err) = dump.end_by(signal);
        assert_eq!(code, 0, "{err}");
        assert_eq!(whole(&path), 2);
        drop(pipe);
        // The capture is on an interface on which nothing passes.
        let path = place("signal-idle.pcapng");
        let _ = std::fs::remove_file(&path);
        let name = path.to_str().expect("UTF-8");
        let dump = started(&["dump", "-i", "lo", "-w", name, "port 65534"]);
        assert!(until(Duration::from_secs(20), || path.exists()), "it does not begin");
        let (code, _, err) = dump.end_by(signal);
        assert_eq!(code, 0, "{err}");
        assert_eq!(whole(&path), 0);
    }
}

/// The files of three periods of a line on which nothing passes; then the capture ends by itself.
fn idle_periods() {
    assert!(ip("link set lo up"));
    let name = |number: &str| place(&format!("idle.pcapng{number}"));
    for number in ["", "1", "2", "3"] {
        let _ = std::fs::remove_file(name(number));
    }
    let path = name("");
    let path = path.to_str().expect("UTF-8");
    let dump = started(&["dump", "-i", "lo", "-G", "1", "-W", "3", "-w", path, "port 65534"]);
    let (code, _, err) = dump.end();
    assert_eq!(code, 0, "{err}");
    for number in ["", "1", "2"] {
        assert_eq!(whole(&name(number)), 0, "{number}");
    }
    assert!(!name("3").exists());
}

/// A file system of a few pages, unmounted in the end.
struct Tiny(PathBuf);

impl Tiny {
    fn mount() -> Tiny {
        let folder = place("tiny");
        std::fs::create_dir_all(&folder).expect("room");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&folder);
        assert!(mount.status().expect("mount is there").success());
        Tiny(folder)
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn full_disk() {
    let tiny = Tiny::mount();
    let capture_file = place("full-disk.pcap");
    std::fs::write(&capture_file, capture(3)).expect("room");
    let page = tiny.0.join("page.html");
    std::fs::write(&page, "the old page").expect("room");
    let filler = std::fs::File::create(tiny.0.join("filler")).and_then(|mut file| {
        // Write until the file system is full.
        while file.write_all(&[0; 4096]).is_ok() {}
        file.sync_all()
    });
    filler.expect("it was made");
    let page_name = page.to_str().expect("UTF-8");
    let input = capture_file.to_str().expect("UTF-8");
    let (code, _, err) = started(&["trace", input, "-o", page_name]).end();
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("cannot write") && err.contains("make room on the disk"), "{err}");
    assert_eq!(std::fs::read_to_string(&page).expect("it is there"), "the old page");
    let names = std::fs::read_dir(&tiny.0).expect("it is there").count();
    assert_eq!(names, 2, "something was left beside");
    // The capture itself is no page.
    let (code, _, err) = started(&["trace", input, "-o", input]).end();
    assert_eq!(code, 2, "{err}");
    assert_eq!(std::fs::read(&capture_file).expect("it is there"), capture(3));
}
