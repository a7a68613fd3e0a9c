//! `wirespeed up` over each kind of device, with addresses that come by themselves, and what it
//! does if no device can be opened.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::{Case, Namespace, Need, Running, ip, until};
use wirespeed::control::{Client, path};

use crate::up::{CONFIG, TIMEOUT, World, pings};

pub(crate) const CASES: &[Case] = &[
    ("up_ends_if_no_port_can_be_opened", &[], without_ports),
    ("up_without_the_privilege_ends_and_names_it", &[Need::SETPRIV], without_privilege),
    ("up_of_a_user_runs_over_a_tap_of_his_own", &[Need::PING], own_tap),
    ("up_has_an_address_by_dhcp_and_one_by_slaac", &[Need::DNSMASQ, Need::RADVD], by_itself),
    ("up_has_an_address_by_dhcpv6_where_routers_say_so", &[Need::DNSMASQ], managed),
    ("up_forwards_over_packet_sockets", &[Need::PING], packet),
    ("up_forwards_over_tuns", &[Need::PING], tun),
    ("up_notices_links_when_the_kernel_says_so", &[], links),
    ("up_shares_packets_among_routes_to_one_network", &[], ecmp),
];

pub(crate) fn port(name: &str, device: &str, addresses: &str) -> String {
    format!("[[port]]\nname = \"{name}\"\ndevice = \"{device}\"\naddresses = {addresses}\n")
}

/// At the start the router ends; when a configuration is read again, the running router goes on.
fn without_ports() {
    let absent = port("wan", "packet:nosuch", "\"192.0.2.2/24\"");
    let (code, log) = World::fails(&absent, "");
    assert_eq!(code, 1, "{log}");
    let lines: Vec<&str> = log.lines().collect();
    let [first, second] = lines.as_slice() else { panic!("{log}") };
    assert!(first.starts_with("port wan: no interface 'nosuch' in this network"), "{log}");
    assert!(second.starts_with("no port could be opened: do what"), "{log}");
    let world = World::new(CONFIG);
    world.reload(&absent, "changes took effect, 1 failed");
    assert!(world.log().contains("port lan: removed"), "{}", world.log());
    world.reload(CONFIG, "changes took effect, 0 failed");
    assert_eq!(world.end(Signal::TERM), 0);
}

fn without_privilege() {
    let (code, log) = World::fails(CONFIG, "setpriv --bounding-set=-net_admin,-net_raw");
    assert_eq!(code, 1, "{log}");
    assert!(log.contains("no port could be opened") && log.contains("cap_net_admin"), "{log}");
}

/// A TAP that was made for a user, and is up, needs no privilege; one that is down is reported.
fn own_tap() {
    const USER: u32 = 65_534;
    assert!(ip(&format!("tuntap add dev ws0 mode tap user {USER}")));
    assert!(ip("addr add 192.0.2.1/24 dev ws0"));
    let directory = std::env::temp_dir().join(format!("up-own-tap-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("room");
    let path = |name: &str| directory.join(name);
    // The user may not enter the directory that the program was built in.
    std::fs::copy(env!("CARGO_BIN_EXE_wirespeed"), path("wirespeed")).expect("room");
    let config = port("wan", "tap:ws0", "\"192.0.2.2/24\"");
    std::fs::write(path("router.toml"), config).expect("room");
    let log = std::fs::File::create(path("log")).expect("room");
    // Not every machine lets users open the device, as Debian's rules do.
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec"]).arg(format!(
        "mount -t tmpfs tmpfs /mnt; mknod /mnt/tun c 10 200; chmod 666 /mnt/tun
         mount --bind /mnt/tun /dev/net/tun
         exec setpriv --reuid={USER} --regid={USER} --clear-groups {} up {}",
        path("wirespeed").display(),
        path("router.toml").display(),
    ));
    command.env("WIRESPEED_RUNTIME_DIR", path("run")).stdout(Stdio::null()).stderr(log);
    let is_refused = !command.status().expect("it starts").success();
    assert!(ip("link set ws0 up"));
    let router = Running(command.spawn().expect("it starts"));
    let is_there = until(TIMEOUT, || pings("192.0.2.2"));
    let said = std::fs::read_to_string(path("log")).expect("a log");
    drop(router);
    std::fs::remove_dir_all(&directory).expect("it is ours");
    assert!(
        is_refused && said.contains("is down. Bring it up: `sudo ip link set ws0 up`"),
        "{said}"
    );
    assert!(is_there && said.contains("port wan: added"), "{said}");
}

