//! `wirespeed up --check`: its answers to good and bad files, and that it begins nothing; and `up`
//! without privileges.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{code, run, stderr};

/// A file of this name and text.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("room");
    path
}

#[test]
fn a_valid_file_is_summed_up() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/router.toml");
    let output = run(&["up", "--check", &example.display().to_string()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let sum = "valid: 3 ports, 4 routes, 1 neighbour, 2 groups, 1 rule, 2 mirrors, \
               4 filter rules, 2 NAT rules\n";
    assert!(text.ends_with(sum), "{text}");
}

#[test]
fn errors_have_their_place_and_nothing_is_begun() {
    let path = file("bad.toml", "fowarding = true\n[[port]]\nname = \"a\"\n");
    let path = path.display().to_string();
    for (args, exit) in [(vec!["up", "--check", &path], 1), (vec!["up", &path], 2)] {
        let output = run(&args);
        assert_eq!((code(&output), output.stdout.len()), (exit, 0));
        let lines = stderr(&output);
        let lines: Vec<&str> = lines.lines().collect();
        let [first, second] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(first.starts_with(&format!("{path}:1:1: ")) && first.contains("'forwarding'?"));
        assert!(second.starts_with(&format!("{path}:2:")) && second.contains("no device"));
    }
}

#[test]
fn a_file_that_is_not_there_is_said() {
    let output = run(&["up", "/nonexistent/router.toml"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("cannot read /nonexistent/router.toml"));
}

/// Only a socket on which nobody answers would be replaced.
#[test]
fn a_file_in_the_way_of_the_control_socket_stays() {
    let kept = file("precious", "kept");
    let control = format!(
        "[groups]\nstaff = [\"root\"]\n[control]\nsocket = \"{}\"\n\
         groups = [\"staff\"]\n",
        kept.display()
    );
    let port = "[[port]]\nname = \"a\"\ndevice = \"tap:ws-a\"\naddresses = \"192.0.2.1/24\"\n";
    let path = file("in-the-way.toml", &(port.to_owned() + &control)).display().to_string();
    for (args, exit) in [(vec!["up", "--check", &path], 1), (vec!["up", &path], 2)] {
        let output = run(&args);
        let said = stderr(&output);
        assert_eq!((code(&output), output.stdout.len()), (exit, 0), "{said}");
        let kept = kept.display();
        let way = format!("{kept} is a file, not a control socket, so it is not replaced.");
        assert!(said.contains(&way), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("it is there"), "kept");
}

/// It says once why, and what to do, before anything is begun.
#[test]
fn without_privileges_nothing_is_begun() {
    const NOBODY: u32 = 65_534;
    let directory = std::env::temp_dir().join(format!("up-nobody-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("it is ours");
    let is_root = rustix::process::geteuid().is_root();
    // Nobody may not enter the directory that the program was built in.
    let path = |name: &str| directory.join(name);
    std::fs::copy(env!("CARGO_BIN_EXE_wirespeed"), path("wirespeed")).expect("room");
    let port = |name: &str| {
        format!("[[port]]\nname = \"{name}\"\ndevice = \"tap:ws-{name}\"\naddresses = \"auto\"\n")
    };
    std::fs::write(path("router.toml"), port("wan") + &port("lan")).expect("room");
    let mut command = Command::new(path("wirespeed"));
    command.arg("up").arg(path("router.toml"));
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().expect("the program starts");
    std::fs::remove_dir_all(&directory).expect("it is ours");
    let said = stderr(&output);
    assert_eq!(code(&output), 1, "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let [first, second] = lines.as_slice() else { panic!("{said}") };
    assert!(first.starts_with("ports lan, wan: "), "{said}");
    assert!(second.contains("start it as root, or with CAP_NET_ADMIN and CAP_NET_RAW"), "{said}");
}
