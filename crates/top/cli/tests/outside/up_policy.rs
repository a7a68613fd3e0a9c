//! Policy routing as users of this machine see it. Two users of groups, and one of no group, have
//! sockets in the stack of a running `wirespeed up`, by its control socket. Each kind of route is
//! tried with each list of groups, in each case of sending. Frames that leave are counted at the
//! other ends of the TAPs.

use std::io::Write;
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::Signal;
use testbed::{Case, Need, Running, ip, until};

use super::up::{TIMEOUT, World};

pub(crate) const CASES: &[Case] =
    &[("up_policy_table_with_users_of_the_machine", &[Need::PING], table)];

/// The lists of a route.
const LISTS: [&str; 3] = ["", "include = \"staff\"\n", "exclude = \"guests\"\n"];
/// The ways to the far network, each with its list instead of LIST.
const ROUTES: [(&str, &str); 5] = [
    ("prefix", "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"192.0.2.1\"\nLIST"),
    ("default", "[[route]]\nto = \"0.0.0.0/0\"\nvia = \"192.0.2.1\"\nLIST"),
    (
        "table",
        "[[route]]\nto = \"0.0.0.0/0\"\nvia = \"192.0.2.1\"\ntable = 10\nLIST[[rule]]\n\
         priority = 100\nto = \"10.9.0.0/16\"\ntable = 10\n",
    ),
    (
        "ECMP",
        "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"192.0.2.1\"\nLIST[[route]]\n\
         to = \"10.9.0.0/16\"\nvia = \"203.0.113.2\"\nLIST",
    ),
    (
        ONE_FOR_ALL,
        "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"192.0.2.1\"\nLIST[[route]]\n\
         to = \"10.9.0.0/16\"\nvia = \"203.0.113.2\"\n",
    ),
];
/// A user who may not use its first route has the second.
const ONE_FOR_ALL: &str = "ECMP, one for all";
/// Users of every Debian machine: of the groups `staff`, `guests` and none.
const USERS: [&str; 3] = ["daemon", "nobody", "bin"];

pub(crate) const FAR: &str = "10.9.0.1";

/// A user's number, and that of its group.
pub(crate) fn account(name: &str) -> (u32, u32) {
    let all = std::fs::read_to_string("/etc/passwd").expect("every machine has users");
    let line = all.lines().find(|line| line.split(':').next() == Some(name)).expect("the user");
    let number =
        |at: usize| line.split(':').nth(at).and_then(|n| n.parse().ok()).expect("a number");
    (number(2), number(3))
}