fn by_itself() {
    let config = port("wan", "tap:ws0", "[\"dhcp\", \"auto\"]")
        + &port("lan", "tap:ws1", "\"198.51.100.1/24\"");
    let world = World::new(&config);
    assert!(ip("addr add fe80::1/64 dev ws0 nodad"));
    std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").expect("root may");
    let mut dnsmasq = Command::new("dnsmasq");
    dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root"]);
    dnsmasq.args(["--pid-file=", "--interface=ws0", "--bind-interfaces", "--no-ping"]);
    dnsmasq.args(["--leasefile-ro", "--dhcp-authoritative", "--log-facility=-"]);
    dnsmasq.arg("--dhcp-range=192.0.2.50,192.0.2.59,255.255.255.0,10m");
    let _dnsmasq = Running(dnsmasq.stderr(Stdio::null()).spawn().expect("dnsmasq starts"));
    let file = world.path("radvd.conf");
    let text = "interface ws0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4;
                prefix 2001:db8::/64 { }; };";
    std::fs::write(&file, text).expect("room");
    let mut radvd = Command::new("radvd");
    radvd.args(["--nodaemon", "--logmethod", "stderr", "--config"]).arg(file);
    radvd.arg("--pidfile").arg(world.path("radvd.pid")).stderr(Stdio::null());
    let _radvd = Running(radvd.spawn().expect("radvd starts"));
    world.says("/24 by DHCP from 192.0.2.1");
    let routes = || world.show("routes");
    let has = |text: &str, words: [&str; 2]| {
        text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(until(TIMEOUT, || has(&routes(), ["0.0.0.0/0", "dhcp"])), "{}", routes());
    assert!(until(TIMEOUT, || has(&routes(), ["::/0", "fe80::1"])), "{}", routes());
    let addresses = || world.show("addr");
    assert!(until(TIMEOUT, || addresses().contains("2001:db8::")), "{}", addresses());
    assert!(addresses().contains("192.0.2.5"), "{}", addresses());
    // The addresses go when the file no longer asks for them.
    let fixed = CONFIG.replace("[metrics]\nlisten = \"127.0.0.1:9464\"\n", "");
    world.reload(&fixed, "changes took effect, 0 failed");
    let addresses = addresses();
    assert!(!addresses.contains("192.0.2.5") && !addresses.contains("2001:db8::"), "{addresses}");
    assert_eq!(world.end(Signal::TERM), 0);
}

/// dnsmasq is router and server; the address is released when the file no longer asks for it.
fn managed() {
    let config = port("wan", "tap:ws0", "\"auto\"") + &port("lan", "tap:ws1", "\"10.1.0.1/24\"");
    let world = World::new(&config);
    assert!(ip("addr add fe80::1/64 dev ws0 nodad"));
    assert!(ip("addr add 2001:db8:6::1/64 dev ws0 nodad"));
    let log = world.path("dnsmasq.log");
    let mut dnsmasq = Command::new("dnsmasq");
    dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root"]);
    dnsmasq.args(["--pid-file=", "--interface=ws0", "--bind-interfaces", "--enable-ra"]);
    dnsmasq.args(["--leasefile-ro", "--dhcp-authoritative", "--log-dhcp"]);
    dnsmasq.arg("--dhcp-range=2001:db8:6::100,2001:db8:6::1ff,64,10m");
    dnsmasq.arg("--log-facility").arg(&log);
    let _dnsmasq = Running(dnsmasq.stderr(Stdio::null()).spawn().expect("dnsmasq starts"));
    world.says("port wan: 2001:db8:6::1");
    world.says("/128 by DHCPv6");
    let addresses = || world.show("addr");
    assert!(until(TIMEOUT, || addresses().contains("2001:db8:6::1")), "{}", addresses());
    let fixed = CONFIG.replace("[metrics]\nlisten = \"127.0.0.1:9464\"\n", "");
    world.reload(&fixed, "changes took effect, 0 failed");
    assert!(!addresses().contains("2001:db8:6::1"), "{}", addresses());
    let heard = || std::fs::read_to_string(&log).unwrap_or_default();
    assert!(until(TIMEOUT, || heard().contains("DHCPRELEASE(ws0)")), "{}", heard());
    assert_eq!(world.end(Signal::TERM), 0);
}

/// The router's end of a pair is `r` and the number; the other end is the host's, which has `.2`.
pub(crate) fn veth(number: u8, host: &Namespace) {
    veth_of_queues(number, host, 1);
}

/// The same with this many queues at both ends.
pub(crate) fn veth_of_queues(number: u8, host: &Namespace, count: u8) {
    let (ours, theirs) = (format!("r{number}"), format!("h{number}"));
    let queues = format!("numrxqueues {count} numtxqueues {count}");
    assert!(ip(&format!("link add {ours} {queues} type veth peer name {theirs} {queues}")));
    // The router's end has no address of the kernel's.
    std::fs::write(format!("/proc/sys/net/ipv6/conf/{ours}/disable_ipv6"), "1").expect("root may");
    assert!(ip(&format!("link set {ours} up")));
    assert!(ip(&format!("link set {theirs} netns {}", host.name())));
    assert!(
        host.ip("link set lo up") && host.ip(&format!("addr add 10.{number}.0.2/24 dev {theirs}"))
    );
    assert!(host.ip(&format!("link set {theirs} up")));
    assert!(host.ip(&format!("route add default via 10.{number}.0.1")));
}

