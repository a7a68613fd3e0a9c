//! VRFs of a router between hosts in namespaces, and then the kernel as the router between the same
//! hosts, with a rule by the incoming interface and a table for each VRF: each host reaches the
//! same hosts. (This kernel need not have VRF devices.)

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Namespace, Need, ip, until};

use crate::up::{TIMEOUT, World};

pub(crate) const CASES: &[Case] =
    &[("vrfs_lead_where_tables_of_the_kernel_do", &[Need::PING], reach)];

/// Hosts: two in VRF blue, two in red, one in none, by the third byte of their network. Behind the
/// second of each VRF is [`FAR`], the same address in both.
const HOSTS: [(&str, u8); 5] = [("blan", 1), ("bup", 2), ("rlan", 3), ("rup", 4), ("main", 5)];
const FAR: &str = "10.77.0.9";
/// The hop limits of both far hosts tell them apart.
const FAR_HOPS: [(usize, u8); 2] = [(1, 100), (3, 150)];

const ROUTES: &str = r#"
[[vrf]]
name = "blue"
table = 10
ports = ["blan", "bup"]
[[vrf]]
name = "red"
table = 20
ports = ["rlan", "rup"]
[[route]]
to = "10.77.0.0/16"
via = "10.0.2.9"
[[route]]
to = "10.77.0.0/16"
via = "10.0.4.9"
vrf = "red"
# Between blue and the main table, both ways.
[[route]]
to = "10.0.1.0/24"
port = "blan"
table = "main"
[[route]]
to = "10.0.5.0/24"
port = "main"
vrf = "blue"
"#;

/// The same for the kernel.
const KERNEL: [&str; 17] = [
    "rule add iif v0 table 10 priority 1000",
    "rule add iif v1 table 10 priority 1000",
    "rule add iif v2 table 20 priority 1000",
    "rule add iif v3 table 20 priority 1000",
    "route add 10.0.1.0/24 dev v0 table 10",
    "route add 10.0.2.0/24 dev v1 table 10",
    "route add 10.77.0.0/16 via 10.0.2.9 table 10",
    "route add 10.0.5.0/24 dev v4 table 10",
    "route add unreachable default table 10",
    "route add 10.0.3.0/24 dev v2 table 20",
    "route add 10.0.4.0/24 dev v3 table 20",
    "route add 10.77.0.0/16 via 10.0.4.9 table 20",
    "route add unreachable default table 20",
    // What is left of the main table: the network of its port, and the leak.
    "route del 10.0.2.0/24 dev v1",
    "route del 10.0.3.0/24 dev v2",
    "route del 10.0.4.0/24 dev v3",
    "rule show",
];

fn config() -> String {
    let ports = HOSTS.iter().enumerate().map(|(n, (name, net))| {
        let of = format!("[[port]]\nname = \"{name}\"\ndevice = \"packet:v{n}\"\n");
        of + &format!("addresses = \"10.0.{net}.1/24\"\n")
    });
    ports.collect::<String>() + ROUTES
}

/// Hosts with an interface each; the other ends are here, with the names of the file.
fn hosts() -> Vec<Namespace> {
    let made = HOSTS.iter().enumerate().map(|(n, (_, net))| {
        let host = Namespace::new().expect("root may");
        assert!(ip(&format!("link add v{n} type veth peer name h{n}")));
        assert!(ip(&format!("link set h{n} netns {}", host.name())));
        assert!(ip(&format!("link set v{n} up")));
        for words in ["link set lo up".to_owned(), format!("addr add 10.0.{net}.9/24 dev h{n}")] {
            assert!(host.ip(&words), "{words}");
        }
        assert!(host.ip(&format!("link set h{n} up")));
        assert!(host.ip(&format!("route add default via 10.0.{net}.1")));
        if let Some((_, hops)) = FAR_HOPS.iter().find(|(of, _)| *of == n) {
            assert!(host.ip(&format!("addr add {FAR}/32 dev lo")));
            let set = || std::fs::write("/proc/sys/net/ipv4/ip_default_ttl", hops.to_string());
            host.inside(set).expect("no panic").expect("root may");
        }
        host
    });
    made.collect()
}

