//! The drop-in `passt`, by the lines of libvirt and QEMU.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Case, Need, ip, until};

use super::gateway::{BUSYBOX, Folder, Machine, SERVER, SOON, connect, serve};

pub(crate) const CASES: &[Case] = &[
    ("libvirts_line_of_passt_serves_a_machine", &[BUSYBOX, Need::PING, Need::CURL], one_off),
    ("passt_stays_for_the_next_machine_and_ends_by_a_signal", &[BUSYBOX], stays),
    ("passts_mistakes_are_exit_status_1", &[], mistakes),
];

/// Run the drop-in to its end: exit status and messages.
pub(crate) fn passt(options: &str, pid_file: &Path) -> (i32, String) {
    ip("link set lo up");
    assert!(ip(&format!("addr replace {SERVER}/32 dev lo")));
    let output = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .args(["passt", "--pid"])
        .arg(pid_file)
        .args(options.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or(-1), said)
}

/// A process in the background. It is killed at the end.
pub(crate) struct Background(Pid);

/// The process whose number is in a file.
pub(crate) fn process_of(pid_file: &Path) -> Background {
    let text = std::fs::read_to_string(pid_file).expect("a file with a number");
    let number = text.trim().parse().ok().and_then(Pid::from_raw);
    Background(number.expect("a number"))
}

impl Background {
    pub(crate) fn is_gone(&self) -> bool {
        let path = format!("/proc/{}/stat", self.0.as_raw_nonzero());
        std::fs::read_to_string(path).map_or(true, |stat| stat.contains(") Z "))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if !self.is_gone() {
            let _ = kill_process(self.0, Signal::KILL);
        }
    }
}

fn one_off() {
    let folder = Folder::new("passt");
    let (path, pid_file) = (folder.path("vm"), folder.path("pid"));
    let options = format!(
        "--one-off --socket {} --log-file {} --address 10.9.0.15 --netmask 24 --gateway 10.9.0.1 \
         --address fd77::15 --tcp-ports 127.0.0.1/18080-18081:80-81,~18081",
        path.display(),
        folder.path("log").display()
    );
    let (code, said) = passt(&options, &pid_file);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("UNIX domain socket bound at"), "{said}");
    let process = process_of(&pid_file);
    let mut machine = Machine::start(&|| connect(&path));
    assert_eq!(machine.dhcp(&folder), "lease 10.9.0.15/24 10.9.0.1 10.9.0.3 65520");
    serve(TcpListener::bind((SERVER, 8_000)).expect("a port"), "outside");
    serve(TcpListener::bind(("127.0.0.1", 8_001)).expect("a port"), "loopback");
    let gets = |machine: &Machine, url: &str| {
        machine.runs("curl", &format!("-sS --max-time 20 http://{url}/"))
    };
    assert_eq!(gets(&machine, &format!("{SERVER}:8000")), (true, "outside".to_owned()));
    // The gateway's address leads to the host's loopback address, as passt has it.
    assert_eq!(gets(&machine, "10.9.0.1:8001"), (true, "loopback".to_owned()));
    let inside = machine.host.inside(|| TcpListener::bind(("0.0.0.0", 80)).expect("a port"));
    serve(inside.expect("no panic"), "inside");
    let published = Command::new("curl").args(["-sS", "http://127.0.0.1:18080/"]).output();
    assert_eq!(String::from_utf8_lossy(&published.expect("curl").stdout), "inside");
    machine.part();
    assert!(until(SOON, || process.is_gone()), "it does not end with its machine");
    assert_eq!(std::fs::read_to_string(folder.path("log")).expect("it is there"), "");
}

fn stays() {
    let folder = Folder::new("passt-stays");
    let (path, pid_file) = (folder.path("vm"), folder.path("pid"));
    let options = format!("-q -s {} -m 1500 --no-map-gw -4", path.display());
    assert_eq!(passt(&options, &pid_file), (0, String::new()));
    let process = process_of(&pid_file);
    let mut machine = Machine::start(&|| connect(&path));
    assert_eq!(machine.dhcp(&folder), "lease 10.0.2.100/24 10.0.2.2 10.0.2.3 1500");
    serve(TcpListener::bind(("127.0.0.1", 8_001)).expect("a port"), "loopback");
    let refused = machine.runs("busybox", "wget -q -T 20 -O - http://10.0.2.2:8001/");
    assert!(!refused.0, "{}", refused.1);
    machine.join(connect(&path));
    assert!(machine.dhcp(&folder).starts_with("lease 10.0.2.10"));
    kill_process(process.0, Signal::TERM).expect("it runs");
    assert!(until(SOON, || process.is_gone()), "it does not end");
    // A socket that nobody has is replaced.
    drop(machine);
    assert_eq!(passt(&options, &pid_file), (0, String::new()));
    drop(process_of(&pid_file));
}

fn mistakes() {
    let folder = Folder::new("passt-mistakes");
    let pid_file = folder.path("pid");
    let taken = folder.path("file");
    std::fs::write(&taken, "no socket").expect("room");
    for (options, says) in [
        ("--nonsense".to_owned(), "passt: unrecognized option '--nonsense'"),
        ("--fd 99".to_owned(), "descriptor 99 is not open"),
        ("--mtu 70000".to_owned(), "65520"),
        (format!("-s {}", taken.display()), "is no socket"),
        ("-s /no/such/folder/vm".to_owned(), "Is the folder there"),
        ("--address 10.0.2.1 --netmask 31".to_owned(), "no room for a gateway"),
    ] {
        let (code, said) = passt(&options, &pid_file);
        assert!(code == 1 && said.contains(says), "{options}: {code} {said}");
        assert!(!pid_file.exists(), "{options}");
    }
}