pub(crate) fn hosts_ping(from: &Namespace, to: &str) -> bool {
    from.inside(|| pings(to)).is_ok_and(|is_answered| is_answered)
}

fn packet() {
    let hosts = [Namespace::new().expect("root may"), Namespace::new().expect("root may")];
    veth(1, &hosts[0]);
    veth(2, &hosts[1]);
    let config =
        port("one", "packet:r1", "\"10.1.0.1/24\"") + &port("two", "packet:r2", "\"10.2.0.1/24\"");
    let world = World::started(&config);
    let is_through = || hosts_ping(&hosts[0], "10.2.0.2");
    assert!(until(TIMEOUT, is_through), "{}", world.log());
    // The socket is opened anew for a VLAN, and forwards as before.
    let vlan = "[[port]]\nname = \"v\"\nparent = \"one\"\nvlan = 7\naddresses = \"10.7.0.1/24\"\n";
    world.reload(&format!("{config}{vlan}"), "3 changes took effect, 0 failed");
    assert!(until(TIMEOUT, is_through), "{}", world.log());
    // The worker cannot follow an interface that is deleted and made again: it gets new sockets.
    assert!(ip("link delete dev r1"));
    world.says("interface 'r1' is not there any more");
    veth(1, &hosts[0]);
    world.says("port one: its interface was recreated");
    assert!(until(TIMEOUT, is_through), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}

fn tun() {
    let config =
        port("wan", "tun:ws0", "\"192.0.2.2/24\"") + &port("lan", "tun:ws1", "\"198.51.100.1/24\"");
    let world = World::new(&config);
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}

fn ecmp() {
    let route = |via: &str| format!("[[route]]\nto = \"10.9.0.0/16\"\nvia = \"{via}\"\n");
    let one = format!("{CONFIG}{}", route("192.0.2.1"));
    let two = format!("{one}{}", route("198.51.100.2"));
    let world = World::new(&two);
    let count = |text: &str| text.lines().filter(|line| line.contains("10.9.0.0/16")).count();
    assert_eq!(count(&world.show("routes")), 2, "{}", world.log());
    world.reload(&one, "2 changes took effect, 0 failed");
    world.says("route to 10.9.0.0/16 by port lan via 198.51.100.2: removed");
    let routes = world.show("routes");
    assert!(count(&routes) == 1 && routes.contains("192.0.2.1"), "{routes}");
    assert_eq!(world.end(Signal::TERM), 0);
}

/// A router that looked at links four times a second would be too late half the time. One TAP is in
/// its own namespace, the other was moved to that of a host.
fn links() {
    const SOON: Duration = Duration::from_millis(100);
    let world = World::new(CONFIG);
    let directory = path::directory(Some(world.path("run").as_os_str()), 0);
    let socket = path::socket(&directory, world.worker());
    let mut client = Client::connect(&socket, TIMEOUT).expect("it answers");
    let question = json!({ "section": { "stack": 0, "section": "counters", "cursor": 0 } });
    let mut changes = || {
        let answer: Value = client.request(&question).expect("an answer");
        answer["body"]["link_changes"].as_u64().expect("a count")
    };
    // Moving a TAP took its link down, and it came up again.
    let mut seen = changes();
    while until(Duration::from_millis(300), || changes() != seen) {
        seen = changes();
    }
    for round in 0..6 {
        for to in ["down", "up"] {
            for (device, host) in [("ws0", None), ("ws1", Some(&world.behind))] {
                let before = changes();
                let words = format!("link set {device} {to}");
                assert!(host.map_or_else(|| ip(&words), |host| host.ip(&words)));
                let changed = Instant::now();
                while changes() == before && changed.elapsed() < TIMEOUT {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let took = changed.elapsed();
                assert!(took < SOON, "{device} {to}, round {round}: noticed after {took:?}");
            }
        }
    }
    // Changes of links are lines of the log, too.
    assert!(ip("link set ws0 down"));
    assert!(until(TIMEOUT, || world.log().matches("port wan: down: ").count() >= 1));
    let ups = || world.log().matches("port wan: up").count();
    let before = ups();
    std::thread::sleep(Duration::from_secs(1));
    assert!(ip("link set ws0 up"));
    assert!(until(TIMEOUT, || ups() > before), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}
