//! `wirespeed ip` and `show fib` beside ip(8) and the kernel, which has the same ports, addresses
//! and routes in another namespace: the same answers, with the same keys.

use std::collections::BTreeSet;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Namespace, until};

use crate::up::{TIMEOUT, World};

pub(crate) const CASES: &[Case] = &[
    ("route_get_answers_as_the_kernel_does", &[], lookups),
    ("ip_has_the_keys_of_ip", &[], keys),
    ("show_fib_says_what_packets_take", &[], show),
];

const CONFIG: &str = r#"
[[port]]
name = "wan"
device = "tap:ws0"
addresses = ["192.0.2.2/24", "2001:db8:1::2/64"]
[[port]]
name = "lan"
device = "tap:ws1"
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]
"#;

/// Changes that both get.
const CHANGES: &[&str] = &[
    "route add default via 192.0.2.9 proto static",
    "route add 10.0.0.0/8 via 192.0.2.1 proto static",
    "route add 10.1.0.0/16 via 198.51.100.9 proto static metric 5 mtu 1400",
    "route add 10.1.0.0/16 via 192.0.2.1 proto static metric 6",
    "route add 11.0.0.0/8 proto static nexthop via 192.0.2.1 weight 2 nexthop via 198.51.100.9",
    "route add 2001:db8:9::/48 via 2001:db8:1::1 proto static metric 7 mtu 1400",
    "route add 10.77.0.0/16 via inet6 fe80::5 dev wan proto static",
    "route add 12.0.0.0/8 proto static nexthop via inet6 fe80::5 dev wan nexthop via 198.51.100.9",
    "neigh replace 192.0.2.1 lladdr 02:00:00:00:00:01 dev wan",
    "neigh replace 2001:db8:1::1 lladdr 02:00:00:00:00:02 dev wan",
];

/// A router, and the kernel with the same configuration.
struct Both {
    world: World,
    kernel: Namespace,
}

impl Both {
    fn new() -> Both {
        let world = World::new(CONFIG);
        let kernel = Namespace::new().expect("root may");
        for name in ["wan", "lan"] {
            assert!(kernel.ip(&format!("link add {name} type veth peer name {name}-peer")));
            assert!(kernel.ip(&format!("link set {name} up")));
            assert!(kernel.ip(&format!("link set {name}-peer up")));
        }
        for (address, port) in [
            ("192.0.2.2/24", "wan"),
            ("198.51.100.1/24", "lan"),
            ("2001:db8:1::2/64", "wan"),
            ("2001:db8:2::1/64", "lan"),
        ] {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            assert!(kernel.ip(&format!("addr add {address} dev {port}{nodad}")), "{address}");
        }
        let forward = || {
            for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{path}"), "1").expect("root may");
            }
        };
        kernel.inside(forward).expect("no panic");
        let both = Both { world, kernel };
        for change in CHANGES {
            assert!(both.kernel.ip(change), "the kernel: {change}");
            both.ours(&["ip"], change).unwrap_or_else(|why| panic!("{change}: {why:?}"));
        }
        let has_all = || {
            let rows = both.json_of_ours("-6 addr");
            rows.iter().all(|row| row["addr_info"][0]["tentative"] != true)
        };
        assert!(until(TIMEOUT, has_all), "duplicate address detection ends");
        both
    }

    /// The output of `wirespeed TOOL ... WORDS`, or its exit code and message.
    fn ours(&self, tool: &[&str], words: &str) -> Result<String, (Option<i32>, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        let pid = self.world.worker().to_string();
        command.args(&tool[..1]).args(["--pid", &pid]).args(&tool[1..]).args(words.split(' '));
        said(command.env("WIRESPEED_RUNTIME_DIR", self.world.path("run")))
    }

    /// The same of ip(8).
    fn kernels(&self, words: &str) -> Result<String, (Option<i32>, String)> {
        said(Command::new("ip").args(["-n", self.kernel.name()]).args(words.split(' ')))
    }

    fn json_of_ours(&self, words: &str) -> Vec<Value> {
        rows(self.ours(&["ip", "-j"], words), words)
    }

    fn json_of_kernels(&self, words: &str) -> Vec<Value> {
        rows(self.kernels(&format!("-j {words}")), words)
    }
}

fn said(command: &mut Command) -> Result<String, (Option<i32>, String)> {
    let output = command.output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err((output.status.code(), text(&output.stderr))),
    }
}

fn rows(said: Result<String, (Option<i32>, String)>, words: &str) -> Vec<Value> {
    let text = said.unwrap_or_else(|why| panic!("{words}: {why:?}"));
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{words}: {why}: {text}"))
}

