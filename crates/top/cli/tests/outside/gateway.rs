//! `wirespeed gateway`: guests that configure themselves, behind sockets as virtual machines have
//! them. The guest is this machine's kernel in a namespace: its TAP is joined to the machine's end
//! of the socket by a thread. DHCP is busybox's.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Namespace, Need, Running, ip, until};
use wirespeed::device::tap::{Config, Setup, Tap};
use wirespeed::device::vm::{Dgram, Stream};
use wirespeed::device::{Burst, Device};
use wirespeed::{Mtu, Pool};

pub(crate) const BUSYBOX: Need = Need::Program("busybox", "busybox");

pub(crate) const CASES: &[Case] = &[
    ("a_machine_at_a_stream_configures_itself", &[BUSYBOX, Need::PING, Need::CURL], stream),
    ("machines_that_send_first_are_served_apart", &[BUSYBOX, Need::PING], apart),
    ("the_locked_process_answers_a_frontend_of_vhost_user", &[], frontend),
];

pub(crate) const SOON: Duration = Duration::from_secs(30);
/// A host beyond the gateway.
pub(crate) const SERVER: &str = "198.51.100.1";

/// A folder for sockets, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wsgw-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A virtual machine: a kernel, and the wire from its TAP to the gateway's socket.
pub(crate) struct Machine {
    pub(crate) host: Namespace,
    ends: Arc<AtomicBool>,
    wire: Option<JoinHandle<()>>,
}

impl Machine {
    pub(crate) fn start(connect: &dyn Fn() -> Box<dyn Device + Send>) -> Machine {
        let host = Namespace::new().expect("root may");
        let mut machine = Machine { host, ends: Arc::default(), wire: None };
        machine.join(connect());
        machine
    }

    /// Join the TAP to this end of a socket; a TAP of before is gone.
    pub(crate) fn join(&mut self, mut socket: Box<dyn Device + Send>) {
        self.part();
        let tap = self.host.inside(|| {
            let config = Config { name: Some("eth0".into()), vnet_hdr: false, ..Config::default() };
            let mut tap = Tap::open(&config).expect("a TAP");
            tap.configure(&Setup { up: true, ..Setup::default() }).expect("root may");
            tap
        });
        let mut tap: Box<dyn Device + Send> = Box::new(tap.expect("no panic"));
        let ends = self.ends.clone();
        self.wire = Some(thread::spawn(move || {
            let mut pool = Pool::new(16 << 20);
            while !ends.load(Ordering::Relaxed) && !socket.is_gone() {
                let moved = carry(&mut pool, &mut tap, &mut socket)
                    + carry(&mut pool, &mut socket, &mut tap);
                if moved == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }));
    }

    pub(crate) fn part(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.wire.take().into_iter().for_each(|wire| wire.join().expect("no panic"));
        self.ends.store(false, Ordering::Relaxed);
    }

    pub(crate) fn runs(&self, program: &str, arguments: &str) -> (bool, String) {
        let output = self.host.command(program).args(arguments.split(' ')).output();
        let output = output.expect("the program is there");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Get an address by DHCP; returns what the server said.
    pub(crate) fn dhcp(&self, folder: &Folder) -> String {
        let script = folder.path("dhcp");
        let text = "#!/bin/sh\n[ \"$1\" = bound ] || exit 0\nip link set $interface mtu $mtu\n\
                    ip addr replace $ip/$mask dev $interface\n\
                    ip route replace default via $router\n\
                    echo \"lease $ip/$mask $router $dns $mtu\"\n";
        std::fs::write(&script, text).expect("room");
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o700)).expect("ours");
        let script = script.display();
        let arguments = format!("udhcpc -i eth0 -s {script} -O mtu -n -q -t 20 -T 1");
        let (well, text) = self.runs("busybox", &arguments);
        assert!(well, "{text}");
        let lease = text.lines().find(|line| line.starts_with("lease "));
        lease.unwrap_or_else(|| panic!("{text}")).to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.part();
    }
}

/// Pass one burst on, whole.
fn carry(
    pool: &mut Pool,
    from: &mut Box<dyn Device + Send>,
    to: &mut Box<dyn Device + Send>,
) -> usize {
    let mut burst = Burst::new();
    let count = from.rx_burst(pool, &mut burst);
    while !burst.is_empty() && !to.is_gone() {
        if to.tx_burst(pool, &mut burst) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    burst.drain(..).for_each(|frame| pool.free(frame));
    count
}

/// A gateway whose sockets are there, in a host with an address of its own.
pub(crate) fn gateway(options: &[&str], sockets: &[&Path]) -> Running {
    assert!(ip("link set lo up") && ip(&format!("addr replace {SERVER}/32 dev lo")));
    let gateway = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .arg("gateway")
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let gateway = Running(gateway.expect("the program starts"));
    assert!(until(SOON, || sockets.iter().all(|socket| socket.exists())), "no socket came");
    gateway
}

/// Answer each connection as a server of HTTP, until the process ends.
pub(crate) fn serve(listener: TcpListener, body: &'static str) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4_096]);
            let len = body.len();
            let _ = write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {len}\r\n\r\n{body}");
        }
    });
}

pub(crate) fn connect(path: &Path) -> Box<dyn Device + Send> {
    let mtu = Mtu::new(65_520).expect("an MTU");
    Box::new(Stream::connect(path).expect("it listens").with_mtu(mtu))
}

