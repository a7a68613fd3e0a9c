//! Mirrors of a router's ports: interfaces in a control namespace that are as the ports are, and
//! stay while a worker crashes; programs there speak by the ports.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testbed::{Case, Need, Running, ip, until};

use crate::up::{CONFIG, TIMEOUT, World, asked};

pub(crate) const CASES: &[Case] = &[
    ("a_mirror_is_as_its_port_is", &[], mirrored),
    ("a_mirror_stays_while_the_worker_crashes", &[], crashed),
    ("a_mirror_that_was_deleted_is_made_anew", &[], deleted),
    ("an_interface_of_somebody_else_is_no_mirror", &[], taken),
    ("an_address_of_dhcp_is_mirrored", &[Need::DNSMASQ], leased),
    ("programs_at_a_mirror_reach_the_link_and_are_reached", &[Need::PING], reached),
    ("what_a_program_at_a_mirror_forges_is_dropped", &[], forged),
    ("an_address_that_a_program_gives_a_mirror_is_the_ports", &[Need::PING], given),
    ("an_interface_above_a_mirror_has_its_link_address", &[Need::PING], above),
    ("an_address_that_a_killed_router_left_is_no_programs", &[], left),
];

/// A control namespace that `ip netns` does not have yet; its name is removed at the end.
struct Control(String);

impl Control {
    fn new(world_number: u32) -> Control {
        Control(format!("wsctl-{}-{world_number}", std::process::id()))
    }

    fn config(&self, more: &str) -> String {
        format!("{CONFIG}[control]\nmirrors = \"all\"\nnamespace = \"{}\"\n{more}", self.0)
    }

    /// The output of `ip` there.
    fn ip(&self, words: &str) -> String {
        let done = Command::new("ip").args(["-n", &self.0]).args(words.split(' ')).output();
        String::from_utf8_lossy(&done.expect("it starts").stdout).into_owned()
    }

    fn has(&self, port: &str, what: &str) -> bool {
        self.ip(&format!("addr show dev {port}")).contains(what)
    }

    fn index(&self, port: &str) -> u64 {
        let link = self.ip(&format!("-j link show dev {port}"));
        let link: Value = serde_json::from_str(&link).unwrap_or_default();
        link[0]["ifindex"].as_u64().unwrap_or(0)
    }

    fn setting(&self, path: &str) -> String {
        let done = self.command("cat").arg(format!("/proc/sys/net/{path}")).output();
        String::from_utf8_lossy(&done.expect("it starts").stdout).trim().to_owned()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }

    /// Do something there.
    fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        wirespeed::device::namespace::Namespace::named(&self.0)
            .and_then(|space| space.inside(what))
            .expect("root may enter")
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.0));
    }
}

