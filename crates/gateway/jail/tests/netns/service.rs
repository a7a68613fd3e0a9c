//! A gateway without a program: what it sees, and how it ends.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal, geteuid};
use testbed::{Case, Need, Running, until};

use crate::world::{NEEDS, SERVE, SOON, as_user, children, has_ended, kill, program};

pub(crate) const CASES: &[Case] = &[
    ("a_gateway_sees_the_folders_of_its_peers_alone", NEEDS, folders),
    ("without_namespaces_it_still_opens_nothing", &[Need::SETPRIV], all),
    ("a_signal_ends_both", &[Need::SETPRIV], signals),
    ("a_killed_one_ends_the_other", &[Need::SETPRIV], kills),
];

/// A folder of the user with a datagram socket.
struct Peer {
    folder: PathBuf,
    socket: UnixDatagram,
}

impl Peer {
    fn new(name: &str) -> Peer {
        let name = format!("jail-service-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("room");
        let socket = UnixDatagram::bind(folder.join("peer")).expect("room");
        let all = PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.join("peer"), all).expect("ours");
        if geteuid().is_root() {
            chown(&folder, Some(61_999), None).expect("root may");
        }
        Peer { folder, socket }
    }

    /// Start a launcher, and return what its gateway says.
    fn serve(&self, sees: &str) -> (Running, String) {
        let mut command = as_user(program().to_str().expect("a name"));
        command.args([SERVE, sees]).arg(self.folder.join("peer"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running(command.current_dir("/").spawn().expect("it starts"));
        let mut line = String::new();
        let out = running.0.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("text");
        (running, line)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn folders() {
    let peer = Peer::new("folders");
    let sees = peer.folder.to_str().expect("text");
    let (_running, said) = peer.serve(sees);
    let first = peer.folder.components().nth(1).expect("absolute").as_os_str().to_owned();
    let expected = format!("root [{first:?}] sent true opened Some(1) notes []\n");
    assert_eq!(said, expected);
    let mut bytes = [0; 16];
    assert_eq!(peer.socket.recv(&mut bytes).expect("it came"), 5);
}

fn all() {
    let (_running, said) = Peer::new("all").serve("all");
    assert!(
        said.contains("\"proc\"") && said.contains("sent true opened Some(1) notes []"),
        "{said}"
    );
    // A folder that is not there is a note, and no more.
    let (_running, said) = Peer::new("none").serve("/no/such/folder");
    assert!(said.contains("\"proc\"") && said.contains("sees the host's files"), "{said}");
}

fn signals() {
    for signal in [Signal::INT, Signal::TERM] {
        let peer = Peer::new("signals");
        let (running, _) = peer.serve("all");
        let (code, _, err) = running.end_by(signal);
        assert_eq!((code, err.as_str()), (0, ""));
    }
}

fn kills() {
    let peer = Peer::new("kills");
    let (mut running, _) = peer.serve("all");
    let gateway = children(launcher_of(&running))[0];
    kill(gateway, Signal::KILL);
    assert_eq!(running.wait().code(), Some(125));
    let (mut running, _) = peer.serve("all");
    let gateway = children(launcher_of(&running))[0];
    kill(launcher_of(&running), Signal::KILL);
    running.wait();
    assert!(until(SOON, || has_ended(gateway)), "{gateway:?} is left");
}

fn launcher_of(running: &Running) -> Pid {
    Pid::from_child(&running.0)
}