fn stream() {
    let folder = Folder::new("stream");
    let path = folder.path("vm");
    let vm = format!("qemu:{}", path.display());
    let options = ["--vm", &vm, "-p", "127.0.0.1/18080:80", "--net6", "fd77::/64"];
    let gateway = gateway(&options, &[&path]);
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others may not connect");
    let mut machine = Machine::start(&|| connect(&path));
    assert_eq!(machine.dhcp(&folder), "lease 10.0.2.100/24 10.0.2.2 10.0.2.3 65520");
    let has_v6 = || {
        let (_, text) = machine.runs("ip", "-6 addr show dev eth0");
        // An address cannot be used while it is checked for duplicates.
        text.contains("inet6 fd77::") && !text.contains("tentative")
    };
    assert!(until(SOON, has_v6), "{}", machine.runs("ip", "-6 addr show dev eth0").1);
    assert!(machine.runs("ip", "-6 route").1.contains("default via fe80::2"));
    for to in ["10.0.2.2", "fd77::2"] {
        let (well, text) = machine.runs("ping", &format!("-n -c 2 -W 5 {to}"));
        assert!(well, "{text}");
    }
    serve(TcpListener::bind((SERVER, 8_000)).expect("a port"), "outside");
    let url = format!("-sS --max-time 20 http://{SERVER}:8000/");
    assert_eq!(machine.runs("curl", &url), (true, "outside".to_owned()));
    let refused = machine.runs("curl", &format!("-sS --max-time 20 http://{SERVER}:8001/"));
    assert!(!refused.0 && refused.1.contains("Failed to connect"), "{}", refused.1);
    let (well, text) = machine.runs("busybox", "nslookup host.wirespeed.internal 10.0.2.3");
    assert!(well && text.contains("10.0.2.2"), "{text}");
    // A published port leads to the guest that has a lease.
    let inside = machine.host.inside(|| TcpListener::bind(("0.0.0.0", 80)).expect("a port"));
    serve(inside.expect("no panic"), "inside");
    let mut client = TcpStream::connect("127.0.0.1:18080").expect("published");
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("open");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("text");
    assert!(answer.ends_with("inside"), "{answer}");
    // The machine starts again.
    machine.join(connect(&path));
    assert!(machine.dhcp(&folder).starts_with("lease 10.0.2.10"));
    assert_eq!(machine.runs("curl", &url), (true, "outside".to_owned()));
    drop(machine);
    let (code, _, err) = gateway.end_by(Signal::INT);
    assert_eq!(code, 0, "{err}");
    assert!(!path.exists(), "the socket stays");
}

fn apart() {
    let folder = Folder::new("first");
    let paths = ["a", "b"].map(|name| folder.path(name));
    let vms = [format!("vfkit:{}", paths[0].display()), format!("gvproxy:{}", paths[1].display())];
    let gateway = gateway(
        &["--vm", &vms[0], "--vm", &vms[1], "--mtu", "1500", "--net6", "off"],
        &[&paths[0], &paths[1]],
    );
    let own = ["c", "d"].map(|name| folder.path(name));
    let greeter = UnixDatagram::bind(folder.path("greeter")).expect("a socket");
    greeter.send_to(b"VFKT", &paths[0]).expect("it is there");
    let machines = [0, 1].map(|n: usize| {
        Machine::start(&|| Box::new(Dgram::bind(&own[n], &paths[n]).expect("a socket")))
    });
    let leases = machines.each_ref().map(|machine| machine.dhcp(&folder));
    assert_eq!(leases[0], "lease 10.0.2.100/24 10.0.2.2 10.0.2.3 1500");
    assert_eq!(leases[1], "lease 10.0.3.100/24 10.0.3.2 10.0.3.3 1500");
    assert!(machines[0].runs("ping", "-n -c 1 -W 5 10.0.2.2").0);
    assert!(machines[1].runs("ping", "-n -c 1 -W 5 10.0.3.2").0);
    let (reached, text) = machines[0].runs("ping", "-n -c 1 -W 2 10.0.3.100");
    assert!(!reached, "one machine reaches the other: {text}");
    drop(machines);
    let (code, _, err) = gateway.end_by(Signal::INT);
    assert_eq!(code, 0, "{err}");
}

/// A frontend asks for features, as each does first; then one whose request is cut off vanishes.
/// A third one is served all the same.
fn frontend() {
    let folder = Folder::new("frontend");
    let path = folder.path("vm");
    let gateway = gateway(&["--vm", &format!("vhost-user:{}", path.display())], &[&path]);
    // VHOST_USER_GET_FEATURES, version 1, without a payload.
    let request = [1_u32, 1, 0].map(u32::to_ne_bytes).concat();
    for whole in [true, false, true] {
        let mut socket = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
        socket.set_read_timeout(Some(SOON)).expect("a socket");
        let length = if whole { request.len() } else { 5 };
        socket.write_all(&request[..length]).expect("room");
        if whole {
            let mut answer = [0; 20];
            socket.read_exact(&mut answer).expect("an answer");
            // VIRTIO_F_VERSION_1 is bit 32.
            assert_eq!((answer[0], answer[16] & 1), (1, 1), "{answer:?}");
        }
    }
    let (code, _, err) = gateway.end_by(Signal::INT);
    assert_eq!(code, 0, "{err}");
}
