//! A veth between the namespace of the case, where the servers are, and a guest's; a thread that
//! serves until it is dropped; a folder for files.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant as StdInstant;

use base::{Duration, Instant};
use testbed::{Namespace, Running};

pub(crate) const SOON: std::time::Duration = std::time::Duration::from_secs(30);

/// The guest's namespace, with `eth0`; the other end is `ws0`, 10.0.2.2/24 and fe80::1.
pub(crate) struct Link {
    pub(crate) guest: Namespace,
    pub(crate) folder: PathBuf,
}

impl Link {
    pub(crate) fn new(name: &str) -> Link {
        let guest = Namespace::new().expect("another namespace");
        let make = format!("link add ws0 type veth peer name eth0 netns {}", guest.name());
        for line in [
            "link set lo up",
            &make,
            "link set ws0 addrgenmode none",
            "addr add 10.0.2.2/24 dev ws0",
            "addr add 10.0.2.3/24 dev ws0",
            "addr add fe80::1/64 dev ws0 nodad",
            "link set ws0 up",
        ] {
            assert!(testbed::ip(line), "ip {line}");
        }
        assert!(guest.ip("link set lo up") && guest.ip("link set eth0 up"));
        let folder = std::env::temp_dir().join(format!("wstest-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("room for a folder");
        Link { guest, folder }
    }

    /// A script for clients that call one: it appends its environment to the file `said`, and gives
    /// the interface the address, because udhcpc's release has it as its source.
    pub(crate) fn script(&self) -> String {
        let (script, said) = (self.folder.join("script"), self.folder.join("said"));
        let text = format!(
            "#!/bin/sh\nenv >> {}\n[ -z \"$ip\" ] || ip addr replace $ip/24 dev $interface\n",
            said.display()
        );
        fs::write(&script, text).expect("room");
        let made = Command::new("chmod").arg("755").arg(&script).status();
        assert!(made.is_ok_and(|status| status.success()));
        self.path("script")
    }

    /// What clients have told the script.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Run a program of the guest to its end; returns what it prints.
    pub(crate) fn run(&self, line: &str) -> String {
        let mut words = line.split(' ');
        let mut command = self.guest.command(words.next().expect("a program"));
        let output = command.args(words).stdin(Stdio::null()).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text + &String::from_utf8_lossy(&output.stderr)
    }

    /// Start a program of the guest.
    pub(crate) fn start(&self, line: &str) -> Running {
        let mut words = line.split(' ');
        let mut command = self.guest.command(words.next().expect("a program"));
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().expect("it starts"))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A thread in this namespace that calls a function again and again, until it is dropped.
pub(crate) struct Serving {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// The function gets the time; it returns whether there was something to do.
    pub(crate) fn start(mut turn: impl FnMut(Instant) -> bool + Send + 'static) -> Serving {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let thread = std::thread::spawn(move || {
            let began = StdInstant::now();
            while !seen.load(Ordering::Relaxed) {
                let now = Instant::ZERO + Duration::from_secs(1) + began.elapsed().into();
                if !turn(now) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        });
        Serving { ends, thread: Some(thread) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}