fn lookups() {
    let both = Both::new();
    for words in [
        "10.0.0.1",
        "10.1.2.3",
        "192.0.2.77",
        "198.51.100.77",
        "203.0.113.5",
        "192.0.2.255",
        "10.0.0.1 from 192.0.2.2",
        "10.0.0.1 mark 0x10",
        "10.0.0.1 uid 1000",
        "10.1.2.3 from 192.0.2.77 iif wan",
        "10.77.0.1",
        "10.77.0.1 from 198.51.100.77 iif lan",
        "2001:db8:9::5",
        "2001:db8:9::5 from 2001:db8:1::2",
        "2001:db8:9::5 from 2001:db8:2::77 iif lan",
        "2001:db8:9::5 mark 5",
    ] {
        let words = format!("route get {words}");
        assert_eq!(both.json_of_ours(&words), both.json_of_kernels(&words), "{words}");
        // Lines may end with a space.
        let lines =
            |text: String| text.lines().map(|l| l.trim_end().to_owned()).collect::<Vec<_>>();
        let (ours, kernels) = (both.ours(&["ip"], &words), both.kernels(&words));
        assert_eq!(ours.map(lines), kernels.map(lines), "{words}");
    }
    // The kernel answers with lo for its own addresses, and with a metric for addresses on a link.
    for words in
        ["192.0.2.2", "2001:db8:1::2", "2001:db8:1::77", "192.0.2.2 from 198.51.100.7 iif lan"]
    {
        let words = format!("route get {words}");
        let (mut ours, mut kernels) = (both.json_of_ours(&words), both.json_of_kernels(&words));
        for rows in [&mut ours, &mut kernels] {
            rows[0]["dev"] = Value::Null;
            if rows[0]["metric"].is_number() {
                rows[0]["metric"] = Value::Null;
            }
        }
        assert_eq!(ours, kernels, "{words}");
    }
    // Ours and the kernel's choose among the members of a group by different hashes.
    let gateways = ["192.0.2.1", "198.51.100.9"];
    for rows in
        [both.json_of_ours("route get 11.0.0.1"), both.json_of_kernels("route get 11.0.0.1")]
    {
        assert!(gateways.iter().any(|gateway| rows[0]["gateway"] == *gateway), "{rows:?}");
    }
    for words in ["route get 2001:db8:7::1", "route get 2001:db8:7::1 from 2001:db8:1::2"] {
        for refused in [both.ours(&["ip"], words), both.kernels(words)] {
            let (code, why) = refused.expect_err(words);
            assert_eq!(code, Some(2), "{why}");
            assert!(why.contains("Network is unreachable"), "{why}");
        }
    }
    let (code, why) = both.ours(&["ip"], "route get 10.0.0.1 oif lan").expect_err("no such choice");
    assert!(code == Some(1) && why.contains("by the routes"), "{code:?} {why}");
    assert_eq!(both.world.end(Signal::TERM), 0);
}

/// Keys that only the kernel's interfaces have: a transmit queue, and a veth's other end.
const KERNELS_OWN: [&str; 3] = ["txqlen", "link", "link_index"];

/// Rows of both with the same value of `by` have the same keys; how many there are.
fn same_keys(ours: &[Value], kernels: &[Value], by: &str, what: &str) -> usize {
    let keys = |row: &Value| -> BTreeSet<String> {
        let keys = row.as_object().into_iter().flat_map(|row| row.keys().cloned());
        keys.filter(|key| !KERNELS_OWN.contains(&key.as_str())).collect()
    };
    let mut count = 0;
    for row in ours {
        let Some(other) = kernels.iter().find(|other| other[by] == row[by]) else { continue };
        assert_eq!(keys(row), keys(other), "{what}: {row} {other}");
        for list in ["nexthops", "addr_info"] {
            let of = |row: &Value| row[list].as_array().cloned().unwrap_or_default();
            let by = if list == "nexthops" { "gateway" } else { "local" };
            let inner = same_keys(&of(row), &of(other), by, what);
            assert!(list != "nexthops" || inner == of(other).len(), "{what}: {row} {other}");
        }
        count += 1;
    }
    count
}

fn keys() {
    let both = Both::new();
    for (words, by, least) in [
        ("link", "ifname", 2),
        ("link show dev wan", "ifname", 1),
        ("addr", "ifname", 2),
        ("-4 addr", "ifname", 2),
        ("-6 addr show dev lan", "ifname", 1),
        ("addr show to 192.0.2.0/24", "ifname", 1),
        ("route", "dst", 8),
        ("-4 route show table main", "dst", 8),
        ("-6 route", "dst", 3),
        ("route show dev wan", "dst", 3),
        ("route show via 192.0.2.1", "dst", 1),
        ("route show via inet6 fe80::5", "dst", 1),
        ("route show 10.77.0.0/16", "dst", 1),
        ("route show proto kernel", "dst", 2),
        ("route show root 10.0.0.0/7", "dst", 2),
        ("neigh", "dst", 2),
        ("neigh show dev wan", "dst", 2),
        ("-4 neigh show nud permanent", "dst", 1),
    ] {
        let (mut ours, mut kernels) = (both.json_of_ours(words), both.json_of_kernels(words));
        // The kernel also reports that an address was added with `nodad`.
        let infos = kernels.iter_mut().filter_map(|row| row.get_mut("addr_info")?.as_array_mut());
        for info in infos.flatten().filter_map(Value::as_object_mut) {
            info.remove("nodad");
        }
        // One row of each value: there are two routes to 10.1.0.0/16.
        let mut seen = BTreeSet::new();
        ours.retain(|row| seen.insert(row[by].to_string()));
        let count = same_keys(&ours, &kernels, by, words);
        assert!(count >= least, "{words}: {count} in common: {ours:?} {kernels:?}");
    }
    assert_eq!(both.world.end(Signal::TERM), 0);
}