/// What the router says at `/metrics` about the mirror of wan.
fn counted(name: &str) -> u64 {
    let page = asked("/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("wirespeed_{name} ")));
    line.and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn mirrored() {
    let control = Control::new(1);
    let world = World::new(&control.config(""));
    world.says("mirror lan: in namespace");
    assert!(until(TIMEOUT, || control.has("wan", "192.0.2.2/24")), "{}", world.log());
    let page = world.show("ports");
    let link = control.ip("link show dev wan");
    assert!(link.contains("NOARP") && link.contains("mtu 1500"), "{link}");
    let mac = link.split("link/ether ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(page.contains(mac.expect("an Ethernet interface")), "{link}{page}");
    assert!(until(TIMEOUT, || control.ip("link show dev wan").contains("LOWER_UP")));
    for (path, value) in [
        ("ipv6/conf/wan/accept_ra", "0"),
        ("ipv6/conf/wan/autoconf", "0"),
        ("ipv4/conf/wan/rp_filter", "0"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/ip_local_port_range", "61000\t65535"),
    ] {
        assert_eq!(control.setting(path), value, "{path}");
    }
    assert!(control.ip("addr show dev lo").contains("127.0.0.1"));
    let rows: Value = serde_json::from_str(&world.show_json("mirrors")).expect("a document");
    let rows = rows["stacks"][0]["mirrors"].as_array().cloned().unwrap_or_default();
    let up = |name| rows.iter().any(|row| row["name"] == name && row["up"] == true);
    assert!(up("wan") && up("lan") && rows.len() == 2, "{rows:?}");

    // Addresses and the carrier follow the port's.
    let (code, said) = world.local("ip addr add 2001:db8::2/64 dev wan");
    assert_eq!(code, 0, "{said}");
    assert!(until(TIMEOUT, || control.has("wan", "inet6 2001:db8::2/64 scope global")));
    let page = control.ip("addr show dev wan");
    assert!(!page.contains("tentative"), "{page}");
    // An address of another program stays, and is the port's.
    control.ip("addr add 192.0.2.77/32 dev wan");
    let (code, said) = world.local("ip addr del 2001:db8::2/64 dev wan");
    assert_eq!(code, 0, "{said}");
    assert!(until(TIMEOUT, || !control.has("wan", "2001:db8::2/64")));
    assert!(control.has("wan", "192.0.2.77/32"));
    assert!(ip("link set ws0 down"));
    assert!(until(TIMEOUT, || control.ip("link show dev wan").contains("NO-CARRIER")));
    assert!(ip("link set ws0 up"));
    assert!(until(TIMEOUT, || control.ip("link show dev wan").contains("LOWER_UP")));

    // Another MTU; and no mirror of lan.
    let text = control.config("").replace("\"all\"", "\"wan\"");
    let text = text.replacen("device = \"tap:ws0\"", "device = \"tap:ws0\"\nmtu = 1400", 1);
    world.reload(&text, "mirror lan: removed");
    assert!(until(TIMEOUT, || control.ip("link show dev wan").contains("mtu 1400")));
    assert!(until(TIMEOUT, || control.ip("link").matches("link/ether").count() == 1));
    assert_eq!(world.end(Signal::TERM), 0);
    assert!(until(TIMEOUT, || control.index("wan") == 0), "{}", control.ip("link"));
}

fn crashed() {
    let control = Control::new(2);
    let world = World::new(&control.config(""));
    assert!(until(TIMEOUT, || control.has("wan", "192.0.2.2/24")), "{}", world.log());
    let index = control.index("wan");
    let pid = Pid::from_raw(world.worker() as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
    world.says("the worker was ended by signal 9");
    assert!(until(TIMEOUT, || control.ip("link show dev wan").contains("NO-CARRIER")));
    assert!(control.has("wan", "192.0.2.2/24"));
    drop(world);
    // The same interface goes on, with its index.
    let world = World::new(&control.config(""));
    world.says("mirror wan: in namespace");
    assert!(until(TIMEOUT, || control.ip("link show dev wan").contains("LOWER_UP")));
    assert_eq!(control.index("wan"), index);
    assert_eq!(world.end(Signal::TERM), 0);
    assert!(until(TIMEOUT, || control.index("wan") == 0));
}

fn deleted() {
    let control = Control::new(3);
    let world = World::new(&control.config(""));
    assert!(until(TIMEOUT, || control.has("wan", "192.0.2.2/24")), "{}", world.log());
    let index = control.index("wan");
    control.ip("link del dev wan");
    let is_another = || control.has("wan", "192.0.2.2/24") && control.index("wan") != index;
    assert!(until(TIMEOUT, is_another), "{}", world.log());
    // The namespace's name is another one's: a reload finds that.
    assert!(ip(&format!("netns del {}", control.0)));
    world.reload(&control.config("punt_rate = 7\n"), "router.toml: 0 changes took effect");
    assert!(until(TIMEOUT, || control.has("lan", "198.51.100.1/24")), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}

fn taken() {
    let control = Control::new(4);
    assert!(ip(&format!("netns add {}", control.0)));
    control.ip("tuntap add dev wan mode tap");
    let world = World::new(&control.config(""));
    world.says("has another interface 'wan': rename that one, or the port");
    assert!(until(TIMEOUT, || control.has("lan", "198.51.100.1/24")), "{}", world.log());
    assert_eq!(world.log().matches("another interface 'wan'").count(), 1);
    // It is tried again.
    control.ip("link del dev wan");
    assert!(until(TIMEOUT, || control.has("wan", "192.0.2.2/24")), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}

fn leased() {
    let control = Control::new(5);
    let config = control.config("").replace("addresses = \"192.0.2.2/24\"", "addresses = \"dhcp\"");
    let world = World::new(&config);
    let mut server = Command::new("dnsmasq");
    server.args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--bind-interfaces"]);
    server.args(["--interface=ws0", "--dhcp-range=192.0.2.50,192.0.2.60", "--user=root"]);
    server.arg(format!("--dhcp-leasefile={}", world.path("leases").display()));
    server.arg(format!("--pid-file={}", world.path("pid").display()));
    let server = server.stderr(Stdio::null()).spawn().expect("it starts");
    let _server = Running(server);
    assert!(until(TIMEOUT, || control.has("wan", "inet 192.0.2.")), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}

fn reached() {
    let control = Control::new(6);
    let world = World::new(&control.config("").replace(
        "addresses = \"192.0.2.2/24\"",
        "addresses = [\"192.0.2.2/24\", \"2001:db8::2/64\"]",
    ));
    assert!(ip("addr add 2001:db8::1/64 dev ws0 nodad"));
    assert!(until(TIMEOUT, || control.has("wan", "2001:db8::2/64")), "{}", world.log());
    for to in ["192.0.2.1", "2001:db8::1"] {
        let ping = || {
            let done = control
                .command("ping")
                .args(["-n", "-c", "3", "-i", "0.2", "-W", "1", to])
                .output();
            String::from_utf8_lossy(&done.expect("it starts").stdout).into_owned()
        };
        assert!(until(TIMEOUT, || ping().contains(" 0% packet loss")), "{to}: {}", ping());
    }
    // A service there, and a client there.
    for (ours, theirs) in [("192.0.2.2", "192.0.2.1"), ("2001:db8::2", "2001:db8::1")] {
        let listener =
            control.inside(|| TcpListener::bind((ours, 2222)).expect("the address is there"));
        let mut client = TcpStream::connect((ours, 2222)).expect("it is punted");
        let (mut served, _) = listener.accept().expect("a connection");
        passes(&mut client, &mut served);
        let listener = TcpListener::bind((theirs, 0)).expect("our address");
        let to = listener.local_addr().expect("bound");
        let mut client = control.inside(|| TcpStream::connect(to).expect("it leaves by the port"));
        let (mut served, from) = listener.accept().expect("a connection");
        assert_eq!(from.ip().to_string(), ours);
        passes(&mut served, &mut client);
    }
    // Nobody there: the programs' kernel refuses it.
    let refused = TcpStream::connect("192.0.2.2:2223").expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    // Datagrams both ways.
    let there = control.inside(|| UdpSocket::bind("192.0.2.2:5555").expect("the address is there"));
    let here = UdpSocket::bind("192.0.2.1:0").expect("our address");
    there.set_read_timeout(Some(TIMEOUT)).expect("a time");
    here.set_read_timeout(Some(TIMEOUT)).expect("a time");
    here.send_to(b"ask", "192.0.2.2:5555").expect("room");
    let mut room = [0; 16];
    let (len, from) = there.recv_from(&mut room).expect("it is punted");
    assert_eq!(&room[..len], b"ask");
    there.send_to(b"answer", from).expect("room");
    assert_eq!(here.recv(&mut room).expect("it leaves by the port"), 6);
    // Our own services stay ours.
    assert!(until(TIMEOUT, || crate::up::pings("192.0.2.2")));
    assert_eq!(world.end(Signal::TERM), 0);
}

/// A megabyte passes from one end to the other.
fn passes(from: &mut TcpStream, to: &mut TcpStream) {
    const BYTES: usize = 1 << 20;
    std::thread::scope(|scope| {
        scope.spawn(move || from.write_all(&vec![9; BYTES]).expect("the other end reads"));
        to.set_read_timeout(Some(TIMEOUT)).expect("a time");
        let mut room = vec![0; BYTES];
        to.read_exact(&mut room).expect("the other end writes");
        assert!(room.iter().all(|byte| *byte == 9));
    });
}

fn forged() {
    let control = Control::new(7);
    let world = World::new(&control.config(""));
    assert!(until(TIMEOUT, || control.has("wan", "192.0.2.2/24")), "{}", world.log());
    assert!(until(TIMEOUT, || asked("/metrics").contains("wirespeed_mirror_sent_frames_total")));
    // An address that no port has.
    control.ip("addr add 203.0.113.9/32 dev lo");
    let foreign =
        control.inside(|| UdpSocket::bind("203.0.113.9:0").expect("the address is there"));
    let own = control.inside(|| UdpSocket::bind("192.0.2.2:0").expect("the address is there"));
    let here = UdpSocket::bind("192.0.2.1:4444").expect("our address");
    here.set_read_timeout(Some(TIMEOUT)).expect("a time");
    let refused = || counted("mirror_drops_total{port=\"wan\",reason=\"refused\"}");
    let before = refused();
    for _ in 0..10 {
        foreign.send_to(b"forged", "192.0.2.1:4444").expect("room");
    }
    assert!(until(TIMEOUT, || refused() >= before + 10), "{}", world.show("drops"));
    own.send_to(b"own", "192.0.2.1:4444").expect("room");
    let mut room = [0; 16];
    let (len, from) = here.recv_from(&mut room).expect("it leaves by the port");
    assert_eq!((&room[..len], from.ip().to_string().as_str()), (&b"own"[..], "192.0.2.2"));

    // A program that floods: the router forwards meanwhile.
    let began = std::time::Instant::now();
    let mut flood = 0_u64;
    while began.elapsed() < Duration::from_millis(700) {
        flood += u64::from(own.send_to(&[0; 64], "192.0.2.1:9").is_ok());
    }
    assert!(until(TIMEOUT, || crate::up::pings("198.51.100.2")), "{}", world.log());
    let sent = counted("mirror_sent_frames_total{port=\"wan\"}");
    assert!(sent > 100 && sent < 100_000, "{sent} of {flood}");
    assert_eq!(world.end(Signal::TERM), 0);
}

/// The link address that this kernel has for an address after it has asked anew.
fn neighbour(ip: &str) -> Option<String> {
    let run = |words: &str| {
        let done = Command::new("ip").args(words.split(' ')).output().expect("it starts");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    run(&format!("neigh del {ip} dev ws0"));
    crate::up::pings(ip);
    let said = run(&format!("neigh show {ip} dev ws0"));
    said.split("lladdr ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned)
}

/// The link address of the router's port wan.
fn own_mac(control: &Control) -> String {
    let link = control.ip("link show dev wan");
    let mac = link.split("link/ether ").nth(1).and_then(|rest| rest.split(' ').next());
    mac.expect("an Ethernet interface").to_owned()
}

fn given() {
    let control = Control::new(8);
    let config = control.config("").replace(
        "addresses = \"192.0.2.2/24\"",
        "addresses = [\"192.0.2.2/24\", \"2001:db8::2/64\"]",
    );
    let world = World::new(&config);
    assert!(ip("addr add 2001:db8::1/64 dev ws0 nodad"));
    assert!(until(TIMEOUT, || control.has("wan", "2001:db8::2/64")), "{}", world.log());
    for (given, own) in [("192.0.2.77/24", "192.0.2.2"), ("2001:db8::77/64", "2001:db8::2")] {
        let address = given.split('/').next().expect("an address");
        assert!(!crate::up::pings(address));
        control.ip(&format!("addr add {given} dev wan"));
        assert!(until(TIMEOUT, || crate::up::pings(address)), "{}", world.log());
        assert_eq!(neighbour(address), Some(own_mac(&control)));
        let addresses = world.show_json("addresses");
        assert!(addresses.contains("\"origin\": \"program\""), "{addresses}");
        let (code, said) = world.local(&format!("show fib lookup {address}"));
        assert!(code == 0 && said.contains("of port wan, by a program"), "{said}");
        // A service of the control namespace has it, and the router's own packets do not.
        let listener =
            control.inside(|| TcpListener::bind((address, 2222)).expect("the address is there"));
        let mut client = TcpStream::connect((address, 2222)).expect("it is punted");
        let (mut served, _) = listener.accept().expect("a connection");
        passes(&mut client, &mut served);
        let (_, said) = world.local(&format!(
            "ip route get {}",
            if own.contains(':') { "2001:db8::1" } else { "192.0.2.1" }
        ));
        assert!(said.contains(&format!("src {own} ")), "{said}");
        control.ip(&format!("addr del {given} dev wan"));
        assert!(until(TIMEOUT, || !crate::up::pings(address)), "{}", world.log());
        assert_eq!(neighbour(address), None);
        assert!(crate::up::pings(own) && control.has("wan", own));
    }
    // A reload keeps it; without the mirror it goes.
    control.ip("addr add 192.0.2.77/24 dev wan");
    assert!(until(TIMEOUT, || crate::up::pings("192.0.2.77")));
    world.reload(&format!("{config}punt_rate = 7\n"), "router.toml: 0 changes took effect");
    assert!(crate::up::pings("192.0.2.77"));
    world.reload(&config.replace("\"all\"", "\"lan\""), "mirror wan: removed");
    assert!(until(TIMEOUT, || !crate::up::pings("192.0.2.77")), "{}", world.log());
    assert!(crate::up::pings("192.0.2.2"));
    assert_eq!(world.end(Signal::TERM), 0);
}

fn above() {
    const VIRTUAL: &str = "00:00:5e:00:01:33";
    let control = Control::new(9);
    let world = World::new(&control.config(""));
    assert!(until(TIMEOUT, || control.has("wan", "192.0.2.2/24")), "{}", world.log());
    control.ip(&format!("link add vrrp.51 link wan address {VIRTUAL} type macvlan mode private"));
    control.ip("addr add 192.0.2.77/32 dev vrrp.51");
    assert!(control.has("vrrp.51", "192.0.2.77/32"), "the kernel has no macvlan");
    // Down it does not count.
    std::thread::sleep(Duration::from_millis(200));
    assert!(!crate::up::pings("192.0.2.77"));
    control.ip("link set vrrp.51 up");
    assert!(until(TIMEOUT, || crate::up::pings("192.0.2.77")), "{}", world.log());
    assert_eq!(neighbour("192.0.2.77").as_deref(), Some(VIRTUAL));
    assert_eq!(neighbour("192.0.2.2"), Some(own_mac(&control)));
    // Packets to it are forwarded, and a service at that interface is reached.
    assert!(ip("route replace 198.51.100.0/24 via 192.0.2.77"));
    assert!(until(TIMEOUT, || crate::up::pings("198.51.100.2")), "{}", world.log());
    let listener =
        control.inside(|| TcpListener::bind("192.0.2.77:2222").expect("the address is there"));
    let mut client = TcpStream::connect("192.0.2.77:2222").expect("it is punted");
    let (mut served, _) = listener.accept().expect("a connection");
    passes(&mut client, &mut served);
    passes(&mut served, &mut client);
    control.ip("link set vrrp.51 down");
    assert!(until(TIMEOUT, || !crate::up::pings("192.0.2.77")), "{}", world.log());
    control.ip("link set vrrp.51 up");
    control.ip("addr add 192.0.2.77/32 dev vrrp.51");
    assert!(until(TIMEOUT, || crate::up::pings("192.0.2.77")), "{}", world.log());
    control.ip("link del vrrp.51");
    assert!(until(TIMEOUT, || !crate::up::pings("192.0.2.77")), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}

fn left() {
    let control = Control::new(10);
    let config = control.config("");
    let world = World::new(&config);
    assert!(until(TIMEOUT, || control.has("wan", "192.0.2.2/24")), "{}", world.log());
    let pid = Pid::from_raw(world.worker() as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
    world.says("the worker was ended by signal 9");
    drop(world);
    // The port has another address now; the mirror still has the old one.
    let world = World::new(&config.replace("192.0.2.2/24", "192.0.2.3/24"));
    assert!(until(TIMEOUT, || control.has("wan", "192.0.2.3/24")), "{}", world.log());
    assert!(control.has("wan", "192.0.2.2/24"));
    std::thread::sleep(Duration::from_millis(200));
    assert!(crate::up::pings("192.0.2.3") && !crate::up::pings("192.0.2.2"));
    // A program removes it and gives it again.
    control.ip("addr del 192.0.2.2/24 dev wan");
    std::thread::sleep(Duration::from_millis(200));
    control.ip("addr add 192.0.2.2/24 dev wan");
    assert!(until(TIMEOUT, || crate::up::pings("192.0.2.2")), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}