/// The hop limit of the answer to a ping, if there is one.
fn answer(host: &Namespace, to: &str) -> Option<String> {
    let words = ["-n", "-c", "2", "-i", "0.2", "-W", "1", to];
    let done = host.command("ping").args(words).output().expect("it starts");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let (_, rest) = text.split_once(" ttl=")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// For each host, what answers when it pings the far address and each other host.
fn reached(hosts: &[Namespace]) -> Vec<(String, Option<String>)> {
    let pings = |(from, host): (usize, &Namespace)| {
        let others = HOSTS.iter().map(|(_, net)| format!("10.0.{net}.9"));
        let all = others.chain([FAR.to_owned(), "203.0.113.1".to_owned()]);
        all.map(|to| (format!("{} to {to}", HOSTS[from].0), answer(host, &to))).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let all: Vec<_> =
            hosts.iter().enumerate().map(|of| scope.spawn(move || pings(of))).collect();
        all.into_iter().flat_map(|one| one.join().expect("no panic")).collect()
    })
}

fn reach() {
    let hosts = hosts();
    let world = World::started(&config());
    let is_up = || answer(&hosts[0], FAR).is_some();
    assert!(until(TIMEOUT, is_up), "{}\n{}", world.log(), world.show("drops"));
    let ours = reached(&hosts);
    shown(&world);
    assert_eq!(world.end(Signal::TERM), 0);

    let kernel = Namespace::new().expect("root may");
    let zero = || {
        for name in ["rp_filter", "send_redirects"] {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/all/{name}"), "0")?;
            std::fs::write(format!("/proc/sys/net/ipv4/conf/default/{name}"), "0")?;
        }
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")
    };
    kernel.inside(zero).expect("no panic").expect("root may");
    for (n, (_, net)) in HOSTS.iter().enumerate() {
        assert!(ip(&format!("link set v{n} netns {}", kernel.name())));
        assert!(kernel.ip(&format!("addr add 10.0.{net}.1/24 dev v{n}")));
        assert!(kernel.ip(&format!("link set v{n} up")));
    }
    for words in KERNEL {
        assert!(kernel.ip(words), "{words}");
    }
    for host in &hosts {
        assert!(host.ip("neigh flush all"));
    }
    assert!(until(TIMEOUT, || answer(&hosts[0], FAR).is_some()));
    let theirs = reached(&hosts);
    assert_eq!(ours, theirs);
    let of =
        |what: &str| ours.iter().find(|(name, _)| name == what).expect("it is there").1.clone();
    assert_eq!(of("blan to 10.77.0.9").as_deref(), Some("99"));
    assert_eq!(of("rlan to 10.77.0.9").as_deref(), Some("149"));
    assert_eq!(of("main to 10.77.0.9"), None);
    assert_eq!(of("main to 10.0.1.9").as_deref(), Some("63"));
    assert_eq!(of("rlan to 10.0.1.9"), None);
    let answered = ours.iter().filter(|(_, hops)| hops.is_some()).count();
    println!("  {} pings, {answered} answered, as the kernel's", ours.len());
}

fn ip_of(world: &World, words: &str) -> String {
    world.local(&format!("ip --pid {} {words}", world.worker())).1
}

fn show(world: &World, words: &str) -> String {
    world.local(&format!("show --pid {} {words}", world.worker())).1
}

/// What the tools show of VRFs.
fn shown(world: &World) {
    let names = ip_of(world, "vrf show");
    assert_eq!(
        names,
        "Name              Table\n-----------------------\n".to_owned()
            + "blue                 10\nred                  20\n"
    );
    let rows: Value = serde_json::from_str(&ip_of(world, "-j vrf")).expect("JSON");
    assert_eq!(rows[1], serde_json::json!({ "name": "red", "table": 20 }));
    assert_eq!(ip_of(world, "route show vrf red"), ip_of(world, "route show table 20"));
    let red = ip_of(world, "route show vrf red");
    assert!(red.contains("10.77.0.0/16 via 10.0.4.9") && !red.contains("10.0.5.0"), "{red}");
    assert!(red.contains("10.0.3.0/24 dev rlan proto kernel scope link src 10.0.3.1"), "{red}");
    let blue = show(world, "routes vrf blue");
    assert!(blue.contains("10.0.5.0/24") && !blue.contains("10.0.4.9"), "{blue}");
    for (words, dev) in [("vrf blue", "bup"), ("in port rlan", "rup"), ("in blan", "bup")] {
        let found = show(world, &format!("fib lookup {FAR} {words}"));
        assert!(found.contains(&format!("leaves by port {dev}")), "{words}: {found}");
    }
    let found = ip_of(world, &format!("route get {FAR} vrf red"));
    assert!(found.contains("via 10.0.4.9 dev rup table 20 src 10.0.4.1"), "{found}");
    let outside = show(world, &format!("fib lookup {FAR}"));
    assert!(outside.contains("is dropped: ip_no_route"), "{outside}");
    assert!(world.show("ports").contains("rlan"));
}