/// A router whose control socket users of its groups reach.
pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) socket: PathBuf,
    program: PathBuf,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.program);
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn config(socket: &Path, more: &str) -> String {
    // daemon by its group, nobody by its name, bin by its number.
    let (bin, _) = account("bin");
    let macs = [("wan", "192.0.2.1", 1), ("alt", "203.0.113.2", 3)];
    let neighbours: String = macs
        .iter()
        .map(|(port, ip, last)| {
            let of = format!("[[neighbour]]\nport = \"{port}\"\naddress = \"{ip}\"\n");
            of + &format!("mac = \"02:00:00:00:01:0{last}\"\n")
        })
        .collect();
    let ports: String = [("wan", "ws0", "192.0.2.2"), ("lan", "ws1", "198.51.100.1")]
        .iter()
        .chain(&[("alt", "ws2", "203.0.113.1")])
        .map(|(name, device, ip)| {
            let of = format!("[[port]]\nname = \"{name}\"\ndevice = \"tap:{device}\"\n");
            // Packets of the far network come by either port, and a route for some users only is no
            // route to a packet's source.
            of + &format!("addresses = \"{ip}/24\"\nsource_check = \"off\"\n")
        })
        .collect();
    format!(
        "[groups]\nstaff = [\"%daemon\"]\nguests = [\"nobody\"]\nothers = [{bin}]\n\
         [control]\nsocket = \"{}\"\ngroups = [\"staff\", \"guests\", \"others\"]\n\
         {ports}{neighbours}{more}",
        socket.display()
    )
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let name = |what: &str| format!("wspolicy-{}-{what}", std::process::id());
        let socket = std::env::temp_dir().join(name("socket"));
        let program = std::env::temp_dir().join(name("program"));
        std::fs::copy(env!("CARGO_BIN_EXE_wirespeed"), &program).expect("room");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("ours");
        let world = World::new(&config(&socket, ""));
        for (device, address, last) in [("ws0", "", 1), ("ws2", "203.0.113.2/24", 3)] {
            assert!(ip(&format!("link set {device} address 02:00:00:00:01:0{last} up")));
            assert!(address.is_empty() || ip(&format!("addr add {address} dev {device}")));
            for place in [device, "all"] {
                let path = format!("/proc/sys/net/ipv4/conf/{place}/rp_filter");
                std::fs::write(path, "0").expect("root may");
            }
        }
        assert!(ip(&format!("addr add {FAR}/32 dev lo")));
        Bench { world, socket, program }
    }

    /// The program as a user, with its standard streams piped.
    fn command(&self, user: &str, words: &[&str]) -> Command {
        let (uid, gid) = account(user);
        let mut command = Command::new(&self.program);
        command.arg(words[0]).arg("--socket").arg(&self.socket).args(&words[1..]);
        command.uid(uid).gid(gid).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Run it to its end: did it succeed, and what did it say?
    pub(crate) fn run(&self, user: &str, words: &[&str]) -> (bool, String) {
        let output = self.command(user, words).output().expect("the program starts");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Let it run, with something to write to.
    fn begin(&self, user: &str, words: &[&str]) -> (Running, ChildStdin) {
        let child = self.command(user, words).stdin(Stdio::piped()).spawn();
        let mut child: Child = child.expect("the program starts");
        let stdin = child.stdin.take().expect("piped");
        (Running(child), stdin)
    }

    /// Let a configuration take effect.
    pub(crate) fn set(&self, more: &str) {
        self.set_with("", more);
    }

    /// The same with settings of the router itself.
    pub(crate) fn set_with(&self, own: &str, more: &str) {
        let count = || self.world.log().matches(" took effect, ").count();
        let before = count();
        self.world.write(&(own.to_owned() + &config(&self.socket, more)));
        self.world.signal(Signal::HUP);
        assert!(until(TIMEOUT, || count() > before), "{}", self.world.log());
        let log = self.world.log();
        assert!(log.trim_end().ends_with(", 0 failed"), "{log}");
    }
}

/// Frames that the router has sent on a TAP.
fn frames(device: &str) -> u64 {
    let path = format!("-s -j link show dev {device}");
    let output = Command::new("ip").args(path.split(' ')).output().expect("ip starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rx = text.split("\"rx\":{").nth(1).expect("counters");
    let packets = rx.split("\"packets\":").nth(1).expect("packets");
    packets.split(',').next().and_then(|n| n.parse().ok()).expect("a number")
}

/// Frames on both TAPs towards the far host, once no more come.
pub(crate) fn settled() -> [u64; 2] {
    let mut before = ["ws0", "ws2"].map(frames);
    for _ in 0..100 {
        sleep(Duration::from_millis(30));
        let now = ["ws0", "ws2"].map(frames);
        if now == before {
            break;
        }
        before = now;
    }
    before
}

/// May a user's packets use a route with this list? `None`: forwarded, of no user.
fn admits(list: &str, user: Option<&str>) -> bool {
    match (list.split(' ').next(), user) {
        (Some("include"), user) => user == Some("daemon"),
        (Some("exclude"), user) => user != Some("nobody"),
        _ => true,
    }
}

/// One row of the table.
struct Row {
    place: String,
    expected: bool,
    /// Did the case succeed, as far as that can be seen from outside?
    seen: bool,
    /// Frames on the two TAPs.
    frames: [u64; 2],
}

impl Row {
    /// Should the case succeed? If there is another route for all, it succeeds by that: connections
    /// move to its port.
    fn passes(&self) -> bool {
        self.expected || self.place.starts_with(ONE_FOR_ALL)
    }

    /// A case of an excluded user does not succeed, and no frame leaves by a route that is not for
    /// the user.
    fn is_right(&self) -> bool {
        let has_other = self.place.starts_with(ONE_FOR_ALL);
        let silent = if has_other { self.frames[0] == 0 } else { self.frames == [0, 0] };
        let seen = self.passes();
        self.seen == seen && (self.expected || silent) && (!seen || self.frames != [0, 0])
    }
}

/// Measure a row, and again if it is wrong: the neighbour of an earlier packet is probed seconds
/// later (RFC 4861 section 7.3.3), and the probe may have been counted.
fn measured(place: String, expected: bool, mut act: impl FnMut() -> bool) -> Row {
    let mut row = Row { place, expected, seen: false, frames: [0, 0] };
    for _ in 0..2 {
        let before = settled();
        row.seen = act();
        let after = settled();
        row.frames = [after[0] - before[0], after[1] - before[1]];
        if row.is_right() {
            break;
        }
    }
    row
}

/// A connection to the router's port from the far host's address.
fn connects(port: u16) -> bool {
    let far = SocketAddrV4::new(FAR.parse().expect("an address"), 0);
    let to = SocketAddrV4::new("192.0.2.2".parse().expect("an address"), port);
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    set_socket_timeout(&fd, Timeout::Send, Some(Duration::from_millis(400))).expect("a time");
    bind(&fd, &far).expect("the address is ours");
    connect(&fd, &to).is_ok()
}

/// The far host's servers, which are in this namespace.
struct Far {
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Far {
    fn new() -> Far {
        let tcp = TcpListener::bind((FAR, 7007)).expect("free");
        tcp.set_nonblocking(true).expect("a mode");
        let udp = UdpSocket::bind((FAR, 7007)).expect("free");
        udp.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
        Far { tcp, udp }
    }

    fn heard(&self) -> bool {
        self.udp.recv(&mut [0; 64]).is_ok()
    }

    fn forget(&self) {
        while self.tcp.accept().is_ok() {}
        self.udp.set_nonblocking(true).expect("a mode");
        while self.heard() {}
        self.udp.set_nonblocking(false).expect("a mode");
    }
}

/// Sockets of a user from a time when the route was for all: their paths are cached.
struct Cached {
    user: &'static str,
    udp: (Running, ChildStdin),
    tcp: (Running, ChildStdin),
    /// The connection's other end.
    stream: TcpStream,
}

impl Cached {
    fn new(bench: &Bench, far: &Far, user: &'static str) -> Cached {
        let mut udp = bench.begin(user, &["nc", "-u", FAR, "7007"]);
        udp.1.write_all(b"before").expect("it reads");
        assert!(until(TIMEOUT, || far.heard()), "{user}: {}", bench.world.log());
        let tcp = bench.begin(user, &["nc", FAR, "7007"]);
        let mut stream = None;
        let accepted = until(TIMEOUT, || {
            stream = far.tcp.accept().ok();
            stream.is_some()
        });
        assert!(accepted, "{user}: {}", bench.world.log());
        let (stream, _) = stream.expect("it was accepted");
        stream.set_nonblocking(false).expect("a mode");
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a time");
        Cached { user, udp, tcp, stream }
    }

    /// Both sockets send.
    fn rows(mut self, far: &Far, place: impl Fn(&str, &str) -> String, expected: bool) -> [Row; 2] {
        let udp = measured(place(self.user, "UDP, cached"), expected, || {
            let _ = self.udp.1.write_all(b"after");
            far.heard()
        });
        let tcp = measured(place(self.user, "TCP, cached"), expected, || {
            let _ = self.tcp.1.write_all(b"after");
            self.stream.peek(&mut [0; 8]).is_ok_and(|count| count > 0)
        });
        [udp, tcp]
    }
}

/// The cases in which a user begins.
fn begun(
    bench: &Bench,
    far: &Far,
    user: &str,
    place: impl Fn(&str, &str) -> String,
    expected: bool,
) -> Vec<Row> {
    let row = |case: &str, words: &[&str]| {
        let row = measured(place(user, case), expected, || {
            let (done, text) = bench.run(user, words);
            assert!(done || text.contains("Network is unreachable"), "{user} {words:?}: {text}");
            done
        });
        far.forget();
        row
    };
    let mut rows = vec![
        row("TCP connect", &["nc", "-z", FAR, "7007"]),
        row("UDP, connected", &["nc", "-u", "-z", FAR, "7007"]),
        row("UDP, not connected", &["nc", "-u", "--unconnected", "-z", FAR, "7007"]),
        row("echo", &["ping", "-c1", "-W1", FAR]),
    ];
    let listener = bench.begin(user, &["nc", "-l", "8080"]);
    let listens = || bench.world.show("sockets").contains(":8080");
    assert!(until(TIMEOUT, listens), "{}", bench.world.log());
    rows.push(measured(place(user, "reply of a listener"), expected, || connects(8080)));
    // The listener goes with its program.
    drop(listener);
    assert!(until(TIMEOUT, || !listens()), "{}", bench.world.log());
    rows
}

fn table() {
    let (bench, mut rows, mut wrong) = (Bench::new(), Vec::new(), Vec::new());
    let far = Far::new();
    for (route, text) in ROUTES {
        for list in LISTS {
            let shown = if list.is_empty() { "for all" } else { list.trim_end() };
            let place = |who: &str, case: &str| format!("{route} | {shown} | {who} | {case}");
            bench.set(&text.replace("LIST", ""));
            let cached = USERS.map(|user| Cached::new(&bench, &far, user));
            bench.set(&text.replace("LIST", list));
            let mut found: Vec<Row> = Vec::new();
            for cached in cached {
                let expected = admits(list, Some(cached.user));
                found.extend(cached.rows(&far, place, expected));
            }
            for user in USERS {
                found.extend(begun(&bench, &far, user, place, admits(list, Some(user))));
            }
            found.push(measured(place("-", "forwarded"), admits(list, None), || {
                let words = ["-c", "1", "-W", "1", FAR];
                let ping = bench.world.behind.command("ping").args(words).output();
                ping.is_ok_and(|ping| ping.status.success())
            }));
            wrong.extend(found.iter().filter(|r| !r.is_right()).map(|r| r.place.clone()));
            rows.extend(found);
        }
    }
    println!("route | groups | user | case | expected | seen | frames");
    for row in &rows {
        let says = |yes: bool| if yes { "passes" } else { "nothing" };
        let [wan, alt] = row.frames;
        let expected = says(row.passes());
        println!("{} | {expected} | {} | {wan}+{alt}", row.place, says(row.seen));
    }
    assert!(wrong.is_empty(), "{} of {} are wrong: {wrong:#?}", wrong.len(), rows.len());
}