fn show() {
    let both = Both::new();
    let document = |words: &str| -> Value {
        let text =
            both.ours(&["show", "--json"], words).unwrap_or_else(|w| panic!("{words}: {w:?}"));
        serde_json::from_str(&text).expect("a document")
    };
    // For each prefix the routes of the lowest metric, as the kernel takes them.
    let fib = &document("fib")["stacks"][0]["fib"];
    let of = |to: &str| -> Vec<&Value> {
        fib.as_array().into_iter().flatten().filter(|row| row["destination"] == to).collect()
    };
    assert_eq!((of("10.1.0.0/16").len(), of("11.0.0.0/8").len()), (1, 2), "{fib}");
    let row = of("10.1.0.0/16")[0];
    assert_eq!((&row["via"], &row["dev"]), (&"198.51.100.9".into(), &"lan".into()));
    let text = both.ours(&["show"], "fib").expect("a table");
    let line = text.lines().find(|line| line.contains("10.1.0.0/16")).expect("a line");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells, ["10.1.0.0/16", "198.51.100.9", "lan", "-", "1400", "5", "static", "254"]);

    let found = &document("fib lookup 10.0.0.1")["stacks"][0]["lookup"];
    let kernels = &both.json_of_kernels("route get 10.0.0.1")[0];
    assert_eq!((&found["next_hop"], &found["dev"]), (&kernels["gateway"], &kernels["dev"]));
    assert_eq!((&found["source"], &found["table"]), (&kernels["prefsrc"], &254.into()));
    assert_eq!((&found["neighbour"], &found["mtu"]), (&"PERMANENT".into(), &1500.into()));
    let found = &document("fib lookup 10.1.2.3 from 192.0.2.77 iif wan")["stacks"][0]["lookup"];
    assert_eq!((&found["mtu"], &found["route"]["metric"]), (&1400.into(), &5.into()), "{found}");
    let none = || document("fib lookup 10.0.0.1")["stacks"][0]["lookup"].get("rule").cloned();
    assert_eq!(none(), None, "no rule selects the table");
    both.ours(&["ip"], "rule add pref 90 to 10.0.0.0/16 table main").expect("a rule");
    let found = &document("fib lookup 10.0.0.1")["stacks"][0]["lookup"];
    assert_eq!((&found["rule"]["priority"], &found["table"]), (&90.into(), &254.into()), "{found}");
    let text = both.ours(&["show"], "fib lookup 10.0.0.1").expect("an answer");
    assert!(text.contains("\n    rule       90: from all to 10.0.0.0/16 lookup main\n"), "{text}");
    both.ours(&["ip"], "rule del pref 90").expect("it is there");
    assert_eq!(none(), None);
    let hops = &document("fib lookup 11.0.0.1")["stacks"][0]["lookup"]["next_hops"];
    assert_eq!(hops.as_array().map(Vec::len), Some(2), "{hops}");

    for (words, says) in [
        ("10.0.0.1", &["leaves by port wan to 192.0.2.1", "10.0.0.0/8 table 254", "PERMANENT"][..]),
        ("11.0.0.1", &["via 192.0.2.1 dev wan weight 2", "via 198.51.100.9 dev lan weight 1"]),
        ("192.0.2.2", &["is an address of port wan"]),
        ("192.0.2.255", &["a broadcast", "on the link dev wan"]),
        ("2001:db8:7::1", &["is dropped: ip_no_route", "wirespeed ip route"]),
        ("fe80::1 oif lan", &["leaves by port lan", "of one link"]),
    ] {
        let text = both.ours(&["show"], &format!("fib lookup {words}")).expect("an answer");
        says.iter().for_each(|says| assert!(text.contains(says), "{words}: {text}"));
    }
    for (words, says) in [
        ("fib lookup 10.0.0.1 iif nowhere", "there is no port 'nowhere'"),
        ("fib lookup", "an address is required"),
        ("fib look", "show fib lookup ADDR"),
        ("fib lookup 10.0.0.1 mark x", "\"mark\" value is invalid"),
        ("fib lookup 10.0.0.1 from fe80::1", "of one version"),
    ] {
        let (code, why) = both.ours(&["show"], words).expect_err(words);
        assert!(code == Some(2) && why.contains(says), "{words}: {code:?} {why}");
    }
    assert_eq!(both.world.end(Signal::TERM), 0);
}
